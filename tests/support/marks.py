"""Marks some cases of a parametrized test as long."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def long_but(always: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Return a parameter's values, marked as long except those in `always`, which `make test` runs."""
    return [pytest.param(case, marks=[pytest.mark.long] * (case not in always)) for case in cases]

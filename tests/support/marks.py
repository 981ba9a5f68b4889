"""Which cases of a test are long ones."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def long_but(always: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """The values of a parameter: `make test` runs those that are always run, `make test-long` the others."""
    return [pytest.param(case, marks=[pytest.mark.long] * (case not in always)) for case in cases]

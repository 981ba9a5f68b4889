"""Which cases of a test are long ones."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def long_but(always: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Return a parameter's values: `make test` runs those in `always`, `make test-long` the others."""
    return [pytest.param(case, marks=[pytest.mark.long] * (case not in always)) for case in cases]

"""Conversion of values in logs: each function returns None, or nothing, for a value of another kind."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from registry.logs.record import only

_LONGEST_NUMBER: Final = 200
"""A longer text is not a number, alone or in a pair."""

_UNDERFLOW: Final = -600.0
"""Below this log-likelihood, a probability cannot be distinguished from 0."""


def text_of(value: Any) -> str | None:
    """Return a value if it is a text, else None."""
    return value if isinstance(value, str) else None


def number_of(value: Any) -> float | None:
    """Return a value as a finite number; a truth value is 0 or 1; None for anything else."""
    if isinstance(value, bool):
        return float(value)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def object_of(value: Any) -> Mapping[str, Any]:
    """Return a value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def texts_of(value: Any) -> tuple[str, ...]:
    """Return the items of a list as texts; nothing if the value is not a list."""
    if not isinstance(value, list):
        return ()
    return tuple(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in value)


def likelihood_of(value: Any) -> float | None:
    """Return a log-likelihood that is written alone, or in a pair with whether it is the greedy answer."""
    value = only(value)
    value = value[0] if isinstance(value, list) and value else value
    if isinstance(value, str) and len(value) > _LONGEST_NUMBER:
        return None
    if isinstance(value, str):
        try:
            value = float(value.strip("()[] ").split(",")[0].strip("' "))
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def weights_of(values: Sequence[float]) -> tuple[float, ...]:
    """Return weights proportional to the probabilities of log-likelihoods, some of which may be minus infinity."""
    highest = max(values)
    if highest == -math.inf:
        return tuple(1.0 for _ in values)  # the harness takes the first of equals
    return tuple(math.exp(value - (highest if highest < _UNDERFLOW else 0.0)) for value in values)

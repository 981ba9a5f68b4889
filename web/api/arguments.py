"""Query parameters of the API: each is declared once, read by its route and documented in the OpenAPI document."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from registry.db import MAX_ROW_ID
from registry.metrics import METRICS
from registry.tables import EVALUATION_STATES, MODEL_KINDS
from web import board, parameters, queries
from web.parameters import Arguments

T = TypeVar("T")

MAX_PER_PAGE: Final = 1000


@dataclass(frozen=True)
class Argument(Generic[T]):
    """A query parameter. schema: what the OpenAPI document says of it; read: its value, or its default.

    `read` raises UsageError, naming parameter, value and remedy. An empty value counts as an absent one.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    read: Callable[[Arguments], T]
    required: bool = False


def whole(name: str, description: str, low: int, high: int, default: int) -> Argument[int]:
    """A whole number between `low` and `high`."""
    schema = {"type": "integer", "minimum": low, "maximum": high, "default": default}
    return Argument(name, description, schema, lambda given: parameters.whole(given, name, default, low, high))


def bound(name: str, description: str, high: int = MAX_ROW_ID) -> Argument[int | None]:
    """A whole number from 0 on, absent by default."""
    schema = {"type": "integer", "minimum": 0, "maximum": min(high, 10**18 - 1)}

    def read(given: Arguments) -> int | None:
        return parameters.whole(given, name, 0, 0, schema["maximum"]) if given.get(name) else None  # type: ignore[arg-type]

    return Argument(name, description, schema, read)


def choice(name: str, description: str, choices: Collection[str], default: str | None = None) -> Argument[str]:
    """One of `choices`; empty when it is absent and has no default."""
    schema: dict[str, Any] = {"type": "string", "enum": list(choices)}
    if default is not None:
        schema["default"] = default
    return Argument(name, description, schema, lambda given: parameters.choice(given, name, choices, default or ""))


def words(name: str, description: str) -> Argument[str | None]:
    """A text to filter by."""
    return Argument(name, description, {"type": "string", "maxLength": 200}, lambda given: parameters.text(given, name))


def time(name: str, description: str, *, end: bool) -> Argument[datetime | None]:
    """A date or a time, UTC where no zone is given; a date is taken to its end if `end`, else to its beginning."""

    def read(given: Arguments) -> datetime | None:
        return parameters.time(given, name, end=end)

    schema = {"type": "string", "maxLength": 200, "examples": ["2026-11-21", "2026-11-21T13:00:00+00:00"]}
    return Argument(name, description, schema, read)


def flag(name: str, description: str) -> Argument[bool]:
    """`yes` or `no`, which is the default."""
    schema = {"type": "string", "enum": ["yes", "no"], "default": "no"}
    return Argument(
        name, description, schema, lambda given: parameters.choice(given, name, ("yes", "no"), "no") == "yes"
    )


PAGE: Final = whole("page", "Which page, from 1.", 1, parameters.MAX_PAGE, 1)
PER_PAGE: Final = whole("per_page", "Items on a page.", 1, MAX_PER_PAGE, 100)
PAGING: Final = (PAGE, PER_PAGE)
ROWS_PER_PAGE: Final = whole("per_page", "Rows on a page.", 1, MAX_PER_PAGE, MAX_PER_PAGE)
LIMIT: Final = whole("limit", "Predictions on a page.", 1, MAX_PER_PAGE, MAX_PER_PAGE)

MODEL: Final = words("model", "Only this model.")
BENCHMARK: Final = words("benchmark", "Only this benchmark.")
PROTOCOL: Final = words("protocol", "Only this protocol, such as symbols.")
VARIANTS: Final = words("variants", "Only this set of variants, such as cyclic.")
SHOTS: Final = bound("shots", "Only with so many examples.", 1000)
FAMILY: Final = words("family", "Only models of this family.")
KIND: Final = choice("kind", "Only model revisions of this kind.", MODEL_KINDS)
MIN_PARAMETERS: Final = bound("min_parameters", "Only models with at least so many parameters.")
MAX_PARAMETERS: Final = bound("max_parameters", "Only models with at most so many parameters.")
SEALED_FROM: Final = time("sealed_from", "Only evaluations sealed at this date or time, or later.", end=False)
SEALED_TO: Final = time("sealed_to", "Only evaluations sealed at this date or time, or earlier.", end=True)
SUBJECT: Final = words("subject", "Metrics over the questions of this subject; only evaluations that ask some.")
STATE: Final = choice("state", "Only evaluations in this state.", EVALUATION_STATES)
PART_OF_NAME: Final = words("q", "Only models whose name contains this; letter case does not count.")
SORT: Final = choice("sort", "Column to sort by; worst accuracy, or else the first metric asked for.", board.SORTS)
ORDER: Final = choice("order", "Direction; by default, what puts the best on top.", ("asc", "desc"))
GROUP: Final = choice(
    "group", "Whether evaluations that were asked the same stand together.", ("yes", "no"), default="yes"
)
METRIC_NAMES: Final = Argument(
    "metrics",
    "Metrics to rank and sort by; rows have all of them. Repeated, or separated by commas.",
    {"type": "array", "items": {"type": "string", "enum": list(METRICS)}},
    parameters.metrics,
)
ONLY: Final = choice("only", "Which questions to keep.", queries.QUESTION_FILTERS, default="all")
AS_OF: Final = time("as_of", "As it stood at this date (its end) or time, UTC where no zone is given.", end=True)
PAPER: Final = words("paper", "Only this paper: part of its label, such as cavalin.")
METRIC: Final = words("metric", "Only this metric: the paper's name for it, or this registry's.")

"""Parameters of requests, read by pydantic: query strings, paths and bodies are models of the types below.

Invalid values are refused in one line that names the parameter, its value and the remedy.
"""

from collections.abc import Collection
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Annotated, Any, Final, Literal, TypeVar, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from werkzeug.datastructures import MultiDict

from registry.digests import DIGEST_LENGTH
from registry.errors import UsageError
from registry.fields import NUMBER, Between, OneOf, Remedy
from registry.leaderboard.selection import ASKED_HOW, OPENNESS
from registry.metrics import METRICS
from registry.metrics.catalogue import HEADLINES
from registry.names import check_name
from registry.tables import MODEL_KINDS
from registry.untrusted import problem_of_text

Arguments = MultiDict[str, str]
M = TypeVar("M", bound=BaseModel)

DEFAULT_METRICS: Final = HEADLINES
MOST_PINNED: Final = 3
"""Most pinned columns: with more there is no space for the columns that scroll."""
MAX_PAGE: Final = 1_000_000
MAX_PER_PAGE: Final = 1000
"""Items on a page of the API."""
MAX_ID: Final = 10**18 - 1
"""Largest id: 18 digits fit the database's 64-bit integers."""


def shorten(value: str, length: int = 60) -> str:
    """Shorten a value for quoting in a message."""
    return repr(value if len(value) <= length else value[: length - 1] + "…")


# Types of values


def _moment(value: Any, *, end: bool) -> datetime:
    """Return a date or a time, in UTC if it has no zone; a date means its end if `end` is set, else its beginning."""
    text = str(value).strip()
    try:
        # A "+" of a zone arrives as a blank if a URL was not encoded.
        moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        if end and len(text) == len("2026-11-21"):
            moment = moment.replace(hour=23, minute=59, second=59, microsecond=999_999)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("give a date or time such as 2026-11-21 or 2026-11-21T13:00") from None


def _split(values: Any) -> list[str]:
    return [item for value in values for item in value.split(",") if item]


def _once(asked: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(asked)) or DEFAULT_METRICS


def _storable(text: str) -> str:
    if problem_of_text(text) is not None:
        raise ValueError
    return text


_TIME: Final = WithJsonSchema(
    {"type": "string", "maxLength": 200, "examples": ["2026-11-21", "2026-11-21T13:00:00+00:00"]}
)
Id = Annotated[int, Between(1, MAX_ID)]
Name = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9._-]{1,200}$"),
    Remedy("use up to 200 letters, digits, '.', '_' and '-'"),
]
Digest = Annotated[
    str,
    Field(pattern=f"^[0-9a-f]{{{DIGEST_LENGTH}}}$"),
    Remedy(f"give its digest, {DIGEST_LENGTH} hexadecimal digits"),
]
Text = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=200),
    AfterValidator(_storable),
    Remedy("give up to 200 characters of plain text"),
]
"""A text to filter by."""
YesOrNo = Annotated[str, OneOf(("yes", "no"))]
Papers = Annotated[YesOrNo, Field(description="Whether to include metrics that are there for papers' tables alone.")]
TimeFrom = Annotated[datetime, BeforeValidator(partial(_moment, end=False)), _TIME]
"""A date or time, UTC without a zone; a date means its beginning."""
TimeTo = Annotated[datetime, BeforeValidator(partial(_moment, end=True)), _TIME]
"""A date or time, UTC without a zone; a date means its end."""
MetricNames = Annotated[
    tuple[Annotated[str, OneOf(tuple(METRICS))], ...], BeforeValidator(_split), AfterValidator(_once)
]
"""Metrics in the requested order, each once: `metrics=a,b` or `metrics=a&metrics=b`."""
NoiseFrom = Annotated[
    Id | None,
    Field(description="The evaluation whose repeats say how noisy this one is; one is looked for where none is given."),
]


# Models of query strings


class Query(BaseModel):
    """A query string. A parameter that is empty counts as absent."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Paged(Query):
    """The requested part of a list."""

    page: Annotated[int, Between(1, MAX_PAGE), Field(description="Which page, from 1.")] = 1
    per_page: Annotated[int, Between(1, MAX_PER_PAGE), Field(description="Items on a page.")] = 100

    @property
    def offset(self) -> int:
        """Return the number of items on earlier pages."""
        return (self.page - 1) * self.per_page


class Filters(Query):
    """Filters of the leaderboard and of the list of evaluations, as pages and as JSON; None keeps all."""

    benchmark: Text | None = Field(None, description="Only this benchmark.")
    subject: Text | None = Field(
        None, description="Metrics over the questions of this subject; only evaluations that ask some."
    )
    protocol: Text | None = Field(None, description="Only this protocol, such as symbols.")
    shots: Annotated[int, Between(0, 1000)] | None = Field(None, description="Only with so many examples.")
    variants: Text | None = Field(None, description="Only this set of variants, such as cyclic.")
    model: Text | None = Field(None, description="Only this model.")
    q: Text | None = Field(None, description="Only models whose name contains this; letter case does not count.")
    family: Text | None = Field(None, description="Only models of this family.")
    licence: Text | None = Field(None, description="Only models under this licence, as it was registered.")
    kind: Annotated[str, OneOf(MODEL_KINDS)] | None = Field(None, description="Only model revisions of this kind.")
    min_parameters: Annotated[int, Between(0, MAX_ID)] | None = Field(
        None, description="Only models with at least so many parameters."
    )
    max_parameters: Annotated[int, Between(0, MAX_ID)] | None = Field(
        None, description="Only models with at most so many parameters."
    )
    openness: Annotated[str, OneOf(tuple(OPENNESS))] | None = Field(
        None, description="Only models whose weights anyone may download, or those whose weights nobody may."
    )
    released_from: TimeFrom | None = Field(None, description="Only models released on this day or later.")
    released_to: TimeTo | None = Field(None, description="Only models released on this day or earlier.")
    sealed_from: TimeFrom | None = Field(None, description="Only evaluations sealed at this date or time, or later.")
    sealed_to: TimeTo | None = Field(None, description="Only evaluations sealed at this date or time, or earlier.")
    asked: Annotated[str, OneOf(tuple(ASKED_HOW))] | None = Field(
        None,
        description="Only evaluations that asked in one order, by repeats of one prompt, or in several orders.",
    )


def read(kind: type[M], given: Arguments, *, others: bool = False) -> M:
    """Return a query string as `kind`. others: ignore parameters that `kind` does not have, instead of refusing them.

    Raises UsageError for an invalid value.
    """
    fields = kind.model_fields
    values: dict[str, Any] = {} if others else {name: given[name] for name in given if name not in fields}
    for name, field in fields.items():
        filled = [value for value in given.getlist(name) if value.strip()]
        if filled:
            values[name] = filled if get_origin(field.annotation) is tuple else filled[0]
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise UsageError(refusal(error, kind, "parameter")) from None


def refusal(error: ValidationError, kind: type[BaseModel], what: Literal["parameter", "key"]) -> str:
    """Return the first problem in one line: its parameter, value and remedy.

    Values of fields without repr stay secret.
    """
    problems = error.errors(include_url=False)
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    # The number of a value among several adds nothing to the value.
    location = [str(part) for part in first["loc"] if what == "key" or isinstance(part, str)]
    place, field = ".".join(location)[:200], kind.model_fields.get(location[0]) if location else None
    if first["type"] == "extra_forbidden":
        alternatives = f"; known: {', '.join(kind.model_fields) or 'none'}" if field is None else ""
        return f"unknown {what} {shorten(place)}{alternatives}"
    if first["type"] == "missing":
        return f"{what} {place!r} is missing; give it"
    message, value = first["msg"].removeprefix("Value error, "), first["input"]
    if field is None:
        return message if first["type"] == "value_error" else f"the body: {message}"
    shown = shorten(value) if isinstance(value, str) else repr(value)[:60]
    secret = not field.repr or isinstance(value, dict | list)
    return f"{place}: {message}" if secret else f"{place}={shown}: {message}"


# Single parameters of pages, which ignore unknown ones


@lru_cache
def _alone(name: str, kind: Any) -> type[Query]:
    field: dict[str, Any] = {name: (kind, None)}
    return create_model("Parameter", __base__=Query, **field)


def _one(arguments: Arguments, name: str, kind: Any) -> Any:
    return getattr(read(_alone(name, kind), arguments, others=True), name)


def whole(arguments: Arguments, key: str, default: int, low: int, high: int) -> int:
    """Return a whole number from the query string between `low` and `high`."""
    value = _one(arguments, key, Annotated[int, Between(low, high)])
    return default if value is None else int(value)


def choice(arguments: Arguments, key: str, choices: Collection[str], default: str) -> str:
    """Return the value of a parameter, which must be one of `choices`."""
    return _one(arguments, key, Annotated[str, OneOf(tuple(choices))]) or default


def text(arguments: Arguments, key: str) -> str | None:
    """Return a text to filter by; None if it is absent or empty."""
    value: str | None = _one(arguments, key, Text)
    return value


def names(arguments: Arguments, key: str, most: int) -> list[str]:
    """Return the names in a repeated parameter, each once. Raises UsageError if there are more than `most`."""
    distinct = list(dict.fromkeys(value.strip() for value in arguments.getlist(key) if value.strip()))
    if len(distinct) > most:
        raise UsageError(f"{key} is given {len(distinct)} times: give at most {most}")
    return [name(key, value) for value in distinct]


def time(arguments: Arguments, key: str, *, end: bool) -> datetime | None:
    """Return a date or a time, in UTC if it has no zone; a date means its end if `end` is set, else its beginning."""
    moment: datetime | None = _one(arguments, key, TimeTo if end else TimeFrom)
    return moment


def metrics(arguments: Arguments) -> tuple[str, ...]:
    """Return the metrics to show, in the requested order."""
    return _one(arguments, "metrics", MetricNames) or DEFAULT_METRICS


def read_pinned(arguments: Arguments) -> tuple[str, ...]:
    """Return the metrics whose columns stay in view, at most MOST_PINNED."""
    listed = _split(arguments.getlist("pin"))
    pinned: tuple[str, ...] = _one(arguments, "pin", MetricNames) if listed else ()
    if len(pinned) > MOST_PINNED:
        raise UsageError(f"pin={shorten(','.join(pinned))}: pin at most {MOST_PINNED} columns")
    return pinned


def paging(arguments: Arguments, *, per_page: int, most: int) -> tuple[int, int]:
    """Return the requested page and the rows per page."""
    return whole(arguments, "page", 1, 1, MAX_PAGE), whole(arguments, "per_page", per_page, 1, most)


def filters(arguments: Arguments) -> dict[str, Any]:
    """Return the leaderboard's filters in the query string, by name."""
    return read(Filters, arguments, others=True).model_dump(exclude_none=True)


# Parts of a page's path


def identifier(what: str, value: str) -> int:
    """Return an id from the path."""
    if not NUMBER.fullmatch(value):
        raise UsageError(f"{what} {shorten(value)}: ids are whole numbers from 1, such as 17")
    return int(value)


def name(what: str, value: str) -> str:
    """Return a model's or benchmark's name from the path."""
    if len(value) > 200:
        raise UsageError(f"{what} name {shorten(value)}: use up to 200 letters, digits, '.', '_' and '-'")
    return check_name(what, value)

"""Reading what a URL asks for. Whatever cannot be right is a UsageError naming parameter, value and remedy."""

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final

from werkzeug.datastructures import MultiDict

from registry.errors import UsageError
from registry.metrics import METRICS
from registry.names import check_name

Arguments = MultiDict[str, str]

DEFAULT_METRICS: Final = ("accuracy", "worst_accuracy", "fluctuation_rate", "cora", "npsq_accuracy")
"""The five headline metrics, as in the view `board_headlines`; in the catalogue's order."""
MAX_PAGE: Final = 1_000_000

# 18 digits fit the database's 64-bit integers; [0-9] since int() also reads other scripts' digits.
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def shorten(value: str, length: int = 60) -> str:
    """`value` as a message can quote it."""
    return repr(value if len(value) <= length else value[: length - 1] + "…")


def identifier(what: str, value: str) -> int:
    """An id from the path."""
    if not _NUMBER.fullmatch(value):
        raise UsageError(f"{what} {shorten(value)}: ids are whole numbers from 1, such as 17")
    return int(value)


def name(what: str, value: str) -> str:
    """A model's or benchmark's name from the path."""
    if len(value) > 200:
        raise UsageError(f"{what} name {shorten(value)}: use up to 200 letters, digits, '.', '_' and '-'")
    return check_name(what, value)


def whole(arguments: Arguments, key: str, default: int, low: int, high: int) -> int:
    """A whole number of the query string between `low` and `high`."""
    value = arguments.get(key)
    if value is None or value == "":
        return default
    if not _NUMBER.fullmatch(value) or not low <= int(value) <= high:
        raise UsageError(f"{key}={shorten(value)}: give a whole number from {low} to {high}")
    return int(value)


def choice(arguments: Arguments, key: str, choices: Collection[str], default: str) -> str:
    """One of `choices`."""
    value = arguments.get(key)
    if value is None or value == "":
        return default
    if value not in choices:
        raise UsageError(f"{key}={shorten(value)}: use one of {', '.join(choices)}")
    return value


def text(arguments: Arguments, key: str) -> str | None:
    """A text to filter by; None where it is absent or empty."""
    value = arguments.get(key, "").strip()
    if len(value) > 200 or "\x00" in value:
        raise UsageError(f"{key}={shorten(value)}: give up to 200 characters of plain text")
    return value or None


def time(arguments: Arguments, key: str, *, end: bool) -> datetime | None:
    """A date or a time, UTC where no zone is given; a date is taken to its end if `end`, else to its beginning."""
    value = text(arguments, key)
    if value is None:
        return None
    try:
        # A "+" of a zone arrives as a blank where a URL was not encoded.
        moment = datetime.fromisoformat(value.replace(" ", "+") if "T" in value else value)
        if end and len(value) == len("2026-11-21"):
            moment = moment.replace(hour=23, minute=59, second=59, microsecond=999_999)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{key}={shorten(value)}: give a date or time such as 2026-11-21 or 2026-11-21T13:00"
        ) from None


def metrics(arguments: Arguments) -> tuple[str, ...]:
    """The metrics to show, in the catalogue's order: `metrics=a,b` or `metrics=a&metrics=b`."""
    asked = [item for value in arguments.getlist("metrics") for item in value.split(",") if item]
    for item in asked:
        if item not in METRICS:
            raise UsageError(f"metrics={shorten(item)}: no such metric; use some of {', '.join(METRICS)}")
    return tuple(key for key in METRICS if key in asked) or tuple(key for key in DEFAULT_METRICS if key in METRICS)


def paging(arguments: Arguments, *, per_page: int, most: int) -> tuple[int, int]:
    """(page, per_page)."""
    return whole(arguments, "page", 1, 1, MAX_PAGE), whole(arguments, "per_page", per_page, 1, most)


def only(arguments: Mapping[str, str], known: Collection[str]) -> None:
    """Refuses parameters that nothing reads: a misspelt filter would answer with everything."""
    for key in arguments:
        if key not in known:
            listed = ", ".join(known) or "none"
            raise UsageError(f"parameter {shorten(key)} is not known here; known: {listed}")

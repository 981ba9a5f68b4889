"""Names of benchmarks, models, suites and boards: one alphabet, case kept; and nouns with their numbers."""

import re
from collections.abc import Iterable
from datetime import date
from difflib import get_close_matches
from typing import Final

from registry.errors import UsageError

LISTED: Final = 20
"""Number of known names in an error about an unknown one."""
MAX_LABEL: Final = 500
"""Most characters of a name in a file: of a question, a subject, a task.

An index of either database has the same limit.
"""
CLOSE: Final = 0.75
"""Least similarity of a typed name to the beginning of a known one, from 0 to 1."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def check_name(what: str, name: str) -> str:
    """Return `name` if it consists of letters, digits, `.`, `_` and `-`; else raise UsageError."""
    if not _NAME.fullmatch(name) or len(name) > 200 or name in (".", ".."):
        shown = name if len(name) <= 200 else f"{name[:200]}…"
        raise UsageError(f"{what} name {shown!r}: use up to 200 letters, digits, '.', '_' and '-'")
    return name


def check_day(what: str, text: str) -> str:
    """Return `text` if it is a day, YYYY-MM-DD; else raise UsageError."""
    try:
        known = date.fromisoformat(text).isoformat() == text
    except ValueError:
        known = False
    if not known:
        raise UsageError(f"{what} {text[:40]!r}: give a day, YYYY-MM-DD, such as 2025-01-31")
    return text


def split_reference(reference: str) -> tuple[str, str | None]:
    """Split `NAME` or `NAME@VERSION` into (name, version)."""
    name, at, version = reference.partition("@")
    return name, version if at else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` with the most similar known names; empty without any."""
    if not name:
        return ""
    by_lower = {one.lower(): one for one in known}
    typed = name.lower()
    alike = get_close_matches(typed, by_lower)
    if not alike:  # Names of models are long, and people type their beginning.
        beginnings = {one[: len(typed)]: one for one in sorted(by_lower, key=len, reverse=True)}
        alike = [beginnings[one] for one in get_close_matches(typed, beginnings, cutoff=CLOSE)]
    alike = [by_lower[one] for one in alike]
    return f" (did you mean {' or '.join(alike)}?)" if alike else ""


def suggest_names(name: str, known: Iterable[str], *, none: str = "there is none yet") -> str:
    """Return the end of a message about an unknown name: the likeliest known ones, or else the first LISTED of all."""
    names = list(known)
    if not names:
        return f"; {none}"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return suggestion(name, names) or f"; known: {', '.join(names[:LISTED])}{more}"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 question` or `12,032 questions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

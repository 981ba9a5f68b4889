"""Names of benchmarks, models, suites and boards: their allowed characters, and suggestions for unknown names."""

import re
from collections.abc import Iterable, Sequence
from datetime import date
from difflib import get_close_matches
from typing import Final

from registry.errors import UsageError

LISTED: Final = 5
"""Most names that an error about an unknown name lists."""
MAX_LABEL: Final = 500
"""Longest name in a file, in characters: of a question, a subject or a task.

Both databases limit the length of the values in an index.
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
        is_day = date.fromisoformat(text).isoformat() == text
    except ValueError:
        is_day = False
    if not is_day:
        raise UsageError(f"{what} {text[:40]!r}: give a day, YYYY-MM-DD, such as 2025-01-31")
    return text


def split_reference(reference: str) -> tuple[str, str | None]:
    """Split `NAME` or `NAME@VERSION` into (name, version)."""
    name, at, version = reference.partition("@")
    return name, version if at else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean …?)` with the most similar known names; empty if none is similar."""
    if not name:
        return ""
    by_lower = {one.lower(): one for one in known}
    typed = name.lower()
    similar = get_close_matches(typed, by_lower)
    if not similar:  # Names of models are long, and people type their beginning.
        beginnings = {one[: len(typed)]: one for one in sorted(by_lower, key=len, reverse=True)}
        similar = [beginnings[one] for one in get_close_matches(typed, beginnings, cutoff=CLOSE)]
    similar = [by_lower[one] for one in similar]
    return f" (did you mean {' or '.join(similar)}?)" if similar else ""


def suggest_names(name: str, known: Iterable[str], *, none: str = "there is none yet", remedy: str = "") -> str:
    """Return the end of an error about an unknown name: similar known names and the remedy.

    Without similar names, the first LISTED known names come after the remedy. none: the text if there are no known
    names.
    """
    names = list(known)
    remedy = f"; {remedy}" if remedy else ""
    if not names:
        return f"; {none}{remedy}"
    similar = suggestion(name, names)
    return f"{similar}{remedy}" if similar else f"{remedy}; known: {list_first(names)}"


def list_first(names: Sequence[str]) -> str:
    """Return the first LISTED names and the number of the others, such as `a, b, c, d, e and 3 more`."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{', '.join(names[:LISTED])}{more}"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 question` or `12,032 questions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

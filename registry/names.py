"""Names of benchmarks, models, suites and boards: one alphabet, case kept."""

import re

from registry.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def check_name(what: str, name: str) -> str:
    """`name` if it is made of letters, digits, `.`, `_` and `-`; else UsageError."""
    if not _NAME.fullmatch(name) or len(name) > 200 or name in (".", ".."):
        raise UsageError(f"{what} name {name!r}: use up to 200 letters, digits, '.', '_' and '-'")
    return name


def split_reference(reference: str) -> tuple[str, str | None]:
    """`NAME` or `NAME@VERSION` as (name, version)."""
    name, at, version = reference.partition("@")
    return name, version if at else None

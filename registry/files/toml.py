"""Definitions in users' files: texts of limited size, and TOML without values that no interface accepts."""

import re
import tomllib
from decimal import Decimal
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from registry.errors import IngestError
from registry.files.absent import refuse_pipe
from registry.untrusted import MAX_DEPTH, RefusedError, TooDeepError, check

MAX_FILE_BYTES: Final = 1_000_000
_PART: Final = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\]|\\.)*+"|'[^']*+')"""
_DEEP_KEY: Final = re.compile(rf"\s*+\[*+\s*+{_PART}(?:\s*+\.\s*+{_PART}){{{MAX_DEPTH},}}")


def read_definition(path: Path | Traversable) -> str:
    """Return the text of a definition's file. Raises IngestError naming file, problem and remedy."""
    if isinstance(path, Path):
        refuse_pipe(path)
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise IngestError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    if len(content) > MAX_FILE_BYTES:
        raise IngestError(
            f"{path.name}: is larger than {MAX_FILE_BYTES:,} bytes, too large for a definition; check the file"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise IngestError(f"{path.name}: is not UTF-8; save it as UTF-8") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return the document of a TOML file. Raises IngestError naming file, problem and remedy."""
    return parse_toml(read_definition(path), path.name)


def parse_toml(text: str, name: str, *, exactly: bool = False) -> dict[str, Any]:
    """Parse TOML. name: the file's name in messages. exactly: numbers with a point become Decimal.

    Raises IngestError.
    """
    try:
        _require_shallow(text)
        document = tomllib.loads(text, parse_float=Decimal if exactly else float)  # noqa: TID251 - bounded and checked here
        check(document, name)
    except RefusedError as error:
        raise IngestError(f"{name}: {error}") from None
    except (ValueError, RecursionError) as error:
        reason = "a number has thousands of digits" if "integer string" in str(error) else str(error)[:200]
        raise IngestError(f"{name}: not valid TOML: {reason}; correct the file") from None
    return document


def _require_shallow(text: str) -> None:
    """Raise TooDeepError for a key of many parts: each is a level, and the time of parsing grows with their square."""
    for line in text.splitlines():
        if line.count(".") > MAX_DEPTH and _DEEP_KEY.match(line):
            raise TooDeepError("a key")

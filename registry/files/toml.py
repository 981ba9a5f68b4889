"""Definitions that users write as files: read whole, within a size; TOML free of what no door lets in."""

import tomllib
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from registry.errors import IngestError
from registry.untrusted import RefusedError, check

MAX_FILE_BYTES: Final = 1_000_000


def read_definition(path: Path | Traversable) -> str:
    """The text of a file. Raises IngestError naming file, problem and remedy."""
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
    """The document of a file. Raises IngestError naming file, problem and remedy."""
    text = read_definition(path)
    try:
        document = tomllib.loads(text)
        check(document, path.name)
    except RefusedError as error:
        raise IngestError(f"{path.name}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise IngestError(f"{path.name}: not valid TOML: {str(error)[:200]}; correct the file") from None
    return document

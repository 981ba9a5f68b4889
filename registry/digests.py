"""SHA-256 digests of files and specifications."""

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

DIGEST_LENGTH = 64
_CHUNK = 1 << 20


def sha256_text(text: str) -> str:
    """Return the SHA-256 of the UTF-8 bytes of `text`, as 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def canonical_json(document: Any) -> str:
    """Serialise a document so that equal documents give the same text: sorted keys, no blanks, decimals as strings.

    Floats are refused, since their text depends on the writer: a specification contains decimals.
    """
    return json.dumps(
        _convert_decimals(document), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )


def specification_digest(specification: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical JSON of a specification, which contains no database ids."""
    return sha256_text(canonical_json(specification))


def _convert_decimals(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float):
        message = f"a specification holds a float ({value!r}); give it as a Decimal"
        raise TypeError(message)
    if isinstance(value, Mapping):
        return {str(key): _convert_decimals(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_convert_decimals(item) for item in value]
    return value

"""Manifests of exported folders: the file that lists all other files."""

from pathlib import Path
from typing import Final

from registry.errors import IngestError
from registry.files.documents import read_document

MANIFEST: Final = "manifest.json"
LONGEST: Final = 16 << 20
"""Most bytes of a manifest, which is read into memory."""


def format_of(path: Path) -> str | None:
    """Return the format that a folder's manifest names; None if it has no readable manifest."""
    file = path / MANIFEST
    if file.is_symlink() or not file.is_file() or file.stat().st_size > LONGEST:
        return None
    try:
        document = read_document(file)
    except IngestError:
        return None
    format_ = document.get("format") if isinstance(document, dict) else None
    return format_ if isinstance(format_, str) else None

"""Digests of large files, computed once: 30 GB of weights take half a minute, and are loaded again and again.

A digest is remembered with the file's size, times and inode. The time of change of an inode (ctime) moves with every
write and cannot be set back, so content that was exchanged under an old date is noticed.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from registry.digests import sha256_file, sha256_text
from registry.private import close, make_folder
from registry.settings import get_settings

SETTLED_SECONDS: Final = 2.0
"""A file that changed so recently may change again within the same tick of its clock, and is not remembered."""


def remember_sha256(path: Path) -> str:
    """Return the SHA-256 of a file that only the operator changes, reading it only after a change."""
    resolved = path.resolve()
    seen = _identity(resolved)
    memory = get_settings().home.expanduser() / "digests" / f"{sha256_text(str(resolved))}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(memory.read_text(encoding="ascii"))  # noqa: TID251 - our own
        if known["file"] == seen:
            return str(known["sha256"])
    digest = sha256_file(resolved)
    if _identity(resolved) == seen and time.time() - max(seen[1:3]) / 1e9 > SETTLED_SECONDS:
        with suppress(OSError):  # a full or read-only disk costs time, not correctness
            _write(memory, json.dumps({"file": seen, "sha256": digest}))
    return digest


def _identity(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _write(path: Path, text: str) -> None:
    """Write it in one step, since workers of one host share the folder."""
    make_folder(path.parent)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(text, encoding="ascii")
    close(part)
    part.replace(path)

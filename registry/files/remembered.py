"""Cached digests of large files: digesting 30 GB of weights takes half a minute, and they are loaded often.

A digest is stored with the file's size, times and inode. The time of change of an inode (ctime) changes with every
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
"""Age from which a digest is stored: a younger file may change again within the same tick of its clock."""


def remember_sha256(path: Path) -> str:
    """Return the SHA-256 of a file that only the operator can change, reading the file only if it has changed."""
    resolved = path.resolve()
    identity = _identity(resolved)
    memory = get_settings().home.expanduser() / "digests" / f"{sha256_text(str(resolved))}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(memory.read_text(encoding="ascii"))  # noqa: TID251 - our own
        if stored["file"] == identity:
            return str(stored["sha256"])
    digest = sha256_file(resolved)
    if _identity(resolved) == identity and time.time() - max(identity[1:3]) / 1e9 > SETTLED_SECONDS:
        with suppress(OSError):  # a full or read-only disk costs time, not correctness
            _write(memory, json.dumps({"file": identity, "sha256": digest}))
    return digest


def _identity(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _write(path: Path, text: str) -> None:
    """Replace a file in one step, since workers of one host share the folder."""
    make_folder(path.parent)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(text, encoding="ascii")
    close(part)
    part.replace(path)

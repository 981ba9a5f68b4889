"""The folder of a published site: writes changed files, and removes files without a link to them."""

import hashlib
from pathlib import Path
from typing import Final

from registry.errors import UsageError
from registry.files.storage import writing

CHECKSUMS: Final = "SHA256SUMS"
"""The file that lists every file with its digest, as `sha256sum --check` reads it. Written last."""


class Folder:
    """Files by name, each written completely or not at all. Raises UsageError for a folder with other content."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._digests: dict[str, str] = {}
        self.bytes = 0
        self.changed = 0
        if root.exists() and not root.is_dir():
            raise UsageError(f"--to {root}: this is a file; name a folder")
        if root.is_dir() and any(root.iterdir()) and not (root / CHECKSUMS).is_file():
            raise UsageError(
                f"--to {root}: this folder holds something that was not published by this command; "
                "name a new or an empty folder"
            )
        self._before = self._read_checksums()
        with writing(root):
            root.mkdir(parents=True, exist_ok=True)

    def _read_checksums(self) -> dict[str, str]:
        """Return the files in the folder's checksums, with their digests."""
        listing = self._root / CHECKSUMS
        if not listing.is_file():
            return {}
        lines = listing.read_text(encoding="utf-8").splitlines()
        listed = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
        for name in listed:
            self._path(name)
        return listed

    def write(self, name: str, body: bytes) -> None:
        """Write a file; an identical one is left alone."""
        if name not in self._before and not self._before and not self._digests:
            # If a first run is killed, the next run recognises its folder by this file.
            self._write(CHECKSUMS, b"")
        digest = hashlib.sha256(body).hexdigest()
        self._digests[name] = digest
        self.bytes += len(body)
        path = self._path(name)
        if path.is_file() and path.stat().st_size == len(body) and path.read_bytes() == body:
            return
        self._write(name, body)
        self.changed += 1

    def _path(self, name: str) -> Path:
        """Return the file's path. Raises UsageError for a path outside the folder."""
        path = self._root / name
        if not name or not path.resolve().is_relative_to(self._root.resolve()):
            raise UsageError(f"--to {self._root}: {CHECKSUMS} or a link there leads to {name!r}, outside of the folder")
        return path

    def _write(self, name: str, body: bytes) -> None:
        path = self._path(name)
        partial = path.with_name(f".{path.name}.partial")
        with writing(self._root):
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(body)
            partial.replace(path)

    def finish(self) -> int:
        """Delete files that an earlier run wrote and this one did not, and write the checksums.

        Returns the number of deleted files.
        """
        gone = sorted(self._before.keys() - self._digests.keys())
        for name in gone:
            path = self._path(name)
            path.unlink(missing_ok=True)
            for parent in path.relative_to(self._root).parents:
                if parent != Path() and (self._root / parent).is_dir() and not any((self._root / parent).iterdir()):
                    (self._root / parent).rmdir()
        lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(self._digests.items()))
        self._write(CHECKSUMS, lines.encode())
        return len(gone)

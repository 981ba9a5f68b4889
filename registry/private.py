"""Folders and files of the data directory: only their owner may read them, whatever the umask."""

import stat
from collections.abc import Iterator
from pathlib import Path

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""Permissions of everyone but the owner."""


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, each with mode 0700."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def close(path: Path) -> None:
    """Remove other users' permissions on a new file, or on a new folder and everything in it."""
    for each in (path, *path.rglob("*")) if path.is_dir() else (path,):
        if not each.is_symlink():
            each.chmod(stat.S_IMODE(each.stat().st_mode) & ~OTHERS)


def open_to_others(folder: Path, owner: int) -> Iterator[Path]:
    """Yield the folder and the paths in it that belong to `owner` and that other users may access.

    The contents of a folder that only its owner may enter are not listed.
    """
    status = folder.lstat()
    if status.st_uid == owner and status.st_mode & OTHERS and not stat.S_ISLNK(status.st_mode):
        yield folder
    if stat.S_ISDIR(status.st_mode) and (status.st_mode & OTHERS or status.st_uid != owner):
        for path in sorted(folder.iterdir()):
            yield from open_to_others(path, owner)

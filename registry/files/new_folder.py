"""Folders that appear when they are complete: written under another name next to their place, and then renamed."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from registry.errors import UsageError
from registry.files.storage import writing


def require_free(out: Path) -> None:
    """Raise UsageError unless `out` does not exist or is an empty folder."""
    if out.is_dir() and not out.is_symlink() and not any(out.iterdir()):
        return
    if out.exists() or out.is_symlink():
        problem = "already contains files" if out.is_dir() else "is not a folder"
        raise UsageError(f"{out}: {problem}; name a new folder, or remove this one")


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder next to `out`, which becomes `out` if the block succeeds and is removed otherwise.

    Raises UsageError if `out` contains files already, or cannot be written.
    """
    require_free(out)
    try:
        with writing(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise UsageError(f"{out}: cannot be written ({error.strerror}); name another folder") from None
    try:
        with writing(out):
            yield folder
            folder.chmod(0o755)
            folder.rename(out)
    except OSError as error:
        raise UsageError(f"{out}: cannot be written ({error.strerror or error}); name another folder") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)

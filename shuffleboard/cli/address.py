"""Addresses of pages in messages: on the public site, or on the server that runs here."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from registry.private import close, make_folder
from registry.proposals import propose
from registry.settings import Settings
from registry.untrusted import decode

PORT: Final = 8000
"""Default port of `shuffleboard serve`."""
_NAME: Final = "serving.json"


def page_address(settings: Settings, page: str) -> str:
    """Return the complete address of a page, given its path with a leading slash."""
    if settings.public_url:
        return f"{settings.public_url.rstrip('/')}{page}"
    running = _running(settings.home.expanduser() / _NAME)
    return f"{running}{page}" if running else f"http://127.0.0.1:{PORT}{page} (while `{propose('serve')}` runs)"


@contextmanager
def announce(settings: Settings, address: str) -> Iterator[None]:
    """Record the address of this server, so that messages of other commands name it while it runs."""
    path = settings.home.expanduser() / _NAME
    with suppress(OSError):  # a read-only home
        make_folder(path.parent)
        path.write_text(json.dumps({"address": address, "pid": os.getpid()}), encoding="utf-8")
        close(path)
    try:
        yield
    finally:
        if _read_note(path).get("pid") == os.getpid():
            with suppress(OSError):
                path.unlink()


def _running(path: Path) -> str | None:
    """Return the recorded address if its process still runs."""
    noted = _read_note(path)
    try:
        os.kill(int(str(noted.get("pid"))), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return None
    except PermissionError:
        pass
    return str(noted.get("address"))


def _read_note(path: Path) -> dict[str, object]:
    try:
        noted = decode(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}

"""Errors for paths that name no readable file: missing files, addresses, pipes, devices and sockets."""

import re
import stat
from pathlib import Path
from typing import Final

from registry.errors import IngestError

_ADDRESS: Final = re.compile(r"(https?|ftp|s3|hf):/+")


def no_such_file(path: Path | str) -> IngestError:
    """Return the error for a missing file; for a URL, the remedy is to download it first."""
    address = _ADDRESS.match(str(path))
    if address is None:
        return IngestError(f"{path}: no such file; check the path")
    url = f"{address[1]}://{str(path)[address.end() :]}"
    return IngestError(f"{url}: is an address; download it first and give the file")


def refuse_pipe(path: Path) -> None:
    """Raise IngestError if the path is a pipe, a device or a socket, whose reading may never end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # opening the file reports the reason
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise IngestError(f"{path}: is a pipe, a device or a socket; write what it gives to a file")

"""The error for a missing file."""

import re
from pathlib import Path
from typing import Final

from registry.errors import IngestError

_ADDRESS: Final = re.compile(r"(https?|ftp|s3|hf):/+")


def no_such_file(path: Path | str) -> IngestError:
    """Return the error for a missing file; an address on the web, which a path writes with one slash, is named."""
    address = _ADDRESS.match(str(path))
    if address is None:
        return IngestError(f"{path}: no such file; check the path")
    url = f"{address[1]}://{str(path)[address.end() :]}"
    return IngestError(f"{url}: is an address; download it first and give the file")

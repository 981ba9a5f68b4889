"""Checks the headers and the index of weight files before a model is registered, without reading the numbers.

Imports neither torch nor transformers.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from registry.errors import ModelError
from registry.untrusted import decode, decode_answer

LONGEST_HEADER: Final = 2**26
"""Largest header that is read, in bytes."""
INDEX: Final = "model.safetensors.index.json"
_POINTER: Final = b"version https://git-lfs"
_LENGTH: Final = 8
"""Bytes of the number at the beginning of a file: the length of its header."""


def check_weights(folder: Path) -> None:
    """Check that every weight file in a folder is complete, and that all files in its index are there.

    Raises ModelError for a Git LFS pointer, a truncated file, a file that is not safetensors, and a missing shard or
    tensor.
    """
    headers = {path.name: read_header(path) for path in sorted(folder.glob("*.safetensors"))}
    for name, shard in _index(folder).items():
        if shard not in headers:
            raise ModelError(f"{folder / shard}: is missing, and {INDEX} names it; fetch the model again")
        if name not in headers[shard]:
            raise ModelError(
                f"{folder / shard}: lacks {name[:120]!r}, which {INDEX} says it has; fetch the model again"
            )


def read_header(path: Path) -> Mapping[str, Any]:
    """Return the tensors in a file's header, by name, without its metadata.

    Raises ModelError for a file that is not safetensors, or does not have the size that its header states.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        begin = stream.read(_LENGTH)
        length = int.from_bytes(begin, "little")
        if (begin + stream.read(len(_POINTER))).startswith(_POINTER):
            raise ModelError(f"{path}: is a Git LFS pointer and not the weights; run `git lfs pull` in its folder")
        stream.seek(_LENGTH)
        header = stream.read(length) if length <= LONGEST_HEADER else b""
    try:
        tensors = {name: entry for name, entry in decode(header, items=sys.maxsize).items() if name != "__metadata__"}
        end = max((int(entry["data_offsets"][1]) for entry in tensors.values()), default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        raise ModelError(f"{path}: is no safetensors file, or its header is cut off; fetch it again") from None
    if size != _LENGTH + length + end:
        raise ModelError(f"{path}: has {size:,} bytes and its header states {_LENGTH + length + end:,}; fetch it again")
    return tensors


def _index(folder: Path) -> Mapping[str, str]:
    """Return the file of each tensor according to the folder's index; empty without an index."""
    path = folder / INDEX
    if not path.is_file():
        return {}
    try:
        shards = decode_answer(path.read_bytes())["weight_map"]
        assert all(isinstance(shard, str) for shard in shards.values())
    except (ValueError, TypeError, KeyError, AttributeError, AssertionError):
        raise ModelError(f"{path}: is no index of weights; fetch it again") from None
    return shards

"""Rows of a file in Arrow's streaming format, within its allowance.

Uncompressed messages are no larger than the file; a compressed message could unpack to anything, and is refused before
it is read. Texts of a dictionary count at each occurrence, as in Parquet.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from registry.errors import IngestError
from registry.files.absent import no_such_file
from registry.files.allowance import Allowance
from registry.files.parquet import batch_size, rows_of_batch

_BATCHES: Final = {2: 1, 3: None}
"""Header type of a message → number of the field with its record batch; None if the header is the batch."""


def arrow_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield each row as a dictionary of its columns.

    Raises IngestError for a file that is not an Arrow stream, is damaged or compressed, or unpacks to too much.
    """
    allowance = Allowance(path.name)
    try:
        allowance.take(path.stat().st_size)
        with pa.memory_map(str(path)) as source:
            for message in pa.ipc.MessageReader.open_stream(source):
                if _is_compressed(message.metadata.to_pybytes()):
                    raise IngestError(f"{path.name}: is compressed; write it without compression, or as Parquet")
        first = 1
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
            for batch in stream:
                batch.validate(full=True)
                allowance.take(batch_size(batch), batch.num_rows)
                yield from rows_of_batch(batch, allowance, first)
                first += batch.num_rows
    except FileNotFoundError:
        raise no_such_file(path) from None
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        reason = " ".join(str(error).split())[:200]
        raise IngestError(f"{path.name}: cannot be read as an Arrow stream ({reason}); check the file") from None


# The parts of Flatbuffers that the headers of messages use


def _is_compressed(message: bytes) -> bool:
    """Return whether a message has a batch with compressed buffers."""
    (root,) = struct.unpack_from("<I", message, 0)
    kind = _field(message, root, 1)
    if kind is None or message[kind] not in _BATCHES:
        return False
    batch = _table(message, root, 2)
    inner = _BATCHES[message[kind]]
    if batch is not None and inner is not None:
        batch = _table(message, batch, inner)
    return batch is not None and _field(message, batch, 3) is not None


def _field(message: bytes, table: int, number: int) -> int | None:
    """Return the offset of a table's field; None if the table lacks it."""
    (back,) = struct.unpack_from("<i", message, table)
    (size,) = struct.unpack_from("<H", message, table - back)
    place = 4 + 2 * number
    if place >= size:
        return None
    (offset,) = struct.unpack_from("<H", message, table - back + place)
    return table + offset if offset else None


def _table(message: bytes, table: int, number: int) -> int | None:
    """Return the offset of the table in a field."""
    place = _field(message, table, number)
    return None if place is None else place + int(struct.unpack_from("<I", message, place)[0])

"""Rows of a Parquet file, read by pyarrow within limits: a kilobyte can contain one text a million times.

The unpacked size of a file is known only after unpacking. So a process with limits (`registry.isolated`) unpacks it
first and counts; the rows are then read here in the same steps, which need no more memory.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from registry import isolated
from registry.errors import IngestError, OverLimitError
from registry.files.absent import no_such_file
from registry.files.allowance import RECORD, Allowance
from registry.settings import get_settings

_BATCH: Final = 50
_MEMORY: Final = 448 << 20
"""Bytes that unpacking may take at once."""
_SECONDS: Final = 300.0


def parquet_rows(path: Path, *, kept: bool = False) -> Iterator[dict[str, Any]]:
    """Yield each row as a dictionary of its columns. kept: whether the caller keeps all rows in memory.

    Raises IngestError for a file that is not Parquet, is damaged, or unpacks to too much.
    """
    _in_limits(path, "require_allowed", {"kept": kept})
    first, allowance = 1, Allowance(path.name, kept=kept)
    for batch in _batches(path, allowance):
        yield from rows_of_batch(batch, allowance, first)
        first += batch.num_rows


def parquet_columns(path: Path) -> list[str]:
    """Return the names of the columns; none for a file that is not Parquet. Raises IngestError beyond the limits."""
    return _in_limits(path, "read_columns", {})  # type: ignore[no-any-return]


def require_allowed(order: dict[str, Any]) -> None:
    """Unpack a file once. Raises IngestError if it is damaged or unpacks to too much. order: path, kept."""
    path = Path(order["path"])
    for _ in _batches(path, Allowance(path.name, kept=order["kept"])):
        pass


def read_columns(order: dict[str, Any]) -> list[str]:
    """Return the names of the columns; none for a file that is not Parquet. order: path."""
    try:
        return list(pq.read_schema(order["path"]).names)
    except MemoryError:
        raise
    except pa.ArrowException:
        return []


def _in_limits(path: Path, function: str, order: dict[str, Any]) -> Any:
    """Call a function of this module on the file in a process with limits, or here if this process has limits."""
    order = {**order, "path": str(path.absolute())}
    if isolated.is_limited():
        return globals()[function](order)
    if not path.exists():
        raise no_such_file(path)
    variables = {"SHUFFLEBOARD_UNPACKED_BYTES": str(get_settings().unpacked_bytes)}
    try:
        return isolated.run(isolated.Job(f"{__name__}:{function}", _SECONDS, _MEMORY, variables), order)
    except OverLimitError:
        raise IngestError(
            f"{path.name}: cannot be unpacked within the limit of {_MEMORY} bytes at once and {_SECONDS:g} s; write it "
            "in smaller row groups, or divide it"
        ) from None


def _batches(path: Path, allowance: Allowance) -> Iterator[pa.RecordBatch]:
    """Yield a few rows at a time. Raises IngestError beyond the allowance, or for a damaged file."""
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(_BATCH, use_threads=False):
                allowance.take(batch_size(batch), batch.num_rows)
                yield batch
    except MemoryError:
        raise
    except FileNotFoundError:
        raise no_such_file(path) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise IngestError(f"{path.name}: cannot be read as Parquet ({reason}); check the file") from None


def batch_size(batch: pa.RecordBatch) -> int:
    """Return the bytes of a batch's values, each text counted at each occurrence."""
    return sum(map(_size, batch.columns))


def rows_of_batch(batch: pa.RecordBatch, allowance: Allowance, first: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch, halved until a part fits in memory. first: the number of the first row."""
    size = batch_size(batch)
    if size > RECORD and batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from rows_of_batch(batch.slice(0, half), allowance, first)
        yield from rows_of_batch(batch.slice(half), allowance, first + half)
        return
    allowance.require_record(size, f"row {first}")
    columns = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in batch.columns]
    # to_pylist is then four times as fast.
    plain = pa.RecordBatch.from_arrays(columns, batch.schema.names) if columns else batch
    yield from plain.to_pylist()


def _size(array: pa.Array) -> int:
    """Return the bytes of an array's values, each text counted at each occurrence."""
    kind, places = array.type, 8 * len(array)
    if isinstance(array, pa.ExtensionArray):
        return _size(array.storage)
    if pa.types.is_dictionary(kind):
        return places + _bytes(_lengths(array.dictionary).take(array.indices))
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        wide = pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary()
        return places + _bytes(_lengths(array.cast(wide)))
    if pa.types.is_struct(kind):
        return places + sum(map(_size, array.flatten()))
    if pa.types.is_map(kind):
        if not len(array):
            return 0
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return places + _size(array.values.slice(start, end - start))
    if pa.types.is_nested(kind):
        return places + _size(array.flatten())
    return max(int(array.nbytes), places)


def _lengths(array: pa.Array) -> pa.Array:
    return pc.binary_length(array).cast(pa.int64())


def _bytes(lengths: pa.Array) -> int:
    total: int | None = pc.sum(lengths).as_py()
    return total or 0

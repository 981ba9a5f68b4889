"""Rows of a Parquet file, within its allowance: a kilobyte of Parquet can hold one text a million times.

Of the footer only the places of the pages are believed. Every page has a header that says how many values it holds and
how many bytes it unpacks to; the headers are read first, one after the other, as Arrow finds them. Texts are then read
as numbers into their dictionary until it is known how long they are together.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from registry.errors import IngestError
from registry.files.allowance import RECORD, Allowance

_BATCH: Final = 5000
_FOOTER: Final = 4 << 20
"""Bytes of a footer: in memory it takes a hundred times as many."""
_COLUMNS: Final = 1000
_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 8}
"""Bytes of a value, of a text those of its place."""
_PAGE: Final = 1 << 10
"""Bytes that a page counts for besides what it holds: reading its header takes time."""


def parquet_rows(path: Path, *, kept: bool = False) -> Iterator[dict[str, Any]]:
    """Each row as column to value. kept: whether the caller keeps them all.

    Raises IngestError for a file that is not Parquet or is damaged; and, naming file, size and limit, for one that
    unpacks to too much.
    """
    allowance = Allowance(path.name, kept=kept)
    try:
        with path.open("rb") as stream:
            _require_footer(stream, path)
            with pq.ParquetFile(stream, pre_buffer=False) as file:
                metadata, schema = file.metadata, file.schema_arrow
            size = _require_pages(stream, metadata, path)
            with pq.ParquetFile(stream, read_dictionary=_text_columns(metadata), pre_buffer=False) as file:
                step = max(1, min(_BATCH, RECORD * metadata.num_rows // max(1, size)))
                first = 1
                for group in range(metadata.num_row_groups):  # each has dictionaries of its own
                    for batch in file.iter_batches(step, row_groups=[group]):
                        allowance.take(sum(map(_size, batch.columns)), batch.num_rows)
                        yield from _rows(batch, schema, allowance, first)
                        first += batch.num_rows
    except FileNotFoundError:
        raise IngestError(f"{path}: no such file; check the path") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise IngestError(f"{path.name}: cannot be read as Parquet ({reason}); check the file") from None


def _text_columns(metadata: pq.FileMetaData) -> list[str]:
    columns = [metadata.schema.column(place) for place in range(metadata.num_columns)]
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _rows(batch: pa.RecordBatch, schema: pa.Schema, allowance: Allowance, first: int) -> Iterator[dict[str, Any]]:
    """The rows of a batch, halved until Python can hold a part. first: the number of the first row."""
    size = sum(map(_size, batch.columns))
    if size > RECORD and batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from _rows(batch.slice(0, half), schema, allowance, first)
        yield from _rows(batch.slice(half), schema, allowance, first + half)
        return
    allowance.require_record(size, f"row {first}")
    yield from batch.cast(schema).to_pylist()


def _size(array: pa.Array) -> int:
    """Bytes of an array's values, each text counted wherever it stands."""
    kind, places = array.type, 8 * len(array)
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary)
        total: int | None = pc.sum(lengths.cast(pa.int64()).take(array.indices)).as_py()
        return places + (total or 0)
    if pa.types.is_struct(kind):
        return places + sum(map(_size, array.flatten()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        if not len(array):
            return 0
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return places + _size(array.values.slice(start, end - start))
    return max(int(array.nbytes), places)


# Headers of pages, before anything is unpacked


def _require_footer(stream: BinaryIO, path: Path) -> None:
    end = stream.seek(0, 2)
    stream.seek(max(0, end - 8))
    size = int.from_bytes(stream.read(4), "little")
    if stream.read(4) == b"PAR1" and size > _FOOTER:
        raise IngestError(f"{path.name}: has a footer of {size} bytes, over the limit of {_FOOTER}; divide the file")


@dataclass
class _Chunk:
    """What the pages of a column hold in a row group. size: bytes of all of it; page: of the largest page."""

    size: int = 0
    page: int = 0


def _require_pages(stream: BinaryIO, metadata: pq.FileMetaData, path: Path) -> int:
    """The bytes that the pages come to, texts in dictionaries counted once.

    Raises IngestError where they are more than the file is allowed, or too many at once: Arrow holds a page of every
    column, and as many values as the longest list.
    """
    if metadata.num_columns > _COLUMNS:
        raise IngestError(f"{path.name}: has {metadata.num_columns} columns, over the limit of {_COLUMNS}; divide it")
    whole, at_once = Allowance(path.name), Allowance(path.name, kept=True)
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            at_once.taken = 0
            for place in range(metadata.num_columns):
                chunk = _chunk(content, group.column(place), metadata.schema.column(place), whole)
                listed = metadata.schema.column(place).max_repetition_level > 0
                at_once.take(chunk.size if listed else chunk.page)
    return whole.taken


def _chunk(content: mmap.mmap, column: Any, described: Any, whole: Allowance) -> _Chunk:
    width = _WIDTHS.get(described.physical_type) or described.length
    found = _Chunk()
    position = column.data_page_offset
    if column.dictionary_page_offset:
        position = min(position, column.dictionary_page_offset)
    end = position + column.total_compressed_size
    while position < end:
        page, position = _header(content, position)
        position += page.packed
        size = page.unpacked + page.values * (page.unpacked if page.beginnings_shared else width)
        whole.take(size + _PAGE)
        found.size += size
        found.page = max(found.page, page.unpacked)
    return found


@dataclass(frozen=True)
class _Page:
    """A page's header. beginnings_shared: whether a value may repeat the one before it without having its bytes."""

    unpacked: int
    packed: int
    values: int
    beginnings_shared: bool


_DELTA_BYTE_ARRAY: Final = 7
_HEADERS: Final = {5: (1, 2), 7: (1, 2), 8: (1, 4)}
"""Field of a page's header to the fields of its number of values and of its encoding: data, dictionary, data again."""


def _header(content: mmap.mmap, position: int) -> tuple[_Page, int]:
    """The header of the page at a position, and where it ends. Raises ValueError for a damaged one."""
    try:
        fields, position = _struct(content, position)
        unpacked, packed = fields[2], fields[3]
        kinds = [(fields[key], *places) for key, places in _HEADERS.items() if key in fields]
        counted = [(of[values], of[encoding]) for of, values, encoding in kinds]
    except (IndexError, KeyError, TypeError):
        counted, unpacked, packed = [], -1, -1
    if min(unpacked, packed, *(values for values, _ in counted), 0) < 0:
        message = "damaged header of a page"
        raise ValueError(message)
    shared = any(encoding == _DELTA_BYTE_ARRAY for _, encoding in counted)
    return _Page(unpacked, packed, sum(values for values, _ in counted), shared), position


# Thrift's compact protocol, as far as headers of pages use it: numbers by field, and structures of them

_STOP, _TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 6, 7, 8, 12
_DEEPEST: Final = 4


def _struct(content: mmap.mmap, position: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Field to number, or to a structure, and where the structure ends. Texts are passed over."""
    fields: dict[int, Any] = {}
    field = 0
    while True:
        kind, position = content[position], position + 1
        if kind == _STOP:
            return fields, position
        delta, kind = kind >> 4, kind & 15
        if delta:
            field += delta
        else:
            field, position = _number(content, position)
        if kind == _BYTE:
            position += 1
        elif _BYTE < kind <= _I64:
            fields[field], position = _number(content, position)
        elif kind == _DOUBLE:
            position += 8
        elif kind == _BINARY:
            length, position = _varint(content, position)
            position += length
        elif kind == _STRUCT and depth < _DEEPEST:
            fields[field], position = _struct(content, position, depth + 1)
        elif kind not in (_TRUE, _FALSE):
            message = "unknown content in the header of a page"
            raise ValueError(message)


def _number(content: mmap.mmap, position: int) -> tuple[int, int]:
    number, position = _varint(content, position)
    return (number >> 1) ^ -(number & 1), position


def _varint(content: mmap.mmap, position: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 70:
        byte = content[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return number, position
    message = "a number without end in the header of a page"
    raise ValueError(message)

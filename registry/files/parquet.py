"""Rows of a Parquet file, within its allowance: a kilobyte of Parquet can hold one text a million times.

Of the footer only the places of the pages are believed. Every page has a header that says how many values it holds and
how many bytes it unpacks to; the headers are read first, one after the other, as Arrow finds them. Texts are then read
as numbers into their dictionary until it is known how long they are together.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

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
                metadata = file.metadata
            first = 1
            for number, group in enumerate(_require_pages(stream, metadata, path)):  # each has dictionaries of its own
                how = {"read_dictionary": group.texts, "metadata": metadata, "pre_buffer": False}
                with pq.ParquetFile(stream, **how) as file:
                    for batch in file.iter_batches(group.step, row_groups=[number]):
                        allowance.take(batch_size(batch), batch.num_rows)
                        yield from rows_of_batch(batch, allowance, first)
                        first += batch.num_rows
    except FileNotFoundError:
        raise IngestError(f"{path}: no such file; check the path") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise IngestError(f"{path.name}: cannot be read as Parquet ({reason}); check the file") from None


def parquet_columns(path: Path) -> list[str]:
    """The names of the columns; none of what is no Parquet file. Raises IngestError for too large a footer."""
    with path.open("rb") as stream:
        _require_footer(stream, path)
        try:
            return list(pq.read_schema(stream).names)
        except pa.ArrowException:
            return []


def batch_size(batch: pa.RecordBatch) -> int:
    """Bytes of a batch's values, each text counted wherever it stands."""
    return sum(map(_size, batch.columns))


def rows_of_batch(batch: pa.RecordBatch, allowance: Allowance, first: int) -> Iterator[dict[str, Any]]:
    """The rows of a batch, halved until Python can hold a part. first: the number of the first row."""
    size = batch_size(batch)
    if size > RECORD and batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from rows_of_batch(batch.slice(0, half), allowance, first)
        yield from rows_of_batch(batch.slice(half), allowance, first + half)
        return
    allowance.require_record(size, f"row {first}")
    columns = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in batch.columns]
    plain = pa.RecordBatch.from_arrays(columns, batch.schema.names) if columns else batch  # four times as fast
    yield from plain.to_pylist()


def _size(array: pa.Array) -> int:
    """Bytes of an array's values, each text counted wherever it stands."""
    kind, places = array.type, 8 * len(array)
    if isinstance(array, pa.ExtensionArray):
        return _size(array.storage)
    if pa.types.is_dictionary(kind):
        return places + _bytes(_lengths(array.dictionary).take(array.indices))
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return places + _bytes(_lengths(array))
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


# Headers of pages, before anything is unpacked


def _require_footer(stream: BinaryIO, path: Path) -> None:
    end = stream.seek(0, 2)
    stream.seek(max(0, end - 8))
    size = int.from_bytes(stream.read(4), "little")
    if stream.read(4) == b"PAR1" and size > _FOOTER:
        raise IngestError(f"{path.name}: has a footer of {size} bytes, over the limit of {_FOOTER}; divide the file")


@dataclass
class _Chunk:
    """What the pages of a column hold in a row group.

    size: bytes of all of it; page: of the largest page, and so of a value. indexed: whether texts can be read as
    numbers into a dictionary. repeats: whether a text may stand in a page once and be the value of many rows.
    """

    size: int = 0
    page: int = 0
    indexed: bool = True
    repeats: bool = False


@dataclass(frozen=True)
class _Group:
    """How a row group is read. texts: columns whose values come as numbers into a dictionary; step: rows at once."""

    texts: list[str]
    step: int


def _require_pages(stream: BinaryIO, metadata: pq.FileMetaData, path: Path) -> list[_Group]:
    """How each row group is read.

    Raises IngestError where the pages hold more than the file is allowed, texts in dictionaries counted once, or too
    much at once: Arrow holds a page of every column, and as many values as the longest list.
    """
    if metadata.num_columns > _COLUMNS:
        raise IngestError(f"{path.name}: has {metadata.num_columns} columns, over the limit of {_COLUMNS}; divide it")
    whole, at_once = Allowance(path.name), Allowance(path.name, kept=True)
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return [_group(content, metadata, number, whole, at_once) for number in range(metadata.num_row_groups)]


def _group(content: mmap.mmap, metadata: pq.FileMetaData, number: int, whole: Allowance, at_once: Allowance) -> _Group:
    group, texts, row = metadata.row_group(number), [], 0
    at_once.taken, before = 0, whole.taken
    for place in range(metadata.num_columns):
        described = metadata.schema.column(place)
        chunk = _chunk(content, group.column(place), described, whole)
        at_once.take(chunk.size if described.max_repetition_level > 0 else chunk.page)
        if described.physical_type == "BYTE_ARRAY" and chunk.indexed:
            texts.append(described.path)
        elif chunk.repeats:
            row += chunk.page
    evenly = RECORD * group.num_rows // max(1, whole.taken - before)
    return _Group(texts, max(1, min(_BATCH, evenly, RECORD // max(1, row))))


def _chunk(content: mmap.mmap, column: Any, described: Any, whole: Allowance) -> _Chunk:
    width = _WIDTHS.get(described.physical_type) or max(1, described.length)
    found, values, seen = _Chunk(), 0, 0
    position = column.data_page_offset
    if (column.dictionary_page_offset or 0) > 0:
        position = min(position, column.dictionary_page_offset)
    end = position + column.total_compressed_size + _UNCOUNTED
    while seen < column.num_values and position < end:  # as Arrow goes: a chunk without values may have no place
        try:
            page, position = _header(content, position)
        except ValueError:
            if position >= end - _UNCOUNTED:
                break
            raise
        position += page.packed
        size = page.unpacked + page.values * width
        whole.take(size + _PAGE)
        found.size += size
        found.page = max(found.page, page.unpacked)
        found.indexed &= page.encodings <= _INDEXED
        found.repeats |= page.kind == _DICTIONARY_PAGE or _DELTA_BYTE_ARRAY in page.encodings
        values += page.values
        seen += page.values if page.kind in _DATA_PAGES else 0
    if described.max_repetition_level > 0 and found.repeats and not found.indexed:  # as many as a row's list is long
        whole.take(values * found.page)
        found.size += values * found.page
    return found


@dataclass(frozen=True)
class _Page:
    """A page's header. kind: as Arrow takes it; values and encodings: of whatever kinds it is described as."""

    kind: int
    unpacked: int
    packed: int
    values: int
    encodings: frozenset[int]


_DICTIONARY_PAGE: Final = 2
_DATA_PAGES: Final = (0, 3)
_DELTA_BYTE_ARRAY: Final = 7
_INDEXED: Final = {0, 2, 8}
"""Encodings whose texts Arrow reads as numbers into a dictionary: plain, and both names of a dictionary's."""
_HEADERS: Final = {5: (1, 2), 7: (1, 2), 8: (1, 4)}
"""Field of a page's header to the fields of its number of values and of its encoding: data, dictionary, data again."""
_UNCOUNTED: Final = 100
"""Bytes that Arrow reads beyond the end of a column in files of writers that left a header out of its size."""
_INT32: Final = range(1 << 31)


def _header(content: mmap.mmap, position: int) -> tuple[_Page, int]:
    """The header of the page at a position, and where it ends. Raises ValueError for a damaged one."""
    try:
        fields, position = _struct(content, position)
        kind, unpacked, packed = fields[1], fields[2], fields[3]
        kinds = [(fields[key], *places) for key, places in _HEADERS.items() if key in fields]
        values = [of[place] for of, place, _ in kinds]
        encodings = frozenset(of[place] for of, _, place in kinds)
    except (IndexError, KeyError, TypeError):
        kind, unpacked, packed, values, encodings = -1, -1, -1, [], frozenset()
    if not all(number in _INT32 for number in (kind, unpacked, packed, *values, *encodings)):
        message = "damaged header of a page"
        raise ValueError(message)
    return _Page(kind, unpacked, packed, sum(values), encodings), position


# Thrift's compact protocol, as far as headers of pages use it: numbers by field, and structures of them

_STOP, _TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = (*range(4), *range(6, 14))
_DEEPEST: Final = 6
_FIELDS: Final = range(-(1 << 15), 1 << 15)


def _struct(content: mmap.mmap, position: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Field to number, or to a structure, and where the structure ends. All else is passed over."""
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
        if field not in _FIELDS:
            _refuse()
        if kind not in (_TRUE, _FALSE):
            value, position = _value(content, position, kind, depth)
            if value is not None:
                fields[field] = value


def _value(content: mmap.mmap, position: int, kind: int, depth: int) -> tuple[Any, int]:
    """A number or a structure, None for all else, and where it ends."""
    if kind in (_TRUE, _FALSE, _BYTE):
        return None, position + 1
    if _BYTE < kind <= _I64:
        return _number(content, position)
    if kind in (_DOUBLE, _UUID):
        return None, position + (8 if kind == _DOUBLE else 16)
    if kind == _BINARY:
        length, position = _varint(content, position)
        return None, position + length
    if depth == _DEEPEST or kind not in (_LIST, _SET, _MAP, _STRUCT):
        _refuse()
    if kind == _STRUCT:
        return _struct(content, position, depth + 1)
    return None, _members(content, position, kind, depth + 1)


def _members(content: mmap.mmap, position: int, kind: int, depth: int) -> int:
    """Where a list, a set or a map ends."""
    if kind == _MAP:
        length, position = _varint(content, position)
        if not length:
            return position
        kinds: tuple[int, ...] = (content[position] >> 4, content[position] & 15)
        position += 1
    else:
        length, kinds, position = content[position] >> 4, (content[position] & 15,), position + 1
        if length == 15:
            length, position = _varint(content, position)
    for _ in range(length):
        for member in kinds:
            _, position = _value(content, position, member, depth)
        content[position - 1]  # no further than the file goes
    return position


def _refuse() -> NoReturn:
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

"""PostgreSQL's binary COPY from and to Arrow, column by column rather than value by value.

A row is its number of columns, then the length (−1: NULL) and bytes of each, big-endian. The bytes of a one-dimensional
array are: number of dimensions, whether it has NULLs, type of its items, number of items, first index, then the length
and bytes of each item.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from registry.db import Digest, JsonDocument, UtcDateTime
from registry.errors import ArchiveError
from registry.predictions.arrow import arrow_type
from registry.proposals import propose

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END: Final = b"\xff\xff"
_NULL: Final = b"\xff\xff\xff\xff"
_ROWS_AT_ONCE: Final = 2000
"""Rows that are encoded at once."""
_ITEM_TYPES: Final[Mapping[pa.DataType, int]] = {pa.int16(): 21, pa.float64(): 701}
"""PostgreSQL's number for the type of an array's items."""

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""The time from which PostgreSQL counts microseconds."""

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]

NUMBERS: Final[Mapping[pa.DataType, str]] = {pa.int16(): "i2", pa.int32(): "i4", pa.int64(): "i8", pa.float64(): "f8"}
"""NumPy's code for each Arrow type, without the byte order."""


def big_endian(values: pa.Array, prefix: bytes = b"") -> Bytes:
    """Return each number's big-endian bytes after a prefix, shape (numbers, bytes)."""
    code = NUMBERS[values.type]
    numbers = np.frombuffer(values.buffers()[1], f"<{code}", len(values) + values.offset)[values.offset :]
    raw = numbers.astype(f">{code}").view(np.uint8).reshape(len(values), int(code[1]))
    if not prefix:
        return raw
    prefixes = np.broadcast_to(np.frombuffer(prefix, np.uint8), (len(values), len(prefix)))
    return np.hstack([prefixes, raw])


def binaries(content: Bytes, ends: NDArray[Any] | None = None, known: pa.Array | None = None) -> pa.Array:
    """Return an array of byte strings: the rows of a matrix, or the pieces of one long string between the ends.

    ends: (strings + 1,), the first 0. known: Boolean; False makes a string NULL.
    """
    if ends is None:
        ends = np.arange(len(content) + 1, dtype=np.int64) * content.shape[1]
    offsets, data = pa.py_buffer(ends.astype("<i8")), pa.py_buffer(np.ascontiguousarray(content))
    mask = None
    if known is not None and not pc.all(known, skip_nulls=False, min_count=0).as_py():
        mask = known.buffers()[1] if known.offset == 0 else pc.and_(known, known).buffers()[1]
    return pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, [mask, offsets, data])


def join_bytes(parts: Sequence[pa.Array], *, missing: str = "skip") -> pa.Array:
    """Concatenate the byte strings of each row. missing: the effect of a NULL, as Arrow's `null_handling`."""
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()), null_handling=missing)


def lengths_of(lists: pa.Array) -> NDArray[np.int64]:
    """Return the number of items of each list; 0 for NULL."""
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0), np.int64)


def items_of(lists: pa.Array) -> pa.Array:
    """Return the items of all lists; lists that are NULL contribute none."""
    return pc.list_flatten(lists)


def column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array."""
    return table.column(name).combine_chunks()


@contextmanager
def sqlalchemy_errors(connection: Connection, statement: str) -> Iterator[None]:
    """Convert errors of the driver, called without SQLAlchemy, to SQLAlchemy's; invalidate a lost connection."""
    driver = connection.dialect.dbapi
    assert driver is not None
    try:
        yield
    except driver.Error as error:
        lost = connection.dialect.is_disconnect(error, connection.connection.dbapi_connection, None)
        if lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            statement,
            None,
            error,
            driver.Error,
            connection_invalidated=lost,
            dialect=connection.dialect,
        ) from error


# From PostgreSQL


def read(connection: Connection, query: Select[Any], schema: pa.Schema) -> pa.Table:
    """Run a query and return its result. schema: the types of its columns."""
    driver = connection.connection.cursor()
    compiled = query.compile(connection, compile_kwargs={"literal_binds": True})
    # SQLAlchemy doubles percent signs for a driver that gets parameters; here it gets none.
    statement = f"COPY ({compiled}) TO STDOUT (FORMAT BINARY)".replace("%%", "%")
    rows: list[bytes] = []
    with sqlalchemy_errors(connection, statement), driver.copy(statement) as copy:
        # The driver's own iteration over rows takes longer than all that is done with them.
        receive_row = driver.connection.pgconn.get_copy_data
        while True:
            size, content = receive_row(0)
            row = bytes(content).removeprefix(b"" if rows else SIGNATURE)
            if size < 0 or row == END:
                break
            rows.append(row)
        # Reads the statement's result, and raises its error.
        copy.read()
    return decode_rows(rows, schema)


def decode_rows(rows: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """Decode rows of a binary COPY into a table."""
    data = np.frombuffer(b"".join(rows), np.uint8)
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    # The offset in each row of the next column's length; the first one follows the number of columns.
    place = np.cumsum(sizes) - sizes + 2
    arrays = []
    for field in schema:
        size = _read_integers(data, place)
        place = place + 4
        known = size >= 0
        arrays.append(_decode_column(data, place[known], size[known].astype(np.int64), known, field.type))
        place = place + np.maximum(size, 0)
    return pa.Table.from_arrays(arrays, schema=schema)


def _read_integers(data: Bytes, places: Places) -> NDArray[np.int32]:
    return _take(data, places, 4).view(">i4").reshape(-1).astype(np.int32)


def _take(data: Bytes, places: Places, width: int) -> Bytes:
    """Return `width` bytes from each offset, shape (places, width)."""
    taken: Bytes = data[places[:, None] + np.arange(width)]
    return taken


def _read_strings(data: Bytes, places: Places, sizes: Places) -> tuple[Bytes, Places]:
    """Return the bytes at these offsets, concatenated, and the end of each, shape (places + 1,)."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return data[np.repeat(places - ends[:-1], sizes) + np.arange(ends[-1])], ends


def _decode_column(data: Bytes, places: Places, sizes: Places, known: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    if pa.types.is_list(kind):
        return _decode_lists(data, places, known, kind)
    if pa.types.is_string(kind):
        content, ends = _read_strings(data, places, sizes)
        values = binaries(content, ends).cast(pa.large_string()).cast(kind)
    elif pa.types.is_binary(kind):
        content, ends = _read_strings(data, places, sizes)
        values = binaries(content, ends).cast(kind)
    elif pa.types.is_fixed_size_binary(kind):
        content = _take(data, places, kind.byte_width)
        values = pa.Array.from_buffers(kind, len(places), [None, pa.py_buffer(content)])
    elif pa.types.is_boolean(kind):
        values = pa.array(data[places].astype(bool))
    else:
        values = _decode_numbers(data, places, kind)
    return values if known.all() else values.take(_index_known(known))


def _decode_numbers(data: Bytes, places: Places, kind: pa.DataType) -> pa.Array:
    code = NUMBERS[kind]
    raw = _take(data, places, int(code[1]))
    return pa.array(raw.view(f">{code}").reshape(-1).astype(f"<{code}"), kind)


def _decode_lists(data: Bytes, places: Places, known: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    if _read_integers(data, places + 4).any():
        message = f"a list of numbers has an empty place; see what is affected with: {propose('verify', '--all')}"
        raise ArchiveError(message)
    counts = np.zeros(len(places), np.int64)
    filled = _read_integers(data, places) > 0
    counts[filled] = _read_integers(data, places[filled] + 12)
    size = 4 + int(NUMBERS[kind.value_type][1])
    ends = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], counts)
    items = _decode_numbers(data, np.repeat(places + 24, counts) + within * size, kind.value_type)
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, type=kind)
    return lists if known.all() else lists.take(_index_known(known))


def _index_known(known: NDArray[np.bool_]) -> pa.Array:
    """Return each row's index among the known values; NULL for an unknown value."""
    return pa.array(np.cumsum(known) - 1, pa.int64(), mask=~known)


# To PostgreSQL


def write(connection: Connection, table: Table, columns: Mapping[str, Any]) -> None:
    """Insert rows into a table by COPY.

    columns: for each name an Arrow array, or Python values as the registry has them; columns left out are NULL.
    """
    arrays = [_convert_column(column.type, columns[column.name]) for column in table.columns if column.name in columns]
    listed = ", ".join(column.name for column in table.columns if column.name in columns)
    statement = f"COPY {table.name} ({listed}) FROM STDIN (FORMAT BINARY)"
    driver = connection.connection.cursor()
    with sqlalchemy_errors(connection, f"COPY {table.name}"), driver.copy(statement) as copy:
        copy.write(SIGNATURE)
        for start in range(0, len(arrays[0]), _ROWS_AT_ONCE):
            parts = [_encode_fields(values.slice(start, _ROWS_AT_ONCE)) for values in arrays]
            heads = pa.repeat(pa.scalar(struct.pack(">h", len(arrays)), pa.large_binary()), len(parts[0]))
            copy.write(contiguous(join_bytes([heads, *parts])))
        copy.write(END)


def _convert_column(kind: TypeEngine[Any], values: Any) -> pa.Array:
    """Return a column's values as an Arrow array; as bytes if PostgreSQL stores them in another form."""
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(kind, Digest):
        values = [None if value is None else bytes.fromhex(value) for value in values]
    elif isinstance(kind, JsonDocument):
        texts = [None if value is None else json.dumps(value) for value in values]
        return pa.array([None if value is None else b"\x01" + value.encode() for value in texts], pa.large_binary())
    elif isinstance(kind, UtcDateTime):
        offsets = [None if value is None else value - _EPOCH for value in values]
        return pa.array(offsets, pa.duration("us")).cast(pa.int64())
    return pa.array(values, arrow_type(kind))


def _encode_fields(values: pa.Array) -> pa.Array:
    """Encode each value as a field of COPY: its length, then its bytes."""
    kind, known = values.type, pc.is_valid(values)
    if pa.types.is_list(kind):
        fields = _encode_lists(values, known)
    elif kind in NUMBERS:
        fields = binaries(big_endian(values, _encode_length(int(NUMBERS[kind][1]))), known=known)
    elif pa.types.is_boolean(kind):
        fields = pc.if_else(
            values, *(pa.scalar(_encode_length(1) + byte, pa.large_binary()) for byte in (b"\1", b"\0"))
        )
    else:
        content = values.cast(pa.large_binary())
        sizes = pc.fill_null(pc.binary_length(content), 0).cast(pa.int32())
        fields = join_bytes([binaries(big_endian(sizes), known=known), content], missing="emit_null")
    return pc.fill_null(fields, pa.scalar(_NULL, pa.large_binary()))


def _encode_lists(values: pa.Array, known: pa.Array) -> pa.Array:
    """Encode lists as PostgreSQL's one-dimensional arrays that begin at 1, each after its length."""
    items, counts = items_of(values), lengths_of(values)
    kind = items.type
    if kind == pa.float64() and not pc.all(pc.is_finite(items), min_count=0).as_py():
        message = f"non-finite number in {items.filter(pc.invert(pc.is_finite(items)))[:1].to_pylist()}"
        raise ValueError(message)
    size = int(NUMBERS[kind][1])
    heads = np.zeros((len(values), 4), ">i4")
    heads[:, 0], heads[:, 1], heads[:, 3] = 12 + (counts > 0) * 8 + counts * (4 + size), counts > 0, _ITEM_TYPES[kind]
    shapes = np.stack([counts, np.ones_like(counts)], axis=1).astype(">i4").view(np.uint8)
    numbers = big_endian(items, _encode_length(size))
    ends = np.concatenate([[0], np.cumsum(counts)]) * numbers.shape[1]
    parts = [binaries(heads.view(np.uint8), known=known), binaries(shapes, known=pa.array(counts > 0))]
    return pc.if_else(known, join_bytes([*parts, binaries(numbers.reshape(-1), ends)]), None)


def _encode_length(size: int) -> bytes:
    return struct.pack(">i", size)


def contiguous(strings: pa.Array) -> Any:
    """Return the bytes of all strings of an array, one after the other, without copying them."""
    offsets = ends_of(strings)
    return memoryview(strings.buffers()[2] or b"")[offsets[0] : offsets[-1]]


def ends_of(strings: pa.Array) -> NDArray[np.int64]:
    """Return the start of each byte string in the buffer, and the end of the last, shape (strings + 1,)."""
    offsets: NDArray[np.int64] = np.frombuffer(strings.buffers()[1], np.int64)
    return offsets[strings.offset : strings.offset + len(strings) + 1]

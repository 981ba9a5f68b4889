"""Rows of PostgreSQL's binary COPY as Arrow tables, column by column rather than value by value.

A row is the number of its columns, then each as its length (−1: NULL) and its bytes, big-endian. An array of one
dimension is, after its length: dimensions, whether it has NULLs, type of its items, number of items, first index, and
each item again with its length.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlalchemy import Connection, Select

from registry.errors import ArchiveError
from registry.predictions.bulk import sqlalchemy_errors

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END: Final = b"\xff\xff"

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]

NUMBERS: Final[Mapping[pa.DataType, str]] = {pa.int16(): "i2", pa.int32(): "i4", pa.int64(): "i8", pa.float64(): "f8"}
"""Arrow type to NumPy's without the byte order."""


def big_endian(values: pa.Array, letter: bytes = b"") -> Bytes:
    """Each number as its bytes after the letter, (numbers, bytes); what stands for a missing one does not matter."""
    kind = NUMBERS[values.type]
    numbers = np.frombuffer(values.buffers()[1], f"<{kind}", len(values) + values.offset)[values.offset :]
    raw = numbers.astype(f">{kind}").view(np.uint8).reshape(len(values), int(kind[1]))
    if not letter:
        return raw
    before = np.broadcast_to(np.frombuffer(letter, np.uint8), (len(values), len(letter)))
    return np.hstack([before, raw])


def binaries(content: Bytes, ends: NDArray[Any] | None = None, known: pa.Array | None = None) -> pa.Array:
    """An array of byte strings: the rows of a matrix, or what lies before each of the ends in one long string.

    ends: (strings + 1,), the first 0. known: Boolean; False makes a string NULL.
    """
    if ends is None:
        ends = np.arange(len(content) + 1, dtype=np.int64) * content.shape[1]
    offsets, data = pa.py_buffer(ends.astype("<i8")), pa.py_buffer(np.ascontiguousarray(content))
    mask = None
    if known is not None and not pc.all(known, skip_nulls=False, min_count=0).as_py():
        mask = known.buffers()[1] if known.offset == 0 else pc.and_(known, known).buffers()[1]
    return pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, [mask, offsets, data])


def joined(parts: Sequence[pa.Array], *, missing: str = "skip") -> pa.Array:
    """The byte strings of each row one after the other; missing: what a NULL makes of it, Arrow's `null_handling`."""
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()), null_handling=missing)


def lengths_of(lists: pa.Array) -> NDArray[np.int64]:
    """How many items each list has; 0 for NULL."""
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0), np.int64)


def items_of(lists: pa.Array) -> pa.Array:
    """The items of all lists, those behind a NULL left out."""
    return pc.list_flatten(lists)


def column(table: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    return table.column(name).combine_chunks()


# From PostgreSQL


def read(connection: Connection, query: Select[Any], schema: pa.Schema) -> pa.Table:
    """What a query finds. schema: the types of its columns."""
    driver = connection.connection.cursor()
    written = query.compile(connection, compile_kwargs={"literal_binds": True})
    # Percent signs are doubled for a driver that is given parameters.
    statement = f"COPY ({written}) TO STDOUT (FORMAT BINARY)".replace("%%", "%")
    rows: list[bytes] = []
    with sqlalchemy_errors(connection, statement), driver.copy(statement) as copy:
        # The driver's own way to each row takes longer than all that is done with it.
        received = driver.connection.pgconn.get_copy_data
        while True:
            size, content = received(0)
            row = bytes(content).removeprefix(b"" if rows else SIGNATURE)
            if size < 0 or row == END:
                break
            rows.append(row)
        # Takes the statement's result, and raises what went wrong.
        copy.read()
    return decoded(rows, schema)


def decoded(rows: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """Rows as a table."""
    data = np.frombuffer(b"".join(rows), np.uint8)
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    # Each place is that of the next column's length, after the number of columns.
    place = np.cumsum(sizes) - sizes + 2
    arrays = []
    for field in schema:
        size = _integers(data, place)
        place = place + 4
        known = size >= 0
        arrays.append(_decoded(data, place[known], size[known].astype(np.int64), known, field.type))
        place = place + np.maximum(size, 0)
    return pa.Table.from_arrays(arrays, schema=schema)


def _integers(data: Bytes, places: Places) -> NDArray[np.int32]:
    return _taken(data, places, 4).view(">i4").reshape(-1).astype(np.int32)


def _taken(data: Bytes, places: Places, width: int) -> Bytes:
    """So many bytes from each place, (places, width)."""
    found: Bytes = data[places[:, None] + np.arange(width)]
    return found


def _strings(data: Bytes, places: Places, sizes: Places) -> tuple[Bytes, Places]:
    """What lies at these places, in one, and where each ends in it, (places + 1,)."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return data[np.repeat(places - ends[:-1], sizes) + np.arange(ends[-1])], ends


def _decoded(data: Bytes, places: Places, sizes: Places, known: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    if pa.types.is_list(kind):
        return _lists(data, places, known, kind)
    if pa.types.is_string(kind):
        content, ends = _strings(data, places, sizes)
        found = binaries(content, ends).cast(pa.large_string()).cast(kind)
    elif pa.types.is_binary(kind):
        content, ends = _strings(data, places, sizes)
        found = binaries(content, ends).cast(kind)
    elif pa.types.is_fixed_size_binary(kind):
        content = _taken(data, places, kind.byte_width)
        found = pa.Array.from_buffers(kind, len(places), [None, pa.py_buffer(content)])
    elif pa.types.is_boolean(kind):
        found = pa.array(data[places].astype(bool))
    else:
        found = _numbers(data, places, kind)
    return found if known.all() else found.take(_spread(known))


def _numbers(data: Bytes, places: Places, kind: pa.DataType) -> pa.Array:
    letter = NUMBERS[kind]
    raw = _taken(data, places, int(letter[1]))
    return pa.array(raw.view(f">{letter}").reshape(-1).astype(f"<{letter}"), kind)


def _lists(data: Bytes, places: Places, known: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    if _integers(data, places + 4).any():
        message = "a list of numbers has an empty place; see what is affected with: shuffleboard verify"
        raise ArchiveError(message)
    counts = np.zeros(len(places), np.int64)
    filled = _integers(data, places) > 0
    counts[filled] = _integers(data, places[filled] + 12)
    size = 4 + int(NUMBERS[kind.value_type][1])
    ends = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], counts)
    items = _numbers(data, np.repeat(places + 24, counts) + within * size, kind.value_type)
    found = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, type=kind)
    return found if known.all() else found.take(_spread(known))


def _spread(known: NDArray[np.bool_]) -> pa.Array:
    """For each row the number of its value among those that there are, or NULL."""
    return pa.array(np.cumsum(known) - 1, pa.int64(), mask=~known)


def contiguous(strings: pa.Array) -> Any:
    """All of an array's byte strings, one after the other."""
    offsets = ends_of(strings)
    return memoryview(strings.buffers()[2] or b"")[offsets[0] : offsets[-1]]


def ends_of(strings: pa.Array) -> NDArray[np.int64]:
    """Where each byte string begins in its buffer and the last ends, (strings + 1,)."""
    found: NDArray[np.int64] = np.frombuffer(strings.buffers()[1], np.int64)
    return found[strings.offset : strings.offset + len(strings) + 1]

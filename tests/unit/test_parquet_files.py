"""Every form of Parquet file is read as Arrow reads it; what is too large: tests/integration/test_bombs.py."""

import mmap
from itertools import product
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.errors import IngestError
from registry.files.parquet import _header, parquet_rows

ROWS: Final = (0, 1, 40)
TEXT: Final = pa.string()


def texts(rows: int) -> pa.Table:
    values = ["é" * number if number % 3 else None for number in range(rows)]
    return pa.table({"text": pa.array(values, TEXT), "number": pa.array(range(rows), pa.int64())})


def nulls(rows: int) -> pa.Table:
    return pa.table(
        {
            "nothing": pa.nulls(rows),
            "text": pa.nulls(rows, TEXT),
            "flag": pa.nulls(rows, pa.bool_()),
            "list": pa.nulls(rows, pa.list_(TEXT)),
            "struct": pa.nulls(rows, pa.struct([("text", TEXT)])),
        }
    )


def nested(rows: int) -> pa.Table:
    return pa.table(
        {
            "list": pa.array([["a"] * (number % 3) if number % 4 else None for number in range(rows)], pa.list_(TEXT)),
            "lists": pa.array([[["x"], []]] * rows, pa.list_(pa.list_(TEXT))),
            "map": pa.array([[("key", "value")]] * rows, pa.map_(TEXT, TEXT)),
            "struct": pa.array([{"a": ["x"]}] * rows, pa.struct([("a", pa.list_(TEXT))])),
        }
    )


TABLES: Final = (texts, nulls, nested)
TYPES: Final[tuple[tuple[pa.DataType, Any], ...]] = (
    (pa.large_string(), "x"),
    (pa.string_view(), "a text that is longer than a view"),
    (pa.binary_view(), b"x"),
    (pa.binary(4), b"four"),
    (pa.float16(), 1.0),
    (pa.list_(TEXT, 2), ["a", "b"]),
    (pa.large_list(TEXT), ["a"]),
    (pa.list_view(TEXT), ["a"]),
    (pa.list_(pa.string_view()), ["a"]),
    (pa.dictionary(pa.int8(), TEXT), "x"),
    (pa.dictionary(pa.int8(), pa.int64()), 5),
    (pa.list_(pa.dictionary(pa.int8(), TEXT)), ["x"]),
    (pa.json_(), '{"a": 1}'),
)
OPTIONS: Final[tuple[dict[str, Any], ...]] = (
    *(
        {"version": version, "data_page_version": pages, "compression": compression, "use_dictionary": dictionary}
        for version, pages, compression, dictionary in product(
            ("1.0", "2.6"), ("1.0", "2.0"), ("none", "snappy", "gzip", "brotli", "zstd", "lz4"), (True, False)
        )
    ),
    {"write_statistics": False},
    {"write_page_index": True, "data_page_version": "2.0", "max_rows_per_page": 2},
    {"write_page_checksum": True},
    {"row_group_size": 5, "write_page_index": True},
    {"data_page_size": 16, "write_batch_size": 3, "dictionary_pagesize_limit": 16},
    {"store_schema": False},
    {"bloom_filter_options": {"text": True}},
)


def require_same(path: Path, what: object) -> None:
    assert list(parquet_rows(path)) == pq.ParquetFile(path).read().to_pylist(), what


@pytest.mark.parametrize("rows", ROWS)
def test_whichever_options_it_was_written_with(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "t.parquet"
    for make, options in product(TABLES, OPTIONS):
        table = make(rows)
        if "bloom_filter_options" not in options or "text" in table.column_names:
            pq.write_table(table, path, **options)
            require_same(path, (make.__name__, options))


@pytest.mark.parametrize("rows", ROWS)
def test_whichever_encoding_a_column_has(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "t.parquet"
    encodings = (
        ("text", ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")),
        ("number", ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT")),
    )
    for column, names in encodings:
        for encoding, pages in product(names, ("1.0", "2.0")):
            how: dict[str, Any] = {"column_encoding": {column: encoding}, "data_page_version": pages}
            pq.write_table(texts(rows).select([column]), path, use_dictionary=False, **how)
            require_same(path, how)
    listed = {"list.list.element": "DELTA_BYTE_ARRAY"}
    pq.write_table(nested(rows).select(["list"]), path, use_dictionary=False, column_encoding=listed)
    require_same(path, listed)


@pytest.mark.parametrize("rows", ROWS)
def test_whichever_type_a_column_has(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "t.parquet"
    for (kind, value), dictionary in product(TYPES, (True, False)):
        column = pa.array([value if number % 5 else None for number in range(rows)], kind)
        pq.write_table(pa.table({"a.b": column}), path, use_dictionary=dictionary)
        require_same(path, kind)


def test_row_groups_without_rows_and_files_without_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for make, groups in product(TABLES, ((), (0,), (0, 40, 0), (40, 0, 0, 1))):
        with pq.ParquetWriter(path, make(0).schema) as writer:
            for rows in groups:
                writer.write_table(make(rows))
        require_same(path, (make.__name__, groups))
    for table in (pa.table({}), texts(3).select([])):
        pq.write_table(table, path)
        require_same(path, table)


@pytest.mark.parametrize("version", ["V1", "V2"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS a WHERE false",
        "SELECT NULL::VARCHAR AS a, '' AS b FROM range(3000)",
        "SELECT i, 'x' || (i % 7) AS s, i::VARCHAR AS t, [i::VARCHAR, 'b'] AS l, {'a': i} AS r FROM range(5000) t(i)",
    ],
)
def test_what_duckdb_writes(tmp_path: Path, query: str, version: str) -> None:
    path = tmp_path / "t.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY ({query}) TO '{path}' (FORMAT parquet, PARQUET_VERSION {version}, ROW_GROUP_SIZE 2048)"
        )
    require_same(path, query)


def test_a_text_that_stands_once_is_not_unpacked_for_every_row(tmp_path: Path) -> None:
    """Where it cannot be read as a number into a dictionary, few rows are read at once."""
    path = tmp_path / "t.parquet"
    table = pa.table({"text": ["x" * (1 << 20)] * 40})
    pq.write_table(table, path, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"}, compression="zstd")
    before = pa.total_allocated_bytes()
    rows = parquet_rows(path)
    assert len(next(rows)["text"]) == 1 << 20
    assert pa.total_allocated_bytes() - before < 30 << 20
    rows.close()


def _read_header(folder: Path, content: bytes) -> Any:
    path = folder / "header"
    path.write_bytes(content)
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        return _header(mapped, 0)


PLAIN: Final = bytes.fromhex("1500 1514 1514 2c 1506 1500 1506 1506 00")
"""Kind 0, 10 bytes, 10 packed; field 5: 3 values, plain, their levels."""


@pytest.mark.parametrize(
    "later",
    [
        pytest.param("", id="nothing"),
        pytest.param("5935020406", id="a list of numbers"),
        pytest.param("59f810" + "0161" * 16, id="a long list of texts"),
        pytest.param("5b00", id="an empty map"),
        pytest.param("5b0185016104", id="a map of texts to numbers"),
        pytest.param("5c192c15020015040000", id="a structure with a list of structures"),
        pytest.param("5d" + "00" * 16, id="a UUID"),
        pytest.param("51", id="true"),
        pytest.param("57" + "00" * 8, id="a double"),
    ],
)
def test_what_later_versions_add_to_a_header_is_passed_over(tmp_path: Path, later: str) -> None:
    content = PLAIN + bytes.fromhex(later) + b"\0"
    page, end = _read_header(tmp_path, content + b"page")
    assert (page.values, page.unpacked, end) == (3, 10, len(content))


@pytest.mark.parametrize("content", ["", "15", "1500 1514 00", "19f5ffffffff0f", "1500 1513 1514 00", "1e"])
def test_a_damaged_header_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match="header of a page"):
        _read_header(tmp_path, bytes.fromhex(content) + b"\xff")


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for content in (b"", b"PAR1", b"PAR1" + b"\0" * 50 + b"PAR1"):
        path.write_bytes(content)
        with pytest.raises(IngestError, match=r"t\.parquet: cannot be read as Parquet"):
            list(parquet_rows(path))

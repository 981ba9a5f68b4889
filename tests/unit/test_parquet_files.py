"""Every form of Parquet file, read as Arrow reads it; tests/integration/test_bombs.py has too large files."""

from itertools import product
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.errors import IngestError
from registry.files.parquet import parquet_columns, parquet_rows
from tests.support import bombs

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


@pytest.mark.long
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


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for content in (b"", b"PAR1", b"PAR1" + b"\0" * 50 + b"PAR1"):
        path.write_bytes(content)
        with pytest.raises(IngestError, match=r"t\.parquet: cannot be read as Parquet"):
            list(parquet_rows(path))


@pytest.mark.long
def test_a_file_that_needs_too_much_memory_is_refused_before_unpacking(tmp_path: Path) -> None:
    path = bombs.endless_list(tmp_path, 600)
    before = pa.total_allocated_bytes()
    with pytest.raises(IngestError, match=r"^list\.parquet: cannot be unpacked within the limit of \d+ bytes at once"):
        list(parquet_rows(path))
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_columns_are_named_and_another_file_has_none(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"b": [1], "a": ["x"]}), path)
    assert parquet_columns(path) == ["b", "a"]
    path.write_bytes(b"PAR1" + b"x" * 200 + b"PAR1")
    assert parquet_columns(path) == []

"""Writers of relations as Parquet, CSV and JSON Lines files, one batch at a time."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from registry.db import utc_text
from registry.exchange.exports.relations import (
    BOOLEAN,
    DIGEST,
    DOUBLE,
    DOUBLES,
    INTEGER,
    INTEGERS,
    JSON,
    TEXT,
    TEXTS,
    TIME,
)

Rows = list[dict[str, Any]]
Columns = Mapping[str, str]
"""Column name to type, in order."""
Append = Callable[[Rows], None]
Writer = Callable[[Path, Columns], AbstractContextManager[Append]]


@contextmanager
def parquet(path: Path, columns: Columns) -> Iterator[Append]:
    """Write a Parquet file with one row group per batch. Arrays become lists, and times UTC in microseconds.

    Arrow's own schema is left out: it repeats the types and would double the footer of a small file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        INTEGER: pa.int64(),
        DOUBLE: pa.float64(),
        BOOLEAN: pa.bool_(),
        TEXT: pa.string(),
        TIME: pa.timestamp("us", tz="UTC"),
        DIGEST: pa.string(),
        JSON: pa.string(),
        INTEGERS: pa.list_(pa.int64()),
        DOUBLES: pa.list_(pa.float64()),
        TEXTS: pa.list_(pa.string()),
    }
    schema = pa.schema([pa.field(name, types[kind]) for name, kind in columns.items()])
    with pq.ParquetWriter(path, schema, compression="zstd", store_schema=False) as file:
        yield lambda rows: file.write_batch(pa.RecordBatch.from_pylist(rows, schema))


@contextmanager
def comma_separated(path: Path, columns: Columns) -> Iterator[Append]:
    """Write a CSV file (RFC 4180, UTF-8, lines end in a line feed). NULL is an empty cell; texts are quoted.

    Nothing is escaped for spreadsheets: a text that begins with "=" is written as it is.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(columns)

        def append(rows: Rows) -> None:
            file.writelines(",".join(_cell(row[column]) for column in columns) + "\n" for row in rows)

        yield append


def _cell(value: Any) -> str:
    """Format a CSV cell. Lists are JSON, and floats have as many digits as they need to be read back exactly."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime):
        return utc_text(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return '"' + text.replace('"', '""') + '"'


@contextmanager
def json_lines(path: Path, columns: Columns) -> Iterator[Append]:
    """Write a JSON Lines file: one object a line, with every column; NULL is null, and times are texts."""
    with path.open("w", encoding="utf-8", newline="\n") as file:

        def append(rows: Rows) -> None:
            file.writelines(
                json.dumps(
                    {column: row[column] for column in columns},
                    ensure_ascii=False,
                    allow_nan=False,
                    default=_format_time,
                )
                + "\n"
                for row in rows
            )

        yield append


def _format_time(value: Any) -> str:
    assert isinstance(value, datetime)
    return utc_text(value)


WRITERS: Final[Mapping[str, Writer]] = {"parquet": parquet, "csv": comma_separated, "jsonl": json_lines}
"""Map a format, which is also its files' ending, to its writer."""


def write_rows(writer: Writer, path: Path, columns: Columns, rows: Iterable[Sequence[dict[str, Any]]]) -> int:
    """Write batches of rows as one file; return how many rows there were."""
    count = 0
    with writer(path, columns) as append:
        for batch in rows:
            append(list(batch))
            count += len(batch)
    return count

"""The file that the predictions of one evaluation are archived in: Parquet that pandas, DuckDB and R read as it is.

One row for each prediction, sorted by `question` (its external id) and `variant`, with the columns of the table
`prediction` and, named `generation_…`, what the model wrote. Nothing in it but `reused_from_evaluation_id` is a number
of this registry. Row groups hold whole questions, so that those of one question are found by the groups' statistics and
read without the rest. Every page has a checksum.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, LargeBinary, SmallInteger, Text
from sqlalchemy.types import TypeEngine

from registry.db import Digest, DoubleArray, SmallIntArray
from registry.errors import ArchiveError
from registry.files.stores import AT_ONCE, Store
from registry.tables import Generation, Prediction
from registry.untrusted import decode

FORMAT: Final = 1
ENDING: Final = ".parquet"
MANIFEST: Final = ".json"
PART: Final = ".part"
"""Endings of an archive, of what describes it, and of either until it is whole."""

QUESTION: Final = "question"
METADATA: Final = "shuffleboard"
"""The key of the schema's metadata under which the file is described."""
TEXT: Final = "generation_"
GROUP: Final = 4096
"""Rows from which on a row group ends with its question: a page of one question reads one group."""

_KEYS: Final = frozenset({"evaluation_id", "question_id", "variant"})
_ARROW: Final[tuple[tuple[type[TypeEngine[Any]], pa.DataType], ...]] = (
    (Digest, pa.binary(32)),
    (SmallIntArray, pa.list_(pa.int16())),
    (DoubleArray, pa.list_(pa.float64())),
    (Boolean, pa.bool_()),
    (Double, pa.float64()),
    (SmallInteger, pa.int16()),
    (BigInteger, pa.int64()),
    (Integer, pa.int32()),
    (Text, pa.string()),
    (LargeBinary, pa.binary()),
)


def arrow_type(column: Column[Any] | Any) -> pa.DataType:
    """The type of a column of the database in a file."""
    return next(arrow for kind, arrow in _ARROW if isinstance(column.type, kind))


PREDICTION_COLUMNS: Final = tuple(
    column.name for column in Prediction.__table__.columns if column.name not in ("evaluation_id", "question_id")
)
TEXT_COLUMNS: Final = tuple(column.name for column in Generation.__table__.columns if column.name not in _KEYS)

SCHEMA: Final = pa.schema(
    [
        pa.field(QUESTION, pa.string(), nullable=False),
        *(pa.field(name, arrow_type(Prediction.__table__.columns[name])) for name in PREDICTION_COLUMNS),
        *(pa.field(f"{TEXT}{name}", arrow_type(Generation.__table__.columns[name])) for name in TEXT_COLUMNS),
    ]
)

_MEASURED: Final = tuple(
    f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name
    for field in SCHEMA
    if field.type in (pa.float64(), pa.list_(pa.float64()))
)
"""Columns of numbers that hardly repeat: a dictionary would be as long as they are."""


def _path(field: pa.Field) -> str:
    return f"{field.name}.list.element" if pa.types.is_list(field.type) else str(field.name)


def table_of(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Rows of values in the order of a schema, digests as the registry gives them."""
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        stored = values
        if field.type == pa.binary(32):
            stored = [None if value is None else bytes.fromhex(value) for value in values]
        arrays.append(pa.array(stored, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def write(stream: Any, groups: Iterable[pa.Table], description: Mapping[str, Any]) -> tuple[int, int]:
    """Writes an archive; returns how many predictions and texts it holds.

    groups: tables of whole questions, by external id, each a row group. description: goes into the schema's metadata.
    """
    metadata = {METADATA: json.dumps(description, ensure_ascii=False, sort_keys=True)}
    predictions = texts = 0
    with pq.ParquetWriter(
        stream,
        SCHEMA.with_metadata(metadata),
        compression="zstd",
        compression_level=9,
        use_dictionary=[_path(field) for field in SCHEMA if _path(field) not in _MEASURED],
        use_byte_stream_split=list(_MEASURED),
        write_page_checksum=True,
        write_statistics=[QUESTION],
        data_page_version="2.0",
    ) as writer:
        for table in groups:
            writer.write_table(table, row_group_size=max(1, len(table)))
            column = table.column(f"{TEXT}text")
            predictions, texts = predictions + len(table), texts + len(table) - int(column.null_count)
    return predictions, texts


@contextmanager
def opened(store: Store, name: str, *, checked: bool = True, whole: bool = False) -> Iterator[pq.ParquetFile]:
    """An archive to be read. checked: whether a page that does not match its checksum is refused, and another's file.

    whole: whether all groups will be. Raises ArchiveError where it is missing, damaged, or of another evaluation than
    its name says, which begins with the seal.
    """
    # Of a store that is far away the columns of a group are asked for together, not one after the other.
    far = store.folder is None
    try:
        with ExitStack() as stack:
            stream = stack.enter_context(store.reading(name))
            if far and whole and stream.size() <= AT_ONCE:
                # Two requests for each group take longer than the bytes: a file of 300,000 predictions has hundreds.
                stream = pa.BufferReader(stream.read_buffer())
            reader = pq.ParquetFile(stream, page_checksum_verification=checked, pre_buffer=far)
            file = stack.enter_context(reader)
            if file.schema_arrow.names != SCHEMA.names:
                raise ArchiveError(f"{store.url_of(name)}: has other columns than an archive; bring back the right one")
            if checked and (seal := _seal_in(file)) != name.split(".", maxsplit=1)[0]:
                raise ArchiveError(
                    f"{store.url_of(name)}: holds an evaluation with another seal ({seal}) than its name says; bring "
                    "back the right one"
                )
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damaged(store, name, error) from None


def _seal_in(file: pq.ParquetFile) -> str:
    """The seal that a file says is its evaluation's; empty where it says none."""
    said = (file.schema_arrow.metadata or {}).get(METADATA.encode(), b"{}")
    with suppress(ValueError):
        found = decode(said)
        return str(found.get("seal", "")) if isinstance(found, dict) else ""
    return ""


def damaged(store: Store, name: str, error: Exception) -> ArchiveError:
    """What is said of a file that cannot be read as what it should be."""
    reason = " ".join(str(error).split())[:200]
    return ArchiveError(f"{store.url_of(name)}: is damaged ({reason}); bring it back from a backup")


def groups(store: Store, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The archive's row groups, one after the other."""
    with opened(store, name, whole=True) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number, columns)


def salvaged(store: Store, name: str) -> Iterator[pa.Table]:
    """What can still be read of an archive, group by group: where a page is damaged, past its checksum, or not at all.

    For naming the questions that are not what was sealed. Raises ArchiveError where the file cannot be opened.
    """
    with opened(store, name, checked=False, whole=True) as file:
        for number in range(file.num_row_groups):
            try:
                table = file.read_row_group(number)
                table.validate(full=True)
            except (pa.ArrowException, OSError, UnicodeDecodeError):
                continue
            yield table


def of_questions(store: Store, name: str, wanted: Collection[str], columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of these questions; no group without one of them is read. columns: `question` and others; None: all."""
    found = []
    listed = sorted(wanted)
    with opened(store, name) as file:
        for number in range(file.num_row_groups):
            statistics = file.metadata.row_group(number).column(0).statistics
            if statistics is None or any(statistics.min <= one <= statistics.max for one in listed):
                table = file.read_row_group(number, columns)
                found.append(table.filter(pc.is_in(table.column(QUESTION), value_set=pa.array(listed, pa.string()))))
    return pa.concat_tables(found) if found else SCHEMA.empty_table().select(columns or SCHEMA.names)


def values_of(table: pa.Table, columns: Sequence[str] = SCHEMA.names) -> Iterator[tuple[Any, ...]]:
    """The rows of a table as the registry gives them: digests in hexadecimal digits."""
    listed = []
    for name in columns:
        values = table.column(name).to_pylist()
        if table.schema.field(name).type == pa.binary(32):
            values = [None if value is None else value.hex() for value in values]
        listed.append(values)
    return zip(*listed, strict=True)

"""The file with the predictions and texts of a sealed evaluation, in its folder (`registry/sealed/folder.py`).

It has one row for each prediction, sorted by question and variant: the columns of the table `prediction`, names that
identify it, and the model's text in columns `generation_…`. `question_id` and `reused_from_evaluation_id` are ids in
the registry that wrote the file. Row groups contain whole questions, so that one question's rows can be found by the
groups' statistics and read without the rest. Every page has a checksum.
"""

# SQL is built from our own names of tables and columns alone.
# ruff: noqa: S608

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import select, type_coerce
from sqlalchemy.orm import Session

from registry import formats
from registry.db import is_in, utc_text
from registry.errors import ArchiveError
from registry.files.stores import AT_ONCE, Store
from registry.predictions.arrow import arrow_type
from registry.schema.documented import columns_of
from registry.tables import (
    Evaluation,
    EvaluationQuestion,
    Generation,
    Prediction,
    Question,
    QuestionOption,
    Variant,
)
from registry.untrusted import decode

PREDICTIONS: Final = "predictions.parquet"
EVALUATION: Final = "evaluation.json"
"""Files of an evaluation's folder.

EVALUATION lists all others with their digests and is written last: a folder without it is incomplete, and ignored.
"""
PART: Final = ".part"
"""Suffix of a folder's name until it is complete."""

QUESTION: Final = "question"
METADATA: Final = "shuffleboard"
"""The key of the schema's metadata under which the file is described."""
TEXT: Final = "generation_"
GROUP: Final = 4096
"""Rows after which a row group ends with its current question: a page about one question reads one group."""

_KEYS: Final = frozenset({"evaluation_id", "question_id", "variant"})

PREDICTION_COLUMNS: Final = tuple(
    column.name for column in Prediction.__table__.columns if column.name not in ("evaluation_id", "question_id")
)
TEXT_COLUMNS: Final = tuple(column.name for column in Generation.__table__.columns if column.name not in _KEYS)

NAMED: Final[Mapping[str, Any]] = {
    "question_id": Prediction.question_id,
    QUESTION: Question.external_id,
    "subject": Question.subject,
    "answer": Question.answer,
    "variant_name": Variant.name,
    "chosen_option_text": QuestionOption.text,
}
"""Columns that identify a prediction: the question's number in the registry that wrote the file, and names."""

SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, arrow_type(column.type)) for name, column in NAMED.items()),
        *(pa.field(name, arrow_type(Prediction.__table__.columns[name].type)) for name in PREDICTION_COLUMNS),
        *(pa.field(f"{TEXT}{name}", arrow_type(Generation.__table__.columns[name].type)) for name in TEXT_COLUMNS),
    ]
)


def _value_before(column: Any) -> Any:
    """Return the value that a column has in files older than it: None, or its default.

    Raises LookupError if it is neither nullable nor has a default.
    """
    if column.nullable:
        return None
    if column.default is None or not column.default.is_scalar:
        raise LookupError(f"column {column}: files from before it lack it; let it be nullable, or give it a default")
    return column.default.arg


ABSENT: Final[Mapping[str, Any]] = {
    f"{prefix}{column.name}": _value_before(column)
    for table, prefix in ((Prediction, ""), (Generation, TEXT))
    for column in table.__table__.columns
    if column.info.get(formats.SEALED_SINCE, 1) > 1
}
"""Columns that an older file may lack, with their values for it."""

_MEASURED: Final = tuple(
    f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name
    for field in SCHEMA
    if field.type in (pa.float64(), pa.list_(pa.float64()))
)
"""Columns of floating-point numbers, which compress better by byte position."""

_RARELY_REPEATED: Final = (*_MEASURED, *(field.name for field in SCHEMA if field.type == pa.binary(32)))
"""Columns whose values rarely repeat: a dictionary would be as long as they are."""


def _leaf_path(field: pa.Field) -> str:
    return f"{field.name}.list.element" if pa.types.is_list(field.type) else str(field.name)


def write(stream: Any, groups: Iterable[pa.Table], description: Mapping[str, Any]) -> tuple[int, int]:
    """Write a file of predictions; return its numbers of predictions and texts.

    groups: tables of whole questions, each a row group. description: goes into the schema's metadata.
    """
    metadata = {METADATA: json.dumps(description, ensure_ascii=False, sort_keys=True)}
    predictions = texts = 0
    with pq.ParquetWriter(
        stream,
        SCHEMA.with_metadata(metadata),
        compression="zstd",
        compression_level=9,
        use_dictionary=[_leaf_path(field) for field in SCHEMA if _leaf_path(field) not in _RARELY_REPEATED],
        use_byte_stream_split=list(_MEASURED),
        write_page_checksum=True,
        write_statistics=[SCHEMA.names[0]],
        data_page_version="2.0",
    ) as writer:
        for table in groups:
            writer.write_table(table, row_group_size=max(1, len(table)))
            column = table.column(f"{TEXT}text")
            predictions, texts = predictions + len(table), texts + len(table) - int(column.null_count)
    return predictions, texts


@contextmanager
def open_predictions(store: Store, name: str, *, checked: bool = True) -> Iterator[pq.ParquetFile]:
    """Open a file of predictions.

    name: FOLDER/FILE, with the seal at the beginning of the folder's name. checked: whether to refuse pages that do not
    match their checksum, and a file of another evaluation than the seal's. Raises ArchiveError if the file is missing
    or damaged, lacks a required column, or has a column that this version does not know.
    """
    # The columns of a group in a remote store are requested together, not one after the other.
    remote = store.folder is None
    try:
        with ExitStack() as stack:
            stream = stack.enter_context(store.reading(name))
            if remote and stream.size() <= AT_ONCE:
                # Two requests for each group take longer than the bytes: a file of 300,000 predictions has hundreds.
                stream = pa.BufferReader(stream.read_buffer())
            reader = pq.ParquetFile(stream, page_checksum_verification=checked, pre_buffer=remote)
            file = stack.enter_context(reader)
            description = _read_description(file)
            number = description.get(formats.NUMBER)
            formats.require_known(store.url_of(name), "folder", number, formats.FOLDER, ArchiveError)
            _require_columns(file.schema_arrow.names, store.url_of(name))
            if checked and (seal := description.get("seal", "")) != name[:64]:
                raise ArchiveError(
                    f"{store.url_of(name)}: holds an evaluation with another seal ({seal}) than its name says; bring "
                    "back the right one"
                )
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damage_error(store, name, error) from None


def _read_description(file: pq.ParquetFile) -> dict[str, Any]:
    """Return the description in a file's metadata; empty if it has none."""
    with suppress(ValueError):
        document = decode((file.metadata.metadata or {}).get(METADATA.encode(), b"{}"))
        return document if isinstance(document, dict) else {}
    return {}


def damage_error(store: Store, name: str, error: Exception) -> ArchiveError:
    """Return the error about a damaged file."""
    reason = " ".join(str(error).split())[:200]
    return ArchiveError(f"{store.url_of(name)}: is damaged ({reason}); bring it back from a backup")


def _require_columns(names: Sequence[str], url: str) -> None:
    """Raise ArchiveError if a file lacks a required column, or has a column that is not in SCHEMA."""
    if unknown := sorted(set(names) - set(SCHEMA.names)):
        raise ArchiveError(
            f"{url}: has columns that this version does not know ({', '.join(unknown)}); read it with the version that "
            "wrote it, or a newer one"
        )
    if missing := sorted(set(SCHEMA.names) - ABSENT.keys() - set(names)):
        raise ArchiveError(f"{url}: lacks columns ({', '.join(missing)}); bring back the right one")


def complete_columns(table: pa.Table) -> pa.Table:
    """Return a file's table with all columns of SCHEMA, in its order; missing ones get their value in ABSENT."""
    present = set(table.column_names)
    arrays = [
        table.column(field.name)
        if field.name in present
        else pa.repeat(pa.scalar(ABSENT[field.name], field.type), len(table))
        for field in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def groups(store: Store, name: str) -> Iterator[pa.Table]:
    """Yield the row groups of a file of predictions, each with all columns of SCHEMA."""
    with open_predictions(store, name) as file:
        for number in range(file.num_row_groups):
            yield complete_columns(file.read_row_group(number))


def copy_completed(store: Store, name: str, path: Path) -> None:
    """Copy a file of predictions to a local path, or link it; if it lacks columns, rewrite it with all of SCHEMA."""
    with open_predictions(store, name) as file:
        if file.schema_arrow.names == SCHEMA.names:
            store.copy(name, path)
            return
    with path.open("wb") as stream:
        write(stream, groups(store, name), {})


def salvage(store: Store, name: str) -> Iterator[pa.Table]:
    """Yield the readable groups of a damaged file of predictions, ignoring checksums of pages.

    Call it to find the changed questions. Raises ArchiveError if the file cannot be opened.
    """
    with open_predictions(store, name, checked=False) as file:
        for number in range(file.num_row_groups):
            try:
                table = file.read_row_group(number)
                table.validate(full=True)
            except (pa.ArrowException, OSError, UnicodeDecodeError):
                continue
            yield complete_columns(table)


def values(table: pa.Table, column: str) -> list[Any]:
    """Return the values of a column as the registry stores them: digests in hexadecimal digits."""
    listed: list[Any] = table.column(column).to_pylist()
    if table.schema.field(column).type == pa.binary(32):
        return [None if value is None else value.hex() for value in listed]
    return listed


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's row with hexadecimal digests, and with the columns that older files lack."""
    row = {**ABSENT, **row}
    return {name: value.hex() if name in _DIGESTS and value is not None else value for name, value in row.items()}


_DIGESTS: Final = frozenset(field.name for field in SCHEMA if field.type == pa.binary(32))


# From the database


def describe_file(evaluation: Evaluation) -> dict[str, Any]:
    """Return the description of a file: its evaluation, and the meaning of its columns."""
    documented = columns_of("prediction_detail")
    meanings = {}
    for name in SCHEMA.names:
        view = {QUESTION: "external_id", f"{TEXT}text": "generation", f"{TEXT}extracted": "extracted"}.get(name, name)
        if view in documented:
            meanings[name] = documented[view].meaning
    assert evaluation.sealed_at is not None
    return {
        formats.NUMBER: formats.FOLDER,
        "seal": evaluation.seal,
        "seal_version": evaluation.seal_version,
        "sealed_at": utc_text(evaluation.sealed_at),
        "model": evaluation.model_revision.model.name,
        "revision": evaluation.model_revision.number,
        "benchmark": evaluation.benchmark_version.benchmark.name,
        "benchmark_version": evaluation.benchmark_version.version,
        "protocol": evaluation.protocol.name,
        "shots": evaluation.protocol.shots,
        "variants": evaluation.variant_set.name,
        "specification": evaluation.specification,
        "columns": meanings,
    }


def tables(session: Session, evaluation_id: int) -> Iterator[pa.Table]:
    """Yield an evaluation's predictions from the database as row groups of whole questions."""
    question_sizes = select(EvaluationQuestion.question_id, EvaluationQuestion.n_variants).filter_by(
        evaluation_id=evaluation_id
    )
    ids: list[int] = []
    rows = 0
    for question_id, variants in session.execute(question_sizes.order_by(EvaluationQuestion.question_id)).all():
        ids.append(question_id)
        rows += variants
        if rows >= GROUP:
            yield from rows_of(session, evaluation_id, ids)
            ids, rows = [], 0
    yield from rows_of(session, evaluation_id, ids)


def rows_of(session: Session, evaluation_id: int, ids: Sequence[int]) -> Iterator[pa.Table]:
    """Yield the predictions of these questions as one row group; nothing if there are none."""
    prediction, text, option = Prediction, Generation, QuestionOption
    columns = [
        *NAMED.values(),
        *(prediction.__table__.columns[name] for name in PREDICTION_COLUMNS),
        *(text.__table__.columns[name] for name in TEXT_COLUMNS),
    ]
    # Raw values: converting them to the registry's types takes longer than all the rest.
    stored = (type_coerce(column, getattr(column.type, "impl", column.type)) for column in columns)
    query = (
        select(*(column.label(name) for name, column in zip(SCHEMA.names, stored, strict=True)))
        .join(Question, Question.id == prediction.question_id)
        .join(Evaluation, Evaluation.id == prediction.evaluation_id)
        .outerjoin(
            Variant,
            (Variant.variant_set_id == Evaluation.variant_set_id)
            & (Variant.n_options == Question.n_options)
            & (Variant.ordinal == prediction.variant),
        )
        .outerjoin(
            option, (option.question_id == prediction.question_id) & (option.ordinal == prediction.chosen_option)
        )
        .outerjoin(
            text,
            (text.evaluation_id == prediction.evaluation_id)
            & (text.question_id == prediction.question_id)
            & (text.variant == prediction.variant),
        )
        .where(prediction.evaluation_id == evaluation_id, is_in(prediction.question_id, ids))
    )
    connection = session.connection()
    if connection.dialect.name == "postgresql":
        from registry.predictions import binary_copy  # loads numpy, which the website does without

        table = binary_copy.read(connection, query, SCHEMA)
    else:
        rows = session.execute(query).all()
        arrays = map(_convert_from_sqlite, zip(*rows, strict=True) if rows else [()] * len(SCHEMA), SCHEMA.types)
        table = pa.Table.from_arrays(list(arrays), schema=SCHEMA)
    if len(table):
        yield table.sort_by([("question_id", "ascending"), ("variant", "ascending")])


def _convert_from_sqlite(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_list(kind):
        listed = ",".join("null" if value is None else value for value in values)
        return pa.array(json.loads(f"[{listed}]"), kind)  # noqa: TID251 - our own column
    return pa.array(values, kind)


# As DuckDB reads files


def no_rows() -> str:
    """Return a SELECT of no rows with all columns of SCHEMA, for a union with older files that lack some."""
    return f"SELECT {', '.join(f'NULL::{_duckdb_type(field.type)} AS {field.name}' for field in SCHEMA)} WHERE false"


def _duckdb_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"{_duckdb_type(kind.value_type)}[]"
    return _DUCKDB[kind]


_DUCKDB: Final[Mapping[pa.DataType, str]] = {
    pa.binary(32): "BLOB",
    pa.binary(): "BLOB",
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
}


def relation(name: str, source: str) -> str:
    """Return the SELECT that reads `prediction`, `generation` or `prediction_detail` from files.

    source: a relation with the columns of SCHEMA and `evaluation_id`.
    """
    if name == "prediction":
        listed = [_cast_column(one, one) for one in ("question_id", *PREDICTION_COLUMNS)]
        return f"SELECT evaluation_id, {', '.join(listed)} FROM {source}"
    if name == "generation":
        names = {"question_id": "question_id", "variant": "variant"} | {f"{TEXT}{one}": one for one in TEXT_COLUMNS}
        listed = [_cast_column(one, file_column) for one, file_column in names.items()]
        return f"SELECT evaluation_id, {', '.join(listed)} FROM {source} WHERE {TEXT}text IS NOT NULL"
    state = "coalesce(state, CASE WHEN chosen_position IS NULL THEN 'unread' ELSE 'answered' END) AS state"
    listed = [state if one == "state" else _cast_column(_find_file_column(one), one) for one in columns_of(name)]
    return f"SELECT {', '.join(listed)} FROM {source}"


def _find_file_column(column: str) -> str:
    """Return the file's column for a column of `prediction_detail`."""
    renamed = {"external_id": QUESTION, "generation": f"{TEXT}text", "evaluation_id": "evaluation_id"}
    return renamed.get(column) or (column if column in SCHEMA.names else f"{TEXT}{column}")


def _cast_column(column: str, name: str) -> str:
    kind = None if column == "evaluation_id" else SCHEMA.field(column).type
    default = ABSENT.get(column)
    value = column if default is None else f"coalesce({column}, {_format_literal(default)})"
    if kind == pa.binary(32):
        value = f"lower(hex({column}))"
    elif kind in (pa.int16(), pa.int32()):
        value = f"CAST({value} AS BIGINT)"
    elif kind == pa.list_(pa.int16()):
        value = f"CAST({column} AS BIGINT[])"
    return value if value == name else f"{value} AS {name}"


def _format_literal(value: Any) -> str:
    """Return a column's default as a literal of DuckDB's SQL."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)

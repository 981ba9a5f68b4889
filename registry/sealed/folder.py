"""The immutable folder of a sealed evaluation: all that its seal covers except the benchmark's texts, and metrics.

    evaluation.json                 the specification, engines and workers, and the digests of the other files
    evaluation_questions.parquet    the questions, with the leaves that the seal covers
    predictions.parquet             predictions and texts, with all columns
    metrics.parquet                 metrics with their intervals

The digest of `evaluation.json` identifies the complete folder. Rows are keyed by external question id. Times are ISO
8601, digests hexadecimal and JSON documents text, except in `predictions.parquet`, whose format
`predictions/archive_files.py` describes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from registry.db import JsonDocument
from registry.digests import sha256_text
from registry.errors import ArchiveError
from registry.files.stores import Store
from registry.predictions import archive_files
from registry.predictions.archive_files import EVALUATION, PREDICTIONS
from registry.predictions.arrow import arrow_type
from registry.sealed.manifest import evaluation_document
from registry.tables import (
    Evaluation,
    EvaluationMetric,
    EvaluationQuestion,
    Question,
    QuestionSeal,
    Shard,
)
from registry.untrusted import decode

ASKED: Final = "evaluation_questions.parquet"
METRICS: Final = "metrics.parquet"
FILES: Final = (ASKED, METRICS, PREDICTIONS, EVALUATION)
"""Files of a folder, in the order in which they are moved into place."""
BATCH: Final = 20_000

ASKED_SCHEMA: Final = pa.schema(
    [
        ("question", pa.string()),
        ("few_shot", pa.bool_()),
        ("leaf", pa.string()),
        ("n_variants", pa.int64()),
        ("shard", pa.int64()),
    ]
)


def write(session: Session, evaluation: Evaluation, store: Store, name: str) -> tuple[str, int, int, int]:
    """Write an evaluation's folder; return its digest, its size in bytes, and its numbers of predictions and texts.

    Raises ArchiveError if the store cannot be written to.
    """
    with store.writing(f"{name}/{ASKED}") as stream:
        write_table(stream, ASKED_SCHEMA, read_question_rows(session, evaluation.id))
    with store.writing(f"{name}/{METRICS}") as stream:
        write_table(stream, schema_of(EvaluationMetric, METRIC_COLUMNS), metrics(session, evaluation.id))
    with store.writing(f"{name}/{PREDICTIONS}") as stream:
        rows = archive_files.tables(session, evaluation.id)
        counts = archive_files.write(stream, rows, archive_files.describe_file(evaluation))
    listed = {file: store.digest(f"{name}/{file}") for file in FILES[:-1]}
    files = {file: {"sha256": digest, "bytes": size} for file, (digest, size) in listed.items()}
    document = evaluation_document(session, evaluation) | {"files": files}
    text = json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
    with store.writing(f"{name}/{EVALUATION}") as stream:
        stream.write(text.encode())
    size = len(text.encode()) + sum(size for _, size in listed.values())
    return sha256_text(text), size, *counts


def find_changed_files(store: Store, name: str, digest: str) -> list[str]:
    """Return the files of a folder that are missing or changed; only `evaluation.json` if that file is changed."""
    try:
        if store.digest(f"{name}/{EVALUATION}")[0] != digest:
            return [EVALUATION]
        with store.reading(f"{name}/{EVALUATION}") as stream:
            files = decode(bytes(stream.read()))["files"]
    except ArchiveError:
        return [EVALUATION]
    return [file for file, listed in files.items() if not _is_unchanged(store, f"{name}/{file}", listed["sha256"])]


def _is_unchanged(store: Store, name: str, digest: str) -> bool:
    return store.has(name) and store.digest(name)[0] == digest


def read_question_rows(session: Session, evaluation_id: int) -> Iterator[dict[str, Any]]:
    """Yield each question and each few-shot example with its leaf of the seal."""
    same_question = and_(
        EvaluationQuestion.evaluation_id == evaluation_id, EvaluationQuestion.question_id == QuestionSeal.question_id
    )
    query = (
        select(
            Question.external_id,
            Question.few_shot,
            QuestionSeal.leaf,
            EvaluationQuestion.n_variants,
            Shard.ordinal.label("shard"),
        )
        .join(Question, Question.id == QuestionSeal.question_id)
        .outerjoin(EvaluationQuestion, same_question)
        .outerjoin(Shard, Shard.id == EvaluationQuestion.shard_id)
        .where(QuestionSeal.evaluation_id == evaluation_id)
        .order_by(Question.few_shot, Question.ordinal)
    )
    for row in session.execute(query):
        yield {
            "question": row.external_id,
            "few_shot": row.few_shot,
            "leaf": row.leaf,
            "n_variants": row.n_variants,
            "shard": row.shard,
        }


def metrics(session: Session, evaluation_id: int) -> Iterator[dict[str, Any]]:
    """Yield the metrics of an evaluation in the form of its folder."""
    query = select(EvaluationMetric).filter_by(evaluation_id=evaluation_id)
    ordered = query.order_by(EvaluationMetric.scope, EvaluationMetric.metric, EvaluationMetric.definition_version)
    for row in session.scalars(ordered):
        yield convert_values(EvaluationMetric, row, METRIC_COLUMNS)


def read_folder_metrics(store: Store, name: str) -> list[dict[str, Any]]:
    """Return the metrics in a folder. Raises ArchiveError if their file is missing or damaged."""
    try:
        with store.reading(f"{name}/{METRICS}") as stream:
            rows: list[dict[str, Any]] = pq.read_table(stream).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise archive_files.damage_error(store, f"{name}/{METRICS}", error) from None
    return rows


# Tables as files


def columns_of(table: Any, *without: str) -> tuple[str, ...]:
    """Return the names of a table's columns, except those in `without`."""
    return tuple(name for name in table.__table__.columns.keys() if name not in without)  # noqa: SIM118 - a collection


METRIC_COLUMNS: Final = columns_of(EvaluationMetric, "evaluation_id", "computed_at", "code_version")


def schema_of(table: Any, names: tuple[str, ...], **more: pa.DataType) -> pa.Schema:
    """Return the Arrow schema of `more`, followed by these columns of the table."""
    columns = [table.__table__.columns[name] for name in names]
    fields = [pa.field(column.name, arrow_type(column.type), bool(column.nullable)) for column in columns]
    return pa.schema([*(pa.field(name, kind, nullable=False) for name, kind in more.items()), *fields])


def _convert_value(table: Any, name: str, value: Any) -> Any:
    """Convert a column's value to the form that files use."""
    if value is None:
        return None
    if isinstance(table.__table__.columns[name].type, JsonDocument):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return value


def convert_values(table: Any, row: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return columns of a row, converted to the form that files use."""
    return {name: _convert_value(table, name, getattr(row, name)) for name in names}


def write_table(where: Any, schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as a Parquet file. where: a path or a stream."""
    with pq.ParquetWriter(where, schema, compression="zstd") as writer:
        batch: list[Mapping[str, Any]] = []
        for row in rows:
            batch.append(row)
            if len(batch) == BATCH:
                writer.write_table(pa.Table.from_pylist(batch, schema))
                batch = []
        writer.write_table(pa.Table.from_pylist(batch, schema))

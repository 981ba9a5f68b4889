"""What the files of a crate hold, and how the database's values stand in them.

Rows are keyed by external question id, so that a crate means the same in every registry; times are ISO 8601, digests
hexadecimal, JSON documents text. Predictions and texts are the sealed evaluation's own file
(`results/archive_files.py`): its digests are bytes, and its two columns with numbers of a registry are not read.
"""

import json
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from registry.db import JsonDocument, UtcDateTime
from registry.predictions.archive_files import arrow_type
from registry.tables import EvaluationMetric, Question
from registry.untrusted import decode

CRATE_VERSION: Final = 2
MAX_ITEMS: Final = 1_000_000
"""Items of a list in a crate's documents."""
METADATA: Final = "ro-crate-metadata.json"
EVALUATION: Final = "evaluation.json"
QUESTIONS: Final = "questions.parquet"
ASKED: Final = "evaluation_questions.parquet"
PREDICTIONS: Final = "predictions.parquet"
METRICS: Final = "metrics.parquet"
PROOF: Final = "proof.json"
"""The chain and its signatures, where one covers the seal: not every crate has it."""

FILES: Final[dict[str, str]] = {
    EVALUATION: "What was evaluated and how, who scored it, its seal and its place in the chain of its registry",
    QUESTIONS: "Every question of the benchmark version and of its few-shot pool, with options and answer",
    ASKED: "The questions that were asked, with the digest that the seal covers of each, and its variants and shard",
    PREDICTIONS: "One row for each prompt: what was shown, the answer, probabilities, and what the model wrote",
    METRICS: "Every metric over every part of the benchmark, with its interval",
}
"""File to what it holds."""


def columns_of(table: Any, *without: str) -> tuple[str, ...]:
    """Names of a table's columns, less these."""
    return tuple(name for name in table.__table__.columns.keys() if name not in without)  # noqa: SIM118 - a collection


QUESTION_COLUMNS: Final = columns_of(Question, "id", "benchmark_version_id")
METRIC_COLUMNS: Final = columns_of(EvaluationMetric, "evaluation_id", "computed_at", "code_version")


def schema_of(table: Any, names: tuple[str, ...], **more: pa.DataType) -> pa.Schema:
    """The Arrow schema of these columns, after `more`."""
    columns = [table.__table__.columns[name] for name in names]
    fields = [pa.field(column.name, arrow_type(column), bool(column.nullable)) for column in columns]
    return pa.schema([*(pa.field(name, kind, nullable=False) for name, kind in more.items()), *fields])


def to_file(table: Any, name: str, value: Any) -> Any:
    """A column's value as it stands in a file."""
    if value is None:
        return None
    if isinstance(table.__table__.columns[name].type, JsonDocument):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return value


def from_file(table: Any, name: str, value: Any) -> Any:
    """The same value as the database takes it."""
    kind = table.__table__.columns[name].type
    if value is None:
        return None
    if isinstance(kind, UtcDateTime):
        return datetime.fromisoformat(value)
    return decode(value, items=MAX_ITEMS) if isinstance(kind, JsonDocument) else value

"""What the files of a crate hold, and how the database's values stand in them.

Rows are keyed by external question id; times are ISO 8601, digests hexadecimal, JSON documents text. There are no
database ids, so that a crate means the same in every registry.
"""

import json
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import Boolean, Double, Table

from registry.db import Digest, DoubleArray, JsonDocument, SmallIntArray, UtcDateTime
from registry.proof.manifest import POINTERS
from registry.tables import EvaluationMetric, Generation, Prediction, Question
from registry.untrusted import decode

CRATE_VERSION: Final = 1
MAX_ITEMS: Final = 1_000_000
"""Items of a list in a crate's documents."""
METADATA: Final = "ro-crate-metadata.json"
EVALUATION: Final = "evaluation.json"
QUESTIONS: Final = "questions.parquet"
ASKED: Final = "evaluation_questions.parquet"
PREDICTIONS: Final = "predictions.parquet"
GENERATIONS: Final = "generations.parquet"
LEAVES: Final = "leaves.parquet"
METRICS: Final = "metrics.parquet"
PROOF: Final = "proof.json"
"""The chain and its signatures, where one covers the seal: not every crate has it."""

FILES: Final[dict[str, str]] = {
    EVALUATION: "What was evaluated and how, who scored it, its seal and its place in the chain of its registry",
    QUESTIONS: "Every question of the benchmark version and of its few-shot pool, with options and answer",
    ASKED: "The questions that were asked, with the number of variants of each and the shard that scored it",
    PREDICTIONS: "One row for each prompt: what was shown, the answer, log-probabilities and probabilities",
    GENERATIONS: "What the model wrote; empty where it wrote nothing",
    LEAVES: "The digest that the seal covers of each question",
    METRICS: "Every metric over every part of the benchmark, with its interval",
}
"""File to what it holds."""


def columns_of(table: Any, *without: str) -> tuple[str, ...]:
    """Names of a table's columns, less these."""
    return tuple(name for name in table.__table__.columns.keys() if name not in without)  # noqa: SIM118 - a collection


QUESTION_COLUMNS: Final = columns_of(Question, "id", "benchmark_version_id")
PREDICTION_COLUMNS: Final = columns_of(Prediction, *POINTERS)
GENERATION_COLUMNS: Final = columns_of(Generation, "evaluation_id", "question_id")
METRIC_COLUMNS: Final = columns_of(EvaluationMetric, "evaluation_id", "computed_at", "code_version")


def schema_of(table: Any, names: tuple[str, ...], **more: pa.DataType) -> pa.Schema:
    """The Arrow schema of these columns, after `more`."""
    columns: Table = table.__table__
    kinds = [(name, kind, False) for name, kind in more.items()]
    kinds += [(name, _arrow(columns.columns[name].type), bool(columns.columns[name].nullable)) for name in names]
    return pa.schema([pa.field(name, kind, nullable) for name, kind, nullable in kinds])


def _arrow(kind: Any) -> pa.DataType:
    if isinstance(kind, DoubleArray):
        return pa.list_(pa.float64())
    if isinstance(kind, SmallIntArray):
        return pa.list_(pa.int64())
    if isinstance(kind, (Digest, JsonDocument, UtcDateTime)):
        return pa.string()
    if isinstance(kind, Boolean):
        return pa.bool_()
    if isinstance(kind, Double):
        return pa.float64()
    if kind.python_type is bytes:
        return pa.binary()
    return pa.string() if kind.python_type is str else pa.int64()


def to_file(table: Any, name: str, value: Any) -> Any:
    """A column's value as it stands in a file."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.isoformat()
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

"""What a crate holds besides an evaluation's folder (`registry/proof/folder.py`), and how values stand in it."""

from datetime import datetime
from typing import Any, Final

from registry.db import JsonDocument, UtcDateTime
from registry.predictions.archive_files import EVALUATION, PREDICTIONS
from registry.proof.folder import ASKED, METRICS, columns_of
from registry.tables import Question
from registry.untrusted import decode

MAX_ITEMS: Final = 1_000_000
"""Items of a list in a crate's documents."""
METADATA: Final = "ro-crate-metadata.json"
QUESTIONS: Final = "questions.parquet"
SAID: Final = "registry.json"
PROOF: Final = "proof.json"
"""The chain and its signatures, where one covers the seal: not every crate has it."""

FILES: Final[dict[str, str]] = {
    EVALUATION: "What was evaluated and how, who scored it, its seal, and the digests of its other files",
    SAID: "What its registry says of it: analyses, withdrawals, and its place in the chain",
    QUESTIONS: "Every question of the benchmark version and of its few-shot pool, with options and answer",
    ASKED: "The questions that were asked, with the digest that the seal covers of each, and its variants and shard",
    PREDICTIONS: "One row for each prompt: what was shown, the answer, probabilities, and what the model wrote",
    METRICS: "Every metric over every part of the benchmark, with its interval",
}
"""File to what it holds."""


QUESTION_COLUMNS: Final = columns_of(Question, "id", "benchmark_version_id")


def from_file(table: Any, name: str, value: Any) -> Any:
    """The same value as the database takes it."""
    kind = table.__table__.columns[name].type
    if value is None:
        return None
    if isinstance(kind, UtcDateTime):
        return datetime.fromisoformat(value)
    return decode(value, items=MAX_ITEMS) if isinstance(kind, JsonDocument) else value

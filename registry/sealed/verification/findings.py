"""The findings of a verification, and the columns that it does not check."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.tables import Question

TOLERANCE: Final = 1e-9
"""Accepted difference of stored and computed numbers: PostgreSQL's parallel sums vary in the last bits."""
OF_INTERVALS: Final = 1e-6
"""Accepted difference for the ends of intervals, which are interpolated: that magnifies rounding errors."""

_CHUNK: Final = 500

LISTED: Final = 10
"""Maximum number of questions listed by name for one problem; the rest are only counted."""

OUTSIDE: Final[dict[str, dict[str, str]]] = {
    "evaluation": {
        "id": "its number here; another registry has another",
        "conflict_of_interest": "what its submitter says of it, and no number depends on it",
        "failed_at": "an earlier failure, after which it was tried again",
    },
    "shard": {
        "id": "its number here; its questions and its provenance are reached through it",
        "stalled_at": "an earlier worker that hung; the worker that scored it is sealed",
        "stalled_worker_id": "goes with the time",
    },
    "engine_fingerprint": {"id": "its number here; shards reach it through it"},
    "question": {"id": "its number here; its rows reach it through it"},
    "protocol": {"id": "its number here"},
    "variant_set": {"id": "its number here"},
    "benchmark_version": {
        "id": "its number here",
        "visibility": "who may see it is decided anew, and changes no number",
        "public_from": "goes with the visibility",
    },
    "model_revision": {
        "id": "its number here",
        "state": "a sealed evaluation was scored, whatever became of its model",
        "error": "goes with the state",
        "prepared_by": "who downloads it at present, which ends before anything is scored",
        "prepare_until": "goes with the worker that downloads",
        "thinking": "what a server said of itself when the model was added; what was asked stands in the protocol",
    },
    "analysis": {"id": "its number here", "computed_at": "analyses are added later; when says nothing of what"},
    "evaluation_metric": {
        "computed_at": "metrics are added later; when says nothing of what",
        "code_version": "the value is computed again; who computed it first changes nothing",
    },
    "board_snapshot": {"id": "its number here; its standings reach it through it"},
    "withdrawal": {"id": "its number here"},
}
"""Map each table to the columns of sealed rows that no check covers, with the reason."""


@dataclass
class Findings:
    """The problems that a verification found. questions: the external ids of questions with a problem."""

    problems: list[str] = field(default_factory=list)
    questions: set[str] = field(default_factory=set)

    def add(self, problem: str) -> None:
        """Add a problem of the evaluation as a whole."""
        self.problems.append(problem)

    def add_questions(self, names: Iterable[str], problem: str) -> None:
        """Add a problem of each of these questions; `problem` continues a message that begins with the name."""
        listed = sorted(set(names))
        self.questions.update(listed)
        self.problems += [f"question {name}: {problem}" for name in listed[:LISTED]]
        if len(listed) > LISTED:
            self.problems.append(f"{len(listed) - LISTED} more questions: {problem}")


def names_of(session: Session, ids: Iterable[int]) -> list[str]:
    """Return the external ids of these questions."""
    names: list[str] = []
    listed = list(ids)
    for start in range(0, len(listed), _CHUNK):
        part = listed[start : start + _CHUNK]
        names += session.scalars(select(Question.external_id).where(Question.id.in_(part))).all()
    return names


def alike(one: Any, other: Any, tolerance: float = TOLERANCE) -> bool:
    """Return whether two values are equal: numbers within `tolerance`, intervals within OF_INTERVALS.

    True equals 1, because SQLite stores booleans as integers.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            alike(value, other[key], OF_INTERVALS if "interval" in str(key) else tolerance)
            for key, value in one.items()
        )
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(alike(*pair, tolerance) for pair in zip(one, other, strict=True))
    if one is None or other is None or isinstance(one, (str, Mapping)) or isinstance(other, (str, Mapping)):
        return bool(one == other)
    if isinstance(one, (list, tuple)) or isinstance(other, (list, tuple)):
        return False
    return bool(one == other) or math.isclose(float(one), float(other), rel_tol=0, abs_tol=tolerance)

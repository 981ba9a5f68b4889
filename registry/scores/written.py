"""Unread and unfinished answers and the length of texts: facts that are stored with an evaluation when it is sealed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Double, and_, case, cast, func, select, type_coerce
from sqlalchemy.orm import Session

from registry.db import is_in
from registry.lookups import NAMES, with_names
from registry.predictions.stored import require_rows
from registry.scores.asked import asking, is_recorded
from registry.tables import (
    Evaluation,
    Generation,
    ModelRevision,
    Prediction,
    Protocol,
)

WRITTEN: Final = ("unread", "unfinished", "tokens_per_answer", "thought_tokens_per_answer")
"""Columns of `evaluation` with facts about written answers."""
SAID: Final = 0.01
"""If the share of unread or unfinished answers is above this, pages state it next to every accuracy."""


def compute_written(session: Session, evaluation_id: int) -> dict[str, Any]:
    """Compute the columns of WRITTEN for an evaluation from its stored predictions and texts.

    unread, unfinished: numbers of answers in these states. tokens_per_answer: mean number for thought and answer;
    thought_tokens_per_answer: for the thought alone. Means are None if no tokens were counted.
    """
    prediction = Prediction
    is_unread = and_(prediction.state.is_(None), prediction.chosen_position.is_(None))
    states: Any = select(
        func.coalesce(func.sum(case((is_unread, 1), else_=0)), 0),
        func.coalesce(func.sum(case((prediction.state == "unfinished", 1), else_=0)), 0),
    ).where(prediction.evaluation_id == evaluation_id)
    tokens: Any = select(
        type_coerce(func.avg(cast(Generation.tokens, Double())), Double()),
        type_coerce(func.avg(cast(Generation.thought_tokens, Double())), Double()),
    ).where(Generation.evaluation_id == evaluation_id)
    require_rows(session, evaluation_id)
    unread, unfinished = session.execute(states).one()
    means = session.execute(tokens).one()
    return dict(zip(WRITTEN, (int(unread), int(unfinished), *means), strict=True))


@dataclass(frozen=True)
class Lost:
    """The lost answers of a sealed evaluation, and the remedy.

    unread, unfinished: shares of its prompts. at_limit: the share that reached its limit of tokens; cut_short: the
    share that the server cut off; None for both if no tokens were counted. The others ended by themselves.
    limit: tokens of thought and answer together; thought_limit: of the thought alone; None if no text reached it, or
    none is set or known. again: the command that repeats the run with twice the limit; None if no text reached it.
    """

    evaluation_id: int
    model: str
    benchmark: str
    unread: float
    unfinished: float
    at_limit: float | None
    cut_short: float | None
    limit: int | None
    thought_limit: int | None
    again: str | None

    @property
    def by_themselves(self) -> float:
        """Return the share of prompts whose text ended by itself within its thought; 0 if no tokens were counted."""
        if self.at_limit is None or self.cut_short is None:
            return 0.0
        return max(0.0, self.unfinished - self.at_limit - self.cut_short)


def lost_answers(session: Session, evaluation_ids: Iterable[int]) -> list[Lost]:
    """Return the evaluations whose share of unread or unfinished answers is above `SAID`, the worst first."""
    query = with_names(
        select(
            Evaluation.id,
            Evaluation.prompts,
            Evaluation.unread,
            Evaluation.unfinished,
            Evaluation.specification,
            *NAMES,
            ModelRevision.kind,
            Protocol.definition,
        )
    ).where(
        is_in(Evaluation.id, list(evaluation_ids)),
        Evaluation.unread + Evaluation.unfinished > SAID * Evaluation.prompts,
    )
    losses = []
    for row in session.execute(query).mappings():
        unread, unfinished = (row[name] / row["prompts"] for name in ("unread", "unfinished"))
        if max(unread, unfinished) > SAID:
            losses.append(_describe_lost(session, row, unread, unfinished))
    return sorted(losses, key=lambda lost: -(lost.unread + lost.unfinished))


def _describe_lost(session: Session, row: Any, unread: float, unfinished: float) -> Lost:
    generation = row["definition"].get("generation", {})
    limit, recorded = generation.get("max_tokens"), is_recorded(row["specification"])
    limits = [most for most in (limit, generation.get("max_thought_tokens")) if most is not None]
    ends = None if recorded or not limits or not unfinished else _count_ends(session, row["id"], min(limits))
    at_limit, cut_short = (None, None) if ends is None else (count / row["prompts"] for count in ends)
    reached = not recorded and (at_limit is None or at_limit > 0)
    command = None
    if reached and limit is not None and unfinished > SAID:
        submission = asking(
            dict(row) | {"question_filter": row["specification"]["questions"]}, variants=row["variants"]
        )
        command = f"{submission} --max-tokens {2 * limit}"
    return Lost(
        row["id"],
        row["model"],
        row["benchmark"],
        unread,
        unfinished,
        at_limit,
        cut_short,
        limit if reached else None,
        generation.get("max_thought_tokens") if reached else None,
        command,
    )


def _count_ends(session: Session, evaluation_id: int, limit: int) -> tuple[int, int] | None:
    """Return how many unfinished texts reached the limit, and how many were cut off before it.

    Returns None if a text's number of tokens is unknown, or the texts are archived.
    """
    cut, reached = Generation.finished.is_(False), Generation.tokens >= limit
    counted: Any = (
        select(
            func.count(),
            func.count(Generation.tokens),
            func.coalesce(func.sum(case((and_(cut, reached), 1), else_=0)), 0),
            func.coalesce(func.sum(case((and_(cut, ~reached), 1), else_=0)), 0),
        )
        .select_from(Prediction)
        .join(Prediction.generation)
        .where(Prediction.evaluation_id == evaluation_id, Prediction.state == "unfinished")
    )
    texts, with_tokens, at_limit, cut_short = session.execute(counted).one()
    return (int(at_limit), int(cut_short)) if texts and texts == with_tokens else None


def tokens_over(session: Session, evaluation_ids: Iterable[int]) -> dict[int, tuple[float, int]]:
    """Return each evaluation's tokens per answer and number of prompts, if its tokens were counted."""
    evaluation = Evaluation
    query = select(evaluation.id, evaluation.tokens_per_answer, evaluation.prompts).where(
        is_in(evaluation.id, list(evaluation_ids))
    )
    return {row[0]: (row[1], row[2]) for row in session.execute(query) if row[1] is not None}

"""Batches: many calls sent to a provider together, cheaper and answered within a day.

A batch is stored with its calls before anything is sent. The provider stores the batch's tag, so that the shard's next
worker finds the batch there even if the previous one died while sending it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from registry.db import database_now, update_one
from registry.providers import budgets, calls
from registry.tables import EvaluationQuestion
from registry.tables.providers import ProviderBatch, ProviderCall


@dataclass(frozen=True)
class Failure:
    """The reason why a call of a batch has no answer. cost: None if unknown."""

    error: str
    cost: float | None


Result = Mapping[str, Any] | Failure
"""The values that `calls.record_answer` stores for a call, or the reason why it has no answer."""


def write_down(
    session: Session, journal: calls.Journal, tag: str, wanted: Sequence[tuple[calls.Key, float | None]]
) -> tuple[int, list[int]]:
    """Store a batch with calls for as many prompts, in order, as the budgets allow; return its id and the calls' ids.

    wanted: prompts, each with the most that its answer can cost. Raises LostClaimError, and the errors of
    `budgets.hold`.
    """
    calls.check_claim(session, journal)
    count = budgets.hold(session, journal.subjects, [most for _, most in wanted])
    batch = ProviderBatch(evaluation_id=journal.evaluation_id, shard_id=journal.shard_id, tag=tag, requests=count)
    new_calls = [
        ProviderCall(evaluation_id=journal.evaluation_id, question_id=key[0], variant=key[1], cost_limit=most)
        for key, most in wanted[:count]
    ]
    session.add_all([batch, *new_calls])
    session.flush()
    return batch.id, [call.id for call in new_calls]


def begin_sending(session: Session, journal: calls.Journal, batch_id: int) -> None:
    """Record that the request that creates a batch is about to be sent. Raises LostClaimError."""
    calls.check_claim(session, journal)
    if not _move(session, batch_id, ("written", "sent"), state="sent", sent_at=database_now()):
        raise calls.LostClaimError


def record_submitted(session: Session, batch_id: int, remote_id: str) -> bool:
    """Store the provider's id of a batch; return False if the batch was given up in the meantime."""
    if _move(session, batch_id, ("sent",), state="submitted", remote_id=remote_id):
        return True
    return session.get_one(ProviderBatch, batch_id).remote_id == remote_id


def _move(session: Session, batch_id: int, states: Sequence[str], **values: Any) -> bool:
    moved = update(ProviderBatch).where(ProviderBatch.id == batch_id, ProviderBatch.state.in_(states))
    return update_one(session, moved.values(**values))


def end(
    session: Session,
    journal: calls.Journal,
    batch_id: int,
    results: Mapping[int, Result],
    otherwise: Failure,
) -> int:
    """Store the results of a batch and end it; return the number of answered calls.

    results: by call id. otherwise: the result of calls that are missing from `results`. Raises LostClaimError.
    """
    calls.check_claim(session, journal)
    batch = session.get_one(ProviderBatch, batch_id, with_for_update=True)
    if batch.state == "ended":
        raise calls.LostClaimError
    begun = session.scalars(
        select(ProviderCall.id)
        .join(
            EvaluationQuestion,
            (EvaluationQuestion.evaluation_id == ProviderCall.evaluation_id)
            & (EvaluationQuestion.question_id == ProviderCall.question_id),
        )
        .where(EvaluationQuestion.shard_id == journal.shard_id, ProviderCall.state == "begun")
        .order_by(ProviderCall.id)
    ).all()
    answered = 0
    for call_id in begun:
        result = results.get(call_id, otherwise)
        if isinstance(result, Failure):
            calls.record_failure(session, journal, call_id, result.error, result.cost)
        else:
            calls.record_answer(session, journal, call_id, **result)
            answered += 1
    batch.state, batch.ended_at = "ended", database_now()
    session.flush()
    return answered


def waits(session: Session, evaluation_id: int) -> bool:
    """Return whether an evaluation waits for a batch."""
    query = select(ProviderBatch.id).where(ProviderBatch.evaluation_id == evaluation_id, ProviderBatch.state != "ended")
    return session.scalar(query.limit(1)) is not None


def list_known(session: Session) -> tuple[frozenset[str], datetime]:
    """Return the ids that providers gave to our batches, and the database's time before the query."""
    now = session.scalars(select(database_now())).one()
    ids = session.scalars(select(ProviderBatch.remote_id).where(ProviderBatch.remote_id.is_not(None)))
    return frozenset(name for name in ids if name is not None), now

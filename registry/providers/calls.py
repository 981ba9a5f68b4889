"""Calls to a provider: each is stored before it is made, with the most it can cost, and updated when it has ended.

Thus an answer is stored as soon as it arrives, a shard's next worker requests only missing answers, and the requests of
a killed worker are known.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from registry.db import database_now
from registry.providers import budgets
from registry.tables import Shard
from registry.tables.providers import ProviderBatch, ProviderCall

Key = tuple[int, int]
"""Question id and variant."""

DIED: Final = "its worker ended before the answer came"


class LostClaimError(Exception):
    """Another worker has claimed the shard in the meantime."""


@dataclass(frozen=True)
class Journal:
    """A worker's record of the calls of one shard, valid as long as its claim.

    held: SQL condition on `shard` that is true while the claim is valid. subjects: the budgets to which its calls
    count.
    """

    shard_id: int
    held: ColumnElement[bool]
    evaluation_id: int
    subjects: tuple[budgets.Subject, ...]


def open_journal(
    session: Session, shard_id: int, held: ColumnElement[bool], evaluation_id: int, keys: Iterable[Key]
) -> Journal:
    """Open the journal of a shard, and mark calls that an earlier worker left open as failed.

    Calls of an open batch stay open: they continue without a worker.
    """
    journal = Journal(shard_id, held, evaluation_id, budgets.subjects_of(session, evaluation_id))
    check_claim(session, journal)
    if open_batch(session, shard_id) is not None:
        return journal
    wanted = set(keys)
    begun = session.scalars(
        select(ProviderCall).where(ProviderCall.evaluation_id == evaluation_id, ProviderCall.state == "begun")
    )
    for call in begun.all():
        if (call.question_id, call.variant) in wanted:
            _end(session, journal, call, state="failed", error=DIED)
    return journal


def open_batch(session: Session, shard_id: int) -> ProviderBatch | None:
    """Return the batch that a shard waits for; None if it waits for none."""
    return session.scalar(
        select(ProviderBatch).where(ProviderBatch.shard_id == shard_id, ProviderBatch.state != "ended")
    )


def answers(session: Session, evaluation_id: int, keys: Iterable[Key]) -> dict[Key, ProviderCall]:
    """Return the answered calls of an evaluation for these prompts."""
    wanted = set(keys)
    calls = session.scalars(
        select(ProviderCall).where(
            ProviderCall.evaluation_id == evaluation_id,
            ProviderCall.state == "answered",
            ProviderCall.question_id.in_({question_id for question_id, _ in wanted}),
        )
    )
    return {key: call for call in calls if (key := (call.question_id, call.variant)) in wanted}


def begin(session: Session, journal: Journal, key: Key, cost_limit: float | None) -> int:
    """Store a call for a prompt before it is made, and reserve its cost; return its id.

    Raises LostClaimError, and the errors of `budgets.hold`.
    """
    check_claim(session, journal)
    budgets.hold(session, journal.subjects, [cost_limit])
    call = ProviderCall(evaluation_id=journal.evaluation_id, question_id=key[0], variant=key[1], cost_limit=cost_limit)
    session.add(call)
    session.flush()
    return call.id


def record_answer(session: Session, journal: Journal, call_id: int, **values: Any) -> None:
    """Store an answer: its text, outcome, tokens, cost and source.

    If another worker has stored an answer to the same prompt, only the cost counts.
    """
    call = session.get_one(ProviderCall, call_id, with_for_update=True)
    others = select(ProviderCall.id).where(
        ProviderCall.evaluation_id == call.evaluation_id,
        ProviderCall.question_id == call.question_id,
        ProviderCall.variant == call.variant,
        ProviderCall.state == "answered",
    )
    if session.scalar(others) is None:
        _end(session, journal, call, state="answered", error=None, **values)
    else:
        _end(session, journal, call, state="failed", error="answered meanwhile", cost=values.get("cost"))


def record_failure(session: Session, journal: Journal, call_id: int, error: str, cost: float | None) -> None:
    """Record that a call got no answer. cost: 0 if the provider refused it; None if unknown."""
    call = session.get_one(ProviderCall, call_id, with_for_update=True)
    _end(session, journal, call, state="failed", error=error, cost=cost)


def _end(session: Session, journal: Journal, call: ProviderCall, *, cost: float | None = None, **values: Any) -> None:
    most = call.cost_limit or 0.0
    was_held = most if call.state == "begun" else 0.0
    already_counted = 0.0 if call.state == "begun" else most if call.cost is None else call.cost
    budgets.replace_hold(session, journal.subjects, was_held, (most if cost is None else cost) - already_counted)
    for name, value in values.items():
        setattr(call, name, value)
    call.cost, call.ended_at = cost, database_now()
    session.flush()


def check_claim(session: Session, journal: Journal) -> None:
    """Raise LostClaimError if another worker has the shard now."""
    # The lock makes the shard's next claimant wait for this transaction, so that it sees the new calls.
    held = select(Shard.id).where(journal.held)
    if session.scalar(held.with_for_update(of=Shard, read=True)) is None:
        raise LostClaimError


def forget_texts(session: Session, evaluation_id: int, questions: Any) -> None:
    """Delete the texts of answers, and keep their costs."""
    session.execute(
        update(ProviderCall)
        .where(
            ProviderCall.evaluation_id == evaluation_id,
            ProviderCall.question_id.in_(questions),
            ProviderCall.state == "answered",
        )
        .values(state="forgotten", text=None, reasoning=None)
        .execution_options(synchronize_session=False)
    )

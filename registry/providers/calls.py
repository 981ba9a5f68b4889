"""Calls: each is written down before it is made, with the most it can cost, and once more when it has ended.

So an answer is stored as soon as it is there, a worker that goes on with a shard asks only for those that are missing,
and what a killed worker had asked for is known.
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
    """The shard is another worker's by now."""


@dataclass(frozen=True)
class Journal:
    """What a worker writes calls of one shard into; valid as long as its claim is.

    held: the condition on `shard` that the claim still holds. subjects: the budgets that its calls count in.
    """

    shard_id: int
    held: ColumnElement[bool]
    evaluation_id: int
    subjects: tuple[budgets.Subject, ...]


def open_journal(
    session: Session, shard_id: int, held: ColumnElement[bool], evaluation_id: int, keys: Iterable[Key]
) -> Journal:
    """The journal of a shard. Calls of its prompts that an earlier worker began and never ended count as failed.

    Those of a batch go on without a worker.
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
    """The batch that a shard waits for."""
    return session.scalar(
        select(ProviderBatch).where(ProviderBatch.shard_id == shard_id, ProviderBatch.state != "ended")
    )


def answers(session: Session, evaluation_id: int, keys: Iterable[Key]) -> dict[Key, ProviderCall]:
    """The calls of an evaluation that were answered, for those of these prompts that were."""
    wanted = set(keys)
    found = session.scalars(
        select(ProviderCall).where(
            ProviderCall.evaluation_id == evaluation_id,
            ProviderCall.state == "answered",
            ProviderCall.question_id.in_({question_id for question_id, _ in wanted}),
        )
    )
    return {key: call for call in found if (key := (call.question_id, call.variant)) in wanted}


def begin(session: Session, journal: Journal, key: Key, cost_limit: float | None) -> int:
    """Writes down that a prompt is about to be asked for; returns the call's number.

    Raises LostClaimError, and what `budgets.hold` raises.
    """
    check_claim(session, journal)
    budgets.hold(session, journal.subjects, [cost_limit])
    call = ProviderCall(evaluation_id=journal.evaluation_id, question_id=key[0], variant=key[1], cost_limit=cost_limit)
    session.add(call)
    session.flush()
    return call.id


def answered(session: Session, journal: Journal, call_id: int, **values: Any) -> None:
    """Stores an answer: its text, outcome, tokens, cost and who gave it.

    Where the prompt was answered meanwhile, for the worker that has the shard now, only the cost counts.
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


def failed(session: Session, journal: Journal, call_id: int, error: str, cost: float | None) -> None:
    """Stores that a call had no answer. cost: 0 where the provider refused it; None where nobody knows."""
    call = session.get_one(ProviderCall, call_id, with_for_update=True)
    _end(session, journal, call, state="failed", error=error, cost=cost)


def _end(session: Session, journal: Journal, call: ProviderCall, *, cost: float | None = None, **values: Any) -> None:
    most = call.cost_limit or 0.0
    was_held = most if call.state == "begun" else 0.0
    counted = 0.0 if call.state == "begun" else most if call.cost is None else call.cost
    budgets.replace_hold(session, journal.subjects, was_held, (most if cost is None else cost) - counted)
    for name, value in values.items():
        setattr(call, name, value)
    call.cost, call.ended_at = cost, database_now()
    session.flush()


def check_claim(session: Session, journal: Journal) -> None:
    """Raises LostClaimError where the shard is another worker's by now."""
    # Locked: whoever claims the shard next waits until what is begun here is written, and then sees it.
    held = select(Shard.id).where(journal.held)
    if session.scalar(held.with_for_update(of=Shard, read=True)) is None:
        raise LostClaimError


def forget_texts(session: Session, evaluation_id: int, questions: Any) -> None:
    """Removes what was answered, and keeps what it cost."""
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

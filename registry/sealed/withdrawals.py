"""Evaluations that no longer count: withdrawn because they were wrong, or superseded by another.

A sealed evaluation never changes, so a withdrawal is a separate row, with a reason. The evaluation's page and numbers
remain, under a banner; it is removed from the leaderboard and the boards, nothing is copied from it any more, and
existing copies are flagged.
"""

from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry import chain
from registry.db import database_now, one_at_a_time
from registry.digests import specification_digest
from registry.errors import QueueError, UsageError
from registry.lookups import find_evaluation
from registry.proposals import propose
from registry.tables import Evaluation, EvaluationSource, Withdrawal

MAX_REASON: Final = 2000


def withdraw(session: Session, evaluation_id: int, reason: str, *, actor: str = "command line") -> Withdrawal:
    """Withdraw a sealed evaluation.

    Raises QueueError if it is not sealed or was already withdrawn or superseded, UsageError without a reason.
    """
    return _add(session, evaluation_id, "withdrawn", None, reason, actor)


def supersede(session: Session, evaluation_id: int, by: int, reason: str, *, actor: str = "command line") -> Withdrawal:
    """Replace an evaluation with another sealed evaluation of the same model and benchmark.

    Raises UsageError if `by` is the same evaluation, is of another model or benchmark, or no longer counts itself.
    """
    evaluation, other = find_evaluation(session, evaluation_id), find_evaluation(session, by)
    if evaluation.id == other.id:
        raise UsageError(f"evaluation {by} cannot supersede itself; give another with --by, or withdraw it")
    for what, names in (
        ("models", [item.model_revision.model.name for item in (evaluation, other)]),
        ("benchmarks", [item.benchmark_version.benchmark.name for item in (evaluation, other)]),
    ):
        if names[0] != names[1]:
            raise UsageError(
                f"evaluations {evaluation_id} and {by} are of different {what}, {names[0]} and {names[1]}: neither "
                "can replace the other; withdraw it instead"
            )
    if other.seal is None:
        raise QueueError(f"evaluation {by} is {other.state}; wait until it is complete")
    if withdrawal_of(session, by) is not None:
        raise UsageError(f"evaluation {by} no longer counts itself; give another with --by")
    return _add(session, evaluation_id, "superseded", other.seal, reason, actor)


def _add(
    session: Session, evaluation_id: int, kind: str, superseded_by: str | None, reason: str, actor: str
) -> Withdrawal:
    text = reason.strip()
    if not text or len(text) > MAX_REASON:
        raise UsageError(f"a reason is needed, of at most {MAX_REASON} characters: --reason TEXT")
    one_at_a_time(session, "withdraw")
    evaluation = find_evaluation(session, evaluation_id)
    if evaluation.seal is None:
        raise QueueError(
            f"evaluation {evaluation_id} is {evaluation.state}, and only sealed ones can be withdrawn; to stop it: "
            f"{propose('evaluations cancel', evaluation_id)}"
        )
    previous = withdrawal_of(session, evaluation_id)
    if previous is not None:
        raise QueueError(f"evaluation {evaluation_id} was already {previous.kind} ({previous.reason})")
    now = session.scalar(select(database_now()))
    row = Withdrawal(
        evaluation_id=evaluation_id, kind=kind, superseded_by=superseded_by, reason=text, actor=actor, at=now
    )
    session.add(row)
    session.flush()
    chain.append(session, "withdrawal", withdrawal_digest(evaluation, row))
    return row


def withdrawal_of(session: Session, evaluation_id: int) -> Withdrawal | None:
    """Return the newest withdrawal of an evaluation that no longer counts; None if it counts."""
    query = select(Withdrawal).filter_by(evaluation_id=evaluation_id).order_by(Withdrawal.id.desc())
    return session.scalar(query.limit(1))


def withdrawals_of(session: Session, evaluation_id: int) -> list[Withdrawal]:
    """Return all withdrawals of an evaluation, oldest first."""
    return list(session.scalars(select(Withdrawal).filter_by(evaluation_id=evaluation_id).order_by(Withdrawal.id)))


def withdrawal_document(evaluation: Evaluation, row: Withdrawal) -> dict[str, Any]:
    """Return a withdrawal as plain JSON, without database ids."""
    return {
        "seal": evaluation.seal,
        "kind": row.kind,
        "superseded_by": row.superseded_by,
        "reason": row.reason,
        "actor": row.actor,
        "at": row.at.isoformat(),
    }


def withdrawal_digest(evaluation: Evaluation, row: Withdrawal) -> str:
    """Return the digest under which the chain records a withdrawal."""
    return specification_digest(withdrawal_document(evaluation, row))


def copies_of(session: Session, evaluation_id: int) -> list[int]:
    """Return the evaluations that contain results copied from this one."""
    evaluation = find_evaluation(session, evaluation_id)
    query = select(EvaluationSource.evaluation_id).where(EvaluationSource.seal == evaluation.seal)
    return list(session.scalars(query.order_by(EvaluationSource.evaluation_id)))

"""Drafts: stored answers of a shard in progress, so that a dead worker loses only requests in flight.

They are deleted when the shard is done and its predictions are stored.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from registry.queue.claims import Claim
from registry.tables import EvaluationQuestion, Shard
from registry.tables.drafts import Draft

Key = tuple[int, int]
"""A question's id and a variant's number."""


def load_drafts(session: Session, claim: Claim, fingerprint: str) -> dict[Key, Mapping[str, Any]]:
    """Return the stored answers to a shard's prompts that were written under this fingerprint."""
    drafts = session.scalars(
        select(Draft).where(
            Draft.evaluation_id == claim.evaluation_id,
            Draft.question_id.in_(_questions(claim.evaluation_id, claim.shard_id)),
            Draft.fingerprint == fingerprint,
        )
    )
    return {(draft.question_id, draft.variant): draft.written for draft in drafts}


def keep(session: Session, claim: Claim, fingerprint: str, written: Sequence[tuple[Key, Mapping[str, Any]]]) -> bool:
    """Store the answers to some prompts. Returns False, with nothing stored, if the claim is lost."""
    claimed = select(Shard.id).where(Shard.id == claim.shard_id, Shard.fence == claim.fence, Shard.state == "leased")
    # The lock makes the next claimant of the shard wait until these answers are stored.
    if session.scalar(claimed.with_for_update(read=True)) is None:
        return False
    for (question_id, variant), _ in written:
        session.execute(
            delete(Draft).where(
                Draft.evaluation_id == claim.evaluation_id, Draft.question_id == question_id, Draft.variant == variant
            )
        )
    rows = [
        {
            "evaluation_id": claim.evaluation_id,
            "question_id": question_id,
            "variant": variant,
            "fingerprint": fingerprint,
            "written": dict(document),
        }
        for (question_id, variant), document in written
    ]
    session.execute(insert(Draft), rows)
    return True


def forget(session: Session, evaluation_id: int, questions: Any) -> None:
    """Delete the stored answers to some questions."""
    session.execute(
        delete(Draft)
        .where(Draft.evaluation_id == evaluation_id, Draft.question_id.in_(questions))
        .execution_options(synchronize_session=False)
    )


def _questions(evaluation_id: int, shard_id: int) -> Any:
    return select(EvaluationQuestion.question_id).where(
        EvaluationQuestion.evaluation_id == evaluation_id, EvaluationQuestion.shard_id == shard_id
    )

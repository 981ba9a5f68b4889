"""Notices: records of events, written in the transaction of the event.

Feeds show them, and webhooks are sent them from an outbox. Functions take the session first and never commit.
"""

from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session, object_session

from registry.lookups import is_published
from registry.tables import Evaluation
from registry.tables.accounts import Notice, Webhook, WebhookDelivery

KINDS: Final[dict[str, str]] = {
    "submission.requested": "A model was submitted for evaluation.",
    "submission.approved": "A maintainer approved it.",
    "submission.rejected": "A maintainer rejected it.",
    "submission.withdrawn": "The submitter withdrew it.",
    "submission.finished": "Its last evaluation ended, successfully or not.",
    "evaluation.complete": "An evaluation was sealed.",
    "evaluation.failed": "An evaluation ended with shards that could not be scored.",
    "evaluation.stalled": "A shard made no progress and was taken from its worker.",
    "model.moved": "A scheduled evaluation shows that an endpoint's model no longer answers as it did.",
    "board.deprecated": "A board was deprecated.",
    "board.reinstated": "A board's deprecation was taken back.",
    "evaluation.withdrawn": "A sealed evaluation no longer counts: it was withdrawn, or superseded by another.",
}
"""Every kind of notice with its meaning. `webhook.test` is sent to one webhook as a test."""
STALLED: Final = "evaluation.stalled"
TEST: Final = "webhook.test"


def notify(
    session: Session,
    kind: str,
    key: str,
    document: dict[str, Any],
    *,
    submission_id: int | None = None,
    evaluation_id: int | None = None,
) -> Notice | None:
    """Writes a notice and puts it into the outbox of every webhook that wants it; None if it was already written.

    document must not contain a question's content, nor the name of a benchmark that is not public.
    """
    if session.scalar(select(Notice.id).filter_by(kind=kind, key=key)) is not None:
        return None
    notice = Notice(kind=kind, key=key, document=document, submission_id=submission_id, evaluation_id=evaluation_id)
    session.add(notice)
    session.flush()
    for webhook in session.scalars(select(Webhook).where(Webhook.disabled_at.is_(None)).order_by(Webhook.id)):
        if webhook.kinds is None or kind in webhook.kinds:
            session.add(WebhookDelivery(webhook_id=webhook.id, notice_id=notice.id))
    session.flush()
    return notice


def evaluation_complete(session: Session, evaluation: Evaluation) -> None:
    """Reports that an evaluation was sealed."""
    notify(
        session,
        "evaluation.complete",
        str(evaluation.id),
        evaluation_document(evaluation),
        evaluation_id=evaluation.id,
    )


def evaluation_failed(session: Session, evaluation: Evaluation) -> None:
    """Reports that an evaluation failed; again if it fails again after a retry."""
    before = select(func.count()).select_from(Notice).filter_by(kind="evaluation.failed", evaluation_id=evaluation.id)
    key = f"{evaluation.id}.{session.scalar(before) or 0}"
    notify(session, "evaluation.failed", key, evaluation_document(evaluation), evaluation_id=evaluation.id)


def evaluation_stalled(session: Session, evaluation: Evaluation, shard_id: int, fence: int, worker_id: str) -> None:
    """Reports that a shard made no progress and was taken from its worker."""
    document = evaluation_document(evaluation) | {"shard": shard_id, "worker": worker_id}
    notify(session, STALLED, f"{shard_id}.{fence}", document, evaluation_id=evaluation.id)


def is_public(evaluation: Evaluation) -> bool:
    """Whether everyone may see an evaluation: it is on a public benchmark and under no embargo."""
    session = object_session(evaluation)
    assert session is not None
    return evaluation.benchmark_version.visibility == "public" and is_published(session, evaluation.id)


def evaluation_document(evaluation: Evaluation) -> dict[str, Any]:
    """What is reported about an evaluation; only its number and state where it is under embargo or not everyone's."""
    told: dict[str, Any] = {"evaluation": evaluation.id, "state": evaluation.state}
    version = evaluation.benchmark_version
    if not is_public(evaluation):
        return told
    return told | {
        "model": evaluation.model_revision.model.name,
        "revision": evaluation.model_revision.number,
        "benchmark": version.benchmark.name,
        "benchmark_version": version.version,
        "protocol": evaluation.protocol.name,
        "shots": evaluation.protocol.shots,
        "variants": evaluation.variant_set.name,
        "replicate": evaluation.replicate,
        "seal": evaluation.seal,
    }

"""The size of shards: some tens of seconds of work each, at the measured rate.

A submission cuts an evaluation into small shards before its speed is measured. A worker that claims a shard joins the
following ones to it until they fill that time at the rate of its kind of device, or cuts off the excess and queues it
again. Towards the end of an evaluation shards get small, so that its workers finish together.
"""

from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import ColumnElement, case, delete, func, select, update
from sqlalchemy.orm import Session

from registry.queue.hints import hint_at
from registry.revisions.endpoints import provider_of
from registry.settings import get_settings
from registry.tables import Evaluation, EvaluationQuestion, Question, Shard, Worker

MOST_PROMPTS: Final = 8192
"""Most prompts of one shard, since a worker keeps them in memory with their answers."""
SMALLEST_SHARE: Final = 1 / 8
"""Smallest size of shards at the end of an evaluation, as a share of the usual size."""
TOO_LONG: Final = 1.5
"""A shard is cut if it exceeds the target size by more than this factor."""
RECENT: Final = 8
"""Number of recent shards that give the rate of a worker without a measured rate of its own."""


@dataclass
class Sizes:
    """The size of the shards that one worker claims.

    seconds: work in a shard; 0 keeps shards as planned. device: the worker's kind of device.
    """

    seconds: float
    device: str
    _rates: dict[int, float] = field(default_factory=dict)

    def note(self, evaluation_id: int, prompts: int, tokens_computed: int, elapsed_s: float) -> None:
        """Record this worker's rate on a shard, unless all of its answers were reused."""
        if tokens_computed and elapsed_s > 0:
            self._rates[evaluation_id] = prompts / elapsed_s

    def fit(self, session: Session, shard_id: int, evaluation_id: int) -> None:
        """Join or cut a locked shard to the right size for this worker; call it before the shard is leased."""
        if not self.seconds:
            return
        evaluation = session.get_one(Evaluation, evaluation_id)
        revision = evaluation.model_revision
        if revision.kind == "openai" and provider_of(revision.location or "", get_settings()):
            return  # its prompts are requested together as a batch, whatever their time
        rate = self._rates.get(evaluation_id) or self._measure_speed(session, evaluation)
        if rate is None:
            return
        of_evaluation = Shard.evaluation_id == evaluation_id
        left, others = session.execute(
            select(
                func.sum(case((Shard.state == "queued", Shard.prompts), else_=0)),
                func.count(case((Shard.state == "leased", Shard.worker_id)).distinct()),
            ).where(of_evaluation, Shard.state.in_(("queued", "leased")))
        ).one()
        full = rate * self.seconds
        share = left / (2 * (others + 1)) if others else left
        target = min(MOST_PROMPTS, max(min(full, share), full * SMALLEST_SHARE))
        shard = session.get_one(Shard, shard_id)
        if shard.prompts > TOO_LONG * target:
            _cut(session, shard, target)
        elif shard.fence == 0:  # a shard that failed stays alone
            _join(session, shard, target)

    def _measure_speed(self, session: Session, evaluation: Evaluation) -> float | None:
        """Return prompts per second of recent shards with this model, protocol and kind of device; None without any."""
        last = (
            select(Shard.prompts, Shard.elapsed_s)
            .join(Evaluation, Evaluation.id == Shard.evaluation_id)
            .join(Worker, Worker.id == Shard.worker_id)
            .where(
                Evaluation.model_revision_id == evaluation.model_revision_id,
                Evaluation.protocol_id == evaluation.protocol_id,
                Worker.device == self.device,
                Shard.state == "done",
                Shard.tokens_computed > 0,
                Shard.elapsed_s > 0,
            )
            .order_by(Shard.finished_at.desc())
            .limit(RECENT)
            .subquery()
        )
        prompts, seconds = session.execute(select(func.sum(last.c.prompts), func.sum(last.c.elapsed_s))).one()
        return prompts / seconds if prompts else None


def _never_claimed(evaluation_id: int) -> ColumnElement[bool]:
    # Nothing else refers to such a shard: no exclusion, no failure, no worker.
    return (Shard.evaluation_id == evaluation_id) & (Shard.state == "queued") & (Shard.fence == 0)


def _join(session: Session, shard: Shard, target: float) -> None:
    """Join the following shards into this one, up to `target` prompts."""
    following = (
        select(Shard.id, Shard.prompts)
        .where(_never_claimed(shard.evaluation_id), Shard.ordinal > shard.ordinal)
        .order_by(Shard.ordinal)
    )
    filled = shard.prompts
    chosen = []
    for row in session.execute(following.limit(max(1, int(target)))):
        filled += row.prompts
        if filled > target:
            break
        chosen.append(row.id)
    if not chosen:
        return
    # Locks only these shards, not shards that another worker claims now.
    locked = session.execute(following.where(Shard.id.in_(chosen)).with_for_update(skip_locked=True)).all()
    ids = [row.id for row in locked]
    session.execute(
        update(EvaluationQuestion)
        .where(EvaluationQuestion.shard_id.in_(ids))
        .values(shard_id=shard.id)
        .execution_options(synchronize_session=False)
    )
    session.execute(delete(Shard).where(Shard.id.in_(ids)).execution_options(synchronize_session=False))
    shard.prompts += sum(row.prompts for row in locked)
    session.flush()


def _cut(session: Session, shard: Shard, target: float) -> None:
    """Cut a shard to about `target` prompts, at least one question, and queue the rest as a new shard."""
    questions = session.execute(
        select(EvaluationQuestion.question_id, EvaluationQuestion.n_variants)
        .join(Question, Question.id == EvaluationQuestion.question_id)
        .where(EvaluationQuestion.shard_id == shard.id)
        .order_by(Question.ordinal)
    ).all()
    if sum(row.n_variants for row in questions) != shard.prompts:
        return  # the shard contains only some variants of its questions
    prompts = 0
    for place, row in enumerate(questions):
        if place and prompts + row.n_variants > target:
            break
        prompts += row.n_variants
    else:
        return
    # Assigning an ordinal needs the evaluation's lock; a worker that finds it locked takes the shard as it is.
    lock = select(Evaluation.id).where(Evaluation.id == shard.evaluation_id)
    if session.scalar(lock.with_for_update(skip_locked=True, key_share=True)) is None:
        return
    last = session.scalar(select(func.max(Shard.ordinal)).where(Shard.evaluation_id == shard.evaluation_id)) or 0
    rest = Shard(
        evaluation_id=shard.evaluation_id, ordinal=last + 1, queue=shard.queue, prompts=shard.prompts - prompts
    )
    session.add(rest)
    shard.prompts = prompts
    session.flush()
    session.execute(
        update(EvaluationQuestion)
        .where(
            EvaluationQuestion.evaluation_id == shard.evaluation_id,
            EvaluationQuestion.question_id.in_([row.question_id for row in questions[place:]]),
        )
        .values(shard_id=rest.id)
        .execution_options(synchronize_session=False)
    )
    hint_at(session, Shard.id == rest.id)

"""Asking each question only until its value is decided, round by round.

A round asks every question that is not decided in its next variants. The transaction that finishes a round's last shard
queues the next one, or leaves nothing to do. What is decided depends on the design and the answers alone
(`registry.results.stopped`), so nothing else is stored and `verify` can decide again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.digests import specification_digest
from registry.errors import QueueError, UsageError
from registry.prompting.protocols.answering import lists_options
from registry.prompting.variants import QuestionShape, VariantSetDefinition, repeats
from registry.queue.hints import hint_at
from registry.queue.planning import PlannedQuestion, plan_shards, store_shards
from registry.queue.shards import shard_prompts
from registry.results.designs import STOPPABLE
from registry.results.stopped import Stopping, design_stopping, open_questions, read_stopping
from registry.tables import Evaluation, ModelRevision, Question, QuestionScore, Shard, VariantSet


def asked_for(
    metric: str, definition: VariantSetDefinition, questions: Sequence[Question], protocol: Mapping[str, Any]
) -> dict[str, Any]:
    """What a specification holds of it, still without the design.

    Raises UsageError for a metric that some variants never decide, for variants that are not orders of a question's own
    options, and for a protocol that does not list them.
    """
    if metric not in STOPPABLE:
        raise UsageError(
            f"metric {metric}: answers in some orders decide only {' or '.join(STOPPABLE)}; use one of them, or ask in "
            "every order"
        )
    if repeats(definition.kind):
        raise UsageError(
            f"variants {definition.name}: {metric} is decided by one answer in each order; leave out repeat, or ask "
            "every question in full"
        )
    if not lists_options(protocol):
        raise UsageError(
            f"protocol {protocol['name']}: {metric} is decided by two or more orders of the options, which it does not "
            "list; use --protocol hybrid, or ask in every variant"
        )
    one_of_each = {question.n_options: question for question in questions}
    for options, question in sorted(one_of_each.items()):
        variants = definition.variants(QuestionShape(question.external_id, options, question.answer))
        shown = [variant for variant in variants if variant.question_shown and variant.own_options(options)]
        if len(shown) < len(variants) or len(variants) < 2:
            raise UsageError(
                f"variants {definition.name}: {metric} is decided by two or more orders of a question's own options; "
                "use --variants full or cyclic"
            )
    return {"metric": metric}


def add_design(
    session: Session,
    specification: dict[str, Any],
    definition: VariantSetDefinition,
    revision: ModelRevision,
    questions: Sequence[Question],
) -> None:
    """Puts the design into a specification."""
    stopping = specification["questions"]["stopping"]
    digest = specification_digest(specification["variants"])
    stopping["design"] = design_stopping(
        session,
        metric=stopping["metric"],
        definition=definition,
        variant_set_id=session.scalar(select(VariantSet.id).where(VariantSet.digest == digest)),
        model_id=revision.model_id,
        questions=questions,
        shared=revision.kind != "openai",
    )


def first_round(planned: Sequence[PlannedQuestion], stopping: Stopping) -> list[PlannedQuestion]:
    """The questions as the first round asks them."""
    return [replace(question, asked_now=len(stopping.next_round(question.n_options, 0))) for question in planned]


def next_round(session: Session, evaluation: Evaluation) -> None:
    """Queues the next round of an evaluation that is locked and of which every shard is done, if it needs one."""
    stopping = read_stopping(evaluation)
    assert stopping is not None
    waiting = [
        PlannedQuestion(
            question.question_id,
            question.subject,
            question.n_options,
            question.n_variants,
            len(stopping.next_round(question.n_options, question.asked)),
        )
        for question in open_questions(session, evaluation.id, stopping)
    ]
    if not waiting:
        return
    last = session.scalars(
        select(Shard).where(Shard.evaluation_id == evaluation.id).order_by(Shard.ordinal.desc()).limit(1)
    ).one()
    store_shards(session, evaluation.id, plan_shards(waiting), last.queue, last.ordinal + 1, again=True)
    evaluation.prompts += sum(question.asked_now for question in waiting)
    session.flush()
    hint_at(session, Shard.evaluation_id == evaluation.id)


def check_retry(session: Session, evaluation: Evaluation) -> None:
    """Raises QueueError where answers of an earlier round were removed: later rounds asked what they had left open."""
    if read_stopping(evaluation) is None:
        return
    undone = session.scalars(select(Shard).where(Shard.evaluation_id == evaluation.id, Shard.state != "done")).all()
    stored = select(func.sum(QuestionScore.stored)).where(QuestionScore.evaluation_id == evaluation.id)
    left = sum(shard.prompts for shard in undone)
    if (session.scalar(stored) or 0) + left != evaluation.prompts or any(
        len(shard_prompts(session, shard.id)) != shard.prompts for shard in undone
    ):
        raise QueueError(
            f"evaluation {evaluation.id}: answers of its earlier rounds were removed, so it cannot go on; submit it "
            "again with --replicate"
        )

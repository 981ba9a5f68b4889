"""Asking only as many questions as a stated precision needs, batch by batch.

The decision after a batch is taken in the transaction that finishes its last shard: either it queues the next batch, or
nothing is left to do and the evaluation is sealed as any other. What is decided depends on the design and the answers
alone (`registry.results.sampled`), so nothing else is stored and `verify` can decide again.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.db import MAX_INTEGER
from registry.digests import specification_digest
from registry.errors import UsageError
from registry.lookups import not_withdrawn
from registry.metrics import METRICS
from registry.prompting.variants import stored_variants
from registry.queue.hints import hint_at
from registry.queue.planning import PlannedQuestion, plan_questions, plan_shards, store_shards
from registry.queue.rounds import next_round
from registry.results.asked import asked_digest
from registry.results.designs import SAMPLED_METRICS, design_of, stopping_of
from registry.results.stopped import expected_prompts
from registry.tables import Evaluation, EvaluationQuestion, ModelRevision, Question, Shard, VariantSet

SEED: Final = 0
NARROWEST: Final = 0.001
WIDEST: Final = 0.25


@dataclass(frozen=True)
class Until:
    """What ends a sample before its precision is reached: its interval holds none of the bounds.

    what: in words, behind "until". source: the seal or the digest of what the bounds were taken from.
    """

    what: str
    bounds: tuple[float, ...]
    source: str | None


@dataclass(frozen=True)
class PrecisionRequest:
    """Half the length that the interval of a metric is to have, and how sure it is to be.

    max_questions: stop there, however wide the interval is. history: whether other models' answers may be used.
    until: what ends it before.
    """

    precision: float
    metric: str = "accuracy"
    confidence: float = 0.95
    max_questions: int | None = None
    seed: int = SEED
    history: bool = True
    until: Until | None = None


def asked_for(request: PrecisionRequest, planned: Sequence[PlannedQuestion]) -> dict[str, Any]:
    """A request as a specification holds it, still without the design.

    Raises UsageError for one that cannot be met.
    """
    if not NARROWEST <= request.precision <= WIDEST:
        raise UsageError(
            f"precision {request.precision:g}: give half the length of the interval, from {NARROWEST} to {WIDEST}, "
            "such as 0.02 for ±2 points"
        )
    if not 0.5 <= request.confidence <= 0.999:
        raise UsageError(f"confidence {request.confidence:g}: give a number from 0.5 to 0.999, such as 0.95")
    from registry.statistics.bootstrap import MINIMUM_QUESTIONS  # and numpy, which beat does without

    if request.max_questions is not None and not MINIMUM_QUESTIONS <= request.max_questions <= MAX_INTEGER:
        raise UsageError(
            f"max-questions {request.max_questions}: give a number from {MINIMUM_QUESTIONS} to {MAX_INTEGER}; fewer "
            "questions have no interval"
        )
    if request.metric not in SAMPLED_METRICS:
        raise UsageError(
            f"metric {request.metric}: a precision can be stated for means over questions from 0 to 1: "
            f"{', '.join(SAMPLED_METRICS)}"
        )
    if METRICS[request.metric].needs_two_prompts and any(question.n_variants < 2 for question in planned):
        raise UsageError(
            f"metric {request.metric} needs each question in two orders or more; use --variants cyclic, or "
            "--metric accuracy"
        )
    return {
        "precision": repr(request.precision),
        "metric": request.metric,
        "confidence": repr(request.confidence),
        "max_questions": request.max_questions,
        **({} if request.history else {"without_history": True}),
        **({} if request.until is None else {"until": _until(request.until)}),
    }


def _until(until: Until) -> dict[str, Any]:
    return {"what": until.what, "bounds": [repr(bound) for bound in until.bounds], "source": until.source}


def find_same(session: Session, specification: dict[str, Any], revision: ModelRevision) -> Evaluation | None:
    """The newest evaluation that stands and asks for the same, whatever the history was when it was designed.

    specification: without a design.
    """
    query = (
        select(Evaluation)
        .where(Evaluation.model_revision_id == revision.id, not_withdrawn())
        .order_by(Evaluation.id.desc())
    )
    wanted = specification_digest(specification)
    for evaluation in session.scalars(query):
        asked = copy.deepcopy(evaluation.specification)
        designed = [asked["questions"].get(name) for name in ("precision", "stopping")]
        if any(designed):
            for part in filter(None, designed):
                del part["design"]
            if specification_digest(asked) == wanted:
                return evaluation
    return None


def add_design(
    session: Session,
    specification: dict[str, Any],
    request: PrecisionRequest,
    revision: ModelRevision,
    questions: Sequence[Question],
) -> set[int]:
    """Puts the design into a specification; returns the ids of the first batch's questions."""
    from registry.results.sampled import draw, history  # and numpy

    digest = specification_digest(specification["variants"])
    known = {}
    if request.history:
        known = history(
            session,
            model_id=revision.model_id,
            benchmark_version_id=questions[0].benchmark_version_id,
            variant_set_id=session.scalar(select(VariantSet.id).where(VariantSet.digest == digest)),
            metric=request.metric,
            ids=[question.id for question in questions],
        )
    document, sample = draw(
        questions,
        known,
        metric=request.metric,
        precision=request.precision,
        confidence=request.confidence,
        most=request.max_questions,
        seed=request.seed,
        bounds=() if request.until is None else request.until.bounds,
    )
    specification["questions"]["precision"]["design"] = document
    return set(sample.question_ids[: sample.ends[0]])


@dataclass(frozen=True)
class SampleCost:
    """What an evaluation can take that does not ask everything: questions and prompts at most.

    Of a stated precision, where half of all answers are right, the worst case; of one that asks questions until they
    are decided, all of them.

    expected: prompts that models of the registry would have needed, the median; None without history. complete: prompts
    of all questions.
    """

    questions: int
    prompts: int
    expected: int | None
    complete: int


def cost_of(session: Session, evaluation: Evaluation) -> SampleCost | None:
    """What an evaluation that has just been submitted will cost; None where everything is asked."""
    if stopping_of(evaluation) is not None:
        all_variants = select(func.sum(EvaluationQuestion.n_variants)).filter_by(evaluation_id=evaluation.id)
        complete = int(session.scalar(all_variants) or 0)
        return SampleCost(evaluation.questions, complete, expected_prompts(session, evaluation), complete)
    asked = design_of(evaluation)
    if asked is None:
        return None
    from registry.results.sampled import expected_questions  # and numpy
    from registry.statistics.survey import batch_ends, most_needed

    whole = asked["design"]["questions"]
    needed = most_needed(whole, float(asked["precision"]), float(asked["confidence"]))
    ends = batch_ends(whole, asked["design"]["batch"], asked["max_questions"])
    most = next((end for end in ends if end >= needed), ends[-1])
    expected = expected_questions(session, evaluation)
    each = evaluation.prompts / evaluation.questions
    return SampleCost(
        most, round(each * most), None if expected is None else round(each * expected), round(each * whole)
    )


def prepare(session: Session, evaluation_id: int) -> None:
    """Reads what `queue_next_round` needs of other models, so that its transaction does not take seconds for that."""
    evaluation = session.get_one(Evaluation, evaluation_id)
    if design_of(evaluation) is not None:
        from registry.results.sampled import sample_of  # and numpy

        sample_of(session, evaluation)


def queue_next_round(session: Session, evaluation_id: int) -> None:
    """Queues an evaluation's next batch or round, if it needs one, once all shards of the last are done."""
    evaluation = session.get_one(Evaluation, evaluation_id)
    stopping = stopping_of(evaluation) is not None
    if design_of(evaluation) is None and not stopping:
        return
    # Of two workers that finish the last two shards at once, one waits here, and then sees both done.
    evaluation = session.get_one(Evaluation, evaluation_id, with_for_update={"key_share": True}, populate_existing=True)
    undone = select(func.count()).select_from(Shard).where(Shard.evaluation_id == evaluation_id, Shard.state != "done")
    if session.scalar(undone):
        return
    if stopping:
        next_round(session, evaluation)
        return
    from registry.results.sampled import sampled  # and numpy

    found = sampled(session, evaluation)
    assert found is not None
    end = found.next_end
    if end is None:
        return
    ids = found.sample.question_ids[found.asked : end]
    questions = session.scalars(select(Question).where(Question.id.in_(ids)).order_by(Question.ordinal)).all()
    definition = stored_variants(evaluation.variant_set)
    planned, _ = plan_questions(questions, definition, evaluation.protocol.definition.get("labels"))
    last = session.scalars(
        select(Shard).where(Shard.evaluation_id == evaluation_id).order_by(Shard.ordinal.desc()).limit(1)
    ).one()
    store_shards(session, evaluation_id, plan_shards(planned), last.queue, last.ordinal + 1)
    evaluation.questions += len(planned)
    of = evaluation.benchmark_version.questions
    evaluation.asked_digest = asked_digest(evaluation.specification, evaluation.questions, of)
    evaluation.prompts += sum(question.asked_now for question in planned)
    session.flush()
    hint_at(session, Shard.evaluation_id == evaluation_id)

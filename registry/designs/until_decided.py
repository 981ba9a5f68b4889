"""Evaluations that ask each question only until its value is decided: their design, and what it decides.

The design stands in the specification, so it is fixed before the first question is asked and the seal covers it: in
which order a question's variants are asked, and after how many of them it is looked at. Whether a question is asked
further follows from the design and its answers alone, so that whoever has both can repeat every decision.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, func, or_, select, text
from sqlalchemy.orm import Session

from registry.designs import UntilDecided, design_of
from registry.lookups import others_sealed
from registry.metrics import METRICS
from registry.metrics.averaging import MeanOverQuestions
from registry.prompting.prompts import PromptKeys, question_text
from registry.prompting.variants import VariantSetDefinition
from registry.tables import Evaluation, EvaluationQuestion, Prediction, Question, QuestionScore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from registry.designs.requests import Read

LEARNT_FROM: Final = 16
"""Models at most, the newest, whose answers say in which order questions are decided soonest."""
LEARNT_PREDICTIONS: Final = 200_000
"""Of their answers to questions with one number of options, at most about so many are read."""


@dataclass(frozen=True)
class Stopping:
    """The design of an evaluation that asks each question until a metric is decided.

    orders: number of options to the ordinals of all variants, in the order of asking. ends: after how many variants a
    question is looked at; the last is the most that any has. whole: external ids of questions that are asked in every
    variant whatever the answers are, since too few of these differ for the metric to be defined.
    """

    metric: str
    orders: Mapping[int, tuple[int, ...]]
    ends: tuple[int, ...]
    whole: frozenset[str]

    def next_round(self, n_options: int, asked: int) -> tuple[int, ...]:
        """The variants that a question is asked in next, after `asked` of them; none where all have been asked."""
        end = next((end for end in self.ends if end > asked), asked)
        return self.orders[n_options][asked:end]


def read_stopping(evaluation: Evaluation) -> Stopping | None:
    """The design of an evaluation; None for one that asks questions in every variant."""
    design = design_of(evaluation)
    return stopping_in(design.asked) if isinstance(design, UntilDecided) else None


def stopping_in(found: Mapping[str, Any]) -> Stopping:
    """The design that a specification holds."""
    design = found["design"]
    return Stopping(
        found["metric"],
        {int(options): tuple(order) for options, order in design["orders"].items()},
        tuple(design["rounds"]),
        frozenset(design["whole"]),
    )


def decided_where(metric: str) -> str:
    """The condition in SQL, from the columns of question_score, under which a question needs no other variant."""
    averaging = METRICS[metric].averaging
    assert isinstance(averaging, MeanOverQuestions)
    assert averaging.decided is not None
    return averaging.decided.where


def is_decided(metric: str, answers: Sequence[tuple[int | None, bool]]) -> bool:
    """Whether answers to a question, each an option with whether it is right, decide a metric, as the SQL has it.

    >>> is_decided("fluctuation_rate", [(1, True), (1, True)]), is_decided("fluctuation_rate", [(None, False)])
    (False, True)
    """
    if metric == "worst_accuracy":
        return not all(correct for _, correct in answers)
    return answers[0][0] is None or any(option != answers[0][0] for option, _ in answers)


@dataclass(frozen=True)
class OpenQuestion:
    """A question that is not decided yet. asked: in how many of its variants it was asked."""

    question_id: int
    external_id: str
    subject: str | None
    n_options: int
    n_variants: int
    asked: int


def open_questions(session: Session, evaluation_id: int, stopping: Stopping) -> list[OpenQuestion]:
    """The questions that need another round, in file order."""
    going_on: Any = text(f"NOT ({decided_where(stopping.metric)})")
    if stopping.whole:
        going_on = or_(going_on, Question.external_id.in_(stopping.whole))
    query = (
        select(
            Question.id,
            Question.external_id,
            Question.subject,
            Question.n_options,
            EvaluationQuestion.n_variants,
            func.coalesce(QuestionScore.stored, 0),
        )
        .select_from(EvaluationQuestion)
        .join(Question, Question.id == EvaluationQuestion.question_id)
        .outerjoin(EvaluationQuestion.score)
        .where(
            EvaluationQuestion.evaluation_id == evaluation_id,
            or_(QuestionScore.stored.is_(None), and_(QuestionScore.stored < EvaluationQuestion.n_variants, going_on)),
        )
        .order_by(Question.ordinal)
    )
    return [OpenQuestion(*row) for row in session.execute(query)]


def ends_of(metric: str, most: int, *, shared: bool) -> tuple[int, ...]:
    """After how many variants a question is looked at: first 1, for fluctuation 2, and in the end all of them.

    shared: prompts of a question that are asked together share most of their work, which a later round does again, so
    there is one more round. Where every prompt is paid for, rounds double: 1, 2, 4, 8 …
    Source: docs/decisions/0063-stopping-when-decided.md, which has the tokens and prompts of either.

    >>> ends_of("worst_accuracy", 24, shared=False), ends_of("fluctuation_rate", 24, shared=True)
    ((1, 2, 4, 8, 16, 24), (2, 24))
    """
    ends = [min(most, 1 if metric == "worst_accuracy" else 2)]
    while ends[-1] < most:
        ends.append(most if shared else min(most, 2 * ends[-1]))
    return tuple(ends)


def design_stopping(
    session: Session,
    *,
    metric: str,
    definition: VariantSetDefinition,
    variant_set_id: int | None,
    model_id: int,
    questions: Sequence[Question],
    shared: bool,
    read: "Read",
) -> dict[str, Any]:
    """A design as a specification holds it, its orders learnt from the other models that were asked in all variants.

    history: the seals of their evaluations; without one, variants are asked in their own order. shared: as for
    `ends_of`. read: see `registry.designs.requests.Read`.
    """
    ordinals: dict[int, tuple[int, ...]] = {}
    whole = []
    for question in questions:
        keys = PromptKeys(definition, question_text(question), lists_options=True)
        ordinals.setdefault(question.n_options, tuple(variant.ordinal for variant in keys.variants))
        if keys.distinct < 2:
            whole.append(question.external_id)
    whole_too = Evaluation.stopped_for.is_(None)
    others = others_sealed(session, model_id, questions[0].benchmark_version_id, variant_set_id, whole_too)
    known = dict(sorted(others.values())[-LEARNT_FROM:])
    used = set[str]()
    orders = {}
    for options, order in sorted(ordinals.items()):
        ids = [question.id for question in questions if question.n_options == options]
        orders[str(options)], seals = _learnt(session, metric, order, ids, known, read)
        used |= seals
    return {
        "version": 1,
        "orders": orders,
        "rounds": list(ends_of(metric, max(map(len, ordinals.values())), shared=shared)),
        "whole": sorted(whole),
        "history": sorted(used),
    }


def _learnt(
    session: Session, metric: str, ordinals: Sequence[int], ids: Sequence[int], known: Mapping[int, str], read: "Read"
) -> tuple[list[int], set[str]]:
    """The order of asking questions of one number of options, and the seals of what it is learnt from."""
    if not known:
        return list(ordinals), set()
    from registry.statistics.stopping import soonest_fluctuation, soonest_worst  # and numpy

    of, table = _answered(session, ordinals, ids, known, read)
    if not of:
        return list(ordinals), set()
    if metric == "worst_accuracy":
        places = soonest_worst(table[None, ..., 1] == 1)
    else:
        places = soonest_fluctuation(table[None, ..., 0])
    return [ordinals[place] for place in places], {known[evaluation_id] for evaluation_id in of}


def _answered(
    session: Session, ordinals: Sequence[int], ids: Sequence[int], known: Mapping[int, str], read: "Read"
) -> tuple[list[int], "NDArray[np.int64]"]:
    """Answers to a part of these questions in all variants: whose they are, by evaluation, and what.

    Shape (answered questions, variants, 2): the option chosen, MISSING where there is none, and whether it is right.
    """
    import numpy as np

    from registry.statistics.stopping import MISSING

    wanted = max(50, LEARNT_PREDICTIONS // (len(ordinals) * len(known)))
    part = ids[:: -(-len(ids) // wanted)]
    answers: dict[tuple[int, int], dict[int, tuple[int, bool]]] = {}
    for start in range(0, len(part), 500):
        query = select(
            Prediction.evaluation_id,
            Prediction.question_id,
            Prediction.variant,
            Prediction.chosen_option,
            Prediction.correct,
        ).where(Prediction.evaluation_id.in_(known), Prediction.question_id.in_(part[start : start + 500]))
        for row in read(session, known, query, part[start : start + 500]):
            option = MISSING if row.chosen_option is None else row.chosen_option
            answers.setdefault((row.evaluation_id, row.question_id), {})[row.variant] = (option, row.correct)
    complete = {key: found for key, found in sorted(answers.items()) if found.keys() >= set(ordinals)}
    table = [[found[ordinal] for ordinal in ordinals] for found in complete.values()]
    return [key[0] for key in complete], np.array(table, dtype=np.int64).reshape(len(table), len(ordinals), 2)


def expected_prompts(session: Session, evaluation: Evaluation, read: "Read") -> int | None:
    """The prompts that the models of the design's history would have been asked, the median; None without history.

    They are replayed in the order that was learnt from them, which flatters it slightly.
    """
    stopping, found = read_stopping(evaluation), design_of(evaluation).asked
    if stopping is None or not found["design"]["history"]:
        return None
    import numpy as np

    from registry.statistics.stopping import fluctuation_stopped, worst_accuracy_stopped

    seals = found["design"]["history"]
    known: dict[int, str] = {
        row.id: row.seal
        for row in session.execute(select(Evaluation.id, Evaluation.seal).where(Evaluation.seal.in_(seals)))
    }
    questions = session.execute(
        select(Question.id, Question.n_options)
        .join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id)
        .where(EvaluationQuestion.evaluation_id == evaluation.id)
        .order_by(Question.ordinal)
    ).all()
    prompts = dict.fromkeys(known, 0.0)
    for options, order in stopping.orders.items():
        ids = [row.id for row in questions if row.n_options == options]
        of, table = (
            _answered(session, order, ids, known, read) if ids else ([], np.empty((0, len(order), 2), dtype=np.int64))
        )
        if ids and not of:
            return None
        places = list(range(len(order)))
        if stopping.metric == "worst_accuracy":
            asked = worst_accuracy_stopped(table[..., 1] == 1, places)[1]
        else:
            asked = fluctuation_stopped(table[..., 0], places)[1]
        # A question is looked at after a round, not after each prompt.
        ends = np.array([min(end, len(order)) for end in stopping.ends])
        rounded = ends[np.searchsorted(ends[: np.argmax(ends == len(order)) + 1], asked)]
        by = np.array(of)
        for evaluation_id in known:
            own = rounded[by == evaluation_id]
            prompts[evaluation_id] += len(ids) * float((own if own.size else rounded).mean()) if ids else 0.0
    return round(float(np.median(list(prompts.values()))))


def stopping_document(session: Session, evaluation: Evaluation) -> dict[str, Any] | None:
    """What stopping has come to so far, as JSON has it; None for an evaluation that asks questions in every variant.

    prompts, prompts_complete: asked so far, and what all variants of the questions come to. decided: questions that
    need no other prompt. by_round: after how many variants, how many questions were decided.
    """
    stopping = read_stopping(evaluation)
    if stopping is None:
        return None
    query = select(func.sum(EvaluationQuestion.n_variants), func.count()).where(
        EvaluationQuestion.evaluation_id == evaluation.id
    )
    complete, questions = session.execute(query).one()
    waiting = {question.question_id for question in open_questions(session, evaluation.id, stopping)}
    scores = session.execute(
        select(QuestionScore.question_id, QuestionScore.stored).where(QuestionScore.evaluation_id == evaluation.id)
    ).all()
    by_round: dict[int, int] = {}
    for row in scores:
        if row.question_id not in waiting:
            by_round[row.stored] = by_round.get(row.stored, 0) + 1
    return {
        "metric": stopping.metric,
        "history": len(design_of(evaluation).asked["design"]["history"]),
        "questions": questions,
        "decided": sum(by_round.values()),
        "prompts": sum(row.stored for row in scores),
        "prompts_complete": int(complete or 0),
        "by_round": [{"prompts": asked, "questions": count} for asked, count in sorted(by_round.items())],
    }

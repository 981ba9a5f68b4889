"""The points of the assessment protocol, from sealed evaluations under `full`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import ColumnExpressionArgument, func, select
from sqlalchemy.orm import Session

from registry.digests import specification_digest
from registry.errors import NotFoundError, UsageError
from registry.lookups import NAMES, not_withdrawn, with_names
from registry.metrics import METRICS, VariantOutcome
from registry.metrics.pride import estimation_set
from registry.predictions.stored import require_rows
from registry.proposals import propose
from registry.studies.assessment.correlations import (
    DEFAULT_TOLERANCE,
    TARGETS,
    Point,
    correlations,
    mean_prompts,
    recommend,
    stabilities,
)
from registry.studies.assessment.orders import DRAW_SIZES, DRAWS, ORIGINAL, SEED, SUBSETS, rank_of, subset_ranks
from registry.studies.assessment.tables import (
    Value,
    metric_values,
    option_counts,
    order_tables,
    prompts_per_question,
    stability,
)
from registry.studies.choosing import choose_labelled, part_label
from registry.tables import (
    Evaluation,
    EvaluationQuestion,
    Prediction,
    Protocol,
    Question,
    VariantSet,
)

FULL: Final = "full"
_CHUNK: Final = 500


@dataclass(frozen=True)
class Source:
    """A sealed evaluation under `full`, with the labels of its point. predictions: the number of its predictions."""

    evaluation_id: int
    model: str
    benchmark: str
    protocol: str
    predictions: int
    seal: str


def assess(
    session: Session,
    *,
    benchmarks: Sequence[str] = (),
    models: Sequence[str] = (),
    protocol: str | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> dict[str, Any]:
    """Run the assessment protocol on every sealed evaluation under `full`.

    There is one point per model revision, benchmark version, protocol and question filter, from the last sealed
    evaluation.
    benchmarks, models: only these, `NAME` or `NAME@…`. protocol: only this, `NAME` or `NAME:SHOTS`. tolerance: the loss
    of R² accepted for a cheaper subset.
    Returns points, correlations (R² and error of each metric on each subset), stability and a recommendation for each
    target. Raises NotFoundError, listing the choices, if no evaluation is left, UsageError for a tolerance outside [0,
    1].
    Source: Goliakova et al., *Metric assessment protocol in the context of answer fluctuation on MCQ tasks*, §4.
    """
    check_tolerance(tolerance)
    sources = choose(assessable(session), benchmarks=benchmarks, models=models, protocol=protocol)
    return assess_sources(session, sources, tolerance)


def check_tolerance(tolerance: float) -> None:
    """Raise UsageError for a tolerance outside [0, 1]."""
    if not 0 <= tolerance <= 1:
        raise UsageError(f"tolerance {tolerance}: give the acceptable loss of R², from 0 to 1")


def choose(
    sources: Sequence[Source],
    *,
    benchmarks: Sequence[str] = (),
    models: Sequence[str] = (),
    protocol: str | None = None,
) -> list[Source]:
    """Return the sources that match the arguments of `assess`.

    Raises NotFoundError, listing the existing names, for a name that no source has.
    """
    chosen = list(sources)
    references = {"benchmark": benchmarks, "model": models, "protocol": [] if protocol is None else [protocol]}
    for what, names in references.items():
        chosen = choose_labelled(chosen, attrgetter(what), names, what, "has no sealed evaluation with all orders here")
    return chosen


def assess_sources(session: Session, sources: Sequence[Source], tolerance: float = DEFAULT_TOLERANCE) -> dict[str, Any]:
    """Return the document of `assess` for given sources.

    sources: at least one, from `assessable`. tolerance: from 0 to 1.
    """
    read = [_point(session, source) for source in sources]
    points = [point for point, _ in read]
    cells = correlations(points)
    return {
        "points": [point.document() for point in points],
        "subsets": {subset: {"prompts_per_question": mean_prompts(points, subset)} for subset in (*SUBSETS, FULL)},
        "correlations": [cell.document() for cell in cells],
        "stability": {
            "draws": DRAWS,
            "drawn_by": f"Python Random({SEED}).sample(range(L!), size), {DRAWS} times in a row for each L and size",
            "sizes": dict(zip(DRAW_SIZES, ("2", "L"), strict=True)),
            **stabilities(points),
        },
        "tolerance": tolerance,
        "recommendations": [recommend(points, cells, target, tolerance) for target in TARGETS],
        "notes": _notes(read),
    }


def assessable(session: Session) -> list[Source]:
    """Return the sealed evaluations that can be assessed, by model, benchmark and protocol.

    Raises NotFoundError, with the command that queues one, if there is none.
    """
    query = (
        with_names(
            select(
                Evaluation.id,
                Evaluation.specification,
                Evaluation.prompts,
                Evaluation.seal,
                Protocol.digest,
                *NAMES,
            )
        )
        .where(
            Evaluation.seal.is_not(None),
            not_withdrawn(),
            VariantSet.kind == FULL,
            func.coalesce(Evaluation.repeats, 1) == 1,
        )
        .order_by(Evaluation.sealed_at, Evaluation.id)
    )
    newest: dict[tuple[str, ...], Source] = {}
    for row in session.execute(query):
        questions = row.specification["questions"]
        model, benchmark = f"{row.model}@{row.revision}", f"{row.benchmark}@{row.benchmark_version}"
        # A protocol's digest, not its name: one name may have had several definitions.
        key = (model, benchmark, row.digest, specification_digest(questions))
        newest[key] = Source(
            row.id, model, benchmark + part_label(questions), f"{row.protocol}:{row.shots}", row.prompts, row.seal
        )
    if not newest:
        raise NotFoundError(_nothing_sealed(session))
    return sorted(newest.values(), key=lambda source: (source.model, source.benchmark, source.protocol))


def _nothing_sealed(session: Session) -> str:
    unsealed = session.scalar(
        select(func.count())
        .select_from(Evaluation)
        .join(VariantSet, VariantSet.id == Evaluation.variant_set_id)
        .where(VariantSet.kind == FULL)
    )
    waiting = f" (not yet complete: {unsealed})" if unsealed else ""
    return (
        f"no sealed evaluation shows all orders{waiting}; queue one: "
        f"{propose('evaluations submit', '--model', 'MODEL', '--benchmark', 'BENCHMARK', '--variants', 'full')}"
    )


def _point(session: Session, source: Source) -> tuple[Point, frozenset[int]]:
    """Return an evaluation's point and the ids of its questions. Only one evaluation is in memory at a time."""
    questions = session.execute(
        select(Question.id, Question.external_id, Question.n_options, Question.answer)
        .join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id)
        .where(EvaluationQuestion.evaluation_id == source.evaluation_id)
        .order_by(Question.ordinal)
    ).all()
    require_rows(session, source.evaluation_id)
    predictions = session.execute(
        select(
            Prediction.question_id,
            Prediction.shown,
            Prediction.chosen_option,
            Prediction.answer_probability,
            Prediction.brier_score,
            Prediction.entropy,
        )
        .where(Prediction.evaluation_id == source.evaluation_id)
        .execution_options(yield_per=10_000)
    )
    tables = order_tables(questions, predictions, source.evaluation_id)
    ranks_of = {subset: partial(subset_ranks, subset) for subset in SUBSETS}
    values = {subset: metric_values(tables, ranks_of[subset]) for subset in SUBSETS}
    outcomes = _pride_outcomes(session, source.evaluation_id, questions)
    for subset, subset_values in values.items():
        subset_values["pride_accuracy"] = _pride(outcomes, subset)
    accuracy = values["original"]["average_accuracy"][0]
    fluctuation = metric_values(tables, _every_rank)["fluctuation_rate"][0]
    assert accuracy is not None
    assert fluctuation is not None
    prompts = {subset: prompts_per_question(tables, ranks_of[subset]) for subset in SUBSETS}
    prompts[FULL] = prompts_per_question(tables, _every_rank)
    point = Point(
        model=source.model,
        benchmark=source.benchmark,
        protocol=source.protocol,
        evaluation=source.evaluation_id,
        options=option_counts(tables),
        prompts=prompts,
        targets={"fluctuation_rate": fluctuation, "accuracy": accuracy},
        values=values,
        stability=stability(tables),
    )
    return point, frozenset(question.id for question in questions)


def _every_rank(L: int) -> range:
    return range(len(rank_of(L)))


# PriDe needs label probabilities: of a few questions in every order, and of the others in the original order.


def _pride_outcomes(session: Session, evaluation_id: int, questions: Sequence[Any]) -> list[list[VariantOutcome]]:
    """Return outcomes with probabilities by question: all orders of the estimation set, the original of the others."""
    groups: dict[int, list[str]] = {}
    for question in questions:
        groups.setdefault(question.n_options, []).append(question.external_id)
    chosen = {name for names in groups.values() for name in estimation_set(names)}
    by_id = {question.id: question for question in questions}
    estimation = [question.id for question in questions if question.external_id in chosen]
    outcomes: dict[int, list[VariantOutcome]] = {question.id: [] for question in questions}
    conditions: list[ColumnExpressionArgument[bool]] = [Prediction.unchanged]
    conditions += [
        Prediction.question_id.in_(estimation[start : start + _CHUNK]) for start in range(0, len(estimation), _CHUNK)
    ]
    for number, condition in enumerate(conditions):
        answers = select(
            Prediction.question_id, Prediction.shown, Prediction.chosen_option, Prediction.label_probabilities
        ).where(Prediction.evaluation_id == evaluation_id, condition)
        require_rows(session, evaluation_id)
        for row in session.execute(answers):
            question = by_id[row.question_id]
            if number == 0 and question.external_id in chosen:
                continue  # comes with its other orders
            rank = rank_of(question.n_options)[tuple(row.shown)]
            outcomes[row.question_id].append(
                VariantOutcome(
                    variant=rank,
                    option=row.chosen_option,
                    answer=question.answer,
                    order=tuple(row.shown),
                    probabilities=None if row.label_probabilities is None else tuple(row.label_probabilities),
                    original=rank == ORIGINAL,
                    question=question.external_id,
                )
            )
    return list(outcomes.values())


def _pride(outcomes: Sequence[Sequence[VariantOutcome]], subset: str) -> Value:
    """Compute PriDe over a subset's orders; questions whose subset lacks the original order are left out."""
    selected = []
    for question_outcomes in outcomes:
        ranks = subset_ranks(subset, len(question_outcomes[0].order))
        if ORIGINAL in ranks:
            selected.append([outcome for outcome in question_outcomes if outcome.variant in ranks])
    return METRICS["pride_accuracy"].over_questions(selected)


def _notes(read: Sequence[tuple[Point, frozenset[int]]]) -> list[str]:
    """Return a note for each two points of a model and protocol that share questions."""
    notes = []
    for (first, first_questions), (second, second_questions) in combinations(read, 2):
        if (first.model, first.protocol) == (second.model, second.protocol) and first_questions & second_questions:
            notes.append(
                f"evaluations {first.evaluation} and {second.evaluation} of {first.model} share "
                f"{len(first_questions & second_questions)} questions, which count twice"
            )
    return notes

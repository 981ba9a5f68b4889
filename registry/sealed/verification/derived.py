"""Check that stored values follow from the predictions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Result, column, select, table
from sqlalchemy.orm import Session, selectinload

from registry.digests import specification_digest
from registry.errors import ShuffleboardError
from registry.metrics import METRICS
from registry.metrics.pride import ALPHA, PrideAnswer
from registry.predictions.prompts import prompts_of
from registry.prompting.prompts import PromptKeys, question_shape
from registry.prompting.variants import VariantSetDefinition, load_variants
from registry.queue.evaluations import choose_again
from registry.scores.asked import compute_asked
from registry.scores.computed import compute_metrics
from registry.scores.intervals import evaluation_intervals, interval_columns
from registry.scores.pride import PRIDE, compute_pride, pride_parameters, pride_result
from registry.scores.written import compute_written
from registry.sealed.verification.findings import Findings, alike, names_of
from registry.studies.comparing import CORA, compute_cora_analysis
from registry.tables import (
    Analysis,
    Evaluation,
    EvaluationMetric,
    EvaluationQuestion,
    Prediction,
    Question,
    QuestionPride,
    QuestionScore,
)

_CHUNK: Final = 500


def check_prompts(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    """Rebuild every prompt whose digest is stored, and compare its digest and its order of options.

    Also check the stored grouping of answers by prompt.
    """
    definition = load_variants(evaluation.variant_set)
    if definition.kind != "imported" and not definition.is_current(evaluation.variant_set.version):
        return
    wanted = select(EvaluationQuestion.question_id).filter_by(evaluation_id=evaluation.id)
    ids = session.scalars(wanted.order_by(EvaluationQuestion.question_id)).all()
    wrong: dict[str, set[str]] = {}
    for start in range(0, len(ids), _CHUNK):
        for problem, name in _find_wrong_prompts(session, evaluation, definition, ids[start : start + _CHUNK]):
            wrong.setdefault(problem, set()).add(name)
    for problem, names in wrong.items():
        findings.add_questions(names, problem)


def _find_wrong_prompts(
    session: Session, evaluation: Evaluation, definition: VariantSetDefinition, ids: Sequence[int]
) -> Iterator[tuple[str, str]]:
    """Yield (problem, external id) for each of these questions that has a problem."""
    stored: dict[int, dict[int, tuple[str, list[int]]]] = {}
    numbered: dict[int, list[tuple[int, int, list[int]]]] = {}
    prediction = Prediction
    prompts = select(
        prediction.question_id, prediction.variant, prediction.prompt_digest, prediction.shown, prediction.prompt_key
    ).where(prediction.evaluation_id == evaluation.id, prediction.question_id.in_(ids))
    for row in session.execute(prompts):
        numbered.setdefault(row.question_id, []).append((row.prompt_key, row.variant, row.shown))
        if row.prompt_digest is not None:
            stored.setdefault(row.question_id, {})[row.variant] = (row.prompt_digest, row.shown)
    questions = session.scalars(
        select(Question).where(Question.id.in_(numbered)).options(selectinload(Question.options))
    ).all()
    for question in questions:
        if not _have_right_numbers(definition, question, evaluation, numbered[question.id]):
            yield _GROUPING, question.external_id
    built, problems = _rebuild_prompts(
        session, evaluation, [question for question in questions if question.id in stored]
    )
    yield from problems
    for question in questions:
        made = built.get(question.id)
        if made is not None and any(made.get(variant) != shown for variant, shown in stored[question.id].items()):
            yield "its rebuilt prompts are not what was asked", question.external_id
        # Ten thousand questions with their options would take too much memory.
        for option in question.options:
            session.expunge(option)
        session.expunge(question)


_GROUPING: Final = "which of its answers are to the same prompt is not what the orders and texts that were shown say"


def _have_right_numbers(
    definition: VariantSetDefinition,
    question: Question,
    evaluation: Evaluation,
    rows: Sequence[tuple[int, int, list[int]]],
) -> bool:
    """Return whether each answer's stored prompt key identifies its prompt. rows: (prompt key, variant, order).

    Recorded orders were numbered in the order of their file, which is unknown here, so only the grouping is checked:
    equal orders must share a number.
    """
    keys = PromptKeys(definition, question_shape(question), lists_options=evaluation.lists_options)
    pairs = {(number, keys.of(keys.recorded(variant, tuple(order)))) for number, variant, order in rows}
    one_to_one = len({stored for stored, _ in pairs}) == len({made for _, made in pairs}) == len(pairs)
    return one_to_one and all(stored == made for stored, made in pairs if made < keys.first_recorded)


_Built = dict[int, dict[int, tuple[str, list[int]]]]


def _rebuild_prompts(
    session: Session, evaluation: Evaluation, questions: Sequence[Question]
) -> tuple[_Built, list[tuple[str, str]]]:
    """Return the result of `_build_prompts`, and (problem, external id) for questions for which it fails."""
    try:
        return _build_prompts(session, evaluation, questions), []
    except (ShuffleboardError, LookupError) as error:
        if len(questions) == 1:
            return {}, [(f"its prompts cannot be rebuilt ({error})", questions[0].external_id)]
    built: _Built = {}
    problems: list[tuple[str, str]] = []
    for question in questions:
        made, problem = _rebuild_prompts(session, evaluation, [question])
        built |= made
        problems += problem
    return built, problems


def _build_prompts(session: Session, evaluation: Evaluation, questions: Sequence[Question]) -> _Built:
    """Map question id to variant to the prompt's digest and its order of options."""
    built: dict[int, dict[int, tuple[str, list[int]]]] = {}
    for item in prompts_of(session, evaluation, list(questions)):
        shown = (item.prompt.digest, list(item.variant.order))
        built.setdefault(item.question_id, {})[item.variant.ordinal] = shown
    return built


def check_scores(session: Session, evaluation_id: int, findings: Findings) -> None:
    """Compare the stored question scores with the view that computes them."""
    scores = QuestionScore.__table__
    columns = [column.name for column in scores.columns]
    statistics = table("question_statistics", *(column(name) for name in columns))
    stored = _by_question(session.execute(select(scores).where(scores.c.evaluation_id == evaluation_id)))
    computed = _by_question(session.execute(select(statistics).where(statistics.c.evaluation_id == evaluation_id)))
    changed = [key for key in stored.keys() | computed.keys() if not alike(stored.get(key), computed.get(key))]
    findings.add_questions(names_of(session, changed), "question_score differs from its predictions")


def _by_question(rows: Result[Any]) -> dict[int, dict[str, Any]]:
    return {row["question_id"]: dict(row) for row in rows.mappings()}


def check_pride(session: Session, evaluation_id: int, findings: Findings) -> None:
    """Check PriDe's answers, and that the analysis from which they were computed is stored."""
    stored = {
        external_id: PrideAnswer(estimation, correct)
        for external_id, estimation, correct in session.execute(
            select(Question.external_id, QuestionPride.estimation, QuestionPride.correct)
            .join(Question, Question.id == QuestionPride.question_id)
            .where(QuestionPride.evaluation_id == evaluation_id)
        )
    }
    pride = compute_pride(session, evaluation_id)
    computed = pride.answers if pride.priors else {}
    findings.add_questions(
        (name for name in stored.keys() | computed.keys() if stored.get(name) != computed.get(name)),
        "question_pride differs from its predictions",
    )
    inputs = select(Analysis.id).filter_by(
        evaluation_id=evaluation_id, kind=PRIDE, parameters_digest=specification_digest(pride_parameters(ALPHA))
    )
    if computed and session.scalar(inputs) is None:
        findings.add("analysis pride: what PriDe's answers were computed from is missing")


def check_sample(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    """Draw the sample of an evaluation's questions again, and compare it with the stored questions."""
    if evaluation.sampled_from is None:
        return
    stored = evaluation.specification["questions"]
    try:
        drawn, again = choose_again(session, evaluation.benchmark_version, stored)
    except ShuffleboardError as error:
        findings.add(f"sample: {error}")
        return
    if again != stored:
        findings.add(f"sample: it was drawn from {stored['sample']['of']} questions; now there is another number")
    asked_question = EvaluationQuestion
    stored_ids = set(
        session.scalars(select(asked_question.question_id).where(asked_question.evaluation_id == evaluation.id))
    )
    wrong = stored_ids ^ {question.id for question in drawn}
    findings.add_questions(names_of(session, wrong), "the sample that was asked is not the one that its seed draws")


_COMPARED: Final = (
    "value",
    "n",
    "interval_low",
    "interval_high",
    "interval_method",
    "interval_resamples",
    "interval_seed",
)


def check_metrics(session: Session, evaluation_id: int, findings: Findings) -> None:
    """Recompute every metric and its interval for every scope; values of older definitions are not checked."""
    stored = {
        (row.scope, row.metric): {name: getattr(row, name) for name in _COMPARED}
        for row in session.scalars(select(EvaluationMetric).filter_by(evaluation_id=evaluation_id))
        if row.metric in METRICS and row.definition_version == METRICS[row.metric].definition_version
    }
    intervals = evaluation_intervals(session, evaluation_id)
    sampled = session.get_one(Evaluation, evaluation_id).sampled_from is not None
    for scope, values in compute_metrics(session, evaluation_id).items():
        for name in METRICS:
            computed = {
                "value": values[name],
                "n": values[f"{name}_n"],
                **interval_columns(scope, intervals[scope].get(name), sampled=sampled),
            }
            row = stored.pop((scope, name), None)
            if row is None:
                findings.add(f"metric {name} ({scope}): missing")
            elif not alike(row, computed):
                different = [key for key in _COMPARED if not alike(row[key], computed[key])]
                listed = "; ".join(f"{key} stored {row[key]}, computed {computed[key]}" for key in different)
                findings.add(f"metric {name} ({scope}): {listed}")
    for scope, name in sorted(stored):
        findings.add(f"metric {name} ({scope}): no question counts there")


def check_asked(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    """Compare the evaluation's facts about prompts and texts with its questions, answers and texts."""
    for name, computed in (compute_asked(session, evaluation.id) | compute_written(session, evaluation.id)).items():
        stored = getattr(evaluation, name)
        if not alike(stored, computed):
            findings.add(f"{name}: stored {stored}, computed {computed}")


def check_analyses(session: Session, evaluation_id: int, findings: Findings) -> None:
    """Check analyses by computing them again from their parameters."""
    computed: dict[str, Callable[[Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any]]]] = {
        PRIDE: lambda parameters: (
            pride_parameters(float(parameters["alpha"])),
            pride_result(compute_pride(session, evaluation_id, float(parameters["alpha"]))),
        ),
        CORA: lambda _: compute_cora_analysis(session, evaluation_id)[1:],
    }
    rows = session.scalars(select(Analysis).filter_by(evaluation_id=evaluation_id).order_by(Analysis.id)).all()
    for row in rows:
        if row.kind not in computed:
            findings.add(f"analysis {row.kind}: unknown kind of analysis")
            continue
        if specification_digest(row.parameters) != row.parameters_digest:
            findings.add(f"analysis {row.kind}: its parameters do not match their digest")
            continue
        parameters, result = computed[row.kind](row.parameters)
        if not alike(row.parameters, parameters) or not alike(row.result, result):
            findings.add(f"analysis {row.kind}: recomputing it gives another result")

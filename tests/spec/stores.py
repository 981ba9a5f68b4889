"""Stores cases in a real database through the code that stores an engine's results, and reads them from the views."""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from sqlalchemy import Engine, insert, select, text
from sqlalchemy.orm import Session

from registry.db import write_session
from registry.digests import sha256_text
from registry.metrics import METRICS
from registry.metrics.catalogue import QUESTION_METRICS
from registry.predictions.bulk import insert_predictions
from registry.predictions.rows import prediction_row
from registry.prompting.prompts import PromptKeys
from registry.prompting.protocols.store import protocol_definition, store_protocol
from registry.prompting.variants import QuestionShape, VariantSetDefinition, VariantShown, parse_variants
from registry.queue.evaluations import store_variant_set
from registry.scores.computed import compute_metrics
from registry.scores.pride import write_question_pride
from registry.scores.question_scores import write_question_scores
from registry.tables import (
    Benchmark,
    BenchmarkVersion,
    Evaluation,
    EvaluationMetric,
    EvaluationQuestion,
    Model,
    ModelRevision,
    Protocol,
    Question,
    QuestionOption,
    Shard,
    VariantSet,
)
from tests.spec.tables import INSERTED, Answers, Case, same

_SERIAL = count()


def add_common_rows(engine: Engine) -> None:
    """Add the rows that all evaluations share: a model, a benchmark, a protocol, a variant set."""
    with write_session(engine) as session:
        model = Model(name="model")
        session.add_all([Benchmark(name="benchmark"), model])
        session.add(ModelRevision(model=model, number=1, kind="external", state="ready"))
        store_protocol(session, protocol_definition("symbols"))
        store_variant_set(session, parse_variants("imported"))


def store(session: Session, cases: Sequence[Case]) -> int:
    """Store the cases as an evaluation of a new benchmark version; return its id.

    All cases must agree in repeats, recording, listing of options, and sampling.
    """
    name = f"table {next(_SERIAL)}"
    version = BenchmarkVersion(
        benchmark_id=session.scalars(select(Benchmark.id)).one(),
        version=name,
        content_digest=sha256_text(name),
        file_digest=sha256_text(name),
        language="en",
        split="test",
        questions=len(cases),
        few_shot_examples=0,
    )
    session.add(version)
    session.flush()
    prompts = sum(case.expected for case in cases)
    evaluation = Evaluation(
        specification={"table": name},
        specification_digest=sha256_text(name),
        asked_digest=sha256_text(name),
        model_revision_id=session.scalars(select(ModelRevision.id)).one(),
        benchmark_version_id=version.id,
        protocol_id=session.scalars(select(Protocol.id)).one(),
        variant_set_id=session.scalars(select(VariantSet.id)).one(),
        state="running",
        questions=len(cases),
        prompts=prompts,
        repeats=cases[0].repeats,
        recorded=cases[0].recorded,
        lists_options=cases[0].listed,
        samples=cases[0].samples,
    )
    session.add(evaluation)
    session.flush()
    shard = Shard(evaluation_id=evaluation.id, ordinal=0, queue="cpu", state="done", prompts=prompts)
    session.add(shard)
    session.flush()
    ids = _store_questions(session, version.id, cases)
    session.execute(
        insert(EvaluationQuestion),
        [
            {
                "evaluation_id": evaluation.id,
                "question_id": question_id,
                "n_variants": case.expected,
                "shard_id": shard.id,
            }
            for question_id, case in zip(ids, cases, strict=True)
        ],
    )
    rows = [
        row
        for question_id, case in zip(ids, cases, strict=True)
        for row in _prediction_rows(evaluation.id, question_id, case)
    ]
    insert_predictions(session, rows)
    write_question_scores(session, evaluation.id)
    if all(case.complete for case in cases):
        write_question_pride(session, evaluation.id)
    return evaluation.id


def _store_questions(session: Session, version_id: int, cases: Sequence[Case]) -> Sequence[int]:
    ids = session.scalars(
        insert(Question).returning(Question.id, sort_by_parameter_order=True),
        [
            {
                "benchmark_version_id": version_id,
                "few_shot": False,
                "external_id": case.question,
                "ordinal": ordinal,
                "subject": case.subject,
                "text": f"Question {case.question}?",
                "answer": case.answer,
                "n_options": len(case.texts),
                "refers_to_options": case.refers_to_options,
                "sorted_numeric": case.sorted_numeric,
            }
            for ordinal, case in enumerate(cases)
        ],
    ).all()
    session.execute(
        insert(QuestionOption),
        [
            {"question_id": question_id, "ordinal": ordinal, "text": option}
            for question_id, case in zip(ids, cases, strict=True)
            for ordinal, option in enumerate(case.texts)
        ],
    )
    return ids


def _prediction_rows(evaluation_id: int, question_id: int, case: Case) -> Iterable[dict[str, Any]]:
    shape = QuestionShape(case.question, len(case.texts), case.answer)
    keys = PromptKeys(VariantSetDefinition("imported", {}), shape, lists_options=case.listed)
    for prompt in case.prompts:
        variant = VariantShown(
            prompt.variant,
            f"variant {prompt.variant}",
            prompt.order,
            question_shown=prompt.question_shown,
            labels=prompt.labels,
        )
        yield prediction_row(
            evaluation_id=evaluation_id,
            question_id=question_id,
            options=case.texts,
            answer=case.answer,
            variant=variant,
            prompt_key=keys.of(variant),
            inserted=dict(INSERTED),
            logprobs=prompt.logprobs,
            weights=prompt.weights,
            logprobs_without_question=prompt.without,
            position=None if prompt.chosen is None else prompt.order.index(prompt.chosen),
            answered=prompt.answered,
        )


def database_answers(session: Session, evaluation_id: int, engine: str) -> list[Answers]:
    """Return the values that the registry reports, and the values in the views."""
    reported = compute_metrics(session, evaluation_id)
    over_questions = _rows(session, "scope_metrics", evaluation_id, "scope")
    over_runs = _rows(session, "run_metrics", evaluation_id, "scope")
    viewed = {
        scope: {
            name: over_runs.get(scope, {}).get(name) if METRICS[name].view == "run_metrics" else values[name]
            for name in METRICS
        }
        for scope, values in over_questions.items()
    }
    per_question = question_rows(session, evaluation_id)
    return [
        Answers(
            source,
            {
                scope: {name: (scope_values[name], int(reported[scope][f"{name}_n"])) for name in METRICS}
                for scope, scope_values in over.items()
            },
            per_question,
        )
        for source, over in ((engine, reported), (f"{engine}, views", viewed))
    ]


def question_rows(session: Session, evaluation_id: int) -> dict[str, dict[str, Any]]:
    """Return the metrics of each question from the view."""
    return {
        question: {name: row[name] for name in QUESTION_METRICS}
        for question, row in _rows(session, "question_metrics", evaluation_id, "external_id").items()
    }


def _rows(session: Session, view: str, evaluation_id: int, key: str) -> dict[Any, dict[str, Any]]:
    query = text(f"SELECT * FROM {view} WHERE evaluation_id = :id")
    return {row[key]: dict(row) for row in session.execute(query, {"id": evaluation_id}).mappings()}


def load_kept_metrics(session: Session, evaluation_id: int) -> dict[str, dict[str, tuple[float | None, int]]]:
    """Return scope → metric → (value, n) as stored by sealing."""
    by_question: dict[str, dict[str, tuple[float | None, int]]] = {}
    query = select(EvaluationMetric).where(EvaluationMetric.evaluation_id == evaluation_id)
    for row in session.scalars(query):
        by_question.setdefault(row.scope, {})[row.metric] = (row.value, row.n)
    return by_question


def find_changed_statistics(session: Session, evaluation_id: int) -> list[str]:
    """Return, as text, every value in which the table question_score and the view that it copies differ."""
    score = _rows(session, "question_score", evaluation_id, "question_id")
    view = _rows(session, "question_statistics", evaluation_id, "question_id")
    submitted = {question: row for question, row in view.items() if row["stored"]}
    if score.keys() != submitted.keys():
        return [f"question_score holds questions {sorted(score)}, the view {sorted(submitted)}"]
    return [
        f"{column} of question {question}: stored {score[question].get(column)}, computed {value}"
        for question, row in submitted.items()
        for column, value in row.items()
        if column not in score[question] or not same(score[question][column], value)
    ]

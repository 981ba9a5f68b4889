"""Generates a registry of any size from a seed: `fill(engine, Size(...))`. It shows how pages and routes scale.

Models and benchmarks are registered by the registry's own functions. The evaluations, far too many for those, are
written by COPY into the tables as sealing would: shards done, questions, question scores, and every metric over all
questions. The values are random around a skill of each model. One evaluation of one more benchmark also has its
predictions, under all orders of four options.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice, permutations
from typing import Any

from sqlalchemy import Engine, select, text, update
from sqlalchemy.orm import Session

from registry.db import write_session
from registry.digests import sha256_text, specification_digest
from registry.metrics import METRICS
from registry.predictions import binary_copy
from registry.predictions.bulk import insert_predictions
from registry.predictions.rows import prediction_row
from registry.prompting.protocols.store import protocol_definition, store_protocol
from registry.prompting.variants import QuestionShape, VariantShown, parse_variants
from registry.queue.evaluations import build_specification, store_variant_set, store_variants
from registry.revisions.store import ModelFiles, RevisionRequest, add_revision
from registry.scores.asked import compute_asked_digest
from registry.scores.question_scores import write_question_scores
from registry.tables import (
    BenchmarkVersion,
    EngineFingerprint,
    Evaluation,
    EvaluationMetric,
    EvaluationQuestion,
    ModelRevision,
    Question,
    QuestionScore,
    Shard,
    Worker,
)
from tests.support.population import add_benchmark, question

WORKER = "00000000-0000-0000-0000-00000000be9c"
SEALED = datetime(2026, 1, 1, tzinfo=UTC)
EXPLORED = "explored"
PROMPTS_A_SHARD = 4096
ROWS = 20_000
"""Number of rows written at once."""
_OF_SKILL = {"worst_accuracy": 0.6, "right_twice_across_orders": 0.8, "best_accuracy": 1.3}
"""Metric → the factor by which a model's skill is multiplied, if that is not 1."""


@dataclass(frozen=True)
class Size:
    """Size of a generated registry.

    Only the largest evaluation stores predictions: about `predictions` rows, 24 orders for each of its questions.
    """

    models: int = 500
    benchmarks: int = 60
    questions: int = 10
    predictions: int = 350_000
    seed: int = 0


@dataclass(frozen=True)
class Filled:
    """Names and ids to use in requests."""

    model: str
    benchmark: str
    evaluation_id: int
    explored_evaluation_id: int
    explored_question_id: int
    evaluations: int


def fill(engine: Engine, folder: Any, size: Size) -> Filled:
    """Fill an empty PostgreSQL database that has the schema. folder: for benchmark files."""
    rng = random.Random(size.seed)
    with write_session(engine) as session:
        session.add(Worker(id=WORKER, host="bench", pid=1, device="cpu", versions={}))
        session.add(EngineFingerprint(digest=sha256_text("engine"), document={"engine": "made up"}))
        revisions = [_revision(session, number) for number in range(size.models)]
        versions = [
            add_benchmark(session, folder, _lines(size.questions), f"benchmark-{number:03}")
            for number in range(size.benchmarks)
        ]
        session.flush()
        _evaluations(session, rng, revisions, versions, "cyclic")
        listed = list(session.scalars(select(Evaluation.id).order_by(Evaluation.id)))
        explored = add_benchmark(session, folder, _lines(max(1, size.predictions // 24)), EXPLORED)
        _evaluations(session, rng, revisions[:1], [explored], "full", scores=False)
        explored_id = session.scalars(select(Evaluation.id).order_by(Evaluation.id.desc()).limit(1)).one()
        questions = list(
            session.scalars(select(Question).filter_by(benchmark_version_id=explored.id).order_by("ordinal"))
        )
        _predictions(session, rng, explored_id, questions)
        write_question_scores(session, explored_id)
        sealed = {"state": "complete", "seal": text("sha256(specification_digest)"), "sealed_at": _make_seal_time()}
        session.execute(update(Evaluation).values(sealed))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
    return Filled(
        "model-000", "benchmark-000", listed[0], explored_id, questions[len(questions) // 2].id, len(listed) + 1
    )


def _make_seal_time() -> Any:
    """Return the SQL of the time of a seal: a minute after the previous one."""
    return text(f"timestamptz '{SEALED.isoformat()}' + evaluation.id * interval '1 minute'")


def _revision(session: Session, number: int) -> ModelRevision:
    name = f"model-{number:03}"
    files = ModelFiles(sha256_text(name), sha256_text("tokenizer"), None, "0" * 40)
    row = add_revision(session, name, RevisionRequest("huggingface", f"made-up/{name}"), files=files)[0]
    row.model.family = f"family-{number % 20}"
    row.model.developer = f"developer-{number % 7}"
    row.model.licence = ("apache-2.0", "mit", "proprietary", None)[number % 4]
    row.model.parameters = 10**8 * (1 + number)
    row.model.released = (date(2024, 1, 1) + timedelta(days=number)).isoformat()
    return row


def _lines(questions: int) -> list[dict[str, Any]]:
    return [question(number, subject=f"subject {number % 5}") for number in range(questions)]


def _evaluations(
    session: Session,
    rng: random.Random,
    revisions: Sequence[ModelRevision],
    versions: Sequence[BenchmarkVersion],
    variants: str,
    *,
    scores: bool = True,
) -> None:
    """Store evaluations of every revision on every version, with shards, questions and metrics, not yet sealed."""
    definition = parse_variants(variants)
    protocol_json = protocol_definition("symbols")
    protocol, variant_set = store_protocol(session, protocol_json), store_variant_set(session, definition)
    shown = definition.variants(QuestionShape("q0", 4, 0))
    store_variants(session, variant_set, {4: {variant.ordinal: variant.name for variant in shown}})
    filter_json = {"limit": None, "subjects": None}
    documents = []
    for version in versions:
        for revision in revisions:
            document = build_specification(
                revision, version, protocol_json, definition, {"name": "made up"}, filter_json
            )
            documents.append(
                {
                    "specification": document,
                    "specification_digest": specification_digest(document),
                    "asked_digest": compute_asked_digest(document, version.questions, version.questions),
                    "replicate": 0,
                    "model_revision_id": revision.id,
                    "benchmark_version_id": version.id,
                    "protocol_id": protocol.id,
                    "variant_set_id": variant_set.id,
                    "state": "running",
                    "priority": 0,
                    "questions": version.questions,
                    "prompts": version.questions * len(shown),
                    "distinct_prompts_min": len(shown),
                    "distinct_prompts_max": len(shown),
                    "variants_max": len(shown),
                    "orders_only": True,
                    "samples": False,
                    "chance": 0.25,
                    "created_at": SEALED - timedelta(days=1),
                    "started_at": SEALED - timedelta(hours=1),
                }
            )
    newest = session.scalar(select(Evaluation.id).order_by(Evaluation.id.desc()).limit(1)) or 0
    copy(session, Evaluation.__table__, documents)
    query = select(Evaluation.id, Evaluation.model_revision_id, Evaluation.benchmark_version_id)
    rows = session.execute(query.where(Evaluation.id > newest).order_by(Evaluation.id)).all()
    question_ids = {
        version.id: list(session.scalars(select(Question.id).filter_by(benchmark_version_id=version.id)))
        for version in versions
    }
    shards = _shards(session, [(row.id, question_ids[row.benchmark_version_id]) for row in rows], len(shown))
    skills = {revision.id: rng.uniform(0.3, 0.9) for revision in revisions}
    copy(session, EvaluationQuestion.__table__, _questions(rows, question_ids, shards, len(shown)))
    copy(
        session, EvaluationMetric.__table__, (item for row in rows for item in _metrics(rng, row, skills, question_ids))
    )
    if scores:
        copy(
            session, QuestionScore.__table__, (item for row in rows for item in _scores(rng, row, skills, question_ids))
        )


def _shards(session: Session, evaluations: Sequence[tuple[int, Sequence[int]]], n_variants: int) -> dict[int, int]:
    """Store one done shard for each evaluation; return evaluation → shard."""
    copy(
        session,
        Shard.__table__,
        (
            {
                "evaluation_id": evaluation_id,
                "ordinal": 0,
                "queue": "cpu",
                "state": "done",
                "prompts": len(questions) * n_variants,
                "fence": 1,
                "failures": 0,
                "crashes": 0,
                "worker_id": WORKER,
                "engine_fingerprint_id": 1,
                "tokens_naive": 1000,
                "tokens_computed": 300,
                "elapsed_s": 1.5,
                "claimed_at": SEALED - timedelta(hours=1),
                "finished_at": SEALED,
            }
            for evaluation_id, questions in evaluations
        ),
    )
    return {row.evaluation_id: row.id for row in session.execute(select(Shard.evaluation_id, Shard.id))}


def _questions(rows: Any, asked: dict[int, list[int]], shards: dict[int, int], n_variants: int) -> Iterable[Any]:
    for row in rows:
        for question_id in asked[row.benchmark_version_id]:
            yield {
                "evaluation_id": row.id,
                "question_id": question_id,
                "n_variants": n_variants,
                "shard_id": shards[row.id],
            }


def _metrics(
    rng: random.Random, row: Any, skills: dict[int, float], asked: dict[int, list[int]]
) -> Iterable[dict[str, Any]]:
    """Yield every metric over all questions; metrics of repeats are undefined, since no model samples its answers."""
    values: dict[str, float | None] = {}
    for name, metric in METRICS.items():
        drawn = rng.gauss(skills[row.model_revision_id] * _OF_SKILL.get(name, 1.0), 0.05)
        values[name] = None if "asked twice" in metric.undefined else min(1.0, max(0.0, drawn))
    average, across = values["average_accuracy"] or 0.0, values["right_twice_across_orders"] or 0.0
    values |= {"right_twice_same_order": average, "chance_loss": 0.0, "order_loss": max(0.0, average - across)}
    for name, value in values.items():
        yield {
            "evaluation_id": row.id,
            "scope": "all",
            "metric": name,
            "definition_version": METRICS[name].definition_version,
            "value": value,
            "n": len(asked[row.benchmark_version_id]),
            "interval_low": None if value is None else max(0.0, value - 0.02),
            "interval_high": None if value is None else min(1.0, value + 0.02),
            "computed_at": SEALED,
            "interval_method": "made up",
        }


def _scores(
    rng: random.Random, row: Any, skills: dict[int, float], asked: dict[int, list[int]]
) -> Iterable[dict[str, Any]]:
    """Yield question scores under four orders."""
    for question_id in asked[row.benchmark_version_id]:
        correct = sum(rng.random() < skills[row.model_revision_id] for _ in range(4))
        yield {
            "evaluation_id": row.id,
            "question_id": question_id,
            "expected": 4,
            "stored": 4,
            "original_correct": correct > rng.randrange(4),
            "original_answered": True,
            "tied": 0,
            "variants": 4,
            "valid": 4,
            "correct": correct,
            "first_option": rng.randrange(4),
            "agreeing": max(1, correct),
            "equal_pairs": correct * (correct - 1) // 2,
            "others": 3,
            "others_correct": min(3, correct),
            "shown": 4,
            "shown_correct": correct,
            "answers": 4,
            "repeated_prompts": 0,
            "average_accuracy": correct / 4,
            "right_twice_across_orders": correct * (correct - 1) / 12,
            "distinct_prompts": 4,
            "own_prompts": 4,
            "probability_variants": 4,
            "answer_probability_sum": correct * 0.8,
            "brier_score_sum": 4 - correct * 0.9,
            "entropy_sum": 1.2,
        }


def _predictions(session: Session, rng: random.Random, evaluation_id: int, questions: Sequence[Question]) -> None:
    """Store every order of every question, answered at random, a batch at a time."""
    orders = list(permutations(range(4)))
    batch: list[dict[str, Any]] = []
    for item in questions:
        options = [option.text for option in item.options]
        for ordinal, order in enumerate(orders):
            logprobs = [-rng.expovariate(1.0) - 0.01 for _ in order]
            batch.append(
                prediction_row(
                    evaluation_id=evaluation_id,
                    question_id=item.id,
                    options=options,
                    answer=item.answer,
                    variant=VariantShown(ordinal, "", order),
                    prompt_key=ordinal,
                    inserted={},
                    prompt_digest="0" * 64,
                    logprobs=logprobs,
                )
            )
        if len(batch) > 20_000:
            insert_predictions(session, batch)
            batch = []
    insert_predictions(session, batch)


def copy(session: Session, table: Any, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows, maps of column name to value with the same columns, by COPY."""
    listed = iter(rows)
    while some := list(islice(listed, ROWS)):
        binary_copy.write(session.connection(), table, {name: [row[name] for row in some] for name in some[0]})

"""An evaluation with a row in every table that a seal or `verify` covers."""

from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

from sqlalchemy import Engine, select, update

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import write_session
from registry.queue import claims
from registry.queue.claims import ShardResult
from registry.queue.evaluations import EvaluationRequest, submit
from registry.sealed.seal import seal
from registry.studies.comparing import cora_document
from registry.tables import Evaluation, Prediction, Shard, Worker
from tests.support.fake_scorer import FakeScorer
from tests.support.population import add_model, question, write_lines

LINES = [
    question(0, context="As is well known.", source={"page": 3, "weight": 1.5}),
    question(1, options=4),
    question(2, subject="chemistry", cluster="salts"),
    question(3, subject="chemistry", cluster="salts"),
]
POOL = [question(number, split="fewshot") for number in (10, 11)]


@dataclass(frozen=True)
class Population:
    """A filled registry.

    source: the evaluation that was sealed first; its results for original orders were copied into `evaluation`, which
    is on the board `main`.
    """

    source: int
    evaluation: int


def score(
    engine: Engine,
    evaluation_id: int,
    *,
    packages: tuple[str, ...] = ("1",),
    copies: dict[str, int] | None = None,
    scorer: FakeScorer | None = None,
    sealed: bool = True,
) -> None:
    """Score an evaluation as a worker would, and seal it.

    packages: the version of the engine for each shard, in turn.
    copies: digest of a prompt → evaluation that has its result.
    sealed: whether to seal the evaluation.
    """
    scorer = scorer or FakeScorer()
    versions = cycle(packages)
    with write_session(engine) as session:
        if session.get(Worker, "worker") is None:
            session.add(
                Worker(id="worker", host="host", pid=1, device="fake", versions=scorer.versions(), queues=["cpu"])
            )
    while True:
        with write_session(engine) as session:
            claim = claims.claim(session, "worker", queues=["cpu"], lease_seconds=600)
        if claim is None:
            break
        result = scorer.score(engine, claim, lambda: False)
        with write_session(engine) as session:
            assert claims.finish(session, claim, _as_copied(session, result, next(versions), copies or {}))
    if sealed:
        with write_session(engine) as session:
            assert seal(session, evaluation_id)


def _as_copied(session, result: ShardResult, package: str, copies: dict[str, int]) -> ShardResult:  # type: ignore[no-untyped-def]
    rows = []
    for row in result.rows:
        source = copies.get(str(row["prompt_digest"]))
        pointer = {}
        if source is not None:
            pointer = {
                "reused_from_evaluation_id": source,
                "reused_from_variant": 0,
                "reused_from_seal": session.get_one(Evaluation, source).seal,
            }
        rows.append(row | pointer)
    texts = [
        {
            **{key: row[key] for key in ("evaluation_id", "question_id", "variant")},
            "text": f"I say {row['chosen_position']}.",
            "extracted": str(row["chosen_position"]),
            "tokens": 4,
            "finished": True,
        }
        for row in rows
    ]
    return replace(
        result,
        rows=rows,
        generations=texts,
        fingerprint=result.fingerprint | {"packages": {"fake": package}},
        matching_s=0.0005,
    )


def submit_and_score(engine: Engine, variants: str, **how) -> int:  # type: ignore[no-untyped-def]
    """Score and seal an evaluation of the model `fake` on the benchmark `bench`, with one example; return its id."""
    if "package" in how:
        how["packages"] = (how.pop("package"),)
    request = {key: how.pop(key) for key in ("new_replicate", "model") if key in how}
    with write_session(engine) as session:
        evaluation, new = submit(
            session,
            EvaluationRequest(
                **{"model": "fake"} | request,
                benchmark="bench",
                variants=variants,
                shots=1,
                shard_prompts=8,
                requester="somebody",
            ),
        )
        assert new
    score(engine, evaluation.id, **how)
    return evaluation.id


def add_benchmark_and_model(engine: Engine, folder: Path) -> None:
    with write_session(engine) as session:
        content = read_benchmark(write_lines(folder / "bench.jsonl", [*LINES, *POOL]))
        import_benchmark(session, content, name="bench", licence="MIT", source="https://example.org/bench")
        revision = add_model(session)
        revision.model.family = "family"


def populate(engine: Engine, folder: Path) -> Population:
    """Fill a database at head."""
    add_benchmark_and_model(engine, folder)
    source = submit_and_score(engine, "original")
    with write_session(engine) as session:
        digests = session.scalars(select(Prediction.prompt_digest).where(Prediction.evaluation_id == source))
        copies = {str(digest): source for digest in digests}
        suite = SuiteDefinition.model_validate(
            {"name": "suite", "variants": ["cyclic"], "shots": 1, "tasks": [{"benchmark": "bench"}]}
        )
        import_suite(session, suite)
        import_board(session, BoardDefinition(name="main", suite="suite", columns=("worst_accuracy@cyclic",)))
    evaluation = submit_and_score(engine, "cyclic", copies=copies)
    with write_session(engine) as session:
        cora_document(session, evaluation)
    refresh_boards(engine)
    return Population(source, evaluation)


def forget_failures(engine: Engine) -> None:
    """Make shards that failed available to workers at once."""
    with write_session(engine) as session:
        session.execute(update(Shard).values(not_before=None))

"""Benchmarks, models and evaluations that tests store through the public functions."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, inspect, select, text
from sqlalchemy.orm import Session

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import read_session, write_session
from registry.digests import sha256_text
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import ModelFiles, RevisionRequest, add_revision
from registry.tables import BenchmarkVersion, ModelRevision, Prediction, Question

ROOT = Path(__file__).resolve().parent.parent.parent
MMLU = ROOT / "registry" / "benchmarks" / "samples" / "mmlu.jsonl"
CSQA = ROOT / "registry" / "benchmarks" / "samples" / "csqa.jsonl"


def question(number: int, *, subject: str | None = "physics", options: int = 4, **changes: Any) -> dict[str, Any]:
    """Return a line of a benchmark file; the right option moves by one from question to question."""
    return {
        "id": f"q{number}",
        "subject": subject,
        "question": f"Which is number {number}?",
        "options": [f"option {number}.{option}" for option in range(options)],
        "answer": number % options,
    } | changes


def write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> Path:
    """Write the lines as a JSON Lines file, and return its path."""
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def add_benchmark(
    session: Session, folder: Path, lines: Sequence[dict[str, Any]], name: str = "bench"
) -> BenchmarkVersion:
    """Import the lines under `name`."""
    content = read_benchmark(write_lines(folder / f"{name}.jsonl", lines))
    return import_benchmark(session, content, name=name)[0]


def add_model(session: Session, name: str = "fake") -> ModelRevision:
    """Add a revision that can be scored at once; it has no files, since only the fake scorer loads it."""
    files = ModelFiles(sha256_text(f"weights of {name}"), sha256_text("tokenizer"), None, "0" * 40)
    return add_revision(session, name, RevisionRequest("huggingface", f"tests/{name}"), files=files)[0]


def queue_evaluation(
    engine: Engine,
    folder: Path,
    *,
    shards: int = 1,
    model: str = "fake",
    benchmark: str = "bench",
    variants: str = "cyclic",
    **request: Any,
) -> int:
    """Queue an evaluation with one question per shard, each with a different subject; return its id."""
    lines = [question(number, subject=f"subject {number}") for number in range(shards)]
    request.setdefault("shard_prompts", 1)
    with write_session(engine) as session:
        add_benchmark(session, folder, lines, benchmark)
        add_model(session, model)
        evaluation, _ = submit(
            session, EvaluationRequest(model=model, benchmark=benchmark, variants=variants, **request)
        )
        return evaluation.id


def queue_sampled(engine: Engine, folder: Path, *, model: str = "fake", questions: int = 160, **request: Any) -> int:
    """Queue an evaluation that samples questions, by default 60 of 160; return its id."""
    lines = [question(number, subject=f"subject {number % 3}") for number in range(questions)]
    fields = {"variants": "original", "sample": 60, "shard_prompts": 16} | request
    with write_session(engine) as session:
        add_benchmark(session, folder, lines, "sampled")
        add_model(session, model)
        return submit(session, EvaluationRequest(model=model, benchmark="sampled", **fields))[0].id


def predictions(engine: Engine, evaluation_id: int) -> dict[tuple[str, int], dict[str, Any]]:
    """Return every stored prediction by external question id and variant, without database ids."""
    columns = [column for column in Prediction.__table__.columns if column.name not in ("evaluation_id", "question_id")]
    query = (
        select(Question.external_id, *columns)
        .select_from(Prediction)
        .join(Question, Question.id == Prediction.question_id)
        .where(Prediction.evaluation_id == evaluation_id)
    )
    with read_session(engine) as session:
        rows = session.execute(query).mappings().all()
    return {(row["external_id"], row["variant"]): dict(row) for row in rows}


KEPT_BY_UPGRADES = frozenset({"alembic_version", "schema_catalogue", "schema_definition", "schema_stamp"})
"""Tables that describe the schema of a database."""


def table_counts(engine: Engine) -> dict[str, int]:
    """Return the number of rows of every table."""
    names = [name for name in inspect(engine).get_table_names() if name not in KEPT_BY_UPGRADES]
    with engine.execution_options(read_only=True).connect() as connection:
        return {name: connection.scalar(text(f"SELECT count(*) FROM {name}")) or 0 for name in names}

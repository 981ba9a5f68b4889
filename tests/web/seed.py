"""A small registry for the pages: made through the registry's own functions, so that its rows are real ones.

Benchmark `capitals`, eight questions of four options in two subjects, so two shards. Under `cyclic`:

    model    answers                                              accuracy  average  worst  fluctuation
    alpha    always right                                         1         1        1      0
    beta     right, but the last two questions always first       .75       .8125    .75    .25
    gamma    the same as beta                                     .75       .8125    .75    .25
    delta    always the first position                            .25       .25      0      1
    silent   no valid answer to the first question, else right    .875      .875     .875   .125
    slow     one of two shards scored, right                      not complete

The answers of the questions are options 0, 1, 2, 3, 0, 1, 2, 3; the last two are 2 and 3, wrong in the original order
and right in one of four rotations each.

`secret` is hidden and must never be shown; `hostile` tries to break out of its page.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import write_session
from registry.predictions.prompts import ShardPrompt
from registry.queue.claims import ShardResult, claim, finish
from registry.queue.evaluations import EvaluationRequest, submit
from registry.queue.shards import shard_prompts
from registry.sealed.seal import seal
from registry.tables import BenchmarkVersion, Model, ModelRevision, Question, Worker

HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>{{ 7*7 }}"
SECRET = "the hidden question"

WORKER = "00000000-0000-0000-0000-000000000001"

Answer = Callable[[ShardPrompt], int | None]
"""Returns the position that a model chooses; None for no valid answer."""


def right(prompt: ShardPrompt) -> int:
    """Choose the right option of every question."""
    return prompt.variant.order.index(prompt.question.answer)


def first(_prompt: ShardPrompt) -> int:
    """Choose the first position."""
    return 0


def mostly_right(prompt: ShardPrompt) -> int:
    """Choose the first position in the last two questions, and the right option in all others."""
    return first(prompt) if prompt.question.external_id in ("q7", "q8") else right(prompt)


def silent(prompt: ShardPrompt) -> int | None:
    """Give no valid answer to the first question, and the right option for all others."""
    return None if prompt.question.external_id == "q1" else right(prompt)


@dataclass
class Seeded:
    """Evaluation ids by model, and question ids by external id."""

    evaluations: dict[str, int] = field(default_factory=dict)
    questions: dict[str, int] = field(default_factory=dict)
    secret_evaluation: int = 0
    secret_question: int = 0


def seed(engine: Engine, folder: Path) -> Seeded:
    """Fill an empty database."""
    seeded = Seeded()
    with write_session(engine) as session:
        session.add(Worker(id=WORKER, host="bench", pid=1, device="cpu", versions={}))
        for name in ("alpha", "beta", "gamma", "delta", "silent", "slow"):
            add_model(session, name)
        version = add_benchmark(session, folder, "capitals", CAPITALS)
        seeded.questions |= question_ids(session, version)
        add_benchmark(session, folder, "hostile", HOSTILE_QUESTIONS)
        secret = add_benchmark(session, folder, "secret", SECRET_QUESTIONS)
        session.execute(update(BenchmarkVersion).where(BenchmarkVersion.id == secret.id).values(visibility="hidden"))
        seeded.secret_question = question_ids(session, secret)["s1"]
    answers = {"alpha": right, "beta": mostly_right, "gamma": mostly_right, "delta": first, "silent": silent}
    for name, answer in answers.items():
        seeded.evaluations[name] = evaluate(engine, name, "capitals", answer)
    seeded.evaluations["slow"] = evaluate(engine, "slow", "capitals", right, shards=1)
    seeded.evaluations["hostile"] = evaluate(engine, "alpha", "hostile", first)
    seeded.secret_evaluation = evaluate(engine, "alpha", "secret", right)
    return seeded


def add_model(session: Session, name: str, **columns: object) -> ModelRevision:
    """Return a model with one revision, in the state after a worker hashed its files."""
    revision = ModelRevision(
        model=Model(name=name, family="toy", parameters=135_000_000, **columns),
        number=1,
        kind="huggingface",
        location=f"/somewhere/private/{name}",
        dtype="float32",
        weights_digest=f"{len(name):02x}" * 32,
        tokenizer_digest="cd" * 32,
        state="ready",
    )
    session.add(revision)
    session.flush()
    return revision


def add_benchmark(session: Session, folder: Path, name: str, lines: list[dict[str, object]]) -> BenchmarkVersion:
    """Import a benchmark from a file with these lines."""
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return import_benchmark(session, read_benchmark(path), name=name, version="1")[0]


def question_ids(session: Session, version: BenchmarkVersion) -> dict[str, int]:
    """Return external id → id."""
    query = select(Question.external_id, Question.id).filter_by(benchmark_version_id=version.id)
    return {row.external_id: row.id for row in session.execute(query)}


def evaluate(
    engine: Engine,
    model: str,
    benchmark: str,
    answer: Answer,
    *,
    variants: str = "cyclic",
    limit: int | None = None,
    subjects: tuple[str, ...] = (),
    shards: int | None = None,
) -> int:
    """Submit an evaluation, score it completely and seal it, or score only its first shards; return its id."""
    with write_session(engine) as session:
        request = EvaluationRequest(
            model=model, benchmark=benchmark, variants=variants, limit=limit, subjects=subjects, shard_prompts=16
        )
        evaluation_id = submit(session, request)[0].id
    done = 0
    while shards is None or done < shards:
        with write_session(engine) as session:
            claimed = claim(session, WORKER, queues=["cpu"], lease_seconds=60)
            if claimed is None:
                break
            assert claimed.evaluation_id == evaluation_id
            rows = [_row(prompt, answer(prompt)) for prompt in shard_prompts(session, claimed.shard_id)]
            fingerprint = {"engine": "toy", "packages": {"python": "3"}}
            assert finish(session, claimed, ShardResult(rows, fingerprint, 100, 40, 0.5))
        done += 1
    if shards is None:
        with write_session(engine) as session:
            assert seal(session, evaluation_id)
    else:  # otherwise the next evaluation would get this one's shards
        with write_session(engine) as session:
            park(session, evaluation_id)
    return evaluation_id


def park(session: Session, evaluation_id: int) -> None:
    """Delay the queued rest of an evaluation by a day."""
    from registry.db import database_now
    from registry.tables import Shard

    waiting = update(Shard).where(Shard.evaluation_id == evaluation_id, Shard.state == "queued")
    session.execute(waiting.values(not_before=database_now(86_400)))


def _row(prompt: ShardPrompt, position: int | None) -> dict[str, object]:
    chosen = 0 if position is None else position
    row = prompt.row([-0.2 if place == chosen else -3.0 - place / 8 for place in range(len(prompt.variant.order))])
    if position is None:
        row |= {"chosen_position": None, "chosen_option": None, "correct": False}
    return row


_CITIES = (
    ("France", ("Paris", "Lyon", "Nice", "Lille")),
    ("Italy", ("Milan", "Rome", "Turin", "Bari")),
    ("Spain", ("Seville", "Bilbao", "Madrid", "Vigo")),
    ("Poland", ("Gdansk", "Lodz", "Poznan", "Warsaw")),
    ("Peru", ("Lima", "Cusco", "Ica", "Puno")),
    ("Kenya", ("Mombasa", "Nairobi", "Kisumu", "Thika")),
    ("Japan", ("Osaka", "Kyoto", "Tokyo", "Kobe")),
    ("Canada", ("Toronto", "Montreal", "Calgary", "Ottawa")),
)
CAPITALS: list[dict[str, object]] = [
    {
        "id": f"q{number}",
        "subject": "europe" if number <= 4 else "world",
        "question": f"What is the capital of {country}?",
        "options": list(cities),
        "answer": (number - 1) % 4,
    }
    for number, (country, cities) in enumerate(_CITIES, start=1)
]
HOSTILE_QUESTIONS: list[dict[str, object]] = [
    {
        "id": HOSTILE,
        "subject": HOSTILE,
        "question": HOSTILE,
        "options": [HOSTILE, "b"],
        "answer": 0,
        "context": HOSTILE,
    }
]
SECRET_QUESTIONS: list[dict[str, object]] = [
    {"id": "s1", "subject": None, "question": SECRET, "options": ["yes", "no"], "answer": 0}
]

"""A registry with evaluations in every state, to be upgraded.

Six questions of MMLU in two subjects with a few-shot pool and, with made-up scores, four evaluations:
    complete     scored and sealed (cyclic); a board of it has a snapshot
    withdrawn    imported with texts, and withdrawn since (original)
    in progress  one shard done, one claimed by a worker that is gone, one queued (full)
    failing      one shard parked after three failures, one queued (original-inverse)
and an account with a token.
"""

import json
from pathlib import Path
from typing import Any, Final
from unittest import mock

from sqlalchemy import Engine, update

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.people.accounts import create_account, issue_token
from registry.queue import claims
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import RevisionRequest, add_revision
from registry.sealed.withdrawals import withdraw
from registry.settings import Settings
from registry.tables import Shard, Worker
from tests.support.fake_scorer import FakeScorer
from tests.support.population import MMLU, add_model, write_lines
from workers.loop import WorkerLoop

SUBJECTS: Final = ("human_aging", "sociology")
LONG: Final = 3600.0


def populate(engine: Engine, folder: Path) -> None:
    """Fill a database at the code's schema through the public functions."""
    lines = [json.loads(line) for line in MMLU.read_text(encoding="utf-8").splitlines()]
    chosen = [
        line
        for subject in SUBJECTS
        for line in [line for line in lines if (line["subject"], line["split"]) == (subject, "test")][:3]
    ]
    pool = [line for line in lines if line["subject"] in SUBJECTS and line["split"] == "fewshot"]
    content = read_benchmark(write_lines(folder / "mmlu.jsonl", chosen + pool))
    with write_session(engine) as session:
        import_benchmark(session, content, name="mmlu", version="six", licence="MIT", source="hendrycks/test")
        add_model(session, "fixture-model")
        session.add(Worker(id="fixture-worker", host="host", pid=1, device="fake", versions={"fake": "1"}))

    _submit(engine, "cyclic", shots=1)
    settings = Settings(home=folder, poll_seconds=0.05)
    loop = WorkerLoop(engine, settings, FakeScorer(), ["cpu"])
    with mock.patch("socket.gethostname", return_value="fixture-host"):  # not the real host's name
        loop.start()
    loop.run(until_idle=True)
    loop.stop()

    _import_and_withdraw(engine, folder, chosen)
    with write_session(engine) as session:
        issue_token(session, create_account(session, "ada", "reader"), "laptop", ["read"])
        suite = {"name": "fixture", "variants": ["cyclic"], "shots": 1, "tasks": [{"benchmark": "mmlu"}]}
        import_suite(session, SuiteDefinition.model_validate(suite))
        import_board(session, BoardDefinition(name="fixture", suite="fixture", columns=("worst_accuracy@cyclic",)))
    refresh_boards(engine)

    _submit(engine, "full")
    _finish(engine, _claim(engine))
    _claim(engine)

    failing = _submit(engine, "original-inverse", priority=1)
    for _ in range(claims.MAX_FAILURES):
        with write_session(engine) as session:
            session.execute(update(Shard).where(Shard.evaluation_id == failing).values(not_before=None))
        claim = _claim(engine)
        assert claim.evaluation_id == failing
        with write_session(engine) as session:
            claims.fail(session, claim, "MemoryError: a made-up failure")


def _import_and_withdraw(engine: Engine, folder: Path, asked: list[dict[str, Any]]) -> None:
    lines = [
        {"question_id": line["id"], "variant": 0, "order": [0, 1, 2, 3], "position": place % 4, "text": "I guess."}
        for place, line in enumerate(asked)
    ]
    with write_session(engine) as session:
        add_revision(session, "fixture-elsewhere", RevisionRequest("external"))
    path = write_lines(folder / "outputs.jsonl", lines)
    withdrawn = import_outputs(engine, ImportRequest(path, "fixture-elsewhere", "mmlu", "original", "first-letter"))
    with write_session(engine) as session:
        withdraw(session, withdrawn, "another model's answers")


def _submit(engine: Engine, variants: str, **request: int) -> int:
    with write_session(engine) as session:
        asked_for = EvaluationRequest(
            model="fixture-model", benchmark="mmlu", variants=variants, requester="fixture", **request
        )
        return submit(session, asked_for)[0].id


def _claim(engine: Engine) -> claims.Claim:
    with write_session(engine) as session:
        claim = claims.claim(session, "fixture-worker", queues=["cpu"], lease_seconds=LONG)
    assert claim is not None
    return claim


def _finish(engine: Engine, held: claims.Claim) -> None:
    result = FakeScorer().score(engine, held, lambda: False)
    with write_session(engine) as session:
        assert claims.finish(session, held, result)

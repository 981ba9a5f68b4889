"""A registry with a bit of everything that an upgrade must keep.

Benchmark `bench` in two versions, whose keys differ in one question, and the hidden benchmark `secret`; three models
scored on it, for the board `main`; a replay under the other key; imported answers with their texts; archived
evaluations; an account of each role with a password, a token and a saved query; submissions in three states; a budget;
a signed chain; and the evaluations of `tests/migration/populated.py`, two of them unfinished.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark, set_visibility
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.boards.submissions import ModelRequest, approve, reject, request_submission
from registry.db import write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.people.accounts import (
    OPERATOR,
    ROLES,
    create_account,
    find_account,
    issue_token,
    scopes_of,
    viewer_of_account,
)
from registry.providers.budgets import set_budget
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import ModelFiles, RevisionRequest, add_revision
from registry.sealed.archiving import archive
from registry.sealed.replaying import ReplayRequest, replay
from registry.sealed.signing import key_path, new_key, sign_if_possible
from registry.settings import Settings
from registry.tables.accounts import SavedQuery
from tests.migration.populated import populate
from tests.support.fake_scorer import FakeScorer
from tests.support.population import add_benchmark, add_model, question, write_lines
from workers.loop import WorkerLoop

MODELS: Final = 3
QUESTIONS: Final = [question(number, subject=f"subject {number % 2}") for number in range(8)]
OTHER_KEY: Final = [*QUESTIONS[:-1], QUESTIONS[-1] | {"answer": 1}]
FILES: Final = ModelFiles("a" * 64, "b" * 64, None, "0" * 40)
"""Digests of the submitted model's files, which do not exist."""
PASSWORD: Final = "correct horse battery staple"


def fill(engine: Engine, settings: Settings, folder: Path, models: int) -> dict[str, str]:
    """Fill a database at the code's schema; return the token of each role."""
    with write_session(engine) as session:
        tokens = {role: _add_account(session, role) for role in ROLES}
        for version, lines in (("1", QUESTIONS), ("2", OTHER_KEY)):
            content = read_benchmark(write_lines(folder / "bench.jsonl", lines))
            import_benchmark(session, content, name="bench", version=version)
        add_benchmark(session, folder, QUESTIONS[:4], "secret")
        set_visibility(session, "secret", "hidden")
        tasks = [{"benchmarks": ("bench@1",)}]
        definition = SuiteDefinition(name="core", title="Core", variants=("cyclic", "original"), tasks=tasks)
        import_suite(session, definition)
        columns = ("accuracy@cyclic", "worst_accuracy@cyclic")
        import_board(session, BoardDefinition(name="main", suite="core", columns=columns))
        for number in range(models):
            add_model(session, f"model-{number}")
            for benchmark, variants in (("bench@1", "cyclic"), ("bench@1", "original"), ("secret", "original")):
                submit(session, EvaluationRequest(model=f"model-{number}", benchmark=benchmark, variants=variants))
    _submissions(engine, settings)
    work(engine, settings)
    _replay(engine, folder)
    set_up_chain(engine, settings)
    for evaluation_id in (1, 2):
        archive(engine, evaluation_id)
    populate(engine, folder)
    refresh_boards(engine)
    return tokens


def work(engine: Engine, settings: Settings) -> None:
    """Let a worker score everything that is queued."""
    loop = WorkerLoop(engine, settings, FakeScorer(), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.maintain()
    loop.stop()


def _add_account(session: Any, role: str) -> str:
    account = create_account(session, role, role, PASSWORD)
    query = {"slug": f"saved-{role}", "name": "The leaderboard", "sql": "SELECT * FROM leaderboard", "public": True}
    session.add(SavedQuery(account_id=account.id, **query))
    return issue_token(session, account, "a script", sorted(scopes_of(role)))[1]


def _submissions(engine: Engine, settings: Settings) -> None:
    """Submit three models: approve and score the first, reject the second, and let the third wait."""
    with write_session(engine) as session:
        viewer = viewer_of_account(find_account(session, "submitter"))
        submissions = [
            request_submission(session, session, viewer, ModelRequest(hub=f"a/{name}"), "core", "please", settings)[0]
            for name in ("good", "bad", "new")
        ]
        reject(session, OPERATOR, submissions[1].id, settings, "too large")
        approve(session, OPERATOR, submissions[0].id, settings, files=FILES)
        set_budget(session, "account", "submitter", 5.0)


def _replay(engine: Engine, folder: Path) -> None:
    """Import answers with their texts, and replay them with the other version's right options."""
    lines = [
        {"question_id": line["id"], "variant": 0, "order": [0, 1, 2, 3], "position": place % 4, "text": "I think so."}
        for place, line in enumerate(QUESTIONS)
    ]
    with write_session(engine) as session:
        add_revision(session, "elsewhere", RevisionRequest("external"))
    path = write_lines(folder / "elsewhere.jsonl", lines)
    source = import_outputs(engine, ImportRequest(path, "elsewhere", "bench@1", "original", "first-letter"))
    replay(engine, ReplayRequest(source, benchmark="bench@2"), _match)


def _match(_text: str, _options: Sequence[str]) -> int:
    raise AssertionError("the answers were read already")


def set_up_chain(engine: Engine, settings: Settings) -> None:
    """Create a key and sign the head of the chain with it."""
    new_key(key_path(settings))
    with write_session(engine) as session:
        assert sign_if_possible(session, settings) is not None

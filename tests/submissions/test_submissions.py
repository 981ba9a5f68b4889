"""Submissions in the registry: from submission through decision to progress."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, select

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.rules import Terms
from registry.boards.store import import_board, import_suite
from registry.boards.submissions import (
    MAX_OPEN,
    ModelRequest,
    advance,
    approve,
    check_model_request,
    find_submission,
    list_submissions,
    problem_of,
    reject,
    submission_estimate,
    withdraw,
)
from registry.db import read_session, write_session
from registry.errors import ForbiddenError, ModelError, NotFoundError, QueueError, UsageError
from registry.people.accounts import OPERATOR
from registry.queue.evaluations import EvaluationRequest, move, submit
from registry.queue.hints import hints_of
from registry.revisions.store import ModelFiles, RevisionRequest, add_revision
from registry.settings import Settings
from registry.tables import Evaluation, ModelRevision, Shard
from registry.tables.accounts import Submission, SubmissionEvaluation
from tests.submissions.conftest import FILES, HUB, actions, ask, viewer, work

pytestmark = pytest.mark.long_on("postgresql")


def evaluations_of(engine: Engine, submission_id: int) -> list[Evaluation]:
    with read_session(engine) as session:
        query = select(Evaluation).join(SubmissionEvaluation).filter_by(submission_id=submission_id)
        return list(session.scalars(query.order_by(Evaluation.id)))


def state_of(engine: Engine, submission_id: int) -> Submission:
    with read_session(engine) as session:
        return session.get_one(Submission, submission_id)


REFUSED = [
    ({"hub": "/etc/passwd"}, "is not a model name on the hub"),
    ({"hub": "../models/x"}, "is not a model name on the hub"),
    ({"hub": "./model"}, "is not a model name on the hub"),
    ({"hub": "~/model"}, "is not a model name on the hub"),
    ({"hub": "owner/../name"}, "is not a model name on the hub"),
    ({"hub": "owner/na..me"}, "is not a model name on the hub"),
    ({"hub": "a/b/c"}, "is not a model name on the hub"),
    ({"hub": "model.gguf"}, "is not a model name on the hub"),
    ({"hub": "https://hub.example.org/a/b"}, "is not a model name on the hub"),
    ({"hub": "file:///a/b"}, "is not a model name on the hub"),
    ({"hub": "owner/name\n"}, "is not a model name on the hub"),
    ({"hub": "owner\\name"}, "is not a model name on the hub"),
    ({"hub": "owner/ｎame"}, "is not a model name on the hub"),
    ({"hub": "registry/schema"}, "is not a model name on the hub"),
    ({"hub": "owner/name", "revision": "../main"}, "revision '../main'"),
    ({"hub": "owner/name", "revision": "a..b"}, "revision 'a..b'"),
    ({"hub": "owner/name", "revision": "--flag"}, "revision '--flag'"),
    ({"hub": "owner/name", "dtype": "int4"}, "dtype 'int4'"),
    ({"hub": "owner/name", "name": "a/b"}, "model name 'a/b'"),
    ({"hub": "owner/name", "endpoint": "local"}, "give either"),
    ({}, "give either"),
    ({"endpoint": "http://127.0.0.1:9/v1", "revision": "m"}, "not a URL"),
    ({"endpoint": "http://169.254.169.254/latest", "revision": "m"}, "not a URL"),
    ({"endpoint": "other", "revision": "m"}, "give the name of an allowed one (local)"),
    ({"endpoint": "local"}, "give its name there"),
    ({"endpoint": "local", "revision": "../m"}, "give its name there"),
    ({"endpoint": "local", "revision": "m", "dtype": "float32"}, "leave out dtype"),
]


RULES = [
    ({"accounts": ["admin"]}, {}, ForbiddenError, "rule accounts: submitter may not submit; ask a maintainer"),
    ({"sources": ["endpoint"]}, {}, UsageError, "rule sources: the model is on the hub; submit one on an endpoint"),
    ({"dtypes": ["bfloat16"]}, {}, UsageError, "rule dtypes: float32 is not accepted; use bfloat16"),
    ({}, {"anonymous": True}, UsageError, "rule anonymous: submissions must carry their submitter's name"),
    ({"statement": True}, {"conflict_of_interest": " "}, UsageError, "rule statement: a conflict of interest must be"),
    ({"per_account": 1}, {}, QueueError, "rule per_account: 1 of 1 submissions are made"),
    ({"per_model": 1}, {}, QueueError, "rule per_model: 1 of 1 submissions of this model are made"),
    ({"per_day": 1}, {}, QueueError, "rule per_day: 1 of 1 submissions were made within 24 hours"),
]


@pytest.mark.one_engine
@pytest.mark.parametrize(("rules", "terms", "kind", "message"), RULES)
def test_a_boards_rules_refuse_a_submission_with_rule_and_remedy(
    engine: Engine,
    settings: Settings,
    rules: dict[str, Any],
    terms: dict[str, Any],
    kind: type[Exception],
    message: str,
) -> None:
    ask(engine, settings, dtype="bfloat16")  # before there are rules
    with write_session(engine) as session:
        board = BoardDefinition(name="ruled", suite="core", columns=("accuracy@cyclic",), submissions=rules)
        import_board(session, board)
    with pytest.raises(kind) as refused:
        ask(engine, settings, terms=Terms(**terms), name="renamed")
    assert str(refused.value).startswith(f"board ruled, {message}")


@pytest.mark.one_engine
def test_a_board_may_accept_only_its_own_version_of_the_suite(engine: Engine, settings: Settings) -> None:
    tasks = [{"benchmarks": ("bench",)}]
    with write_session(engine) as session:
        rules = {"same_suite": True, "anonymous": True}
        import_board(
            session, BoardDefinition(name="ruled", suite="core", columns=("accuracy@cyclic",), submissions=rules)
        )
        import_suite(session, SuiteDefinition(name="core", variants=("cyclic",), tasks=tasks))
    with pytest.raises(UsageError, match=r"rule same_suite: core@2 asks in another way; submit to core@1"):
        ask(engine, settings)
    number = ask(engine, settings, suite="core@1", terms=Terms(anonymous=True))
    assert state_of(engine, number).anonymous


@pytest.mark.parametrize(("requested", "message"), REFUSED)
def test_a_model_on_neither_hub_nor_allowed_endpoint_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, requested: dict[str, str], message: str
) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    with pytest.raises(UsageError) as refused:
        check_model_request(ModelRequest(**requested), settings)
    assert message in str(refused.value)


def test_a_submission_is_stored_with_its_defaults(settings: Settings) -> None:
    assert check_model_request(ModelRequest(hub=HUB, revision="main"), settings) == {
        "name": "small-model",
        "kind": "huggingface",
        "location": HUB,
        "revision": None,
        "dtype": "float32",
    }
    assert check_model_request(ModelRequest(endpoint="local", revision="org/chat:8b", name="chat"), settings) == {
        "name": "chat",
        "kind": "openai",
        "endpoint": "local",
        "revision": "org/chat:8b",
        "dtype": None,
    }


def test_from_the_submission_to_the_last_seal(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = ask(engine, settings)
    with write_session(engine) as session:
        approved = approve(session, viewer(engine, "maintainer"), number, settings, reason="welcome")
        # Nobody has hashed the files, so nothing can be queued yet.
        assert (approved.state, approved.finished_at) == ("approved", None)
        assert approved.model_revision_id is not None
        assert approved.estimate["prompts"] == 6 * 4 + 6
    assert evaluations_of(engine, number) == []
    work(engine, settings, monkeypatch)
    done = evaluations_of(engine, number)
    assert [(row.state, row.requester) for row in done] == [("complete", "submitter")] * 2
    assert state_of(engine, number).finished_at is not None
    assert actions(engine) == [
        ("submitter", "submission.request", str(number)),
        ("maintainer", "submission.approve", str(number)),
    ]


def test_a_known_model_is_reused_and_only_missing_evaluations_queued(engine: Engine, settings: Settings) -> None:
    with write_session(engine) as session:
        revision, _ = add_revision(session, "small-model", RevisionRequest("huggingface", HUB), files=FILES)
        existing, _ = submit(session, EvaluationRequest(model="small-model", benchmark="bench", variants="cyclic"))
        expected = (revision.id, existing.id)
    number = ask(engine, settings)
    with write_session(engine) as session:
        approved = approve(session, viewer(engine, "maintainer"), number, settings, queue="gpu", priority=7)
        assert approved.model_revision_id == expected[0]
    evaluations = evaluations_of(engine, number)
    assert expected[1] in {row.id for row in evaluations}
    (new,) = (row for row in evaluations if row.id != expected[1])
    assert (new.priority, new.requester) == (7, "submitter")
    with read_session(engine) as session:
        assert {queue for _, queue in hints_of(session, Shard.evaluation_id == new.id)} == {"gpu"}
        assert session.scalars(select(ModelRevision)).all() == [session.get_one(ModelRevision, expected[0])]


def test_two_submissions_may_share_their_evaluations(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = [ask(engine, settings), ask(engine, settings, "admin")]
    for number in numbers:
        with write_session(engine) as session:
            approve(session, OPERATOR, number, settings, files=FILES)
    assert [row.id for row in evaluations_of(engine, numbers[0])] == [
        row.id for row in evaluations_of(engine, numbers[1])
    ]
    work(engine, settings, monkeypatch)
    assert all(state_of(engine, number).finished_at for number in numbers)


def test_one_of_two_simultaneous_decisions_wins_and_the_other_names_it(engine: Engine, settings: Settings) -> None:
    number = ask(engine, settings)
    begin, outcomes = threading.Barrier(4), []

    def decide(name: str, *, yes: bool) -> None:
        begin.wait()
        try:
            with write_session(engine) as session:
                if yes:
                    approve(session, viewer(engine, name), number, settings, files=FILES)
                else:
                    reject(session, viewer(engine, name), number, settings, "no")
            outcomes.append(f"{name} {yes}")
        except QueueError as error:
            outcomes.append(str(error))

    tried = [("maintainer", True), ("admin", True), ("maintainer", False), ("admin", False)]
    threads = [threading.Thread(target=decide, args=(name,), kwargs={"yes": yes}) for name, yes in tried]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (won,) = (text for text in outcomes if text in {f"{name} {yes}" for name, yes in tried})
    name, _, yes = won.partition(" ")
    word = "approved" if yes == "True" else "rejected"
    assert len(outcomes) == 4
    for lost in set(outcomes) - {won}:
        assert lost.startswith(f"submission {number} was {word} by {name} at ")
    assert len(evaluations_of(engine, number)) == (2 if yes == "True" else 0)


def test_who_may_decide_and_who_may_see(lite: Engine, settings: Settings) -> None:
    number = ask(lite, settings)
    with write_session(lite) as session:
        for name in ("reader", "submitter"):
            with pytest.raises(ForbiddenError):
                approve(session, viewer(lite, name), number, settings)
            with pytest.raises(ForbiddenError):
                reject(session, viewer(lite, name), number, settings, "no")
        with pytest.raises(NotFoundError):
            find_submission(session, viewer(lite, "reader"), number)
        assert find_submission(session, viewer(lite, "maintainer"), number).id == number
        with pytest.raises(UsageError, match="someone else's"):
            withdraw(session, viewer(lite, "maintainer"), number)
    other = ask(lite, settings, "maintainer")
    with read_session(lite) as session:
        assert [row.id for row in list_submissions(session, viewer(lite, "submitter"), limit=9)[0]] == [number]
        assert {row.id for row in list_submissions(session, viewer(lite, "admin"), limit=9)[0]} == {number, other}


def test_a_submission_is_withdrawn_while_it_waits(lite: Engine, settings: Settings) -> None:
    number = ask(lite, settings)
    with write_session(lite) as session:
        withdraw(session, viewer(lite, "submitter"), number)
        withdraw(session, viewer(lite, "submitter"), number)
    with pytest.raises(QueueError, match="was withdrawn; it is no longer awaiting"), write_session(lite) as session:
        approve(session, viewer(lite, "maintainer"), number, settings)


def test_a_submission_waits_once_and_only_so_many_wait(lite: Engine, settings: Settings) -> None:
    first = ask(lite, settings)
    assert ask(lite, settings) == first
    for number in range(MAX_OPEN - 1):
        ask(lite, settings, revision=f"r{number}")
    with pytest.raises(QueueError, match="already awaiting a decision"):
        ask(lite, settings, revision="one-more")


def test_a_model_that_cannot_be_used_ends_its_submission(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = ask(engine, settings)
    with write_session(engine) as session:
        approve(session, OPERATOR, number, settings)
    work(engine, settings, monkeypatch, files=ModelError("/cache/small-model: holds no weights"))
    with read_session(engine) as session:
        row = session.get_one(Submission, number)
        assert row.finished_at is not None
        assert problem_of(session, row, whole=True) == "the model cannot be used: /cache/small-model: holds no weights"
        assert "/cache" not in str(problem_of(session, row, whole=False))


def test_a_suite_that_the_model_cannot_be_asked_ends_it_too(lite: Engine, settings: Settings) -> None:
    number = ask(lite, settings)
    with write_session(lite) as session:
        approved = approve(session, OPERATOR, number, settings)
        revision = session.get_one(ModelRevision, approved.model_revision_id)
        FILES.record(revision)
        approved.suite = "core@9"
    advance(lite)
    with read_session(lite) as session:
        row = session.get_one(Submission, number)
        assert row.finished_at is not None
        assert "the worker's log says why" in str(problem_of(session, row, whole=False))


def test_cancelled_evaluations_end_a_submission(lite: Engine, settings: Settings) -> None:
    number = ask(lite, settings)
    with write_session(lite) as session:
        approve(session, OPERATOR, number, settings, files=FILES)
    first, second = evaluations_of(lite, number)
    with write_session(lite) as session:
        move(session, first.id, "cancel")
    advance(lite)
    assert state_of(lite, number).finished_at is None
    with write_session(lite) as session:
        move(session, second.id, "cancel")
    advance(lite)
    advance(lite)
    assert state_of(lite, number).finished_at is not None


def test_the_estimate_counts_what_is_left_and_stores_nothing(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = ask(engine, settings)

    def estimate() -> dict[str, object]:
        with read_session(engine) as session:
            return submission_estimate(session, session.get_one(Submission, number), settings)

    cost = estimate()
    assert (cost["prompts"], cost["prompts_left"], cost["tokens_shared"], cost["problem"]) == (30, 30, None, None)
    with read_session(engine) as session:
        assert session.scalars(select(ModelRevision)).all() == []
    with write_session(engine) as session:
        # Another model ran the same evaluation: its cost is the estimate for this one.
        other = ModelFiles("ab" * 32, "cd" * 32, None, "1" * 40)
        add_revision(session, "other", RevisionRequest("huggingface", "somebody/other"), files=other)
        submit(session, EvaluationRequest(model="other", benchmark="bench", variants="cyclic"))
    work(engine, settings, monkeypatch)
    cyclic, original = estimate()["estimates"]  # type: ignore[misc]
    assert cyclic["tokens_shared"] > 0
    assert cyclic["seconds"] is None
    assert "has not been scored" in cyclic["reason"]
    assert (original["tokens_shared"], original["reason"]) == (
        None,
        "no model has been asked these questions in this way yet",
    )
    with write_session(engine) as session:
        add_revision(session, "small-model", RevisionRequest("huggingface", HUB), files=FILES)
        submit(session, EvaluationRequest(model="small-model", benchmark="bench", variants="cyclic"))
    work(engine, settings, monkeypatch)
    cyclic = estimate()["estimates"][0]  # type: ignore[index]
    assert (cyclic["prompts_left"], cyclic["seconds"]) == (0, 0.0)
    assert cyclic["evaluation"] is not None


def test_what_cannot_be_queued_is_said_before_and_not_approved(lite: Engine, settings: Settings) -> None:
    with write_session(lite) as session:
        import_suite(
            session, SuiteDefinition(name="absent", variants=("cyclic",), tasks=[{"benchmarks": ("nowhere",)}])
        )
    number = ask(lite, settings, suite="absent")
    with read_session(lite) as session:
        cost = submission_estimate(session, session.get_one(Submission, number), settings)
    assert "no benchmark 'nowhere'" in cost["problem"]
    with pytest.raises(QueueError, match="cannot be queued: no benchmark 'nowhere'"), write_session(lite) as session:
        approve(session, OPERATOR, number, settings)
    assert state_of(lite, number).state == "requested"


def test_an_endpoint_is_registered_under_its_address(lite: Engine, endpoints: Settings) -> None:
    number = ask(lite, endpoints, hub=None, endpoint="local", revision="chat")
    with write_session(lite) as session:
        approved = approve(session, OPERATOR, number, endpoints)
        revision = session.get_one(ModelRevision, approved.model_revision_id)
        assert (revision.kind, revision.location, revision.requested_revision) == (
            "openai",
            "http://127.0.0.1:9/v1",
            "chat",
        )


@pytest.mark.one_engine
def test_a_suite_for_any_benchmarks_needs_a_board_that_names_them(
    engine: Engine, settings: Settings, browser: Callable[[str], FlaskClient]
) -> None:
    suite = SuiteDefinition.model_validate({"name": "any", "variants": ["cyclic"], "tasks": [{"benchmark": "*"}]})
    with write_session(engine) as session:
        import_suite(session, suite)
    with pytest.raises(UsageError, match="suite any is for any benchmarks, and no board names them"):
        ask(engine, settings, suite="any")
    page = browser("submitter")
    assert 'value="any"' not in page.get("/submit").text
    with write_session(engine) as session:
        board = BoardDefinition(name="all", suite="any", benchmarks=("bench",), columns=("accuracy@cyclic",))
        import_board(session, board)
    assert 'value="any"' in page.get("/submit").text
    assert ask(engine, settings, suite="any") > 0

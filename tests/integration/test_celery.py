"""Celery workers with a real Redis and PostgreSQL: messages and workers may be lost, but no results."""

import base64
import copy
import json
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from redis import Redis
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from registry.db import get_engine, read_session, write_session
from registry.lookups import find_evaluation
from registry.queue.claims import claim, hand_back
from registry.queue.evaluations import EvaluationRequest, move, submit
from registry.queue.hints import SCORE_TASK, hints_of, missing_hints, send_hints
from registry.sealed.verification import verify_evaluation
from registry.settings import Settings
from registry.tables import Shard, Worker
from tests.support.commands import PATIENCE_S, celery_process, eventually, fake_worker, shuffleboard_json, terminate
from tests.support.marks import long_but
from tests.support.population import predictions, queue_evaluation
from tests.support.services import RedisServer, free_port

SHARDS = 6


@pytest.fixture
def engine(postgresql_database: str) -> Engine:
    return get_engine(postgresql_database)


@pytest.fixture
def settings(postgresql_database: str, redis_url: str) -> dict[str, Any]:
    """Return the settings of a deployment that notices lost messages within a second."""
    return {
        "database_url": postgresql_database,
        "broker_url": redis_url,
        "reconcile_seconds": 0.5,
    }


@pytest.fixture
def broker(redis_url: str) -> Iterator[Redis]:
    with closing(Redis.from_url(redis_url)) as client:
        yield client


def shard_rows(engine: Engine, *columns: str) -> list[tuple[Any, ...]]:
    with read_session(engine) as session:
        return [
            tuple(row)
            for row in session.execute(select(*(getattr(Shard, name) for name in columns)).order_by(Shard.id))
        ]


def complete(engine: Engine, evaluation_id: int) -> bool:
    with read_session(engine) as session:
        return find_evaluation(session, evaluation_id).state == "complete"


def is_claimed(engine: Engine) -> bool:
    return ("leased",) in shard_rows(engine, "state")


def assert_whole(engine: Engine, evaluation_id: int) -> None:
    """Check that every prompt is stored once and the evaluation is unchanged since it was sealed."""
    assert len(predictions(engine, evaluation_id)) == SHARDS * 4
    with read_session(engine) as session:
        assert verify_evaluation(session, evaluation_id)["problems"] == []


def hints_for(engine: Engine, settings: dict[str, Any]) -> int:
    """Send a message for each shard, as if it were queued; return the number of messages."""
    return send_hints(Settings(**settings), [(shard_id, "cpu") for (shard_id,) in shard_rows(engine, "id")])


def submit_by_command(engine: Engine, tmp_path: Path, settings: dict[str, Any], variants: str = "cyclic") -> int:
    """Queue work and send messages about it, as `submit` does."""
    evaluation_id = queue_evaluation(engine, tmp_path, shards=SHARDS, variants=variants)
    with write_session(engine) as session:
        hints = hints_of(session, Shard.evaluation_id == evaluation_id)
    assert send_hints(Settings(**settings), hints) == SHARDS
    return evaluation_id


def test_workers_share_the_messages_of_redis(engine: Engine, tmp_path: Path, settings: dict[str, Any]) -> None:
    gate = tmp_path / "gate"
    with fake_worker("--gate", gate, **settings) as first, fake_worker("--gate", gate, **settings) as second:
        evaluation_id = submit_by_command(engine, tmp_path, settings)
        eventually(lambda: shard_rows(engine, "state").count(("leased",)) == 2, "both begin")
        gate.touch()
        eventually(lambda: complete(engine, evaluation_id), "the evaluation is sealed")
        assert [terminate(first), terminate(second)] == [0, 0]
    assert_whole(engine, evaluation_id)
    assert set(shard_rows(engine, "state", "fence", "failures", "crashes")) == {("done", 1, 0, 0)}
    assert len(set(shard_rows(engine, "worker_id"))) == 2


def test_work_that_was_never_hinted_at_is_found(engine: Engine, tmp_path: Path, settings: dict[str, Any]) -> None:
    with fake_worker(**settings):
        evaluation_id = queue_evaluation(engine, tmp_path, shards=SHARDS)
        eventually(lambda: complete(engine, evaluation_id), "the evaluation is sealed")
    assert_whole(engine, evaluation_id)


def test_doubled_messages_do_no_harm(engine: Engine, tmp_path: Path, settings: dict[str, Any]) -> None:
    evaluation_id = submit_by_command(engine, tmp_path, settings)
    with write_session(engine) as session:
        send_hints(Settings(**settings), hints_of(session, Shard.evaluation_id == evaluation_id))
    with fake_worker(**settings):
        eventually(lambda: complete(engine, evaluation_id), "the evaluation is sealed")
    assert_whole(engine, evaluation_id)
    assert set(shard_rows(engine, "fence")) == {(1,)}


def test_a_killed_worker_s_shard_is_scored_by_another(engine: Engine, tmp_path: Path, settings: dict[str, Any]) -> None:
    settings["lease_seconds"] = 3.0
    evaluation_id = submit_by_command(engine, tmp_path, settings)
    with fake_worker("--seconds-per-prompt", 30, **settings) as worker:
        eventually(lambda: is_claimed(engine), "a worker begins")
        worker.signal(signal.SIGKILL)
    with fake_worker(**settings):
        eventually(lambda: complete(engine, evaluation_id), "the evaluation is sealed")
    assert_whole(engine, evaluation_id)
    assert sum(crashes for (crashes,) in shard_rows(engine, "crashes")) == 1


def test_a_worker_told_to_stop_hands_its_shard_back_within_seconds(
    engine: Engine, tmp_path: Path, settings: dict[str, Any]
) -> None:
    submit_by_command(engine, tmp_path, settings, variants="full")  # 24 s of work in each shard
    with fake_worker("--seconds-per-prompt", 1, **settings) as worker:
        eventually(lambda: is_claimed(engine), "a worker begins")
        assert terminate(worker) == 0
    assert set(shard_rows(engine, "state", "failures", "crashes")) == {("queued", 0, 0)}


def test_workers_live_through_a_restart_of_redis(
    engine: Engine, tmp_path: Path, settings: dict[str, Any], private_redis_server: RedisServer
) -> None:
    settings["broker_url"] = private_redis_server.url
    gate = tmp_path / "gate"
    with fake_worker("--gate", gate, **settings) as worker:
        evaluation_id = submit_by_command(engine, tmp_path, settings)
        eventually(lambda: is_claimed(engine), "a worker begins")
        private_redis_server.kill()
        private_redis_server.start()
        gate.touch()
        eventually(lambda: complete(engine, evaluation_id), "the evaluation is sealed")
        assert terminate(worker) == 0
    assert_whole(engine, evaluation_id)


OUTAGES = {
    "read only": ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    "full": ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    "another password": ("CONFIG SET requirepass another", "CONFIG SET requirepass %"),
    "no rights": ("ACL SETUSER default -@write", "ACL SETUSER default +@all"),
    "too many clients": ("CONFIG SET maxclients 1", "CONFIG SET maxclients 100"),
    "too few replicas": ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
    "silent": ("CLIENT PAUSE 6000 ALL", "CLIENT UNPAUSE"),
    "clients killed": ("CLIENT KILL TYPE pubsub", "PING"),
}
"""Commands after which Redis answers but accepts no messages, each with the command that reverses it."""


@pytest.mark.parametrize("outage", long_but(("read only", "full"), OUTAGES))
def test_workers_live_through_a_redis_that_refuses_messages(
    engine: Engine, tmp_path: Path, settings: dict[str, Any], private_redis_server: RedisServer, outage: str
) -> None:
    settings["broker_url"] = private_redis_server.url
    begin, end = (command.replace("%", "").split(" ") for command in OUTAGES[outage])
    with Redis.from_url(private_redis_server.url) as client, fake_worker(**settings) as worker:
        client.ping()
        client.execute_command(*begin)
        if outage != "silent":
            client.execute_command("CLIENT", "KILL", "TYPE", "normal")
        evaluation_id = queue_evaluation(engine, tmp_path, shards=SHARDS)
        eventually(lambda: complete(engine, evaluation_id), "the evaluation is sealed without messages")
        client.execute_command(*end)
        assert hints_for(engine, settings) == SHARDS
        eventually(lambda: client.llen("cpu") == 0, "the worker reads messages again")
        assert worker.status is None
        assert terminate(worker) == 0
    assert_whole(engine, evaluation_id)


# Celery's own commands


def test_celery_runs_a_worker_and_shows_what_it_scores(
    engine: Engine, tmp_path: Path, settings: dict[str, Any], broker: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, port = tmp_path / "gate", free_port()
    monkeypatch.setenv("GATE", str(gate))
    monkeypatch.setenv("FLOWER_UNAUTHENTICATED_API", "true")
    flower = f"http://127.0.0.1:{port}"
    settings["reconcile_seconds"] = 3600  # so that each shard is scored for a message
    with (
        celery_process("flower", f"--port={port}", **settings),
        celery_process("events", "--dump", **settings) as events,
        celery_process("worker", "-Q", "cpu", "-n", "scorer@here", **settings) as worker,
    ):
        eventually(lambda: listens(port), "flower answers")
        eventually(lambda: "scorer@here" in events.said.read_text(), "the worker is there")
        evaluation_id = submit_by_command(engine, tmp_path, settings)
        eventually(lambda: is_claimed(engine), "it begins")
        ((shard_id, worker_id),) = shard_rows(engine, "id", "worker_id")[:1]
        named = {"evaluation": evaluation_id, "model": "fake", "worker": worker_id}

        def show(state: str) -> list[tuple[str, str, str]]:
            tasks = httpx2.get(f"{flower}/api/tasks", params={"state": state}).json().values()
            return sorted((task["args"], task["kwargs"], task["worker"]) for task in tasks)

        eventually(
            lambda: show("STARTED") == [(f"({shard_id},)", repr(named), "scorer@here")], "flower shows the shard"
        )
        with celery_process("inspect", "active", "--json", **settings) as inspect:
            assert inspect.wait(PATIENCE_S) == 0
            (active,) = json.loads(inspect.said.read_text())["scorer@here"]
        assert (active["name"], active["args"], active["kwargs"]) == (SCORE_TASK, [shard_id], named)
        gate.touch()
        eventually(lambda: complete(engine, evaluation_id), "the evaluation is sealed")
        eventually(lambda: len(show("SUCCESS")) >= SHARDS, "flower has seen the end")
        expected = [(f"({shard},)", repr(named), "scorer@here") for (shard,) in shard_rows(engine, "id")]
        assert [task for task in show("SUCCESS") if task[1] != "{}"] == expected
        assert f"kwargs={named}" in events.said.read_text()
        assert terminate(worker) == 0
    assert_whole(engine, evaluation_id)


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_task_called_by_hand_goes_to_its_own_queue(
    engine: Engine, tmp_path: Path, settings: dict[str, Any], broker: Redis
) -> None:
    queue_evaluation(engine, tmp_path, shards=SHARDS)
    for task, *arguments in (("score", "--args=[1]"), ("maintain",)):
        with celery_process("call", f"shuffleboard.{task}", *arguments, **settings) as call:
            assert call.wait(PATIENCE_S) == 0
    assert (broker.llen("cpu"), broker.llen("maintenance")) == (1, 1)


@pytest.mark.parametrize(
    ("options", "changed", "problem"),
    [
        (("-Q", "gpu,cpu"), {"broker_url": ""}, "set SHUFFLEBOARD_BROKER_URL=redis://host:6379/0"),
        (("-Q", "cpu", "-P", "solo"), {}, "leave out --pool and --concurrency"),
        (("-Q", "cpu", "-c", "4"), {}, "leave out --pool and --concurrency"),
        (("-Q", "cpu", "--engine", "fast"), {}, "'fast' is not one of"),
        (("-Q", "cpu"), {"lease_seconds": -1}, "SHUFFLEBOARD_LEASE_SECONDS='-1'"),
    ],
)
def test_a_worker_that_celery_cannot_start_says_why(
    settings: dict[str, Any], options: tuple[str, ...], changed: dict[str, Any], problem: str
) -> None:
    with celery_process("worker", *options, **settings | changed) as worker:
        assert worker.wait(PATIENCE_S) in (1, 2)
        assert problem in " ".join(worker.log.read_text().split())
        assert "Traceback" not in worker.log.read_text()


# Submitting


def test_submitting_succeeds_at_once_while_redis_is_down(
    engine: Engine, tmp_path: Path, settings: dict[str, Any]
) -> None:
    queue_evaluation(engine, tmp_path, shards=SHARDS)
    settings["broker_url"] = f"redis://127.0.0.1:{free_port()}/0"
    request = ("--model", "fake", "--benchmark", "bench", "--variants", "original")
    document = shuffleboard_json("evaluations", "submit", *request, **settings)
    assert set(shard_rows(engine, "state")) == {("queued",)}
    with read_session(engine) as session:
        assert find_evaluation(session, document["evaluation"]).state == "queued"


def test_a_submission_sends_one_message_a_shard(
    engine: Engine, tmp_path: Path, settings: dict[str, Any], broker: Redis
) -> None:
    queue_evaluation(engine, tmp_path, shards=SHARDS)
    request = ("--model", "fake", "--benchmark", "bench", "--variants", "full")
    shuffleboard_json("evaluations", "submit", *request, **settings)
    # 24 orders a question: two questions fill a shard of 64 prompts, so six make three.
    assert broker.llen("cpu") == 3
    shuffleboard_json("evaluations", "submit", *request, **settings)  # the same again is nothing new
    assert broker.llen("cpu") == 3


@pytest.mark.parametrize(
    ("waiting", "queued", "missing"),
    [
        pytest.param(0, 3, 3, id="all are lost"),
        pytest.param(2, 3, 1, id="some are lost"),
        pytest.param(3, 3, 0, id="none is lost"),
        pytest.param(5, 3, 0, id="some are doubled"),
    ],
)
def test_as_many_hints_are_missing_as_the_broker_holds_too_few(
    settings: dict[str, Any], broker: Redis, waiting: int, queued: int, missing: int
) -> None:
    for _ in range(waiting):
        broker.rpush("cpu", "message")
    shards = [(number, "cpu") for number in range(queued)] + [(99, "gpu")]
    hints = missing_hints(Settings(**settings), shards)
    assert [queue for _, queue in hints].count("cpu") == missing
    assert (99, "gpu") in hints


def test_no_hint_is_missing_while_the_broker_is_down() -> None:
    settings = Settings(broker_url=f"redis://127.0.0.1:{free_port()}/0")
    assert missing_hints(settings, [(1, "cpu")]) == []
    assert send_hints(settings, [(1, "cpu")]) == 0


def count_queued_in(broker: Redis) -> int:
    return broker.llen("cpu")  # type: ignore[return-value]


@pytest.fixture
def in_this_process(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, broker: Redis) -> None:
    """Use the deployment's settings in this process, with an empty broker."""
    for name in ("database_url", "broker_url"):
        monkeypatch.setenv(f"SHUFFLEBOARD_{name.upper()}", settings[name])
    broker.flushdb()


def test_a_commit_hints_at_what_it_queued_and_a_rollback_at_nothing(
    engine: Engine, tmp_path: Path, in_this_process: None, broker: Redis
) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=SHARDS)
    assert count_queued_in(broker) == SHARDS
    request = EvaluationRequest(model="fake", benchmark="bench", variants="original")
    with Session(engine) as session:
        submit(session, request)
        session.rollback()
        session.commit()
    with write_session(engine) as session, session.begin_nested():
        move(session, evaluation_id, "pause")
    assert count_queued_in(broker) == SHARDS
    with write_session(engine) as session:
        move(session, evaluation_id, "resume")
        assert count_queued_in(broker) == SHARDS, "nothing is sent before the commit"
    assert count_queued_in(broker) == 2 * SHARDS


def test_a_shard_that_is_handed_back_is_hinted_at(
    engine: Engine, tmp_path: Path, in_this_process: None, broker: Redis
) -> None:
    queue_evaluation(engine, tmp_path, shards=SHARDS)
    with write_session(engine) as session:
        session.add(Worker(id="worker-1", host="here", pid=1, device="fake", versions={}))
        session.flush()
        taken = claim(session, "worker-1", queues=["cpu"], lease_seconds=60)
    assert taken is not None
    before = count_queued_in(broker)
    with write_session(engine) as session:
        assert hand_back(session, taken)
    assert count_queued_in(broker) == before + 1


@contextmanager
def silent_broker() -> Iterator[str]:
    """Yield the URL of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", free_port())) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_submitting_succeeds_while_redis_does_not_answer(
    engine: Engine, tmp_path: Path, settings: dict[str, Any]
) -> None:
    queue_evaluation(engine, tmp_path, shards=SHARDS)
    request = ("--model", "fake", "--benchmark", "bench", "--variants", "original")
    with silent_broker() as url:
        document = shuffleboard_json("evaluations", "submit", *request, **settings | {"broker_url": url})
    with read_session(engine) as session:
        assert find_evaluation(session, document["evaluation"]).state == "queued"


# Without Redis


def test_work_is_taken_up_when_redis_comes_back(
    engine: Engine, tmp_path: Path, settings: dict[str, Any], private_redis_server: RedisServer
) -> None:
    settings["broker_url"] = private_redis_server.url
    private_redis_server.stop()
    gate = tmp_path / "gate"
    with fake_worker("--gate", gate, **settings) as worker:
        evaluation_id = queue_evaluation(engine, tmp_path, shards=SHARDS)
        eventually(lambda: is_claimed(engine), "a worker begins without Redis")
        private_redis_server.start()
        gate.touch()
        eventually(lambda: complete(engine, evaluation_id), "the evaluation is sealed")
        assert terminate(worker) == 0
    assert_whole(engine, evaluation_id)


def test_a_worker_told_to_stop_before_celery_listens_stops(settings: dict[str, Any]) -> None:
    with fake_worker(**settings) as worker:  # it has only just reported its start
        assert terminate(worker) == 0


TASK: dict[str, Any] = {
    "body": base64.b64encode(
        b'[[1], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]'
    ).decode(),
    "content-encoding": "utf-8",
    "content-type": "application/json",
    "headers": {"id": "1", "task": SCORE_TASK, "lang": "py", "argsrepr": "(1,)", "kwargsrepr": "{}"},
    "properties": {
        "body_encoding": "base64",
        "delivery_info": {"exchange": "", "routing_key": "cpu"},
        "delivery_mode": 2,
        "delivery_tag": "1",
    },
}


def change(path: str, value: object) -> dict[str, Any]:
    """Return a Celery message with one changed part."""
    message = copy.deepcopy(TASK)
    *parts, last = path.split(".")
    part = message
    for name in parts:
        part = part[name]
    part[last] = value
    return message


UNREADABLE = (
    b"no JSON",
    b"\xff\xfe",
    b"",
    b"{",
    b"9" * 5000,
    b"[" * 100_000,
    *(json.dumps(message).encode() for message in ({}, [], 1, None, "text", {"properties": {}})),
    *(json.dumps({name: TASK[name] for name in TASK if name != left_out}).encode() for left_out in TASK),
    *(
        json.dumps(change(path, value)).encode()
        for path, value in (
            ("body", "%%%"),
            ("body", base64.b64encode(b"no JSON").decode()),
            ("body", base64.b64encode(b"[]").decode()),
            ("body", 7),
            ("content-type", "application/x-python-serialize"),
            ("content-encoding", "no-such-encoding"),
            ("headers", []),
            ("headers.task", "no.such.task"),
            ("headers.task", None),
            ("headers.id", None),
            ("headers.eta", "never"),
            ("headers.expires", "0001-01-01T00:00:00+14:00"),
            ("properties.delivery_tag", None),
            ("properties.delivery_info", "cpu"),
            ("properties.body_encoding", None),
        )
    ),
)


def test_unreadable_messages_are_dropped_and_logged_and_the_worker_continues(
    engine: Engine, tmp_path: Path, settings: dict[str, Any], broker: Redis
) -> None:
    with fake_worker(**settings | {"reconcile_seconds": 3600}) as worker:
        for message in UNREADABLE:
            broker.lpush("cpu", message)
        eventually(lambda: broker.llen("cpu") == 0, "all messages are taken")
        assert worker.status is None
        evaluation_id = queue_evaluation(engine, tmp_path, shards=SHARDS)
        send_hints(Settings(**settings), [(1, "cpu")] * SHARDS)  # it is not told about the work otherwise
        eventually(lambda: complete(engine, evaluation_id), "the evaluation is sealed")
        eventually(lambda: worker.log.read_text().count("message_unreadable") == len(UNREADABLE), "all are logged")
        assert terminate(worker) == 0


def test_a_worker_whose_celery_ends_by_itself_ends_with_status_1(settings: dict[str, Any]) -> None:
    with fake_worker("--celery-ends", **settings) as worker:
        eventually(lambda: worker.status is not None, "the worker ends")
        assert worker.status == 1
        assert "worker_ended" in worker.log.read_text()

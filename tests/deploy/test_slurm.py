"""The script docker/slurm/workers.sbatch, run as Slurm runs a task of an array."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from registry.db import get_engine, read_session
from registry.tables import Evaluation, Shard
from tests.deploy.slurm import Task, array, directives
from tests.deploy.test_kubernetes import command_of
from tests.support.commands import PATIENCE_S, ROOT, eventually
from tests.support.population import queue_evaluation

SCRIPT = ROOT / "docker" / "slurm" / "workers.sbatch"
FILE = {"SHUFFLEBOARD_DATABASE_URL_FILE": "/a/file"}
Put = Callable[[str], None]


@pytest.fixture
def put_shuffleboard(tmp_path: Path) -> Put:
    """Return a function that writes the program `shuffleboard` for the script; its arguments go to the file `asked`."""

    def place(body: str) -> None:
        (tmp_path / "bin").mkdir(exist_ok=True)
        program = tmp_path / "bin" / "shuffleboard"
        program.write_text(f'#!/bin/bash\necho "$@" >> {tmp_path / "asked"}\n{body}\n')
        program.chmod(0o755)

    return place


@contextmanager
def running(task: Task) -> Iterator[Task]:
    try:
        yield task
    finally:
        task.process.kill()
        task.process.wait()
        if task.process.stdout is not None:
            task.process.stdout.close()


def wait_for_end(task: Task) -> int:
    return task.process.wait(PATIENCE_S)


def test_sbatch_gets_an_array_with_a_warning_signal_and_requeueing() -> None:
    options = directives(SCRIPT)
    assert len(array(options)) == 4
    assert "requeue" in options
    # The warning goes to the script only, two minutes ahead, with another signal than scancel's.
    assert options["signal"] == "B:USR1@120"
    assert options["open-mode"] == "append"  # a task that starts again appends to its log
    assert {"%A", "%a"} <= {options["output"][at : at + 2] for at in range(len(options["output"]))}


@pytest.mark.long
def test_at_the_time_limit_the_shard_goes_back_and_the_task_resumes(
    tmp_path: Path, sqlite_database: str, put_shuffleboard: Put
) -> None:
    engine = get_engine(sqlite_database)
    evaluation_id = queue_evaluation(engine, tmp_path, shards=3)
    gate = tmp_path / "gate"
    put_shuffleboard(f"exec {sys.executable} -m tests.support.worker_process --until-idle --gate {gate}")
    settings = {"SHUFFLEBOARD_DATABASE_URL": sqlite_database, "SHUFFLEBOARD_POLL_SECONDS": "0.05"}
    settings |= {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "SHUFFLEBOARD_HOME": str(tmp_path)}

    def states() -> list[str]:
        with read_session(engine) as session:
            return list(session.scalars(select(Shard.state).order_by(Shard.id)))

    with running(Task(SCRIPT, tmp_path, 2, **settings)) as task:
        eventually(lambda: "leased" in states(), "a shard is scored")
        task.time_is_nearly_up()
        assert wait_for_end(task) == 0
    assert task.requeued() == ["requeue 4711_2"]
    with read_session(engine) as session:
        for shard in session.scalars(select(Shard)):
            assert (shard.state, shard.failures, shard.crashes) == ("queued", 0, 0)

    gate.touch()
    with running(Task(SCRIPT, tmp_path, 2, SLURM_RESTART_COUNT="1", **settings)) as task:
        assert wait_for_end(task) == 0
    assert task.requeued() == ["requeue 4711_2"]  # not requeued, since nothing is left to do
    assert set(states()) == {"done"}  # shards of a few prompts may have been joined
    with read_session(engine) as session:
        assert session.get_one(Evaluation, evaluation_id).seal is not None


@pytest.mark.parametrize(("restarts", "status", "requeued"), [("0", 0, ["requeue 4711_0"]), ("20", 75, [])])
def test_a_task_whose_database_was_upgraded_is_requeued_a_few_times(
    tmp_path: Path, put_shuffleboard: Put, restarts: str, status: int, requeued: list[str]
) -> None:
    put_shuffleboard("exit 75")
    with running(Task(SCRIPT, tmp_path, 0, SLURM_RESTART_COUNT=restarts, **FILE)) as task:
        assert wait_for_end(task) == status
    assert task.requeued() == requeued


WAITS = 'trap "echo handed back; exit 0" TERM; echo at work; while :; do sleep 0.05; done'


@pytest.mark.parametrize(("end", "requeued"), [("time_is_nearly_up", ["requeue 4711_0"]), ("cancel", [])])
def test_only_a_task_whose_time_is_up_queues_itself_again(
    tmp_path: Path, put_shuffleboard: Put, end: str, requeued: list[str]
) -> None:
    put_shuffleboard(WAITS)
    with running(Task(SCRIPT, tmp_path, 0, **FILE)) as task:
        assert task.process.stdout is not None
        assert task.process.stdout.readline() == "at work\n"
        getattr(task, end)()
        assert task.process.stdout.read() == "handed back\n"
        assert wait_for_end(task) == 0
    assert task.requeued() == requeued


def test_a_worker_that_fails_fails_its_task(tmp_path: Path, put_shuffleboard: Put) -> None:
    put_shuffleboard("exit 1")
    with running(Task(SCRIPT, tmp_path, 0, **FILE)) as task:
        assert (wait_for_end(task), task.requeued()) == (1, [])


def test_workers_take_what_the_task_was_given(tmp_path: Path, put_shuffleboard: Put) -> None:
    put_shuffleboard("echo threads $OMP_NUM_THREADS")
    for gpus, words, threads in ((0, [], "4"), (2, ["--queues", "gpu"], "")):
        with running(Task(SCRIPT, tmp_path, 1, words, gpus, **FILE)) as task:
            assert task.process.communicate()[0].split() == ["threads", *threads.split()]
    arguments = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert arguments == [
        "worker --until-idle --device cpu --threads 4",
        "worker --until-idle --device cuda:0 --device cuda:1 --queues gpu",
    ]
    for line in arguments:
        assert command_of(line.split()).params["until_idle"] is True


def test_a_task_that_knows_no_database_says_so(tmp_path: Path, put_shuffleboard: Put) -> None:
    put_shuffleboard("exit 0")
    with running(Task(SCRIPT, tmp_path, 0)) as task:
        output = task.process.communicate()[0]
    assert (task.process.returncode, output.startswith("neither SHUFFLEBOARD_DATABASE_URL_FILE nor")) == (2, True)
    assert not (tmp_path / "asked").exists()

"""Schedules: a model on an endpoint is asked again, once in a period, and an alarm says when it has moved."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select, update

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import database_now, get_engine, read_session, write_session
from registry.errors import UsageError
from registry.people.accounts import OPERATOR
from registry.prompting.prompts import Prompt
from registry.queue.evaluations import EvaluationRequest, submit
from registry.settings import Settings
from registry.studies import schedules
from registry.studies.schedules import LEVEL, MOVED, add_schedule, level_of, run_schedules, schedule_documents
from registry.tables import Evaluation, ModelRevision, Schedule, ScheduleRun
from registry.tables.accounts import Notice
from tests.conftest import FilledDatabases
from tests.fake_scorer import FakeScorer
from tests.population import add_model, write_lines
from workers.loop import WorkerLoop

QUESTIONS = 12


class Choosing(FakeScorer):
    """Chooses the option at one position, which is right where it is the first."""

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position

    def logprobs(self, prompt: Prompt) -> list[float]:
        return [-0.1 if place == self.position else -9.0 for place in range(len(prompt.continuations))]


def work(engine: Engine, folder: Path, position: int) -> None:
    loop = WorkerLoop(engine, Settings(home=folder, poll_seconds=0.05), Choosing(position), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.maintain()
    loop.stop()


def fill(engine: Engine, folder: Path) -> None:
    """A sealed evaluation of a model on an endpoint, which has every answer right."""
    lines = [
        {"id": str(number), "subject": None, "question": f"{number}?", "options": ["yes", "no"], "answer": 0}
        for number in range(QUESTIONS)
    ]
    with write_session(engine) as session:
        add_model(session, "served")
        import_benchmark(session, read_benchmark(write_lines(folder / "b.jsonl", lines)), name="bench", version="1")
        submit(session, EvaluationRequest(model="served", benchmark="bench", variants="original"))
    work(engine, folder, 0)
    with write_session(engine) as session:  # as if it had been asked there: the fake scorer asks nobody
        session.execute(update(ModelRevision).values(kind="openai", location="http://127.0.0.1:9/v1"))


@pytest.fixture
def engine(filled_databases: FilledDatabases, tmp_path: Path) -> Iterator[Engine]:
    """A database with that evaluation and a schedule on it."""
    with filled_databases.copy(fill, tmp_path) as (url, _):
        engine = get_engine(url)
        with write_session(engine) as session:
            add_schedule(session, OPERATOR, 1, every_days=7, questions=QUESTIONS)
        yield engine


def test_levels_of_all_runs_together_stay_below_the_schedules() -> None:
    assert LEVEL * 0.99 < sum(level_of(look) for look in range(1, 1000)) < LEVEL


def test_of_two_beats_at_once_one_queues_the_run_and_a_killed_one_leaves_it_to_the_next(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(schedules, "_submit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_schedules(engine)
    together = threading.Barrier(2)

    def beat() -> None:
        together.wait()
        run_schedules(engine)

    beats = [threading.Thread(target=beat) for _ in range(2)]
    for thread in beats:
        thread.start()
    for thread in beats:
        thread.join()
    run_schedules(engine)
    with read_session(engine) as session:
        assert [(run.period, run.evaluation_id) for run in session.scalars(select(ScheduleRun))] == [(0, 2)]
        assert session.scalar(select(func.count()).select_from(Evaluation)) == 2


def test_an_alarm_is_raised_once_when_the_model_has_moved_and_not_before(engine: Engine, tmp_path: Path) -> None:
    run_schedules(engine)
    work(engine, tmp_path, 0)
    with write_session(engine) as session:
        assert session.scalars(select(Notice).filter_by(kind=MOVED)).all() == []
        session.execute(update(Schedule).values(created_at=database_now(-8 * 86_400)))
    run_schedules(engine)
    work(engine, tmp_path, 1)
    run_schedules(engine)
    with read_session(engine) as session:
        (found,) = schedule_documents(session)
        told = session.scalars(select(Notice).filter_by(kind=MOVED)).all()
    now, before = found["runs"]
    assert (before["p_value"], before["moved"], before["level"]) == (1.0, False, level_of(1))
    assert (now["worse"], now["better"], now["flipped"], now["moved"]) == (QUESTIONS, 0, QUESTIONS, True)
    assert now["p_value"] == pytest.approx(2 / 2**QUESTIONS)
    assert [(notice.key, notice.document["compared_with"]) for notice in told] == [("1.1", 1)]


@pytest.mark.one_engine
def test_a_model_whose_files_are_fixed_has_no_schedule(engine: Engine) -> None:
    with write_session(engine) as session:
        session.execute(update(ModelRevision).values(kind="huggingface"))
        with pytest.raises(UsageError, match="it cannot move"):
            add_schedule(session, OPERATOR, 1, every_days=7, questions=1)

"""What somebody who waits for an evaluation is told: what is done, what differs, what is kept, and how to go on."""

import io
import re
from pathlib import Path

import pytest

from registry.db import read_session, write_session
from registry.queue import claims
from registry.queue.display import progress_display
from registry.queue.evaluations import EvaluationRequest, move, submit
from registry.queue.progress import DOING, _labels, progress_of, progress_of_several, say_doing
from registry.tables import Worker
from shuffleboard.cli import evaluations as module
from tests.commands import shuffleboard
from tests.outputs.conftest import Registry, four_options
from tests.population import add_model

pytestmark = pytest.mark.one_engine


@pytest.fixture
def queued(sqlite_database: str, tmp_path: Path) -> Registry:
    """A model with an evaluation of 8 questions under each of three protocols, numbered 1 to 3."""
    registry = Registry(sqlite_database, tmp_path)
    registry.benchmark("b", four_options(8))
    with write_session(registry.engine) as session:
        add_model(session, "m")
        for protocol in ("symbols", "hybrid", "cloze"):
            submit(session, EvaluationRequest("m", "b", "cyclic", protocol))
    return registry


def test_runs_that_differ_in_one_thing_are_told_apart_by_it(queued: Registry) -> None:
    with read_session(queued.engine) as session:
        states = list(progress_of_several(session, [1, 2, 3]).values())
        assert _labels(session, states) == {1: "1 symbols", 2: "2 hybrid", 3: "3 cloze"}
        assert _labels(session, states[:1]) == {1: "m on b"}


def test_a_bar_stays_a_bar_on_one_line_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with progress_display(lambda _: "prompts") as show:
        show(1, "1 Meta-Llama-3.1-70B-Instruct symbols", 1234, 16000, "running, 12.3 prompts/s, 3 h 12 min left")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue())
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", plain) if "Meta-Llama" in line]
    assert lines
    assert all(len(line) <= 80 for line in lines)
    assert "1,234 of 16,000 prompts" in lines[-1]
    assert lines[-1].count("━") + lines[-1].count("╸") >= 10


def test_what_was_cancelled_is_submitted_again_by_retry_and_says_so(queued: Registry) -> None:
    with write_session(queued.engine) as session:
        move(session, 1, "cancel")
    asked = ("evaluations", "submit", "--model", "m", "--benchmark", "b")
    said = shuffleboard(*asked, database_url=queued.url).stderr
    assert "is cancelled; shuffleboard evaluations retry 1 queues it again" in said


def test_an_evaluation_without_a_worker_is_not_said_to_run(queued: Registry) -> None:
    listed = shuffleboard("evaluations", "list", database_url=queued.url).stdout
    assert listed.count("waiting") == 3
    assert "waiting for a worker" in shuffleboard("evaluations", "show", "1", database_url=queued.url).stdout


def test_an_interruption_says_what_is_kept_and_how_to_go_on(queued: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "wait_for", interrupted)
    monkeypatch.setattr(module, "start_worker", lambda: None)
    asked = ("evaluations", "submit", "--model", "m", "--benchmark", "b", "--wait")
    said = shuffleboard(*asked, status=130, database_url=queued.url).stderr
    assert "Interrupted. 0 of 32 prompts are stored, and the rest stays queued." in said
    assert "To go on: shuffleboard worker --until-idle" in said


def test_a_refusal_that_is_final_is_one_message_after_one_try(queued: Registry) -> None:
    with write_session(queued.engine) as session:
        session.add(Worker(id="w", host="h", pid=1, device="cpu", queues=["cpu"], versions={}))
    error = "host: answers 401 (no such key); check the key"
    with write_session(queued.engine) as session:
        claim = claims.claim(session, "w", queues=["cpu"], lease_seconds=60)
        assert claim is not None
        assert claims.fail(session, claim, error, final=True, of_all=True)
    with read_session(queued.engine) as session:
        found = progress_of(session, claim.evaluation_id)
    assert (found.state, found.failures, found.error) == ("failed", 1, error)


def test_a_worker_says_what_it_does_before_it_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "doing"
    monkeypatch.setenv(DOING, str(told))
    say_doing("converting m.gguf, once: 3 of 270 tensors")
    assert told.read_text() == "converting m.gguf, once: 3 of 270 tensors"
    monkeypatch.setenv(DOING, str(tmp_path / "nowhere" / "doing"))
    say_doing("nobody waits any more")

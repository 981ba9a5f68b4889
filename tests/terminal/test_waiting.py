"""Messages for users who wait for an evaluation: progress, differences, stored results, and the next command."""

import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from registry.boards.definition import SuiteDefinition
from registry.boards.store import import_suite
from registry.db import read_session, write_session
from registry.queue import claims
from registry.queue.display import progress_display
from registry.queue.evaluations import EvaluationRequest, move, submit
from registry.queue.progress import DOING, _labels, progress_of, progress_of_several, say_doing
from registry.tables import Worker
from shuffleboard.cli import evaluations as module
from tests.outputs.conftest import Registry, four_options
from tests.support.commands import shuffleboard
from tests.support.population import add_model
from workers import artifacts

pytestmark = pytest.mark.one_engine


@pytest.fixture
def queued(sqlite_database: str, tmp_path: Path) -> Registry:
    """Return a model with an evaluation of 8 questions under each of three protocols, numbered 1 to 3."""
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


def bar_of(what: str, done: int, total: int, note: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the last line on a terminal of 80 columns, after checking that every line fits."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with progress_display(lambda _: "prompts") as show:
        show(1, what, done, total, note)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue())
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", plain) if what[:12] in line]
    assert lines
    assert all(len(line) <= 80 for line in lines)
    assert lines[-1].count("━") + lines[-1].count("╸") >= 10
    return lines[-1]


def test_a_bar_stays_a_bar_on_one_line_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    note = "running, 12.3 prompts/s, 3 h 12 min left"
    line = bar_of("1 Meta-Llama-3.1-70B-Instruct symbols", 1234, 16000, note, monkeypatch)
    assert "1,234 of 16,000 prompts" in line


def test_how_much_of_a_file_is_converted_is_shown_in_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress_file = tmp_path / "doing"
    monkeypatch.setenv(DOING, str(progress_file))
    monkeypatch.setitem(
        sys.modules, "transformers", SimpleNamespace(modeling_gguf_pytorch_utils=SimpleNamespace(tqdm=None))
    )
    with artifacts._converting("SmolLM2-135M-Instruct-Q4_K_M.gguf"):
        tensors = sys.modules["transformers"].modeling_gguf_pytorch_utils.tqdm(range(272))
        for _ in range(272):
            next(tensors)
        note = progress_file.read_text()
    assert note == "271 of 272 tensors converted, once (SmolLM2-135M-Instruct-Q4_K_M.gguf)"
    assert "271 of 272 tensors" in bar_of("SmolLM2-135M-Instruct on mmlu-sample", 0, 16000, note, monkeypatch)


def test_what_was_cancelled_is_submitted_again_by_retry_and_says_so(
    queued: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with write_session(queued.engine) as session:
        move(session, 1, "cancel")
    command = ("evaluations", "submit", "--model", "m", "--benchmark", "b")
    message = shuffleboard(*command, database_url=queued.url).stderr
    assert "is cancelled; shuffleboard evaluations retry 1 queues it again" in message
    # Nor is a worker started that would find nothing.
    monkeypatch.setattr(module, "start_worker", lambda: pytest.fail("a worker was started"))
    message = shuffleboard(*command, "--wait", status=1, database_url=queued.url).stderr
    said_once = "Error: evaluation 1 is cancelled; shuffleboard evaluations retry 1 queues it again"
    assert message.splitlines() == ["m on b: 0 of 32 prompts, cancelled", said_once]
    # Among several it is reported before the others are awaited.
    protocols, tasks = ["symbols", "hybrid", "cloze"], [{"benchmark": "b"}]
    suite = {"name": "three", "protocols": protocols, "variants": ["cyclic"], "tasks": tasks}
    with write_session(queued.engine) as session:
        import_suite(session, SuiteDefinition.model_validate(suite))
    monkeypatch.setattr(module, "wait_for", interrupt)
    monkeypatch.setattr(module, "start_worker", lambda: None)
    command = ("evaluations", "submit", "--model", "m", "--suite", "three", "--wait")
    first, *others, last = shuffleboard(*command, status=130, database_url=queued.url).stderr.splitlines()[:4]
    assert first == f"evaluation 1 already has this specification and is{said_once.partition(' is')[2]}"
    assert others == [f"evaluation {number} already has this specification" for number in (2, 3)]
    assert last == "no worker is running: starting one for this work"


def test_an_evaluation_without_a_worker_is_not_said_to_run(queued: Registry) -> None:
    listed = shuffleboard("evaluations", "list", database_url=queued.url).stdout
    assert listed.count("waiting") == 3
    assert "waiting for a worker" in shuffleboard("evaluations", "show", "1", database_url=queued.url).stdout
    assert shuffleboard("leaderboard", "--columns", "state", database_url=queued.url).stdout.count("waiting") == 3


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interruption_says_what_is_kept_and_how_to_go_on(queued: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "wait_for", interrupt)
    monkeypatch.setattr(module, "start_worker", lambda: None)
    command = ("evaluations", "submit", "--model", "m", "--benchmark", "b", "--wait")
    message = shuffleboard(*command, status=130, database_url=queued.url).stderr
    assert "Interrupted. 0 of 32 prompts are stored, and the rest stays queued." in message
    assert "To go on: shuffleboard worker --until-idle" in message


def test_a_refusal_that_is_final_is_one_message_after_one_try(queued: Registry) -> None:
    with write_session(queued.engine) as session:
        session.add(Worker(id="w", host="h", pid=1, device="cpu", queues=["cpu"], versions={}))
    error = "host: answers 401 (no such key); check the key"
    with write_session(queued.engine) as session:
        claim = claims.claim(session, "w", queues=["cpu"], lease_seconds=60)
        assert claim is not None
        assert claims.fail(session, claim, error, final=True, of_all=True)
    with read_session(queued.engine) as session:
        progress = progress_of(session, claim.evaluation_id)
    assert (progress.state, progress.failures, progress.error) == ("failed", 1, error)


def test_a_worker_is_starting_until_it_reports_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "true")  # in the place of a worker, which would report steps
    helper = module.start_worker()
    try:
        assert Path(helper.doing).read_text() == "the worker is starting"
    finally:
        helper.end()
    assert not Path(helper.doing).exists()


def test_a_worker_says_what_it_does_before_it_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress_file = tmp_path / "doing"
    monkeypatch.setenv(DOING, str(progress_file))
    say_doing("3 of 270 tensors converted, once (m.gguf)")
    assert progress_file.read_text() == "3 of 270 tensors converted, once (m.gguf)"
    monkeypatch.setenv(DOING, str(tmp_path / "nowhere" / "doing"))
    say_doing("nobody waits any more")

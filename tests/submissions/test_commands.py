"""The commands `shuffleboard submissions` and `benchmarks visibility`, and the page about them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, select

from registry.db import read_session
from registry.errors import QueueError, ShuffleboardError
from registry.settings import Settings
from registry.tables import BenchmarkVersion
from shuffleboard.cli import cli
from tests.submissions.conftest import FILES, actions, ask

Run = Callable[..., Any]


@pytest.fixture
def run(lite: Engine, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command in this process and returns its JSON document, or its text."""
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", lite.url.render_as_string(hide_password=False))

    def invoke(*words: object) -> Any:
        done = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
        if isinstance(done.exception, ShuffleboardError):
            raise done.exception
        assert done.exception is None, done.output
        return json.loads(done.stdout) if "--json" in words else done.stdout

    return invoke


def test_a_submission_is_shown_and_approved(
    run: Run, lite: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ask(lite, settings), ask(lite, settings, dtype="float16")
    listed = run("submissions", "list", "--state", "requested", "--json")["submissions"]
    assert {row["submission"] for row in listed} == {first, second}
    assert "somebody/small-model" in run("submissions", "list")
    shown = run("submissions", "show", first, "--json")
    assert (shown["estimate"]["prompts"], shown["requester"]) == (30, "submitter")
    assert "together" in run("submissions", "show", first)
    # Without a broker the files are hashed here.
    monkeypatch.setattr("shuffleboard.cli.submissions.inspect_here", lambda *_asked: FILES)
    approved = run("submissions", "approve", first, "--reason", "welcome", "--json")
    assert (approved["decided_by"], len(approved["evaluations"])) == ("command line", 2)
    with pytest.raises(QueueError, match="was approved by command line at"):
        run("submissions", "approve", first)
    assert "is rejected" in run("submissions", "reject", second, "--reason", "one is enough")
    assert actions(lite)[-2:] == [
        ("command line", "submission.approve", str(first)),
        ("command line", "submission.reject", str(second)),
    ]


def test_a_benchmark_is_hidden(run: Run, lite: Engine) -> None:
    assert run("benchmarks", "visibility", "bench", "hidden", "--json")["visibility"] == "hidden"
    with read_session(lite) as session:
        assert session.scalars(select(BenchmarkVersion.visibility)).all() == ["hidden"]
    assert "hidden" in run("benchmarks", "list")
    assert actions(lite)[-1] == ("command line", "benchmark.visibility", "bench")

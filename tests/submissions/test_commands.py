"""`shuffleboard submissions`, `webhooks` and `benchmarks visibility`, and what their page shows."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, select

from registry.db import read_session
from registry.errors import QueueError, RemoteError, ShuffleboardError, UsageError
from registry.notices.webhooks import signed_headers
from registry.settings import Settings
from registry.tables import BenchmarkVersion
from shuffleboard.cli import cli
from tests.docs.pages import DOCS, blocks
from tests.submissions.conftest import FILES, actions, ask

Run = Callable[..., Any]


@pytest.fixture
def run(lite: Engine, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in this process; its JSON document, or its text."""
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


def test_webhooks_are_kept(run: Run, lite: Engine) -> None:
    with pytest.raises(UsageError, match="not on the public internet"):
        run("webhooks", "add", "http://10.0.0.1/", "--account", "admin")
    made = run("webhooks", "add", "https://1.1.1.1/x", "--account", "admin", "--kind", "evaluation.failed", "--json")
    listed = run("webhooks", "list", "--json")
    assert [row["webhook"] for row in listed["webhooks"]] == [made["webhook"]]
    assert made["secret"] not in str(listed)
    assert "evaluation.failed" in run("webhooks", "list")
    run("webhooks", "remove", made["webhook"])
    assert run("webhooks", "list", "--json")["webhooks"] == []


def test_a_webhook_that_does_not_answer_ends_with_an_error(
    run: Run, lite: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_PRIVATE_WEBHOOKS", "127.0.0.1")
    made = run("webhooks", "add", "http://127.0.0.1:9/", "--account", "admin", "--json")
    with pytest.raises(RemoteError, match="ConnectError"):
        run("webhooks", "test", made["webhook"])
    assert "webhook.test" in run("webhooks", "list")


def test_a_benchmark_is_hidden(run: Run, lite: Engine) -> None:
    assert run("benchmarks", "visibility", "bench", "hidden", "--json")["visibility"] == "hidden"
    with read_session(lite) as session:
        assert session.scalars(select(BenchmarkVersion.visibility)).all() == ["hidden"]
    assert "hidden" in run("benchmarks", "list")
    assert actions(lite)[-1] == ("command line", "benchmark.visibility", "bench")


def test_the_documented_check_of_signatures_is_right() -> None:
    (block,) = blocks(DOCS / "submissions.md", "python")
    written: dict[str, Any] = {}
    exec(block.text, written)
    import time

    now, body = int(time.time()), '{"kind": "é"}'.encode()
    secret, other = "ab" * 32, "cd" * 32
    headers = signed_headers(secret, "3-1", now, body)
    assert written["is_genuine"](secret, headers, body)
    assert not written["is_genuine"](secret, headers, body + b" ")
    assert not written["is_genuine"](other, headers, body)
    assert not written["is_genuine"](secret, signed_headers(secret, "3-1", now - 301, body), body)
    assert not written["is_genuine"](secret, headers | {"webhook-timestamp": str(now + 1)}, body)
    assert not written["is_genuine"](secret, headers | {"webhook-id": "3-2"}, body)

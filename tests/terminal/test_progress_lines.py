"""Progress on a stderr that is not a terminal: a few lines of text."""

import pytest

from registry.queue.display import LINE_SECONDS, _Lines
from registry.queue.progress import import_progress


def test_a_task_says_when_it_begins_and_ends_and_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter([0.0, 1.0, LINE_SECONDS, LINE_SECONDS + 1])
    lines = _Lines(lambda _: "prompts", clock=lambda: next(now))
    for done in (0, 10, 20_000, 30_000):
        lines.show(1, "m on b", done, 30_000, "running" if done else "")
    assert capsys.readouterr().err.splitlines() == [
        "m on b: 0 of 30,000 prompts",
        "m on b: 20,000 of 30,000 prompts, running",
        "m on b: 30,000 of 30,000 prompts, running",
    ]


def test_an_import_says_what_sealing_does(capsys: pytest.CaptureFixture[str]) -> None:
    with import_progress() as report:
        report("checking", 20_000, None)
        report("sealing", 0, None)
        report("sealing", 1, 1)
    assert capsys.readouterr().err.splitlines() == [
        "checking: 20,000 lines",
        "metrics, intervals, seals",
        "metrics, intervals, seals: 1 of 1 evaluations",
    ]

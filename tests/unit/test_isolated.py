"""The limits of a process that reads a stranger's file, and its result."""

import os
import threading
import time
from contextlib import suppress

import pytest

from registry import isolated
from registry.errors import IngestError, OverLimitError, UnreachableError
from registry.isolated import Job, run


def job(name: str, **limits: float) -> Job:
    return Job(f"tests.support.isolated_jobs:{name}", **limits)  # type: ignore[arg-type]


def test_a_process_has_nothing_of_our_environment_but_what_the_order_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_OIDC_CLIENT_SECRET", "secret")
    report = run(Job("tests.support.isolated_jobs:echo", variables={"SHUFFLEBOARD_HOME": "/there"}), ["ä", 1, None])
    assert report["order"] == ["ä", 1, None]
    assert report["process"] != os.getpid()
    assert report["environment"]["SHUFFLEBOARD_HOME"] == "/there"
    allowed = {
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MALLOC_ARENA_MAX",
        "SHUFFLEBOARD_HOME",
        "LC_CTYPE",
        "ARROW_DEFAULT_MEMORY_POOL",
    }
    assert report["environment"].keys() <= allowed | set(isolated._PASSED_ON)


def test_errors_of_users_come_back_as_what_they_are() -> None:
    with pytest.raises(IngestError, match="a\\.jsonl: not this one; give another"):
        run(job("refuse"), "a.jsonl")
    with pytest.raises(UnreachableError, match="the database is away"):
        run(job("fail"), None)


def test_a_fault_of_ours_comes_back_with_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="raise KeyError"):
        run(job("fault"), "key")


def test_more_memory_than_allowed_is_refused() -> None:
    assert run(job("fill", memory_bytes=256 << 20), 100) == 100
    with pytest.raises(OverLimitError, match="memory"):
        run(job("fill", memory_bytes=256 << 20), 1000)


def test_work_that_does_not_end_is_ended_wherever_it_is() -> None:
    begun = time.monotonic()
    with pytest.raises(OverLimitError, match=r"longer than 0\.5 s"):
        run(job("match", seconds=0.5), "a" * 60 + "!")  # within one call of C, which no signal handler interrupts
    assert time.monotonic() - begun < 20


def test_a_process_that_is_gone_without_a_word_is_said_to_be() -> None:
    with pytest.raises(OverLimitError):
        run(job("end"), None)


def test_a_server_that_has_ended_is_replaced() -> None:
    run(job("echo"), 1)
    server = isolated._servers["tests.support.isolated_jobs"]
    server._process.kill()
    server._process.wait()
    assert run(job("echo"), 2)["order"] == 2


def test_orders_are_worked_on_at_once() -> None:
    def take_long() -> None:
        with suppress(OverLimitError):
            run(job("match", seconds=2), "a" * 60 + "!")

    slow = threading.Thread(target=take_long)
    slow.start()
    assert run(job("echo"), 3)["order"] == 3
    assert slow.is_alive()
    slow.join()

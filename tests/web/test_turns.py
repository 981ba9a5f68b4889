"""Work that takes seconds takes turns: one of each client at a time, the clients alike, on all processes of a host."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from registry.turns import BusyError, CancelledError, Line
from tests.commands import eventually

MOST = 4


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path / "line", "queries", at_once=1, of_a_client=MOST, of_all=100)


def ticket(name: str) -> str:
    return f"ticket-{name}"


def test_a_client_with_many_queries_keeps_nobody_else_waiting_for_more_than_one(line: Line) -> None:
    ended: list[str] = []
    first = threading.Event()

    def ask(client: str, name: str) -> None:
        with line.turn(client, ticket(name)):
            if name == "a1":
                first.wait(60)
            ended.append(name)

    with ThreadPoolExecutor(8) as pool:
        asked = []
        for client, name in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1")]:
            asked.append(pool.submit(ask, client, name))
            eventually(lambda name=name: line.standing(ticket(name)) is not None, "it is in line")
        place = line.standing(ticket("a3"))
        assert place is not None
        assert (place.ahead, place.running) == (4, False)
        running = line.standing(ticket("a1"))
        assert running is not None
        assert running.running
        first.set()
        for done in asked:
            done.result(60)
    assert ended[0] == "a1"
    assert set(ended[1:3]) == {"b1", "c1"} or ended[1:4] in (["b1", "c1", "a2"], ["b1", "a2", "c1"])
    assert ended.index("a3") > ended.index("b1")
    assert ended[-1] == "a3"
    assert line.standing(ticket("a1")) is None


def test_a_client_may_have_a_few_queries_waiting_and_no_more(line: Line) -> None:
    go = threading.Event()

    def ask(number: int) -> None:
        with line.turn("a", ticket(str(number))):
            go.wait(60)

    with ThreadPoolExecutor(8) as pool:
        for number in range(MOST):
            pool.submit(ask, number)
            eventually(lambda number=number: line.standing(ticket(str(number))) is not None, "it is in line")
        with (
            pytest.raises(BusyError, match="queries of yours are running or waiting"),
            line.turn("a", ticket("more")),
        ):
            pass
        go.set()


def test_a_query_that_waits_too_long_is_told_how_many_are_before_it(line: Line) -> None:
    with (
        line.turn("a", ticket("one")),
        pytest.raises(BusyError, match="1 queries are before yours"),
        line.turn("b", ticket("two"), wait_seconds=0.2),
    ):
        pass
    assert line.standing(ticket("two")) is None


def test_a_query_that_waits_or_runs_can_be_cancelled(line: Line) -> None:
    with line.turn("a", ticket("one")) as cancelled:
        assert not cancelled()
        with ThreadPoolExecutor(1) as pool:

            def wait() -> None:
                with line.turn("b", ticket("two")):
                    pass

            waiting = pool.submit(wait)
            eventually(lambda: line.standing(ticket("two")) is not None, "it is in line")
            line.cancel(ticket("two"))
            with pytest.raises(CancelledError, match="cancelled"):
                waiting.result(60)
        line.cancel(ticket("one"))
        assert cancelled()
    line.cancel(ticket("one"))  # which has ended
    with line.turn("a", ticket("one")) as cancelled:
        assert not cancelled()


def test_the_ticket_of_a_process_that_died_keeps_nobody_waiting(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "line"
    folder.mkdir(parents=True)
    (folder / f"{time.time_ns() - 10**9:020d}.{'0' * 16}.{ticket('dead')}").touch()
    with line.turn("a", ticket("one"), wait_seconds=5):
        pass
    assert list(folder.iterdir()) == []

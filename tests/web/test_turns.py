"""Work that takes seconds is done a little at a time, and no client has it alone."""

import threading
import time
from collections.abc import Callable

import pytest

from tests.commands import eventually
from web.serving.turns import BusyError, Turns


class Workers:
    """Threads of clients that each want a turn, and the order in which they had one."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.done: list[str] = []
        self.at_work: list[str] = []
        self.go_on = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []

    def want(self, client: str) -> None:
        thread = threading.Thread(target=self._work, args=(client,))
        self.threads.append(thread)
        thread.start()

    def _work(self, client: str) -> None:
        with self.turns.turn(client, 60):
            self.at_work.append(client)
            self.go_on.acquire()
            self.at_work.remove(client)
            self.done.append(client)

    def end(self) -> None:
        for _ in self.threads:
            self.go_on.release()
        for thread in self.threads:
            thread.join()


def waiting(turns: Turns, *clients: str) -> Callable[[], bool]:
    return lambda: turns._waiting == list(clients)


def test_a_client_has_one_piece_of_work_at_a_time_and_those_that_had_none_come_first() -> None:
    turns = Turns(1, waiting=2)
    workers = Workers(turns)
    workers.want("greedy")
    eventually(lambda: workers.at_work == ["greedy"], "the first is at work")
    workers.want("greedy")
    eventually(waiting(turns, "greedy"), "its second waits")
    workers.want("other")
    eventually(waiting(turns, "greedy", "other"), "another waits behind it")
    workers.end()
    assert workers.done == ["greedy", "other", "greedy"]


def test_whoever_comes_beyond_those_who_wait_is_told_at_once() -> None:
    turns = Turns(1, waiting=1)
    workers = Workers(turns)
    workers.want("a")
    eventually(lambda: workers.at_work == ["a"], "one is at work")
    workers.want("b")
    eventually(waiting(turns, "b"), "one waits")
    begun = time.monotonic()
    for client, reason in (("b", "another of yours is waiting"), ("c", "1 are at work and 1 wait")):
        with pytest.raises(BusyError, match=reason), turns.turn(client, 60):
            pass
    assert time.monotonic() - begun < 30
    workers.end()


def test_a_turn_that_does_not_come_in_time_is_given_up() -> None:
    turns = Turns(1, waiting=1)
    with turns.turn("a", 1), pytest.raises(BusyError, match="1 are at work"), turns.turn("b", 0.01):
        pass
    with turns.turn("b", 1):
        pass


def test_two_places_are_for_two_clients() -> None:
    turns = Turns(2, waiting=1)
    with turns.turn("a", 1):
        with turns.turn("b", 1):
            pass
        with pytest.raises(BusyError), turns.turn("a", 0.01):
            pass

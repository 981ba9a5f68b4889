"""Limits on concurrent heavy requests, which wait for a place, and of which no client can occupy all."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from registry.places import BusyError, Places
from tests.support.commands import eventually


def make_places(at_once: int = 2, of_a_client: int = 4, of_all: int = 8) -> Places:
    return Places("queries", at_once=at_once, of_a_client=of_a_client, of_all=of_all)


def test_one_client_leaves_a_place_for_others() -> None:
    places, go, started = make_places(), threading.Event(), []

    def work(client: str) -> None:
        with places.take(client):
            started.append(client)
            go.wait(60)

    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(work, "a") for _ in range(3)]
        eventually(lambda: started == ["a"], "one query of a runs")
        running.append(pool.submit(work, "b"))
        eventually(lambda: started == ["a", "b"], "that of b runs although two of a came before it")
        go.set()
        for each in running:
            each.result(60)
    assert sorted(started) == ["a", "a", "a", "b"]


def test_a_client_has_a_few_queries_and_no_more() -> None:
    places = make_places(at_once=8, of_a_client=2)
    with places.take("a"), places.take("a"):
        with pytest.raises(BusyError, match="2 queries of yours are running or waiting"), places.take("a"):
            pass
        with places.take("b"):
            pass


def test_only_so_many_wait_in_all() -> None:
    places = make_places(at_once=3, of_all=3)
    with ExitStack() as stack:
        for client in "abc":
            stack.enter_context(places.take(client))
        with pytest.raises(BusyError, match="3 queries are running or waiting"), places.take("d"):
            pass
    with places.take("d"):
        pass


def test_who_waits_too_long_reads_how_many_were_ahead() -> None:
    places = make_places(at_once=1)
    with (
        places.take("a"),
        pytest.raises(BusyError, match="1 queries were ahead"),
        places.take("b", wait_seconds=0.05),
    ):
        pass
    with places.take("b", wait_seconds=0.05):
        pass


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_place_is_free_again_after_an_error(error: Callable[[], BaseException]) -> None:
    places = make_places(at_once=1)
    with pytest.raises(error), places.take("a"):
        raise error()
    with places.take("a", wait_seconds=0.05):
        pass

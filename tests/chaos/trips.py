"""Faults that a worker process causes itself on demand: it dies, freezes or hangs at a chosen point, or has no space.

Only test processes are tripped; the product's code does not know about trips. Several points are inside an open
transaction (see the table below), which no signal from outside could be timed to hit.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from celery import Celery
from sqlalchemy import Engine, and_, event

import registry.operations.maintenance
from registry.queue import claims, generation
from registry.schema import history
from registry.tables import Shard
from tests.support.fake_scorer import FakeScorer
from workers.loop import WorkerLoop

POINTS: Final = {
    "scoring": "in the middle of a shard",
    "claiming": "with a shard claimed, before the commit",
    "scored": "with a shard scored, before anything of it is stored",
    "storing": "with the predictions inserted, before the commit",
    "stored": "right after the predictions were committed",
    "sealing": "with the evaluation sealed, before the commit",
    "reconciling": "with expired leases taken away, before the commit",
}

HANGING: Final = "hanging"
"""The line on stdout of a worker whose scoring thread is blocked from now on."""
ALL_PAGES: Final = 1_073_741_823
"""The largest number of pages that SQLite permits."""


def set_trip(spec: str, scorer: FakeScorer, loop: WorkerLoop) -> None:
    """Send SIGNAL to this process when it reaches POINT for the COUNT-th time; spec: POINT:COUNT:SIGNAL.

    HANG in place of a signal blocks the scoring thread, while other threads continue.
    """
    point, count, name = spec.split(":")
    left = int(count)

    def reached(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0 and name == "HANG":
            print(HANGING, flush=True)
            threading.Event().wait()
        elif left == 0:
            os.kill(os.getpid(), signal.Signals[f"SIG{name}"])

    if point == "scoring":
        scorer.before_prompt = reached
        return
    owner, attribute = {
        "claiming": (claims, "claim"),
        "scored": (scorer, "score"),
        "storing": (claims, "finish"),
        "stored": (loop, "_store"),
        "sealing": (registry.operations.maintenance, "seal"),
        "reconciling": (claims, "reconcile"),
    }[point]
    _after(owner, attribute, reached, always=point == "reconciling")


def _after(owner: Any, attribute: str, reached: Callable[[], None], *, always: bool) -> None:
    """Call `reached` after each call of the function that returned a true result, or after every call."""
    original = getattr(owner, attribute)

    def tripped(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        if result or always:
            reached()
        return result

    setattr(owner, attribute, tripped)


def limit_pages(engine: Engine, path: str) -> None:
    """Limit SQLite to the number of pages in the file, which each transaction reads, or not without the file."""

    @event.listens_for(engine, "checkout")
    def _limit(connection: Any, *_: object) -> None:
        try:
            limit = int(Path(path).read_text())
        except FileNotFoundError:
            limit = ALL_PAGES
        connection.execute(f"PRAGMA max_page_count={limit}").fetchall()


def follow(folder: Path) -> None:
    """Use the migrations in the folder as the code's migrations in this process."""
    history.migrations_folder = lambda: folder


def remove_fence() -> None:
    """Remove the fence from every check, so that any worker with a leased shard passes for its owner."""
    claims.is_of = lambda held, state="leased": and_(Shard.id == held.shard_id, Shard.state == state)


def remove_generation() -> None:
    """Remove the worker and the registry's generation from every check, so that only shard and fence are compared."""
    claims.is_of = lambda held, state="leased": and_(
        Shard.id == held.shard_id, Shard.fence == held.fence, Shard.state == state
    )
    generation.bind_generation = lambda engine, *_: engine


def end_celery() -> None:
    """Make Celery end a worker with status 0, as it does after some errors."""
    Celery.worker_main = lambda *_: sys.exit(0)

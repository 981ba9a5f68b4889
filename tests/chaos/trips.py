"""Faults that a worker process causes itself on demand: it dies, freezes or hangs at a chosen point, or has no space.

Only test processes are tripped; the product's code knows nothing of it. Several points are inside an open transaction
(see the table below), which no signal from outside could be timed to hit.
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

ALL_PAGES: Final = 1_073_741_823
"""SQLite's own limit."""


def set_trip(spec: str, scorer: FakeScorer, loop: WorkerLoop) -> None:
    """Send SIGNAL to this process when POINT is reached for the COUNT-th time; spec: POINT:COUNT:SIGNAL.

    HANG instead of a signal blocks the thread that scores, and the others go on.
    """
    point, count, name = spec.split(":")
    left = int(count)

    def reached(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0 and name == "HANG":
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
    """Call `reached` whenever the function returned a true result, or always."""
    original = getattr(owner, attribute)

    def tripped(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        if result or always:
            reached()
        return result

    setattr(owner, attribute, tripped)


def limit_pages(engine: Engine, path: str) -> None:
    """Limit SQLite to the number of pages in the file, from transaction to transaction; no limit without a file."""

    @event.listens_for(engine, "checkout")
    def _limit(connection: Any, *_: object) -> None:
        try:
            limit = int(Path(path).read_text())
        except FileNotFoundError:
            limit = ALL_PAGES
        connection.execute(f"PRAGMA max_page_count={limit}").fetchall()


def follow(folder: Path) -> None:
    """Use the folder as the schema's history of this process."""
    history.migrations_folder = lambda: folder


def remove_fence() -> None:
    """Take the fence out of every check: any worker with a leased shard then passes for its owner."""
    claims.is_of = lambda held, state="leased": and_(Shard.id == held.shard_id, Shard.state == state)


def remove_generation() -> None:
    """Take the worker and the registry's generation out of every check, so that shard and fence are all that counts."""
    claims.is_of = lambda held, state="leased": and_(
        Shard.id == held.shard_id, Shard.fence == held.fence, Shard.state == state
    )
    generation.bind_generation = lambda engine, *_: engine


def end_celery() -> None:
    """Make Celery end a worker by itself, with status 0, as it does after some errors."""
    Celery.worker_main = lambda *_: sys.exit(0)

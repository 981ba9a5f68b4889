"""A worker process that kills itself at a point that a test chooses, without torch unless it loads a local model.

trip: POINT:COUNT, such as answered:3: SIGKILL when the worker reaches that point for the third time.
"""

import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from registry.db import get_engine
from registry.queue import claims
from registry.settings import get_settings
from workers import drafts
from workers.drafts import Drafts
from workers.loop import WorkerLoop
from workers.pace import SharedPace
from workers.providers.batches import Batches
from workers.providers.model import ProviderModel
from workers.scorer import TransformersScorer


class WithoutTorch(TransformersScorer):
    """A scorer that loads no model."""

    def place(self) -> str:
        return "fake"

    def device(self) -> str:
        return "cpu"

    def versions(self) -> dict[str, str]:
        return {}


# `waited`: has its place; `begun`: written down, not sent; `answered`: not stored; `stored`: not finished; `finished`: not
# committed. Of batches: `written` down; `uploaded`; about to be `sent`; `created`, its name not stored; `submitted`;
# seen to have ended or not (`polled`); results `fetched`, not stored; `collected`: stored. Of a server's answers: `kept`.
POINTS: Mapping[str, tuple[Any, str]] = {
    "waited": (SharedPace, "turn"),
    "begun": (ProviderModel, "_begin"),
    "answered": (ProviderModel, "_answer"),
    "stored": (ProviderModel, "_store"),
    "finished": (claims, "finish"),
    "kept": (Drafts, "flush"),
    "written": (Batches, "_write_down"),
    "uploaded": (Batches, "_upload"),
    "sent": (Batches, "_begin_sending"),
    "created": (Batches, "_create"),
    "submitted": (Batches, "_record"),
    "polled": (Batches, "_status"),
    "fetched": (Batches, "_results"),
    "collected": (Batches, "_end"),
}


def main(environment: Mapping[str, str], trip: str | None, log: Path, *, torch: bool = False) -> None:
    """Run the worker until nothing is left to score.

    torch: whether it loads models.
    """
    os.environ.update(environment)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    drafts.EVERY_SECONDS = 0.0  # type: ignore[misc]
    if trip is not None:
        point, count = trip.split(":")
        _set(*POINTS[point], int(count))
    settings = get_settings()
    scorer = (TransformersScorer if torch else WithoutTorch)(settings.home)
    scorer.budget_tokens = 1
    loop = WorkerLoop(get_engine(settings.resolve_database_url()), settings, scorer, ["cpu"])
    loop.start()
    try:
        loop.run(until_idle=True)
    finally:
        loop.stop()
        scorer.unload()


def _set(owner: Any, name: str, count: int) -> None:
    inner: Callable[..., Any] = getattr(owner, name)
    left, lock = [count], threading.Lock()

    def tripped(*arguments: Any, **named: Any) -> Any:
        result = inner(*arguments, **named)
        with lock:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, tripped)

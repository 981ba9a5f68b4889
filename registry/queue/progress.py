"""Progress of evaluations: prompts done, measured rates, time left, tokens saved."""

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import BigInteger, Double, Engine, Text, and_, column, distinct, func, or_, select, table
from sqlalchemy.orm import Session

from registry.db import database_now, pick, read_session
from registry.lookups import find_evaluation
from registry.names import plural
from registry.providers.budgets import full_budget
from registry.queue.claims import queues_without_worker, worker_is_live
from registry.queue.display import progress_display
from registry.queue.waits import Wait, waits_of
from registry.settings import get_settings
from registry.tables import Shard, Worker

FINISHED: Final = ("complete", "failed", "cancelled", "paused")
ACTIVE: Final = ("queued", "running")
POLL_SECONDS: Final = 0.5
SEALING: Final = "sealing"
STEPS: Final = {SEALING: "metrics, intervals, seals"}
"""Descriptions of import steps whose names do not explain themselves."""
RECENT_SECONDS: Final = 60.0
"""Seconds for which a worker that finished a shard still counts as working on its evaluation."""

_COUNTS: Final = (
    "questions",
    "prompts",
    "prompts_done",
    "shards",
    "shards_done",
    "shards_leased",
    "shards_failed",
    "failures",
    "crashes",
    "tokens_naive",
    "tokens_computed",
)
_VIEW: Final = table(
    "evaluation_progress",
    column("evaluation_id", BigInteger()),
    column("state", Text()),
    column("elapsed_s", Double()),
    *(column(name, BigInteger()) for name in _COUNTS),
)


@dataclass(frozen=True)
class Progress:
    """The progress of an evaluation.

    elapsed_s: seconds of scoring, summed over its workers; None before the first shard is done. workers: live workers
    that score it now. no_worker: whether its shards wait on a queue that no live worker serves. waits: waits that no
    worker can shorten. error: error of a parked or retried shard, or why the evaluation is paused.
    """

    evaluation_id: int
    state: str
    questions: int
    prompts: int
    prompts_done: int
    shards: int
    shards_done: int
    shards_leased: int
    shards_failed: int
    failures: int
    crashes: int
    elapsed_s: float | None
    tokens_naive: int | None
    tokens_computed: int | None
    workers: int = 0
    no_worker: bool = False
    waits: tuple[Wait, ...] = ()
    error: str | None = None

    @property
    def complete(self) -> bool:
        """Return whether the evaluation is sealed."""
        return self.state == "complete"

    @property
    def finished(self) -> bool:
        """Return whether nothing more happens until a user acts."""
        return self.state in FINISHED

    @property
    def prompts_left(self) -> int:
        """Return the number of prompts not stored yet."""
        return self.prompts - self.prompts_done

    @property
    def prompts_per_second(self) -> float | None:
        """Return the measured rate of one worker; None before the first shard is done."""
        return self.prompts_done / self.elapsed_s if self.elapsed_s else None

    @property
    def work_seconds_left(self) -> float | None:
        """Return the seconds that one worker needs for the rest at the measured rate; None if no rate was measured."""
        if self.prompts_left == 0:
            return 0.0
        rate = self.prompts_per_second
        return self.prompts_left / rate if rate else None

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds left with the present workers; None if there are none or no rate was measured."""
        if self.prompts_left == 0:
            return 0.0
        work = self.work_seconds_left
        return work / self.workers if work is not None and self.workers and not self.finished else None

    @property
    def tokens_saved(self) -> int | None:
        """Return the tokens that need not be computed, since prompts share their beginnings."""
        if self.tokens_naive is None or self.tokens_computed is None:
            return None
        return self.tokens_naive - self.tokens_computed

    def document(self) -> dict[str, Any]:
        """Return the progress as JSON values."""
        rate, left = self.prompts_per_second, self.seconds_left
        return {"evaluation": self.evaluation_id} | {
            **pick(self, PROGRESS),
            "waits": [wait.document() for wait in self.waits],
            "prompts_per_second": None if rate is None else round(rate, 3),
            "seconds_left": None if left is None else round(left, 1),
        }


PROGRESS: Final = (
    *("state", "complete", "questions", "prompts", "prompts_done", "shards", "shards_done", "shards_leased"),
    *("shards_failed", "failures", "crashes", "workers", "no_worker", "waits", "prompts_per_second", "seconds_left"),
    *("tokens_naive", "tokens_computed", "tokens_saved", "error"),
)
"""Fields of `Progress` in its JSON document."""


def progress_of(session: Session, evaluation_id: int) -> Progress:
    """Return the progress of one evaluation. Raises NotFoundError if there is none."""
    find_evaluation(session, evaluation_id)
    return progress_of_several(session, [evaluation_id])[evaluation_id]


def progress_of_several(session: Session, ids: Iterable[int]) -> dict[int, Progress]:
    """Return the progress of evaluations by id, without ids that do not exist."""
    listed = list(ids)
    rows = session.execute(select(_VIEW).where(_VIEW.c.evaluation_id.in_(listed))).mappings().all()
    active = [row["evaluation_id"] for row in rows if row["state"] in ACTIVE]
    workers = _workers_on(session, active) if active else {}
    waiting = _waiting_without_worker(session, active) if active else set()
    waits = waits_of(session, {row["evaluation_id"]: row["state"] for row in rows}, get_settings())
    errors = _errors(session, [row["evaluation_id"] for row in rows if row["failures"] or row["shards_failed"]])
    return {
        row["evaluation_id"]: Progress(
            **{name: _number(value) for name, value in row.items()},
            workers=workers.get(row["evaluation_id"], 0),
            no_worker=row["evaluation_id"] in waiting,
            waits=tuple(waits.get(row["evaluation_id"], ())),
            error=errors.get(row["evaluation_id"])
            or (_why_paused(session, row["evaluation_id"]) if row["state"] == "paused" else None),
        )
        for row in rows
    }


def _why_paused(session: Session, evaluation_id: int) -> str | None:
    full = full_budget(session, evaluation_id)
    return None if full is None else str(full)


def _number(value: Any) -> Any:
    """Convert a sum to an integer: PostgreSQL returns sums of integers as decimals."""
    return int(value) if type(value).__name__ == "Decimal" else value


def _workers_on(session: Session, ids: list[int]) -> dict[int, int]:
    now = or_(Shard.state == "leased", Shard.finished_at > database_now(-RECENT_SECONDS))
    query = (
        select(Shard.evaluation_id, func.count(distinct(Shard.worker_id)))
        .join(Worker, Worker.id == Shard.worker_id)
        .where(Shard.evaluation_id.in_(ids), now, worker_is_live())
        .group_by(Shard.evaluation_id)
    )
    return {row[0]: row[1] for row in session.execute(query)}


def _waiting_without_worker(session: Session, ids: list[int]) -> set[int]:
    queues = queues_without_worker(session)
    if not queues:
        return set()
    query = select(Shard.evaluation_id).where(
        Shard.evaluation_id.in_(ids), Shard.state == "queued", Shard.queue.in_(queues)
    )
    return set(session.scalars(query.distinct()))


def _errors(session: Session, ids: list[int]) -> dict[int, str]:
    """Return one error for each evaluation: of its first parked shard, else of its first shard with an error."""
    if not ids:
        return {}
    query = select(Shard.evaluation_id, Shard.error).where(
        and_(Shard.evaluation_id.in_(ids), Shard.error.is_not(None), Shard.state.in_(("failed", "queued", "leased")))
    )
    errors: dict[int, str] = {}
    for evaluation_id, error in session.execute(query.order_by(Shard.state != "failed", Shard.id)):
        errors.setdefault(evaluation_id, str(error))
    return errors


def overall(items: Iterable[Progress], live_workers: int) -> dict[str, Any]:
    """Sum the progress of the evaluations that are queued or running.

    seconds_left: with all live workers; None if there are none, or if an evaluation has no measured rate.
    """
    active = [item for item in items if item.state in ACTIVE]
    rates = [item.prompts_per_second * item.workers for item in active if item.prompts_per_second]
    work = [item.work_seconds_left for item in active]
    measured = [seconds for seconds in work if seconds is not None]
    left = sum(measured) / live_workers if live_workers and len(measured) == len(work) else None
    return {
        "evaluations": len(active),
        "prompts": sum(item.prompts for item in active),
        "prompts_done": sum(item.prompts_done for item in active),
        "shards_failed": sum(item.shards_failed for item in active),
        "prompts_per_second": round(sum(rates), 3),
        "seconds_left": None if left is None else round(left, 1),
        "tokens_naive": sum(item.tokens_naive or 0 for item in active),
        "tokens_computed": sum(item.tokens_computed or 0 for item in active),
        "tokens_saved": sum(item.tokens_saved or 0 for item in active),
    }


def wait_for(engine: Engine, ids: list[int], helper: "subprocess.Popen[bytes] | None") -> list[Progress]:
    """Show the progress of each evaluation on stderr until all are finished or the helper worker has ended."""
    labels: dict[int, str] = {}
    with progress_display(lambda _: "prompts") as show:
        while True:
            ended = helper is not None and helper.poll() is not None
            with read_session(engine) as session:
                by_id = progress_of_several(session, ids)
                states = [by_id[evaluation_id] for evaluation_id in ids]
                labels = labels or _labels(session, states)
            doing = _read_step(helper)
            for progress in states:
                note = _note(progress, helped=helper is not None, doing=doing)
                key = progress.evaluation_id
                show(key, labels[key], progress.prompts_done, progress.prompts, note)
            if ended or all(progress.finished for progress in states):
                return states
            time.sleep(POLL_SECONDS)


DOING: Final = "SHUFFLEBOARD_DOING"
"""Environment variable with the file in which a worker reports its steps before scoring."""


def say_doing(text: str) -> None:
    """Report this worker's step before scoring to the process that started it; an empty text reports scoring."""
    path = os.environ.get(DOING)
    if path:
        with suppress(OSError):  # the waiting process may have ended, with its file
            Path(path).write_text(text, encoding="utf-8")


def _read_step(helper: "subprocess.Popen[bytes] | None") -> str:
    """Return the step that a helper worker reports; empty if there is none."""
    path = getattr(helper, "doing", None)
    if path is None:
        return ""
    with suppress(OSError):
        return Path(path).read_text(encoding="utf-8")
    return ""


def _note(progress: Progress, *, helped: bool, doing: str = "") -> str:
    """Return the note behind a progress bar: the worker's step, state, rate, time left, tokens saved."""
    if doing and progress.state in ("queued", "running") and not progress.finished:
        return doing
    if progress.no_worker and not helped and not progress.finished:
        return "no live worker"
    parts = [] if progress.state == "running" else [progress.state]
    parts += [wait.what for wait in progress.waits]
    if progress.shards_failed:
        parts.append(f"{plural(progress.shards_failed, 'shard')} failed")
    if progress.prompts_per_second and not progress.finished:
        parts.append(f"{progress.prompts_per_second * max(1, progress.workers):.3g} prompts/s")
    if progress.seconds_left:
        parts.append(f"{duration(progress.seconds_left)} left")
    if progress.tokens_saved and progress.tokens_naive:
        parts.append(f"{100 * progress.tokens_saved / progress.tokens_naive:.0f} % of tokens saved")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Format a duration for people, such as `45 s`, `7 min` or `2 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _labels(session: Session, states: Sequence[Progress]) -> dict[int, str]:
    """Return a label for each evaluation: model and benchmark, or for several the id and the parts that differ."""
    parts = {}
    for progress in states:
        evaluation = find_evaluation(session, progress.evaluation_id)
        parts[progress.evaluation_id] = (
            evaluation.model_revision.model.name,
            evaluation.benchmark_version.benchmark.name,
            evaluation.protocol.name,
            evaluation.variant_set.name,
        )
    if len(parts) == 1:
        return {number: f"{model} on {benchmark}" for number, (model, benchmark, *_) in parts.items()}
    differing = [place for place in range(4) if len({names[place] for names in parts.values()}) > 1] or [0, 1]
    return {number: f"{number} {' '.join(names[place] for place in differing)}" for number, names in parts.items()}


@contextmanager
def import_progress(noun: str = "lines") -> Iterator[Callable[[str, int, int | None], None]]:
    """Show the progress of an import on stderr; yield a function of (step, lines done, total)."""
    with progress_display(lambda what: "evaluations" if what == SEALING else noun) as show:
        yield lambda what, done, total: show(what, STEPS.get(what, what), done, total, "")

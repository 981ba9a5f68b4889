"""Progress of evaluations: prompts done, rate, time left."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

from registry.db import read_session
from registry.evaluations import find_evaluation
from registry.models import Shard

FINISHED = ("complete", "failed", "cancelled", "paused")
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Progress:
    """How far an evaluation is. elapsed_s: seconds of scoring, summed over its workers; error: of a parked shard."""

    evaluation_id: int
    state: str
    questions: int
    prompts: int
    prompts_done: int
    shards: int
    shards_done: int
    shards_failed: int
    failures: int
    crashes: int
    elapsed_s: float | None
    tokens_naive: int | None
    tokens_computed: int | None
    error: str | None

    @property
    def complete(self) -> bool:
        """Whether it is sealed."""
        return self.state == "complete"

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self.state in FINISHED

    @property
    def prompts_per_second(self) -> float | None:
        """Measured rate of one worker; None before the first shard is done."""
        return self.prompts_done / self.elapsed_s if self.elapsed_s else None

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        rate = self.prompts_per_second
        left = self.prompts - self.prompts_done
        return {
            "evaluation": self.evaluation_id,
            "state": self.state,
            "complete": self.complete,
            "questions": self.questions,
            "prompts": self.prompts,
            "prompts_done": self.prompts_done,
            "shards": self.shards,
            "shards_done": self.shards_done,
            "shards_failed": self.shards_failed,
            "failures": self.failures,
            "crashes": self.crashes,
            "prompts_per_second": None if rate is None else round(rate, 3),
            "seconds_left": None if rate is None else round(left / rate, 1),
            "tokens_naive": self.tokens_naive,
            "tokens_computed": self.tokens_computed,
            "error": self.error,
        }


def progress_of(session: Session, evaluation_id: int) -> Progress:
    """The progress of one evaluation; NotFoundError when there is none."""
    find_evaluation(session, evaluation_id)
    row = (
        session.execute(text("SELECT * FROM evaluation_progress WHERE evaluation_id = :id"), {"id": evaluation_id})
        .mappings()
        .one()
    )
    error = session.scalar(
        select(Shard.error).where(Shard.evaluation_id == evaluation_id, Shard.error.is_not(None)).limit(1)
    )
    names = Progress.__dataclass_fields__.keys() - {"error"}
    return Progress(**{name: _number(row[name]) for name in names}, error=error)


def _number(value: Any) -> Any:
    """Sums of integers come back as decimals from PostgreSQL."""
    return int(value) if type(value).__name__ == "Decimal" else value


def wait_for(engine: Engine, ids: list[int], helper: "subprocess.Popen[bytes] | None") -> list[Progress]:
    """Shows a progress bar for each evaluation on stderr until all are finished, or the helper worker has ended."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[int, Any] = {}
        while True:
            ended = helper is not None and helper.poll() is not None
            with read_session(engine) as session:
                states = [progress_of(session, evaluation_id) for evaluation_id in ids]
                if not tasks:
                    tasks = {p.evaluation_id: bars.add_task(_label(session, p), total=p.prompts) for p in states}
            for progress in states:
                bars.update(tasks[progress.evaluation_id], completed=progress.prompts_done)
            if ended or all(progress.finished for progress in states):
                return states
            time.sleep(POLL_SECONDS)


def _label(session: Session, progress: Progress) -> str:
    evaluation = find_evaluation(session, progress.evaluation_id)
    return f"{evaluation.model_revision.model.name} on {evaluation.benchmark_version.benchmark.name}"


@contextmanager
def import_progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """A progress bar on stderr for an import; yields what to call with (what is done, lines done, of how many)."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description:9}"),
        BarColumn(),
        TextColumn("{task.completed:,} lines"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield report

"""The tasks of Celery: score a shard, maintain the queue."""

from functools import lru_cache
from typing import Any

from celery.worker import state
from celery.worker.request import Request
from sqlalchemy import select

from registry.db import read_session
from registry.errors import UsageError
from registry.operations.maintenance import Maintenance
from registry.operations.opening import engine_of
from registry.queue.claims import Claim
from registry.queue.hints import SCORE_TASK
from registry.settings import Settings, get_settings
from registry.tables import Model, ModelRevision
from workers.celery import app


class ShardRequest(Request):
    """A message to score a shard. `inspect` and events show the shard that the worker claimed."""

    def show(self, shard_id: int, **of: Any) -> None:
        """Show this shard as the task's from now on."""
        self._args, self._kwargs = [shard_id], of
        self._argsrepr, self._kwargsrepr = repr((shard_id,)), repr(of)
        self.send_event("task-started", args=self._argsrepr, kwargs=self._kwargsrepr)


@app.task(name=SCORE_TASK, bind=True, Request=ShardRequest)
def score(task: Any, shard_id: int) -> dict[str, Any] | None:
    """Score the best queued shard, which need not be the named one: the worker's model may be loaded for another.

    Returns the result; None if nothing was left to score.
    """
    loop = app.loop
    if loop is None:
        raise UsageError(f"shard {shard_id}: this worker scores nothing; start one with -Q cpu or -Q gpu")
    taken: dict[str, Any] = {}

    def take(claim: Claim) -> None:
        with read_session(loop.engine) as session:
            query = select(Model.name).join(ModelRevision, ModelRevision.model_id == Model.id)
            model = session.scalar(query.where(ModelRevision.id == claim.model_revision_id))
        taken.update(shard_id=claim.shard_id, evaluation=claim.evaluation_id, model=model, worker=loop.id)
        state.requests[task.request.id].show(**taken)

    loop.work_for_message(take)
    return taken or None


@lru_cache(maxsize=1)
def _keeper(settings: Settings) -> Maintenance:
    return Maintenance(engine_of(settings), settings)


@app.task(name="shuffleboard.maintain")
def maintain() -> None:
    """Queue shards of dead workers, send lost messages, seal complete evaluations, advance boards and submissions."""
    _keeper(get_settings()).maintain()

"""Metrics for Prometheus, read from the database on request, so that every process of the website reports the same.

They name no models or benchmarks, and count the data that the viewer may see; with a maintainer's token, everything.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from flask import Blueprint, Response
from flask.typing import ResponseReturnValue
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from registry.db import database_now
from registry.providers.budgets import full_budget
from registry.queue.claims import (
    differing_versions,
    live_workers,
    queues_without_worker,
    ready_to_seal,
    worker_is_live,
)
from registry.queue.progress import ACTIVE, overall, progress_of_several
from registry.queue.stalls import list_stalled
from registry.sealed.signing import newest_signature
from registry.tables import (
    EVALUATION_STATES,
    QUEUES,
    REVISION_STATES,
    SHARD_STATES,
    ChainLink,
    Evaluation,
    ModelRevision,
    Shard,
    Worker,
)
from web.serving.responses import session

blueprint = Blueprint("metrics", __name__)

Family = GaugeMetricFamily | CounterMetricFamily
A_DAY_S: Final = 86_400.0


@blueprint.get("/metrics")
def metrics() -> ResponseReturnValue:
    """Return the queue in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(_Queue(session()))
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


class _Queue(Collector):
    """Collects the metrics of the queue from the database."""

    def __init__(self, opened: Session) -> None:
        self.session = opened

    def collect(self) -> Iterable[Family]:
        """Yield the metrics, each with its help text."""
        yield from self._evaluations()
        yield from self._shards()
        yield from self._work_done()
        yield from self._time_left()
        yield from self._workers()
        yield from self._count_by_device()
        yield from self._list_unattended()
        yield from self._count_held_up()
        yield from self._database()

    def describe(self) -> Iterable[Family]:
        """Return nothing: registration would otherwise read the database."""
        return ()

    def _evaluations(self) -> Iterator[Family]:
        query = select(Evaluation.state, func.count()).group_by(Evaluation.state)
        counts = {row[0]: row[1] for row in self.session.execute(query)}
        yield _gauge("evaluations", "Evaluations by state.", "state", {s: counts.get(s, 0) for s in EVALUATION_STATES})
        sealed = self.session.scalar(select(func.count()).where(Evaluation.seal.is_not(None))) or 0
        yield CounterMetricFamily("shuffleboard_evaluations_sealed", "Evaluations that were sealed.", value=sealed)

    def _shards(self) -> Iterator[Family]:
        family = GaugeMetricFamily("shuffleboard_shards", "Shards by queue and state.", labels=("queue", "state"))
        query = select(Shard.queue, Shard.state, func.count(), func.sum(Shard.prompts)).group_by(
            Shard.queue, Shard.state
        )
        rows = {(row[0], row[1]): (row[2], int(row[3])) for row in self.session.execute(query)}
        for queue in QUEUES:
            for state in SHARD_STATES:
                family.add_metric((queue, state), rows.get((queue, state), (0, 0))[0])
        yield family
        waiting = {
            queue: sum(rows.get((queue, state), (0, 0))[1] for state in ("queued", "leased")) for queue in QUEUES
        }
        yield _gauge("prompts_waiting", "Prompts of shards that are queued or being scored.", "queue", waiting)
        oldest = (
            select(Shard.queue, func.min(Evaluation.created_at), database_now())
            .join(Evaluation, Evaluation.id == Shard.evaluation_id)
            .where(Shard.state == "queued", Evaluation.state.in_(ACTIVE))
            .group_by(Shard.queue)
        )
        ages = {row[0]: (row[2] - row[1]).total_seconds() for row in self.session.execute(oldest)}
        yield _gauge(
            "oldest_waiting_seconds",
            "Age of the oldest evaluation with a waiting shard; 0 where there is none.",
            "queue",
            {queue: max(0.0, ages.get(queue, 0.0)) for queue in QUEUES},
        )

    def _work_done(self) -> Iterator[Family]:
        done = select(
            func.sum(Shard.prompts),
            func.sum(Shard.tokens_naive),
            func.sum(Shard.tokens_computed),
            func.sum(Shard.elapsed_s),
        ).where(Shard.state == "done")
        prompts, naive, computed, seconds = self.session.execute(done).one()
        counted = select(func.sum(Shard.failures), func.sum(Shard.crashes))
        failures, crashes = self.session.execute(counted).one()
        for name, meaning, value in (
            ("prompts", "Prompts scored and stored.", prompts),
            ("tokens", "Tokens of those prompts.", naive),
            ("tokens_computed", "Tokens that went through a model; the rest was shared between prompts.", computed),
            ("scoring_seconds", "Seconds of scoring, summed over workers.", seconds),
        ):
            yield CounterMetricFamily(f"shuffleboard_{name}", meaning, value=float(value or 0))
        # Not counters: retrying an evaluation resets them.
        yield _gauge("shard_failures", "Errors counted on shards.", None, {"": failures or 0})
        yield _gauge("shard_crashes", "Leases that ran out, counted on shards.", None, {"": crashes or 0})

    def _time_left(self) -> Iterator[Family]:
        ids = self.session.scalars(select(Evaluation.id).where(Evaluation.state.in_(ACTIVE))).all()
        together = overall(progress_of_several(self.session, ids).values(), live_workers(self.session))
        rate, left = together["prompts_per_second"], together["seconds_left"]
        yield _gauge("prompts_per_second", "Measured rate of all workers.", None, {"": rate})
        yield _gauge(
            "seconds_left",
            "Time left for all that is queued; absent when unknown.",
            None,
            {} if left is None else {"": left},
        )

    def _workers(self) -> Iterator[Family]:
        rows = self.session.execute(
            select(Worker.device, Worker.versions, Worker.loaded_model_revision_id).where(worker_is_live())
        ).all()
        devices = {device: sum(row.device == device for row in rows) for device in sorted({row.device for row in rows})}
        yield _gauge("workers", "Live workers by device.", "device", devices)
        loaded = sum(row.loaded_model_revision_id is not None for row in rows)
        yield _gauge("workers_with_model", "Live workers that have a model loaded.", None, {"": loaded})
        lacking = queues_without_worker(self.session)
        yield _gauge(
            "queue_without_worker",
            "1 where work is waiting on a queue that no live worker serves.",
            "queue",
            {queue: int(queue in lacking) for queue in QUEUES},
        )
        mixed = differing_versions(row.versions for row in rows)
        yield _gauge("mixed_versions", "Packages of which live workers run several versions.", None, {"": len(mixed)})

    def _count_by_device(self) -> Iterator[Family]:
        """Yield the prompts scored by each device of each host; their rate is the speed of that device."""
        labels = ("host", "device")
        families = {
            "prompts": CounterMetricFamily(
                "shuffleboard_worker_prompts", "Prompts scored and stored, by the device that did.", labels=labels
            ),
            "tokens_computed": CounterMetricFamily(
                "shuffleboard_worker_tokens_computed", "Tokens that went through a model, by device.", labels=labels
            ),
            "elapsed_s": CounterMetricFamily(
                "shuffleboard_worker_scoring_seconds", "Seconds of scoring, by device.", labels=labels
            ),
        }
        sums = [func.sum(getattr(Shard, column)) for column in families]
        query = (
            select(Worker.host, Worker.device, *sums)
            .join(Shard, Shard.worker_id == Worker.id)
            .where(Shard.state == "done")
            .group_by(Worker.host, Worker.device)
        )
        for host, device, *values in self.session.execute(query):
            for family, value in zip(families.values(), values, strict=True):
                family.add_metric((host, device), float(value or 0))
        yield from families.values()

    def _list_unattended(self) -> Iterator[Family]:
        """Yield work that a worker should have done within its period, and problems that need a person."""
        expired = select(func.count()).where(Shard.state == "leased", Shard.lease_until < database_now())
        yield _gauge("leases_expired", "Shards whose lease ran out.", None, {"": self.session.scalar(expired) or 0})
        ready = len(ready_to_seal(self.session))
        yield _gauge("evaluations_unsealed", "Evaluations that are scored and not sealed.", None, {"": ready})
        query = select(ModelRevision.state, func.count()).group_by(ModelRevision.state)
        counts = {row[0]: row[1] for row in self.session.execute(query)}
        states = {state: counts.get(state, 0) for state in REVISION_STATES}
        yield _gauge("model_revisions", "Revisions of models by state.", "state", states)

    def _count_held_up(self) -> Iterator[Family]:
        """Yield the numbers of shards, budgets and signatures that need a person."""
        hung = len(list_stalled(self.session, A_DAY_S))
        yield _gauge("shards_stalled", "Shards taken from hung workers within a day.", None, {"": hung})
        paused = self.session.scalars(select(Evaluation.id).where(Evaluation.state == "paused")).all()
        full = sum(full_budget(self.session, number) is not None for number in paused)
        yield _gauge("evaluations_out_of_budget", "Paused evaluations whose budget has no room.", None, {"": full})
        signed = newest_signature(self.session)
        later = 0
        if signed is not None:
            query = select(func.count()).where(ChainLink.position > signed.position)
            later = self.session.scalars(query).one()
        yield _gauge(
            "chain_links_unsigned",
            "Links of the chain after the newest signature; 0 if it was never signed.",
            None,
            {"": later},
        )

    def _database(self) -> Iterator[Family]:
        """Yield the database's size and, on PostgreSQL, its connections."""
        if self.session.get_bind().dialect.name == "sqlite":
            pages, size = (self.session.scalar(text(f"PRAGMA {name}")) for name in ("page_count", "page_size"))
            yield _gauge("database_bytes", "Size of the database.", None, {"": pages * size})
            return
        used = self.session.scalar(text("SELECT pg_database_size(current_database())"))
        yield _gauge("database_bytes", "Size of the database.", None, {"": used})
        query = (
            "SELECT coalesce(state, 'other'), count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "GROUP BY 1 ORDER BY 1"
        )
        states = {row[0]: row[1] for row in self.session.execute(text(query))}
        yield _gauge("database_connections", "Connections to the database by state.", "state", states)
        most = self.session.scalar(text("SELECT current_setting('max_connections')::integer"))
        yield _gauge("database_connections_limit", "Connections that the server takes in all.", None, {"": most})


def _gauge(name: str, text: str, label: str | None, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"shuffleboard_{name}", text, labels=() if label is None else (label,))
    for key, value in values.items():
        family.add_metric(() if label is None else (key,), float(value))
    return family

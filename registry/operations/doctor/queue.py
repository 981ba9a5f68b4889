"""Checks of workers and of their work."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, func, or_, select

from registry.db import database_now, read_session
from registry.operations.doctor.findings import Context, Outcome, ok, problem, warning
from registry.proposals import propose
from registry.queue import claims, stalls
from registry.tables import QUEUES, Evaluation, Shard, Worker

LISTED = 5
A_DAY_S = 86_400.0

START = f"start one: {propose('worker')}"


def _join_some(items: Sequence[str]) -> str:
    more = f", and {len(items) - LISTED} more" if len(items) > LISTED else ""
    return ", ".join(items[:LISTED]) + more


def _rows(context: Context, query: Any) -> Sequence[Any]:
    with read_session(context.engine) as session:
        return session.execute(query).all()


def _is_waiting(context: Context) -> bool:
    with read_session(context.engine) as session:
        return claims.work_remains(session, QUEUES)


def workers(context: Context) -> Outcome:
    """Report live workers, and workers that fell silent within a day without signing off."""
    with read_session(context.engine) as session:
        ended = claims.list_gone(session)
    is_live = and_(claims.worker_is_live(), Worker.id.not_in(ended))
    live = _rows(context, select(Worker.host, Worker.device).where(is_live).order_by(Worker.host))
    silent = _rows(
        context,
        select(Worker.host, Worker.pid, Worker.last_seen)
        .where(
            Worker.stopped_at.is_(None),
            or_(Worker.last_seen <= database_now(-claims.ALIVE_SECONDS), Worker.id.in_(ended)),
            Worker.last_seen > database_now(-A_DAY_S),
        )
        .order_by(Worker.last_seen.desc()),
    )
    if not live and _is_waiting(context):
        return problem("none is alive, but work is waiting", START)
    state = f"{len(live)} alive" + (f" ({_join_some([f'{row.device} on {row.host}' for row in live])})" if live else "")
    if silent:
        gone = _join_some([f"process {row.pid} on {row.host} since {row.last_seen:%H:%M} UTC" for row in silent])
        return warning(f"{state}; disappeared without signing off: {gone}", "check its log, and start it again")
    return ok(state)


def queues(context: Context) -> Outcome:
    """Report queues with waiting work that no live worker serves."""
    with read_session(context.engine) as session:
        lacking = claims.queues_without_worker(session)
    if lacking:
        return problem(
            f"work is waiting on {', '.join(lacking)}, which no live worker serves",
            f"start one: {propose('worker', '--queues', ','.join(lacking))}",
        )
    return ok("none without a worker")


def versions(context: Context) -> Outcome:
    """Check that live workers run this code, and one set of packages."""
    live = _rows(context, select(Worker.host, Worker.versions).where(claims.worker_is_live()))
    code = "shuffleboard"
    others = sorted(
        {f"{row.host} ({row.versions.get(code)})" for row in live if row.versions.get(code) != context.code_version}
    )
    mixed = claims.differing_versions([row.versions for row in live])
    remedy = "install the same code and constraints.txt on every host, and restart the workers"
    if others:
        return warning(f"this is {context.code_version}; others: {_join_some(others)}", remedy)
    if mixed:
        listed = _join_some([f"{package} {' and '.join(sorted(counts))}" for package, counts in mixed.items()])
        return warning(f"workers differ in {listed}", remedy)
    return ok(f"{context.code_version} on all of {len(live)} live workers")


def check_parked(context: Context) -> Outcome:
    """Report shards that are parked, with their errors."""
    shards = _rows(
        context,
        select(Shard.evaluation_id, func.count().label("shards"), func.min(Shard.error).label("error"))
        .where(Shard.state == "failed")
        .group_by(Shard.evaluation_id)
        .order_by(Shard.evaluation_id),
    )
    if shards:
        listed = _join_some(
            [f"evaluation {row.evaluation_id} ({row.shards}: {str(row.error)[:100]})" for row in shards]
        )
        return warning(
            f"parked: {listed}", f"fix the cause, then: {propose('evaluations retry', shards[0].evaluation_id)}"
        )
    return ok("no shard is parked")


def leases(context: Context) -> Outcome:
    """Report shards whose lease has expired and that are not queued again."""
    expired = _rows(
        context,
        select(Shard.id, Shard.evaluation_id, Worker.host, Worker.pid)
        .outerjoin(Worker, Worker.id == Shard.worker_id)
        .where(Shard.state == "leased", Shard.lease_until < database_now())
        .order_by(Shard.id),
    )
    if not expired:
        return ok("none has expired")
    listed = _join_some(
        [f"shard {row.id} of evaluation {row.evaluation_id}, process {row.pid} on {row.host}" for row in expired]
    )
    with read_session(context.engine) as session:
        alive = claims.live_workers(session)
    if alive:
        return warning(
            f"expired: {listed}",
            f"wait for {context.settings.reconcile_seconds:g} s (SHUFFLEBOARD_RECONCILE_SECONDS): a live worker queues "
            "them again; if it does not, check its log",
        )
    return problem(f"held by dead workers: {listed}", f"no worker is alive that could queue them again; {START}")


def progress(context: Context) -> Outcome:
    """Report shards that live workers take too long for, and shards that were taken from hung workers."""
    with read_session(context.engine) as session:
        late = stalls.overdue(session, context.settings)
        given_up = stalls.list_stalled(session, A_DAY_S)
    remedy = "look at the worker's log, and at its device; end a process that does not end by itself"
    if late:
        listed = _join_some([f"{_describe_shard(shard)}, in work for {shard.seconds:.0f} s" for shard in late])
        return warning(f"far slower than measured: {listed}", remedy)
    if given_up:
        listed = _join_some([f"{_describe_shard(shard)}, at {shard.at:%H:%M} UTC" for shard in given_up])
        return warning(f"taken from hung workers within a day: {listed}", remedy)
    return ok("no worker has hung within a day")


def _describe_shard(shard: stalls.Overdue | stalls.Stalled) -> str:
    return f"shard {shard.shard_id} of evaluation {shard.evaluation_id}, process {shard.pid} on {shard.host}"


def waiting(context: Context) -> Outcome:
    """Report the oldest evaluation whose shards have been queued for too long."""
    oldest = _rows(
        context,
        select(Shard.evaluation_id, Shard.queue, Evaluation.created_at)
        .join(Evaluation, Evaluation.id == Shard.evaluation_id)
        .where(
            Shard.state == "queued",
            Evaluation.state.in_(("queued", "running")),
            Evaluation.created_at < database_now(-context.limits.waiting_seconds),
        )
        .order_by(Evaluation.created_at)
        .limit(1),
    )
    if not oldest:
        return ok(f"nothing for longer than {context.limits.waiting_seconds / 3600:g} h")
    row = oldest[0]
    return warning(
        f"evaluation {row.evaluation_id} on {row.queue} since {row.created_at:%Y-%m-%d %H:%M} UTC",
        f"add workers, raise its --priority, or cancel what is not wanted: {propose('evaluations list')}",
    )


def sealing(context: Context) -> Outcome:
    """Report evaluations that are scored but not sealed."""
    with read_session(context.engine) as session:
        ready = claims.ready_to_seal(session)
        alive = claims.live_workers(session)
    if not ready:
        return ok("everything that is scored is sealed")
    state = f"scored and not sealed: {_join_some([f'evaluation {number}' for number in ready])}"
    if alive:
        return warning(
            state,
            f"wait for {context.settings.reconcile_seconds:g} s (SHUFFLEBOARD_RECONCILE_SECONDS); if that does not "
            "help, look for seal_refused in the workers' logs",
        )
    return problem(state, f"no worker is alive that could seal them; {START}")

"""`shuffleboard worker beat` and `shuffleboard worker alive`."""

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Final

import click
from sqlalchemy import Engine, func, select
from sqlalchemy.exc import DBAPIError

from registry.db import database_now, read_session
from registry.errors import DatabaseError, GenerationError, UsageError
from registry.operations.maintenance import log_trouble
from registry.operations.opening import engine_of, engine_when_reachable
from registry.private import make_folder
from registry.process_log import log
from registry.queue import claims
from registry.queue.broker import require_admission
from registry.settings import Settings
from registry.tables import Worker
from shuffleboard.cli.common import settings_of
from workers.celery import app, schedule

GRACE_SECONDS: Final = 7.0
"""Seconds that a round may continue after a stop; the next round, on any host, does the rest."""
ROUNDS: Final = 10
"""Number of periods without a complete round after which a beat counts as hung."""


@click.command()
@click.option("--once", is_flag=True, help="Do everything once and exit; for cron.")
def beat(once: bool) -> None:
    """Keep the queue moving until stopped; score nothing.

    Every SHUFFLEBOARD_RECONCILE_SECONDS: queue shards of dead workers again, send lost messages again, seal complete
    evaluations and renew boards, move submissions on. Workers do the same between shards, so this is
    for times when none runs or all are busy. Several may run at once. It does not need torch.

    SIGTERM and Ctrl-C stop it with status 0.
    """
    settings = settings_of()
    engine_of(settings) if once else engine_when_reachable(settings)
    if settings.broker_url:
        require_admission(settings)
    if once:
        try:
            _round(settings)
        except DBAPIError as error:
            reason = str(error.orig).splitlines()[0]
            raise DatabaseError(f"the database cannot be used: {reason}; fix that and run this again") from error
        return
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    threading.Thread(target=_leave_in_time, args=(stopping,), name="leaving", daemon=True).start()
    sign = sign_of_life(settings)
    _write(sign)  # before the first round, so that an unwritable folder is reported at once
    log.info("beat_started", seconds=settings.reconcile_seconds)
    while not stopping.is_set():
        try:
            _round(settings)
            _write(sign)
        except DBAPIError as error:
            log_trouble(error)
        except GenerationError as error:
            log.warning("registry_generation_changed", error=str(error))
        stopping.wait(settings.reconcile_seconds)
    log.info("beat_stopped")


def _round(settings: Settings) -> None:
    """Run the recurring tasks in this process."""
    app.loader.import_default_modules()
    for entry in schedule(settings).values():
        app.tasks[entry["task"]]()


def _leave_in_time(stopping: threading.Event) -> None:
    stopping.wait()
    time.sleep(GRACE_SECONDS)
    log.warning("beat_leaves", reason="the round did not finish in time; the next one does the rest")
    os._exit(0)


def sign_of_life(settings: Settings) -> Path:
    """Return the file in the data directory that a beat touches after each round."""
    return settings.home.expanduser() / "beat"


def _write(sign: Path) -> None:
    try:
        make_folder(sign.parent)
        sign.touch(mode=0o600)
    except OSError as error:
        raise UsageError(
            f"{sign}: cannot be written ({error.strerror}); set SHUFFLEBOARD_HOME to a folder of this account"
        ) from None


@click.command()
@click.argument("what", type=click.Choice(("worker", "beat")), default="worker")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=None,
    help="Seconds of silence that count as dead. Default: 30 for worker, 10 × SHUFFLEBOARD_RECONCILE_SECONDS for beat.",
)
def alive(what: str, seconds: float | None) -> None:
    """Exit with status 1 unless a worker, or with `beat` a beat, on this host is alive.

    A worker records a sign of life in the database three times in 30 seconds, beat in its data directory after each
    round. For health checks of containers; `shuffleboard doctor` checks all hosts.
    """
    settings = settings_of()
    if what == "worker":
        limit = seconds or claims.ALIVE_SECONDS
        silent, nothing_alive = _silence_of_worker(engine_of(settings)), f"no worker on {socket.gethostname()}"
    else:
        limit = seconds or ROUNDS * settings.reconcile_seconds
        silent, nothing_alive = _silence_of_beat(sign_of_life(settings)), f"no beat in {settings.home}"
    if silent is None or silent > limit:
        ago = "" if silent is None else f"; the last one was {silent:.0f} s ago"
        click.echo(f"{nothing_alive} has shown a sign of life for {limit:g} s{ago}: check its log", err=True)
        sys.exit(1)
    click.echo(f"alive: {max(0.0, silent):.0f} s since the last sign of life")


def _silence_of_worker(engine: Engine) -> float | None:
    """Return the seconds, by the database's clock, since a running worker of this host was last seen."""
    with read_session(engine) as session:
        query = select(func.max(Worker.last_seen), database_now()).where(
            Worker.host == socket.gethostname(),
            Worker.stopped_at.is_(None),
            Worker.id.not_in(claims.list_gone(session)),
        )
        seen, now = session.execute(query).one()
    return None if seen is None else float((now - seen).total_seconds())


def _silence_of_beat(sign: Path) -> float | None:
    try:
        return time.time() - sign.stat().st_mtime
    except OSError:
        return None

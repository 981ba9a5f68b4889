"""The Celery application: broker, routes, schedule, concurrency; the tasks are in tasks.py.

    celery -A workers.celery worker -Q gpu,cpu
    celery -A workers.celery beat
    celery -A workers.celery inspect active

A message only permits a worker to score one shard; the record of the shard is in the database. So a lost message loses
no work: messages are acknowledged early, and Celery's redelivery, which repeats without limit, is not used.
"""

import logging
import threading
from contextlib import suppress
from os import EX_OK
from typing import Any, Final

import click
import structlog
from celery import Celery
from celery.bootsteps import StartStopStep
from celery.concurrency.thread import TaskPool
from celery.signals import setup_logging, worker_shutdown, worker_shutting_down
from celery.worker import state
from kombu.connection import Connection

from registry.db import read_session
from registry.errors import ShuffleboardError, UsageError
from registry.operations.opening import engine_of, engine_when_reachable
from registry.process_log import log, log_to_stderr
from registry.proposals import propose
from registry.queue.broker import broker_address, configuration, require_admission
from registry.queue.hints import SCORE_TASK
from registry.settings import Settings, get_settings
from registry.tables import QUEUES, Shard
from workers import messages
from workers.loop import WorkerLoop
from workers.messages import MAINTENANCE, PREFIX
from workers.starting import DEVICE, OPTIONS, scoring_loop
from workers.stopping import leave_in_time


class App(Celery):
    """A Celery application whose worker has at most one scoring loop; `loop` is None if it scores nothing."""

    loop: WorkerLoop | None = None

    def connection_for_read(self, url: str | None = None, **options: Any) -> Connection:
        """Return a connection to the broker. Raises ClickException if no broker is configured."""
        return super().connection_for_read(url or self._broker(), **options)

    def connection_for_write(self, url: str | None = None, **options: Any) -> Connection:
        """Return a connection to the broker."""
        return super().connection_for_write(url or self._broker(), **options)

    def _broker(self) -> str:
        if not self.conf.broker_url:
            raise click.ClickException("Celery needs a broker: set SHUFFLEBOARD_BROKER_URL=redis://host:6379/0")
        return str(self.conf.broker_url)


def schedule(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the recurring tasks, which Celery's beat sends to the queue `maintenance` and `worker beat` runs."""
    every = settings.reconcile_seconds
    name = "shuffleboard.maintain"
    return {name: {"task": name, "schedule": every, "options": {"expires": every}}}


def queue_of_shard(name: str, args: tuple[Any, ...], *_: Any, **__: Any) -> dict[str, str] | None:
    """Route a shard to the queue of its model's device."""
    if name != SCORE_TASK:
        return None
    with read_session(engine_of(get_settings())) as session:
        shard = session.get(Shard, args[0])
    if shard is None:
        raise UsageError(f"there is no shard {args[0]}; see them: {propose('evaluations show', 'ID', '--json')}")
    return {"queue": shard.queue}


def _configuration() -> dict[str, Any]:
    try:
        settings = get_settings()
        broker_address(settings)
    except UsageError as error:
        raise click.ClickException(str(error)) from None
    return configuration(
        settings,
        {"visibility_timeout": 3600},
        worker_consumer=f"{__package__}.consumer:PatientConsumer",  # a wheel has our packages in `shuffleboard`
        task_routes=(queue_of_shard, {f"{PREFIX}*": {"queue": MAINTENANCE}}),
        task_default_queue=QUEUES[0],
        task_acks_late=False,
        beat_schedule=schedule(settings),
        beat_scheduler="celery.beat:Scheduler",  # without a file: after a restart all tasks are due at once
        # One shard at a time, in a thread, so that the worker still answers `inspect`.
        worker_pool="threads",
        worker_concurrency=1,
        worker_prefetch_multiplier=1,
        worker_send_task_events=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
    )


class Scoring(StartStopStep):
    """Starts the scoring loop of a worker that serves queues of shards, unless `shuffleboard worker` started it."""

    requires = ("celery.worker.components:Timer",)

    def __init__(self, worker: Any, device: str | None = None, **options: Any) -> None:
        served = [name for name in worker.app.amqp.queues.consume_from if name in QUEUES]
        self.is_own = worker.app.loop is None and bool(served)
        if worker.app.loop is None and not served:
            return
        if not issubclass(worker.pool_cls, TaskPool) or worker.concurrency != 1:
            raise click.UsageError("one shard is scored at a time, in a thread; leave out --pool and --concurrency")
        if self.is_own:
            chosen = {option.name: options[option.name] for option in OPTIONS}
            try:
                settings = get_settings()
                engine = engine_when_reachable(settings)
                require_admission(settings)
                worker.app.loop = scoring_loop(engine, settings, served, device, **chosen)
            except ShuffleboardError as error:
                raise click.ClickException(str(error)) from None

    def start(self, worker: Any) -> None:
        """Start the loop's threads, which work with and without messages."""
        loop = worker.app.loop
        if loop is None:
            return
        if self.is_own:
            loop.start()
            leave_in_time(loop)
            worker_shutdown.connect(lambda **_: loop.leave(), weak=False)
        loop.poll_beside_messages()
        threading.Thread(target=_stop_celery_with, args=(loop,), name="stopping", daemon=True).start()


def _stop_celery_with(loop: WorkerLoop) -> None:
    """Stop Celery once the loop stops: after a signal before Celery listened for it, or after a thread crashed."""
    loop.stopping.wait()
    state.should_stop = loop.exit_status or EX_OK


messages.use()
app: Final = App("shuffleboard", include=[f"{__package__}.tasks"])
app.add_defaults(_configuration)
app.steps["worker"].add(Scoring)
app.user_options["worker"].update((DEVICE, *OPTIONS))


@worker_shutting_down.connect
def _stop(**_: Any) -> None:
    if app.loop is not None:
        app.loop.stopping.set()


@setup_logging.connect
def _log(loglevel: int | str, **_: Any) -> None:
    """Give Celery's log lines our format; `--loglevel` sets our level too, unless `shuffleboard worker` runs Celery."""
    logging.getLogger("celery").setLevel(loglevel)
    if app.loop is None:
        log_to_stderr(logging.getLogger("celery").level)


def run_worker(loop: WorkerLoop) -> None:
    """Run a Celery worker in this process until it is stopped, waiting for a broker that is down."""
    app.loop = loop
    with structlog.contextvars.bound_contextvars(worker=loop.id):  # also in Celery's log
        with suppress(SystemExit):
            app.worker_main(
                [
                    "worker",
                    f"--queues={','.join(loop.queues)}",
                    f"--hostname=shuffleboard-{loop.id[:8]}@%h",
                    "--without-gossip",
                    "--without-mingle",
                    "--loglevel=warning",
                ]
            )
        if not loop.stopping.is_set():
            loop.broken = True
            log.error(
                "worker_ended", reason="Celery ended although nothing had told this worker to stop; start it again"
            )

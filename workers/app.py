"""Celery's configuration: JSON only, one process per device, messages acknowledged early.

A message is an entitlement to score one shard, not the shard's record; the database is. So nothing is lost with a
message, and Celery's redelivery, which repeats without limit, is not used.
"""

import threading
from contextlib import suppress
from os import EX_OK
from typing import Any

import structlog
from celery import Celery
from celery.signals import worker_shutting_down
from celery.worker import state

from registry.logs import log
from registry.queue.broker import celery_app
from registry.queue.hints import SCORE_TASK
from registry.settings import Settings
from workers import messages
from workers.loop import WorkerLoop


def make_app(settings: Settings, loop: WorkerLoop) -> Celery:
    """A Celery application whose one task lets `loop` work on one shard."""
    messages.use()
    app = celery_app(
        settings,
        {"visibility_timeout": 3600},
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
    )

    @app.task(name=SCORE_TASK)
    def score(_shard_id: int) -> None:
        """Scores the best queued shard, which need not be the one the message names."""
        loop.work_for_message()

    @worker_shutting_down.connect(weak=False)
    def _stop(**_kwargs: Any) -> None:
        loop.stopping.set()

    return app


def _stop_celery_with(loop: WorkerLoop) -> None:
    """Stops Celery with the worker: after a signal that came before Celery listened, or a thread that crashed."""
    loop.stopping.wait()
    state.should_stop = EX_OK


def run_worker(settings: Settings, loop: WorkerLoop) -> None:
    """Runs a Celery worker in this process until it is told to stop; waits for a broker that is down."""
    app = make_app(settings, loop)
    loop.poll_beside_messages()
    threading.Thread(target=_stop_celery_with, args=(loop,), name="stopping", daemon=True).start()
    with structlog.contextvars.bound_contextvars(worker=loop.id):  # in what Celery logs, too
        with suppress(SystemExit):
            app.worker_main(
                [
                    "worker",
                    "--pool=solo",
                    "--concurrency=1",
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

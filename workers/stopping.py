"""Stopping a worker process: the signals, and an exit in time whatever the worker is doing."""

import os
import signal
import threading
import time
from typing import Final

from registry.process_log import log
from workers.loop import GRACE_SECONDS, WorkerLoop

LEAVE_SECONDS: Final = 2.0
"""Seconds for which a worker that must exit tries to hand its shard back."""


def stop_on_signals(loop: WorkerLoop) -> None:
    """Make SIGTERM and SIGINT stop the worker. Celery has handlers of its own."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.stopping.set())


def leave_in_time(loop: WorkerLoop) -> None:
    """End this process within ten seconds of a stop, even during a batch that cannot be interrupted.

    The shard is handed back first. Only for processes that run one worker and nothing else.
    """

    def watch() -> None:
        loop.stopping.wait()
        time.sleep(GRACE_SECONDS)
        log.warning("worker_leaves", reason="the current batch did not finish in time; its shard is handed back")
        # In a thread, since a database that does not answer must not keep the process alive.
        last_words = threading.Thread(target=loop.sign_off, daemon=True)
        last_words.start()
        last_words.join(LEAVE_SECONDS)
        os._exit(loop.exit_status)

    threading.Thread(target=watch, name="leaving", daemon=True).start()

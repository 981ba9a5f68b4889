"""`shuffleboard worker`."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import click

from registry.errors import UpgradedError
from registry.files.attended import tell_to
from registry.operations.opening import engine_when_reachable
from registry.process_log import log
from registry.queue.broker import require_admission
from registry.tables import QUEUES
from shuffleboard.cli.common import settings_of
from shuffleboard.cli.groups import Group
from workers.starting import OPTIONS, scoring_loop
from workers.stopping import leave_in_time, stop_on_signals

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 300.0
"""Longest pause before a failed worker is started again."""
MOST_STARTS: Final = 3
"""Most starts of a failing worker that somebody waits for."""
USAGE_STATUS: Final = click.UsageError.exit_code


@click.group(
    cls=Group,
    invoke_without_command=True,
    lazily={"alive": "shuffleboard.cli.beat:alive", "beat": "shuffleboard.cli.beat:beat"},
)
@click.option("--until-idle", is_flag=True, help="Exit when nothing is left to score.")
@click.option("--queues", default=None, help="Queues to serve, comma-separated: cpu, gpu. Default: by device.")
@click.option(
    "--device",
    "devices",
    multiple=True,
    help="Device to score on, such as cpu or cuda:1. Repeated: a process for each. Default: the first GPU, or cpu.",
)
@click.pass_context
def worker(
    context: click.Context,
    /,
    until_idle: bool,
    queues: str | None,
    devices: tuple[str, ...],
    **options: Any,
) -> None:
    """Score queued evaluations until stopped.

    Pulls tasks from Redis when SHUFFLEBOARD_BROKER_URL is set, and polls the database otherwise or while no task
    comes. One process scores on one device. SIGTERM and Ctrl-C hand the current shard back and exit with status 0
    within ten seconds; a killed worker's shard goes to another once its lease has expired. If the database is upgraded
    meanwhile, the worker stores its shard and exits with status 75: start it again with the version that it names.
    """
    if context.invoked_subcommand is not None:
        return
    served = queues.split(",") if queues else None
    for name in served or ():
        if name not in QUEUES:
            raise click.UsageError(f"queue {name!r}: use {', '.join(QUEUES)}")
    if len(devices) > 1:
        flags = {"--queues": queues} | {option.opts[0]: options[option.name or ""] for option in OPTIONS}
        words = [word for flag, value in flags.items() if value is not None for word in (flag, str(value))]
        sys.exit(_one_process_each(devices, [*words, "--until-idle"] if until_idle else words))
    settings = settings_of()
    tell_to(None)
    engine = engine_when_reachable(settings)
    if settings.broker_url:
        require_admission(settings)
    loop = scoring_loop(engine, settings, served, devices[0] if devices else None, **options)
    stop_on_signals(loop)
    leave_in_time(loop)
    loop.start()
    try:
        if settings.broker_url and not until_idle and not loop.stopping.is_set():
            from workers.celery import run_worker

            run_worker(loop)
        else:
            loop.run(until_idle=until_idle)
    finally:
        loop.leave()
    sys.exit(loop.exit_status)


worker.params += OPTIONS


def _one_process_each(devices: Sequence[str], options: Sequence[str]) -> int:
    """Run one worker for each device, restart failed ones, and stop all of them when this process is stopped.

    Returns 0 once all have ended normally, 75 if the database was upgraded. The pauses before a failing worker's
    restarts grow, and the other workers go on; with `--until-idle` it is given up after MOST_STARTS, and the result is
    1. A missing device is given up at once. The workers are separate processes rather than forks: a process forked
    after importing torch hangs. This process does not import it.
    """
    command = [sys.executable, "-m", "shuffleboard.cli", "worker", *options]
    stopping = threading.Event()
    running: list[subprocess.Popen[bytes]] = []
    failed: list[int] = []

    def keep(device: str) -> None:
        pause = FIRST_PAUSE_SECONDS
        for start in range(1, sys.maxsize):
            began = time.monotonic()
            process = subprocess.Popen([*command, "--device", device])  # noqa: S603 - our own command
            running.append(process)
            if stopping.is_set():
                process.terminate()
            status = process.wait()
            running.remove(process)
            if status == 0 or stopping.is_set():
                break
            if (start == 1 and status == USAGE_STATUS) or (start == MOST_STARTS and "--until-idle" in options):
                break
            pause = FIRST_PAUSE_SECONDS if time.monotonic() - began > LONGEST_PAUSE_SECONDS else pause
            log.error("worker_of_device_ended", device=device, status=status, starts_again_in_s=pause)
            stopping.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        if status != 0 and not stopping.is_set():
            failed.append(status)

    def stop(*_: object) -> None:
        stopping.set()
        for process in tuple(running):
            process.terminate()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    keepers = [threading.Thread(target=keep, args=(device,), name=device) for device in devices]
    for keeper in keepers:
        keeper.start()
    for keeper in keepers:
        while keeper.is_alive():
            keeper.join(0.2)  # signals are handled between two waits
    return UpgradedError.exit_status if UpgradedError.exit_status in failed else int(bool(failed))

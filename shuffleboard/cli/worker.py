"""`shuffleboard worker`."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

import click

from registry.files.attended import tell_to
from registry.logs import log
from registry.queue.broker import require_admission
from registry.tables import QUEUES
from shuffleboard.cli.common import engine_when_reachable, settings_of
from shuffleboard.cli.groups import Group
from workers.loop import UNLOAD_SECONDS, WorkerLoop
from workers.quiet import quiet_libraries
from workers.scorer import ENGINES, TransformersScorer
from workers.stopping import leave_in_time, stop_on_signals

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 300.0
"""Between two starts of a worker that fails."""
MOST_STARTS: Final = 3
"""Of a worker that somebody waits for."""
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
@click.option("--threads", type=click.IntRange(min=1), default=None, help="CPU threads. Default: all cores.")
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(ENGINES),
    default=ENGINES[0],
    show_default=True,
    help="How prompts are scored. auto: on a GPU by vLLM if it is installed and knows the model, else in batches by "
    "transformers. On a CPU by the token trie. trie: shared tokens once; batched: prompts in batches; reference: one "
    "by one.",
)
@click.option("--tensor-parallel", type=click.IntRange(min=1), default=1, help="GPUs over which vLLM splits layers.")
@click.option(
    "--pipeline-parallel", type=click.IntRange(min=1), default=1, help="Groups of GPUs, each with a part of the layers."
)
@click.option(
    "--memory",
    type=click.IntRange(min=1),
    default=None,
    help="MiB that scoring may use besides the model. Default: 2048; on a GPU, three quarters of the free memory.",
)
@click.option(
    "--unload-after",
    type=click.FloatRange(min=0),
    default=UNLOAD_SECONDS,
    show_default=True,
    help="Seconds without work after which the model is unloaded.",
)
@click.pass_context
def worker(
    context: click.Context,
    until_idle: bool,
    queues: str | None,
    devices: tuple[str, ...],
    threads: int | None,
    engine_name: str,
    tensor_parallel: int,
    pipeline_parallel: int,
    memory: int | None,
    unload_after: float,
) -> None:
    """Score queued evaluations until stopped.

    Pulls tasks from Redis when SHUFFLEBOARD_BROKER_URL is set, and polls the database otherwise or while no task
    comes. One process scores on one device. SIGTERM and Ctrl-C hand the current shard back and exit with status 0
    within ten seconds; a killed worker's shard goes to another once its lease has expired.
    """
    if context.invoked_subcommand is not None:
        return
    served = queues.split(",") if queues else None
    for name in served or ():
        if name not in QUEUES:
            raise click.UsageError(f"queue {name!r}: use {', '.join(QUEUES)}")
    if len(devices) > 1:
        options = ["--unload-after", str(unload_after), "--engine", engine_name]
        options += ["--tensor-parallel", str(tensor_parallel), "--pipeline-parallel", str(pipeline_parallel)]
        options += ["--memory", str(memory)] if memory else []
        options += ["--until-idle"] if until_idle else []
        options += ["--queues", queues] if queues else []
        options += ["--threads", str(threads)] if threads else []
        sys.exit(_one_process_each(devices, options))
    settings = settings_of()
    tell_to(None)
    engine = engine_when_reachable(settings)
    if settings.broker_url:
        require_admission(settings)
    quiet_libraries()
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    scorer = TransformersScorer(
        settings.home.expanduser(),
        devices[0] if devices else None,
        engine=engine_name,
        memory_mb=memory,
        gpus=(tensor_parallel, pipeline_parallel),
    )
    try:
        scorer.device()
    except (AssertionError, RuntimeError) as error:  # torch's, for a name it does not know or a GPU that is not there
        if not devices:
            raise
        reason = str(error).splitlines()[0]
        raise click.UsageError(f"--device {devices[0]}: {reason}; see what there is: shuffleboard doctor") from None
    _require_gpus(tensor_parallel, pipeline_parallel)
    if served is None:
        served = ["cpu"] if scorer.device() == "cpu" else ["gpu", "cpu"]
    loop = WorkerLoop(engine, settings, scorer, served, unload_seconds=unload_after)
    stop_on_signals(loop)
    leave_in_time(loop)
    loop.start()
    try:
        if settings.broker_url and not until_idle and not loop.stopping.is_set():
            from workers.app import run_worker

            run_worker(settings, loop)
        else:
            loop.run(until_idle=until_idle)
    finally:
        loop.stop()
        scorer.unload()  # processes of vLLM would keep the GPU's memory
    if loop.broken:
        sys.exit(1)


def _require_gpus(tensor_parallel: int, pipeline_parallel: int) -> None:
    """Raises UsageError unless the host has the GPUs over which vLLM is asked to spread a model."""
    if tensor_parallel * pipeline_parallel == 1:
        return
    import torch

    wanted, there = tensor_parallel * pipeline_parallel, torch.cuda.device_count()
    if there < wanted:
        option = f"--tensor-parallel {tensor_parallel} --pipeline-parallel {pipeline_parallel}"
        raise click.UsageError(f"{option} needs {wanted} GPUs, and torch sees {there}; see: shuffleboard doctor")


def _one_process_each(devices: Sequence[str], options: Sequence[str]) -> int:
    """Runs a worker for each device, and starts one again that failed; stops them all when it is stopped.

    Returns 0 once all have ended as they should. A worker that keeps failing is started more and more rarely, and the
    others go on; with `--until-idle` it is given up after MOST_STARTS, and the result is 1. A device that there is not
    is given up at once.
    Separate processes rather than forks: a process forked after importing torch hangs. This one does not import it.
    """
    command = [sys.executable, "-m", "shuffleboard.cli", "worker", *options]
    stopping = threading.Event()
    running: list[subprocess.Popen[bytes]] = []
    failed: list[str] = []

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
            failed.append(device)

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
            keeper.join(0.2)  # signals are handled in between
    return 1 if failed else 0

"""`shuffleboard worker`."""

import signal
from types import FrameType

import click

from registry.cli.common import engine_of, settings_of
from registry.models import QUEUES
from workers.loop import WorkerLoop
from workers.scorer import TransformersScorer, quiet_libraries


@click.command()
@click.option("--until-idle", is_flag=True, help="End when nothing is left to score.")
@click.option("--queues", default=None, help="Queues to serve, comma-separated: cpu, gpu, match. Default: by device.")
@click.option(
    "--device", default=None, help="Device to score on, such as cpu or cuda:1. Default: the first GPU, or cpu."
)
@click.option("--threads", type=click.IntRange(min=1), default=None, help="CPU threads. Default: all cores.")
def worker(until_idle: bool, queues: str | None, device: str | None, threads: int | None) -> None:
    """Score queued evaluations until stopped.

    Pulls tasks from Redis when SHUFFLEBOARD_BROKER_URL is set, and polls the database otherwise. Start one process per
    device. SIGTERM and Ctrl-C hand the shard in work back and end with status 0; a killed worker's shard is given to
    another once its lease has run out.
    """
    settings = settings_of()
    engine = engine_of(settings)
    quiet_libraries()
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    scorer = TransformersScorer(settings.home.expanduser(), device)
    served = queues.split(",") if queues else (["cpu"] if scorer.device() == "cpu" else ["gpu", "cpu"])
    for name in served:
        if name not in QUEUES:
            raise click.UsageError(f"queue {name!r}: use {', '.join(QUEUES)}")
    loop = WorkerLoop(engine, settings, scorer, served)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        loop.stopping.set()

    loop.start()
    try:
        if settings.broker_url and not until_idle:
            from workers.app import run_worker

            run_worker(settings, loop)
        else:
            signal.signal(signal.SIGTERM, stop)
            signal.signal(signal.SIGINT, stop)
            loop.run(until_idle=until_idle)
    finally:
        loop.stop()

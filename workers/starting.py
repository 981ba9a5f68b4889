"""Builds a scoring worker, for `shuffleboard worker` and for Celery."""

from collections.abc import Sequence
from typing import Final

import click
from sqlalchemy import Engine

from registry.proposals import propose
from registry.settings import Settings
from workers.choice import classes_of
from workers.loop import UNLOAD_SECONDS, WorkerLoop
from workers.quiet import quiet_libraries
from workers.scorer import ENGINES, TransformersScorer

DEVICE: Final = click.Option(
    ["--device"], default=None, help="Device to score on, such as cpu or cuda:1. Default: the first GPU, or cpu."
)
OPTIONS: Final = (
    click.Option(["--threads"], type=click.IntRange(min=1), default=None, help="CPU threads. Default: all cores."),
    click.Option(
        ["--engine"],
        type=click.Choice(ENGINES),
        default=ENGINES[0],
        show_default=True,
        help="How prompts are scored. auto: on a GPU by vLLM where it is installed and knows the model, else in "
        "batches by transformers; on a CPU by the token trie. trie: shared tokens once; batched: prompts in batches; "
        "reference: one by one.",
    ),
    click.Option(
        ["--tensor-parallel"],
        type=click.IntRange(min=1),
        default=1,
        help="GPUs over which vLLM splits layers.",
    ),
    click.Option(
        ["--pipeline-parallel"],
        type=click.IntRange(min=1),
        default=1,
        help="Groups of GPUs, each with a part of the layers.",
    ),
    click.Option(
        ["--memory"],
        type=click.IntRange(min=1),
        default=None,
        help="MiB that scoring may use besides the model. Default: 2048; on a GPU, three quarters of the free memory.",
    ),
    click.Option(
        ["--unload-after"],
        type=click.FloatRange(min=0),
        default=UNLOAD_SECONDS,
        show_default=True,
        help="Seconds without work after which the model is unloaded.",
    ),
)
"""Options of each process that scores."""


def scoring_loop(
    engine_of_registry: Engine,
    settings: Settings,
    served: Sequence[str] | None,
    device: str | None,
    *,
    threads: int | None,
    engine: str,
    tensor_parallel: int,
    pipeline_parallel: int,
    memory: int | None,
    unload_after: float,
) -> WorkerLoop:
    """Return a claim loop that has not started. served: its queues; None: its device's queues.

    For the other arguments, see OPTIONS. A worker that serves `gpu` serves the queues of all classes that fit its
    memory.

    Raises click.UsageError for a device, or a number of GPUs, that this host lacks.
    """
    quiet_libraries()
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    scorer = TransformersScorer(
        settings.home.expanduser(),
        device,
        engine=engine,
        memory_mb=memory,
        gpus=(tensor_parallel, pipeline_parallel),
    )
    try:
        scorer.device()
    except (AssertionError, RuntimeError) as error:  # torch raises these for an unknown name or a missing GPU
        if device is None:
            raise
        reason = str(error).splitlines()[0]
        raise click.UsageError(f"--device {device}: {reason}; see what there is: {propose('doctor')}") from None
    wanted = tensor_parallel * pipeline_parallel
    if wanted > 1 and torch.cuda.device_count() < wanted:
        options = f"--tensor-parallel {tensor_parallel} --pipeline-parallel {pipeline_parallel}"
        available = torch.cuda.device_count()
        raise click.UsageError(f"{options} needs {wanted} GPUs, and torch sees {available}; see: {propose('doctor')}")
    if served is None:
        served = ["cpu"] if scorer.device() == "cpu" else ["gpu", "cpu"]
    if "gpu" in served:
        served = [*served, *(name for name in classes_of(scorer.memory_bytes() * wanted) if name not in served)]
    return WorkerLoop(engine_of_registry, settings, scorer, served, unload_seconds=unload_after)

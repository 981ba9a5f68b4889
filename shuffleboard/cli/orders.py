"""`shuffleboard orders`."""

from pathlib import Path

import click

from registry.db import read_session
from registry.exchange.harness_tasks.orders import write_orders
from registry.names import plural
from registry.operations.opening import engine_of
from shuffleboard.cli.common import json_option, note, print_document, settings_of
from shuffleboard.cli.groups import Where


@click.command("orders")
@click.argument("benchmark")
@click.option(
    "--to", "--out", "out", cls=Where, type=click.Path(path_type=Path), required=True, help="New folder to write."
)
@click.option("--variants", default="cyclic", show_default=True, help="Kind of variants that changes only the order.")
@click.option("--protocol", default="symbols", show_default=True, help="Protocol of the prompts; one that scores.")
@click.option("--shots", type=int, default=0, show_default=True, help="Examples from the few-shot pool.")
@json_option
def orders(benchmark: str, out: Path, variants: str, protocol: str, shots: int) -> None:
    """Write BENCHMARK in several orders as a task for lm-evaluation-harness.

    BENCHMARK is NAME or NAME@VERSION. The folder has one task file (YAML) and its documents (JSON Lines), one for each
    question and order, with the prompts of the protocol. The samples that the harness writes with --log_samples are
    read by `audit` and `evaluations import`, each as the variant that it is.
    """
    with read_session(engine_of(settings_of())) as session:
        written = write_orders(session, benchmark, out, variants=variants, protocol=protocol, shots=shots)
    if print_document(written):
        return
    click.echo(
        f"{out}: task {written['task']}, {plural(written['documents'], 'document')} of "
        f"{plural(written['questions'], 'question')}"
    )
    note(f"run it with: lm_eval run --tasks {written['task']} --include_path {out} --log_samples …")

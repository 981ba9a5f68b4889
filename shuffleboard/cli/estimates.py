"""Prints an estimate of evaluations' costs as a table."""

from typing import Any, Final

import click

from registry.metrics import METRICS
from registry.queue.progress import duration
from shuffleboard.cli.common import note
from shuffleboard.cli.tables import parse_headings, print_table

HEADINGS: Final = {
    "benchmark": "Benchmark",
    "variants": "Variants",
    "protocol": "Protocol",
    "prompts_left": "Prompts",
    "tokens_naive": "Tokens",
    "tokens_shared": "Computed",
    "time": "Time",
}
MONEY: Final = {"cost": "Cost", "cost_limit": "At most"}
"""Additional columns for models of providers."""


def print_estimate(document: dict[str, Any]) -> None:
    """Print the estimates and their total on stdout, and the basis of the numbers as notes."""
    rows = list(document["estimates"])
    if len(rows) > 1:
        rows.append({**document, "benchmark": "together", "variants": "", "protocol": ""})
    timed = [row | {"time": None if row["seconds"] is None else duration(row["seconds"])} for row in rows]
    currency = document.get("currency")
    print_table(timed, HEADINGS if currency is None else HEADINGS | MONEY, "nothing to evaluate")
    if currency is not None:
        note(f"costs are in {currency}, as earlier answers came out and at most")
    for row in document["estimates"]:
        _note_evaluation(row)
    if "precision" in document:
        _print_sample(document)
    for reason in dict.fromkeys(row["reason"] for row in document["estimates"] if row["reason"]):
        note(f"unknown: {reason}")
    for row in document.get("engines", ()):
        _note_engine(row, document["queue"])
    sampled = sum(row.get("prompts_sampled", 0) for row in document["estimates"])
    if 0 < sampled < document["prompts_left"]:
        note(f"tokens were counted on {sampled} of {document['prompts_left']} prompts")
    if document["seconds"]:
        workers = min(document["workers"], document.get("max_workers") or document["workers"])
        together = duration(document["seconds"] / max(workers, 1))
        note(f"the time is for one worker{f'; with {workers} of the live workers {together}' if workers > 1 else ''}")


def _print_sample(document: dict[str, Any]) -> None:
    """Print the sample that reaches the precision, and its basis."""
    rows = [row | {"metric": METRICS[row["metric"]].label} for row in document["metrics"]]
    print_table(rows, parse_headings("metric, sample, half_width: Half width, pilot"), "")
    reached = f"--sample {document['sample']}" if document["sample"] < document["of"] else "all questions, no --sample"
    click.echo(f"±{document['precision']:g}: {reached}, of {document['of']}")
    if document["pilot"] is None:
        note("from the worst case, since no evaluation of this model, benchmark and protocol is sealed")


def _note_evaluation(row: dict[str, Any]) -> None:
    if row["evaluation"] is not None:
        note(f"evaluation {row['evaluation']} already exists, with {row['prompts_left']} prompts left")


def _note_engine(row: dict[str, Any], queue: str) -> None:
    name = f"{row['model']}@{row['revision']}"
    if row["engine"] is not None:
        because = "" if row["because"] is None else f", since {row['because']}"
        note(f"{name} is scored on the queue {queue} by {row['engine']}{because}")
    if queue == "cpu":
        return
    if row["weights_gib"] is not None:
        fits = f"; --queue {row['smallest']} leaves it to GPUs that hold it" if row["smallest"] else ""
        note(f"{name} needs {row['weights_gib']:.1f} GiB for its weights in {row['dtype']}{fits}")
    if row["dtype"] == "float32":
        note(f"{name} is in float32: in bfloat16 a GPU needs half the memory and is several times as fast")

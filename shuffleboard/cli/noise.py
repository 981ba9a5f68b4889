"""Prints repeat noise and the order effect, for several commands."""

from collections.abc import Mapping
from typing import Any

import click

from registry.verdicts.facts import Number
from registry.verdicts.wording import format_interval, value_text

noise_from_option = click.option(
    "--noise-from",
    type=int,
    default=None,
    metavar="EVALUATION",
    help="Take the repeat noise from this evaluation: of the same model revision, benchmark version and protocol.",
)


def print_noise(document: Mapping[str, Any]) -> None:
    """Print the disagreement of repeats, that of orders, and their difference, with intervals."""
    for label, name, metric, interval in (
        ("the same prompt again", "repeat_disagreement", "fluctuation_rate", "repeat_interval"),
        ("another order", "order_disagreement", "fluctuation_rate", "order_interval"),
        ("order effect, net of noise", "order_effect", "order_loss", "interval"),
    ):
        value, bounds = document[name], document[interval]
        unit = " of pairs differ" if value is not None and metric != "order_loss" else ""
        ends = "" if bounds is None else format_interval(metric, Number(value, 0, *bounds))
        click.echo(f"  {label:28} {value_text(metric, value)}{unit}{ends}")
    if document["noise_from"] not in ([], document["evaluations"]):
        click.echo(f"  the repeats are those of evaluation {', '.join(map(str, document['noise_from']))}")

"""Repeat noise beside the order effect, as several commands print it."""

from collections.abc import Mapping
from typing import Any

import click

from shuffleboard.cli.common import show

noise_from_option = click.option(
    "--noise-from",
    type=int,
    default=None,
    metavar="EVALUATION",
    help="Take the repeat noise from this evaluation: of the same model revision, benchmark version and protocol.",
)


def print_noise(document: Mapping[str, Any]) -> None:
    """The disagreement of repeats and of orders, and the difference, with their intervals."""
    for label, name, unit, interval in (
        ("the same prompt again", "repeat_disagreement", "of pairs differ", "repeat_interval"),
        ("another order", "order_disagreement", "of pairs differ", "order_interval"),
        ("order effect, net of noise", "order_effect", "", "interval"),
    ):
        value, bounds = document[name], document[interval]
        between = "" if bounds is None else f"  [{show(bounds[0])}, {show(bounds[1])}]"
        click.echo(f"  {label:28} {show(value)} {unit if value is not None else '':15}{between}".rstrip())
    if document["noise_from"] not in ([], document["evaluations"]):
        click.echo(f"  the repeats are those of evaluation {', '.join(map(str, document['noise_from']))}")

"""What commands that plan a run have in common: their options, and their table."""

from collections.abc import Sequence
from typing import Any, Final

import click

from shuffleboard.cli.tables import print_table

power_option: Final = click.option(
    "--power",
    type=click.FloatRange(0.5, 0.999),
    default=0.8,
    show_default=True,
    help="Probability with which the difference is to be found.",
)
differing_option: Final = click.option(
    "--differing",
    type=click.FloatRange(0, 1, min_open=True),
    multiple=True,
    help="Share of questions on which one of the two alone is right, such as 0.3; may be given several times.",
)


def print_smallest(differences: Sequence[dict[str, Any]], models: int) -> None:
    """The smallest differences as a table on stdout; each with `differing`, `one_pair` and `all_pairs`."""
    headings = {
        "differing": "One alone is right on",
        "one_pair": "Two models",
        "all_pairs": f"Any two of {models}",
    }
    print_table(list(differences), headings, "no share")

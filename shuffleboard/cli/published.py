"""`shuffleboard statistics published`."""

import click

from registry.db import read_session
from registry.operations.opening import engine_of
from registry.proposals import propose
from registry.studies.published import list_published
from shuffleboard.cli.common import json_option, print_document, settings_of
from shuffleboard.cli.groups import Group
from shuffleboard.cli.tables import parse_headings, print_table, table_options


@click.group(cls=Group)
def published() -> None:
    """Show results published in papers."""


@published.command("list")
@click.option("--paper", default=None, help="Only this paper: part of its label, such as cavalin.")
@click.option("--metric", default=None, help="Only this metric: the paper's name for it, or this registry's.")
@table_options
@json_option
def list_command(paper: str | None, metric: str | None) -> None:
    """List results published in papers, with the digits they print. None of them was measured here.

    If a published metric means the same as one of this registry, its name and its value in this registry's unit are
    shown next to it.
    """
    with read_session(engine_of(settings_of())) as session:
        rows = list_published(session, paper=paper, metric=metric)
    if print_document({"published": rows}):
        return
    headings = parse_headings(
        "paper, paper_table: Table, model, benchmark, protocol, target, metric, printed, unit, rank, "
        "registry_metric: Here, registry_value: Value here"
    )
    empty = f"no published result is stored; load them: {propose('db upgrade')}"
    drop = ("registry_value", "registry_metric", "rank", "target", "protocol", "paper_table", "unit", "paper", "metric")
    print_table(rows, headings, empty, drop=drop)

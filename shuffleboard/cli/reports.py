"""`shuffleboard metrics` and `leaderboard`."""

from typing import Any

import click

from registry.db import read_session
from registry.errors import UsageError
from registry.metrics import METRICS
from registry.results.leaderboard import COLUMNS, leaderboard_page
from registry.results.reports import evaluation_metrics
from registry.results.selection import Selection
from registry.studies.noise import repeat_noise
from shuffleboard.cli.common import engine_of, json_option, print_csv, print_json, print_table, settings_of, show
from shuffleboard.cli.noise import noise_from_option, print_noise


@click.command()
@click.argument("evaluation_id", type=int)
@click.option("--per-question", is_flag=True, help="Also each question's values.")
@click.option(
    "--without-flagged",
    is_flag=True,
    help="Leave out questions whose options refer to each other or are sorted numbers.",
)
@noise_from_option
@json_option
def metrics(
    evaluation_id: int, per_question: bool, without_flagged: bool, noise_from: int | None, as_json: bool
) -> None:
    """Show an evaluation's metrics. Undefined ones are null.

    Where prompts were asked several times, also how often answers differ when nothing changed, and how much more often
    when the order did: see `shuffleboard statistics noise`.
    """
    with read_session(engine_of(settings_of())) as session:
        document = evaluation_metrics(
            session, evaluation_id, without_flagged=without_flagged, per_question=per_question
        )
        document["noise"] = repeat_noise(session, evaluation_id, noise_from)
    if as_json:
        print_json(document)
        return
    click.echo(f"evaluation {evaluation_id}: {document['scored']} of {document['questions']} questions scored")
    if document["distinct_prompts"]["max"] == 1:
        click.echo("  asked in one prompt: how its answers hold up when options move is unknown")
    if document["noise"] is not None:
        print_noise(document["noise"])
    for name, value in document["metrics"].items():
        if value is not None:
            click.echo(f"  {name:32} {show(value)}")
    undefined = [name for name, value in document["metrics"].items() if value is None]
    click.echo(f" undefined here: {', '.join(undefined)}")
    for external_id, values in document.get("per_question", {}).items():
        shown = ", ".join(f"{name} {show(value)}" for name, value in values.items() if value is not None)
        click.echo(f"{external_id}: {shown or 'not scored'}")


@click.command()
@click.option("--board", default=None, help="This board: one row per model revision.")
@click.option("--as-of", default=None, help="The board as it stood at this date or time (UTC), such as 2026-11-21.")
@click.option("--benchmark", default=None, help="Only this benchmark.")
@click.option("--variants", default=None, help="Only this set of variants, such as cyclic.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV on stdout.")
@json_option
def leaderboard(
    board: str | None, as_of: str | None, benchmark: str | None, variants: str | None, as_csv: bool, as_json: bool
) -> None:
    """Show the leaderboard: one row per model revision and evaluation specification, or a board's rows."""
    if board is not None:
        if benchmark is not None or variants is not None:
            raise UsageError("a board has its own benchmarks and variants; leave out --benchmark and --variants")
        _board(board, as_of, as_csv=as_csv, as_json=as_json)
        return
    if as_of is not None:
        raise UsageError("--as-of goes with --board")
    with read_session(engine_of(settings_of())) as session:
        page = leaderboard_page(session, Selection(benchmark=benchmark, variants=variants))
    if as_json:
        print_json({"rows": page.documents()})
    elif as_csv:
        print_csv(page.rows, COLUMNS)
    else:
        print_leaderboard(page.rows)


def _board(name: str, as_of: str | None, *, as_csv: bool, as_json: bool) -> None:
    from registry.boards.reading import snapshot_as_of
    from shuffleboard.cli.boards import board_csv, parse_time, print_board, snapshot_document_of

    with read_session(engine_of(settings_of())) as session:
        document = snapshot_document_of(snapshot_as_of(session, name, parse_time(as_of)))
    if as_json:
        print_json(document)
    elif as_csv:
        print_csv(*board_csv(document))
    else:
        print_board(document)


def print_leaderboard(rows: list[dict[str, Any]]) -> None:
    """Leaderboard rows as a table on stdout."""
    headings = {
        "benchmark": "Benchmark",
        "model": "Model",
        "revision": "Rev.",
        "variants": "Variants",
        "protocol": "Protocol",
        "shots": "Shots",
        **{
            name: METRICS[name].label for name in ("accuracy", "average_accuracy", "worst_accuracy", "fluctuation_rate")
        },
        "scored": "Scored",
        "questions": "of",
        "state": "State",
        "evaluation_id": "ID",
    }
    print_table(rows, headings, "no evaluation yet; queue one: shuffleboard evaluations submit …")

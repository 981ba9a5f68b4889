"""`shuffleboard evaluations metrics` and `leaderboard`."""

from dataclasses import replace
from typing import Any

import click
from sqlalchemy.orm import Session

from registry.db import read_session
from registry.errors import UsageError
from registry.leaderboard.chance import CORRECTED
from registry.leaderboard.facts import facts_of, noise_facts
from registry.leaderboard.reports import evaluation_metrics
from registry.leaderboard.rows import COLUMNS, FALLBACK, Ordering, leaderboard_page
from registry.metrics import METRICS
from registry.metrics.catalogue import SHOWN
from registry.names import plural
from registry.operations.opening import engine_of
from registry.scores.asked import describe_orders
from registry.studies.noise import repeat_noise
from registry.verdicts.facts import SAID_FIRST, Facts, Number
from registry.verdicts.spans import HEADING, legend, line, span_of
from registry.verdicts.table import say
from registry.verdicts.wording import bound, format_interval, interval_text, points, share, value_text
from shuffleboard.cli.common import (
    json_option,
    note,
    note_not_ranked,
    print_csv,
    print_document,
    print_json,
    settings_of,
    wants_json,
)
from shuffleboard.cli.noise import noise_from_option, print_noise
from shuffleboard.cli.selecting import filter_options, nothing_matches, selection_of
from shuffleboard.cli.tables import Detailed, Measure, choose_columns, note_below, print_table, table_options


@click.command()
@click.argument("evaluation_id", type=int)
@click.option("--per-question", is_flag=True, help="Also each question's values.")
@click.option(
    "--without-flagged",
    is_flag=True,
    help="Leave out questions whose options refer to each other or are sorted numbers.",
)
@click.option("--papers", is_flag=True, help="Also the metrics that are there for papers' tables alone.")
@noise_from_option
@json_option
def metrics(
    evaluation_id: int,
    per_question: bool,
    without_flagged: bool,
    papers: bool,
    noise_from: int | None,
) -> None:
    """Show an evaluation's metrics. Undefined ones are null.

    If prompts were asked several times, also how often answers differ when nothing changed, and how much more often
    when the order did: see `shuffleboard statistics noise`.
    """
    with read_session(engine_of(settings_of())) as session:
        document = evaluation_metrics(
            session, evaluation_id, without_flagged=without_flagged, per_question=per_question, papers=papers
        )
        document["noise"] = repeat_noise(session, evaluation_id, noise_from)
        # Sentences are about all questions.
        facts = None if without_flagged else facts_of(session, [evaluation_id]).get(evaluation_id)
        document["clustered"] = None
        if document["complete"]:
            from registry.scores.clusters import compute_clustered_intervals  # and it imports numpy

            document["clustered"] = compute_clustered_intervals(session, evaluation_id)
    if print_document(document):
        return
    click.echo(f"evaluation {evaluation_id}: {document['scored']} of {document['questions']} questions scored")
    _print_asked(document, facts)
    _print_values(document)
    for external_id, values in document.get("per_question", {}).items():
        shown = ", ".join(f"{name} {value_text(name, value)}" for name, value in values.items() if value is not None)
        click.echo(f"{external_id}: {shown or 'not scored'}")


def _print_asked(document: dict[str, Any], facts: Facts | None) -> None:
    """Print the number of orders and variants, and the conclusions."""
    if document["sample"] is not None:
        sample = document["sample"]
        questions = plural(sample["of"], "question")
        click.echo(f"  a sample of {sample['questions']} of {questions}, seed {sample['seed']}; intervals are for all")
    if document["asked"]:
        click.echo(f"  {document['asked']}")
    if facts is not None:
        for sentence in say("evaluation", replace(facts, noise=noise_facts(document["noise"]))):
            click.echo(f"  {sentence}")
    if document["chance"] is not None:
        click.echo(f"  chance level {share(document['chance'])}")
    if document["noise"] is not None:
        print_noise(document["noise"])


def _print_values(document: dict[str, Any]) -> None:
    """Print every metric with its intervals, and the undefined ones by name."""
    clustered, values = document["clustered"] or {"metrics": {}}, document["metrics"]
    if document["clustered"] is not None:
        questions, clusters = plural(clustered["questions"], "question"), plural(clustered["clusters"], "cluster")
        click.echo(f"  {questions} in {clusters}; in braces: intervals over clusters")
    for name in (name for name, value in values.items() if value is not None):
        together = _format_clustered(name, clustered["metrics"].get(name))
        interval = document["intervals"][name]
        bounds = "" if interval is None else format_interval(name, Number(values[name], 0, *interval))
        click.echo(f"  {name:32} {value_text(name, values[name])}{bounds}{together}")
    click.echo(f" undefined here: {', '.join(name for name, value in values.items() if value is None)}")


def _format_clustered(metric: str, found: dict[str, Any] | None) -> str:
    """Return the interval over clusters and the design effect, as far as they are known."""
    if found is None or found["design_effect"] is None:
        return ""
    interval = "no interval" if found["interval"] is None else interval_text(metric, *found["interval"])
    return f" {{{interval}; design effect {found['design_effect']:.2f}}}"


@click.command()
@click.option("--board", default=None, help="This board: one row per model revision.")
@click.option("--as-of", default=None, help="The board as it stood at this date or time (UTC), such as 2026-11-21.")
@filter_options
@click.option("--above-chance", is_flag=True, help="Accuracy from guessing, 0, to perfect, 1.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV on stdout.")
@table_options
@json_option
def leaderboard(board: str | None, as_of: str | None, above_chance: bool, as_csv: bool, **filters: str | None) -> None:
    """Show the leaderboard: one row per model revision and evaluation specification, or a board's rows.

    In a narrow terminal, names are shortened and less important columns left out. `--columns` also takes the metrics
    that are not shown by default.
    """
    if as_csv and wants_json():
        raise UsageError("--csv and --json: give one of the two")
    if board is not None and above_chance:
        raise UsageError("--above-chance goes with the leaderboard of evaluations; leave out --board")
    if board is not None:
        options = [f"--{name}" for name, value in filters.items() if value is not None]
        if options:
            raise UsageError(f"board {board} already says what is compared; leave out {', '.join(options)}")
        _board(board, as_of, as_csv=as_csv)
        return
    if as_of is not None:
        raise UsageError("--as-of goes with --board")
    with read_session(engine_of(settings_of())) as session:
        selection = selection_of(session, **filters)
        page = leaderboard_page(session, selection, Ordering(above_chance=above_chance))
        empty = "" if page.rows else nothing_matches(session, filters)
        facts = (
            {}
            if wants_json() or as_csv
            else facts_of(session, [row["evaluation_id"] for row in page.rows], selection.scope)
        )
        waiting = _find_without_worker(
            session, [row["evaluation_id"] for row in page.rows if row["state"] in ("queued", "running")]
        )
    if wants_json():
        print_json({"rows": page.documents()})
    elif as_csv:
        columns = (*COLUMNS, "asked", *(f"{name}_above_chance" for name in CORRECTED if above_chance))
        shown = [name for name in columns if name not in METRICS or name in SHOWN]
        print_csv(list(map(_flat, page.rows)), choose_columns(columns, shown))
    else:
        rows = [
            row
            | {"drawn": draw(facts.get(row["evaluation_id"])), "bounded": facts.get(row["evaluation_id"])}
            | ({"state": "waiting"} if row["evaluation_id"] in waiting else {})
            for row in page.rows
        ]
        print_leaderboard(rows, empty, above_chance=above_chance)


def _find_without_worker(session: Session, ids: list[int]) -> set[int]:
    """Return the evaluations that wait on a queue without a live worker."""
    if not ids:
        return set()
    from registry.queue.progress import progress_of_several

    return {key for key, progress in progress_of_several(session, ids).items() if progress.no_worker}


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its orders in words, and with separate columns for metrics above chance."""
    scaled = row.get("above_chance", {})
    above = {f"{name}_above_chance": scaled.get(name, {}).get("value") for name in CORRECTED}
    missing = row["missing_answers"]
    unread = None if missing is None else Measure(missing)
    return row | above | {"asked": describe_orders(row), "unread": unread}


def _measures(row: dict[str, Any]) -> dict[str, Measure]:
    """Return the metrics of a row, and the chance level, as values that are printed in their units."""
    return {name: Measure(row[name], name) for name in (*METRICS, "chance") if row.get(name) is not None}


def _board(name: str, as_of: str | None, *, as_csv: bool) -> None:
    from registry.boards.reading import board_table, report_document, snapshot_as_of
    from shuffleboard.cli.boards import choose_drawn_way, parse_time, print_board

    with read_session(engine_of(settings_of())) as session:
        document = report_document(session, snapshot_as_of(session, name, parse_time(as_of)))
        way = None if wants_json() or as_csv else choose_drawn_way(session, document)
    if wants_json():
        print_json(document)
    elif way is None:
        print_csv(*board_table(document))
    else:
        print_board(document, way)


def draw(facts: Facts | None) -> str:
    """Return the drawn line of an evaluation; empty if it is not sealed."""
    return line(None if facts is None else span_of(facts))


def _bounded(facts: Facts | None) -> dict[str, Detailed]:
    """Return the order loss with its upper bound if its interval does not show it above 0; otherwise nothing."""
    number = None if facts is None else facts.number("order_loss")
    if number is None or not (most := bound("order_loss", number)):
        return {}
    return {"order_loss": Detailed(f"{points(number.value)}, {most}", "")}


def print_leaderboard(
    rows: list[dict[str, Any]], empty: str = "no evaluation yet", *, above_chance: bool = False
) -> None:
    """Print leaderboard rows as a table on stdout, and the rows without a rank, with reasons, on stderr."""
    metrics = ("right_twice_across_orders", "accuracy", "order_loss", "worst_accuracy", "fluctuation_rate")
    shown = {name: METRICS[name].label for name in metrics}
    if above_chance:
        shown = {f"{name}_above_chance": f"{METRICS[name].label} above chance" for name in CORRECTED}
    flat = [row | _measures(row) | _bounded(row.get("bounded")) for row in map(_flat, rows)]
    shown = {name: label for name, label in shown.items() if not flat or any(row[name] is not None for row in flat)}
    headings = {
        "benchmark": "Benchmark",
        "model": "Model",
        **({"rank": "Rank"} if any(row["rank"] is not None for row in rows) else {}),
        "revision": "Rev.",
        **({"drawn": HEADING} if any(row.get("drawn") for row in rows) else {}),
        "variants": "Variants",
        "asked": "Asked",
        "protocol": "Protocol",
        "shots": "Shots",
        "chance": "Chance",
        **shown,
        **({"unread": "Unread"} if any((row["missing_answers"] or 0.0) > SAID_FIRST for row in rows) else {}),
        "scored": "Scored",
        "questions": "Questions",
        "state": "State",
        "evaluation_id": "ID",
    }
    more = {name: METRICS[name].label if name in METRICS else name for name in COLUMNS}
    drop = (
        *("state", "questions", "scored", "revision", "shots", "protocol", "chance", "asked"),
        *("fluctuation_rate", "order_loss", "worst_accuracy"),
    )
    print_table(flat, headings, empty, more=more, drop=drop)
    if "drawn" in headings:
        note_below(legend(row["drawn"] for row in flat))
    once = {row["benchmark"] for row in rows if row["ranked_by"] == FALLBACK and row["rank"] is not None}
    if once:
        note(f"On {', '.join(sorted(once))} every question was asked in one order, so ranks are by accuracy.")
    note_not_ranked([(row["model"], row["not_ranked"]) for row in rows if row["not_ranked"]])

"""`shuffleboard suites` and `shuffleboard boards`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.boards.definition import evaluations_asked, read_board_file, read_suite_file
from registry.boards.reading import models_counted, report_document, snapshot_as_of, snapshots_of
from registry.boards.snapshots import refresh_boards
from registry.boards.store import board_definition, current_boards, import_board, import_suite, suite_definition
from registry.boards.ways import Way, way_of, ways_of, who
from registry.db import read_session, write_session
from registry.errors import UsageError
from registry.exchange.citations import publisher_of, snapshot_entry
from registry.lookups import find_board, find_suite
from registry.names import plural
from registry.operations.opening import engine_of
from registry.proposals import propose
from registry.tables import Suite
from registry.verdicts.facts import Number
from registry.verdicts.spans import HEADING, legend, line
from registry.verdicts.table import judge_neighbours, judge_uncertainty
from registry.verdicts.wording import bound, format_interval, share, value_text
from shuffleboard.cli.common import (
    GivenFile,
    json_option,
    note,
    note_not_ranked,
    print_document,
    print_json,
    settings_of,
    tell,
    wants_json,
)
from shuffleboard.cli.fetch import fetch_suite_command
from shuffleboard.cli.files import require_kind
from shuffleboard.cli.groups import Group
from shuffleboard.cli.tables import (
    Detailed,
    Measure,
    choose_columns,
    note_below,
    parse_headings,
    print_table,
    show,
    table_options,
)


@click.group(cls=Group)
def suites() -> None:
    """Fetch, import and list suites: the test that every model takes."""


suites.add_command(fetch_suite_command)


@suites.command("import")
@click.argument("file", type=GivenFile())
@json_option
def import_suite_command(file: Path) -> None:
    """Load a suite from FILE (TOML); a changed definition is a new version of its name.

    \b
      name = "core"
      title = "Robustness core"
      variants = ["cyclic", "divergent", "choice-only"]
      [[tasks]]
      benchmark = "arc-challenge"
      options = 4
      [[tasks]]
      name = "aqua and math"
      benchmarks = ["aqua-rat", "sat-math"]
      shots = 5

    Keys of a task: name, benchmark or benchmarks (questions are joined; "*" means those in the
    board), subjects, options, limit, protocols, shots, variants.
    """  # noqa: D301
    require_kind(file, "suites import")
    definition = read_suite_file(file)
    with write_session(engine_of(settings_of())) as session:
        row, new = import_suite(session, definition)
        document = {"suite": row.name, "version": row.version, "digest": row.digest, "new": new}
        version, newest = row.version, find_suite(session, row.name).version
    tell(document, f"suite {document['suite']} version {document['version']} {'loaded' if new else 'already exists'}")
    _note_older(definition.name, version, newest)


@suites.command("list")
@table_options
@json_option
def list_suites() -> None:
    """List every suite with its newest version."""
    with read_session(engine_of(settings_of())) as session:
        newest: dict[str, Suite] = {}
        for row in session.scalars(select(Suite).order_by(Suite.version)):
            newest[row.name] = row
        rows = [_suite(row) for _, row in sorted(newest.items())]
    if print_document({"suites": rows}):
        return
    headings = {"name": "Suite", "version": "Version", "title": "Title", "tasks": "Tasks", "variants": "Variants"}
    print_table(
        [row | {"variants": ", ".join(row["variants"])} for row in rows],
        headings,
        f"no suite yet; load one: {propose('suites import', 'FILE')}",
        more={"digest": "Digest"},
    )


def _suite(row: Suite) -> dict[str, Any]:
    definition = suite_definition(row)
    variants = dict.fromkeys(name for task in definition.tasks for name in task.variants or definition.variants)
    return {
        "name": row.name,
        "version": row.version,
        "digest": row.digest,
        "title": definition.title,
        "tasks": len(definition.tasks),
        "variants": list(variants),
    }


@suites.command("show")
@click.argument("name")
@table_options
@json_option
def show_suite(name: str) -> None:
    """Show a suite: NAME, or NAME@VERSION."""
    with read_session(engine_of(settings_of())) as session:
        row = find_suite(session, name)
        definition = suite_definition(row)
        document = _suite(row) | {"created_at": row.created_at, "definition": row.definition}
    if print_document(document):
        return
    click.echo(f"{row.name} version {row.version}: {definition.title}")
    if definition.text:
        click.echo(definition.text.strip())
    rows = [
        {
            "task": evaluation.task,
            "benchmark": evaluation.benchmark,
            "asks": f"{evaluation.variants} / {evaluation.protocol}, {evaluation.shots} shots",
            "questions": "; ".join(
                part
                for part in (
                    ", ".join(evaluation.subjects),
                    f"{evaluation.options} options" if evaluation.options else "",
                    f"first {evaluation.limit}" if evaluation.limit else "",
                )
                if part
            )
            or "all",
        }
        for evaluation in evaluations_asked(definition, ["*"])
    ]
    print_table(
        rows, {"task": "Task", "benchmark": "Benchmark", "asks": "Asked as", "questions": "Questions"}, "no task"
    )


@click.group(cls=Group)
def boards() -> None:
    """Import and list boards: the tables an organisation publishes."""


@boards.command("import")
@click.argument("file", type=GivenFile())
@json_option
def import_board_command(file: Path) -> None:
    """Load a board from FILE (TOML), on the newest versions of its benchmarks.

    \b
      name = "main"
      title = "How robust are they?"
      suite = "robustness-core"
      benchmarks = ["arc-challenge", "mmlu"]
      columns = ["accuracy@cyclic", "right_twice_across_orders@cyclic",
                 "cora@divergent", "fluctuation_rate@cyclic",
                 "npsq_accuracy@choice-only"]
      sort = "right_twice_across_orders@cyclic"

    A column is metric@variants, or metric@variants/protocol if the suite has several protocols.
    benchmarks replace the suite's "*"; a suite that names its benchmarks takes none.
    """  # noqa: D301
    require_kind(file, "boards import")
    definition = read_board_file(file)
    engine = engine_of(settings_of())
    with write_session(engine) as session:
        row, new = import_board(session, definition)
        document = {"board": row.name, "version": row.version, "digest": row.digest, "new": new}
        version, newest = row.version, find_board(session, row.name).version
    refresh_boards(engine)
    tell(document, f"board {document['board']} version {document['version']} {'loaded' if new else 'already exists'}")
    _note_older(definition.name, version, newest)


def _note_older(name: str, version: int, newest: int) -> None:
    """Warn that loading an old file again does not make it the newest version, since nothing else shows this."""
    if version != newest:
        note(f"{name} still means version {newest}, this one is {name}@{version}; to go back to it, change its title")


@boards.command("list")
@table_options
@json_option
def list_boards() -> None:
    """List every board with its newest version."""
    with read_session(engine_of(settings_of())) as session:
        rows = [
            {
                "name": row.name,
                "version": row.version,
                "title": board_definition(row).title,
                "suite": f"{row.suite.name}@{row.suite.version}",
                "evaluations": len(row.entries),
                "digest": row.digest,
            }
            for row in current_boards(session)
        ]
    if print_document({"boards": rows}):
        return
    headings = {"name": "Board", "version": "Version", "title": "Title", "suite": "Suite", "evaluations": "Evaluations"}
    print_table(
        rows, headings, f"no board yet; load one: {propose('boards import', 'FILE')}", more={"digest": "Digest"}
    )


@boards.command("show")
@click.argument("name")
@click.option("--as-of", default=None, help="As it stood at this date or time (UTC), such as 2026-11-21.")
@table_options
@json_option
def show_board(name: str, as_of: str | None) -> None:
    """Show a board: NAME, or NAME@VERSION; its definition and its rows."""
    with read_session(engine_of(settings_of())) as session:
        find_board(session, name)
        snapshot = snapshot_as_of(session, name, parse_time(as_of))
        document = report_document(session, snapshot)
        way = None if wants_json() else choose_drawn_way(session, document)
    if way is None:
        print_json(document)
        return
    print_board(document, way)


@boards.command("pairs")
@click.argument("name")
@click.option("--column", default=None, help="Column of the board; default: the one that sorts it.")
@table_options
@json_option
def board_pairs(name: str, column: str | None) -> None:
    """Print how many models of a board each model is distinguished from, all pairs compared at once.

    NAME, or NAME@VERSION. With up to 40 models, --json also has a matrix of all pairs.
    """
    with read_session(engine_of(settings_of())) as session:
        document = report_document(session, snapshot_as_of(session, name))
    column = column or str(document["sort"])
    columns = [item["name"] for item in document["columns"]]
    if column not in columns:
        raise UsageError(f"board {document['board']} has no column {column!r}; use one of {', '.join(columns)}")
    ranked = [row for row in document["rows"] if row["values"][column]["rank"] is not None]
    ranked.sort(key=lambda row: row["values"][column]["rank"])
    rows = [_pairs_of(row, row["values"][column], len(ranked)) for row in ranked]
    together = document["together"].get(column)
    if print_document({"board": document["board"], "column": column, "pairs": together, "models": rows}):
        return
    print_table(rows, PAIRS, "no ranked model")
    if together is not None:
        note(f"{column}: {together['pairs_told_apart']} of {plural(together['pairs'], 'compared pair')} distinguished")
        _note_uncertainty(together)


def _note_uncertainty(together: dict[str, Any]) -> None:
    if (sentence := judge_uncertainty(together)) is not None:
        note(sentence)


PAIRS = {
    "rank": "Rank",
    "model": "Model",
    "value": "Value",
    "rank_interval": "Rank interval",
    "better_than": "Better than",
    "worse_than": "Worse than",
    "not_distinguished": "Not distinguished from",
}


def _pairs_of(row: dict[str, Any], value: dict[str, Any], models: int) -> dict[str, Any]:
    low, high = value["all_rank_interval"] or (None, None)
    return {
        "rank": value["rank"],
        "model": row["model"],
        "revision": row["revision"],
        "value": value["value"],
        "rank_interval": value["all_rank_interval"],
        "better_than": None if high is None else models - high,
        "worse_than": None if low is None else low - 1,
        "not_distinguished": None if low is None else high - low,
    }


@boards.command("cite")
@click.argument("name")
@click.option("--as-of", default=None, help="As it stood at this date or time (UTC), such as 2026-11-21.")
@json_option
def cite_board(name: str, as_of: str | None) -> None:
    """Print the BibTeX entry of a board's newest snapshot: NAME, or NAME@VERSION."""
    settings = settings_of()
    with read_session(engine_of(settings)) as session:
        find_board(session, name)
        document = report_document(session, snapshot_as_of(session, name, parse_time(as_of)))
    base = settings.public_url.rstrip("/")
    address = f"{base}/snapshots/{document['digest']}" if base else None
    if address is None:
        note("the entry has no URL, since SHUFFLEBOARD_PUBLIC_URL is not set")
    entry = snapshot_entry(document, address, publisher_of(base))
    if print_document({"digest": document["digest"], "as_of": document["as_of"], "url": address, "bibtex": entry}):
        return
    click.echo(entry, nl=False)


@boards.command("snapshots")
@click.argument("name")
@table_options
@json_option
def list_snapshots(name: str) -> None:
    """List every snapshot of a board, newest first; one is taken whenever one of its evaluations is sealed."""
    with read_session(engine_of(settings_of())) as session:
        rows = []
        for row in snapshots_of(session, name):
            models, complete = models_counted(session, row.id)
            rows.append(
                {
                    "as_of": row.as_of,
                    "board_version": row.board.version,
                    "models": models,
                    "complete": complete,
                    "digest": row.digest,
                }
            )
    if print_document({"snapshots": rows}):
        return
    headings = parse_headings("as_of, board_version: Version, models, complete, digest")
    print_table(rows, headings, "no snapshot yet")


def parse_time(value: str | None, *, end: bool = True) -> datetime | None:
    """Parse a time or a date, UTC if there is no zone. Raises UsageError for anything else.

    end: a date means its end; otherwise its beginning.
    """
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise UsageError(f"time {value!r}: give a date or time such as 2026-11-21 or 2026-11-21T13:00") from None
    if end and len(value) == len("2026-11-21"):
        moment = moment.replace(hour=23, minute=59, second=59, microsecond=999_999)
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise UsageError(f"time {value!r}: give a date or time such as 2026-11-21 or 2026-11-21T13:00") from None


def choose_drawn_way(session: Session, document: dict[str, Any]) -> Way:
    """Return the protocol group that a board's page draws first."""
    return way_of(ways_of(session, document), document, document["sort"])


def print_board(document: dict[str, Any], way: Way) -> None:
    """Print a board as on its page: the sentences first, then its rows as a table on stdout.

    way: the protocol group to draw.
    """
    names = [
        column["name"]
        for column in document["columns"]
        if column["name"] == document["sort"]
        or any(row["values"][column["name"]]["value"] is not None for row in document["rows"])
    ]
    rows = [
        {
            "rank": _rank(row["values"][document["sort"]]),
            "all": _all_at_once(row["values"][document["sort"]]),
            "model": row["model"],
            "revision": row["revision"],
            "drawn": line(way.spans.get(who(row))),
            **{
                item["name"]: _value(row["values"][item["name"]], item["metric"])
                for item in document["columns"]
                if item["name"] in names
            },
            "unread": None if (missing := way.unread.get(who(row))) is None else share(missing),
            "cost": row["cost"],
            "sealed": f"{sum(item is not None for item in row['evaluations'])} of {len(row['evaluations'])}",
        }
        for row in document["rows"]
    ]
    headings = {"rank": "Rank", "all": "All at once", "model": "Model", "revision": "Rev."}
    headings |= {"drawn": HEADING} if way.spans else {}
    priced = {"cost": f"Cost ({document['currency']})"} if document["currency"] else {}
    headings |= {name: name for name in names} | ({"unread": "Unread"} if way.unread else {}) | priced
    headings |= {"sealed": "Sealed"}
    choose_columns(headings, list(headings))  # reports a wrong name before anything is printed
    note(f"{document['board']}: {document['title'] or 'board'}, as of {show(document['as_of'])}")
    for sentence in way.sentences:
        note(sentence.text)
    # The ranking column is dropped last.
    others = [name for name in reversed(names) if name != document["sort"]]
    drop = ("sealed", "revision", "all", *priced, *others, "unread", document["sort"])
    print_table(rows, headings, "no model has a sealed evaluation of this board yet", drop=drop)
    if way.spans:
        note_below(legend(row["drawn"] for row in rows))
    together = document["together"].get(document["sort"])
    if together is not None and together["neighbours"]:
        note(f"{document['sort']}: {judge_neighbours(together)}")
        _note_uncertainty(together)
    for name, chance in document["chance"].items():
        note(f"guessing gives {share(chance)} in {name}")
    note_not_ranked(
        [
            (item["model"], {"reason": item["reason"], "command": "; ".join(item["commands"])})
            for item in document["unranked"]
            if item["column"] in (None, document["sort"])
        ]
    )


def _rank(value: dict[str, Any]) -> Detailed | int | None:
    if value["rank_interval"] is None:
        return value["rank"]  # type: ignore[no-any-return]
    low, high = value["rank_interval"]
    if value["rank"] is None:
        return Detailed("≈", f"({low}–{high})")
    return Detailed(str(value["rank"]), f"({low}–{high})")


def _all_at_once(value: dict[str, Any]) -> Detailed | None:
    """Return the ranks and the tier for all models at once; None without a rank interval."""
    if value["all_rank_interval"] is None:
        return None
    low, high = value["all_rank_interval"]
    return Detailed(f"{low}–{high}", f"(tier {value['all_tier']})")


def _value(value: dict[str, Any], metric: str) -> Detailed | Measure | None:
    if value["value"] is None:
        return None
    number = Number(value["value"], value["n"], *(value["interval"] or ()))
    if most := bound(metric, number):
        return Detailed(f"{value_text(metric, number.value)}, {most}", "")
    if value["interval"] is None:
        return Measure(number.value, metric)
    estimate = "≈ " if "estimated" in value else ""
    return Detailed(f"{estimate}{value_text(metric, number.value)}", format_interval(metric, number).strip())

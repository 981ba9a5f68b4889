"""Downloads: tables and citations."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from flask import Blueprint, Response, request, url_for
from flask.typing import ResponseReturnValue

from registry.boards.reading import board_table, snapshot_as_of
from registry.errors import NotFoundError
from registry.exchange.tabular import ShownTable, csv_text, latex, markdown, parquet_bytes
from registry.leaderboard.rows import Ordering
from registry.leaderboard.selection import Selection
from registry.metrics import METRICS
from registry.schema.selectables import Row
from registry.scores.asked import describe_orders
from registry.tables import BoardSnapshot
from registry.verdicts.wording import DASH
from web.formats import scaled, with_interval
from web.pages.boards import find_shown_board, find_shown_snapshot, snapshot_document
from web.pages.leaderboard import export_rows, export_table
from web.serving.responses import session
from web.share_links import FORMS, cited_evaluation, cited_snapshot
from web.shown import queries
from web.urls import links, parameters
from web.who import addresses

blueprint = Blueprint("sharing", __name__)


def _file(body: str | bytes, kind: str, name: str) -> Response:
    """Return a download. name: name of the file, in characters that need no quoting."""
    return Response(body, content_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


# Tables


def _table(
    form: str, name: str, table: tuple[Sequence[Row], Sequence[str]], shown: ShownTable, source: str
) -> Response:
    """Return a table in one of FORMS: unrounded numbers for programs, the displayed ones for readers."""
    rows, columns = table
    body: str | bytes
    if form == "csv":
        body = csv_text(rows, columns)
    elif form == "parquet":
        body = parquet_bytes(rows, columns, source)
    else:
        body = latex(shown) if form == "tex" else markdown(shown)
    return _file(body, FORMS[form][1], f"{name}.{form}")


@blueprint.get("/leaderboard.<any(parquet, md, tex):form>")
def leaderboard_table(form: str) -> ResponseReturnValue:
    """Return the rows of leaderboard.csv in other formats."""
    ordering, selection = links.read_ordering(request.args), Selection(**parameters.filters(request.args))
    rows = list(chain.from_iterable(export_rows(ordering, selection)))
    source = addresses.public(links.there("pages.leaderboard"))
    table = export_table(rows, ordering, selection)
    return _table(form, "leaderboard", table, _make_leaderboard_table(rows, ordering, selection, source), source)


def _make_leaderboard_table(rows: Sequence[Row], asked: Ordering, selection: Selection, source: str) -> ShownTable:
    labels = [METRICS[name].label for name in asked.metrics]
    cells = [
        [
            DASH if row["rank"] is None else str(row["rank"]),
            row["model"],
            row["benchmark"],
            f"{row['variants']}, {row['protocol']}, {row['shots']}-shot",
            (describe_orders(row) or DASH)
            if row["complete"]
            else f"{row['scored']} of {row['questions']} questions scored",
            *(_format_metric(row, name) for name in asked.metrics),
        ]
        for row in rows
    ]
    caption = f"Leaderboard{'' if selection.subject is None else f', questions on {selection.subject}'}"
    return ShownTable(
        caption,
        ["Rank", "Model", "Benchmark", "Asked as", "Orders", *labels],
        cells,
        frozenset({0, *range(5, 5 + len(labels))}),
        f"{_INTERVALS} Ranks are within a benchmark asked in one way. {source}, {_today()}.",
    )


_INTERVALS: Final = "In brackets: 95 % intervals, where available; a dash is a value that is undefined."


def _format_metric(row: Row, name: str) -> str:
    above = (row.get("above_chance") or {}).get(name)
    if above is not None:
        if above["interval_low"] is None or above["value"] is None:
            return scaled(above["value"])
        return f"{scaled(above['value'])} [{scaled(above['interval_low'])}, {scaled(above['interval_high'])}]"
    count = row["counts"].get(name, {})
    return with_interval(name, row[name], count.get("interval_low"), count.get("interval_high"))


def _snapshot_table(snapshot: BoardSnapshot, form: str) -> Response:
    document = snapshot_document(snapshot)
    permanent = addresses.public(url_for("boards.snapshot", digest=snapshot.digest))
    name = f"{document['board']}-{snapshot.digest[:12]}"
    return _table(form, name, board_table(document), _make_board_table(document, permanent), permanent)


def _make_board_table(document: Row, source: str) -> ShownTable:
    labels = {
        column["name"]: f"{METRICS[column['metric']].label} ({column['variants']}"
        f"{', ' + column['protocol'] if column.get('protocol') else ''})"
        for column in document["columns"]
    }
    rows = []
    for row in document["rows"]:
        by = row["values"][document["sort"]]
        ranks = "" if by["rank_interval"] is None else " [{}, {}]".format(*by["rank_interval"])
        rows.append(
            [
                DASH if by["rank"] is None else f"{by['rank']}{ranks}",
                DASH if by["all_tier"] is None else str(by["all_tier"]),
                row["model"],
                *(
                    with_interval(
                        column["metric"],
                        row["values"][column["name"]]["value"],
                        *(row["values"][column["name"]]["interval"] or (None, None)),
                    )
                    for column in document["columns"]
                ),
            ]
        )
    return ShownTable(
        document["title"] or document["board"],
        ["Rank", "Tier", "Model", *labels.values()],
        rows,
        frozenset({0, 1, *range(3, 3 + len(labels))}),
        f"{_INTERVALS} As of {document['as_of']:%Y-%m-%d %H:%M} UTC. {source}.",
    )


@blueprint.get("/boards/<name>/table.<any(csv, parquet, md, tex):form>")
def board_as_table(name: str, form: str) -> ResponseReturnValue:
    """Return a board as a table, as it is now or as of a date."""
    moment = parameters.time(request.args, "as_of", end=True)
    return _snapshot_table(snapshot_as_of(session(), find_shown_board(name).name, moment), form)


@blueprint.get("/snapshots/<digest>/table.<any(csv, parquet, md, tex):form>")
def snapshot_as_table(digest: str, form: str) -> ResponseReturnValue:
    """Return a board at the time of a snapshot, as a table."""
    return _snapshot_table(find_shown_snapshot(digest), form)


# Citations

BIBTEX: Final = "application/x-bibtex; charset=utf-8"


@blueprint.get("/snapshots/<digest>.bib")
def snapshot_bibtex(digest: str) -> ResponseReturnValue:
    """Return the citation of a snapshot."""
    document = snapshot_document(find_shown_snapshot(digest))
    return _file(cited_snapshot(document), BIBTEX, f"{document['board']}-{digest[:12]}.bib")


@blueprint.get("/evaluations/<evaluation_id>.bib")
def evaluation_bibtex(evaluation_id: str) -> ResponseReturnValue:
    """Return the citation of a sealed evaluation."""
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    if row["seal"] is None:
        raise NotFoundError(f"evaluation {row['evaluation_id']} is not complete; it can be cited once it is sealed")
    return _file(cited_evaluation(row), BIBTEX, f"evaluation-{row['seal'][:12]}.bib")

"""What leads out of the website: tables, citations, pictures of charts, previews of links, badges, embedded boards."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from flask import Blueprint, Response, current_app, render_template, request, url_for
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from registry.boards.reading import board_table, snapshot_as_of
from registry.errors import NotFoundError
from registry.exchange.tabular import ShownTable, csv_text, latex, markdown, parquet_bytes
from registry.leaderboard.rows import Ordering
from registry.leaderboard.selection import Selection
from registry.metrics import METRICS
from registry.schema.selectables import Row
from registry.scores.asked import asked_how
from registry.tables import BoardSnapshot
from web import pictures
from web.formats import DASH, scaled
from web.pages.boards import shown_board, shown_snapshot, shown_way, snapshot_document
from web.pages.leaderboard import exported_rows, exported_table
from web.pictures.drawings import badge_svg, card_svg
from web.pictures.page import read_page
from web.serving.responses import session
from web.share_links import DRAWN_ON, FORMS, cited_evaluation, cited_snapshot
from web.shown import headlines, listings, queries
from web.shown.headlines import Badge, Card, with_interval
from web.urls import links, parameters
from web.who import addresses
from web.who.identity import limited, settings_of

blueprint = Blueprint("sharing", __name__)

PICTURES: Final = "60 per minute"
"""Pictures that a client may ask for, of charts and previews; a kept preview does not count."""
SHARED_SECONDS: Final = 300
"""How long anyone may keep what everyone sees alike: a badge, a preview, an embedded board."""
EMBEDDED_ROWS: Final = 50
"""Models of an embedded board."""


def _file(body: str | bytes, kind: str, name: str) -> Response:
    """A download. name: of the file, of letters that need no quoting."""
    return Response(body, content_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


# Tables


def _table(
    form: str, name: str, table: tuple[Sequence[Row], Sequence[str]], shown: ShownTable, source: str
) -> Response:
    """One table in one of FORMS: full numbers for programs, the shown ones for readers."""
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
    """The rows of leaderboard.csv in other formats."""
    asked, selection = links.read_ordering(request.args), Selection(**parameters.filters(request.args))
    rows = list(chain.from_iterable(exported_rows(asked, selection)))
    source = addresses.public(links.there("pages.leaderboard"))
    table = exported_table(rows, asked, selection)
    return _table(form, "leaderboard", table, _shown_leaderboard(rows, asked, selection, source), source)


def _shown_leaderboard(rows: Sequence[Row], asked: Ordering, selection: Selection, source: str) -> ShownTable:
    labels = [METRICS[name].label for name in asked.metrics]
    cells = [
        [
            DASH if row["rank"] is None else str(row["rank"]),
            row["model"],
            row["benchmark"],
            f"{row['variants']}, {row['protocol']}, {row['shots']}-shot",
            (asked_how(row) or DASH) if row["complete"] else f"{row['scored']} of {row['questions']} questions scored",
            *(_shown_metric(row, name) for name in asked.metrics),
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


def _shown_metric(row: Row, name: str) -> str:
    above = (row.get("above_chance") or {}).get(name)
    if above is not None:
        if above["interval_low"] is None or above["value"] is None:
            return scaled(above["value"])
        return f"{scaled(above['value'])} [{scaled(above['interval_low'])}, {scaled(above['interval_high'])}]"
    found = row["counts"].get(name, {})
    return with_interval(name, row[name], found.get("interval_low"), found.get("interval_high"))


def _snapshot_table(snapshot: BoardSnapshot, form: str) -> Response:
    document = snapshot_document(snapshot)
    permanent = addresses.public(url_for("boards.snapshot", digest=snapshot.digest))
    name = f"{document['board']}-{snapshot.digest[:12]}"
    return _table(form, name, board_table(document), _shown_board(document, permanent), permanent)


def _shown_board(document: Row, source: str) -> ShownTable:
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
    """A board as it stands, or as of a date, as a table."""
    moment = parameters.time(request.args, "as_of", end=True)
    return _snapshot_table(snapshot_as_of(session(), shown_board(name).name, moment), form)


@blueprint.get("/snapshots/<digest>/table.<any(csv, parquet, md, tex):form>")
def snapshot_as_table(digest: str, form: str) -> ResponseReturnValue:
    """A board as it once stood, as a table."""
    return _snapshot_table(shown_snapshot(digest), form)


# Citations

BIBTEX: Final = "application/x-bibtex; charset=utf-8"


@blueprint.get("/snapshots/<digest>.bib")
def snapshot_bibtex(digest: str) -> ResponseReturnValue:
    """How a snapshot is cited."""
    document = snapshot_document(shown_snapshot(digest))
    return _file(cited_snapshot(document), BIBTEX, f"{document['board']}-{digest[:12]}.bib")


@blueprint.get("/evaluations/<evaluation_id>.bib")
def evaluation_bibtex(evaluation_id: str) -> ResponseReturnValue:
    """How a sealed evaluation is cited."""
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    if row["seal"] is None:
        raise NotFoundError(f"evaluation {row['evaluation_id']} is not complete; it can be cited once it is sealed")
    return _file(cited_evaluation(row), BIBTEX, f"evaluation-{row['seal'][:12]}.bib")


# Pictures of charts


@blueprint.get("/charts/<chart>.<any(svg, png):form>", defaults={"of": ""})
@blueprint.get("/<path:of>/charts/<chart>.<any(svg, png):form>")
def chart_picture(of: str, chart: str, form: pictures.Form) -> ResponseReturnValue:
    """A chart of a page as a picture of its own, under the page's address and query; `theme=dark` in dark colours.

    The chart is taken from the page itself, so that a picture shows what the page shows, to whom it shows it.
    """
    dark = parameters.choice(request.args, "theme", ("light", "dark"), "light") == "dark"
    view, arguments = _page_of(of)
    with limited(PICTURES, "pictures"):
        rendered = current_app.make_response(current_app.ensure_sync(view)(**arguments))
    page = read_page(rendered.get_data(as_text=True), addresses.base())
    if chart not in page.charts:
        known = ", ".join(page.charts) or "none"
        raise NotFoundError(f"no chart {parameters.shorten(chart)} at /{parameters.shorten(of)[1:-1]}; it has: {known}")
    asked = urlencode([(key, value) for key, value in request.args.items(multi=True) if key != "theme"])
    source = f"{addresses.public(f'/{quote(of)}')}{'?' if asked else ''}{asked}, {_today()}"
    picture = pictures.of_chart(page.charts[chart], form, title=page.title, source=source, dark=dark)
    response = Response(picture, content_type=pictures.KINDS[form])
    # Opened by itself, an SVG document has styles of its own, and nothing else.
    response.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
    name = "-".join(part for part in (*of.split("/"), chart) if part)
    response.headers["Content-Disposition"] = f'inline; filename="{quote(name)}.{form}"'
    response.add_etag()
    return response


def _page_of(path: str) -> tuple[Any, Mapping[str, Any]]:
    """The view of a page with charts, and what its path says."""
    unknown = NotFoundError(f"/{parameters.shorten(path)[1:-1]} is no page with charts; take the address from its page")
    adapter = current_app.create_url_adapter(request)
    assert adapter is not None
    try:
        endpoint, arguments = adapter.match(f"/{path}", method="GET")
    except (HTTPException, RequestRedirect):
        raise unknown from None
    if endpoint not in DRAWN_ON:
        raise unknown
    return current_app.view_functions[endpoint], arguments


# What everyone sees alike: these are made for an anonymous visitor, whoever asks


def _for_everyone(body: str | bytes, kind: str) -> Response:
    """An answer that anyone may keep for a while and show on another site."""
    response = Response(body, content_type=kind)
    response.headers["Cache-Control"] = f"public, max-age={SHARED_SECONDS}"
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    response.add_etag()
    return response


def _badge(badge: Badge) -> Response:
    return _for_everyone(badge_svg(badge), pictures.KINDS["svg"])


def _badge_metric() -> str:
    return parameters.choice(request.args, "metric", METRICS, "worst_accuracy")


@blueprint.get("/badge/evaluations/<evaluation_id>.svg")
def evaluation_badge(evaluation_id: str) -> ResponseReturnValue:
    """A metric of an evaluation as a badge."""
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    return _badge(headlines.evaluation_badge(session(), row, _badge_metric()))


@blueprint.get("/badge/models/<model>/<benchmark>.svg")
def model_badge(model: str, benchmark: str) -> ResponseReturnValue:
    """A metric of a model on a benchmark as a badge; `variants` and `protocol` choose among its evaluations."""
    selection = Selection(
        model=parameters.name("model", model),
        benchmark=parameters.name("benchmark", benchmark),
        variants=parameters.text(request.args, "variants"),
        protocol=parameters.text(request.args, "protocol"),
    )
    return _badge(headlines.model_badge(session(), selection, _badge_metric()))


@blueprint.get("/boards/<name>/embed")
def embed(name: str) -> ResponseReturnValue:
    """A board for the pages of others: its table alone, whose links open a tab of their own."""
    document = snapshot_document(snapshot_as_of(session(), shown_board(name).name))
    shown = _shown_board(document, "")
    page = render_template(
        "embed.html",
        document=document,
        shown=shown,
        rows=list(zip(document["rows"], shown.rows, strict=True))[:EMBEDDED_ROWS],
        board=addresses.public(url_for("boards.board", name=document["board"])),
        model=lambda model: addresses.public(url_for("pages.model", model=model)),
    )
    response = _for_everyone(page, "text/html; charset=utf-8")
    response.headers["Content-Security-Policy"] = (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors *"
    )
    return response


def _preview_picture(of: Callable[[], Card]) -> Response:
    with limited(PICTURES, "pictures"):
        card = of()
    # What a request calls this host is for nobody else to see, nor to have drawn once for each name.
    host = urlsplit(settings_of().public_url).netloc
    svg = card_svg(card, pictures.palette(dark=False), host)
    return _for_everyone(pictures.drawn({"form": "png", "svg": svg, "scale": 1.0}), pictures.KINDS["png"])


@blueprint.get("/boards/<name>/preview.png")
def board_preview(name: str) -> ResponseReturnValue:
    """The picture that a link to a board is shown with."""
    return _preview_picture(lambda: _board_card(snapshot_as_of(session(), shown_board(name).name)))


def _board_card(snapshot: BoardSnapshot) -> Card:
    document = snapshot_document(snapshot)
    return headlines.board_card(document, shown_way(document, document["sort"]).spans)


@blueprint.get("/snapshots/<digest>/preview.png")
def snapshot_preview(digest: str) -> ResponseReturnValue:
    """The picture that a link to a snapshot is shown with."""
    return _preview_picture(lambda: _board_card(shown_snapshot(digest)))


@blueprint.get("/evaluations/<evaluation_id>/preview.png")
def evaluation_preview(evaluation_id: str) -> ResponseReturnValue:
    """The picture that a link to an evaluation is shown with."""
    number = parameters.identifier("evaluation", evaluation_id)
    return _preview_picture(lambda: headlines.evaluation_card(session(), queries.evaluation(session(), number)))


@blueprint.get("/models/<model>/preview.png")
def model_preview(model: str) -> ResponseReturnValue:
    """The picture that a link to a model is shown with."""
    name = parameters.name("model", model)
    return _preview_picture(lambda: headlines.model_card(session(), listings.model(session(), name)))

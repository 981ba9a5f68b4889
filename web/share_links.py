"""What pages say of how they are shared: previews, links, tables, citations, badges, pictures of charts."""

from typing import Any, Final
from urllib.parse import quote, urlencode

from flask import g, request, url_for
from jinja2 import pass_context
from jinja2.runtime import Context

from registry.exchange.citations import evaluation_entry, publisher_of, snapshot_entry
from registry.schema.selectables import Row
from web import pictures
from web.serving.responses import session
from web.shown import headlines
from web.urls import links
from web.who import addresses

DRAWN_ON: Final = frozenset(
    {
        "assessing.protocol",
        "boards.board",
        "boards.snapshot",
        "comparing.answer_moving",
        "comparing.compare",
        "pages.evaluation",
        "pages.evaluation_question",
        "pages.leaderboard",
        "pages.model",
        "pages.question",
        "proof.drift",
    }
)
"""Pages whose charts have pictures."""
FORMS: Final[dict[str, tuple[str, str]]] = {
    "csv": ("CSV", "text/csv; charset=utf-8"),
    "parquet": ("Parquet", "application/vnd.apache.parquet"),
    "md": ("Markdown", "text/markdown; charset=utf-8"),
    "tex": ("LaTeX", "application/x-tex; charset=utf-8"),
}
"""How a table can be taken away, JSON apart: label and type."""


def cited_snapshot(document: Row) -> str:
    """How a snapshot is cited, from its document as it is shown."""
    return snapshot_entry(
        document,
        addresses.public(url_for("boards.snapshot", digest=document["digest"])),
        publisher_of(addresses.base()),
    )


def cited_evaluation(row: Row) -> str:
    """How a sealed evaluation is cited."""
    address = addresses.public(url_for("pages.evaluation", evaluation_id=row["evaluation_id"]))
    return evaluation_entry(row, address, publisher_of(addresses.base()))


def pictures_of(name: str) -> Row:
    """What a chart is called on this page, and the addresses of its pictures by form, none where the page's have none.

    For the macro that names them, once for each chart.
    """
    taken: set[str] = g.setdefault("charts", set())
    called, number = name, 1
    while called in taken:
        number += 1
        called = f"{name}-{number}"
    taken.add(called)
    if request.endpoint not in DRAWN_ON:
        return {"name": called, "addresses": {}}
    asked = urlencode(list(request.args.items(multi=True)))
    path = f"{quote(request.path.rstrip('/'))}/charts/{called}"
    addresses_of = {form: f"{path}.{form}{'?' if asked else ''}{asked}" for form in pictures.KINDS}
    return {"name": called, "addresses": addresses_of}


@pass_context
def preview_of_page(context: Context) -> Row | None:
    """What a link to this page is shown with elsewhere: description, URL and picture; None for pages without.

    Made of what the page shows anyway. The picture is fetched by others, who are shown what anonymous visitors see.
    """
    arguments = request.view_args or {}
    if request.endpoint in ("boards.board", "boards.snapshot") and "document" in context:
        document = context["document"]
        card = headlines.board_card(document)
        current = request.endpoint == "boards.board" and "as_of" not in request.args
        path = (
            url_for("sharing.board_preview", name=document["board"])
            if current
            else url_for("sharing.snapshot_preview", digest=document["digest"])
        )
        page = url_for("boards.board", name=document["board"]) if current else document["permalink"]
    elif request.endpoint == "pages.evaluation" and "evaluation" in context:
        card = headlines.evaluation_card(session(), context["evaluation"])
        path, page = url_for("sharing.evaluation_preview", **arguments), url_for("pages.evaluation", **arguments)
    elif request.endpoint == "pages.model" and "model" in context:
        card = headlines.model_card(session(), context["model"])
        path, page = url_for("sharing.model_preview", **arguments), url_for("pages.model", **arguments)
    else:
        return None
    return {
        "title": card.title,
        "description": card.description,
        "url": addresses.public(page),
        "image": addresses.public(path),
    }


@pass_context
def share_of_page(context: Context) -> Row | None:
    """What the page can be shared as: link, tables, citation, badges and a board to embed; None for other pages."""
    arguments = request.view_args or {}
    if request.endpoint == "pages.leaderboard" and "asked" in context:
        asked = context["asked"]
        shown = ",".join(context.get("metrics") or asked.metrics)
        view = links.here(metrics=shown, sort=asked.sort, order=asked.order)
        forms = {"csv": links.there("pages.leaderboard_csv"), "json": links.there("api.leaderboard")} | {
            form: links.there("sharing.leaderboard_table", form=form) for form in FORMS if form != "csv"
        }
        return _shared(view, "This view. Its numbers change as results come in.", tables=forms)
    if request.endpoint in ("boards.board", "boards.snapshot") and "document" in context:
        return _share_board(context["document"])
    if request.endpoint == "pages.evaluation" and "evaluation" in context:
        row = context["evaluation"]
        page = url_for("pages.evaluation", **arguments)
        badge = url_for("sharing.evaluation_badge", **arguments)
        shared = _shared(page, "This evaluation.", badges=[_snippet(badge, page, row["benchmark"])])
        if row["seal"] is not None:
            shared |= _citation(cited_evaluation(row), url_for("sharing.evaluation_bibtex", **arguments))
        return shared
    if request.endpoint == "pages.model" and "model" in context:
        name = context["model"]["model"]
        benchmarks = dict.fromkeys(row["benchmark"] for row in context.get("shown") or ())
        page = url_for("pages.model", model=name)
        badges = [
            _snippet(url_for("sharing.model_badge", model=name, benchmark=benchmark), page, benchmark)
            for benchmark in benchmarks
        ]
        return _shared(page, "This model. Its numbers change as results come in.", badges=badges)
    return None


def _shared(view: str, about: str, **more: Any) -> Row:
    return {"link": addresses.public(view), "about": about, "tables": {}, "badges": [], "labels": _LABELS} | more


_LABELS: Final = {**{form: label for form, (label, _) in FORMS.items()}, "json": "JSON"}


def _citation(entry: str, address: str) -> Row:
    return {"bibtex": entry, "bib": address}


def _snippet(badge: str, page: str, benchmark: str) -> Row:
    image, target = addresses.public(badge), addresses.public(page)
    alt = f"Worst accuracy on {benchmark}"
    return {
        "benchmark": benchmark,
        "src": badge,
        "alt": alt,
        "markdown": f"[![{alt}]({image})]({target})",
        "html": f'<a href="{target}"><img src="{image}" alt="{alt}" height="20"></a>',
    }


def _share_board(document: Row) -> Row:
    current = request.endpoint == "boards.board" and "as_of" not in request.args
    digest = document["digest"]
    sorting: dict[str, Any] = {key: request.args[key] for key in ("sort", "order") if key in request.args}
    tables = {form: url_for("sharing.snapshot_as_table", digest=digest, form=form) for form in FORMS}
    tables = {"csv": tables.pop("csv"), "json": url_for("api.snapshot", digest=digest), **tables}
    view = links.here() if current else url_for("boards.snapshot", digest=digest, **sorting)
    about = "The board as it is now. Its numbers change as results come in." if current else "This snapshot."
    shared = _shared(view, about, tables=tables, permanent=addresses.public(document["permalink"]))
    shared |= _citation(cited_snapshot(document), url_for("sharing.snapshot_bibtex", digest=digest))
    if current:
        address = addresses.public(url_for("sharing.embed", name=document["board"]))
        shared["embed"] = (
            f'<iframe src="{address}" title="Board {document["board"]}" width="100%" height="480" loading="lazy">'
            "</iframe>"
        )
    return shared

"""The links for sharing a page: its address, tables and citations."""

from typing import Any, Final

from flask import request, url_for
from jinja2 import pass_context
from jinja2.runtime import Context

from registry.exchange.citations import evaluation_entry, publisher_of, snapshot_entry
from registry.schema.selectables import Row
from web.urls import links
from web.who import addresses

FORMS: Final[dict[str, tuple[str, str]]] = {
    "csv": ("CSV", "text/csv; charset=utf-8"),
    "parquet": ("Parquet", "application/vnd.apache.parquet"),
    "md": ("Markdown", "text/markdown; charset=utf-8"),
    "tex": ("LaTeX", "application/x-tex; charset=utf-8"),
}
"""Formats of tables to download, except JSON: label and type."""


def cited_snapshot(document: Row) -> str:
    """Return the citation of a snapshot, given its document."""
    return snapshot_entry(
        document,
        addresses.public(url_for("boards.snapshot", digest=document["digest"])),
        publisher_of(addresses.base()),
    )


def cited_evaluation(row: Row) -> str:
    """Return the citation of a sealed evaluation."""
    address = addresses.public(url_for("pages.evaluation", evaluation_id=row["evaluation_id"]))
    return evaluation_entry(row, address, publisher_of(addresses.base()))


@pass_context
def share_of_page(context: Context) -> Row | None:
    """Return the link, tables and citation of the page; None for pages without them."""
    arguments = request.view_args or {}
    if request.endpoint == "pages.leaderboard" and "asked" in context:
        ordering = context["asked"]
        shown = ",".join(context.get("metrics") or ordering.metrics)
        view = links.here(metrics=shown, sort=ordering.sort, order=ordering.order)
        forms = {"csv": links.there("pages.leaderboard_csv"), "json": links.there("api.leaderboard")} | {
            form: links.there("sharing.leaderboard_table", form=form) for form in FORMS if form != "csv"
        }
        return _shared(view, "This view. Its numbers change as results come in.", tables=forms)
    if request.endpoint in ("boards.board", "boards.snapshot") and "document" in context:
        return _share_board(context["document"])
    if request.endpoint == "pages.evaluation" and "evaluation" in context:
        row = context["evaluation"]
        page = url_for("pages.evaluation", **arguments)
        shared = _shared(page, "This evaluation.")
        if row["seal"] is not None:
            shared |= _citation(cited_evaluation(row), url_for("sharing.evaluation_bibtex", **arguments))
        return shared
    if request.endpoint == "pages.model" and "model" in context:
        name = context["model"]["model"]
        page = url_for("pages.model", model=name)
        return _shared(page, "This model. Its numbers change as results come in.")
    return None


def _shared(view: str, about: str, **more: Any) -> Row:
    return {"link": addresses.public(view), "about": about, "tables": {}, "labels": _LABELS} | more


_LABELS: Final = {**{form: label for form, (label, _) in FORMS.items()}, "json": "JSON"}


def _citation(entry: str, address: str) -> Row:
    return {"bibtex": entry, "bib": address}


def _share_board(document: Row) -> Row:
    current = request.endpoint == "boards.board" and "as_of" not in request.args
    digest = document["digest"]
    sorting: dict[str, Any] = {key: request.args[key] for key in ("sort", "order") if key in request.args}
    tables = {form: url_for("sharing.snapshot_as_table", digest=digest, form=form) for form in FORMS}
    tables = {"csv": tables.pop("csv"), "json": url_for("api.snapshot", digest=digest), **tables}
    view = links.here() if current else url_for("boards.snapshot", digest=digest, **sorting)
    about = "The board as it is now. Its numbers change as results come in." if current else "This snapshot."
    shared = _shared(view, about, tables=tables, permanent=addresses.public(document["permalink"]))
    return shared | _citation(cited_snapshot(document), url_for("sharing.snapshot_bibtex", digest=digest))

"""The SQL page: read-only queries over the documented views, and saved queries with permanent links.

Queries see the data that the viewer's audience may see. The form is a POST, which redirects to a URL that contains the
query if that is short enough.
"""

import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint, Response, current_app, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from registry.db import database_now, read_session, write_session
from registry.errors import ForbiddenError, NotFoundError, QueryRefusedError, UsageError
from registry.places import BusyError
from registry.schema.documented import load_documented_views
from registry.sql import Answered, NotReadyError, Queries, QueryResult, as_csv, as_json, as_parquet
from registry.sql.examples import EXAMPLES
from registry.tables.accounts import Account, SavedQuery
from web.charts import queries as charts
from web.urls import parameters
from web.who.identity import QUERIES, client, engine, limit_rate, record, settings_of, viewer

blueprint = Blueprint("sql", __name__)

MAX_QUERY: Final = 20_000
"""Longest query, in characters."""
MAX_ADDRESS: Final = 3000
"""Longest URL that servers and proxies accept by default, in characters."""
MOST_SHOWN: Final = 500
"""Most rows on the page; downloads have as many as the settings allow."""
KINDS: Final[Mapping[str, tuple[Any, str]]] = {
    "csv": (as_csv, "text/csv; charset=utf-8"),
    "json": (as_json, "application/json; charset=utf-8"),
    "parquet": (as_parquet, "application/vnd.apache.parquet"),
}
"""Format of a download → its writer and media type."""

LINKED: Final[Mapping[str, str]] = {"evaluation_id": "pages.evaluation", "question_id": "pages.question"}
"""Column of a result → the page that its numbers link to, so that a question's text is one click away."""


def queries() -> Queries:
    """Return the object that runs this application's queries."""
    runner: Queries = current_app.extensions.setdefault("shuffleboard_queries", Queries(engine(), settings_of()))
    return runner


def read_query() -> str:
    """Return the query in a request. Raises UsageError if it is too long or not text."""
    text = request.values.get("q", "")
    if len(text) > MAX_QUERY:
        raise UsageError(f"a query of {len(text):,} characters; write one of up to {MAX_QUERY:,}")
    return text.replace("\r\n", "\n").strip()


def run(text: str) -> Answered:
    """Run the query as the viewer, after waiting for earlier queries and within their limits; record a refusal."""
    asking = viewer()
    asking.require("sql")
    with limit_rate(QUERIES, "sql"):
        try:
            return queries().ask(asking.audience, text, client())
        except QueryRefusedError as error:
            record("sql", text[:500], outcome="refused", reason=str(error)[:500])
            raise


@blueprint.route("/sql", methods=["GET", "POST"])
def page() -> ResponseReturnValue:
    """Show the editor, the schema, and the query's rows."""
    viewer().require("sql")
    text = read_query()
    if request.method == "POST":
        chart: dict[str, Any] = {name: request.form.get(name) or None for name in ("chart", "x", "y")}
        address = url_for("sql.page", q=text, **chart)
        if len(address) <= MAX_ADDRESS:
            return redirect(address, 303)
    return _page(text)


def _page(text: str, saved: SavedQuery | None = None) -> ResponseReturnValue:
    answered, error, status = None, None, HTTPStatus.OK
    if text:
        try:
            answered = run(text)
        except (BusyError, NotReadyError) as waiting:
            error, status = str(waiting), HTTPStatus.SERVICE_UNAVAILABLE
        except QueryRefusedError as refused:
            error, status = str(refused), HTTPStatus.BAD_REQUEST
    with read_session(engine()) as database:
        kept = readable(database)
    result = None if answered is None else answered.result
    chart, drawn, chart_problem = None, charts.Choice(), None
    if result is not None:
        try:
            drawn = charts.choice(result, *(request.values.get(name, "") for name in ("chart", "x", "y")))
            chart = charts.draw_result(result, drawn)
        except UsageError as problem:
            chart_problem = str(problem)
    body = render_template(
        "sql.html",
        text=text,
        answered=answered,
        result=result,
        shown=() if result is None else result.rows[:MOST_SHOWN],
        error=error,
        saved=saved,
        kept=kept,
        views=load_documented_views(),
        examples=EXAMPLES,
        settings=settings_of(),
        audience=viewer().audience,
        max_query=MAX_QUERY,
        chart=chart,
        drawn=drawn,
        chart_problem=chart_problem,
        chart_kinds=charts.KINDS,
        kinds=KINDS,
        linked=LINKED,
    )
    headers = {"Retry-After": "3"} if status is HTTPStatus.SERVICE_UNAVAILABLE else {}
    return body, status, headers


def file_of(result: QueryResult, kind: str) -> Response:
    """Return the rows as a file to download."""
    write, mime = KINDS[kind]
    response = Response(write(result), content_type=mime)
    response.headers["Content-Disposition"] = f'attachment; filename="query.{kind}"'
    return response


@blueprint.route("/sql.<any(csv, json, parquet):kind>", methods=["GET", "POST"])
def download(kind: str) -> ResponseReturnValue:
    """Return the rows of a query as CSV, JSON or Parquet."""
    viewer().require("sql")
    text = read_query()
    if not text:
        raise UsageError("q: give a query")
    return file_of(run(text).result, kind)


# Saved queries


def readable(database: Session) -> list[tuple[SavedQuery, str]]:
    """Return the saved queries that the viewer may open, with their owners."""
    asking = viewer()
    mine = SavedQuery.account_id == asking.account_id if asking.signed_in else SavedQuery.public
    query = (
        select(SavedQuery, Account.name)
        .join(Account, Account.id == SavedQuery.account_id)
        .where(SavedQuery.deleted_at.is_(None), or_(SavedQuery.public, mine))
        .order_by(SavedQuery.name, SavedQuery.id)
    )
    return [(query_row, owner) for query_row, owner in database.execute(query)]


def find_saved(database: Session, slug: str) -> SavedQuery:
    """Return a saved query. Raises NotFoundError if it does not exist or the viewer may not read it."""
    row = next((query for query, _ in readable(database) if query.slug == slug), None)
    if row is None:
        raise NotFoundError(f"no saved query {parameters.shorten(slug)}; /sql lists those that you may open")
    return row


def save(name: str, text: str, *, public: bool) -> str:
    """Save a query under a permanent link and return its slug. The query must run."""
    asking = viewer()
    asking.require("sql")
    if asking.account_id is None:
        asking.require("submit")
    name = " ".join(name.split())
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise UsageError("a saved query needs a name of 1 to 100 printable characters")
    run(text)
    slug = secrets.token_urlsafe(9)
    with write_session(engine()) as database:
        database.add(SavedQuery(slug=slug, account_id=asking.account_id, name=name, sql=text, public=public))
    record("query.save", slug)
    return slug


@blueprint.post("/sql/saved")
def save_query() -> ResponseReturnValue:
    """Save the query of the form."""
    public = request.form.get("public") == "yes"
    slug = save(request.form.get("name", ""), read_query(), public=public)
    return redirect(url_for("sql.saved", slug=slug), 303)


@blueprint.get("/sql/<slug>")
def saved(slug: str) -> ResponseReturnValue:
    """Run a saved query again and show it."""
    viewer().require("sql")
    with read_session(engine()) as database:
        row = find_saved(database, slug)
    return _page(row.sql, row)


def delete(slug: str) -> None:
    """Delete one of the viewer's own saved queries."""
    asking = viewer()
    asking.require("sql")
    with write_session(engine()) as database:
        row = find_saved(database, slug)
        if row.account_id != asking.account_id and not asking.may("admin"):
            raise ForbiddenError(f"saved query {slug} is not {asking.name}'s; ask its owner to delete it")
        row.deleted_at = database.scalar(select(database_now()))
    record("query.delete", slug)


@blueprint.post("/sql/<slug>/delete")
def delete_saved(slug: str) -> ResponseReturnValue:
    """Delete a saved query."""
    delete(slug)
    return redirect(url_for("sql.page"), 303)

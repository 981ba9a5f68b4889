"""The SQL page: read-only queries over the documented views or archives, and saved queries with permanent links.

Queries see what the viewer's audience sees; maintainers on PostgreSQL query as members, since no reader role sees
hidden data. The form is a POST, which redirects to a URL with the query in it if that is short enough.
"""

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from flask import Blueprint, Flask, Response, current_app, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from registry.db import database_now, read_session, write_session
from registry.errors import ArchiveError, DatabaseError, ForbiddenError, NotFoundError, QueryRefusedError, UsageError
from registry.people.accounts import Viewer
from registry.schema.audiences import Audience, audience_engine
from registry.schema.public_sql import QueryResult, as_csv, as_json, checked, documented_views, run_query
from registry.schema.public_sql.runner import GRACE_SECONDS, dialect_of, places
from registry.settings import Settings
from registry.tables import Archive
from registry.tables.accounts import Account, SavedQuery
from web import parameters
from web.identity import QUERIES, client, engine, limited, record, settings_of, viewer
from web.reading import read_primary_instead, readers, reading
from web.turns import BusyError, Turns

blueprint = Blueprint("sql", __name__)

WAITING: Final = 2
"""Queries that wait in a process of the website: each occupies a thread."""
MAX_QUERY: Final = 20_000
"""Characters of a query."""
MAX_ADDRESS: Final = 3000
"""Characters of a URL that servers and proxies accept by default."""
MAX_DIGITS: Final = 18
"""Digits of an evaluation's number."""
_OF_ARCHIVES: Final = re.compile(
    rf"\s*--[ \t]*archives:[ \t]*(\d{{1,{MAX_DIGITS}}}(?:[ ,]+\d{{1,{MAX_DIGITS}}})*)[ \t]*\r?\n\s*", re.ASCII
)
"""The line that a query may begin with."""
MOST_SHOWN: Final = 500
"""Rows on the page; the files have as many as the settings allow."""
NOT_SET_UP: Final = (
    "Queries cannot be answered here yet; the server's log has the reason for this registry's administrators."
)
LOST: Final = "The file of an archived evaluation in this query is missing or damaged; the server's log says which."
EXAMPLES: Final = {
    "Who loses most when options move": """\
SELECT model, benchmark, variants, accuracy, worst_accuracy, accuracy - worst_accuracy AS lost
FROM leaderboard
WHERE worst_accuracy IS NOT NULL
ORDER BY lost DESC
LIMIT 20""",
    "Questions whose answer changes with the order": """\
SELECT evaluation_id, external_id, subject, fluctuation_rate
FROM question_metrics
WHERE fluctuation_rate > 0
ORDER BY fluctuation_rate DESC, external_id
LIMIT 50""",
    "Which position each evaluation prefers": """\
SELECT
    evaluation_id,
    chosen_position,
    count(*) AS prompts,
    avg(CASE WHEN correct THEN 1.0 ELSE 0.0 END) AS share_correct
FROM prediction_detail
WHERE chosen_position IS NOT NULL
GROUP BY evaluation_id, chosen_position
ORDER BY evaluation_id, chosen_position""",
}
"""Label → query, for first-time visitors."""


def audience_of(asking: Viewer) -> Audience:
    """Whose reader asks for them."""
    if asking.audience == "all" and engine().dialect.name == "postgresql":
        return "members"
    return asking.audience


def asked_query() -> str:
    """The query in a request. Raises UsageError for one that is too long or not text."""
    text = request.values.get("q", "")
    if len(text) > MAX_QUERY:
        raise UsageError(f"a query of {len(text):,} characters; write one of up to {MAX_QUERY:,}")
    return text.replace("\r\n", "\n").strip()


def asked_archives() -> list[int]:
    """The archived evaluations that a request asks of. Raises UsageError for what are no numbers."""
    listed = request.values.get("archives", "").replace(",", " ").split()
    if not all(one.isascii() and one.isdecimal() and len(one) <= MAX_DIGITS for one in listed):
        raise UsageError("archives: give numbers of archived evaluations, such as 12, 15")
    return [int(one) for one in listed]


def parted(text: str, archives: Sequence[int] = ()) -> tuple[str, Sequence[int]]:
    """A query without a first line such as `-- archives: 12, 15`, and the archived evaluations that it is asked of.

    archives: those that were given beside the query, which go before those of its first line.
    """
    line = _OF_ARCHIVES.match(text)
    if line is None:
        return text, archives
    return text[line.end() :], archives or [int(one) for one in line[1].replace(",", " ").split()]


def run(text: str, archives: Sequence[int] = ()) -> QueryResult:
    """Runs the query as the viewer, within their limits; refusals are recorded.

    archives: the archived evaluations that it is asked of; none: those that its first line names, else the database.
    """
    text, archives = parted(text, archives)
    asking = viewer()
    asking.require("sql")
    audience = audience_of(asking)
    with limited(QUERIES, "sql"):
        try:
            with _in_turn():
                return _asked_of_archives(audience, text, archives) if archives else _asked(audience, text)
        except QueryRefusedError as error:
            record("sql", text[:500], outcome="refused", reason=str(error)[:500])
            raise


@contextmanager
def _in_turn() -> Iterator[None]:
    """One running query of each client, the rest in turn. Raises QueryRefusedError where it does not become its."""
    settings = settings_of()
    turns: Turns = current_app.extensions["shuffleboard_queries"]
    try:
        with turns.turn(client(), settings.sql_seconds + GRACE_SECONDS):
            yield
    except BusyError as error:
        raise QueryRefusedError(f"other queries are running: {error}; try again in a moment") from None


def install(app: Flask) -> None:
    """Gives the application the turns of its queries."""
    settings: Settings = app.extensions["shuffleboard_settings"]
    app.extensions["shuffleboard_queries"] = Turns(places(settings), waiting=WAITING)


def _asked(audience: Audience, text: str) -> QueryResult:
    """Asks the replica, where this request reads from it and its readers can be reached."""
    try:
        result = run_query(readers(settings_of()), audience, text)
    except DatabaseError as error:
        if not read_primary_instead(error):
            raise
        result = run_query(settings_of(), audience, text)
    missing = _archived(audience)
    if not missing or not _reads_predictions(text):
        return result
    note = (
        f"This answer leaves out the predictions of {missing} archived evaluation{'' if missing == 1 else 's'}; to "
        "query those, give the numbers of the evaluations as well."
    )
    return replace(result, notes=(*result.notes, note))


def _reads_predictions(text: str) -> bool:
    from registry.results.archived import reads_predictions  # and pyarrow

    return reads_predictions(text)


def _archived(audience: Audience) -> int:
    """How many archived evaluations an audience sees."""
    with read_session(audience_engine(reading(), audience)) as database:
        return database.scalar(select(func.count()).select_from(Archive)) or 0


def _asked_of_archives(audience: Audience, text: str, archives: Sequence[int]) -> QueryResult:
    from registry.results.archived_sql import ask_archives  # and pyarrow

    try:
        with read_session(audience_engine(reading(), audience)) as database:
            return ask_archives(database, readers(settings_of()), audience, text, archives)
    except DatabaseError as error:
        if not read_primary_instead(error):
            raise
    with read_session(audience_engine(reading(), audience)) as database:
        return ask_archives(database, settings_of(), audience, text, archives)


@blueprint.route("/sql", methods=["GET", "POST"])
def page() -> ResponseReturnValue:
    """The editor, the schema, and the rows of the query."""
    viewer().require("sql")
    text, archives = parted(asked_query(), asked_archives())
    if request.method == "POST":
        address = url_for("sql.page", q=text, archives=", ".join(map(str, archives)) or None)
        if len(address) <= MAX_ADDRESS:
            return redirect(address, 303)
    return _page(text, archives=archives)


def _page(text: str, saved: SavedQuery | None = None, archives: Sequence[int] = ()) -> ResponseReturnValue:
    result, error, status = None, None, HTTPStatus.OK
    if text:
        try:
            result = run(text, archives)
        except QueryRefusedError as refused:
            error, status = str(refused), HTTPStatus.BAD_REQUEST
        except ArchiveError as lost:
            # Where the file is concerns maintainers alone.
            current_app.logger.warning("%s", lost)
            error, status = LOST, HTTPStatus.SERVICE_UNAVAILABLE
        except DatabaseError as missing:
            # The message names settings and roles: for the log.
            current_app.logger.error("%s", missing)  # noqa: TRY400 - a line, not a traceback
            error, status = NOT_SET_UP, HTTPStatus.SERVICE_UNAVAILABLE
    with read_session(engine()) as database:
        kept = readable(database)
    return (
        render_template(
            "sql.html",
            text=text,
            archives=archives,
            archived=_archived(audience_of(viewer())),
            result=result,
            shown=() if result is None else result.rows[:MOST_SHOWN],
            error=error,
            saved=saved,
            kept=kept,
            views=documented_views(),
            examples=EXAMPLES,
            settings=settings_of(),
            audience=audience_of(viewer()),
            dialect=dialect_of(settings_of()),
            max_query=MAX_QUERY,
        ),
        status,
    )


def file_of(result: QueryResult, kind: str) -> Response:
    """The rows as a file to download."""
    body, mime = (as_csv(result), "text/csv") if kind == "csv" else (as_json(result), "application/json")
    response = Response(body, content_type=f"{mime}; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="query.{kind}"'
    return response


@blueprint.route("/sql.<any(csv, json):kind>", methods=["GET", "POST"])
def download(kind: str) -> ResponseReturnValue:
    """The rows of a query as CSV or JSON."""
    viewer().require("sql")
    text = asked_query()
    if not text:
        raise UsageError("q: give a query")
    return file_of(run(text, asked_archives()), kind)


# Saved queries


def readable(database: Session) -> list[tuple[SavedQuery, str]]:
    """The saved queries that the viewer may open, with their owners."""
    asking = viewer()
    mine = SavedQuery.account_id == asking.account_id if asking.signed_in else SavedQuery.public
    query = (
        select(SavedQuery, Account.name)
        .join(Account, Account.id == SavedQuery.account_id)
        .where(SavedQuery.deleted_at.is_(None), or_(SavedQuery.public, mine))
        .order_by(SavedQuery.name, SavedQuery.id)
    )
    return [(found, owner) for found, owner in database.execute(query)]


def find_saved(database: Session, slug: str) -> SavedQuery:
    """A saved query that the viewer may read. NotFoundError whether it is someone else's or does not exist."""
    found = next((query for query, _ in readable(database) if query.slug == slug), None)
    if found is None:
        raise NotFoundError(f"no saved query {parameters.shorten(slug)}; /sql lists those that you may open")
    return found


def save(name: str, text: str, archives: Sequence[int] = (), *, public: bool) -> str:
    """Saves a query under a permanent link and returns its slug. It must be one that would be allowed to run.

    archives: the archived evaluations that it is asked of, which its stored text then names in its first line.
    """
    asking = viewer()
    asking.require("sql")
    if asking.account_id is None:
        asking.require("submit")
    name = " ".join(name.split())
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise UsageError("a saved query needs a name of 1 to 100 printable characters")
    text, archives = parted(text, archives)
    checked(text, "duckdb" if archives else dialect_of(settings_of()))
    if archives:
        text = f"-- archives: {', '.join(map(str, archives))}\n{text}"
    slug = secrets.token_urlsafe(9)
    with write_session(engine()) as database:
        database.add(SavedQuery(slug=slug, account_id=asking.account_id, name=name, sql=text, public=public))
    record("query.save", slug)
    return slug


@blueprint.post("/sql/saved")
def save_query() -> ResponseReturnValue:
    """Saves the query of the form."""
    public = request.form.get("public") == "yes"
    slug = save(request.form.get("name", ""), asked_query(), asked_archives(), public=public)
    return redirect(url_for("sql.saved", slug=slug), 303)


@blueprint.get("/sql/<slug>")
def saved(slug: str) -> ResponseReturnValue:
    """A saved query, run again."""
    viewer().require("sql")
    with read_session(engine()) as database:
        found = find_saved(database, slug)
    text, archives = parted(found.sql)
    return _page(text, found, archives)


def delete(slug: str) -> None:
    """Deletes one of the viewer's own saved queries."""
    asking = viewer()
    asking.require("sql")
    with write_session(engine()) as database:
        found = find_saved(database, slug)
        if found.account_id != asking.account_id and not asking.may("admin"):
            raise ForbiddenError(f"saved query {slug} is not {asking.name}'s; ask its owner to delete it")
        found.deleted_at = database.scalar(select(database_now()))
    record("query.delete", slug)


@blueprint.post("/sql/<slug>/delete")
def delete_saved(slug: str) -> ResponseReturnValue:
    """Deletes a saved query."""
    delete(slug)
    return redirect(url_for("sql.page"), 303)

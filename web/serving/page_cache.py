"""Keeps the pages of anonymous visitors, and serves them again while the database has not changed.

A page is a function of its address and of what the database holds. Both engines say cheaply whether anything was
written since: PostgreSQL by its current snapshot, a replica by how far it has replayed the log (its snapshots leave out
which transactions are in progress), SQLite by its data version. A kept page is served only if that is as
it was before the page was made; one statement is all that the database is asked. Only what an anonymous visitor sees is
kept, and never a page with a form's CSRF token or a cookie in it.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from http import HTTPStatus
from sys import getsizeof
from typing import Final

from flask import Flask, Response, current_app, g, request
from sqlalchemy import Connection, Engine, event, func, literal_column, select, text
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from registry.db import database_now
from registry.replica import replayed
from registry.tables import Embargo
from web import frame
from web.serving.reading import read_primary_instead, reading, reads_from_replica
from web.who import addresses
from web.who.identity import viewer

CAPACITY: Final = 64 * 2**20
"""Bytes of pages that a process keeps, the least recently used dropped first."""
LARGEST: Final = 2 * 2**20
"""Bytes of the largest body that is kept."""
PATIENCE_SECONDS: Final = 2.0
"""How long a request waits for another that makes the same page, before it makes its own."""

ENDPOINTS: Final = frozenset(
    {
        "api.benchmark",
        "api.benchmark_errata",
        "api.benchmark_items",
        "api.benchmarks",
        "api.board",
        "api.boards",
        "api.evaluation",
        "api.evaluation_metric_values",
        "api.evaluation_question",
        "api.evaluation_questions",
        "api.evaluations",
        "api.leaderboard",
        "api.model",
        "api.models",
        "api.question",
        "api.snapshot",
        "api.snapshots",
        "api.board_selection",
        "boards.board",
        "boards.boards",
        "boards.snapshot",
        "comparing.answer_moving",
        "comparing.compare",
        "feed.feed",
        "overview.overview",
        "own.own",
        "pages.benchmark",
        "pages.benchmarks",
        "pages.errata",
        "pages.evaluation",
        "pages.evaluation_question",
        "pages.items",
        "pages.leaderboard",
        "pages.leaderboard_csv",
        "pages.metrics_guide",
        "pages.model",
        "pages.models",
        "pages.question",
        "proof.contamination_page",
        "proof.drift",
        "proof.provenance",
        "proof.withdrawn",
        "scrutiny.scrutiny",
        "sharing.board_preview",
        "sharing.embed",
        "sharing.evaluation_badge",
        "sharing.evaluation_preview",
        "sharing.model_badge",
        "sharing.model_preview",
        "sharing.snapshot_preview",
        "tradeoffs.tradeoffs",
    }
)
"""What depends on its address and the database alone: not on the clock, a file, a query, or who asks."""


PREVIEWS: Final = frozenset(name for name in ENDPOINTS if name.endswith("_preview"))
"""Of these, what is the same whatever the request calls the host, adds to the path, or prefers."""
ENTRY: Final = 2048
"""Bytes that an entry takes beside its body, its key and its headers."""


@dataclass(frozen=True)
class Kept:
    """A body with its headers, and what the database's state was before it was made."""

    state: str
    body: bytes
    headers: tuple[tuple[str, str], ...]


def _size(key: tuple[str, ...], kept: Kept) -> int:
    """Bytes that an entry takes: a body may be short, and the address that asked for it long."""
    texts = (*key, kept.state, *(text for header in kept.headers for text in header))
    return ENTRY + len(kept.body) + sum(map(getsizeof, texts))


class Pages:
    """Bodies by request, at most `CAPACITY` bytes with all that belongs to them. Safe between threads."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, ...], Kept] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...], state: str) -> Kept | None:
        """What was kept for this request, if the database's state is still the same."""
        with self._lock:
            found = self._kept.get(key)
            if found is None or found.state != state:
                return None
            self._kept.move_to_end(key)
            return found

    def put(self, key: tuple[str, ...], kept: Kept) -> None:
        """Keeps a body in place of an older one."""
        with self._lock:
            older = self._kept.pop(key, None)
            self._bytes += _size(key, kept) - (0 if older is None else _size(key, older))
            self._kept[key] = kept
            while self._bytes > self._capacity:
                self._bytes -= _size(*self._kept.popitem(last=False))


class Turns:
    """Lets one thread of the process at a time make a page; who waited for it takes what was kept.

    A thread that makes a page on behalf of another (of whose chart a picture is asked for) does not wait again.
    """

    def __init__(self) -> None:
        self._locks = [threading.Lock() for _ in range(64)]
        self._mine = threading.local()

    def take(self, key: tuple[str, ...]) -> bool:
        """Waits for the turn of this page, at most `PATIENCE_SECONDS`; whether somebody else had it meanwhile."""
        if getattr(self._mine, "key", None) is not None:
            return False
        lock = self._locks[hash(key) % len(self._locks)]
        waited = not lock.acquire(blocking=False)
        if not waited or lock.acquire(timeout=PATIENCE_SECONDS):
            self._mine.key = key
        return waited

    def pass_on(self, key: tuple[str, ...]) -> None:
        """Ends this thread's turn, if it has that of this page."""
        if getattr(self._mine, "key", None) == key:
            self._mine.key = None
            self._locks[hash(key) % len(self._locks)].release()


def _moment(connection: Connection, state: str) -> str:
    """The value of the expression `state`, and how many embargoes have ended, which they do without a write."""
    ended = select(func.count()).where(Embargo.until <= database_now()).scalar_subquery()
    try:
        return " ".join(map(str, connection.execute(select(literal_column(state), ended)).one()))
    except (OperationalError, ProgrammingError) as error:
        if "embargo" not in str(error.orig):
            raise
        connection.rollback()  # of a database without a schema, which some pages do without
        return str(connection.scalar(select(literal_column(state))))


class State:
    """Tells whether anything was written to the database or an embargo ended: equal texts mean that nothing did."""

    def __init__(self, over: Engine) -> None:
        self._engine = over
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        event.listen(over, "engine_disposed", self._close)

    def _close(self, _engine: Engine) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def now(self) -> str:
        """The state of the database before what is read next."""
        if self._engine.dialect.name == "postgresql":
            with self._engine.connect() as connection:
                return _moment(connection, "CAST(pg_current_snapshot() AS text)")
        # SQLite counts what other connections wrote, so that this one must stay open and write nothing.
        with self._lock:
            if self._connection is None:
                self._connection = self._engine.execution_options(read_only=True).connect()
            version = self._connection.scalar(text("PRAGMA data_version"))
            state = _moment(self._connection, str(version))
            self._connection.rollback()
            return state


def _key() -> tuple[str, ...] | None:
    """What the page depends on beside the database; None for a request whose answer is not kept."""
    if request.method not in ("GET", "HEAD") or request.endpoint not in ENDPOINTS or viewer().signed_in:
        return None
    # What the endpoint answers is of one kind, whatever the request accepts.
    if request.endpoint in PREVIEWS:
        return (viewer().audience, request.path)
    return (viewer().audience, addresses.base(), request.full_path, frame.theme())


def database_state() -> str:
    """The state of the database that this request reads from, before what is read next."""
    if reads_from_replica():
        try:
            with reading().connect() as connection:
                position = f"'{replayed(connection)}'"
                return f"replica at {_moment(connection, position)}"
        except DBAPIError as error:
            read_primary_instead(error)
    state: State = current_app.extensions["shuffleboard_state"]
    return state.now()


def changes_with_time() -> None:
    """Called by a page that shows work being done, whose rate depends on the clock: it is not kept."""
    g.keep_not = True


def _serve() -> Response | None:
    """Answers with the kept page, if there is one."""
    key = _key()
    if key is None:
        return None
    pages: Pages = current_app.extensions["shuffleboard_pages"]
    turns: Turns = current_app.extensions["shuffleboard_turns"]
    state = database_state()
    found = pages.get(key, state)
    if found is None and turns.take(key):
        state = database_state()
        found = pages.get(key, state)
    if found is None:
        g.keep_as = (key, state)
        return None
    turns.pass_on(key)
    return Response(found.body, headers=list(found.headers))


def _end_turn(_error: BaseException | None) -> None:
    if "keep_as" in g:
        current_app.extensions["shuffleboard_turns"].pass_on(g.keep_as[0])


def _keep(response: Response) -> Response:
    """Keeps the page that was just made. Runs before the headers that belong to one request are added."""
    if response.is_streamed:
        _end_turn(None)  # who reads it slowly keeps nobody waiting
        return response
    if "keep_as" not in g or "keep_not" in g or response.status_code != HTTPStatus.OK:
        return response
    if "csrf_token" in g or "Set-Cookie" in response.headers or response.direct_passthrough:
        return response
    body = response.get_data()
    if request.method == "HEAD" or len(body) > LARGEST:
        return response
    key, state = g.keep_as
    response.headers.setdefault("Cache-Control", "public, no-cache")
    response.add_etag()
    current_app.extensions["shuffleboard_pages"].put(key, Kept(state, body, tuple(response.headers)))
    return response


def install(app: Flask) -> None:
    """Hangs the kept pages onto the application, behind the checks of who asks."""
    app.extensions["shuffleboard_state"] = State(app.extensions["shuffleboard_engine"])
    app.extensions["shuffleboard_pages"] = Pages()
    app.extensions["shuffleboard_turns"] = Turns()
    app.before_request(_serve)
    app.after_request(_keep)
    app.teardown_request(_end_turn)

"""A cache of anonymous visitors' pages as they are sent, valid while the database has not changed.

A page depends on its address and on the database. Both engines cheaply show whether anything was written: PostgreSQL by
its current snapshot, SQLite by its data version. That state is part of the key, so a cached page is served only while
nothing was written; the database answers one statement. Pages of signed-in viewers, pages with a form's CSRF token or a
cookie, and pages that depend on more than the database are rendered each time. A page is cached for each encoding that
clients accept.
"""

import threading
import zlib
from http import HTTPStatus
from typing import Final

from cachelib import SimpleCache
from flask import Flask, Response, current_app, g, request
from sqlalchemy import Connection, Engine, event, func, select
from sqlalchemy.exc import OperationalError, ProgrammingError

from registry.db import database_now
from registry.tables import BenchmarkVersion
from web import frame
from web.who import addresses
from web.who.identity import viewer

PAGES: Final = 256
"""Most pages that a process caches."""
LARGEST: Final = 1 << 18
"""Largest cached body in bytes, compressed, so that all pages take at most 64 MiB."""
KEPT_SECONDS: Final = 300
"""Seconds after which a page is rendered again in any case."""
LIVE: Final = frozenset(
    {
        *("static", "frame.choose_theme", "metrics.metrics", "pages.healthz", "pages.readyz"),
        *("pages.queue", "api.queue", "api.progress"),
        *("api.query", "sql.download", "sql.page", "sql.saved"),
        *("api.chain", "api.chain_signatures", "api.verification", "proof.chain", "proof.newest_key", "proof.one_key"),
    }
)
"""Endpoints whose answers depend on the clock, on other files or on the effect of the request."""


_POSTGRESQL_STATE: Final = (
    # A standby's snapshot does not show which transactions are in progress; its position in the log does.
    "CASE WHEN pg_is_in_recovery() THEN CAST(pg_last_wal_replay_lsn() AS text) "
    "ELSE CAST(pg_current_snapshot() AS text) END"
)


class State:
    """The state of a database: equal texts mean that nothing was written and no benchmark became public by its date."""

    def __init__(self, over: Engine) -> None:
        self._engine = over
        opened = select(func.count()).where(BenchmarkVersion.public_from <= database_now())
        # Compiled once, because every request for a page asks it.
        self._opened = str(opened.compile(over, compile_kwargs={"literal_binds": True}))
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        event.listen(over, "engine_disposed", self._close)

    def _close(self, _engine: Engine) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def now(self) -> str:
        """Return the state of the database before the next statement."""
        if self._engine.dialect.name == "postgresql":
            with self._engine.connect() as connection:
                return self._read(connection, _POSTGRESQL_STATE)
        # SQLite counts the writes of other connections, so this one must stay open and write nothing.
        with self._lock:
            if self._connection is None:
                self._connection = self._engine.execution_options(read_only=True).connect()
            version = self._connection.exec_driver_sql("PRAGMA data_version").scalar()
            state = self._read(self._connection, str(version))
            self._connection.rollback()
            return state

    def _read(self, connection: Connection, state: str) -> str:
        """Return the value of the SQL expression `state`, and the number of benchmarks that became public by date."""
        try:
            return " ".join(map(str, connection.exec_driver_sql(f"SELECT {state}, ({self._opened})").one()))
        except (OperationalError, ProgrammingError) as error:
            if "benchmark_version" not in str(error.orig):
                raise
            connection.rollback()  # a database without a schema, which some pages do not need
            return str(connection.exec_driver_sql(f"SELECT {state}").scalar())


def database_state() -> str:
    """Return the state of the database that this request reads, before the next statement."""
    state: State = current_app.extensions["shuffleboard_state"]
    return state.now()


def _key() -> str | None:
    """Return the cache key of the page, with everything it depends on. None for a request that is not cached."""
    if request.method not in ("GET", "HEAD") or request.endpoint is None or request.endpoint in LIVE:
        return None
    if viewer().signed_in:
        return None
    parts = (
        viewer().audience,
        addresses.base(),
        request.script_root,
        request.full_path,
        frame.theme(),
        request.headers.get("Accept", ""),
        _encoding(),
        database_state(),
    )
    return "\0".join(parts)


def _encoding() -> str:
    """Return the encoding in which a cached page is sent to this client: br, gzip or none."""
    return request.accept_encodings.best_match(("br", "gzip")) or ""


def changes_with_time() -> None:
    """Exclude this answer from the cache: it shows work in progress, whose rate depends on the clock."""
    g.keep_not = True


def _serve() -> Response | None:
    """Answer with the cached page, if there is one."""
    g.cache_key = _key()
    if g.cache_key is None:
        return None
    cached = current_app.extensions["shuffleboard_pages"].get(g.cache_key)
    if cached is None:
        return None
    g.keep_not = True
    body, headers = cached
    return Response(body if "Content-Encoding" in dict(headers) else zlib.decompress(body), headers=headers)


def _mark(response: Response) -> Response:
    """Mark a page that nothing but its address and the database determines, before the headers of this request."""
    if g.get("cache_key") is None or "keep_not" in g or response.status_code != HTTPStatus.OK:
        return response
    if "csrf_token" in g or "Set-Cookie" in response.headers or response.is_streamed or response.direct_passthrough:
        return response
    if request.method == "HEAD":
        return response
    response.headers.setdefault("Cache-Control", "public, no-cache")
    response.add_etag()
    g.kept_headers = response.headers.copy()
    return response


def keep(response: Response) -> Response:
    """Cache a marked page after it was compressed, so that this is done once."""
    headers = g.pop("kept_headers", None)
    encoding = response.headers.get("Content-Encoding", "")
    if headers is None or encoding not in ("", _encoding()):
        return response
    body = response.get_data()
    if encoding:
        headers["Content-Encoding"], headers["ETag"] = encoding, response.headers["ETag"]
    else:
        body = zlib.compress(body, 1)
    headers.remove("Content-Length")
    if len(body) <= LARGEST:
        current_app.extensions["shuffleboard_pages"].set(g.cache_key, (body, list(headers)))
    return response


def install(app: Flask) -> None:
    """Add the page cache to the application, after the checks of who makes the request."""
    app.extensions["shuffleboard_state"] = State(app.extensions["shuffleboard_read_engine"])
    app.extensions["shuffleboard_pages"] = SimpleCache(threshold=PAGES, default_timeout=KEPT_SECONDS)
    app.before_request(_serve)
    app.after_request(_mark)

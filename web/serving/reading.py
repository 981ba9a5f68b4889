"""Which database a request reads from: the primary, or a replica that has everything this client wrote.

Whoever sends a token reads from the primary, since programs keep no cookies. A browser that changed something is given
a cookie with the position of the primary's log after the change, and reads from the primary until the replica has
replayed that.
"""

import re
import threading
import time
from http import HTTPStatus
from typing import Final

from flask import Flask, Response, current_app, g, request
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from registry.db import get_engine
from registry.logs import log
from registry.replica import Standing, has_replayed, position, read_only, standing
from registry.schema.history import head
from registry.settings import Settings
from web.who.identity import SAFE, engine, settings_of

COOKIE: Final = "shuffleboard_written"
COOKIE_SECONDS: Final = 3600
LOOK_SECONDS: Final = 1.0
"""How long a process goes by what it found of the replica."""
AGAIN_SECONDS: Final = 10.0
"""How long it leaves a replica alone that did not answer: each try may take as long as connecting may."""
CONFLICT: Final = "40001"
"""PostgreSQL's SQLSTATE of a query that a replica ended, since the log removes rows that it reads."""

_POSITION: Final = re.compile(r"[0-9A-F]{1,8}/[0-9A-F]{1,8}")


class Replica:
    """The replica as a process of the website knows it. Safe between threads."""

    def __init__(self, primary: Engine, url: str, most_seconds: float) -> None:
        self.engine = read_only(get_engine(url))
        self._primary = primary
        self._most_seconds = most_seconds
        self._known = Standing("was not asked yet")
        self._next = 0.0
        self._lock = threading.Lock()

    def standing(self) -> Standing:
        """How it stands, asked at most once a second; one thread asks, the others go by what was known."""
        if time.monotonic() >= self._next and self._lock.acquire(blocking=False):
            try:
                self._learn(standing(self._primary, self.engine, most_seconds=self._most_seconds, revision=head()))
            finally:
                self._lock.release()
        return self._known

    def give_up(self, error: Exception) -> None:
        """After a query failed there: unless the replica ended it, nobody reads from it for a while."""
        if getattr(getattr(error, "orig", None), "sqlstate", None) != CONFLICT:
            self._learn(Standing(f"does not answer: {str(error).splitlines()[0]}"))

    def _learn(self, found: Standing) -> None:
        if bool(found.trouble) != bool(self._known.trouble) or self._next == 0.0:
            if found.trouble:
                log.warning("replica_not_used", replica=self._shown(), reason=found.trouble)
            else:
                log.info("replica_used", replica=self._shown(), lag_seconds=found.lag_seconds)
        self._known = found
        self._next = time.monotonic() + (AGAIN_SECONDS if found.lag_bytes is None else LOOK_SECONDS)

    def _shown(self) -> str:
        return self.engine.url.render_as_string(hide_password=True)


def replica() -> Replica | None:
    """The application's replica; None where there is none."""
    return current_app.extensions["shuffleboard_replica"]  # type: ignore[no-any-return]


def reading() -> Engine:
    """The engine that this request reads from, the same for all of it."""
    if "reads_from" not in g:
        other = replica()
        g.reads_from = other.engine if other is not None and _may_read_from(other) else engine()
    return g.reads_from  # type: ignore[no-any-return]


def reads_from_replica() -> bool:
    """Whether this request reads from the replica."""
    return reading() is not engine()


def _may_read_from(other: Replica) -> bool:
    if request.method not in SAFE or "Authorization" in request.headers or other.standing().trouble:
        return False
    written = request.cookies.get(COOKIE, "")
    if not _POSITION.fullmatch(written):
        return True
    try:
        with other.engine.connect() as connection:
            return has_replayed(connection, written)
    except DBAPIError as error:
        other.give_up(error)
        return False


def read_primary_instead(error: Exception) -> bool:
    """Whether what failed was read from the replica, so that this request may be tried again, from the primary."""
    other = replica()
    if other is None or g.get("reads_from") is not other.engine:
        return False
    other.give_up(error)
    g.reads_from = engine()
    return True


def _note_position(response: Response) -> Response:
    """Gives a browser that changed something the position to wait for."""
    changed = request.method not in SAFE and response.status_code < HTTPStatus.BAD_REQUEST
    if replica() is not None and changed and "Authorization" not in request.headers:
        with engine().connect() as connection:
            written = position(connection)
        response.set_cookie(
            COOKIE,
            written,
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="Lax",
            secure=settings_of().public_url.startswith("https://"),
        )
    return response


def install(app: Flask, settings: Settings) -> None:
    """Gives the application its replica, if there is one."""
    url, primary = settings.resolved_replica_url(), app.extensions["shuffleboard_engine"]
    app.extensions["shuffleboard_replica"] = (
        Replica(primary, url, settings.replica_lag_seconds) if url and primary.dialect.name == "postgresql" else None
    )
    app.after_request(_note_position)

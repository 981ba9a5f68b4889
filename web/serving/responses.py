"""JSON, headers on every response, and the request's session."""

import json
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from flask import Flask, Response, current_app, g, request
from flask.json.provider import DefaultJSONProvider
from flask.typing import ResponseReturnValue
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from registry.db import read_session
from registry.schema.audiences import audience_engine
from web.problems import API, database_error
from web.serving.reading import read_primary_instead, reading
from web.who.identity import SHARED, viewer

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class JsonProvider(DefaultJSONProvider):
    """JSON as the command line prints it: keys in their order, times in ISO 8601, no NaN."""

    sort_keys = False
    ensure_ascii = False

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        """The document as text; a non-finite number is an error, since JSON has none."""
        return json.dumps(obj, default=_plain, ensure_ascii=False, allow_nan=False, **kwargs)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    message = f"{type(value).__name__} is not JSON"
    raise TypeError(message)


def session() -> Session:
    """This request's session: one transaction that only reads, and only what the viewer may see."""
    if "session" not in g:
        g.opened = read_session(audience_engine(reading(), viewer().audience))
        g.session = g.opened.__enter__()
    return g.session  # type: ignore[no-any-return]


def _close_session(_error: BaseException | None) -> None:
    if g.pop("session", None) is not None:
        g.pop("opened").__exit__(None, None, None)


def _once_more(error: OperationalError | InterfaceError) -> ResponseReturnValue:
    """Answers a request from the primary that failed on the replica."""
    if not read_primary_instead(error):
        return database_error(error)
    with suppress(SQLAlchemyError):
        _close_session(None)
    g.keep_not = True  # web/serving/page_cache.py would keep the page with the replica's state
    try:
        return current_app.dispatch_request()
    except Exception as other:  # noqa: BLE001 - what is no answer is raised again
        return current_app.handle_user_exception(other)


def _finish(response: Response) -> Response:
    for key, value in SECURITY_HEADERS.items():
        response.headers.setdefault(key, value)
    if request.is_secure:
        response.headers.setdefault("Strict-Transport-Security", "max-age=31536000")
    if request.endpoint != "static" and not (request.endpoint in SHARED and response.status_code == HTTPStatus.OK):
        _mark_personal(response)
    if response.status_code == HTTPStatus.OK and request.method in ("GET", "HEAD"):
        if request.path.startswith(API):
            # Of the content, so that it is right whatever the source of a number.
            response.add_etag()
        if "ETag" in response.headers and request.endpoint != "static":
            response.make_conditional(request)
    return response


def _mark_personal(response: Response) -> None:
    """Keeps what only one viewer may see out of shared caches."""
    response.headers.setdefault("Cache-Control", "no-cache")
    response.vary.update(("Authorization", "Cookie"))
    asking = g.get("viewer")
    if asking is not None and asking.signed_in:
        response.headers["Cache-Control"] = "private, no-cache"


def install(app: Flask) -> None:
    """Hangs headers and the session's end onto the application."""
    app.json = JsonProvider(app)
    app.after_request(_finish)
    app.teardown_appcontext(_close_session)
    for kind in (OperationalError, InterfaceError):
        app.register_error_handler(kind, _once_more)

"""Errors as pages or as problem documents, headers on every response, and the request's session."""

import json
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from flask import Flask, Response, current_app, g, render_template, request
from flask.json.provider import DefaultJSONProvider
from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as AnyResponse

from registry.db import read_session
from registry.errors import DatabaseError, IngestError, NotFoundError, QueueError, ShuffleboardError
from registry.schema.audiences import audience_engine

API: Final = "/api/"

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

_STATUS: Final[tuple[tuple[type[ShuffleboardError], HTTPStatus], ...]] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (QueueError, HTTPStatus.CONFLICT),
    (IngestError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (DatabaseError, HTTPStatus.SERVICE_UNAVAILABLE),
)

_NO_DATABASE: Final = (
    "The database does not answer or does not match this version of the code; the server's log says which. "
    "Try again later."
)


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
        from web.identity import viewer  # which imports this module

        g.opened = read_session(audience_engine(engine(), viewer().audience))
        g.session = g.opened.__enter__()
    return g.session  # type: ignore[no-any-return]


def engine() -> Engine:
    """The application's engine, which sees everything: for writing, and for reading accounts."""
    return current_app.extensions["shuffleboard_engine"]  # type: ignore[no-any-return]


def _close_session(_error: BaseException | None) -> None:
    if g.pop("session", None) is not None:
        g.pop("opened").__exit__(None, None, None)


def wants_json() -> bool:
    """Whether errors of this request are problem documents rather than pages."""
    return request.path.startswith(API) or request.path in ("/healthz", "/readyz")


def problem(status: HTTPStatus, detail: str) -> AnyResponse:
    """An error as an RFC 9457 document under the API, as a page elsewhere."""
    if wants_json():
        document = {
            "type": "about:blank",
            "title": status.phrase,
            "status": int(status),
            "detail": detail,
            "instance": request.path,
        }
        body, kind = current_app.json.dumps(document), "application/problem+json"
    else:
        body, kind = render_template("error.html", status=status, detail=detail), "text/html"
    return Response(body, status=int(status), content_type=f"{kind}; charset=utf-8" if kind == "text/html" else kind)


def _registry_error(error: ShuffleboardError) -> AnyResponse:
    """The one place where errors of the registry become responses; the other errors are the client's."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.BAD_REQUEST)
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        # The message names the database: for the operator, not for the public.
        current_app.logger.error("%s", error)
        return _unavailable()
    return problem(status, str(error))


def _database_error(error: Exception) -> AnyResponse:
    current_app.logger.error("database: %s", str(error).splitlines()[0])
    return _unavailable()


def _unavailable() -> AnyResponse:
    response = problem(HTTPStatus.SERVICE_UNAVAILABLE, _NO_DATABASE)
    response.headers["Retry-After"] = "10"
    return response


def _http_error(error: HTTPException) -> AnyResponse:
    """Unknown URLs, wrong methods, redirects, and unexpected errors (logged by Flask)."""
    if error.code is None or error.code < HTTPStatus.BAD_REQUEST:
        return error.get_response()
    response = problem(HTTPStatus(error.code), error.description or HTTPStatus(error.code).phrase)
    allowed = getattr(error, "valid_methods", None)
    if allowed:
        response.headers["Allow"] = ", ".join(sorted(allowed))
    wait = getattr(error, "retry_after", None)
    if wait is not None:
        response.headers["Retry-After"] = str(wait)
    return response


def _finish(response: Response) -> Response:
    for key, value in SECURITY_HEADERS.items():
        response.headers.setdefault(key, value)
    if request.is_secure:
        response.headers.setdefault("Strict-Transport-Security", "max-age=31536000")
    if request.endpoint != "static":
        _mark_personal(response)
    if request.path.startswith(API) and response.status_code == HTTPStatus.OK and request.method in ("GET", "HEAD"):
        # Of the content, so that it is right whatever the source of a number; 304 if the client already has it.
        response.add_etag()
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
    """Adds error handlers, headers and the session's end to the application."""
    app.json = JsonProvider(app)
    app.register_error_handler(ShuffleboardError, _registry_error)
    for kind in (OperationalError, InterfaceError, PoolTimeoutError):
        app.register_error_handler(kind, _database_error)
    app.register_error_handler(HTTPException, _http_error)
    app.after_request(_finish)
    app.teardown_appcontext(_close_session)

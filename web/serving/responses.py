"""JSON, headers on every response, and the request's session."""

import json
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from flask import Flask, Response, g, request
from flask.json.provider import DefaultJSONProvider
from flask_compress import Compress
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session

from registry.db import read_session
from registry.schema.audiences import audience_engine
from web.problems import API, database_error
from web.serving.page_cache import keep
from web.who.identity import SAFE, engine, read_engine, viewer

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


COMPRESSED: Final = (
    *("text/html", "text/css", "text/csv", "text/plain", "text/javascript", "application/javascript", "image/svg+xml"),
    *("application/json", "application/problem+json", "application/atom+xml", "application/openapi+json"),
)
"""Media types that are worth compressing."""


class JsonProvider(DefaultJSONProvider):
    """JSON as the command line prints it: keys in their order, times in ISO 8601, no NaN."""

    sort_keys = False
    ensure_ascii = False

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        """Return the document as text. A non-finite number is an error, since JSON has none."""
        return json.dumps(obj, default=_plain, ensure_ascii=False, allow_nan=False, **kwargs)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    message = f"{type(value).__name__} is not JSON"
    raise TypeError(message)


def session() -> Session:
    """Return this request's session: one read-only transaction over the data that the viewer may see."""
    if "session" not in g:
        # Signed-in people see their own changes at once, which a replica may lack.
        source = read_engine() if request.method in SAFE and not viewer().signed_in else engine()
        g.opened = read_session(audience_engine(source, viewer().audience))
        g.session = g.opened.__enter__()
    return g.session  # type: ignore[no-any-return]


def _close_session(_error: BaseException | None) -> None:
    if g.pop("session", None) is not None:
        g.pop("opened").__exit__(None, None, None)


_compress: Final = Compress()


def _finish(response: Response) -> Response:
    for key, value in SECURITY_HEADERS.items():
        response.headers.setdefault(key, value)
    if request.is_secure:
        response.headers.setdefault("Strict-Transport-Security", "max-age=31536000")
    if request.endpoint != "static":
        _mark_personal(response)
    if response.status_code == HTTPStatus.OK and request.method in ("GET", "HEAD"):
        if request.path.startswith(API):
            # The tag is computed from the content, so that it is right whatever the source of a number.
            response.add_etag()
        if "ETag" in response.headers and request.endpoint != "static":
            response.make_conditional(request)
    # The length of a compressed page with a token and text from the request would reveal the token (BREACH).
    if "csrf_token" in g or response.status_code == HTTPStatus.PARTIAL_CONTENT:
        return response
    return keep(_compress.after_request(response))


def _mark_personal(response: Response) -> None:
    """Keep answers for a single viewer out of shared caches."""
    response.headers.setdefault("Cache-Control", "no-cache")
    response.vary.update(("Authorization", "Cookie"))
    asking = g.get("viewer")
    if asking is not None and asking.signed_in:
        response.headers["Cache-Control"] = "private, no-cache"


def install(app: Flask) -> None:
    """Configure the application's JSON, headers, compression and the end of the session."""
    app.json = JsonProvider(app)
    app.config.update(
        COMPRESS_REGISTER=False,
        COMPRESS_ALGORITHM=["br", "gzip"],
        COMPRESS_MIMETYPES=COMPRESSED,
        COMPRESS_STREAMS=True,
    )
    _compress.init_app(app)
    app.after_request(_finish)
    app.teardown_appcontext(_close_session)
    for kind in (OperationalError, InterfaceError):
        app.register_error_handler(kind, database_error)

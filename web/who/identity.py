"""The identity of a request: the owner of its token, the account that the browser is signed in to, or a visitor.

A request with a token counts as the token owner's, whatever cookies it sends. Requests without a token that change
something must include the form's CSRF token.
"""

import re
import secrets
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import structlog
from flask import Flask, current_app, g, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_limiter import Limiter
from flask_limiter.errors import RateLimitExceeded
from flask_login import LoginManager, UserMixin, current_user  # type: ignore[import-untyped]
from flask_wtf.csrf import CSRFError, CSRFProtect  # type: ignore[import-untyped]
from limits import parse
from sqlalchemy import Engine
from werkzeug.exceptions import TooManyRequests
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.wrappers import Response as AnyResponse

from registry.db import read_session, write_session
from registry.errors import AuthenticationError, ForbiddenError, UsageError
from registry.people import accounts
from registry.people.accounts import Viewer
from registry.private import make_folder
from registry.queue.broker import BROKER_OPTIONS, broker_address
from registry.schema.history import require_current
from registry.settings import Settings
from registry.tables.accounts import Account
from registry.untrusted import check
from web import problems
from web.urls import links
from web.who.openid import Provider, provider_of
from web.who.throttle import network

SAFE: Final = ("GET", "HEAD", "OPTIONS")
OPEN: Final = frozenset(
    {
        *("static", "pages.healthz", "pages.readyz", "frame.choose_theme", "api.openapi"),
        *("signing.sign_in", "sign_on.start", "sign_on.callback"),
    }
)
"""Endpoints that answer anyone, even if anonymous reading is switched off."""
MAX_BODY: Final = 2 * 1024 * 1024
"""Largest body of a request in bytes, unless its route accepts more."""

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

csrf: Final = CSRFProtect()
login: Final = LoginManager()


class SignedIn(UserMixin):  # type: ignore[misc]
    """An account in a browser's cookie, identified by the secret of its session in the database."""

    def __init__(self, account: Account, secret: str) -> None:
        self.viewer = accounts.viewer_of_account(account)
        self.secret = secret

    def get_id(self) -> str:
        """Return the cookie's value."""
        return self.secret


@login.user_loader  # type: ignore[untyped-decorator]
def _load(cookie: str) -> SignedIn | None:
    with read_session(engine()) as session:
        account = accounts.account_of_session(session, cookie, settings_of().session_hours)
        return None if account is None else SignedIn(account, cookie)


def viewer() -> Viewer:
    """Return the request's viewer. Raises AuthenticationError for an invalid token."""
    if "viewer" not in g:
        g.viewer = _viewer()
    return g.viewer  # type: ignore[no-any-return]


def _viewer() -> Viewer:
    settings = settings_of()
    token = bearer()
    if token is not None:
        with read_session(engine()) as session:
            authenticated = accounts.viewer_of_token(session, token)
            assert authenticated.token_id is not None
            written = accounts.was_used_lately(session, authenticated.token_id)
        if not written:
            with write_session(engine()) as session:
                accounts.note_use(session, authenticated.token_id)
        return authenticated
    if current_user.is_authenticated:
        signed_in: Viewer = current_user.viewer
        return signed_in
    return accounts.anonymous(reading=settings.anonymous_reading, sql=settings.anonymous_sql)


def find_shown_viewer() -> Viewer:
    """Return the request's viewer for the frame of a page, even if the authentication failed."""
    current: Viewer | None = g.get("viewer")
    return current or accounts.anonymous(reading=True, sql=False)


def bearer() -> str | None:
    """Return the request's token. Raises AuthenticationError for another kind of authorization."""
    header = request.headers.get("Authorization")
    if header is None:
        return None
    kind, _, token = header.partition(" ")
    if kind.casefold() != "bearer":
        raise AuthenticationError(f"Authorization: {kind[:20]} is not supported; send `Authorization: Bearer <token>`")
    return token.strip()


def engine() -> Engine:
    """Return the application's engine, which sees everything: for writing, and for reading accounts."""
    return current_app.extensions["shuffleboard_engine"]  # type: ignore[no-any-return]


def read_engine() -> Engine:
    """Return the engine for pages of visitors who are not signed in: a replica's, if the settings name one."""
    return current_app.extensions["shuffleboard_read_engine"]  # type: ignore[no-any-return]


def settings_of() -> Settings:
    """Return the application's settings."""
    return current_app.extensions["shuffleboard_settings"]  # type: ignore[no-any-return]


def sign_on() -> Provider | None:
    """Return the provider for signing in; None if the settings name none."""
    return current_app.extensions["shuffleboard_provider"]  # type: ignore[no-any-return]


def provider() -> Provider:
    """Return the provider; call it only if there is one."""
    provided = sign_on()
    assert provided is not None
    return provided


def record(action: str, target: str | None = None, *, outcome: str = "done", **details: Any) -> None:
    """Add to the audit trail in a separate transaction: refusals must stay if everything else is rolled back.

    Only a limited number of refusals per client is recorded, so that flooding the website does not fill the database.
    """
    if outcome == "refused":
        g.written_down = True
        if not _count_request(REFUSALS, f"refusals:{client()}"):
            current_app.logger.warning("refused and not recorded: %s %s from %s", action, target, client())
            return
    asking = g.get("viewer") or accounts.anonymous(reading=False, sql=False)
    with write_session(engine()) as session:
        accounts.record(
            session,
            asking,
            action,
            target,
            outcome=outcome,
            address=request.remote_addr,
            details=details or None,
        )


def _write_down(response: AnyResponse) -> AnyResponse:
    """Record every refused change in the audit trail."""
    refused = HTTPStatus.BAD_REQUEST <= response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
    if refused and request.method not in SAFE and not g.get("written_down"):
        record("request", f"{request.method} {request.path}", outcome="refused", status=response.status_code)
    return response


def _check_request() -> ResponseReturnValue | None:
    """Check the viewer, their right to read, and the CSRF token before every request.

    Refuses to write into a database that a newer version has upgraded in the meantime.
    """
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request=_request_id(), method=request.method, path=request.path)
    if request.endpoint == "static":
        return None
    if request.endpoint is None:
        with suppress(AuthenticationError):  # only so that the frame of the error page shows the viewer
            viewer()
        return None
    asking = viewer()
    if request.endpoint not in OPEN and not asking.may("read"):
        # Signing in would not grant these rights.
        if problems.wants_json() or asking.signed_in or request.method not in SAFE:
            asking.require("read")
        return redirect(url_for("signing.sign_in", next=links.return_path()))
    _refuse_unstorable()
    if request.method not in SAFE:
        # A request to the API with neither token nor cookie has no rights that another site could abuse.
        if bearer() is None and (asking.signed_in or not problems.wants_json()):
            csrf.protect()
        with limit_rate(WRITES, "writes"):
            pass
        require_current(engine())
    return None


def _refuse_unstorable() -> None:
    """Refuse values in path, query string and form that no database can store. Bodies of the API are checked later."""
    check(dict(request.view_args or {}), "the path")
    check(request.args.to_dict(flat=False), "the query string")
    if request.method not in SAFE and not problems.wants_json():
        check(request.form.to_dict(flat=False), "the form")


def _request_id() -> str:
    """Return the request id from the proxy, or a new one, for the log and the response."""
    if "request_id" not in g:
        received = request.headers.get("X-Request-Id", "")
        g.request_id = received if _REQUEST_ID.fullmatch(received) else uuid.uuid4().hex
    return g.request_id  # type: ignore[no-any-return]


def _name_request(response: AnyResponse) -> AnyResponse:
    response.headers["X-Request-Id"] = _request_id()
    return response


def _answer_refused(error: AuthenticationError | ForbiddenError) -> AnyResponse:
    """Answer 401 or 403, with a line in the audit trail."""
    record("request", f"{request.method} {request.path}", outcome="refused", reason=str(error))
    if isinstance(error, ForbiddenError):
        return problems.problem(HTTPStatus.FORBIDDEN, str(error))
    response = problems.problem(HTTPStatus.UNAUTHORIZED, str(error))
    response.headers["WWW-Authenticate"] = 'Bearer realm="shuffleboard"'
    return response


def _answer_forged(error: CSRFError) -> AnyResponse:
    record("request", f"{request.method} {request.path}", outcome="refused", reason=f"CSRF: {error.description}")
    return problems.problem(
        HTTPStatus.BAD_REQUEST,
        f"{error.description} Go back, reload the form and send it again; programs send a token instead of a cookie.",
    )


def client() -> str:
    """Return the key by which requests are counted: the account, or the network of the client's address."""
    asking = g.get("viewer")
    if asking is not None and asking.signed_in:
        return f"account:{asking.account_id}"
    return f"address:{network(request.remote_addr)}"


@contextmanager
def limit_rate(rule: str, what: str, *key: str) -> Iterator[None]:
    """Count a request under `rule`, such as "5 per minute", for the client or the key.

    Raises TooManyRequests if there were too many.
    """
    if not _count_request(rule, ":".join((what, *(key or (client(),))))):
        record("request", f"{request.method} {request.path}", outcome="refused", reason=f"more than {rule}")
        raise TooManyRequests(f"more than {rule}; wait a moment and try again", retry_after=parse(rule).get_expiry())
    yield


def _count_request(rule: str, key: str) -> bool:
    """Count a request; return whether it was within the rule."""
    limiter: Limiter = current_app.extensions["shuffleboard_limiter"]
    try:
        with limiter.limit(rule, key_func=lambda: key):
            return True
    except RateLimitExceeded:
        return False


REFUSALS: Final = "60 per minute"
"""Most refusals of a client that are recorded."""
WRITES: Final = "120 per minute"
"""Most requests of a client that change something."""
QUERIES: Final = "60 per minute"
"""Most queries of a client on the SQL page."""


def secret_key(settings: Settings) -> bytes:
    """Return the key that signs cookies, from its file, which is created if missing.

    Raises UsageError for a file that cannot be read, is too short, or cannot be created.
    """
    path = settings.secret_key_file or settings.home.expanduser() / "secret.key"
    try:
        if settings.secret_key_file is None:
            _make_key(path)
        key = path.read_bytes().strip()
    except OSError as error:
        raise UsageError(
            f"{path}: the key that signs cookies cannot be read or created ({error.strerror}); "
            "check SHUFFLEBOARD_SECRET_KEY_FILE and SHUFFLEBOARD_HOME"
        ) from None
    if len(key) < 32:
        raise UsageError(f"{path}: {len(key)} bytes are too few for a key; write 32 random bytes or more into it")
    return key


def _make_key(path: Path) -> None:
    if path.exists():
        return
    make_folder(path.parent)
    # Several processes may start at once: only one succeeds in renaming, and its file already has the complete key.
    own = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    own.touch(mode=0o600)
    try:
        own.write_text(secrets.token_hex(32), encoding="ascii")
        with suppress(FileExistsError):
            path.hardlink_to(own)
    finally:
        own.unlink()


def install(app: Flask, settings: Settings) -> None:
    """Add sign-in, CSRF protection, rate limits and their settings to the application."""
    https = settings.public_url.startswith("https://")
    app.extensions["shuffleboard_settings"] = settings
    app.extensions["shuffleboard_provider"] = provider_of(settings)
    app.config.update(
        SECRET_KEY=secret_key(settings),
        SESSION_COOKIE_NAME="shuffleboard_session",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_SECURE=https,
        PERMANENT_SESSION_LIFETIME=timedelta(hours=settings.session_idle_hours),
        MAX_CONTENT_LENGTH=MAX_BODY,
        WTF_CSRF_CHECK_DEFAULT=False,
        WTF_CSRF_TIME_LIMIT=None,
        # The Referer check applies to https only; the header policy already limits it to this site.
        WTF_CSRF_SSL_STRICT=https,
    )
    if settings.trusted_proxies:
        count = settings.trusted_proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=count, x_proto=count, x_host=0)  # type: ignore[method-assign]
    csrf.init_app(app)
    login.init_app(app)
    app.extensions["shuffleboard_limiter"] = Limiter(
        client,
        app=app,
        enabled=settings.rate_limits,
        storage_uri=broker_address(settings) or "memory://",
        storage_options=BROKER_OPTIONS if settings.broker_url else {},  # type: ignore[arg-type]  # passed on to Redis
        # If no Redis answers and accepts writes, each process counts on its own, and fewer requests are refused.
        swallow_errors=True,
        in_memory_fallback_enabled=True,
    )
    app.before_request(_check_request)
    app.after_request(_write_down)
    app.after_request(_name_request)
    app.teardown_request(lambda _error: structlog.contextvars.clear_contextvars())
    app.register_error_handler(AuthenticationError, _answer_refused)
    app.register_error_handler(ForbiddenError, _answer_refused)
    app.register_error_handler(CSRFError, _answer_forged)
    app.jinja_env.globals.update(
        viewer=find_shown_viewer, request_id=_request_id, sign_on=sign_on, passwords=settings.password_sign_in
    )

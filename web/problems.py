"""Errors as pages, or as problem documents under the API."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from flask import Flask, Response, current_app, render_template, request
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import BadHost, HTTPException
from werkzeug.wrappers import Response as AnyResponse

from registry.errors import (
    ArchivedError,
    ArchiveError,
    DatabaseError,
    IngestError,
    NotFoundError,
    OverLimitError,
    QueueError,
    ShuffleboardError,
    StorageError,
    quotable,
)
from registry.packages import missing_package
from registry.places import BusyError
from registry.sql import NotReadyError
from registry.untrusted import RefusedError

API: Final = "/api/"

_STATUS: Final[tuple[tuple[type[ShuffleboardError], HTTPStatus], ...]] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (QueueError, HTTPStatus.CONFLICT),
    (ArchivedError, HTTPStatus.CONFLICT),
    (IngestError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (OverLimitError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (DatabaseError, HTTPStatus.SERVICE_UNAVAILABLE),
    (StorageError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ArchiveError, HTTPStatus.SERVICE_UNAVAILABLE),
)

_NO_DATABASE: Final = (
    "The database does not answer or is not at this version of the code; the server's log says which. Try again later."
)


_NO_ARCHIVE: Final = (
    "These answers are archived in a file that is missing or cannot be read; the server's log says which. Boards and "
    "metrics are not affected."
)


_NO_PACKAGE: Final = "A package that this page needs is not installed on the server; its log names the package."


def wants_json() -> bool:
    """Return whether errors of this request are problem documents rather than pages."""
    return request.path.startswith(API) or request.path in ("/healthz", "/readyz")


def problem(status: HTTPStatus, detail: str, members: Mapping[str, Any] | None = None, **more: Any) -> AnyResponse:
    """Return an error as an RFC 9457 document under the API, and as a page elsewhere.

    members: more members of the document. more: variables of the page.
    """
    detail = quotable(detail)
    if wants_json():
        document = {
            "type": "about:blank",
            "title": status.phrase,
            "status": int(status),
            "detail": detail,
            "instance": request.path,
            **(members or {}),
        }
        body, kind = current_app.json.dumps(document), "application/problem+json"
    else:
        body, kind = render_template("error.html", status=status, detail=detail, **more), "text/html"
    return Response(body, status=int(status), content_type=f"{kind}; charset=utf-8" if kind == "text/html" else kind)


def _registry_error(error: ShuffleboardError) -> AnyResponse:
    """Turn an error of the registry into a response.

    No other function does; the client's errors have other handlers.
    """
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.BAD_REQUEST)
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        # The message names the database or a file: for the operator, not for the public.
        current_app.logger.error("%s", error)
        return _unavailable(_NO_ARCHIVE if isinstance(error, ArchiveError) else _NO_DATABASE)
    return problem(status, str(error), error.details)


def _incomplete(error: ModuleNotFoundError) -> AnyResponse:
    """Return 503 if a package of this installation is missing; the log names the command that installs it."""
    missing = missing_package(error)
    if missing is None:
        raise error
    current_app.logger.error("%s", missing)
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, _NO_PACKAGE)


def _busy(error: BusyError | NotReadyError) -> AnyResponse:
    """Return 503 with the reason: too much work waits, or the files of the SQL page are being written."""
    response = problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    response.headers["Retry-After"] = "3"
    return response


def _answer_refused(error: RefusedError) -> AnyResponse:
    return problem(HTTPStatus.BAD_REQUEST, str(error))


def database_error(error: Exception) -> AnyResponse:
    """Return 503 for a failing database, and log the error."""
    current_app.logger.error("database: %s", str(error).splitlines()[0])
    return _unavailable()


def _unavailable(detail: str = _NO_DATABASE) -> AnyResponse:
    response = problem(HTTPStatus.SERVICE_UNAVAILABLE, detail)
    response.headers["Retry-After"] = "10"
    return response


def _http_error(error: HTTPException) -> AnyResponse:
    """Answer unknown URLs, wrong methods, redirects, and unexpected errors (logged by Flask)."""
    if error.code is None or error.code < HTTPStatus.BAD_REQUEST or isinstance(error, BadHost):
        return error.get_response()  # without a host, no page can name its own files
    allowed = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
    wait = getattr(error, "retry_after", None)
    detail = error.description or HTTPStatus(error.code).phrase
    if error.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        most = "" if request.max_content_length is None else f" ({request.max_content_length:,} bytes)"
        detail = f"the request is larger than this address takes{most}; divide it, or use the command line"
    response = problem(HTTPStatus(error.code), detail, allowed=allowed, wait_s=wait)
    if allowed:
        response.headers["Allow"] = allowed
    if wait is not None:
        response.headers["Retry-After"] = str(wait)
    return response


def install(app: Flask) -> None:
    """Add the error handlers to the application."""
    app.register_error_handler(ShuffleboardError, _registry_error)
    app.register_error_handler(ModuleNotFoundError, _incomplete)
    app.register_error_handler(BusyError, _busy)
    app.register_error_handler(NotReadyError, _busy)
    app.register_error_handler(RefusedError, _answer_refused)
    app.register_error_handler(PoolTimeoutError, database_error)  # the others: web/serving/responses.py
    app.register_error_handler(HTTPException, _http_error)

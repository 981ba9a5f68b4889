"""Routes of the API: each is a view whose signature says what it reads, with what it answers and who may ask.

A view names the parts of its path, a model of its query string as `query`, one of its JSON document as `body`, and the
files that it is sent as `files`. All of them are checked before it runs, and documented by `web.api.openapi`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from http import HTTPStatus
from typing import Any, Final, get_type_hints

from flask import Blueprint, Response, jsonify, make_response, request, url_for
from pydantic import BaseModel, ValidationError, create_model
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import BadRequest, UnprocessableEntity, UnsupportedMediaType

from registry.schema.selectables import Row
from registry.untrusted import NotJsonError, RefusedError, TooDeepError, decode
from web.api.uploads import Upload, content_type, received
from web.urls.parameters import Paged, Query, read, refusal
from web.who.identity import viewer

blueprint = Blueprint("api", __name__, url_prefix="/api/v1")

View = Callable[..., Response]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A route of the API. answers: the name of its document's type in `web.api.answers`; None: nothing (204).

    scope: what a viewer must be able to do. statuses: what a change answers where nothing was wrong, with when.
    conflicts: whether it may answer 409. path, query, body: what its view reads.
    """

    method: str
    rule: str
    view: View
    answers: str | None
    tag: str
    scope: str
    path: type[Query]
    query: type[Query]
    body: type[BaseModel] | None
    upload: Upload | None = None
    statuses: Mapping[int, str] = field(default_factory=dict)
    conflicts: bool = False

    @property
    def name(self) -> str:
        """Its operation id, and the endpoint within the blueprint."""
        return self.view.__name__


OPERATIONS: Final[list[Operation]] = []
"""Every operation, in the order of the document."""


def get(rule: str, answers: str, *, tag: str, scope: str = "read", conflicts: bool = False) -> Callable[[View], View]:
    """Registers a view that answers GET (HEAD and OPTIONS come with it). Its docstring describes the operation."""
    return _registering("GET", rule, answers=answers, tag=tag, scope=scope, conflicts=conflicts)


def change(
    method: str,
    rule: str,
    answers: str | None,
    *,
    tag: str,
    scope: str,
    statuses: Mapping[int, str],
    upload: Upload | None = None,
    conflicts: bool = False,
) -> Callable[[View], View]:
    """Registers a view that changes something. Its docstring describes the operation."""
    return _registering(
        method,
        rule,
        answers=answers,
        tag=tag,
        scope=scope,
        statuses=statuses,
        upload=upload,
        conflicts=conflicts,
    )


def _registering(method: str, rule: str, **said: Any) -> Callable[[View], View]:
    def register(view: View) -> View:
        hints = get_type_hints(view, include_extras=True)
        in_path: dict[str, Any] = {name: (hints[name], ...) for name in re.findall(r"<(\w+)>", rule)}
        path = create_model("Path", __base__=Query, **in_path)
        query, body = hints.get("query", Query), hints.get("body")
        operation = Operation(method=method, rule=rule, view=view, path=path, query=query, body=body, **said)
        checked = _checked(operation)
        blueprint.add_url_rule(rule, operation.name, checked, methods=[method])
        OPERATIONS.append(operation)
        return checked

    return register


def _checked(operation: Operation) -> View:
    """The view behind its checks: a viewer without the scope is refused, and whatever its models do not have."""
    view = operation.view

    @wraps(view)
    def checked(**path: str) -> Response:
        viewer().require(operation.scope)
        query = read(operation.query, request.args)
        given: dict[str, Any] = dict(read(operation.path, MultiDict(path)))
        if operation.query is not Query:
            given["query"] = query
        if operation.body is not None:
            given["body"] = _read_body(operation.body)
        if operation.upload is None:
            return view(**given)
        with received(operation.upload) as files:
            return view(**given, files=files)

    return checked


def _read_body(kind: type[BaseModel]) -> Any:
    """The request's JSON document as `kind`.

    Answers 415 where it says to be something else than JSON, 400 where it is not, 422 where it is not of this kind.
    """
    if not request.is_json:
        raise UnsupportedMediaType(f"send JSON with Content-Type: application/json, not {content_type()}")
    raw = request.get_data()
    try:
        decode(raw.decode("utf-8"))
    except (NotJsonError, TooDeepError) as error:
        raise BadRequest(str(error)) from None
    except RefusedError as error:
        raise UnprocessableEntity(str(error)) from None
    except ValueError:
        raise BadRequest("the body is not a JSON document in UTF-8; correct it") from None
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise UnprocessableEntity(refusal(error, kind, "key")) from None


# What is answered


def answer(document: Any, *, unchanging: bool = False, status: int = HTTPStatus.OK) -> Response:
    """A document as JSON. unchanging: it can only change by being withdrawn, so clients may keep it for a day."""
    response = make_response(jsonify(document), int(status))
    if unchanging:
        response.headers["Cache-Control"] = "max-age=86400, immutable"
    return response


def nothing() -> Response:
    """An answer without a document: what was asked is done."""
    return Response(status=HTTPStatus.NO_CONTENT)


def page(
    items: Sequence[Row], total: int, asked: Paged, *, key: str = "items", unchanging: bool = False, **more: Any
) -> Response:
    """A list under `key`, with its place in the whole and the addresses of the pages around it in `Link` (RFC 8288)."""
    pages = max(1, -(-total // asked.per_page))
    around = {"first": 1, "prev": asked.page - 1, "next": asked.page + 1, "last": pages}
    addresses = {
        relation: address_with(page=number, per_page=asked.per_page)
        for relation, number in around.items()
        if 1 <= number <= pages
    }
    place = {"total": total, "page": asked.page, "per_page": asked.per_page, "next": addresses.get("next")}
    response = answer({**more, key: items, **place}, unchanging=unchanging)
    response.headers["Link"] = ", ".join(f'<{address}>; rel="{relation}"' for relation, address in addresses.items())
    return response


def address_with(**changes: Any) -> str:
    """This request's address with some parameters changed."""
    assert request.endpoint is not None
    kept = {key: values for key, values in request.args.lists() if key not in changes}
    return url_for(request.endpoint, **{**kept, **(request.view_args or {}), **changes})

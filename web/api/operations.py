"""Routes of the API, on APIFlask: a view's signature states its input, its decorator its answer and its scope.

A view's arguments are the parts of its path, `query` for a model of its query string, `body` for a model of its JSON
document, and `files` for uploaded files. All are checked before the view runs. `web.api.openapi` completes the OpenAPI
document.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from http import HTTPStatus
from typing import Any, Final, get_type_hints

from apiflask import APIBlueprint
from apiflask.schema_adapters import registry as adapters
from apiflask.schema_adapters.pydantic import PydanticAdapter
from flask import Request, Response, jsonify, make_response, request, url_for
from pydantic import BaseModel, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import BadRequest, UnprocessableEntity, UnsupportedMediaType

from registry.schema.selectables import Row
from registry.untrusted import NotJsonError, RefusedError, TooDeepError, decode
from web.api.columns import Answer
from web.api.uploads import Upload, content_type, receive
from web.urls.parameters import Paged, Query, read, refusal
from web.who.identity import viewer

blueprint = APIBlueprint("api", __name__, url_prefix="/api/v1")

View = Callable[..., Response]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A route of the API. answers: the class of its document; None if there is no document (204).

    scope: the scope that a viewer needs. statuses: each status of a change that succeeds, with its meaning. conflicts:
    whether it may answer 409. path, query, body: the models that its view reads.
    """

    method: str
    rule: str
    view: View
    answers: type[Answer] | None
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
        """Return its operation id, which is also the endpoint within the blueprint."""
        return self.view.__name__


OPERATIONS: Final[list[Operation]] = []
"""Every operation, in the order of the document."""


class Schemas(GenerateJsonSchema):
    """Generates schemas without titles, which would repeat the names of keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        """Return False for every key."""
        return False


class _Models(PydanticAdapter):
    """Reads requests; its error messages name the parameter, its value and the remedy."""

    def validate_input(self, request: Request, location: str, **_: Any) -> BaseModel:
        """Return a part of a request as the model.

        Raises UsageError for a query or path, HTTPException for a body.
        """
        if location == "json":
            return _read_body(self.model_class)
        arguments = request.args if location == "query" else MultiDict(request.view_args)
        return read(self.model_class, arguments)

    def get_openapi_schema(self, **_: Any) -> dict[str, Any]:
        """Return the schema; it refers to other classes by their own names, see `web.api.openapi`."""
        template = f"#/components/schemas/{self.get_schema_name()}.{{model}}"
        return self.model_class.model_json_schema(ref_template=template, schema_generator=Schemas)


adapters.register("pydantic", _Models)


def get(
    rule: str, answers: type[Answer], *, tag: str, scope: str = "read", conflicts: bool = False
) -> Callable[[View], View]:
    """Register a view that answers GET (HEAD and OPTIONS come with it). Its docstring describes the operation."""
    return _registering("GET", rule, answers=answers, tag=tag, scope=scope, conflicts=conflicts)


def change(
    method: str,
    rule: str,
    answers: type[Answer] | None,
    *,
    tag: str,
    scope: str,
    statuses: Mapping[int, str],
    upload: Upload | None = None,
    conflicts: bool = False,
) -> Callable[[View], View]:
    """Register a view that changes something. Its docstring describes the operation."""
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
        OPERATIONS.append(operation)
        checked = _document(operation)(_require_scope(operation)(_reading(operation)(_receiving(operation))))
        blueprint.add_url_rule(rule, operation.name, checked, methods=[method])
        return view

    return register


def _receiving(operation: Operation) -> View:
    """Wrap the view so that it receives each part of the path and the uploaded files as arguments."""
    view, upload = operation.view, operation.upload

    @wraps(view)
    def receive_view(path: Query, query: Query, **body: Any) -> Response:
        arguments = dict(path) | ({} if operation.query is Query else {"query": query}) | body
        if upload is None:
            return view(**arguments)
        with receive(upload) as files:
            return view(**arguments, files=files)

    return receive_view


def _reading(operation: Operation) -> Callable[[View], View]:
    """Make APIFlask read and check the path, the query string and the body, in this order."""

    def decorate(view: View) -> View:
        if operation.body is not None:
            view = blueprint.input(operation.body, arg_name="body")(view)
        view = blueprint.input(operation.path, location="path", arg_name="path")(view)
        return blueprint.input(operation.query, location="query", arg_name="query")(view)

    return decorate


def _require_scope(operation: Operation) -> Callable[[View], View]:
    """Refuse a viewer without the scope before anything of the request is read."""

    def decorate(view: View) -> View:
        @wraps(view)
        def require_scope(**_: str) -> Response:
            viewer().require(operation.scope)
            return view()

        return require_scope

    return decorate


def _document(operation: Operation) -> Callable[[View], View]:
    """Describe the answer and its scope to APIFlask."""
    scoped = {"bearer": [operation.scope]}

    def decorate(view: View) -> View:
        if operation.answers is not None:
            status = next(iter(operation.statuses), HTTPStatus.OK)
            view = blueprint.output(operation.answers, status_code=int(status))(view)
        return blueprint.doc(
            operation_id=operation.name,
            tags=[operation.tag],
            # Reading works with and without a token; the form without one comes first.
            security=[{}, scoped] if operation.scope == "read" else [scoped],
            extensions={"x-scope": operation.scope},
        )(view)

    return decorate


def _read_body(kind: type[BaseModel]) -> BaseModel:
    """Return the request's JSON document as `kind`.

    Answers 415 if its content type is not JSON, 400 if it is not JSON, 422 if it is not of this kind.
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


# Answers


def answer(document: Any, *, unchanging: bool = False, status: int = HTTPStatus.OK) -> Response:
    """Return a document as JSON. unchanging: whether only a withdrawal can change it, so that clients may cache it."""
    response = make_response(jsonify(document), int(status))
    if unchanging:
        response.headers["Cache-Control"] = "max-age=86400, immutable"
    return response


def nothing() -> Response:
    """Return an answer without a document."""
    return Response(status=HTTPStatus.NO_CONTENT)


def page(
    items: Sequence[Row], total: int, asked: Paged, *, key: str = "items", unchanging: bool = False, **more: Any
) -> Response:
    """Return a page of a list under `key`, its position, and the URLs of other pages in `Link` (RFC 8288)."""
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
    """Return the URL of this request with some parameters changed."""
    assert request.endpoint is not None
    kept = {key: values for key, values in request.args.lists() if key not in changes}
    return url_for(request.endpoint, **{**kept, **(request.view_args or {}), **changes})

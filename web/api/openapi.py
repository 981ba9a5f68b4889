"""The OpenAPI document of the API: from the routes as they are registered and the types of what they answer.

Pydantic writes the schemas, in the dialect of JSON Schema that OpenAPI 3.1 has; apispec puts the document together.
"""

import inspect
import re
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from apispec import APISpec
from flask import Response
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from registry import __version__
from web.api.operations import OPERATIONS, Operation, answer, blueprint
from web.api.uploads import MAX_UPLOAD, Upload
from web.urls.parameters import Paged, Query

_PROBLEMS: Final = {
    HTTPStatus.BAD_REQUEST: "An unknown parameter, or a value that cannot be right; the detail names it.",
    HTTPStatus.UNAUTHORIZED: "A token that does not hold, or none where one is needed.",
    HTTPStatus.FORBIDDEN: "The token's account, or the token itself, may not do this.",
    HTTPStatus.NOT_FOUND: "There is no such thing, or none that may be seen.",
    HTTPStatus.METHOD_NOT_ALLOWED: "The route answers other methods; the header Allow lists them.",
    HTTPStatus.CONFLICT: "The thing is not in a state that allows this; the detail says how it stands.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is larger than the route takes.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is of another type than the route takes.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "An unknown key, or a value or file that cannot be right; the detail names it.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests that change something; Retry-After says when to go on.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "A fault of the server.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The database does not answer, or is of another version of the code.",
}
_OF_BODIES: Final = (
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
_TAGS: Final = {
    "results": "Evaluations: results, question by question, and their origin.",
    "registry": "Registered things: models, benchmarks, protocols, metrics, and the queue.",
    "boards": "Suites, boards and their snapshots.",
    "submissions": "Submitting models for evaluation on a suite, and deciding on submissions.",
    "sql": "The SQL page, and saved queries.",
    "accounts": "Accounts, their tokens, and the audit trail.",
}
_HEADERS: Final = {
    "ETag": "Names this content; send it back in If-None-Match.",
    "Link": "Addresses of the first, previous, next and last page, as far as there are any (RFC 8288).",
}
_IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "description": "ETag of what you have: 304 if that is still what there is.",
    "schema": {"type": "string"},
}
_DESCRIPTION: Final = """\
Results of multiple-choice evaluations under changed orders and choices, and the writes that make them.

Numbers are as stored; null means undefined or not known yet. Times are UTC. Errors are problem documents (RFC 9457).
Every answer to GET has an ETag. What the seal of an evaluation covers may be kept for a day.

A token is sent as `Authorization: Bearer …`. Each operation names the scope that it takes (`x-scope`); reading what is
public takes no token, unless the registry is closed to anonymous visitors.
"""


@cache
def document() -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    spec = APISpec(
        title="Shuffleboard",
        version=__version__,
        openapi_version="3.1.0",
        info={"description": _DESCRIPTION, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        servers=[{"url": "/"}],
    )
    for tag, text in _TAGS.items():
        spec.tag({"name": tag, "description": text})
    spec.components.security_scheme(
        "bearer", {"type": "http", "scheme": "bearer", "description": "A token of an account: shb_ and 43 characters."}
    )
    stated = [_type(operation.answers) for operation in OPERATIONS if operation.answers is not None]
    bodies = [operation.body for operation in OPERATIONS if operation.body is not None]
    for name, schema in _schemas(list(dict.fromkeys([*stated, _type("Problem")])), list(dict.fromkeys(bodies))).items():
        spec.components.schema(name, schema)
    for status, text in _PROBLEMS.items():
        content = {"application/problem+json": {"schema": _reference(_type("Problem"))}}
        spec.components.response(_component(status), {"description": text, "content": content})
    for operation in OPERATIONS:
        spec.path(path=_path(operation), operations={operation.method.lower(): _operation(operation)})
    return spec.to_dict()


def _schemas(answers: list[type], bodies: list[type[BaseModel]]) -> dict[str, Any]:
    """Name to schema of these types and all types within them."""
    _, found = TypeAdapter.json_schemas(
        [
            *((kind, "serialization", TypeAdapter(kind)) for kind in answers),
            *((kind, "validation", TypeAdapter(kind)) for kind in bodies),
        ],
        ref_template="#/components/schemas/{model}",
        schema_generator=_Schemas,
    )
    return dict(found["$defs"])


class _Schemas(GenerateJsonSchema):
    """Schemas without titles, which would repeat the names of keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def _type(name: str) -> Any:
    from web.api import answers  # late: the website starts without what computes some of them

    return getattr(answers, name)


def _reference(kind: Any) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _component(status: HTTPStatus) -> str:
    return status.name.title().replace("_", "")


def _path(operation: Operation) -> str:
    return str(blueprint.url_prefix) + re.sub(r"<(\w+)>", r"{\1}", operation.rule)


def _operation(operation: Operation) -> dict[str, Any]:
    description = inspect.cleandoc(operation.view.__doc__ or "")
    parameters = [*_parameters(operation.path, "path"), *_parameters(operation.query, "query")]
    named = any(item.get("required") for item in parameters)
    reads = operation.method == "GET"
    documented = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": description.split("\n")[0],
        "description": description,
        "x-scope": operation.scope,
        # Of the two ways to read, the one without a token comes first.
        "security": [*([{}] if operation.scope == "read" else []), {"bearer": [operation.scope]}],
        "parameters": [*parameters, *([_IF_NONE_MATCH] if reads else [])],
        "responses": {
            **_answers(operation),
            **{
                str(int(status)): {"$ref": f"#/components/responses/{_component(status)}"}
                for status in _problems(operation, named=named)
            },
        },
    }
    if operation.body is not None:
        body = {"required": True, "content": {"application/json": {"schema": _reference(operation.body)}}}
        return {**documented, "requestBody": body}
    return documented if operation.upload is None else {**documented, "requestBody": _file(operation.upload)}


def _parameters(kind: type[Query], place: str) -> list[dict[str, Any]]:
    """What a path or query string holds, paging last."""
    schema = kind.model_json_schema(schema_generator=_Schemas)
    names = sorted(kind.model_fields, key=lambda name: name in Paged.model_fields)
    required = {name: {"required": True} for name in schema.get("required", ())}
    return [_parameter(name, place, schema["properties"][name]) | required.get(name, {}) for name in names]


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter from the schema of its field. Null stands for its absence, and cannot be given."""
    said = dict(schema)
    description = said.pop("description")
    return {"name": name, "in": place, "description": description, "schema": said.get("anyOf", [said])[0]}


def _file(upload: Upload) -> dict[str, Any]:
    """A file as the body of a request."""
    file = {"type": "string", "format": "binary"}
    form = {
        "type": "object",
        "required": ["file"],
        "additionalProperties": False,
        "properties": dict.fromkeys(("file", *upload.optional), file),
    }
    kinds = {kind: {"schema": file} for kind in upload.types}
    text = f"The file itself, or a form with it; up to {MAX_UPLOAD >> 20} MiB."
    return {"required": True, "description": text, "content": {**kinds, "multipart/form-data": {"schema": form}}}


def _answers(operation: Operation) -> dict[str, Any]:
    """What is answered where nothing was wrong."""
    if operation.answers is None:
        return {str(status): {"description": text} for status, text in operation.statuses.items()}
    content = {"application/json": {"schema": _reference(_type(operation.answers))}}
    if operation.method != "GET":
        return {str(status): {"description": text, "content": content} for status, text in operation.statuses.items()}
    names = ("ETag", "Link") if "next" in _type(operation.answers).__annotations__ else ("ETag",)
    headers = {name: {"description": _HEADERS[name], "schema": {"type": "string"}} for name in names}
    text = inspect.cleandoc(_type(operation.answers).__doc__ or "").split("\n")[0]
    return {
        "200": {"description": text, "headers": headers, "content": content},
        "304": {"description": "Nothing has changed.", "headers": {"ETag": headers["ETag"]}},
    }


def _problems(operation: Operation, *, named: bool) -> list[HTTPStatus]:
    """The problems that an operation may answer with. named: something in its address may not be there."""
    reads = operation.method == "GET"
    left_out = {
        HTTPStatus.NOT_FOUND: reads and not named,
        HTTPStatus.CONFLICT: not operation.conflicts,
        HTTPStatus.TOO_MANY_REQUESTS: reads,
        **dict.fromkeys(_OF_BODIES, operation.body is None and operation.upload is None),
    }
    return [status for status in _PROBLEMS if not left_out.get(status)]


@blueprint.get("/openapi.json")
def openapi() -> Response:
    """This document."""
    return answer(document())

"""The OpenAPI document of the API: APIFlask builds it from the routes; problems, headers and uploads are added here."""

import inspect
import json
import re
from http import HTTPStatus
from typing import Any, Final

from apiflask import APIFlask
from flask import Response, current_app

from web.api.answers import Problem
from web.api.operations import OPERATIONS, Operation, Schemas, answer, blueprint
from web.api.uploads import MAX_UPLOAD, Upload
from web.urls.parameters import Paged

_PROBLEM: Final = {"$ref": "#/components/schemas/Problem"}
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


def describe(app: APIFlask) -> None:
    """Configure the application with the parts of its OpenAPI document that belong to no single route."""
    app.config.update(
        OPENAPI_VERSION="3.1.0",
        AUTO_404_RESPONSE=False,
        AUTO_VALIDATION_ERROR_RESPONSE=False,
        AUTO_SERVERS=False,
        AUTO_AUTH_ERROR_RESPONSE=False,
        SECURITY_SCHEMES={
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of an account: shb_ and 43 characters.",
            }
        },
    )
    app.description = _DESCRIPTION
    app.license = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    app.servers = [{"url": "/"}]
    app.tags = [{"name": tag, "description": text} for tag, text in _TAGS.items()]
    app.spec_processor(_complete)


def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the application."""
    app = current_app
    assert isinstance(app, APIFlask)
    if "shuffleboard_openapi" not in app.extensions:
        app.extensions["shuffleboard_openapi"] = app.spec
    specification: dict[str, Any] = app.extensions["shuffleboard_openapi"]
    return specification


def _complete(spec: Any) -> Any:
    """Add the parts that APIFlask lacks: problems, headers, uploads; and give each class one schema."""
    spec["components"]["schemas"]["Problem"] = Problem.model_json_schema(schema_generator=Schemas)
    spec["components"]["responses"] = {
        _component(status): {"description": text, "content": {"application/problem+json": {"schema": _PROBLEM}}}
        for status, text in _PROBLEMS.items()
    }
    for operation in OPERATIONS:
        _complete_operation(operation, spec["paths"][_path(operation)][operation.method.lower()])
    spec["paths"] = {_path(operation): spec["paths"][_path(operation)] for operation in OPERATIONS}
    return _flatten(spec)


def _complete_operation(operation: Operation, said: dict[str, Any]) -> None:
    description = inspect.cleandoc(operation.view.__doc__ or "")
    said["summary"], said["description"] = description.split("\n")[0], description
    said["parameters"] = sorted((_parameter(parameter) for parameter in said["parameters"]), key=_comes_late)
    named = any(parameter["required"] for parameter in said["parameters"])
    reads = operation.method == "GET"
    if reads:
        said["parameters"].append(_IF_NONE_MATCH)
    success = _successes(operation, said["responses"])
    problems = _problems(operation, named=named)
    said["responses"] = success | {
        str(int(status)): {"$ref": f"#/components/responses/{_component(status)}"} for status in problems
    }
    if operation.upload is not None:
        said["requestBody"] = _file(operation.upload)
    elif "requestBody" in said:
        said["requestBody"]["required"] = True


def _parameter(said: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter without null in its schema: a URL can only omit the parameter."""
    schema = dict(said["schema"])
    description = schema.pop("description")
    return said | {"description": description, "schema": schema.get("anyOf", [schema])[0]}


def _comes_late(parameter: dict[str, Any]) -> bool:
    """Return whether a parameter is about paging; these come last."""
    return parameter["name"] in Paged.model_fields


def _successes(operation: Operation, made: dict[str, Any]) -> dict[str, Any]:
    """Return the responses for a valid request, built from APIFlask's response."""
    if operation.answers is None:
        return {str(status): {"description": text} for status, text in operation.statuses.items()}
    content = next(iter(made.values()))["content"]
    if operation.method != "GET":
        return {str(status): {"description": text, "content": content} for status, text in operation.statuses.items()}
    names = ("ETag", "Link") if "next" in operation.answers.model_fields else ("ETag",)
    headers = {name: {"description": _HEADERS[name], "schema": {"type": "string"}} for name in names}
    text = inspect.cleandoc(operation.answers.__doc__ or "").split("\n")[0]
    return {
        "200": {"description": text, "headers": headers, "content": content},
        "304": {"description": "Nothing has changed.", "headers": {"ETag": headers["ETag"]}},
    }


def _flatten(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the document with one schema per class: APIFlask names a class after the answer that contains it."""
    schemas = spec["components"]["schemas"]
    spec["components"]["schemas"] = {name.rpartition(".")[2]: schema for name, schema in sorted(schemas.items())}
    text = json.dumps(spec)
    flattened: dict[str, Any] = json.loads(re.sub(r"#/components/schemas/\w+\.(\w+)", r"#/components/schemas/\1", text))  # noqa: TID251
    return flattened


def _component(status: HTTPStatus) -> str:
    return status.name.title().replace("_", "")


def _path(operation: Operation) -> str:
    return str(blueprint.url_prefix) + re.sub(r"<(\w+)>", r"{\1}", operation.rule)


def _file(upload: Upload) -> dict[str, Any]:
    """Return the schema of the body of a request that sends a file."""
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


def _problems(operation: Operation, *, named: bool) -> list[HTTPStatus]:
    """Return the problems that an operation may answer with. named: whether its path contains a name or id."""
    reads = operation.method == "GET"
    left_out = {
        HTTPStatus.NOT_FOUND: reads and not named,
        HTTPStatus.CONFLICT: not operation.conflicts,
        HTTPStatus.TOO_MANY_REQUESTS: reads,
        **dict.fromkeys(_OF_BODIES, operation.body is None and operation.upload is None),
    }
    return [status for status in _PROBLEMS if not left_out.get(status)]


@blueprint.get("/openapi.json")
@blueprint.doc(hide=True)
def openapi() -> Response:
    """Return this document."""
    return answer(document())

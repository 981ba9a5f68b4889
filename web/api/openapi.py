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
from registry.api.documents import Problem
from registry.digests import DIGEST_LENGTH
from registry.metrics import METRICS
from web.api.operations import MAX_UPLOAD, OPERATIONS, Operation, answer, blueprint

_NAME: Final = {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,200}$"}
_ID: Final = {"type": "integer", "minimum": 1, "maximum": 10**18 - 1}
_PATH: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "evaluation_id": ("An evaluation's number.", _ID),
    "other_id": ("Another evaluation's number.", _ID),
    "question_id": ("A question's number in this registry.", _ID),
    "model": ("A model's name.", _NAME),
    "benchmark": ("A benchmark's name.", _NAME),
    "board": ("A board's name.", _NAME),
    "suite": ("A suite's name; its newest version.", _NAME),
    "digest": ("A snapshot's digest.", {"type": "string", "pattern": f"^[0-9a-f]{{{DIGEST_LENGTH}}}$"}),
    "submission_id": ("A submission's number.", _ID),
    "webhook_id": ("A webhook's number.", _ID),
    "account": ("An account's name.", _NAME),
    "token_id": ("A token's number.", _ID),
    "slug": ("A saved query's name in addresses.", {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,40}$"}),
}
_PROBLEMS: Final = {
    HTTPStatus.BAD_REQUEST: "A parameter that is not known here, or a value that cannot be right; the detail names it.",
    HTTPStatus.UNAUTHORIZED: "A token that does not hold, or none where one is needed.",
    HTTPStatus.FORBIDDEN: "The token's account, or the token itself, may not do this.",
    HTTPStatus.NOT_FOUND: "There is no such thing, or none that may be seen.",
    HTTPStatus.METHOD_NOT_ALLOWED: "The route answers other methods; the header Allow lists them.",
    HTTPStatus.CONFLICT: "The thing is not in a state that allows this; the detail says how it stands.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is larger than the route takes.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is of another type than the route takes.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "A key that is not known, or a value or file that cannot be; the detail names it.",
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
    "results": "Evaluations: what was measured, question by question, and where it comes from.",
    "registry": "What is registered: models, benchmarks, protocols, metrics, and the queue.",
    "boards": "Suites, boards and their snapshots.",
    "submissions": "Asking that a model be put to a suite, and deciding on it.",
    "webhooks": "Addresses that are told of what happens.",
}
_ETAG: Final = {"description": "Names this content; send it back in If-None-Match.", "schema": {"type": "string"}}
_LINK: Final = {
    "description": "Addresses of the first, previous, next and last page, as far as there are any (RFC 8288).",
    "schema": {"type": "string"},
}
_DESCRIPTION: Final = """\
Results of multiple-choice evaluations under changed orders and choices, and the writes that make them.

Numbers are as stored; null means undefined or not known yet. Times are UTC. Errors are problem documents (RFC 9457).
Every answer to GET has an ETag. What the seal of an evaluation covers may be kept for a day.

A token is sent as `Authorization: Bearer …`. Each operation names the scope that it takes (`x-scope`); reading what is
public takes no token, unless the registry is closed to strangers.
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
    answers = [operation.answers for operation in OPERATIONS if operation.answers is not None]
    bodies = [operation.body for operation in OPERATIONS if operation.body is not None]
    for name, schema in _schemas(list(dict.fromkeys([*answers, Problem])), list(dict.fromkeys(bodies))).items():
        spec.components.schema(name, schema)
    for status, text in _PROBLEMS.items():
        content = {"application/problem+json": {"schema": _reference(Problem)}}
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
    definitions: dict[str, Any] = found["$defs"]
    for name in ("MetricValues", "LeaderboardRow", "QuestionResult", "EvaluationQuestion"):
        for key, schema in definitions[name]["properties"].items():
            if key in METRICS:
                schema["description"] = f"{METRICS[key].label}: {METRICS[key].summary}"
    return definitions


class _Schemas(GenerateJsonSchema):
    """Schemas without titles, which would repeat the names of keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def _reference(kind: type) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _component(status: HTTPStatus) -> str:
    return status.name.title().replace("_", "")


def _path(operation: Operation) -> str:
    return str(blueprint.url_prefix) + re.sub(r"<(\w+)>", r"{\1}", operation.rule)


def _operation(operation: Operation) -> dict[str, Any]:
    in_path = re.findall(r"<(\w+)>", operation.rule)
    description = inspect.cleandoc(operation.view.__doc__ or "")
    reads = operation.method == "GET"
    takes = _request_body(operation)
    documented: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": description.split("\n")[0],
        "description": description,
        "x-scope": operation.scope,
        # Of the two ways to read, the one without a token comes first.
        "security": [*([{}] if operation.scope == "read" else []), {"bearer": [operation.scope]}],
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "description": _PATH[name][0], "schema": _PATH[name][1]}
                for name in in_path
            ),
            *(
                {
                    "name": item.name,
                    "in": "query",
                    "description": item.description,
                    "schema": dict(item.schema),
                    **({"required": True} if item.required else {}),
                }
                for item in operation.query
            ),
            *([_IF_NONE_MATCH] if reads else []),
        ],
        "responses": {
            **_answers(operation),
            **{
                str(int(status)): {"$ref": f"#/components/responses/{_component(status)}"}
                for status in _problems(
                    operation, named=bool(in_path) or any(item.required for item in operation.query)
                )
            },
        },
    }
    return documented | ({"requestBody": takes} if takes else {})


_IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "description": "ETag of what you have: 304 if that is still what there is.",
    "schema": {"type": "string"},
}


def _request_body(operation: Operation) -> dict[str, Any] | None:
    if operation.body is not None:
        return {"required": True, "content": {"application/json": {"schema": _reference(operation.body)}}}
    if operation.upload is None:
        return None
    file = {"type": "string", "format": "binary"}
    form = {
        "type": "object",
        "required": ["file"],
        "additionalProperties": False,
        "properties": dict.fromkeys(("file", *operation.upload.optional), file),
    }
    kinds = {kind: {"schema": file} for kind in operation.upload.types}
    text = f"The file itself, or a form with it; up to {MAX_UPLOAD >> 20} MiB."
    return {"required": True, "description": text, "content": {**kinds, "multipart/form-data": {"schema": form}}}


def _answers(operation: Operation) -> dict[str, Any]:
    """What is answered where nothing was wrong."""
    if operation.answers is None:
        return {str(status): {"description": text} for status, text in (operation.statuses or {}).items()}
    content = {"application/json": {"schema": _reference(operation.answers)}}
    if operation.method != "GET":
        return {
            str(status): {"description": text, "content": content}
            for status, text in (operation.statuses or {}).items()
        }
    headers = {"ETag": _ETAG} | ({"Link": _LINK} if operation.paged else {})
    text = inspect.cleandoc(operation.answers.__doc__ or "").split("\n")[0]
    return {
        "200": {"description": text, "headers": headers, "content": content},
        "304": {"description": "Nothing has changed.", "headers": {"ETag": _ETAG}},
    }


def _problems(operation: Operation, *, named: bool) -> list[HTTPStatus]:
    """The problems that an operation may answer with. named: something in its address may not be there."""
    takes = operation.body is not None or operation.upload is not None
    left_out = set()
    if not (named or operation.method != "GET"):
        left_out.add(HTTPStatus.NOT_FOUND)
    if not takes:
        left_out.update(_OF_BODIES)
    if not operation.conflicts:
        left_out.add(HTTPStatus.CONFLICT)
    if operation.method == "GET":
        left_out.add(HTTPStatus.TOO_MANY_REQUESTS)
    return [status for status in _PROBLEMS if status not in left_out]


@blueprint.get("/openapi.json")
def openapi() -> Response:
    """This document."""
    return answer(document())

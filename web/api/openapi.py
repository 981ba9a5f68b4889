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
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from registry import __version__
from registry.digests import DIGEST_LENGTH
from registry.documents import Problem
from registry.metrics import METRICS
from web.api.operations import OPERATIONS, Operation, answer, blueprint

_NAME: Final = {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,200}$"}
_ID: Final = {"type": "integer", "minimum": 1, "maximum": 10**18 - 1}
_PATH: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "evaluation_id": ("An evaluation's number.", _ID),
    "question_id": ("A question's number in this registry.", _ID),
    "model": ("A model's name.", _NAME),
    "benchmark": ("A benchmark's name.", _NAME),
    "board": ("A board's name.", _NAME),
    "suite": ("A suite's name; its newest version.", _NAME),
    "digest": ("A snapshot's digest.", {"type": "string", "pattern": f"^[0-9a-f]{{{DIGEST_LENGTH}}}$"}),
}
_PROBLEMS: Final = {
    HTTPStatus.BAD_REQUEST: "A parameter that is not known here, or a value that cannot be right; the detail names it.",
    HTTPStatus.NOT_FOUND: "There is no such thing, or none that is public.",
    HTTPStatus.METHOD_NOT_ALLOWED: "Only GET, HEAD and OPTIONS are answered.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "A fault of the server.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The database does not answer, or is of another version of the code.",
}
_TAGS: Final = {
    "results": "Evaluations: what was measured, question by question, and where it comes from.",
    "registry": "What is registered: models, benchmarks, protocols, metrics, and the queue.",
    "boards": "Suites, boards and their snapshots.",
}
_ETAG: Final = {"description": "Names this content; send it back in If-None-Match.", "schema": {"type": "string"}}
_LINK: Final = {
    "description": "Addresses of the first, previous, next and last page, as far as there are any (RFC 8288).",
    "schema": {"type": "string"},
}
_DESCRIPTION: Final = """\
Results of multiple-choice evaluations under changed orders and choices. Everything here is read only and public.

Numbers are as stored; null means undefined or not known yet. Times are UTC. Errors are problem documents (RFC 9457).
Every answer has an ETag. What the seal of an evaluation covers may be kept for a day.
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
    types = dict.fromkeys([*(operation.answers for operation in OPERATIONS), Problem])
    for name, schema in _schemas(list(types)).items():
        spec.components.schema(name, schema)
    for status, text in _PROBLEMS.items():
        content = {"application/problem+json": {"schema": _reference(Problem)}}
        spec.components.response(_component(status), {"description": text, "content": content})
    for operation in OPERATIONS:
        spec.path(path=_path(operation), operations={"get": _operation(operation)})
    return spec.to_dict()


def _schemas(types: list[type]) -> dict[str, Any]:
    """Name to schema of these types and all types within them."""
    _, found = TypeAdapter.json_schemas(
        [(kind, "serialization", TypeAdapter(kind)) for kind in types],
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
    headers = {"ETag": _ETAG} | ({"Link": _LINK} if operation.paged else {})
    problems = [status for status in _PROBLEMS if in_path or status is not HTTPStatus.NOT_FOUND]
    return {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": description.split("\n")[0],
        "description": description,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "description": _PATH[name][0], "schema": _PATH[name][1]}
                for name in in_path
            ),
            *(
                {"name": item.name, "in": "query", "description": item.description, "schema": dict(item.schema)}
                for item in operation.query
            ),
            {
                "name": "If-None-Match",
                "in": "header",
                "description": "ETag of what you have: 304 if that is still what there is.",
                "schema": {"type": "string"},
            },
        ],
        "responses": {
            "200": {
                "description": inspect.cleandoc(operation.answers.__doc__ or "").split("\n")[0],
                "headers": headers,
                "content": {"application/json": {"schema": _reference(operation.answers)}},
            },
            "304": {"description": "Nothing has changed.", "headers": {"ETag": _ETAG}},
            **{str(int(status)): {"$ref": f"#/components/responses/{_component(status)}"} for status in problems},
        },
    }


@blueprint.get("/openapi.json")
def openapi() -> Response:
    """This document."""
    return answer(document())

"""The reference of the API for people to read: the OpenAPI document as a page, with requests to try."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import urlencode

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from markupsafe import Markup, escape
from werkzeug.datastructures import MultiDict

from registry.errors import NotFoundError
from registry.metrics import METRICS
from web.api.openapi import document
from web.api.operations import OPERATIONS
from web.urls.parameters import DEFAULT_METRICS, read, shorten
from web.who.identity import settings_of

blueprint = Blueprint("reference", __name__)

MOST_CHOICES: Final = 8
"""Values of a parameter that are listed in its row; of more the first are, and their number."""
DEEPEST: Final = 5
"""Levels of an example."""
_CODE: Final = re.compile(r"`([^`]+)`")
_VALUES: Final[dict[str, Any]] = {
    "model": "SmolLM2-135M",
    "benchmark": "capitals",
    "board": "orders",
    "suite": "robustness-core",
    "account": "ada",
    "protocol": "symbols",
    "variants": "cyclic",
    "a": 1,
    "b": 2,
    "other_id": 2,
    "state": "complete",
    "options": ["Paris", "Lyon", "Nice", "Lille"],
}
"""Key → what stands for it in an example, where its schema gives none."""


@dataclass(frozen=True)
class Value:
    """A parameter or a key of a body. kind: its type and range in words; choices: the values it takes, if few do."""

    name: str
    place: str
    kind: str
    text: str
    required: bool
    default: str
    choices: tuple[str, ...]
    example: str


@dataclass(frozen=True)
class Answer:
    """What is answered with a status. example: a document as JSON, or None where there is none to show."""

    status: str
    text: str
    example: str | None


@dataclass(frozen=True)
class Entry:
    """An operation as the page shows it. body: content types of what it is sent; curl: a command without its host."""

    name: str
    method: str
    path: str
    summary: str
    text: str
    scope: str
    parameters: tuple[Value, ...]
    keys: tuple[Value, ...]
    body: tuple[str, ...]
    sent: str | None
    answers: tuple[Answer, ...]

    @property
    def tried(self) -> bool:
        """Whether opening its address changes nothing, so that it can be tried."""
        return self.method == "GET"

    def curl(self, host: str) -> str:
        """The command that asks for it on a host."""
        path, asked = self.path, {}
        for value in self.parameters:
            path = path.replace(f"{{{value.name}}}", value.example)
            if value.place == "query" and value.required:
                asked[value.name] = value.example
        path += f"?{urlencode(asked)}" if asked else ""
        parts = [f"curl{'' if self.method in ('GET', 'POST') and (self.tried or self.body) else f' -X {self.method}'}"]
        if self.scope != "read":
            parts.append('-H "Authorization: Bearer $TOKEN"')
        if self.sent is not None:
            parts.append(f"-H 'Content-Type: application/json' -d '{json.dumps(json.loads(self.sent))}'")  # noqa: TID251 - our own
        elif self.body:
            parts.append("-F file=@answers.jsonl")
        return " ".join([*parts, f"'{host}{path}'"])


def _prose(text: str) -> Markup:
    """A text of the document, what it has in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped on this line


@blueprint.get("/api")
def reference() -> ResponseReturnValue:
    """Every operation of the API: what it takes and answers, a command for it, and a form to try it."""
    return render_template(
        "api.html",
        document=document(),
        entries=_entries(),
        prose=_prose,
        host=(settings_of().public_url or request.host_url).rstrip("/"),
    )


@blueprint.get("/api/try/<operation>")
def attempt(operation: str) -> ResponseReturnValue:
    """Leads to the address that a form of the reference stands for: a form alone can fill in no path."""
    found = next((one for one in OPERATIONS if one.name == operation and one.method == "GET"), None)
    if found is None:
        raise NotFoundError(f"no operation {shorten(operation)} that can be tried; /api lists them")
    given = MultiDict({key: value.strip() for key, value in request.args.items() if value.strip()})
    read(found.path, given, others=True)  # what could lead elsewhere, such as a slash, is refused
    known = {**found.path.model_fields, **found.query.model_fields}
    asked: dict[str, Any] = {key: given[key] for key in known if key in given}
    return redirect(url_for(f"api.{found.name}", **asked))


@cache
def _entries() -> dict[str, tuple[Entry, ...]]:
    """The operations by tag, both in the document's order."""
    found: dict[str, list[Entry]] = {tag["name"]: [] for tag in document()["tags"]}
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            found[operation["tags"][0]].append(_entry(path, method.upper(), operation))
    return {tag: tuple(entries) for tag, entries in found.items()}


def _entry(path: str, method: str, operation: dict[str, Any]) -> Entry:
    content = operation.get("requestBody", {}).get("content", {})
    sent = _resolved(content["application/json"]["schema"]) if "application/json" in content else None
    if sent is not None and "properties" not in sent:
        sent = None  # a file that happens to be JSON
    return Entry(
        name=operation["operationId"],
        method=method,
        path=path,
        summary=operation["summary"],
        text=operation["description"].partition("\n")[2].strip(),
        scope=operation["x-scope"],
        parameters=tuple(
            _value(one["name"], one["in"], one["schema"], one["description"], required=one.get("required", False))
            for one in operation["parameters"]
        ),
        keys=() if sent is None else tuple(_keys(sent)),
        body=tuple(content),
        sent=None if sent is None else _text(_example(sent)),
        answers=tuple(_answer(status, said) for status, said in operation["responses"].items()),
    )


def _keys(schema: dict[str, Any]) -> Iterator[Value]:
    for name, kind in schema["properties"].items():
        text = kind.get("description") or _resolved(kind).get("description", "")
        yield _value(name, "body", kind, text, required=name in schema.get("required", ()))


def _answer(status: str, said: dict[str, Any]) -> Answer:
    said = _resolved(said)
    schema = said.get("content", {}).get("application/json", {}).get("schema")
    return Answer(status, said["description"], None if schema is None else _text(_example(schema)))


def _text(example: Any) -> str:
    return json.dumps(example, indent=2, ensure_ascii=False)


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """What a reference points to, and of alternatives the first that is not null."""
    if "$ref" in schema:
        target: dict[str, Any] = document()
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return _resolved(target)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            first = next(one for one in schema[key] if one.get("type") != "null")
            return _resolved(first) | {name: schema[name] for name in ("description", "default") if name in schema}
    return schema


def _value(name: str, place: str, schema: dict[str, Any], text: str, *, required: bool) -> Value:
    kind = _resolved(schema)
    listed = kind.get("default")
    default = ", ".join(map(str, listed)) if isinstance(listed, list) else "" if listed is None else str(listed)
    choices = tuple(map(str, kind.get("enum", ())))
    return Value(name, place, _kind(kind), text, required, default, choices, str(_example(kind, name)))


def _kind(schema: Mapping[str, Any]) -> str:
    """A schema's type and range in words."""
    if "enum" in schema:
        shown = ", ".join(map(str, schema["enum"][:MOST_CHOICES]))
        return f"one of {shown}" if len(schema["enum"]) <= MOST_CHOICES else f"one of {len(schema['enum'])}: {shown}, …"
    if "const" in schema:
        return f"always {schema['const']}"
    if schema.get("type") == "array":
        return f"list; each {_kind(_resolved(schema.get('items', {})))}"
    said = {"string": "text", "integer": "whole number", "object": "object"}.get(
        str(schema.get("type")), str(schema.get("type", "any"))
    )
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        said += f", {low} to {high}"
    elif low is not None or high is not None:
        said += f", at least {low}" if high is None else f", at most {high}"
    if "maxLength" in schema:
        said += f", up to {schema['maxLength']} characters"
    if "pattern" in schema:
        said += f", of the form {schema['pattern']}"
    return said


def _example(schema: dict[str, Any], key: str = "", *, level: int = 0) -> Any:
    """A value that the schema allows. Of the metrics only the headlines; below DEEPEST levels null."""
    schema = _resolved(schema)
    if schema.get("examples"):
        return schema["examples"][0]
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if schema.get("default") not in (None, [], {}):
        return schema["default"]
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        if level == DEEPEST:
            return {}
        properties = schema.get("properties", {})
        shown = [name for name in properties if name not in METRICS or name in DEFAULT_METRICS]
        return {name: _example(properties[name], name, level=level + 1) for name in shown}
    if key in _VALUES:
        return _VALUES[key]
    if kind == "array":
        return [] if level == DEEPEST else [_example(schema.get("items", {}), key, level=level + 1)]
    if kind == "string":
        return _string(schema, key)
    return {"integer": schema.get("minimum", 1), "number": 0.5, "boolean": True}.get(str(kind))


def _string(schema: Mapping[str, Any], key: str) -> str:
    if schema.get("format") == "date-time":
        return "2026-11-21T13:00:00+00:00"
    if "{64}" in schema.get("pattern", "") or key.endswith(("digest", "seal")):
        return "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    return key.replace("_", "-") or "text"

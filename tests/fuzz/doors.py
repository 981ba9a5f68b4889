"""Hostile requests: every route with a hostile value in every parameter, of every kind.

A door is a place for values: path, query string, form, JSON document or file. A page's parameters are recorded while it
is answered, so that a new page is fuzzed without being listed here.
"""

import json
import random
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import quote

from flask import Flask, Request, got_request_exception
from flask.testing import FlaskClient
from sqlalchemy import Engine, update
from werkzeug.datastructures import ImmutableMultiDict
from werkzeug.test import TestResponse

from registry.boards.submissions import ModelRequest, request_submission
from registry.db import read_session, write_session
from registry.people.accounts import ROLES, create_account, find_account, viewer_of_account
from registry.settings import Settings
from registry.studies.published import load_published
from registry.tables.accounts import Account
from tests.web.accounts import PASSWORD, add_account, bearer, csrf_of, signed_in, token_of
from tests.web.conftest import Site
from tests.web.seed import seed
from tests.web.test_boards import load
from web import create_app
from web.api import OPERATIONS
from web.api.operations import Operation

LEVELS: Final = 10_000
MANY: Final = 200_000
DEEP: Final = "[" * LEVELS + "]" * LEVELS
QUESTION: Final = '{"id": "q", "subject": null, "question": "q?", "options": ["a", "b"], "answer": 0}'

TEXTS: Final[dict[str, str]] = {
    "NUL": "a\0b",
    "2^63": str(2**63),
    "2^64": str(2**64),
    "below -2^63": str(-(2**63) - 1),
    "5,000 digits": "9" * 5000,
    "10,000 levels": DEEP,
    "1 MB": "x" * 2**20,
    "lone surrogate": "a\ud800b",
    "NaN": "NaN",
    "infinity": "1e400",
    "blank": " ",
    "quotes": "'\"\\%s{{7*7}}",
    "other digits": "١٢",
    "right to left": "\u202e\uffff",
}
"""Name → hostile text for a path, a query string or a form."""
DOCUMENTS: Final[dict[str, str]] = {
    **{name: json.dumps(text) for name, text in TEXTS.items()},
    "the number 2^63": str(2**63),
    "the number 2^64": str(2**64),
    "a number below -2^63": str(-(2**63) - 1),
    "a number of 5,000 digits": "9" * 5000,
    "the number NaN": "NaN",
    "the number 1e400": "1e400",
    "10,000 lists": DEEP,
    "10,000 objects": '{"a":' * LEVELS + "1" + "}" * LEVELS,
    "200,000 items": json.dumps([1] * MANY),
    "a NUL key": '{"a\\u0000": 1}',
    "null": "null",
    "true": "true",
    "a list": '["a"]',
    "an object": "{}",
}
"""Name → hostile JSON document as text."""
FILES: Final[dict[str, bytes]] = {
    name: text.encode(errors="surrogatepass")
    for name, text in {
        **{f"{name} as a line": document for name, document in DOCUMENTS.items()},
        **{
            f"{name} as {key}": QUESTION[:-1] + f', "{key}": {document}}}'
            for name, document in DOCUMENTS.items()
            for key in ("context", "extra")
        },
        **{
            f"{name} as {key}": re.sub(rf'"{key}": ("q\??"|null|\[[^]]*\]|0)', f'"{key}": 0', QUESTION).replace(
                f'"{key}": 0', f'"{key}": {document}'
            )
            for name, document in DOCUMENTS.items()
            for key in ("id", "subject", "question", "options", "answer")
        },
        "200,000 options": QUESTION.replace('["a", "b"]', json.dumps([f"o{n}" for n in range(MANY)])),
        "CSV with deep options": f'id,subject,question,options,answer\nq,,q,"{DEEP}",0\n',
        "CSV with a large answer": f'id,subject,question,options,answer\nq,,q,"[""a"",""b""]",{"9" * 5000}\n',
        "CSV with NUL": 'id,subject,question,options,answer\nq,,q\0,"[""a"",""b""]",0\n',
        "nothing": "",
        "half a line": QUESTION[:30],
    }.items()
} | {"not UTF-8": b"\xff\xfe\0", "half an archive": b"PK\x03\x04" + b"\0" * 100, "half a Parquet file": b"PAR1\0\0"}
"""Name → contents of an uploaded file."""

UNASKED: Final = frozenset({"static"})


@dataclass(frozen=True)
class Door:
    """A parameter of a route.

    kind: path, query, form, json or file. name: empty for the body as a whole.
    """

    endpoint: str
    method: str
    kind: str
    name: str


@dataclass(frozen=True)
class Fault:
    """A request that was answered with a server error, and the error's cause."""

    door: Door
    value: str
    status: int
    error: str

    def __str__(self) -> str:
        door = self.door
        return f"{self.status} {door.method} {door.endpoint} {door.kind} {door.name!r}={self.value}: {self.error}"


def fill(engine: Engine, folder: Path) -> dict[str, Sequence[Any]]:
    """Fill an empty registry with rows of every kind; return valid values by the name of the parameter."""
    seeded = seed(engine, folder)
    load(Site(engine, seeded, FlaskClient(Flask("none"))))
    with write_session(engine) as session:
        load_published(session)
        for role in ROLES:
            create_account(session, role, role)
        asking = viewer_of_account(find_account(session, "submitter"))
        submissions = [
            request_submission(
                session,
                session,
                asking,
                ModelRequest(hub="a/b", revision=f"r{n}"),
                "orders",
                None,
                Settings(home=folder),
            )[0].id
            for n in range(3)
        ]
    add_account(engine, "browser", "admin")
    add_account(engine, "somebody", "reader")
    evaluations = [*seeded.evaluations.values(), seeded.secret_evaluation]
    return {
        "evaluation_id": evaluations,
        "a": evaluations,
        "b": evaluations,
        "left": evaluations,
        "right": evaluations,
        "other_id": evaluations,
        "question_id": [*seeded.questions.values()],
        "submission_id": submissions,
        "model": ["alpha", "slow"],
        "benchmark": ["capitals"],
        "board": ["main"],
        "suite": ["orders"],
        "variants": ["cyclic"],
        "account": ["somebody"],
        "actor": ["admin"],
        "name": ["somebody"],
        "role": ["reader"],
        "change": ["role", "password", "disable", "enable"],
        "decision": ["approve", "reject"],
        "queue": ["cpu"],
        "state": ["requested"],
        "outcome": ["refused"],
        "scopes": ["read"],
        "reason": ["because"],
        "hub": ["owner/model"],
        "kind": ["external", "csv"],
        "dtype": ["float32"],
        "visibility": ["public"],
        "password": [PASSWORD],
        "old": [PASSWORD],
        "new": [PASSWORD],
        "again": [PASSWORD],
        "next": ["/queue"],
        "url": ["https://hook.example/"],
        "q": ["SELECT DISTINCT"],  # refused at once, since running a query takes longer than everything else
        "query": ["SELECT DISTINCT"],
        "options": [4],
        "benchmarks": [["capitals"]],
    }


class _Noting(ImmutableMultiDict[str, str]):
    """Request parameters that record which of them were read."""

    asked: Final[deque[str]] = deque(maxlen=1000)

    def __getitem__(self, key: str) -> str:
        self.asked.append(key)
        return super().__getitem__(key)

    def getlist(self, key: str, *more: Any, **options: Any) -> list[Any]:
        """Return the values of a parameter."""
        self.asked.append(key)
        return super().getlist(key, *more, **options)


class _NotingRequest(Request):
    parameter_storage_class = _Noting


@dataclass
class Fuzz:
    """A generator of hostile requests to a site."""

    app: Flask
    right: dict[str, Sequence[Any]]
    seed: int = 1
    asked: int = 0
    faults: list[Fault] = field(default_factory=list)
    doors: list[Door] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make tokens for every role, and find the parameters in routes and in the API's types."""
        self.random = random.Random(self.seed)
        self.engine: Engine = self.app.extensions["shuffleboard_engine"]
        with read_session(self.engine) as session:
            self.password_hash = find_account(session, "browser").password_hash
        self.app.request_class = _NotingRequest
        self.client = self.app.test_client(use_cookies=False)
        self.headers = {role: bearer(token_of(self.engine, role)) for role in ROLES}
        self.operations: dict[str, Operation] = {f"api.{operation.name}": operation for operation in OPERATIONS}
        self.waiting: deque[tuple[Door, str]] = deque()
        self.routes: dict[tuple[str, str], str] = {}
        for rule in self.app.url_map.iter_rules():
            for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
                if rule.endpoint not in UNASKED:
                    self.routes[rule.endpoint, method] = rule.rule
                    self._find(rule.endpoint, method, sorted(rule.arguments))

    def _find(self, endpoint: str, method: str, in_path: list[str]) -> None:
        doors = [Door(endpoint, method, "path", name) for name in in_path]
        operation = self.operations.get(endpoint)
        if operation is not None and operation.body is not None:
            doors += [Door(endpoint, method, "json", name) for name in ("", *operation.body.model_fields)]
        elif operation is not None and operation.upload is not None:
            doors.append(Door(endpoint, method, "file", ""))
        doors.append(Door(endpoint, method, "query", "unknown"))
        if operation is None and method == "POST":
            doors.append(Door(endpoint, method, "form", "unknown"))
        for door in doors:
            self._add(door)

    def _add(self, door: Door) -> None:
        self.doors.append(door)
        values = {"json": DOCUMENTS, "file": FILES}.get(door.kind, TEXTS)
        self.waiting.extend((door, value) for value in values)

    def run(self, requests: int) -> list[Fault]:
        """Send this number of requests: first each value for each parameter once, then random combinations.

        Returns the requests that were answered with a server error.
        """
        got_request_exception.connect(self._note_error, self.app)
        with _alone():
            while self.asked < requests:
                if self.waiting and self.asked % 500 == 0:
                    self.random.shuffle(self.waiting)  # type: ignore[arg-type]
                door, value = self.waiting.popleft() if self.waiting else self._drawn()
                self.asked += 1
                self._ask(door, value)
        got_request_exception.disconnect(self._note_error, self.app)
        return self.faults

    def _drawn(self) -> tuple[Door, str]:
        door = self.random.choice(self.doors)
        values = {"json": DOCUMENTS, "file": FILES}.get(door.kind, TEXTS)
        return door, self.random.choice(list(values))

    def _note_error(self, _sender: Flask, exception: BaseException, **_: Any) -> None:
        self.error = f"{type(exception).__name__}: {str(exception)[:300]}"

    def _value(self, name: str) -> Any:
        return self.random.choice(self.right.get(name, [1]))

    def _ask(self, door: Door, value: str) -> None:
        siblings = [other for other in self.doors if (other.endpoint, other.method) == (door.endpoint, door.method)]

        def filled(kind: str, hostile: Callable[[str], Any]) -> dict[str, Any]:
            """Return valid values for all parameters except the hostile one, or now and then no other values."""
            names = {other.name for other in siblings if other.kind == kind and other.name not in ("", "unknown")}
            if kind == "query" and door.kind != "query":
                names = set()
            values = {name: self._value(name) for name in names if kind == "path" or self.random.random() < 0.8}
            if door.kind == kind and door.name:
                values[door.name] = hostile(value)
            return values

        path = filled("path", TEXTS.__getitem__)
        address = re.sub(
            r"<(?:[^>]*:)?(\w+)>",
            lambda found: quote(str(path[found[1]]), safe="", errors="surrogatepass"),
            self.routes[door.endpoint, door.method],
        )
        query = filled("query", TEXTS.__getitem__)
        if query:
            address += "?" + "&".join(
                f"{quote(str(name))}={quote(str(text), errors='surrogatepass')}" for name, text in query.items()
            )
        sent: dict[str, Any] = {}
        if door.endpoint in self.operations:
            sent = self._body(door, value, siblings)
        elif door.method == "POST":
            form = filled("form", TEXTS.__getitem__)
            sent = {
                "data": "&".join(f"{name}={quote(str(text), errors='surrogatepass')}" for name, text in form.items()),
                "content_type": "application/x-www-form-urlencoded",
            }
        who = "admin" if self.random.random() < 0.8 else self.random.choice(ROLES)
        _Noting.asked.clear()
        self.error = ""
        if door.endpoint.startswith("signing."):
            answer = self._as_browser(address, door.method, sent)
        else:
            answer = self.client.open(address, method=door.method, headers=self.headers[who], **sent)
        answer.get_data()
        self._note_parameters(door)
        if answer.status_code >= 500:
            self.faults.append(Fault(door, value, answer.status_code, self.error or answer.text[:200]))

    def _body(self, door: Door, value: str, known: list[Door]) -> dict[str, Any]:
        operation = self.operations[door.endpoint]
        if operation.body is not None:
            if door.kind == "json" and not door.name:
                return {"data": DOCUMENTS[value], "content_type": "application/json"}
            required = {name for name, one in operation.body.model_fields.items() if one.is_required()}
            names = {other.name for other in known if other.kind == "json" and other.name}
            document = {name: self._value(name) for name in names if name in required or self.random.random() < 0.2}
            parts = [f"{json.dumps(name)}: {json.dumps(own)}" for name, own in document.items() if name != door.name]
            if door.kind == "json":
                parts.append(f"{json.dumps(door.name)}: {DOCUMENTS[value]}")
            return {"data": "{" + ", ".join(parts) + "}", "content_type": "application/json"}
        if operation.upload is not None:
            content = FILES[value] if door.kind == "file" else QUESTION.encode()
            kind = "text/csv" if value.startswith("CSV") else self.random.choice(list(operation.upload.types))
            return {"data": content, "content_type": kind}
        return {}

    def _as_browser(self, address: str, method: str, sent: dict[str, Any]) -> TestResponse:
        if method == "GET":
            return self.client.open(address, method=method)
        if address.startswith("/sign-in"):
            browser = self.app.test_client()
            page = "/sign-in"
        else:
            with write_session(self.engine) as session:
                session.execute(
                    update(Account)
                    .where(Account.name == "browser")
                    .values(password_hash=self.password_hash, disabled_at=None)
                )
            browser, page = signed_in(self.app, "browser"), "/account"
        form = {**sent, "data": f"csrf_token={quote(csrf_of(browser, page))}&{sent['data']}"}
        _Noting.asked.clear()
        return browser.open(address, method=method, **form)

    def _note_parameters(self, door: Door) -> None:
        noted = {
            (other.kind, other.name)
            for other in self.doors
            if (other.endpoint, other.method) == (door.endpoint, door.method)
        }
        for name in dict.fromkeys(_Noting.asked):
            kind = "form" if door.method == "POST" and door.endpoint not in self.operations else "query"
            if name != "csrf_token" and (kind, name) not in noted:
                self._add(Door(door.endpoint, door.method, kind, name))
                noted.add((kind, name))


@contextmanager
def _alone() -> Iterator[None]:
    """Block all requests to other hosts, since addresses are made up."""
    import socket

    def resolve(host: str, *_arguments: object, **_options: object) -> Any:
        raise socket.gaierror(host)

    with patch("socket.getaddrinfo", resolve):
        yield


def site(url: str, home: Path, **settings: Any) -> Flask:
    """Return an application on a filled registry."""
    return create_app(Settings(home=home, rate_limits=False, **settings), database_url=url)

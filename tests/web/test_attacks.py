"""A table of attacks over HTTP: each is refused and logged, and changes nothing.

Attacks by SQL are in tests/sql/test_attacks.py, model files that could run code in tests/integration/test_bad_input.py,
hidden and hostile texts in test_every_door.py, and guessed passwords and bad tokens in test_accounts.py.
"""

import json
import traceback
from pathlib import Path
from typing import Any, Final

import pytest
from flask import Flask
from sqlalchemy import Engine, func, select, text
from sqlalchemy.exc import DBAPIError

from registry.db import get_engine, read_session
from registry.settings import Settings
from registry.tables import Base
from registry.tables.accounts import AuditEvent
from tests.submissions.conftest import fill
from tests.web.accounts import bearer, refusals, token_of
from web import create_app

pytestmark = pytest.mark.long_on("postgresql")

HERE: Final = str(Path(__file__).parents[2])
"""Folder of the server's code, which no answer may reveal."""
MEGABYTE: Final = 2**20
HOSTILE_NAMES = (
    "../../etc/passwd",
    "/etc/passwd",
    "a/../../b",
    "..\\..\\windows",
    "a\nb",
    "a b",
    "'; DROP TABLE model; --",
)

JSON = "/api/v1"
SUBMISSION = {"suite": "core", "hub": "owner/model"}
MODEL = {"name": "m", "kind": "huggingface", "location": "owner/model"}
EVALUATION = {"model": "m", "benchmark": "bench", "variants": "cyclic"}
SECRET = "What nobody may read?"
LINE = b'{"id": "%d", "subject": null, "question": "q", "options": ["a", "b"], "answer": 0}\n'

Attack = tuple[str, str, str, dict[str, Any], tuple[int, ...]]
"""Account ("nobody" or a role), method, path, request arguments, permitted statuses."""

ATTACKS: dict[str, Attack] = {
    # Accounts without the right.
    "nobody submits": ("nobody", "POST", f"{JSON}/submissions", {"json": SUBMISSION}, (401,)),
    "a reader submits": ("reader", "POST", f"{JSON}/submissions", {"json": SUBMISSION}, (403,)),
    "a reader adds a model": ("reader", "POST", f"{JSON}/models", {"json": MODEL}, (403,)),
    "a submitter adds a model": ("submitter", "POST", f"{JSON}/models", {"json": MODEL}, (403,)),
    "a submitter queues": ("submitter", "POST", f"{JSON}/evaluations", {"json": EVALUATION}, (403,)),
    "a submitter approves": ("submitter", "POST", f"{JSON}/submissions/1/approve", {"json": {}}, (403,)),
    "a reader hides a benchmark": (
        "reader", "PATCH", f"{JSON}/benchmarks/bench", {"json": {"visibility": "hidden"}}, (403,),
    ),
    "a maintainer makes an admin": (
        "maintainer", "POST", f"{JSON}/accounts", {"json": {"name": "eve", "role": "admin"}}, (403,),
    ),
    "a maintainer raises himself": (
        "maintainer", "PATCH", f"{JSON}/accounts/maintainer", {"json": {"role": "admin"}}, (403,),
    ),
    "a reader takes a token of an admin": (
        "reader", "POST", f"{JSON}/accounts/admin/tokens", {"json": {"name": "t", "scopes": ["admin"]}}, (403,),
    ),
    # Addresses and paths of the server.
    "an endpoint at a private address": (
        "submitter", "POST", f"{JSON}/submissions", {"json": {"suite": "core", "endpoint": "http://169.254.169.254/"}},
        (400, 422),
    ),
    "a model at a private address": (
        "maintainer", "POST", f"{JSON}/models",
        {"json": {"name": "m", "kind": "openai", "location": "http://10.0.0.1/v1", "revision": "x"}}, (400, 422),
    ),
    "a model that is a path": (
        "maintainer", "POST", f"{JSON}/models", {"json": MODEL | {"location": "/etc"}}, (400, 422),
    ),
    "a model that is a path of the folder above": (
        "maintainer", "POST", f"{JSON}/models", {"json": MODEL | {"location": "../secrets"}}, (400, 422),
    ),
    "a GGUF file of the server": (
        "maintainer", "POST", f"{JSON}/models", {"json": MODEL | {"kind": "gguf", "location": "/tmp/x.gguf"}}, (422,),
    ),
    "a submission of a path": (
        "submitter", "POST", f"{JSON}/submissions", {"json": {"suite": "core", "hub": "../../etc"}}, (400, 422),
    ),
    "a revision with a path": (
        "submitter", "POST", f"{JSON}/submissions", {"json": SUBMISSION | {"revision": "../../../x"}}, (400, 422),
    ),
    # Code in a model's folder.
    "a model with code of its own": (
        "maintainer", "POST", f"{JSON}/models", {"json": MODEL | {"trust_remote_code": True}}, (422,),
    ),
    "a submission with code of its own": (
        "submitter", "POST", f"{JSON}/submissions", {"json": SUBMISSION | {"trust_remote_code": True}}, (422,),
    ),
    # Bodies.
    "a body of 100 MB": (
        "admin", "POST", f"{JSON}/sql", {"data": b"x" * (100 * MEGABYTE), "content_type": "application/json"}, (413,),
    ),
    "a benchmark of 100 MB": (
        "maintainer", "POST", f"{JSON}/benchmarks?name=big",
        {"data": b" " * (100 * MEGABYTE), "content_type": "application/x-ndjson"}, (413,),
    ),
    "10,000 rows of which the last is bad": (
        "maintainer", "POST", f"{JSON}/benchmarks?name=long",
        {"data": b"".join(LINE % number for number in range(9_999)) + b"{}", "content_type": "application/x-ndjson"},
        (400, 422),
    ),
    "10,000 scopes": (
        "admin", "POST", f"{JSON}/accounts/reader/tokens", {"json": {"name": "t", "scopes": ["read"] * 10_000}}, (422,),
    ),
    "JSON in 100,000 brackets": (
        "submitter", "POST", f"{JSON}/submissions",
        {"data": b"[" * 100_000 + b"]" * 100_000, "content_type": "application/json"}, (400, 422),
    ),
    "a number beyond all numbers": (
        "maintainer", "POST", f"{JSON}/evaluations", {"json": EVALUATION | {"priority": 10**30}}, (422,),
    ),
    "NaN": (
        "maintainer", "POST", f"{JSON}/evaluations",
        {"data": b'{"priority": NaN}', "content_type": "application/json"}, (400, 422),
    ),
    "no JSON at all": ("submitter", "POST", f"{JSON}/submissions", {"data": b"\xff\xfe"}, (400, 415)),
    "an archive that is none": (
        "maintainer", "POST", f"{JSON}/evaluations/import?model=m&benchmark=bench&variants=cyclic",
        {"data": b"PK\x03\x04" + b"\0" * 100, "content_type": "application/zip"}, (400, 404),
    ),
    # Methods and forged forms.
    "deleting what is only read": ("admin", "DELETE", f"{JSON}/leaderboard", {}, (405,)),
    "another method in a header": (
        "reader", "POST", f"{JSON}/models", {"headers": {"X-HTTP-Method-Override": "GET"}, "json": MODEL}, (403,),
    ),
    "a form of another site": (
        "nobody", "POST", "/accounts", {"data": {"name": "eve", "role": "admin"}, "headers": {"Origin": "https://x.example"}},
        (400,),
    ),
    "a sign-in without its form": ("nobody", "POST", "/sign-in", {"data": {"name": "admin", "password": "x"}}, (400,)),
    # SQL through the API.
    "SQL that writes": ("reader", "POST", f"{JSON}/sql", {"json": {"query": "DELETE FROM leaderboard"}}, (400,)),
    "two statements": ("reader", "POST", f"{JSON}/sql", {"json": {"query": "SELECT 1; DROP TABLE model"}}, (400,)),
    "SQL that reads passwords": (
        "admin", "POST", f"{JSON}/sql", {"json": {"query": "SELECT password_hash FROM account"}}, (400,),
    ),
}  # fmt: skip
NUL, LARGE = "a\0b", str(2**64)
FORMS = {
    "/account/password": ("old", "new", "again"),
    "/account/tokens": ("name", "scopes", "days"),
    "/accounts": ("name", "role", "password"),
    "/accounts/reader": ("change", "role", "password"),
    "/sign-in": ("name", "password", "next"),
    "/sql": ("q",),
    "/sql/saved": ("name", "q", "public"),
    "/submit": ("hub", "endpoint", "revision", "dtype", "name", "suite", "note"),
    "/submissions/1/decide": ("decision", "reason", "queue", "priority"),
}
"""Address of a form → its fields."""
for _path, _fields in FORMS.items():
    for _field in _fields:
        ATTACKS[f"NUL in {_field} of the form {_path}"] = ("admin", "POST", _path, {"data": {_field: NUL}}, (400,))
BODIES = {
    "/submissions": ("submitter", SUBMISSION),
    "/models": ("maintainer", MODEL),
    "/evaluations": ("maintainer", EVALUATION),
    "/accounts": ("admin", {"name": "eve", "role": "reader"}),
    "/sql": ("reader", {"query": "SELECT 1"}),
}
for _path, (_who, _body) in BODIES.items():
    for _field in _body:
        ATTACKS[f"NUL in {_field} of {_path}"] = (
            _who, "POST", f"{JSON}{_path}", {"json": _body | {_field: NUL}}, (422,),
        )  # fmt: skip
for _path in (
    "/accounts/tokens/%s/revoke", "/account/tokens/%s/revoke", "/submissions/%s/decide", "/submissions/%s/withdraw",
    f"{JSON}/submissions/%s/withdraw", f"{JSON}/evaluations/%s/cancel",
):  # fmt: skip
    for _number in (2**63, 2**64, 10**5000):
        _digits = str(_number)[:50] if _number < 2**65 else "9" * 5000
        ATTACKS[f"{_digits[:25]} ({len(_digits)} digits) in {_path}"] = (
            "admin", "POST", _path % _digits, {"data": {"decision": "approve"}}, (400, 404),
        )  # fmt: skip
for _field in ("priority", "limit", "shots", "options"):
    ATTACKS[f"2^64 as {_field}"] = (
        "maintainer", "POST", f"{JSON}/evaluations", {"json": EVALUATION | {_field: 2**64}}, (422,),
    )  # fmt: skip
for _name, _line in {
    "200,000 options": LINE.replace(b'["a", "b"]', json.dumps([f"o{n}" for n in range(200_000)]).encode()) % 1,
    "1,001 options": LINE.replace(b'["a", "b"]', json.dumps([f"o{n}" for n in range(1001)]).encode()) % 1,
    "a question of 10,000 lists": LINE.replace(b'"q"', b"[" * 10_000 + b"]" * 10_000) % 1,
    "an unknown key beyond 64 bits": LINE.replace(b'"answer"', b'"seed": 18446744073709551616, "answer"') % 1,
    "NUL in an unknown key": LINE.replace(b'"answer"', b'"note": "a\\u0000b", "answer"') % 1,
}.items():
    ATTACKS[f"a benchmark with {_name}"] = (
        "maintainer", "POST", f"{JSON}/benchmarks?name=big", {"data": _line, "content_type": "application/x-ndjson"},
        (422,),
    )  # fmt: skip
for _number, _name in enumerate(HOSTILE_NAMES):
    ATTACKS[f"an account named {_name!r}"] = (
        "admin", "POST", f"{JSON}/accounts", {"json": {"name": _name, "role": "reader"}}, (400, 422),
    )  # fmt: skip
    ATTACKS[f"a model named {_name!r}"] = (
        "maintainer", "POST", f"{JSON}/models", {"json": MODEL | {"name": _name}}, (400, 422),
    )  # fmt: skip
    ATTACKS[f"a benchmark named {_name!r}"] = (
        "maintainer", "POST", f"{JSON}/benchmarks",
        {"query_string": {"name": _name}, "data": LINE % 1, "content_type": "application/x-ndjson"}, (400, 422),
    )  # fmt: skip


@pytest.fixture
def engine(database: str, tmp_path: Any) -> Engine:
    engine = get_engine(database)
    fill(engine, tmp_path)
    return engine


@pytest.fixture
def app(engine: Engine, database: str, tmp_path: Any) -> Flask:
    return create_app(Settings(home=tmp_path, rate_limits=False), database_url=database)


def contents(engine: Engine) -> dict[str, list[Any]]:
    """Return every row of every table except the audit trail."""
    with engine.execution_options(read_only=True).connect() as connection:
        return {
            name: sorted(map(repr, connection.execute(text(f"SELECT * FROM {name}"))))
            for name in Base.metadata.tables
            if name not in ("audit_event", "api_token")
        }


def count_of_refusals(engine: Engine) -> int:
    with read_session(engine) as session:
        return session.scalar(select(func.count()).select_from(AuditEvent).filter_by(outcome="refused")) or 0


def test_each_attack_is_refused_written_down_and_changes_nothing(app: Flask, engine: Engine) -> None:
    before = contents(engine)
    tokens = {role: bearer(token_of(engine, role)) for role in ("reader", "submitter", "maintainer", "admin")}
    client = app.test_client()
    wrong: list[str] = []
    written = count_of_refusals(engine)
    for name, (who, method, path, sent, statuses) in ATTACKS.items():
        headers = {**tokens.get(who, {}), **sent.get("headers", {})}
        answer = client.open(path, method=method, **{**sent, "headers": headers})
        before_it, written = written, count_of_refusals(engine)
        if answer.status_code not in statuses:
            wrong.append(f"{name}: {answer.status_code} {answer.text[:200]}")
        elif written != before_it + 1:
            wrong.append(f"{name}: written down {written - before_it} times")
        elif "Traceback" in answer.text or HERE in answer.text or "site-packages" in answer.text:
            wrong.append(f"{name}: tells of the server: {answer.text[:200]}")
    assert wrong == []
    assert contents(engine) == before


def test_an_error_of_the_database_keeps_rows_out_of_the_log(engine: Engine) -> None:
    """Check the log, which more people read than may see a hidden question."""
    for statement in (
        "INSERT INTO model (id, name, created_at) VALUES (91, :text, '2026-01-01'), (92, :text, '2026-01-01')",
        "INSERT INTO role (name, rank, description) VALUES ('new', 1, :text)",
        "INSERT INTO benchmark (id, name) VALUES (NULL, :text), (NULL, NULL)",
        "SELECT CAST(:text AS integer), nothing_of_this_name FROM model",
        "SELECT sum(CAST(CAST(:text AS text) AS integer)), missing() FROM model",
    ):
        with pytest.raises(DBAPIError) as caught, engine.connect() as connection:
            connection.execute(text(statement), {"text": SECRET})
        assert SECRET not in "".join(traceback.format_exception(caught.value)), statement


def test_a_flood_of_refusals_does_not_fill_the_database(engine: Engine, database: str, tmp_path: Any) -> None:
    client = create_app(Settings(home=tmp_path), database_url=database).test_client()
    statuses = {client.get("/api/v1/models", headers=bearer("shb_nonsense")).status_code for _ in range(100)}
    assert statuses == {401}
    assert len(refusals(engine)) == 60

"""Every page and address that links reach, in each role: no hidden content, and hostile content only as text."""

import html
import io
import json
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from urllib.parse import urljoin, urlsplit

import pyarrow.parquet as pq
import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import update
from werkzeug.exceptions import HTTPException
from werkzeug.test import TestResponse

from registry.db import write_session
from registry.tables import BenchmarkVersion, Model
from tests.support.surface import READ
from tests.web.accounts import add_one_of_each_role, signed_in
from tests.web.conftest import Site, own
from tests.web.seed import HOSTILE, SECRET
from web import create_app

__all__ = ["own"]


MOST_PAGES = 600
FEW = {"alike": 1, "of_a_route": 4}
ALL = {"alike": MOST_PAGES, "of_a_route": MOST_PAGES}
EVERY_DOOR = pytest.mark.parametrize(
    "most", [pytest.param(FEW, id="few"), pytest.param(ALL, id="all", marks=pytest.mark.long)]
)
"""Limits on the number of requests for a route: with the same names of parameters, and in total."""
FORMAT = re.compile(r"\.(?:csv|md|tex|parquet|svg|png)$")
LINK = re.compile(r'(?:href|action)="([^"]*)"')


@pytest.fixture
def app(own: Site, monkeypatch: pytest.MonkeyPatch) -> Flask:
    """Return the application of the seeded registry with accounts, whose model also has hostile texts."""
    add_one_of_each_role(own.engine)
    with write_session(own.engine) as session:
        session.execute(
            update(Model).values(family=HOSTILE, developer=HOSTILE, licence=HOSTILE, url="javascript:alert(1)")
        )
        session.execute(update(BenchmarkVersion).values(licence=HOSTILE, source="javascript:alert(1)"))
    return create_app(database_url=own.engine.url.render_as_string(hide_password=False))


def everything(client: FlaskClient, hostile: Sequence[str], most: Mapping[str, int]) -> dict[str, TestResponse]:
    """Return path with query → answer, for all links and the API's addresses, one for each kind of query.

    If only a few addresses of a route are requested, `hostile` and the addresses linked from there come first.
    """
    waiting = deque(hostile)
    waiting.extend(["/", "/api/v1/openapi.json", "/feed.atom", "/sql", "/account", "/accounts", "/audit", "/submit"])
    waiting.extend(rule for rule in READ if "<" not in rule)
    seen: dict[str, TestResponse] = {}
    kinds: set[tuple[str, tuple[str, ...]]] = set()
    routes: Counter[object] = Counter()
    while waiting and len(seen) < MOST_PAGES:
        address = waiting.popleft()
        parts = urlsplit(address)
        # Sorting and filters lead to endless combinations of the same rows, each in several formats.
        query = "" if "/charts/" in parts.path else parts.query
        names = tuple(sorted(item.split("=")[0] for item in query.split("&")))
        kind = (FORMAT.sub("", parts.path), names)
        if kind in kinds or parts.path.startswith("/static/") or parts.netloc:
            continue
        kinds.add(kind)
        route = route_of(client.application, parts.path)
        if routes[route] >= most["of_a_route"] or routes[route, names] >= most["alike"]:
            continue
        routes.update([route, (route, names)])
        answer = client.get(address)
        # On PostgreSQL, queries run in a separate role, which this registry lacks.
        assert answer.status_code < 500 or (parts.path == "/sql" and answer.status_code == 503), address
        seen[address] = answer
        if answer.status_code != 200:
            continue
        if answer.mimetype == "text/html":
            links = [html.unescape(link) for link in LINK.findall(answer.text)]
        elif answer.mimetype == "application/json":
            links = re.findall(r'"(/[^"\\]*)"', answer.text)
        else:
            links = []
        for link in links:
            joined = urlsplit(urljoin(address, link))
            if joined.scheme in ("", "http") and not joined.netloc:
                waiting.append(joined.path + (f"?{joined.query}" if joined.query else ""))
    assert len(seen) < MOST_PAGES
    return seen


def route_of(app: Flask, path: str) -> str:
    """Return the rule of a path; the path itself if there is none."""
    try:
        rule, _ = app.url_map.bind("localhost").match(path, return_rule=True)
    except HTTPException:
        return path
    return rule.rule


def text_of(answer: TestResponse) -> str:
    """Return the text of an answer, including a Parquet file's."""
    if answer.mimetype == "application/vnd.apache.parquet":
        return str(pq.read_table(io.BytesIO(answer.data)).to_pylist())
    return answer.text


def make(app: Flask, who: str) -> FlaskClient:
    return app.test_client() if who == "anonymous" else signed_in(app, who)


def set_visibility(own: Site, visibility: str) -> None:
    with write_session(own.engine) as session:
        version = session.get_one(BenchmarkVersion, _secret_version(own))
        version.visibility = visibility


def _secret_version(own: Site) -> int:
    from registry.db import read_session
    from registry.tables import Evaluation

    with read_session(own.engine) as session:
        return session.get_one(Evaluation, own.seeded.secret_evaluation).benchmark_version_id


def list_hostile(own: Site) -> list[str]:
    """Return the pages with hostile content, and those of the model that answered the secret benchmark."""
    evaluation = own.seeded.evaluations["hostile"]
    match = re.search(rf"/evaluations/{evaluation}/questions/(\d+)", own.client.get(f"/evaluations/{evaluation}").text)
    assert match is not None
    pages = [
        f"/evaluations/{evaluation}",
        f"/evaluations/{evaluation}/questions/{match[1]}",
        f"/questions/{match[1]}",
        "/benchmarks/hostile",
        "/models/alpha",
    ]
    return [*pages, *(f"/api/v1{page}" for page in pages)]


@EVERY_DOOR
@pytest.mark.parametrize(
    ("filled_databases", "visibility", "seen_by", "not_by"),
    [
        pytest.param("postgresql", "hidden", "maintainer", "submitter", marks=pytest.mark.long),
        ("sqlite", "members", "reader", "anonymous"),
    ],
    indirect=["filled_databases"],
)
def test_hidden_benchmarks_appear_nowhere_and_users_words_are_escaped(
    app: Flask, own: Site, visibility: str, seen_by: str, not_by: str, most: dict[str, int]
) -> None:
    set_visibility(own, visibility)
    evaluation, question = own.seeded.secret_evaluation, own.seeded.secret_question
    closed = [
        f"/evaluations/{evaluation}",
        f"/questions/{question}",
        "/benchmarks/secret",
        f"/evaluations/{evaluation}/questions/{question}",
        f"/api/v1/evaluations/{evaluation}",
        "/api/v1/benchmarks/secret",
        f"/compare?left={own.seeded.evaluations['alpha']}&right={evaluation}",
    ]
    client = make(app, not_by)
    answers = everything(client, list_hostile(own), most)
    for address, answer in answers.items():
        assert SECRET not in text_of(answer), address
        # The description of the API also contains the word "secret".
        if address not in ("/api/v1/openapi.json", "/api"):
            assert not re.search(r"\bsecret\b", _own_text(answer)), address
    for address in closed:
        assert client.get(address).status_code == 404, address
    check_is_text(answers)
    shown = [make(app, seen_by).get(address) for address in closed[:6]]
    assert [answer.status_code for answer in shown] == [200] * 6
    assert any(SECRET in answer.text for answer in shown)


def _own_text(answer: TestResponse) -> str:
    """Return a page's text that comes from the registry, without the documentation of views."""
    text = re.sub(r"<details class=\"view\".*?</details>", "", text_of(answer), flags=re.DOTALL)
    return re.sub(r'class="[^"]*"|id="secret"', "", text)


@pytest.mark.long
@EVERY_DOOR
@pytest.mark.one_engine
def test_what_users_wrote_is_text_on_every_page_of_an_admin(app: Flask, own: Site, most: dict[str, int]) -> None:
    check_is_text(everything(make(app, "admin"), list_hostile(own), most))


def check_is_text(answers: dict[str, TestResponse]) -> None:
    """Check that texts are escaped on every page, and in JSON that browsers do not display as a page."""
    pages = {address: answer for address, answer in answers.items() if answer.mimetype == "text/html"}
    assert len(pages) > 15
    assert any(html.escape("<script>alert(") in answer.text for answer in pages.values())
    for address, answer in pages.items():
        assert "<script>alert(" not in answer.text, address
        assert "<img src=x" not in answer.text, address
        assert "{{ 7*7 }}" in answer.text or ">49<" not in answer.text, address
        assert not re.search(r'(?:href|src|action)="\s*javascript:', answer.text, re.IGNORECASE), address
    for answer in answers.values():
        if answer.mimetype == "application/json":
            json.loads(answer.text)
            assert answer.headers["X-Content-Type-Options"] == "nosniff"


TRAVERSALS = (
    "../../../../etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "..\\..\\windows",
    "a%00b",
    "/etc/passwd",
    "C:\\x",
)


@pytest.mark.one_engine
@pytest.mark.parametrize("who", ["anonymous", "admin"])
def test_no_name_in_an_address_leads_out_of_the_registry(app: Flask, who: str) -> None:
    client = make(app, who)
    requests = 0
    for rule in (rule for rule in READ if "<" in rule):
        for traversal in TRAVERSALS:
            address = re.sub(r"<[^>]+>", lambda _found, text=traversal: text, rule)
            answer = client.get(address)
            requests += 1
            assert answer.status_code in (302, 308, 400, 401, 403, 404), address
            assert "root:" not in answer.text, address
    assert requests > 100


@pytest.mark.one_engine
def test_bodies_that_are_too_large_are_refused(app: Flask) -> None:
    client = signed_in(app, "admin")
    for address in ("/sql", "/account/tokens", "/accounts", "/sign-in"):
        answer = client.post(address, data={"q": "x" * (3 * 1024 * 1024)})
        assert answer.status_code == 413, address
        assert "use the command line" in answer.text

"""The SQL page: who may ask, what they see, what is kept, and what is refused."""

import csv
import html
import io

import pytest
from flask import Flask
from sqlalchemy import Engine, select, text

from registry.db import get_engine, read_session
from registry.operations.archiving import archive
from registry.settings import get_settings
from registry.tables.accounts import Account, SavedQuery
from tests.proof.conftest import sqlite_proof
from tests.proof.population import Population
from tests.sql.conftest import Asked, asked, postgresql_asked, sqlite_asked
from tests.web.accounts import add_account, add_one_of_each_role, bearer, csrf_of, refusals, signed_in, token_of
from web import create_app

__all__ = ["asked", "postgresql_asked", "sqlite_asked", "sqlite_proof"]

BENCHMARKS = "SELECT DISTINCT benchmark FROM leaderboard ORDER BY benchmark"


@pytest.fixture
def engine(asked: Asked) -> Engine:
    """With an account of each role."""
    engine = get_engine(asked.url)
    with read_session(engine) as session:
        there = session.scalar(select(Account.id).limit(1))
    if there is None:
        add_one_of_each_role(engine)
    return engine


@pytest.fixture
def app(asked: Asked, engine: Engine) -> Flask:
    return create_app(asked.settings.model_copy(update={"anonymous_sql": True}))


def benchmarks(answer) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [row[0] for row in answer.get_json()["rows"]]


def test_nobody_asks_without_signing_in_unless_it_is_allowed(asked: Asked, engine: Engine) -> None:
    app = create_app(asked.settings)
    assert app.test_client().get("/sql").status_code == 401
    assert app.test_client().get("/sql.csv", query_string={"q": BENCHMARKS}).status_code == 401
    assert signed_in(app, "reader").get("/sql").status_code == 200
    narrow = bearer(token_of(engine, "reader", ["read"]))
    assert app.test_client().get("/sql.json", query_string={"q": BENCHMARKS}, headers=narrow).status_code == 403


def test_each_sees_what_their_audience_sees(app: Flask, engine: Engine) -> None:
    ask = {"q": BENCHMARKS}
    assert benchmarks(app.test_client().get("/sql.json", query_string=ask)) == ["open"]
    for role in ("reader", "submitter"):
        token = bearer(token_of(engine, role))
        assert benchmarks(app.test_client().get("/sql.json", query_string=ask, headers=token)) == ["club", "open"]
    seen = benchmarks(app.test_client().get("/sql.json", query_string=ask, headers=bearer(token_of(engine, "admin"))))
    assert seen == (["club", "open", "secret"] if engine.dialect.name == "sqlite" else ["club", "open"])


def test_the_page_shows_rows_and_the_files_hold_them(app: Flask) -> None:
    client = app.test_client()
    query = "SELECT model, benchmark, accuracy FROM leaderboard ORDER BY benchmark"
    answer = client.post("/sql", data={"csrf_token": csrf_of(client, "/sql"), "q": query})
    assert answer.status_code == 303
    page = client.get(answer.headers["Location"]).text
    assert "1 row<" in page
    assert '<td class="cell">their-model</td>' in page
    rows = list(csv.reader(io.StringIO(client.get("/sql.csv", query_string={"q": query}).text)))
    assert [row[:2] for row in rows] == [["model", "benchmark"], ["their-model", "open"]]
    answer = client.get("/sql.json", query_string={"q": query})
    assert answer.headers["Content-Disposition"] == 'attachment; filename="query.json"'
    assert answer.get_json()["columns"] == ["model", "benchmark", "accuracy"]


def test_a_query_too_long_for_an_address_is_answered_where_it_is_sent(app: Flask) -> None:
    client = app.test_client()
    query = "SELECT benchmark FROM leaderboard WHERE model <> '" + "x" * 4000 + "'"
    answer = client.post("/sql", data={"csrf_token": csrf_of(client, "/sql"), "q": query})
    assert answer.status_code == 200
    assert "1 row<" in answer.text
    answer = client.post("/sql", data={"csrf_token": csrf_of(client, "/sql"), "q": "x" * 20_001})
    assert answer.status_code == 400
    assert "20,001 characters" in answer.text
    assert client.post("/sql", data={"q": query}).status_code == 400  # no CSRF token


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM leaderboard",
        "SELECT 1; DROP TABLE evaluation",
        "SELECT * FROM account",
        "SELECT password_hash FROM main.account",
        "SELECT pg_sleep(60)",
        "PRAGMA table_info(account)",
        "nonsense",
        "SELECT '<script>alert(1)</script>' FROM no_such_view",
    ],
)
def test_what_is_refused_is_said_written_down_and_changes_nothing(app: Flask, engine: Engine, query: str) -> None:
    before = _counts(engine)
    answer = app.test_client().get("/sql", query_string={"q": query})
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert "<script>alert" not in answer.text
    assert refusals(engine)[-1] == ("anonymous", "sql", query)
    assert _counts(engine) == before


def _counts(engine: Engine) -> list[int]:
    tables = ("evaluation", "prediction", "account", "benchmark_version")
    with engine.execution_options(read_only=True).connect() as connection:
        return [connection.scalar(text(f"SELECT count(*) FROM {table}")) or 0 for table in tables]


def test_a_query_is_saved_opened_by_others_and_deleted_by_its_owner(app: Flask, engine: Engine) -> None:
    reader, submitter, nobody = signed_in(app, "reader"), signed_in(app, "submitter"), app.test_client()

    def save(**form: str) -> str:
        data = {"csrf_token": csrf_of(reader, "/sql"), "q": BENCHMARKS, **form}
        answer = reader.post("/sql/saved", data=data)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["Location"])

    shared, own = save(name="All <b>benchmarks</b>", public="yes"), save(name="Mine")
    page = reader.get(shared)
    assert "All &lt;b&gt;benchmarks&lt;/b&gt;" in page.text
    assert ">club<" in page.text
    assert submitter.get(shared).status_code == 200
    assert ">club<" not in nobody.get(shared).text  # asked anew, as who asks
    for client in (submitter, nobody):
        assert client.get(own).status_code == 404
        assert "Mine" not in client.get("/sql").text
    answer = submitter.post(f"{shared}/delete", data={"csrf_token": csrf_of(submitter, "/sql")})
    assert answer.status_code == 403
    assert reader.post(f"{shared}/delete", data={"csrf_token": csrf_of(reader, "/sql")}).status_code == 303
    assert nobody.get(shared).status_code == 404
    with read_session(engine) as session:
        assert session.scalar(select(SavedQuery.sql).filter_by(slug=shared.rsplit("/", 1)[1])) == BENCHMARKS


def test_a_query_that_would_be_refused_is_not_saved(app: Flask) -> None:
    reader = signed_in(app, "reader")
    data = {"csrf_token": csrf_of(reader, "/sql"), "name": "bad", "q": "DROP TABLE evaluation"}
    assert reader.post("/sql/saved", data=data).status_code == 400
    nobody = app.test_client()
    data = {"csrf_token": csrf_of(nobody, "/sql"), "name": "mine", "q": BENCHMARKS}
    assert nobody.post("/sql/saved", data=data).status_code == 401


def test_every_example_of_the_page_runs(app: Flask) -> None:
    from web.pages.sql import EXAMPLES

    for label, query in EXAMPLES.items():
        assert app.test_client().get("/sql", query_string={"q": query}).status_code == 200, label


def test_postgresql_without_a_reader_says_what_to_do(asked: Asked, engine: Engine) -> None:
    settings = asked.settings.model_copy(update={"reader_url": "", "anonymous_sql": True})
    answer = create_app(settings).test_client().get("/sql", query_string={"q": BENCHMARKS})
    assert answer.status_code == (200 if engine.dialect.name == "sqlite" else 503)


def test_archived_predictions_are_asked_of_duckdb(
    sqlite_proof: tuple[Engine, Population],
) -> None:
    engine, found = sqlite_proof
    url = engine.url.render_as_string(hide_password=False)
    settings = get_settings().model_copy(update={"database_url": url, "anonymous_sql": True, "sql_at_once": 4})
    client = create_app(settings).test_client()

    def rows(query: str, archives: str = "") -> list[list[object]]:
        answer = client.get("/sql.json", query_string={"q": query, "archives": archives})
        assert answer.status_code == 200, answer.text
        return answer.get_json()["rows"]

    query = "SELECT count(*) AS n FROM prediction_detail"
    assert "archives" not in client.get("/sql").text
    (total,), (hot,) = rows(query), rows(f"{query} WHERE evaluation_id <> {found.evaluation}")
    archive(engine, found.evaluation)
    page = client.get("/sql", query_string={"q": query}).text
    assert "This answer leaves out the predictions of 1 archived evaluation;" in page
    assert "leaves out" not in client.get("/sql", query_string={"q": "SELECT model FROM leaderboard"}).text
    assert rows(query) == [hot]
    assert rows(query, archives=str(found.evaluation)) == [[total[0] - hot[0]]]
    answer = client.post("/sql", data={"csrf_token": csrf_of(client, "/sql"), "q": query, "archives": "2"})
    assert answer.status_code == 303
    assert 'value="2"' in client.get(answer.headers["Location"]).text
    link = (
        client.get(f"/evaluations/{found.evaluation}").text.split('you can <a rel="nofollow" href="')[1].split('"')[0]
    )
    answer = client.get(html.unescape(link))
    assert (answer.status_code, "from the archived answers of evaluation 2" in answer.text) == (200, True)
    assert client.get("/sql", query_string={"q": query, "archives": "x"}).status_code == 400
    assert client.get("/sql", query_string={"q": query, "archives": "1"}).status_code == 400
    add_account(engine, "reader", "reader")
    token = bearer(token_of(engine, "reader"))
    answer = client.post("/api/v1/sql", json={"query": query, "archives": [found.evaluation]}, headers=token)
    assert answer.get_json()["rows"] == [[total[0] - hot[0]]]
    member = signed_in(client.application, "reader")
    data = {"csrf_token": csrf_of(member, "/sql"), "q": query, "archives": "2", "name": "Archived", "public": "yes"}
    assert 'type="hidden" name="archives" value="2"' in member.get("/sql", query_string=data).text
    kept = str(member.post("/sql/saved", data=data).headers["Location"])
    page = client.get(kept).text
    assert 'id="archives" name="archives" value="2"' in page
    assert f'<td class="number">{total[0] - hot[0]}</td>' in page
    assert '<th scope="col" class="number">' in page, "a heading stands over its numbers"
    assert (
        client.get("/sql", query_string={"q": "SELECT model, accuracy FROM leaderboard WHERE 1 = 0"}).status_code == 200
    )
    assert f">{query}</textarea>" in page
    (listed,) = client.get("/api/v1/queries", headers=token).get_json()["items"]
    assert listed["query"] == f"-- archives: 2\n{query}"
    assert rows(listed["query"]) == [[total[0] - hot[0]]]
    assert rows(listed["query"].replace("2", "1, 2"), archives="2") == [[total[0] - hot[0]]], "what is beside it counts"
    data = {"query": "-- archives: 2\nCOPY (SELECT 1) TO 'mine'", "name": "bad"}
    assert client.post("/api/v1/queries", json=data, headers=token).status_code == 400
    for path in (settings.home / "archives").glob("*.parquet"):
        path.unlink()
    answer = client.get("/sql", query_string={"q": query, "archives": "2"})
    assert answer.status_code == 503
    assert "missing or damaged" in answer.text

"""The SQL page: access, visible rows, limits, and refusals."""

import csv
import html
import io
import json

import pyarrow.parquet as pq
import pytest
from flask import Flask
from sqlalchemy import Engine, select

from registry.db import get_engine, read_session
from registry.sql import NotReadyError, Queries
from registry.tables.accounts import Account, SavedQuery
from tests.sql.conftest import Asked, asked, postgresql_asked, sqlite_asked
from tests.support.commands import eventually
from tests.web.accounts import add_one_of_each_role, bearer, csrf_of, refusals, signed_in, token_of
from web import create_app

pytestmark = pytest.mark.long_on("postgresql")

__all__ = ["asked", "postgresql_asked", "sqlite_asked"]

BENCHMARKS = "SELECT DISTINCT benchmark FROM leaderboard ORDER BY benchmark"


@pytest.fixture
def engine(asked: Asked) -> Engine:
    """Return an engine with an account of each role."""
    engine = get_engine(asked.url)
    with read_session(engine) as session:
        account_id = session.scalar(select(Account.id).limit(1))
    if account_id is None:
        add_one_of_each_role(engine)
    return engine


@pytest.fixture
def app(asked: Asked, engine: Engine) -> Flask:
    return create_app(asked.settings)


def benchmarks(answer) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [row[0] for row in answer.get_json()["rows"]]


def test_nobody_asks_without_signing_in_where_that_is_set(asked: Asked, engine: Engine) -> None:
    app = create_app(asked.settings.model_copy(update={"anonymous_sql": False}))
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
    assert seen == ["club", "open", "secret"]


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
    answer = client.get("/sql.parquet", query_string={"q": "SELECT benchmark, scored FROM leaderboard"})
    assert pq.read_table(io.BytesIO(answer.data)).to_pydict() == {"benchmark": ["open"], "scored": [4]}


def test_a_query_too_long_for_an_address_is_answered_by_post(app: Flask) -> None:
    client = app.test_client()
    query = "SELECT benchmark FROM leaderboard WHERE model <> '" + "x" * 4000 + "'"
    answer = client.post("/sql", data={"csrf_token": csrf_of(client, "/sql"), "q": query})
    assert answer.status_code == 200
    assert "1 row<" in answer.text
    answer = client.post("/sql", data={"csrf_token": csrf_of(client, "/sql"), "q": "x" * 20_001})
    assert answer.status_code == 400
    assert "20,001 characters" in answer.text
    assert client.post("/sql", data={"q": query}).status_code == 400  # no CSRF token


def test_a_refusal_shows_its_line_and_similar_names_and_is_logged(app: Flask, engine: Engine) -> None:
    query = "SELECT modle, '<script>alert(1)</script>' FROM leaderboard"
    answer = app.test_client().get("/sql", query_string={"q": query})
    assert answer.status_code == 400
    assert "<script>alert" not in answer.text
    problem = html.unescape(answer.text.split('role="alert"')[1].split("</div>")[0])
    assert 'Referenced column "modle" not found in FROM clause; correct the query' in problem
    assert f"LINE 1: {query}" in problem
    assert "Candidate bindings:" in problem
    assert refusals(engine)[-1] == ("anonymous", "sql", query)


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
    assert ">club<" not in nobody.get(shared).text  # run again with the reader's rights
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


def test_the_page_states_its_time_and_what_is_missing(app: Flask) -> None:
    def read_page() -> str:
        return app.test_client().get("/sql", query_string={"q": "SELECT 1 AS one"}).text

    # A page does not wait until the files of all evaluations are written.
    eventually(lambda: "The views over questions and prompts have 1 sealed evaluation." in read_page(), "its files")
    page = read_page()
    assert "from data as of <time" in page
    assert "over public data" in page


def test_a_results_questions_are_links_and_an_empty_result_is_stated(app: Flask) -> None:
    client = app.test_client()
    page = client.get("/sql", query_string={"q": "SELECT question_id, variant FROM prediction_detail LIMIT 1"}).text
    link = page.split('<td class="number"><a href="')[1].split('"')[0]
    assert "Which is number" in client.get(link).text
    page = client.get("/sql", query_string={"q": "SELECT model FROM leaderboard WHERE accuracy > 2"}).text
    assert "Nothing meets all conditions of the query." in page
    page = client.get("/sql", query_string={"q": "SELECT model, NULL AS flips FROM leaderboard"}).text
    assert "NULL in every row: flips." in page


def test_a_result_is_drawn_as_its_address_says(app: Flask) -> None:
    client = app.test_client()
    query = {"q": "SELECT benchmark, accuracy, sealed_at FROM leaderboard"}
    for kind, x in (("bar", "benchmark"), ("line", "sealed_at"), ("point", "accuracy")):
        page = client.get("/sql", query_string=query | {"chart": kind, "x": x, "y": "accuracy"})
        assert page.status_code == 200
        specification = json.loads(page.text.split('<script type="application/json">')[1].split("</script>")[0])
        (values,) = specification["data"]["values"]
        assert values["y"] == pytest.approx(values["y"])
        assert f"accuracy by {x}, 1 rows of the result" in page.text
    twice = {"q": "SELECT benchmark, accuracy FROM leaderboard UNION ALL SELECT benchmark, 0.5 FROM leaderboard"}
    page = client.get("/sql", query_string=twice | {"chart": "bar", "x": "benchmark", "y": "accuracy"})
    specification = json.loads(page.text.split('<script type="application/json">')[1].split("</script>")[0])
    assert [row["x"] for row in specification["data"]["values"]] == ["open", "open (2)"]
    # Without a choice: fractions by the column that distinguishes the rows, and no ids.
    asked = "SELECT question_id, subject, external_id, expected, fluctuation_rate FROM question_metrics"
    page = client.get("/sql", query_string={"q": asked, "chart": "bar"})
    assert "Bars: fluctuation_rate by external_id, 4 rows of the result" in page.text
    data = {"csrf_token": csrf_of(client, "/sql"), "chart": "bar", "x": "benchmark", "y": ""}
    assert "chart=bar&x=benchmark" in client.post("/sql", data=query | data).headers["Location"]
    for wrong, message in (
        ({"chart": "pie"}, "is not a kind of chart"),
        ({"chart": "bar", "y": "benchmark"}, "has no numbers"),
        ({"chart": "bar", "x": "nothing"}, "has no column"),
    ):
        page = client.get("/sql", query_string=query | wrong)
        assert (page.status_code, message in page.text) == (200, True)


def test_files_that_are_being_written_are_not_blamed_on_the_database(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NotReadyError("the files that queries read are being written; try again in a moment")

    monkeypatch.setattr(Queries, "ask", refuse)
    answer = app.test_client().post("/api/v1/sql", json={"query": BENCHMARKS})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "3")
    assert answer.get_json()["detail"] == "the files that queries read are being written; try again in a moment"

"""The assessment protocol as a page: the command's numbers, refusals, and limits on the rows that a request reads."""

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import update

from registry.db import get_engine, read_session, write_session
from registry.metrics import METRICS
from registry.studies.assessment import assess
from registry.tables import BenchmarkVersion
from registry.verdicts.wording import tenths
from tests.assessment.conftest import postgresql_assessed, sqlite_assessed  # noqa: F401 - fixtures
from tests.assessment.outputs import BENCHMARKS, MODELS
from tests.web.test_browser import draw_charts, page, serve
from tests.web.test_browser_barriers import AXE, LOOKS, RUN
from tests.web.test_charts import cells, specifications
from tests.web.test_pages import count_statements
from web import charts, create_app
from web.pages import assessment

pytestmark = pytest.mark.one_engine

POINTS = len(MODELS) * len(BENCHMARKS)


@pytest.fixture(params=["sqlite", "postgresql"])
def assessed(request):
    """Return the registry of made-up models in all orders, on each engine in turn."""
    return request.getfixturevalue(f"{request.param}_assessed")


def client_of(engine):
    return create_app(database_url=engine.url.render_as_string(hide_password=False)).test_client()


@pytest.fixture
def client(assessed):
    return client_of(assessed)


@pytest.fixture
def own_client(sqlite_assessed, tmp_path):  # noqa: F811 - the fixture
    """Return a client and the engine of a registry that the test may change."""
    # The file is not copied, since the newest rows may still be in the write-ahead log.
    with closing(sqlite3.connect(sqlite_assessed.url.database)) as source:
        source.execute("VACUUM INTO ?", [str(tmp_path / "own.db")])
    engine = get_engine(f"sqlite:///{tmp_path / 'own.db'}")
    return client_of(engine), engine


def show(value):
    return "–" if value is None else f"{value:.3f}"


def numbers(row):
    """Return the numbers of a row's cells, with a dash for null."""
    return [cell.split()[0] for cell in row[1:]]


def test_the_numbers_are_those_of_the_command(assessed, client):
    response = client.get("/protocol?benchmark=four&benchmark=mixed&tolerance=0.05")
    assert response.status_code == 200, response.text
    text = response.text
    with read_session(assessed) as session:
        expected = assess(session, benchmarks=("four", "mixed"), tolerance=0.05)
    for target, label in assessment.TARGETS.items():
        rows = {row[0]: numbers(row) for row in cells(text, f"R² with {label}")}
        assert len(rows) == 11
        for cell in expected["correlations"]:
            place = [subset for subset in expected["subsets"] if subset != "full"].index(cell["subset"])
            assert rows[METRICS[cell["metric"]].label][place] == show(cell["r_squared"][target])
    stability = {row[0]: numbers(row) for row in cells(text, "Standard deviation of each metric")}
    for metric, value in expected["stability"]["more_options"]["pair"].items():
        of_tuples = expected["stability"]["more_options"]["L-tuple"][metric]
        assert stability[METRICS[metric].label] == [show(value), show(of_tuples)]
    printed = " ".join(text.split())
    for item in expected["recommendations"]:
        best = item["recommended"]
        assert (
            f"{METRICS[best['metric']].label.lower()} on {best['subset']}</b>, R² {show(best['r_squared'])}" in printed
        )
        assert all(caveat in text for caveat in item["caveats"])
    points = cells(text, "The evaluations behind the numbers")
    assert [int(row[-1]) for row in points] == [point["evaluation"] for point in expected["points"]]


def test_the_chart_and_its_table_hold_each_set_against_all_orders(assessed, client):
    text = client.get("/protocol?benchmark=four&model=good&model=lost").text
    with read_session(assessed) as session:
        points = assess(session, benchmarks=("four",), models=("good", "lost"))["points"]
    (specification,) = specifications(text)
    expected = {
        (subset, point["model"], point["fluctuation_rate"], point["values"][subset]["fluctuation_rate"])
        for point in points
        for subset in ("original-inverse", "cyclic", "random2", "randomL")
    }
    values = specification["data"]["values"]
    assert {(value["subset"], value["model"], value["full"], value["value"]) for value in values} == expected
    assert all(value["value"] <= value["full"] for value in values)
    for row, point in zip(cells(text, "Fluctuation rate of each evaluation"), points, strict=True):
        assert row[0] == point["model"]
        assert row[3] == f"{tenths(point['fluctuation_rate'])}%"
        assert row[5] == f"{tenths(point['values']['cyclic']['fluctuation_rate'])}%"
    # Two evaluations are too few to recommend anything.
    assert text.count("no recommendation. too few points: 2, at least 6 are needed") == 3


def test_the_scatter_plot_leaves_out_what_has_no_value():
    row = {"subset": "cyclic", "model": "m@1", "benchmark": "b@1", "protocol": "symbols:0", "full": 0.5, "value": 0.25}
    chart = charts.agreement([row, row | {"subset": "original", "value": None}], "Fluctuation rate")
    assert chart.spec["data"]["values"] == [row]
    assert chart.spec["layer"][1]["encoding"]["color"]["scale"]["domain"] == ["cyclic"]


def test_the_form_alone_computes_nothing_and_offers_what_there_is(assessed, client):
    with count_statements(assessed) as seen:
        text = client.get("/protocol").text
    assert not any("prediction." in statement for statement in seen)
    assert len(seen) <= 3
    assert f"{POINTS} evaluations" in text
    for key, names in (("model", MODELS), ("benchmark", BENCHMARKS)):
        assert text.count(f'name="{key}"') == len(names)
        assert all(f'name="{key}" value="{name}"' in text for name in names)
    assert "Recommendation" not in text


def test_what_was_chosen_stays_chosen_and_is_the_command(client):
    text = client.get("/protocol?benchmark=four&model=good@1&protocol=symbols:0&tolerance=0.03").text
    assert 'value="four" checked' in text
    assert 'value="good@1" checked' in text
    assert "<option selected>symbols:0</option>" in text
    assert "<option selected>0.03</option>" in text
    command = "shuffleboard statistics assess --benchmark four --model good@1 --protocol symbols:0 --tolerance 0.03"
    assert command in text
    assert len(cells(text, "The evaluations behind the numbers")) == 1


def test_wrong_values_are_refused_by_name(client):
    for query, status, named in (
        ("tolerance=2", 400, "tolerance 2.0"),
        ("tolerance=nan", 400, "tolerance nan"),
        ("tolerance=some", 400, "give a number from 0 to 1"),
        (f"model={'x' * 201}", 400, "up to 200 characters"),
        ("benchmark=nowhere", 404, "benchmark nowhere has no sealed evaluation"),
        ("benchmark=four&model=nobody", 404, "there are: fair@1"),
        ("model=unfinished", 404, "model unfinished"),
        ("protocol=cloze", 404, "protocol cloze"),
        ("protocol=<script>alert(1)</script>", 404, "&lt;script&gt;"),
    ):
        response = client.get(f"/protocol?{query}")
        assert response.status_code == status, query
        assert named in response.text
        assert "<script>alert" not in response.text


def test_a_choice_that_a_request_cannot_read_is_refused_with_the_command(own_client, monkeypatch):
    client, engine = own_client
    monkeypatch.setattr(assessment, "MOST_PREDICTIONS", 12 * 24)
    assert client.get("/protocol?benchmark=four&model=good").status_code == 200
    with count_statements(engine) as seen:
        response = client.get("/protocol?benchmark=four&model=good&model=lost")
    assert response.status_code == 400
    assert "2 evaluations with 576 predictions are too many" in response.text
    assert (
        "or run: shuffleboard statistics assess --benchmark four --model good --model lost --tolerance 0.02"
        in response.text
    )
    assert not any("prediction." in statement for statement in seen)
    # The form still opens, so that fewer can be chosen.
    assert "choose fewer benchmarks or models" in client.get("/protocol").text
    monkeypatch.setattr(assessment, "MOST_PREDICTIONS", 10**6)
    monkeypatch.setattr(assessment, "MOST_EVALUATIONS", 1)
    assert client.get("/protocol?benchmark=four&model=good&model=lost").status_code == 400


def test_queries_grow_with_evaluations_alone_and_are_cached(own_client):
    client, engine = own_client
    counts = []
    for query in ("model=good&benchmark=four", "model=good&benchmark=four&benchmark=two", "tolerance=0.02"):
        with count_statements(engine) as seen:
            assert client.get(f"/protocol?{query}").status_code == 200
        counts.append(len(seen))
    each = counts[1] - counts[0]
    assert each <= 4
    assert counts[2] == counts[0] + (POINTS - 1) * each
    with count_statements(engine) as seen:
        client.get("/protocol?tolerance=0.02")
    assert len(seen) <= 3


def test_a_hidden_benchmark_is_in_nothing(own_client):
    client, engine = own_client
    with write_session(engine) as session:
        hidden = update(BenchmarkVersion).where(BenchmarkVersion.benchmark.has(name="two"))
        session.execute(hidden.values(visibility="hidden"))
    text = client.get("/protocol?tolerance=0.02").text
    assert len(cells(text, "The evaluations behind the numbers")) == len(MODELS) * 2
    assert "two@" not in text
    response = client.get("/protocol?benchmark=two")
    assert response.status_code == 404
    assert "two@" not in response.text
    with write_session(engine) as session:
        session.execute(update(BenchmarkVersion).values(visibility="hidden"))
    text = client.get("/protocol").text
    assert "Nothing can be assessed yet" in text
    assert "not yet complete" not in text


def test_the_page_has_no_serious_barrier_and_fits_a_narrow_window(chromium, sqlite_assessed):  # noqa: F811
    with serve(client_of(sqlite_assessed).application) as base, page(chromium) as opened:
        opened.goto(f"{base}/protocol?benchmark=four&benchmark=two&tolerance=0.02")
        draw_charts(opened)
        opened.evaluate(AXE)
        for size, scheme in LOOKS:
            opened.set_viewport_size(size)
            opened.emulate_media(color_scheme=scheme)
            assert opened.evaluate(RUN) == []
            assert opened.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_where_nothing_can_be_assessed_the_page_says_what_is_missing(empty_client):
    response = empty_client.get("/protocol")
    assert response.status_code == 200
    assert "no sealed evaluation shows all orders" in response.text
    assert empty_client.get("/protocol?benchmark=four").status_code == 404

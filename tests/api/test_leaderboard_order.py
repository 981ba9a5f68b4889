"""The leaderboard's order and ranks from the database, compared with the oracle's over all rows of the view."""

import csv
import io
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from werkzeug.datastructures import MultiDict

from registry.db import get_engine, read_session, write_session
from registry.leaderboard.rows import Ordering, complete_rows, filter_choices, leaderboard_page
from registry.leaderboard.selection import Selection
from registry.queue.evaluations import EvaluationRequest, submit
from registry.tables import Evaluation, EvaluationMetric, Model
from tests.api import leaderboard_oracle as oracle
from tests.proof.commands import run
from tests.web.seed import add_benchmark, add_model, evaluate, first, mostly_right, right, seed
from web import create_app
from web.urls import links, parameters

pytestmark = pytest.mark.long_on("postgresql")

SORTS = ("worst_accuracy", "fluctuation_rate", "npsq_accuracy", "model", "benchmark", "sealed_at")
FILTERS = ({"benchmark": "capitals"}, {"model": "beta"}, {"q": "A", "variants": "cyclic"}, {"shots": "0"})
ASKED = [
    *({"sort": sort, "group": group} for sort in SORTS for group in ("yes", "no")),
    *({"sort": sort, "order": order} for sort in ("worst_accuracy", "variants") for order in ("asc", "desc")),
    *FILTERS,
]


def page_through(session, selection, ordering, size=5):
    """Return the database's ids and ranks, read page by page to beyond the end."""
    collected, offset, total = [], 0, 1
    while offset <= total:
        page = leaderboard_page(session, selection, ordering, limit=size, offset=offset)
        collected += [(row["evaluation_id"], row["rank"]) for row in page.rows]
        offset, total = offset + size, page.total
    assert len(collected) == total
    return collected


def vary(engine, folder):
    """Add more groups: parts of a benchmark, another set of variants, replicates, an evaluation that is only queued."""
    seed(engine, folder)
    evaluate(engine, "beta", "capitals", right, variants="full")
    evaluate(engine, "delta", "capitals", right, variants="full")
    evaluate(engine, "beta", "capitals", first, limit=3)
    evaluate(engine, "gamma", "capitals", right, limit=3)
    with write_session(engine) as session:
        add_model(session, "Late")
        lines = [{"id": "n", "subject": None, "question": "?", "options": ["a", "b"], "answer": 0}]
        add_benchmark(session, folder, "One", lines)
    evaluate(engine, "Late", "One", right)
    evaluate(engine, "alpha", "One", mostly_right)
    with write_session(engine) as session:
        again = EvaluationRequest(model="alpha", benchmark="capitals", variants="cyclic", new_replicate=True)
        submit(session, again)
        submit(session, EvaluationRequest(model="Late", benchmark="capitals", variants="cyclic"))
        cancelled = submit(session, EvaluationRequest(model="Late", benchmark="capitals", variants="full"))[0]
        cancelled.state = "cancelled"


@pytest.fixture
def varied(filled_databases, tmp_path):
    """Yield a seeded registry with the additional groups."""
    with filled_databases.copy(vary, tmp_path) as (url, _):
        yield get_engine(url)


def test_pages_are_cut_from_the_order_that_is_defined(varied):
    with read_session(varied) as session:
        rows = oracle.rows_of_the_view(session)
        for parameters_given in ASKED:
            selection = (
                links.read_filters(MultiDict(parameters_given)),
                links.read_ordering(MultiDict(parameters_given)),
            )
            expected = [(row["evaluation_id"], row["rank"]) for row in oracle.make(rows, *selection).rows]
            assert page_through(session, *selection) == expected, parameters_given


@pytest.mark.parametrize("named", [100, 0])
def test_rows_and_choices_are_those_of_the_view(varied, monkeypatch, named):
    """Check the limit on superseded evaluations that are listed one by one, above which the database compares them."""
    monkeypatch.setattr("registry.leaderboard.rows._MAX_LISTED", named)
    with read_session(varied) as session:
        of_the_view = oracle.rows_of_the_view(session)
        assert filter_choices(session) == {
            key: sorted({str(row[key]) for row in of_the_view})
            for key in ("benchmark", "variants", "protocol", "shots")
        }
        # The oracle finds equal conditions by itself.
        expected = {
            row["evaluation_id"]: {key: value for key, value in row.items() if key != "asked_digest"}
            for row in of_the_view
        }
        page = leaderboard_page(session)
        assert {row["evaluation_id"] for row in page.rows} == expected.keys()
        for row in page.rows:
            of_view = expected[row["evaluation_id"]]
            assert {key: row[key] for key in of_view} == of_view


def test_the_newest_definition_of_a_metric_stands(own, tmp_path):
    with write_session(own.engine) as session:
        add_model(session, "Twice")
        lines = [{"id": "n", "subject": None, "question": "?", "options": ["a", "b"], "answer": 0}]
        add_benchmark(session, tmp_path, "Defined", lines)
    evaluation_id = evaluate(own.engine, "Twice", "Defined", right)
    with write_session(own.engine) as session:
        # The newest is neither stored first nor last.
        for version, value in ((98, 0.25), (99, 0.125), (97, 0.5)):
            session.add(
                EvaluationMetric(
                    evaluation_id=evaluation_id,
                    scope="all",
                    metric="worst_accuracy",
                    definition_version=version,
                    value=value,
                    n=version,
                    interval_method="none",
                )
            )
            session.flush()
    with read_session(own.engine) as session:
        of_the_view = {row["evaluation_id"]: row for row in oracle.rows_of_the_view(session)}[evaluation_id]
        page = leaderboard_page(session)
        row = next(row for row in page.rows if row["evaluation_id"] == evaluation_id)
    assert row["worst_accuracy"] == of_the_view["worst_accuracy"] == 0.125
    assert row["counts"]["worst_accuracy"]["n"] == 99


def test_a_subject_has_its_own_numbers_and_ranks(site, seeded):
    with read_session(site.engine) as session:
        rows = leaderboard_page(session, Selection(subject="world")).rows
    by_model = {row["model"]: (row["worst_accuracy"], row["rank"]) for row in rows if row["complete"]}
    # Of the four questions on the world, beta and gamma answer the last two wrong; silent fails in Europe only.
    assert by_model == {
        "alpha": (1.0, 1),
        "silent": (1.0, 1),
        "beta": (0.5, 3),
        "gamma": (0.5, 3),
        "delta": (0.0, 5),
    }


@pytest.mark.parametrize("variants", ["cyclic", "full"])
def test_page_json_and_command_line_list_the_same_rows_in_order(varied, variants):
    options = ("--benchmark", "capitals", "--variants", variants)
    printed = run(varied, "leaderboard", *options, "--json").document["rows"]
    query = f"benchmark=capitals&variants={variants}"
    client = create_app(database_url=varied.url.render_as_string(hide_password=False)).test_client()
    answered = client.get(f"/api/v1/leaderboard?{query}").json["rows"]
    for row in (*printed, *answered):
        row.pop("progress", None)
        row["sealed_at"] = row["sealed_at"] and datetime.fromisoformat(row["sealed_at"])
    assert printed == answered
    table = csv.DictReader(io.StringIO(client.get(f"/leaderboard.csv?{query}").text))
    assert [(str(row["evaluation_id"]), str(row["rank"] or "")) for row in answered] == [
        (row["evaluation_id"], row["rank"]) for row in table
    ]


def test_filters_narrow_down(site, seeded):
    ordering = Ordering()
    with read_session(site.engine) as session:
        sealed = session.get_one(Evaluation, seeded.evaluations["gamma"]).sealed_at

        def models(**given):
            selection = Selection(benchmark="capitals", **given)
            return [row["model"] for row in complete_rows(session, selection, ordering, limit=None, offset=0)[0]]

        assert models(family="toy", kind="huggingface") == ["alpha", "silent", "beta", "gamma", "delta"]
        assert models(family="other") == []
        assert models(kind="gguf") == []
        assert len(models(min_parameters=135_000_000, max_parameters=135_000_000)) == 5
        assert models(min_parameters=135_000_001) == []
        assert models(max_parameters=134_999_999) == []
        assert models(sealed_from=sealed) == ["silent", "gamma", "delta"]
        assert models(sealed_to=sealed) == ["alpha", "beta", "gamma"]
        assert models(sealed_from=sealed, sealed_to=sealed) == ["gamma"]
        assert models(sealed_from=sealed + timedelta(days=1)) == []


def test_models_are_kept_by_release_and_by_openness(own):
    facts = {"alpha": (" Proprietary ", "2024-05-01"), "beta": ("MIT", "2024-05-02"), "gamma": (None, None)}
    with write_session(own.engine) as session:
        for name, (licence, released) in facts.items():
            model = session.scalars(select(Model).filter_by(name=name)).one()
            model.licence, model.released = licence, released
    with read_session(own.engine) as session:

        def models(**given):
            given = MultiDict({"benchmark": "capitals", "variants": "cyclic"} | given)
            selection = Selection(**parameters.filters(given))
            return {row["model"] for row in complete_rows(session, selection, Ordering(), limit=None, offset=0)[0]}

        assert models(openness="closed") == {"alpha"}
        assert models(openness="open") == {"silent", "beta", "gamma", "delta"}
        assert models(released_to="2024-05-01") == {"alpha"}
        assert models(released_from="2024-05-02", released_to="2024-05-02") == {"beta"}
        assert models(released_from="0300-01-01") == {"alpha", "beta"}

import json

import pytest
from sqlalchemy import text, update

from registry.db import database_now, read_session, write_session
from registry.metrics import METRICS
from registry.metrics.catalogue import ALL_NAMES, SHOWN
from registry.tables import Worker
from tests.web.seed import SECRET

pytestmark = pytest.mark.long_on("postgresql")

ADDRESSES = (
    "/api/v1/leaderboard",
    "/api/v1/evaluations",
    "/api/v1/evaluations/{alpha}",
    "/api/v1/evaluations/{slow}",
    "/api/v1/evaluations/{slow}/progress",
    "/api/v1/evaluations/{beta}/questions",
    "/api/v1/evaluations/{beta}/questions/{q7}",
    "/api/v1/models",
    "/api/v1/models/alpha",
    "/api/v1/benchmarks",
    "/api/v1/benchmarks/capitals",
    "/api/v1/queue",
)


def address(pattern, seeded):
    return pattern.format(**seeded.evaluations, **seeded.questions)


def view(engine, query, **parameters):
    with read_session(engine) as session:
        return [dict(row) for row in session.execute(text(query), parameters).mappings()]


@pytest.mark.parametrize("pattern", ADDRESSES)
def test_every_address_answers_strict_json_without_hidden_texts(client, seeded, pattern):
    response = client.get(address(pattern, seeded))
    assert response.status_code == 200
    assert response.content_type == "application/json"
    json.loads(response.text, parse_constant=pytest.fail)
    assert SECRET not in response.text
    assert "secret" not in response.text
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]


def test_leaderboard_rows_carry_rank_and_counts(client, seeded):
    assert client.get("/api/v1/leaderboard?benchmark=capitals").json["ranked_by"] == "right_twice_across_orders"
    document = client.get("/api/v1/leaderboard?benchmark=capitals&sort=worst_accuracy").json
    assert document["ranked_by"] == "worst_accuracy"
    assert [(row["model"], row["rank"]) for row in document["rows"]] == [
        ("alpha", 1),
        ("silent", 2),
        ("beta", 3),
        ("gamma", 3),
        ("delta", 5),
        ("slow", None),
    ]
    first, last = document["rows"][0], document["rows"][-1]
    assert first["n"]["worst_accuracy"] == 8
    assert first["progress"] is None
    assert last["complete"] is False
    assert last["worst_accuracy"] is None
    assert last["progress"]["prompts_done"] == 16


def test_an_evaluation_has_every_metric_name_and_the_scopes_of_the_view(engine, client, seeded):
    evaluation = seeded.evaluations["beta"]
    document = client.get(f"/api/v1/evaluations/{evaluation}?papers=yes").json
    assert document["metrics"].keys() == set(ALL_NAMES)
    assert client.get(f"/api/v1/evaluations/{evaluation}").json["metrics"].keys() == set(SHOWN)
    assert document["metrics"]["average_accuracy"] == pytest.approx(0.8125)
    stored = view(
        engine,
        "SELECT scope, metric, value, n FROM evaluation_metrics WHERE evaluation_id = :evaluation",
        evaluation=evaluation,
    )
    shown = [{key: item[key] for key in ("scope", "metric", "value", "n")} for item in document["scopes"]]
    order = lambda item: (item["scope"], item["metric"])  # noqa: E731
    assert sorted(shown, key=order) == sorted(stored, key=order)
    assert {item["metric"] for item in shown} == set(METRICS)


def test_an_unsealed_evaluation_gives_its_metrics_so_far(client, seeded):
    document = client.get(f"/api/v1/evaluations/{seeded.evaluations['slow']}").json
    assert document["complete"] is False
    assert document["metrics"]["worst_accuracy"] == 1
    of_all = {item["metric"]: item for item in document["scopes"] if item["scope"] == "all"}
    assert of_all["worst_accuracy"]["n"] == 4
    assert (of_all["npsq_accuracy"]["value"], of_all["npsq_accuracy"]["n"]) == (None, 0)
    assert document["progress"]["shards_done"] == 1


def test_questions_that_are_not_scored_yet_are_listed_as_such(client, seeded):
    evaluation = seeded.evaluations["slow"]
    document = client.get(f"/api/v1/evaluations/{evaluation}/questions?only=unscored").json
    assert document["total"] == 4
    assert {item["stored"] for item in document["items"]} == {0}


def test_questions_are_those_of_the_view(engine, client, seeded):
    evaluation = seeded.evaluations["beta"]
    items = client.get(f"/api/v1/evaluations/{evaluation}/questions").json["items"]
    rows = view(
        engine,
        "SELECT * FROM question_metrics WHERE evaluation_id = :evaluation ORDER BY question_id",
        evaluation=evaluation,
    )
    assert len(items) == len(rows) == 8
    for item, row in zip(items, rows, strict=True):
        for column in item.keys() & row.keys():
            assert item[column] == row[column], column


def test_predictions_are_given_by_position(client, seeded):
    path = f"/api/v1/evaluations/{seeded.evaluations['delta']}/questions/{seeded.questions['q7']}"
    predictions = client.get(path).json["predictions"]
    assert [row["shown"] for row in predictions] == [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
    assert [row["chosen_option"] for row in predictions] == [0, 1, 2, 3]
    assert [row["correct"] for row in predictions] == [False, False, True, False]
    assert sum(predictions[0]["label_probabilities"]) == pytest.approx(1)
    assert len(predictions[0]["prompt_digest"]) == 64


def test_the_queue_holds_what_is_unfinished_and_who_works(client, seeded, engine):
    with write_session(engine) as session:  # the site may have been seeded long ago
        session.execute(update(Worker).where(Worker.host == "bench").values(last_seen=database_now()))
    document = client.get("/api/v1/queue").json
    assert [item["model"] for item in document["items"]] == ["slow"]
    assert document["items"][0]["progress"]["prompts"] == 32
    assert [worker["host"] for worker in document["workers"]] == ["bench"]

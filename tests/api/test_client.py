"""The client of the API, with a server on a real socket."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from werkzeug.serving import make_server
from werkzeug.utils import redirect
from werkzeug.wrappers import Request, Response

from registry.boards.wanted import Wanted
from registry.db import read_session, write_session
from registry.errors import NotFoundError, RemoteError, UsageError
from registry.leaderboard.reports import evaluation_metrics
from registry.metrics.catalogue import SHOWN
from registry.people.accounts import create_account, issue_token
from shuffleboard import Client, client
from tests.web.conftest import Site
from web.api import bodies, writing
from web.urls import parameters


@contextmanager
def listening(application: Any) -> Iterator[str]:
    """Yield the address of a server that runs an application."""
    server = make_server("127.0.0.1", 0, application, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def address(sqlite_registry: Site) -> Iterator[str]:
    """Yield the registry's address."""
    with listening(sqlite_registry.client.application) as where:
        yield where


@pytest.fixture(scope="module")
def token(sqlite_registry: Site) -> str:
    """Return a token of an account that may read."""
    with write_session(sqlite_registry.engine) as session:
        return issue_token(session, create_account(session, "reader-by-token", "reader"), "client", ["read"])[1]


@pytest.fixture
def remote(address: str, token: str) -> Client:
    return Client(address + "/", token=token)


def test_the_leaderboard_is_filtered_and_sorted_there(remote):
    rows = remote.leaderboard(benchmark="capitals", variants="cyclic")
    assert [(row["model"], row["rank"]) for row in rows] == [
        ("alpha", 1),
        ("silent", 2),
        ("beta", 3),
        ("gamma", 3),
        ("delta", 5),
        ("slow", None),
    ]
    last_first = remote.leaderboard(benchmark="capitals", sort="model", order="desc")
    assert last_first[0]["model"] == "silent"
    assert remote.leaderboard(sealed_to=datetime(2020, 1, 1, tzinfo=UTC)) == []


def test_evaluations_are_listed_and_shown(remote, sqlite_registry):
    seeded = sqlite_registry.seeded
    listed = [row["evaluation_id"] for row in remote.evaluations(benchmark="capitals", state="complete")]
    assert listed == sorted(
        (seeded.evaluations[name] for name in ("alpha", "beta", "gamma", "delta", "silent")), reverse=True
    )
    shown = remote.evaluation(seeded.evaluations["beta"])
    assert shown["metrics"]["average_accuracy"] == pytest.approx(0.8125)
    assert remote.provenance(seeded.evaluations["beta"]) == shown["provenance"]


def test_two_evaluations_are_compared(remote, sqlite_registry):
    ids = sqlite_registry.seeded.evaluations
    comparison = remote.compare(ids["alpha"], ids["beta"])
    assert (comparison["relation"], comparison["questions"]) == ("another model", 8)
    assert comparison["metrics"]["accuracy"]["difference"] == pytest.approx(
        comparison["metrics"]["accuracy"]["first"] - comparison["metrics"]["accuracy"]["second"]
    )
    with pytest.raises(UsageError, match="compared with itself"):
        remote.compare(ids["alpha"], ids["alpha"])


@pytest.mark.parametrize("name", ["beta", "slow"])
def test_metrics_are_those_of_the_command_line(remote, sqlite_registry, name):
    evaluation_id = sqlite_registry.seeded.evaluations[name]
    with read_session(sqlite_registry.engine) as session:
        expected = evaluation_metrics(session, evaluation_id, per_question=True)
    document = remote.metrics(evaluation_id, per_question=True)
    assert document.keys() == {*expected, "noise", "clustered"}
    assert document["per_question"].keys() == expected["per_question"].keys()
    for external_id, values in expected["per_question"].items():
        assert document["per_question"][external_id] == pytest.approx(values, nan_ok=False), external_id
    assert {key: document[key] for key in ("evaluation", "questions", "scored", "complete")} == {
        key: expected[key] for key in ("evaluation", "questions", "scored", "complete")
    }
    assert document["metrics"].keys() == set(SHOWN)
    assert document["metrics"] == pytest.approx(expected["metrics"])
    assert "per_question" not in remote.metrics(evaluation_id)


def test_predictions_come_page_by_page_and_none_is_left_out(remote, sqlite_registry, monkeypatch):
    requests = []
    plain = Client._open
    monkeypatch.setattr(Client, "_open", lambda self, where: requests.append(where) or plain(self, where))
    predictions = remote.predictions(sqlite_registry.seeded.evaluations["beta"], per_page=5)
    keys = [(row["question_id"], row["variant"]) for row in predictions]
    assert keys == sorted(keys)
    assert len(set(keys)) == 32
    assert len(requests) == 7


def test_boards_are_listed_and_shown_as_they_stand_or_stood(remote):
    assert [item["board"] for item in remote.boards()] == ["main"]
    board = remote.board("main")
    assert [row["model"] for row in board["rows"]][:2] == ["alpha", "silent"]
    assert remote.board("main", as_of=board["as_of"])["digest"] == board["digest"]
    with pytest.raises(NotFoundError, match="did not exist at that time"):
        remote.board("main", as_of="1999-01-01")


def test_models_and_benchmarks_are_listed(remote):
    assert {item["model"] for item in remote.models()} >= {"alpha", "slow"}
    assert {item["benchmark"] for item in remote.benchmarks()} == {"capitals", "hostile"}


def test_problems_are_errors_in_the_words_of_the_registry(remote):
    with pytest.raises(NotFoundError, match="no evaluation 4711; "):
        remote.evaluation(4711)
    with pytest.raises(UsageError, match="sort='nonsense': use one of"):
        remote.leaderboard(sort="nonsense")
    with pytest.raises(UsageError, match="use up to 200 letters"):
        remote.board("a b")


def test_a_server_that_is_none_is_said_to_be(address):
    with pytest.raises(RemoteError, match="does not answer"):
        Client("http://127.0.0.1:1", timeout_s=5).boards()
    with pytest.raises(RemoteError, match="check that it is a registry"):
        Client(address + "/metrics-guide").boards()
    for wrong in ("shuffleboard.example.org", "file:///etc/passwd", "https://", "http://host/?x=1"):
        with pytest.raises(UsageError, match="not a valid registry URL"):
            Client(wrong)


def test_a_redirection_to_another_host_does_not_carry_the_token():
    seen = []

    @Request.application
    def elsewhere(request):
        seen.append(request.headers.get("Authorization"))
        return Response('{"items": []}', content_type="application/json")

    @Request.application
    def move(request):
        seen.append(request.headers["Authorization"])
        return redirect(f"{target}{request.path}", 307)

    with listening(elsewhere) as target, listening(move) as source:
        assert Client(source, token="shb_x").boards() == []
    assert seen == ["Bearer shb_x", None]


def test_what_it_can_ask_for_is_what_the_routes_read():
    for keys, model, more in [
        (client.Filters, parameters.Filters, set()),
        (client.Asked, Wanted, {"model"}),
        (client.ModelToSubmit, bodies.SubmissionBody, {"suite"}),
        (client.ModelFacts, bodies.ModelBody, {"name", "kind"}),
        (client.BenchmarkFacts, writing.BenchmarkQuery, {"name"}),
        (client.OutputFacts, writing.OutputsQuery, {"model", "benchmark", "variants"}),
    ]:
        assert keys.__annotations__.keys() | more == model.model_fields.keys(), keys


def test_importing_it_takes_none_of_the_servers_libraries():
    heavy = {"pydantic", "flask", "sqlalchemy", "numpy", "pandas"}
    code = f"import sys; from shuffleboard import Client; print(sorted({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_page_elsewhere_is_not_followed(remote, monkeypatch):
    monkeypatch.setattr(Client, "_get", lambda *_: {"items": [], "next": "http://elsewhere.invalid/api/v1/x"})
    with pytest.raises(RemoteError, match="redirects to another server"):
        list(remote.evaluations())


def test_rows_and_metrics_become_data_frames(remote, sqlite_registry):
    rows = remote.leaderboard(benchmark="capitals", variants="cyclic")
    assert rows.frame()["model"].tolist() == [row["model"] for row in rows]
    evaluation_id = sqlite_registry.seeded.evaluations["beta"]
    predictions = remote.predictions(evaluation_id, per_page=5)
    first = next(predictions)
    left = predictions.frame()
    assert len(left) == 31
    assert set(left.columns) == set(first)
    assert list(remote.models().frame()["model"]) == [row["model"] for row in remote.models()]
    assert remote.evaluations(state="failed").frame().empty


def test_metrics_become_a_frame_by_name_or_by_question(remote, sqlite_registry):
    document = remote.metrics(sqlite_registry.seeded.evaluations["beta"], per_question=True)
    by_question = document.frame()
    assert list(by_question.index) == list(document["per_question"])
    name = next(iter(document["per_question"]))
    assert by_question.loc[name, "average_accuracy"] == document["per_question"][name]["average_accuracy"]
    del document["per_question"]
    by_name = document.frame()["value"]
    assert by_name["average_accuracy"] == document["metrics"]["average_accuracy"]
    assert by_name.isna().sum() == sum(value is None for value in document["metrics"].values())

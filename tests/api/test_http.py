"""The API's behaviour apart from its documents: caching, paging, methods, problems."""

import re

import pytest

from registry.digests import DIGEST_LENGTH
from web.api import OPERATIONS

pytestmark = pytest.mark.one_engine

READS = [item for item in OPERATIONS if item.method == "GET" and item.scope == "read"]
"""Operations that anyone may read."""


def addresses(client, seeded):
    """Return operation → the address of an existing object."""
    digest = client.get("/api/v1/boards/main").json["digest"]
    values = {
        "evaluation_id": seeded.evaluations["beta"],
        "other_id": seeded.evaluations["gamma"],
        "question_id": seeded.questions["q7"],
        "model": "beta",
        "benchmark": "capitals",
        "board": "main",
        "suite": "orders",
        "digest": digest,
    }
    paths = {
        operation.name: "/api/v1" + re.sub(r"<(\w+)>", lambda match: str(values[match[1]]), operation.rule)
        for operation in READS
    }
    paths["compare"] += f"?a={values['evaluation_id']}&b={values['other_id']}"
    return paths


def test_documents_hold_what_their_types_say_and_nothing_else(client, seeded):
    at = addresses(client, seeded)
    for operation in READS:
        document = client.get(at[operation.name]).json
        stated = operation.answers.model_validate(document, strict=True)
        assert stated.model_dump(exclude_unset=True) == document, operation.name


def test_a_client_that_has_it_already_is_told_so(client, seeded):
    for name, path in addresses(client, seeded).items():
        first = client.get(path)
        again = client.get(path, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.data) == (304, b""), name
        assert again.headers["ETag"] == first.headers["ETag"]
        assert client.get(path, headers={"If-None-Match": '"another"'}).data == first.data


@pytest.mark.parametrize(
    ("path", "sealed"),
    [
        ("/evaluations/{beta}/predictions", True),
        ("/evaluations/{beta}/questions", True),
        # A later response may have more: that the evaluation was withdrawn, or copied from.
        ("/evaluations/{beta}/provenance", False),
        ("/evaluations/{slow}/predictions", False),
        ("/evaluations/{slow}/provenance", False),
        ("/evaluations/{beta}", False),
        ("/leaderboard", False),
    ],
)
def test_what_a_seal_covers_may_be_kept(client, seeded, path, sealed):
    response = client.get("/api/v1" + path.format(**seeded.evaluations))
    assert response.headers["Cache-Control"] in (
        ["max-age=86400, immutable"] if sealed else ["no-cache", "public, no-cache"]
    )


def test_what_is_only_read_answers_no_other_method(client, seeded):
    written = {operation.rule for operation in OPERATIONS if operation.method != "GET"}
    at = addresses(client, seeded)
    for name, path in {item.name: at[item.name] for item in READS if item.rule not in written}.items():
        response, head = client.get(path), client.head(path)
        assert (head.status_code, head.data) == (200, b""), name
        assert head.headers["ETag"] == response.headers["ETag"]
        assert head.content_length == response.content_length
        assert set(client.options(path).headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS"}
        refused = client.post(path, json={})
        assert refused.status_code == 405
        assert refused.content_type == "application/problem+json"
        assert set(refused.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS"}


def test_misspelt_parameters_are_refused_and_the_known_ones_named(client, seeded):
    at = addresses(client, seeded)
    for operation in READS:
        address = at[operation.name]
        response = client.get(f"{address}{'&' if '?' in address else '?'}limt=1")
        assert response.status_code == 400, operation.name
        assert response.json["detail"] == (
            f"unknown parameter 'limt'; known: {', '.join(operation.query.model_fields) or 'none'}"
        )


def test_a_problem_has_the_members_of_rfc_9457(client):
    problem = client.get("/api/v1/evaluations/4711").json
    assert problem == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "no evaluation 4711; /queue and /api/v1/evaluations list the existing ones",
        "instance": "/api/v1/evaluations/4711",
    }


def test_lists_have_links_to_the_pages_around(client):
    response = client.get("/api/v1/evaluations?state=complete&per_page=2&page=2")
    listed = re.findall(r'<([^>]+)>; rel="(\w+)"', response.headers["Link"])
    links = {relation: address for address, relation in listed}
    pages = {relation: re.search(r"[?&]page=(\d+)", address)[1] for relation, address in links.items()}
    assert pages == {"first": "1", "prev": "1", "next": "3", "last": "3"}
    assert all("state=complete" in address for address in links.values())
    assert client.get(links["next"]).json["page"] == 3
    beyond = client.get("/api/v1/evaluations?per_page=2&page=99")
    assert beyond.json["items"] == []
    assert beyond.json["next"] is None


def test_repeated_parameters_stay_in_the_address_of_the_next_page(client):
    following = client.get("/api/v1/leaderboard?metrics=cora&metrics=accuracy&per_page=1").json["next"]
    assert following.count("metrics=") == 2


def test_pages_of_predictions_begin_where_the_last_ended(client, seeded):
    path = f"/api/v1/evaluations/{seeded.evaluations['beta']}/predictions"
    complete = client.get(path).json
    assert (len(complete["items"]), complete["next"], complete["next_cursor"]) == (32, None, None)
    first = client.get(f"{path}?limit=31")
    assert first.json["items"] == complete["items"][:31]
    assert first.headers["Link"] == f'<{first.json["next"]}>; rel="next"'
    assert client.get(first.json["next"]).json["items"] == complete["items"][31:]
    exact = client.get(f"{path}?limit=32").json
    assert exact["next"] is None


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("leaderboard?shots=x", "shots='x': give a whole number from 0 to 1000"),
        ("leaderboard?min_parameters=-1", "min_parameters='-1': give a whole number from 0"),
        ("leaderboard?metrics=cora&metrics=luck,score", "metrics='luck': use one of accuracy, "),
        ("leaderboard?kind=onnx", "kind='onnx': use one of huggingface, gguf"),
        ("leaderboard?sealed_from=yesterday", "sealed_from='yesterday': give a date or time such as"),
        ("evaluations/1/predictions?cursor=7", "cursor='7': give next_cursor of the page before"),
        ("evaluations/1/predictions?cursor=1.99999", "cursor='1.99999': give next_cursor"),
        ("evaluations/1/predictions?limit=0", "limit='0': give a whole number from 1 to 1000"),
        ("published-results?per_page=1001", "per_page='1001': give a whole number from 1 to 1000"),
        (f"snapshots/{'g' * DIGEST_LENGTH}", "give its digest, 64 hexadecimal digits"),
    ],
)
def test_problems_name_parameter_value_and_remedy(client, query, detail):
    response = client.get(f"/api/v1/{query}")
    assert response.status_code == 400
    assert detail in response.json["detail"]


def test_evaluations_are_narrowed_down_like_the_leaderboard(client, seeded):
    document = client.get("/api/v1/evaluations?benchmark=capitals&variants=cyclic&family=toy&state=complete").json
    assert {item["model"] for item in document["items"]} == {"alpha", "beta", "gamma", "delta", "silent"}
    assert client.get("/api/v1/evaluations?subject=world").json["total"] == 6
    assert client.get("/api/v1/evaluations?protocol=cloze").json["total"] == 0


def test_printed_results_are_filtered_and_never_missing(client):
    document = client.get("/api/v1/published-results?paper=cavalin&metric=cora&per_page=5").json
    assert {item["paper"] for item in document["items"]} == {"Cavalin et al."}
    assert document["total"] > 5
    assert client.get("/api/v1/published-results?paper=nobody").json["total"] == 0


def test_a_question_has_its_outcome_in_every_evaluation(client, seeded):
    document = client.get(f"/api/v1/questions/{seeded.questions['q7']}").json
    assert document["question"]["options"][document["question"]["answer"]] == "Tokyo"
    right = {item["model"]: item["outcome"]["correct"] for item in document["items"]}
    assert right == {"alpha": 4, "beta": 1, "gamma": 1, "delta": 1, "silent": 4, "slow": 0}

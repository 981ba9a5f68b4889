"""Replays on the website: the form, both pages, the comparison, the API."""

import pytest
from flask import Flask
from sqlalchemy import select

from registry.db import read_session
from registry.settings import Settings
from registry.tables.accounts import AuditEvent
from tests.outputs.conftest import Registry, registries, registry
from tests.proof.replays import lines_of, record, replayed, rotations, version
from tests.web.accounts import add_account, add_maintainer, add_one_of_each_role, bearer, csrf_of, signed_in, token_of
from web import create_app

__all__ = ["registries", "registry"]

KEYS = [number % 4 for number in range(8)]
CORRECTED = [1, *KEYS[1:]]


@pytest.fixture
def source(registry: Registry) -> int:
    """Return an evaluation that is all right by the first version; b@2 has another right option for q0."""
    version(registry, "1", lines_of(KEYS))
    version(registry, "2", lines_of(CORRECTED))
    texts = [
        line | {"text": f"Answer: {'ABCD'[line['position']]}"}
        for number, key in enumerate(KEYS)
        for line in rotations(number, [key] * 4)
    ]
    return record(registry, texts, protocol="select-letter")


@pytest.fixture
def app(registry: Registry, tmp_path) -> Flask:
    """Return the website of the registry."""
    return create_app(Settings(home=tmp_path, rate_limits=False), database_url=registry.url)


@pytest.mark.long_on("postgresql")
def test_the_form_leads_to_the_replay_and_both_pages_link(registry, source, app):
    add_account(registry.engine, "keeper", "maintainer")
    browser = signed_in(app, "keeper")
    page = browser.get(f"/evaluations/{source}").text
    assert "<option>b@2</option>" in page
    assert "<option>final-answer</option>" in page
    assert "match-dash</option>" not in page
    form = {"csrf_token": csrf_of(browser, f"/evaluations/{source}"), "benchmark": "b@2", "protocol": ""}
    answered = browser.post(f"/evaluations/{source}/replay", data=form)
    assert answered.status_code == 303, answered.text
    replay = int(answered.headers["Location"].rsplit("/", 1)[1])
    anyone = app.test_client()
    shown = anyone.get(f"/evaluations/{replay}").text
    assert f'made from the stored answers of <a href="/evaluations/{source}">' in shown
    assert "Make the replay" not in shown
    assert f'Replays of its answers: <a href="/evaluations/{replay}">' in anyone.get(f"/evaluations/{source}").text
    # If the form is submitted again without a difference, it reports that.
    refused = browser.post(f"/evaluations/{source}/replay", data=form | {"benchmark": ""})
    assert refused.status_code == 400
    assert "nothing would differ" in refused.text
    with read_session(registry.engine) as session:
        events = session.scalars(select(AuditEvent).filter_by(action="evaluation.replay")).all()
        assert [(event.actor, event.target) for event in events] == [("keeper", str(source))]


def test_a_comparison_across_versions_lists_the_changed_question(registry, source, app):
    replay = replayed(registry, source, benchmark="b@2")
    page = app.test_client().get(f"/compare?left={source}&right={replay}").text
    assert "4 of 32 answers are right in only one of the two: 4 because of the key (100.0\u202f%)." in page
    assert "different versions of the benchmark: 1 and 2" in page
    assert "asked in different ways" not in page
    assert page.count('<th scope="row" role="rowheader"><a href="/questions/') == 1
    document = app.test_client().get(f"/api/v1/compare?a={source}&b={replay}").get_json()
    assert document["causes"]["shares"] == {"model": 0, "reading": 0, "key": 1}


@pytest.mark.long_on("postgresql")
def test_the_api_replays_for_maintainers_alone(registry, source, app):
    add_one_of_each_role(registry.engine)
    client, address = app.test_client(), f"/api/v1/evaluations/{source}/replay"
    submitter = bearer(token_of(registry.engine, "submitter"))
    assert client.post(address, json={"benchmark": "b@2"}, headers=submitter).status_code == 403
    headers = bearer(token_of(registry.engine, "maintainer"))
    response = client.post(address, json={"benchmark": "b@2", "protocol": "final-answer"}, headers=headers)
    assert response.status_code == 201, response.text
    assert response.get_json() == {"evaluation": source + 1, "source": source}
    again = client.post(address, json={"benchmark": "b@2", "protocol": "final-answer"}, headers=headers)
    assert (again.status_code, again.get_json()) == (200, response.get_json())
    shown = client.get(f"/api/v1/evaluations/{source + 1}").get_json()
    assert shown["provenance"]["replayed_from"] == source
    rows = client.get("/api/v1/leaderboard").get_json()["rows"]
    assert {row["evaluation_id"]: row["replayed_from"] for row in rows} == {source: None, source + 1: source}
    for body, status, message in (
        ({"protocol": "match-dash"}, 400, f"shuffleboard evaluations replay {source} --protocol match-dash"),
        ({"protocol": "symbols"}, 400, "symbols scores options"),
        ({"benchmark": "b@9"}, 404, "has no version"),
        ({"benchmarks": "b@2"}, 422, "benchmarks"),
        ({}, 400, "nothing would differ"),
    ):
        refused = client.post(address, json=body, headers=headers)
        assert (refused.status_code, message in refused.text) == (status, True), refused.text


@pytest.mark.one_engine
def test_a_maintainer_without_the_scope_is_refused(registry, source, app):
    add_maintainer(registry.engine)
    read_only = bearer(token_of(registry.engine, "maintainer", ["read"]))
    address = f"/api/v1/evaluations/{source}/replay"
    assert app.test_client().post(address, json={"benchmark": "b@2"}, headers=read_only).status_code == 403

"""Provenance, differences, the chain and withdrawals: on pages, as JSON and on the command line."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, update

from registry import formats
from registry.db import read_session, write_session
from registry.errors import UsageError
from registry.prompting.prompts import Prompt
from registry.queue.claims import Claim, ShardResult
from registry.queue.evaluations import EvaluationRequest, submit
from registry.schema.audiences import dispose
from registry.sealed.provenance import compare_provenance, provenance_document
from registry.sealed.withdrawals import supersede, withdraw
from registry.tables import BenchmarkVersion, Evaluation
from tests.proof.commands import run
from tests.proof.population import Population, score, submit_and_score
from tests.support.fake_scorer import FakeScorer
from web import create_app

pytestmark = pytest.mark.one_engine

Registry = tuple[Engine, Population]


class Shifted(FakeScorer):
    """A scorer with the numbers of another device, which swaps the labels of some prompts."""

    def logprobs(self, prompt: Prompt) -> list[float]:
        values = super().logprobs(prompt)
        return values[::-1] if int(prompt.digest[0], 16) < 6 else [value - 1e-7 * values[0] for value in values]


class Renamed(FakeScorer):
    """A scorer whose server named another model while each shard was scored."""

    def score(self, engine: Engine, claim: Claim, should_stop: Callable[[], bool]) -> ShardResult:
        scores = super().score(engine, claim, should_stop)
        changed = {"served_model": "one, two", "served_model_changed": True}
        return replace(scores, fingerprint=scores.fingerprint | changed)


@pytest.fixture
def site(proof: Registry) -> Iterator[tuple[Engine, Population, FlaskClient]]:
    engine, population = proof
    yield engine, population, create_app(database_url=engine.url.render_as_string(hide_password=False)).test_client()
    dispose(engine)


Site = tuple[Engine, Population, FlaskClient]


def page(client: FlaskClient, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, response.text
    return response.text


def again(engine: Engine, scorer: FakeScorer | None = None, **how: str) -> int:
    """Score another replicate of the cyclic evaluation; return its id."""
    return submit_and_score(engine, "cyclic", new_replicate=True, scorer=scorer or FakeScorer(), **how)


def test_provenance_leads_down_to_prompts_seeds_tokens_copies_and_the_chain(site: Site) -> None:
    engine, population, client = site
    with read_session(engine) as session:
        document = provenance_document(session, population.evaluation)
        evaluation = session.get_one(Evaluation, population.evaluation)
    assert document["prompts"]["count"] == evaluation.prompts == 16
    assert (document["tokens"]["naive"], document["tokens"]["saved"]) == (16, 0)
    assert document["chain"]["position"] == 2
    assert (document["seal"], document["seal_version"]) == (evaluation.seal, formats.SEAL)
    assert document["copies"]["predictions"] == 4
    assert document["seeds"] == {}
    assert not document["mixed_engines"]
    text = page(client, f"/evaluations/{population.evaluation}/provenance")
    for shown in (
        document["seal"],
        document["prompts"]["digest"],
        document["chain"]["digest"],
        "16 prompts",
        "4 results",
    ):
        assert shown in text
    of_api = client.get(f"/api/v1/evaluations/{population.evaluation}/provenance").json
    assert of_api is not None
    for key in ("prompts", "copies", "seeds", "tokens", "seal_version"):
        assert of_api[key] == document[key], key
    assert of_api["chain"]["digest"] == document["chain"]["digest"]
    printed = run(engine, "provenance", population.evaluation, "--json").document
    assert (printed["prompts"], printed["copies"]) == (document["prompts"], document["copies"])


def test_the_digest_over_prompts_is_the_same_wherever_the_prompts_are(site: Site) -> None:
    engine, population, _ = site
    other = again(engine)
    with read_session(engine) as session:
        digests = [provenance_document(session, item)["prompts"] for item in (population.evaluation, other)]
    assert digests[0] == digests[1]


def test_an_evaluation_scored_by_two_versions_is_mixed_wherever_shown(site: Site) -> None:
    engine, _, client = site
    with write_session(engine) as session:
        request = EvaluationRequest(
            model="fake", benchmark="bench", variants="cyclic", shots=1, shard_prompts=8, new_replicate=True
        )
        mixed = submit(session, request)[0].id
    score(engine, mixed, packages=("1", "2"))
    with read_session(engine) as session:
        document = provenance_document(session, mixed)
    assert document["mixed_engines"]
    assert len(document["engine_fingerprints"]) == 2
    assert "Mixed: its shards were scored by 2 different engines" in page(client, f"/evaluations/{mixed}/provenance")
    assert "scored by 2 different engines" in page(client, f"/evaluations/{mixed}")
    assert "mixed engines" in page(client, "/")
    rows = {row["evaluation_id"]: row["mixed_engines"] for row in client.get("/api/v1/leaderboard").json["rows"]}  # type: ignore[index]
    assert rows == {item: item == mixed for item in rows}
    assert mixed in rows
    printed = run(engine, "leaderboard", "--json").document["rows"]
    assert {row["evaluation_id"] for row in printed if row["mixed_engines"]} == {mixed}
    assert "mixed engines" in run(engine, "provenance", mixed).stderr


def test_a_server_that_names_another_model_within_a_shard_makes_it_mixed(site: Site) -> None:
    engine, _, client = site
    changed = again(engine, Renamed())
    with read_session(engine) as session:
        document = provenance_document(session, changed)
    assert (document["mixed_engines"], len(document["engine_fingerprints"])) == (True, 1)
    assert "Mixed: the server named another model" in page(client, f"/evaluations/{changed}/provenance")
    assert "The server named another model" in page(client, f"/evaluations/{changed}")
    rows = {row["evaluation_id"]: row["mixed_engines"] for row in client.get("/api/v1/leaderboard").json["rows"]}  # type: ignore[index]
    assert rows == {item: item == changed for item in rows}
    printed = run(engine, "leaderboard", "--json").document["rows"]
    assert {row["evaluation_id"] for row in printed if row["mixed_engines"]} == {changed}
    assert "named another model" in run(engine, "provenance", changed).stderr


def test_what_differs_between_two_runs_is_sorted_by_what_it_is_of(site: Site) -> None:
    engine, population, client = site
    other = again(engine, package="2")
    with read_session(engine) as session:
        one, two = (provenance_document(session, item) for item in (population.evaluation, other))
    differences = compare_provenance(one, two)
    assert differences["different"]["engine"] == {"packages fake": ["1", "2"]}
    assert differences["different"]["record"]["replicate"] == [0, 1]
    assert "protocol" not in differences["different"]
    assert differences["same"]["prompts"]["digest"] == one["prompts"]["digest"]
    assert differences["same"]["model"]["weights_digest"] == one["model"]["weights_digest"]
    assert client.get(f"/api/v1/evaluations/{population.evaluation}/provenance/{other}").json == differences
    assert run(engine, "provenance", population.evaluation, other, "--json").document == differences
    shown = page(client, f"/evaluations/{population.evaluation}/provenance?against={other}")
    assert "packages fake" in shown
    assert "Nothing differs." in shown
    assert (
        f"  packages fake\n    {population.evaluation}: 1\n    {other}: 2"
        in run(engine, "provenance", population.evaluation, other).stdout
    )
    with pytest.raises(UsageError, match="compared with itself"):
        compare_provenance(one, one)


def test_every_surface_says_that_two_evaluations_are_of_one_model(site: Site) -> None:
    engine, population, client = site
    other = again(engine, Shifted())
    document = run(engine, "statistics", "compare", population.evaluation, other, "--json").document
    assert document["relation"] == "same revision"
    assert document["questions"] == 4
    assert client.get(f"/api/v1/compare?a={population.evaluation}&b={other}").json == document
    sentence = "Both evaluations are of one model, fake, at the same revision (1)."
    assert sentence in run(engine, "statistics", "compare", population.evaluation, other).stdout
    shown = page(client, f"/compare?left={population.evaluation}&right={other}")
    assert sentence in shown
    assert f'href="/evaluations/{population.evaluation}/provenance?against={other}"' in shown
    assert f'href="/api/v1/compare?a={population.evaluation}&amp;b={other}"' in shown
    assert "same model" in page(client, f"/compare?left={population.evaluation}")


def test_comparisons_that_make_no_sense_are_problems_of_the_api(site: Site) -> None:
    engine, population, client = site
    with write_session(engine) as session:
        request = EvaluationRequest(model="fake", benchmark="bench", variants="cyclic", shots=1, new_replicate=True)
        waiting = submit(session, request)[0].id
    for query, status, problem in (
        (f"a={population.source}&b={population.source}", 400, "compared with itself"),
        (f"a={population.source}&b={waiting}", 409, "wait until it is complete"),
        (f"a={population.source}&b=4711", 404, "no evaluation 4711"),
        (f"a={population.source}", 400, "'b' is missing"),
        (f"a={population.source}&b=x", 400, "'x'"),
    ):
        answer = client.get(f"/api/v1/compare?{query}")
        assert (answer.status_code, problem in answer.text) == (status, True), answer.text


def test_the_chain_is_public_and_the_same_everywhere(site: Site) -> None:
    engine, _, client = site
    printed = run(engine, "chain", "--json").document
    listed = client.get("/api/v1/chain").json
    assert listed is not None
    assert listed["head"] == printed["head"]
    assert [link["digest"] for link in listed["items"]] == [link["digest"] for link in printed["links"]][::-1]
    shown = page(client, "/chain")
    for link in printed["links"]:
        assert link["digest"] in shown
        assert link["subject"] in shown


def test_a_withdrawn_evaluation_keeps_its_page_under_a_banner(site: Site) -> None:
    engine, population, client = site
    other = again(engine)
    with write_session(engine) as session:
        withdraw(session, population.source, "Wrong <tokenizer>.")
        supersede(session, population.evaluation, other, "Scored again.")
    shown = page(client, f"/evaluations/{population.source}")
    assert "Withdrawn" in shown
    assert "Wrong &lt;tokenizer&gt;." in shown
    superseded = page(client, f"/evaluations/{population.evaluation}")
    assert f"Evaluation {other}</a> replaces it" in superseded
    assert "4 results in it were copied from" in superseded
    board = page(client, "/")
    assert f'href="/evaluations/{population.source}"' not in board
    assert "2 evaluations</a> were withdrawn" in board
    listed = page(client, "/withdrawn")
    assert "Scored again." in listed
    of_api = client.get(f"/api/v1/evaluations/{population.source}/provenance").json
    assert of_api is not None
    assert of_api["withdrawals"][0]["reason"] == "Wrong <tokenizer>."
    assert [row["evaluation_id"] for row in client.get("/api/v1/leaderboard").json["rows"]] == [other]  # type: ignore[index]


def test_what_may_not_be_seen_is_not_proven_either(site: Site) -> None:
    engine, population, client = site
    other = again(engine)
    with write_session(engine) as session:
        session.execute(update(BenchmarkVersion).values(visibility="hidden"))
        withdraw(session, other, "Secret reason.")
    for address in (
        f"/evaluations/{population.source}/provenance",
        f"/evaluations/{population.source}/provenance?against={population.evaluation}",
        f"/compare?left={population.evaluation}&right={other}",
        f"/compare?left={population.evaluation}",
        f"/api/v1/evaluations/{population.source}/provenance",
        f"/api/v1/evaluations/{population.source}/provenance/{population.evaluation}",
        f"/api/v1/compare?a={population.evaluation}&b={other}",
    ):
        assert client.get(address).status_code == 404, address
    assert "Secret reason" not in page(client, "/withdrawn")
    # The chain consists only of digests and times, and a chain with gaps could not be verified.
    assert "seal" in page(client, "/chain")

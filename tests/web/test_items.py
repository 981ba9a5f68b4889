"""What is said of a benchmark's questions: its page, the API and the command, and for too few models nothing."""

import json
import sys

import numpy as np
import pytest

from registry.db import get_engine, read_session
from registry.errors import UsageError
from registry.exchange.outputs.importer import ImportRequest, import_outputs
from registry.lookups import find_version
from registry.prompting.variants import QuestionShape, parse_variants
from registry.studies import items as studies
from registry.studies.items import WEAK, _Evidence, item_document, item_source
from tests.commands import shuffleboard
from tests.outputs.conftest import four_options, registry
from tests.web.answered import ANSWERED, answered
from tests.web.test_pages import text_of
from web import create_app

__all__ = ["registry"]

MODELS = [f"m{number}" for number in range(10)]


@pytest.fixture(scope="module")
def asked(lasting_sqlite, tmp_path_factory):
    """A registry in which ten models answered twelve questions, the first of which has a wrong key; and its URL."""
    url = lasting_sqlite()
    engine = get_engine(url)
    answered(engine, tmp_path_factory.mktemp("answered"), questions=12, models=MODELS)
    return engine, url


def test_the_page_and_the_api_put_the_wrong_key_first_and_say_what_numbers_mean(asked):
    _, url = asked
    client = create_app(database_url=url).test_client()
    page = text_of(client.get(f"/benchmarks/{ANSWERED}/items"))
    assert "Judged by the answers of 10 models to 12 questions" in page
    assert "KR-20: 0." in page
    assert "A high alpha does not mean" in page
    assert "evidence that something is wrong with the question, not proof of a wrong key" in page
    assert "D by 8 of 10 models, the key A by 2; by 4 and 0 of the 4 strongest." in page
    found = client.get(f"/api/v1/benchmarks/{ANSWERED}/items?per_page=1").json
    assert (found["models"], found["questions"], found["total"]) == (10, 12, 12)
    (first,) = found["items"]
    assert (first["external_id"], first["answer"], first["rival"], first["rank"]) == ("q0", 0, 3, 1)
    assert first["discrimination"]["value"] < 0
    assert {"other_option", "missed_by_strong"} <= {reason["reason"] for reason in first["reasons"]}
    link = f'href="/benchmarks/{ANSWERED}/items"'
    assert link in client.get(f"/benchmarks/{ANSWERED}").text
    assert client.get(f"/benchmarks/{ANSWERED}/items?version=none").status_code == 404
    assert client.get(f"/benchmarks/{ANSWERED}/items?like=999").status_code == 400


def test_the_command_prints_what_the_api_answers(asked):
    engine, url = asked
    printed = shuffleboard("benchmarks", "items", ANSWERED, "--limit", 3, database_url=url)
    lines = printed.stdout.splitlines()
    assert "10 models, 12 questions" in lines[0]
    assert lines[1].startswith("KR-20")
    assert len(lines) == 6
    document = json.loads(shuffleboard("benchmarks", "items", ANSWERED, "--json", database_url=url).stdout)
    with read_session(engine) as session:
        source = item_source(session, find_version(session, ANSWERED))
        assert document == json.loads(json.dumps(item_document(session, source)))
        like = item_source(session, find_version(session, ANSWERED), document["way"]["evaluation"])
        assert like == source


def test_of_very_many_models_some_are_read(asked, monkeypatch):
    monkeypatch.setattr(studies, "MOST_PREDICTIONS", 60)
    monkeypatch.setattr(studies, "LEAST_MODELS", 5)
    with read_session(asked[0]) as session:
        source = item_source(session, find_version(session, ANSWERED))
    assert len(source.evaluations) == 5
    assert source.way["models"] == 10


def test_no_row_of_answers_is_searched_for_attributes(asked):
    # Of 26 models on 12,032 questions it was two million times, five seconds of six.
    searched = []

    def called(frame, event, _argument):
        if event == "call" and frame.f_code.co_name == "_key_not_found":
            searched.append(frame.f_code.co_filename)

    with read_session(asked[0]) as session:
        source = item_source(session, find_version(session, ANSWERED))
        sys.setprofile(called)
        try:
            item_document(session, source)
        finally:
            sys.setprofile(None)
    assert searched == []


def in_all_orders(registry, model, questions):
    """Answers in every cyclic order: right, but for q5, where b and c take turns."""
    lines = []
    for question in questions:
        shape = QuestionShape(question["id"], 4, question["answer"])
        for variant in parse_variants("cyclic").variants(shape):
            option = 1 + variant.ordinal % 2 if question["id"] == "q5" else question["answer"]
            lines.append(
                {
                    "question_id": question["id"],
                    "variant": variant.ordinal,
                    "order": list(variant.order),
                    "position": variant.order.index(option),
                }
            )
    request = ImportRequest(registry.file(f"{model}.jsonl", lines), model, "b", "cyclic")
    return import_outputs(registry.engine, request)


def test_answers_over_orders_duplicates_and_flags_are_reasons(registry):
    questions = four_options(12)
    questions[1] |= {"question": "Question  0?", "answer": 1}
    questions[3] |= {"question": questions[2]["question"], "answer": 2}
    questions[4]["options"] = ["1", "2", "3", "4"]
    registry.benchmark("b", questions)
    for model in MODELS:
        if model == MODELS[-1]:
            with read_session(registry.engine) as session:
                few = item_document(session, item_source(session, find_version(session, "b")))
            assert (few["models"], few["reliability"], few["items"]) == (9, None, [])
            said = shuffleboard("benchmarks", "items", "b", database_url=registry.url).stdout
            assert "9 models answered all of it, asked in one way; nothing is stated: it takes 10" in said
            page = create_app(database_url=registry.url).test_client().get("/benchmarks/b/items")
            assert "Nothing is stated: 9 models have a complete evaluation" in text_of(page)
        registry.model(model)
        evaluation = in_all_orders(registry, model, questions)
    again = in_all_orders(registry, MODELS[0], questions)
    with read_session(registry.engine) as session:
        source = item_source(session, find_version(session, "b"))
        document = item_document(session, source)
        with pytest.raises(UsageError, match="evaluation 99 is no complete evaluation of b@"):
            item_source(session, find_version(session, "b"), 99)
    assert {again, evaluation} <= {number for number, _ in source.evaluations}
    assert document["models"] == 10  # the newest of each model alone
    assert document["reliability"] is None  # all models score alike
    reasons = {item["external_id"]: [one["reason"] for one in item["reasons"]] for item in document["items"]}
    assert [item["external_id"] for item in document["items"][:2]] == ["q0", "q1"]
    assert reasons["q0"] == reasons["q1"] == ["contradicting_duplicate"]
    assert reasons["q2"] == reasons["q3"] == ["duplicate"]
    assert reasons["q4"] == ["sorted_numeric"]
    assert reasons["q5"] == ["split"]
    assert not any(reasons[f"q{number}"] for number in range(6, 12))


def test_an_option_that_leads_is_weak_evidence_unless_another_key_fits_better():
    votes = np.array([[0.0, 1.0, 0.0]] * 6 + [[1.0, 0.0, 0.0]] * 4)
    question = {"answer": 0, "refers_to_options": False, "sorted_numeric": False}

    def said(log_odds: float) -> str:
        evidence = _Evidence(question, votes, [6, 7], 1, 0.2, 1, log_odds, several_orders=False, missed=False)
        return evidence.reasons(None, None)["other_option"]

    assert said(1.0).endswith(WEAK)
    assert WEAK not in said(3.0)

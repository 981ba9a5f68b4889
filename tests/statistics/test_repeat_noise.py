"""Sources of an evaluation's repeat noise: its own repeats, its replicates, or another evaluation."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import insert

from registry.db import read_session, write_session
from registry.errors import NotFoundError, UsageError
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.studies import noise
from registry.studies.noise import noise_of_replicates, repeat_noise
from registry.tables import Withdrawal
from tests.outputs.conftest import four_options, registries, registry

pytestmark = pytest.mark.long_on("postgresql")

__all__ = ["registries", "registry"]

QUESTIONS = four_options(60)
ORDERS = [[(place + variant) % 4 for place in range(4)] for variant in range(4)]


def outputs(registry, answer, *, orders=ORDERS, kind="imported", protocol="symbols", questions=QUESTIONS):
    """Import the answers answer(number of the question, variant, order) over `orders`, one variant each."""
    lines = [
        {"question_id": question["id"], "variant": variant, "order": order, "option": answer(number, variant, order)}
        for number, question in enumerate(questions)
        for variant, order in enumerate(orders)
    ]
    path = registry.file("outputs.jsonl", lines)
    return import_outputs(registry.engine, ImportRequest(path, "m", "b", kind, protocol))


def right(number, variant, order):
    return QUESTIONS[number]["answer"]


def first_place(number, variant, order):
    """Return the right option on the first 30 questions, and the first option on the others: 6 of 6 pairs differ."""
    return right(number, variant, order) if number < 30 else order[0]


def wavering(number, variant, order):
    """Alternate between two answers on the first 20 questions: of 4 repeats, 4 of 6 pairs differ."""
    return variant % 2 if number < 20 else right(number, variant, order)


def find(registry, evaluation_id, noise_from=None):
    with read_session(registry.engine) as session:
        return repeat_noise(session, evaluation_id, noise_from)


@pytest.fixture
def repeated(registry):
    """Return an evaluation that repeats one prompt, and another with four orders, of one model."""
    registry.benchmark("b", QUESTIONS)
    return outputs(registry, wavering, orders=[ORDERS[0]] * 4), outputs(registry, first_place)


def test_an_evaluation_of_repeats_has_a_noise_figure_and_no_order_effect(registry, repeated):
    document = find(registry, repeated[0])
    assert document["repeat_disagreement"] == pytest.approx(20 * 4 / 6 / 60)
    assert document["repeat_interval"][0] < document["repeat_disagreement"] < document["repeat_interval"][1]
    assert (document["order_disagreement"], document["order_effect"], document["interval"]) == (None, None, None)
    assert document["evaluations"] == document["noise_from"] == [repeated[0]]


def test_the_order_effect_is_net_of_the_noise_of_another_evaluation(registry, repeated):
    repeats, orders = repeated
    document = find(registry, orders)
    assert (document["evaluations"], document["noise_from"]) == ([orders], [repeats])
    assert document["order_disagreement"] == pytest.approx(30 / 60)
    assert document["order_effect"] == pytest.approx(30 / 60 - 20 * 4 / 6 / 60)
    assert document["interval"][0] < document["order_effect"] < document["interval"][1]
    assert document == find(registry, orders, repeats)
    with read_session(registry.engine) as session:
        assert noise_of_replicates(session, [orders]) == document


@pytest.mark.one_engine
def test_an_evaluation_that_repeats_each_order_answers_for_itself(registry, repeated):
    both = outputs(registry, first_place, orders=ORDERS * 2)
    document = find(registry, both)
    assert document["noise_from"] == [both]
    assert (document["repeat_disagreement"], document["order_disagreement"]) == (0, 0.5)
    # By name the noise is that of the other.
    assert find(registry, both, repeated[0])["repeat_disagreement"] == pytest.approx(20 * 4 / 6 / 60)


@pytest.mark.one_engine
def test_few_repeats_by_chance_give_way_to_an_evaluation_of_repeats(registry, repeated):
    lines = [
        {"question_id": question["id"], "variant": variant, "order": order, "option": 0}
        for number, question in enumerate(QUESTIONS)
        for variant, order in enumerate([*ORDERS, ORDERS[0]] if number < 9 else ORDERS)
    ]
    request = ImportRequest(registry.file("chance.jsonl", lines), "m", "b", "imported")
    some = import_outputs(registry.engine, request)
    assert find(registry, some)["noise_from"] == [repeated[0]]
    assert find(registry, some, some)["questions"] == 9
    with write_session(registry.engine) as session:
        withdrawn = {"evaluation_id": repeated[0], "kind": "withdrawn", "reason": "x", "actor": "x"}
        session.execute(insert(Withdrawal), withdrawn | {"at": datetime.now(UTC)})
    assert find(registry, some)["noise_from"] == [some]


@pytest.mark.one_engine
def test_a_named_evaluation_must_say_something_about_this_one(registry, repeated):
    repeats, orders = repeated
    elsewhere = outputs(registry, wavering, orders=[ORDERS[0]] * 4, protocol="first-letter")
    with pytest.raises(UsageError, match=f"evaluation {elsewhere} has another protocol than evaluation {orders}"):
        find(registry, orders, elsewhere)
    with pytest.raises(UsageError, match=f"evaluation {orders} asked none of the questions of evaluation {repeats}"):
        find(registry, repeats, orders)
    with pytest.raises(NotFoundError, match="no evaluation 99"):
        find(registry, orders, 99)


@pytest.mark.one_engine
def test_what_is_scored_here_is_repeated_by_its_replicates_alone(registry, repeated, monkeypatch):
    # Equal prompts share one draw, so that their agreement within an evaluation has no meaning.
    alike = noise._alike
    monkeypatch.setattr(noise, "_alike", lambda *given: [replace(member, recorded=False) for member in alike(*given)])
    assert find(registry, repeated[0]) is None
    assert find(registry, repeated[1]) is None


def test_noise_is_told_from_order_effects_over_replicates(registry):
    registry.benchmark("b", QUESTIONS)

    def answer(replicate):
        def answer_prompt(number, variant, order):
            return replicate if number < 6 else order[0] if number < 36 else right(number, variant, order)

        return answer_prompt

    ids = [outputs(registry, answer(replicate), kind="cyclic") for replicate in range(2)]
    with read_session(registry.engine) as session:
        document = noise_of_replicates(session, ids)
        assert noise_of_replicates(session, ids[:1]) == document
    # Six questions: 4 pairs of one prompt, all differ; 24 pairs of orders, and of these the pairs across replicates
    # differ.
    assert document["evaluations"] == document["noise_from"] == ids
    assert document["repeat_disagreement"] == pytest.approx(6 / 60)
    assert document["order_disagreement"] == pytest.approx((6 * 12 / 24 + 30) / 60)
    assert document["order_effect"] == pytest.approx(document["order_disagreement"] - 6 / 60)
    assert document["interval"][0] < document["order_effect"] < document["interval"][1]


@pytest.mark.one_engine
def test_the_same_recorded_answers_are_no_replicate(registry):
    registry.benchmark("b", QUESTIONS)
    ids = [outputs(registry, first_place, kind="cyclic") for _ in range(2)]
    with read_session(registry.engine) as session:
        documents = [noise_of_replicates(session, [number]) for number in ids]
    assert [document["evaluations"] for document in documents] == [ids[:1], ids[1:]]
    document = documents[0]
    assert (document["repeat_disagreement"], document["order_effect"], document["noise_from"]) == (None, None, [])
    assert find(registry, ids[0]) is None


@pytest.mark.one_engine
def test_only_replicates_are_taken_together(registry, repeated):
    with read_session(registry.engine) as session, pytest.raises(UsageError, match="different specifications"):
        noise_of_replicates(session, [outputs(registry, right, kind="cyclic"), repeated[0]])

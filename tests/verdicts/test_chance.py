"""Models that sample their answers, and how often texts attribute a loss to the order."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from bench.bench_chance import ORDERS, RIGHT, blame
from registry.db import read_session
from registry.leaderboard.facts import facts_of, noise_facts
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.studies.noise import repeat_noise
from tests.outputs.conftest import Registry, four_options
from tests.verdicts.simulated import Model, answers, facts_of_answers, is_blamed_on_page

LONG = 200
ORDERS_ASKED = [(0, 1, 2, 3), (1, 2, 3, 0), (2, 3, 0, 1), (3, 0, 1, 2)]


@pytest.mark.parametrize("m", ORDERS)
@pytest.mark.parametrize("p", RIGHT)
@pytest.mark.long
def test_without_an_order_effect_at_most_one_of_twenty_blames_it(p: float, m: int) -> None:
    pages, lists, boards, lower = blame(Model(p), m, 2, 100, LONG, seed=1)
    assert max(pages, lower) <= 5
    assert max(lists, boards) <= 10  # of twenty each
    assert max(blame(Model(p), m, 1, 100, 20, seed=1)) == 0


@pytest.mark.parametrize("m", ORDERS)
@pytest.mark.parametrize("model", [Model(0.8, 0.03), Model(0.9, 0.03, even=False)])
@pytest.mark.long
def test_an_order_effect_of_three_points_is_found_in_nine_of_ten(model: Model, m: int) -> None:
    assert blame(model, m, 2, 400, LONG, seed=1)[0] >= 90


def is_blamed(model: Model, m: int, k: int, n: int, evaluations: int) -> int:
    generator = np.random.default_rng(0)
    chosen = answers(generator, model.probabilities(generator, evaluations, n, m), k)
    return sum(map(is_blamed_on_page, facts_of_answers(chosen, resamples=400)))


def test_a_planted_order_effect_is_found_and_chance_is_not() -> None:
    assert is_blamed(Model(0.9), 12, 1, 100, 10) == 0
    assert is_blamed(Model(0.9), 4, 2, 100, 40) <= 4
    assert is_blamed(Model(0.8, 0.03), 4, 2, 400, 20) >= 16


@pytest.mark.parametrize("even", [True, False])
def test_what_is_simulated_is_what_the_registry_knows(
    even: bool, lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Check that the same answers, imported and sealed, have the same numbers, intervals and noise."""
    generator = np.random.default_rng(4)
    (chosen,) = answers(generator, Model(0.7, 0.03, even).probabilities(generator, 1, 100, 4), 2)
    registry = Registry(lasting_sqlite(), tmp_path_factory.mktemp("simulated"))
    registry.benchmark("b", four_options(100))
    registry.model("m0")
    lines = []
    for question, of_question in zip(four_options(100), chosen.tolist(), strict=True):
        for variant, option in enumerate(option for of_order in of_question for option in of_order):
            order = ORDERS_ASKED[variant // 2]
            position = order.index((question["answer"] + option) % 4)
            lines.append({"question_id": question["id"], "variant": variant, "order": order, "position": position})
    file = registry.file("m0.jsonl", [json.dumps(line) for line in lines])
    request = ImportRequest(file, "m0", "b", "cyclic:repeats=2", "select-letter")
    evaluation = import_outputs(registry.engine, request)
    with read_session(registry.engine) as session:
        facts = facts_of(session, [evaluation])[evaluation]
        noise = noise_facts(repeat_noise(session, evaluation))
    (simulated,) = facts_of_answers(chosen[None])
    for name, other in facts.numbers.items():
        number = simulated.numbers["accuracy" if name == "accuracy_of_answered" else name]
        if name == "accuracy_of_answered":
            assert number.value == pytest.approx(other.value)
            continue
        assert (number.value, number.n) == pytest.approx((other.value, other.n)), name
        assert (number.low, number.high) == pytest.approx((other.low, other.high)), name
    assert simulated.asked == replace(facts.asked)
    assert simulated.reading == facts.reading
    assert noise is not None
    assert simulated.noise is not None
    assert simulated.noise.repeats == pytest.approx(noise.repeats)
    assert simulated.noise.interval == pytest.approx(noise.interval)

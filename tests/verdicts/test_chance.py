"""A model that samples its answers, with and without an order effect: how often the order is blamed."""

import random
from math import sqrt

import pytest

from registry.verdicts.cases import verdict
from registry.verdicts.models import of_listed, of_model
from tests.verdicts.generated import Raw, facts_of_raw

LONG = 200
BLAMED = {"order-costs", "changes-beyond-noise", "model-order-costs", "listed-order-costs", "listed-mostly-lost"} | {
    *("mostly-lost", "share-kept", "drops", "flips", "model-one-share", "model-shares", "model-beyond-noise")
}


def sampled(seed: int, p: float, m: int, k: int, n: int, effect: float = 0.0) -> Raw:
    """Answers to n questions in m orders, k times each; right with probability p, in half of the orders more by d.

    effect: the true order loss L₂, the variance over orders of the probability of a right answer.
    """
    draw = random.Random(f"{seed}:{p}:{m}:{k}:{n}:{effect}")
    d = sqrt(effect * (m - 1) / m)
    raw = Raw("cyclic*repeat" if k > 1 else "cyclic", ("order",), True, True, k > 1, 4)
    for _ in range(n):
        better = set(draw.sample(range(m), m // 2))
        chances = [p + (d if order in better else -d) for order in range(m)]
        raw.asked.append([(order, 0 if draw.random() < chances[order] else 1) for order in range(m) for _ in range(k)])
    return raw


def blamed(raw: Raw) -> bool:
    """Whether any page, list or model's verdict attributes a loss or a change to the order."""
    facts = facts_of_raw(raw)
    said = {item.case for item in verdict(facts).sentences}
    said |= {of_model([facts]).case, *(sentence.case for _, sentence in of_listed([facts]))}
    return bool(said & BLAMED)


@pytest.mark.parametrize("m", [4, 12, 24])
@pytest.mark.parametrize("p", [0.80, 0.90, 0.95, 0.99])
@pytest.mark.long
def test_without_an_order_effect_the_order_is_blamed_in_at_most_one_of_twenty(p: float, m: int):
    n = 100
    assert sum(blamed(sampled(seed, p, m, 2, n)) for seed in range(LONG)) <= 0.05 * LONG
    assert not any(blamed(sampled(seed, p, m, 1, n)) for seed in range(20))


@pytest.mark.parametrize("m", [4, 12])
@pytest.mark.long
def test_an_order_effect_of_three_points_is_found_in_nine_of_ten(m: int):
    assert sum(blamed(sampled(seed, 0.8, m, 2, 400, effect=0.03)) for seed in range(LONG)) >= 0.9 * LONG


def test_chance_alone_is_not_blamed_on_the_order_and_a_planted_effect_is_found():
    assert not any(blamed(sampled(seed, 0.9, 12, 1, 100)) for seed in range(5))
    assert sum(blamed(sampled(seed, 0.9, 4, 2, 100)) for seed in range(20)) <= 2
    assert sum(blamed(sampled(seed, 0.8, 4, 2, 400, effect=0.03)) for seed in range(10)) >= 8

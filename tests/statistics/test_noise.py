"""Repeat noise, separated from order effects."""

from itertools import combinations, cycle, islice

import numpy as np
import pytest

from registry.statistics.noise import noise

FIRST, SECOND, THIRD = (0, 1, 2), (1, 2, 0), (2, 0, 1)


def test_pairs_with_equal_orders_and_with_different_ones_are_counted_apart():
    # Same order: bb, bc, bc of FIRST; one pair of two disagrees 2 of 3 times. SECOND is alone.
    # Different orders: each of FIRST's three against SECOND's c: b≠c, b≠c, c=c.
    measured = noise([[(FIRST, 1), (FIRST, 1), (FIRST, 2), (SECOND, 2)]])
    assert measured.repeat_disagreement == pytest.approx(2 / 3)
    assert measured.order_disagreement == pytest.approx(2 / 3)
    assert measured.order_effect == pytest.approx(0)
    assert (measured.repeat_pairs, measured.order_pairs, measured.questions) == (3, 3, 1)


def test_shares_are_averaged_over_questions_that_have_such_pairs():
    measured = noise(
        [
            [(FIRST, 0), (FIRST, 0), (SECOND, 1)],  # repeat 0, order 1
            [(FIRST, 0), (FIRST, 1)],  # repeat 1, no other order
            [(FIRST, 0), (SECOND, 0)],  # order 0, no repeat
            [(FIRST, 0)],  # no pair at all
        ]
    )
    assert measured.repeat_disagreement == 0.5
    assert measured.order_disagreement == 0.5
    assert measured.order_effect == 1  # the first question alone has both
    assert (measured.repeat_pairs, measured.order_pairs, measured.questions) == (2, 3, 1)


def test_without_pairs_everything_is_undefined():
    for questions in ([], [[]], [[(FIRST, 0)]]):
        measured = noise(questions)
        assert (measured.repeat_disagreement, measured.order_disagreement, measured.order_effect) == (None, None, None)
        assert (measured.interval, measured.repeat_pairs, measured.order_pairs, measured.questions) == (None, 0, 0, 0)


def slow_shares(predictions):
    """Count (disagreeing, pairs) of equal orders and of different orders, pair by pair."""
    counts = {True: [0, 0], False: [0, 0]}
    for (one_order, one), (other_order, other) in combinations(predictions, 2):
        count = counts[one_order == other_order]
        count[0] += one is None or one != other
        count[1] += 1
    return counts[True], counts[False]


@pytest.mark.parametrize("seed", range(20))
def test_counts_are_those_of_all_pairs(seed):
    generator = np.random.default_rng(seed)
    answers = [None, -1, 0, 1, 2]
    predictions = [
        ((FIRST, SECOND, THIRD)[generator.integers(3)], answers[generator.integers(5)])
        for _ in range(generator.integers(0, 12))
    ]
    (same_off, same), (different_off, different) = slow_shares(predictions)
    measured = noise([predictions])
    assert (measured.repeat_pairs, measured.order_pairs) == (same, different)
    assert measured.repeat_disagreement == (same_off / same if same else None)
    assert measured.order_disagreement == (different_off / different if different else None)


def ask(generator, answer):
    """Return 300 questions, three orders, four replicates each; answer(question, order) draws an option."""
    return [
        [(order, answer(question, order)) for order in islice(cycle((FIRST, SECOND, THIRD)), 12)]
        for question in range(300)
    ]


def test_a_model_that_is_only_noisy_has_no_order_effect():
    # Each question has its own distribution over three options; the order plays no part. Averaged over 100 models, the
    # order effect is within 4 standard errors of 0, and the interval of about 95 of them contains 0.
    effects, covering = [], 0
    for seed in range(100):
        generator = np.random.default_rng(seed)
        chances = generator.dirichlet([0.5, 0.5, 0.5], 300)
        draws = generator.random((300, 12))
        options = (draws[:, :, None] > chances.cumsum(axis=1)[:, None, :-1]).sum(axis=2)
        questions = [list(zip(islice(cycle((FIRST, SECOND, THIRD)), 12), row, strict=True)) for row in options.tolist()]
        measured = noise(questions, resamples=500)
        assert measured.repeat_disagreement > 0.2  # noisy it is
        effects.append(measured.order_effect)
        covering += measured.interval.low <= 0 <= measured.interval.high
    assert abs(np.mean(effects)) < 4 * np.std(effects) / 10
    assert covering >= 88


def test_a_model_that_follows_positions_has_an_order_effect_and_no_noise():
    measured = noise(ask(None, lambda _question, order: order[0]))
    assert (measured.repeat_disagreement, measured.order_disagreement, measured.order_effect) == (0, 1, 1)
    assert measured.interval is None  # all questions have the same value


def test_an_order_effect_is_found_under_noise():
    # Half of the answers are at random, half follow the position.
    generator = np.random.default_rng(0)
    measured = noise(
        ask(None, lambda _question, order: order[0] if generator.random() < 0.5 else int(generator.integers(3)))
    )
    # Equal orders agree with (½ + ⅙)² + 2 · (⅙)² = ½; different ones with 2 · ⅔ · ⅙ + (⅙)² = ¼.
    assert measured.repeat_disagreement == pytest.approx(0.5, abs=0.03)
    assert measured.order_disagreement == pytest.approx(0.75, abs=0.03)
    assert measured.interval.low > 0.15
    assert measured.interval.high < 0.35

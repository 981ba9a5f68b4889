"""The spread of accuracies over orders and positions, without the part that is due to sampling questions."""

from itertools import combinations

import numpy as np
import pytest

from registry.db import read_session
from registry.errors import MetricInputError, UsageError
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.prompting.variants import QuestionShape, parse_variants
from registry.statistics.spread import order_shift, position_bias
from registry.studies.spread import spread_document
from tests.outputs.conftest import four_options, registries, registry

__all__ = ["registries", "registry"]


def shift_by_pairs_of_questions(hits):
    """Return the shift from pairs of distinct questions; pairing a question with itself would add sampling noise."""
    questions, orders = hits.shape
    shifts = []
    for first, second in combinations(range(orders), 2):
        difference = hits[:, first] - hits[:, second]
        products = [difference[q] * difference[p] for q in range(questions) for p in range(questions) if p != q]
        shifts.append(sum(products) / (questions * (questions - 1)))
    return max(0.0, sum(shifts) / len(shifts)) ** 0.5


@pytest.mark.parametrize("seed", range(5))
def test_the_shift_is_that_of_pairs_of_different_questions(seed):
    generator = np.random.default_rng(seed)
    hits = (generator.random((25, 4)) < [0.4, 0.5, 0.7, 0.9]).astype(float)
    assert order_shift(hits, np.ones_like(hits)).value == pytest.approx(shift_by_pairs_of_questions(hits))


def test_two_groups_have_half_their_difference_as_bias_all_as_shift():
    hits = np.array([[1.0, 0.0]] * 40)
    assert position_bias(hits, np.ones_like(hits)).value == 0.5
    assert order_shift(hits, np.ones_like(hits)).value == 1.0


def test_positions_that_were_never_asked_are_left_out():
    generator = np.random.default_rng(1)
    hits = (generator.random((60, 3)) < [0.2, 0.5, 0.8]).astype(float)
    wide = np.insert(hits, 1, 0.0, axis=1)
    counts = np.insert(np.ones_like(hits), 1, 0.0, axis=1)
    assert position_bias(wide, counts) == position_bias(hits, np.ones_like(hits))


def test_one_position_or_question_has_no_spread():
    assert position_bias(np.ones((40, 1)), np.ones((40, 1))) is None
    assert order_shift(np.ones((1, 3)), np.ones((1, 3))) is None
    with pytest.raises(MetricInputError, match="one row per question"):
        order_shift(np.full((2, 2), 2.0), np.ones((2, 2)))


def test_few_questions_have_a_value_and_no_interval():
    hits = (np.random.default_rng(2).random((20, 4)) < 0.5).astype(float)
    assert order_shift(hits, np.ones_like(hits)).interval is None


def draws(generator, rights, questions, *, one_position):
    """Draw hits and counts of an evaluation.

    one_position: whether each question has its right option at one position.
    """
    groups = len(rights)
    difficulty = generator.normal(0, 0.1, (questions, 1))
    hits = (generator.random((questions, groups)) < np.clip(np.array(rights) + difficulty, 0, 1)).astype(float)
    if not one_position:
        return hits, np.ones_like(hits)
    counts = np.eye(groups)[generator.integers(0, groups, questions)]
    return hits * counts, counts


@pytest.mark.parametrize("one_position", [False, True])
@pytest.mark.parametrize("rights", [(0.6,) * 4, (0.5, 0.6, 0.7, 0.6), (0.45, 0.65, 0.65, 0.65)])
def test_intervals_hold_the_true_bias_and_estimates_are_unbiased(rights, one_position):
    generator = np.random.default_rng(3)
    true = float(np.std(rights))
    estimates = [position_bias(*draws(generator, rights, 150, one_position=one_position)) for _ in range(300)]
    holding = np.mean([estimate.interval.low - 1e-12 <= true <= estimate.interval.high for estimate in estimates])
    assert holding >= 0.95 - 1.64 * (0.95 * 0.05 / 300) ** 0.5
    if true == 0:
        assert np.mean([estimate.value == 0 for estimate in estimates]) > 0.4
        assert np.mean([estimate.interval.low > 0 for estimate in estimates]) <= 0.05
    else:
        assert np.mean([estimate.value**2 for estimate in estimates]) == pytest.approx(true**2, abs=4e-3)


@pytest.mark.one_engine
def test_an_evaluation_that_prefers_a_position_has_position_bias_and_no_shift(registry):
    """Check an evaluation that takes the first position on half of 40 questions and is right on the others."""
    questions = four_options(40)
    registry.benchmark("b", questions)
    shapes = [QuestionShape(question["id"], 4, question["answer"]) for question in questions]
    lines = [
        {
            "question_id": shape.external_id,
            "variant": variant.ordinal,
            "order": list(variant.order),
            "option": variant.order[0] if number % 2 else shape.answer,
        }
        for number, shape in enumerate(shapes)
        for variant in parse_variants("cyclic").variants(shape)
    ]
    evaluation_id = import_outputs(
        registry.engine, ImportRequest(registry.file("outputs.jsonl", lines), "m", "b", "cyclic")
    )
    with read_session(registry.engine) as session:
        document = spread_document(session, evaluation_id)
    bias = document["position_bias"]
    # Recall is 1 at the first position and ½ elsewhere.
    assert bias["accuracies"] == pytest.approx([1, 0.5, 0.5, 0.5])
    assert bias["value"] == pytest.approx(np.std([1, 0.5, 0.5, 0.5]), abs=0.02)
    assert bias["interval"][0] > 0.1
    assert len(document["order_shift"]["accuracies"]) == 4


@pytest.mark.one_engine
def test_one_order_has_no_spread(registry):
    registry.benchmark("b", four_options(5))
    lines = [
        {"question_id": question["id"], "variant": 0, "order": [0, 1, 2, 3], "option": 0}
        for question in four_options(5)
    ]
    evaluation_id = import_outputs(
        registry.engine, ImportRequest(registry.file("outputs.jsonl", lines), "m", "b", "original")
    )
    with read_session(registry.engine) as session, pytest.raises(UsageError, match="ask with --variants cyclic"):
        spread_document(session, evaluation_id)

"""CoRA over resampled variants, computed like Table 6 of Cavalin et al."""

import math
from itertools import product

import numpy as np
import pytest

from registry.errors import MetricInputError
from registry.statistics.bootstrap import cora_over_variants, cora_over_variants_reference
from tests.spec.published import group_by, print_value, rows

MEDQA_QUESTIONS = 1273
"""Number of test questions of MedQA."""


def some_hits(questions, M, rate, seed=0):
    """Draw right and wrong at random, with some harder variants."""
    generator = np.random.default_rng(seed)
    return generator.random((questions, M)) < rate * generator.uniform(0.9, 1, M)


@pytest.mark.parametrize(
    ("questions", "M", "draws"), [(1, 1, 1), (5, 2, 3), (60, 8, 100), (300, 26, 10), (300, 74, 100)]
)
def test_the_fast_bootstrap_is_the_slow_one(questions, M, draws):
    hits = some_hits(questions, M, 0.97)
    fast = cora_over_variants(hits, 0.8, resamples=300, draws=draws)
    slow = cora_over_variants_reference(hits, 0.8, resamples=300, draws=draws)
    assert (fast.mean, fast.standard_deviation) == pytest.approx((slow.mean, slow.standard_deviation), abs=1e-12)
    assert (fast.draws, fast.resamples, fast.seed) == (draws, 300, 0)


def test_mean_and_deviation_are_those_of_all_draws():
    # Two variants, two draws: both, or one of them twice. Hits 11, 10, 10, 01; accuracy on the original .75.
    hits = np.array([[1, 1], [1, 0], [1, 0], [0, 1]], dtype=bool)
    coras = []
    for draw in product((0, 1), repeat=2):
        bmca = hits[:, draw].all(axis=1).mean()  # .75, .25, .25, .5
        coras.append(0.75 * (1 - (0.75 - bmca)))
    estimate = cora_over_variants(hits, 0.75, draws=2)
    assert estimate.mean == pytest.approx(np.mean(coras), abs=0.005)
    assert estimate.standard_deviation == pytest.approx(np.std(coras), abs=0.005)


def test_more_draws_see_more_variants_and_cora_falls_to_its_own_value():
    hits = some_hits(400, 8, 0.95)
    full = 0.9 * (1 - (0.9 - hits.all(axis=1).mean()))
    means = [cora_over_variants(hits, 0.9, draws=draws).mean for draws in (1, 5, 20, 200)]
    assert means == sorted(means, reverse=True)
    assert means[-1] == pytest.approx(full, abs=1e-6)


def test_accuracy_on_the_original_is_fixed():
    # Right on everything: no resample differs.
    estimate = cora_over_variants(np.ones((10, 5), dtype=bool), 1.0, resamples=100)
    assert (estimate.mean, estimate.standard_deviation) == (1, 0)


def test_no_questions_or_no_variants_are_refused():
    with pytest.raises(MetricInputError, match=r"shape \(0, 3\)"):
        cora_over_variants(np.ones((0, 3), dtype=bool), 1.0)
    with pytest.raises(MetricInputError, match=r"shape \(3,\)"):
        cora_over_variants(np.ones(3, dtype=bool), 1.0)


# Table 6


def table_6(metric):
    return {row["model"]: row for row in rows("cavalin_tables_1_6") if row["table"] == "6" and row["metric"] == metric}


def test_printed_deviations_fit_only_the_same_indices_for_every_question():
    # With indices of its own for each question, MCQA+ would be a mean of 100 · 1273 hits: at most √(1/4/127300) = .0014.
    # Printed are .003 to .013: more in all four rows, even if rounded up.
    deviations = [print_value(row["std_x1000"]).low / 1000 for row in table_6("MCQA+").values()]
    assert len(deviations) == 4
    assert min(deviations) > math.sqrt(0.25 / (100 * MEDQA_QUESTIONS))


def test_printed_bootstrap_never_lies_below_the_value_of_table_1():
    # A resample never has more variants than there are, so that BMCA(1), and CoRA with it, can only rise.
    table_1 = dict(group_by([row for row in rows("cavalin_tables_1_6") if row["table"] == "1"], "model"))
    printed = table_6("CoRA")
    assert len(printed) == 4
    for model, row in printed.items():
        assert print_value(row["value"]).high >= print_value(table_1[model,]["CoRA"]).low
        assert float(table_6("CoRA minus Table 1")[model]["value"]) >= 0

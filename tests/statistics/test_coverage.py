"""The coverage of 95 % intervals, which contain the truth in about 95 % of simulated evaluations.

The limits are wide, since the simulations are few: a standard error is 1.5 points. The full study is `python -m
bench.bench_coverage`; its figures are in docs/evidence/statistics.md.
"""

import numpy as np
import pytest

from bench.bench_coverage import METHODS, exact, resample, study
from registry.statistics.bootstrap import percentile_interval
from tests.support.marks import long_but

SIMULATIONS = 200


@pytest.mark.parametrize("accuracy", long_but([0.6], [0.1, 0.6, 0.95]))
def test_simulated_evaluations_of_200_questions_are_covered(accuracy):
    coverages = study(200, accuracy, SIMULATIONS, seed=1)
    claimed = ["accuracy", "average_accuracy", "prob_mass", "cora", "difference"]
    if accuracy == 0.6:
        claimed += ["worst_accuracy", "fluctuation_rate", "consistency_index", "pct_drop"]
    for name in claimed:
        stated, covering = coverages[name]
        assert stated > 0.95 * SIMULATIONS
        assert 0.9 <= covering / stated <= 0.99, name


@pytest.mark.parametrize("questions", [200, 331])
def test_a_0_1_metric_is_covered_in_93_to_97_percent(questions):
    coverage, missed = exact(percentile_interval, questions, np.linspace(0.05, 0.5, 901), 3)
    assert coverage.min() > 0.93
    assert coverage.max() < 0.97
    assert missed.max() < 0.07


def test_the_plain_percentile_interval_is_not():
    coverage, _ = exact(METHODS["plain percentile"], 200, np.linspace(0.05, 0.5, 901), 3)
    assert coverage.min() < 0.92


@pytest.mark.parametrize("questions", [200, 1000])
def test_both_ends_are_within_one_question_of_the_plain_interval(questions):
    for right in range(questions // 20, questions, questions // 20):
        samples = resample(right, questions)
        ours, plain = percentile_interval(samples, questions), METHODS["plain percentile"](samples, questions)
        assert abs(ours.low - plain.low) < 1 / questions
        assert abs(ours.high - plain.high) < 1 / questions

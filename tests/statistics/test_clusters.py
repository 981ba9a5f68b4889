"""Questions of a cluster, which are drawn together. The full study is bench/bench_clusters.py."""

import numpy as np
import pytest

from bench.bench_clusters import study
from registry.errors import MetricInputError
from registry.statistics.bootstrap import design_effect, resample_means

NAN = np.nan


def test_clusters_of_one_question_are_questions():
    values = np.random.default_rng(0).random((50, 2))
    alone = resample_means(values, resamples=100)
    together = resample_means(values, resamples=100, clusters=np.arange(50))
    assert together == pytest.approx(alone, abs=1e-12)
    assert design_effect(together[:, 0], alone[:, 0]) == pytest.approx(1)


def test_a_drawn_cluster_brings_all_of_its_defined_questions():
    values = np.array([[1.0], [0.0], [NAN], [1.0], [1.0]])
    clusters = np.array([0, 1, 1, 0, 2])
    sums, defined = np.array([2.0, 0.0, 1.0]), np.array([2, 1, 1])
    generator = np.random.default_rng(3)
    expected = []
    for _ in range(40):
        drawn = generator.integers(0, 3, 3, dtype=np.int32)
        expected.append(sums[drawn].sum() / defined[drawn].sum())
    assert resample_means(values, resamples=40, seed=3, clusters=clusters)[:, 0] == pytest.approx(expected)


def test_intervals_over_clusters_cover_correlated_questions_and_equal_statsmodels():
    # A standard error is 1.7 points; bench/bench_clusters.py has it to .5.
    coverage = study(100, 0.3, 160, seed=1)
    assert coverage.alone < 0.85 * 160
    assert coverage.clustered > 0.9 * 160
    assert abs(coverage.clustered - coverage.statsmodels) <= 6
    assert coverage.errors == pytest.approx(1, abs=0.03)
    assert coverage.effect == pytest.approx(coverage.kish, rel=0.1)


def test_what_does_not_vary_has_no_design_effect():
    assert design_effect(np.full(10, 0.5), np.full(10, 0.5)) is None
    assert design_effect(np.full(10, NAN), np.arange(10.0)) is None


def test_clusters_of_other_questions_are_refused():
    with pytest.raises(MetricInputError, match="for 3 questions; give each question one"):
        resample_means(np.zeros((3, 1)), resamples=2, clusters=np.array([0, 1]))

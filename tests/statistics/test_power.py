"""Power: the number of questions or samples that a difference requires.

The full comparison with simulations is bench/bench_power.py.
"""

import pytest
from statsmodels.stats.power import TTestPower

from bench.bench_power import simulate
from registry.errors import MetricInputError
from registry.statistics.power import (
    critical_of,
    power_of,
    power_of_differing,
    questions_needed,
    questions_needed_of_differing,
    smallest_difference,
    smallest_difference_of_differing,
    spread_of_differing,
)


@pytest.mark.parametrize("questions", [30, 200, 2000])
@pytest.mark.parametrize("effect", [0.0, 0.02, 0.1])
def test_the_power_of_a_pair_is_that_of_statsmodels(questions, effect):
    expected = TTestPower().power(effect, questions, 0.05)
    assert power_of(0.5 * effect, 0.5, questions) == pytest.approx(expected, abs=1e-5)
    assert power_of(-0.5 * effect, 0.5, questions) == power_of(0.5 * effect, 0.5, questions)


@pytest.mark.parametrize("models", [2, 30])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_the_smallest_difference_needs_exactly_its_power_and_questions(models, power):
    critical = critical_of(models)
    difference = smallest_difference(0.5, 400, power=power, critical=critical)
    assert power_of(difference, 0.5, 400, critical=critical) == pytest.approx(power, abs=1e-4)
    assert questions_needed(difference * 1.0001, 0.5, power=power, critical=critical) == 400
    assert questions_needed(difference * 0.9999, 0.5, power=power, critical=critical) == 401


def test_what_a_difference_of_0_1_metrics_varies_by_depends_on_it():
    difference = smallest_difference_of_differing(0.3, 200)
    assert power_of_differing(difference, 0.3, 200) == pytest.approx(0.8, abs=1e-5)
    assert power_of_differing(0.02, 0.3, 10_000) == power_of(0.02, spread_of_differing(0.3, 0.02), 10_000)
    assert power_of_differing(0.03, 0.3, 6_000) == pytest.approx(
        power_of(0.03, spread_of_differing(0.3, 0.03), 6_000), abs=0.002
    )
    needed = questions_needed_of_differing(0.05, 0.1)
    assert power_of_differing(0.05, 0.1, needed - 1) < 0.8 <= power_of_differing(0.05, 0.1, needed)
    assert smallest_difference_of_differing(0.05, 30) is None


@pytest.mark.parametrize("differing", [0.1, 0.3])
def test_planned_and_simulated_power_agree_on_few_questions(differing):
    # A standard error of 2.3 points; the bench has it to .6.
    difference = smallest_difference_of_differing(differing, 100)
    assert simulate(100, differing, difference, 300) == pytest.approx(0.8, abs=0.06)


def test_no_difference_needs_more_questions_than_there_are():
    assert questions_needed(0.0, 0.5) is None
    assert questions_needed(1e-6, 0.5) is None
    assert questions_needed(0.9, 0.1) == 30


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: power_of(0.1, 0.0, 200), "a standard deviation of 0"),
        (lambda: power_of(0.1, 0.5, 29), "29 questions tell no models apart; give at least 30"),
        (lambda: critical_of(1), "1 model.s. to compare; give at least 2"),
        (lambda: spread_of_differing(0.1, 0.2), "differ on 0.1 of the questions and by 0.2"),
        (lambda: smallest_difference(0.5, 200, power=1.0), "power 1; give a probability from 0.5 to 0.999"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_remedy(ask, message):
    with pytest.raises(MetricInputError, match=message):
        ask()


def test_a_power_is_a_number_however_large_the_effect() -> None:
    """Check large effects, since SciPy's noncentral distribution is NaN from 36 standard errors on."""
    powers = [
        power_of(effect / questions**0.5, 1.0, questions) for questions in (30, 1273, 12032) for effect in range(1, 60)
    ]
    assert all(0 < power <= 1 for power in powers)

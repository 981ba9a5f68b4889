"""Values that guessing reaches, compared with Cavalin et al., Table 7, and the binomial distribution."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from registry.errors import MetricInputError
from registry.statistics.exact import exact_high, exact_low
from registry.statistics.guessing import (
    CERTAINTY,
    GuessingRow,
    at_least,
    compare_with_guessing,
    guessing_table,
    minimum_success_rate,
    round_up,
)
from tests.spec.published import print_value, rows

TABLE_7 = rows("cavalin_table_7")


def test_a_guess_is_right_on_two_of_three_with_one_half():
    assert at_least(2, 3, Fraction(1, 2)) == 0.5
    assert at_least(2, 3, 0.5) == 0.5


@pytest.mark.parametrize("M", [1, 3, 10, 74])
@pytest.mark.parametrize("rate", [0.0, 0.05, 0.2, 0.5, 0.97, 1.0])
def test_the_tail_is_scipys_binomial_tail(M, rate):
    for p in range(M + 1):
        assert at_least(p, M, rate) == pytest.approx(binom.sf(p - 1, M, rate), rel=1e-9, abs=1e-300)
        assert at_least(p, M, Fraction(rate)) == pytest.approx(at_least(p, M, rate), rel=1e-9)


def test_nothing_is_always_reached():
    assert at_least(0, 26, Fraction(1, 5)) == 1
    assert at_least(0, 26, 0.2) == 1


@pytest.mark.parametrize(("M", "k"), [(10, 5), (20, 4), (26, 5), (74, 13)])
def test_the_smallest_rate_reaches_p_and_no_smaller_one_does(M, k):
    for p in range(M + 1):
        rate = minimum_success_rate(p, M, k)
        assert rate >= 1 / k
        assert at_least(p, M, rate) >= float(CERTAINTY) - 1e-12
        if rate > 1 / k:
            assert at_least(p, M, rate - 1e-6) < float(CERTAINTY)


def test_the_smallest_rate_grows_with_p():
    rates = [minimum_success_rate(p, 26, 5) for p in range(27)]
    assert rates == sorted(rates)


def test_guessing_can_be_enough():
    # Right at least once in 74: guessing between two fails with 2^-74.
    assert minimum_success_rate(1, 74, 2) == 0.5


@pytest.mark.parametrize(
    ("rate", "shown"), [(0.5, 0.5), (0.2, 0.2), (0.201, 0.21), (1 / 3, 0.34), (0.29, 0.29), (0.99995, 1.0), (1.0, 1.0)]
)
def test_rates_are_shown_rounded_up(rate, shown):
    assert round_up(rate) == shown


def test_the_printed_chances_are_reproduced():
    table = guessing_table(10, 5)
    assert len(table) == len(TABLE_7) == 11
    for ours, theirs in zip(table, TABLE_7, strict=True):
        expected = print_value(theirs["prob_at_least_p_random"])
        assert ours.p == int(theirs["p"])
        assert expected.low <= ours.chance <= expected.high


def test_the_printed_rates_are_reproduced_except_the_last_three():
    table = guessing_table(10, 5)
    different = {
        ours.p: (theirs["msgr"], f"{ours.shown:.2f}")
        for ours, theirs in zip(table, TABLE_7, strict=True)
        if ours.shown != float(theirs["msgr"])
    }
    assert different == {8: ("0.98", "0.99"), 9: ("0.99", "1.00"), 10: ("0.9999", "1.00")}
    # Printed with four digits, the last rate is still too small for the threshold, as the two before are.
    for p in different:
        assert at_least(p, 10, Fraction(different[p][0])) < CERTAINTY


def test_a_row_holds_both():
    assert guessing_table(3, 2)[2] == GuessingRow(2, 0.5, minimum_success_rate(2, 3, 2), 0.99)
    assert len(guessing_table(3, 2)) == 4


def test_arguments_that_cannot_be_right_are_refused():
    with pytest.raises(MetricInputError, match="4 of 3"):
        at_least(4, 3, 0.5)
    with pytest.raises(MetricInputError, match="-1 of 3"):
        minimum_success_rate(-1, 3, 2)
    with pytest.raises(MetricInputError, match=r"rate of 1\.5"):
        at_least(1, 3, 1.5)
    with pytest.raises(MetricInputError, match="1 options"):
        guessing_table(3, 1)


@pytest.mark.parametrize(
    ("value", "n", "interval", "relation"),
    [
        # Without an interval the exact one decides: 15 of 20 is .509 to .913, 14 of 20 is .457 to .881.
        (0.75, 20, None, "better"),
        (0.70, 20, None, "not distinguished"),
        # A guesser on few questions cannot be distinguished from a weak model; on many it can.
        (0.50, 20, None, "not distinguished"),
        (0.50, 10_000, None, "no better"),
        (0.10, 20, None, "no better"),
        # A stated interval decides, and its upper end may be 2 points above chance.
        (0.50, 1000, (0.48, 0.52), "no better"),
        (0.50, 1000, (0.48, 0.5201), "not distinguished"),
        (0.51, 1000, (0.5001, 0.519), "better"),
    ],
)
def test_an_accuracy_is_better_than_guessing_or_not_or_not_distinguished(value, n, interval, relation):
    comparison = compare_with_guessing(0.5, value, n, *(interval or ()))
    assert (comparison.relation, comparison.exact) == (relation, interval is None)


def test_guessers_are_called_better_in_at_most_two_and_a_half_percent():
    for n in (5, 12, 30, 100, 400):
        better = [compare_with_guessing(0.25, hits / n, n).relation == "better" for hits in range(n + 1)]
        assert binom.pmf(np.flatnonzero(better), n, 0.25).sum() <= 0.025


@pytest.mark.parametrize("n", [1, 7, 40, 1000])
def test_exact_intervals_are_those_of_the_beta_distribution(n):
    for hits in {0, 1, n // 3, n - 1, n}:
        low, high = binomtest(hits, n).proportion_ci(method="exact")
        assert (exact_low(hits, n), exact_high(hits, n)) == pytest.approx((low, high), abs=1e-9)


def test_an_accuracy_without_chance_level_is_not_compared():
    assert compare_with_guessing(None, 0.5, 20) is None
    assert compare_with_guessing(0.5, None, 20) is None

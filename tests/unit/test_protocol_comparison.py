"""Comparisons of two protocols, and the printed results of Nowak et al., computed from their own tables."""

from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from registry.studies.protocol_comparison import Pair, compare, parse_protocol
from tests.spec.published import Interval, group_by, print_value, rows


def pair(model: str, benchmark: str, first: dict[str, float | None], second: dict[str, float | None]) -> Pair:
    return Pair(model, benchmark, first, second)


def variances(*table: tuple[str, str, float | None, float | None]) -> dict[str, Any]:
    """Return the comparison of variances from (model, benchmark, variance under the first, under the second)."""
    return compare(
        [
            pair(model, benchmark, {"accuracy_variance": first}, {"accuracy_variance": second})
            for model, benchmark, first, second in table
        ]
    )


def ratios(rows_: list[dict[str, Any]], key: str) -> dict[str, float | None]:
    return {row[key]: row["variance_ratio"] for row in rows_}


def test_variance_ratio_is_second_over_first_and_its_means_are_geometric():
    document = variances(("m", "a", 8, 2), ("m", "b", 1, 1), ("n", "a", 4, 4), ("n", "b", 2, 8))
    assert [row["variance_ratio"] for row in document["pairs"]] == [0.25, 1, 1, 4]
    assert ratios(document["models"], "model") == pytest.approx({"m": 0.5, "n": 2})  # √(¼ · 1), √(1 · 4)
    assert ratios(document["benchmarks"], "benchmark") == pytest.approx({"a": 0.5, "b": 2})
    assert document["overall"]["variance_ratio"] == pytest.approx(1)
    assert document["complete"] is True


@pytest.mark.parametrize(
    ("first", "second", "ratio"),
    [(0.0, 2.0, None), (1e-13, 2.0, None), (2.0, 0.0, 0.0), (None, 2.0, None), (2.0, None, None)],
)
def test_a_ratio_that_is_undefined_or_zero_leaves_its_means_undefined(
    first: float | None, second: float | None, ratio: float | None
):
    document = variances(("m", "a", first, second), ("m", "b", 4, 1), ("n", "b", 4, 1))
    assert document["pairs"][0]["variance_ratio"] == ratio
    assert ratios(document["models"], "model") == {"m": None, "n": pytest.approx(0.25)}
    assert ratios(document["benchmarks"], "benchmark") == {"a": None, "b": pytest.approx(0.25)}
    assert document["overall"]["variance_ratio"] is None


def test_a_comparison_says_when_models_have_different_benchmarks():
    document = variances(("m", "a", 8, 2), ("m", "b", 1, 1), ("n", "a", 4, 4))
    assert document["complete"] is False
    assert [row["benchmarks"] for row in document["models"]] == [2, 1]
    assert [row["models"] for row in document["benchmarks"]] == [2, 1]


def test_score_difference_is_first_minus_second_and_needs_both():
    document = compare(
        [pair("m", "a", {"score": 0.5}, {"score": 0.75}), pair("n", "a", {"score": None}, {"score": 0.75})]
    )
    assert [row["score_difference"] for row in document["pairs"]] == [-0.25, None]


def test_accuracy_is_tested_over_the_models_of_a_benchmark():
    # Differences .01, .02, .03: W 0, exact p 2/8, d .02/.01.
    pairs = [
        pair(
            model,
            "a",
            {"accuracy_mean_moved": 0.5, "accuracy_median_moved": 0.6},
            {"accuracy_mean_moved": 0.5 + gain, "accuracy_median_moved": 0.6},
        )
        for model, gain in (("l", 0.01), ("m", 0.02), ("n", 0.03))
    ]
    (benchmark,) = compare(pairs)["benchmarks"]
    mean, median = benchmark["accuracy_mean_moved"], benchmark["accuracy_median_moved"]
    assert mean["differences"] == 3
    assert (mean["wilcoxon"]["statistic"], mean["wilcoxon"]["p_value"]) == pytest.approx((0, 0.25))
    assert mean["wilcoxon"]["pairs"] == 3
    assert mean["cohens_d"] == pytest.approx(2)
    # Nothing moves: no pair is left to rank, no deviation to divide by.
    assert median == {"differences": 3, "wilcoxon": None, "cohens_d": None}


def test_differences_that_are_equal_but_for_their_last_bits_are_equal():
    # .3 − .2 and .8 − .7 differ in float64; as equal differences they have no deviation.
    pairs = [
        pair("m", "a", {"accuracy_mean_moved": 0.2}, {"accuracy_mean_moved": 0.3}),
        pair("n", "a", {"accuracy_mean_moved": 0.7}, {"accuracy_mean_moved": 0.8}),
    ]
    assert 0.3 - 0.2 != 0.8 - 0.7
    (benchmark,) = compare(pairs)["benchmarks"]
    assert benchmark["accuracy_mean_moved"]["cohens_d"] is None


def test_agreement_of_two_benchmarks_is_that_of_their_models_mean_accuracies():
    # Under the first protocol both rank l < m < n; under the second the other benchmark ranks 1, 3, 2.
    first = {"a": (0.1, 0.2, 0.3), "b": (0.4, 0.5, 0.6)}
    second = {"a": (0.1, 0.2, 0.3), "b": (0.4, 0.6, 0.5)}
    pairs = [
        pair(model, benchmark, {"accuracy_mean_all": first[benchmark][i]}, {"accuracy_mean_all": second[benchmark][i]})
        for i, model in enumerate("lmn")
        for benchmark in "ab"
    ]
    (agreement,) = compare(pairs)["benchmark_pairs"]
    assert (agreement["benchmarks"], agreement["models"]) == (["a", "b"], 3)
    assert agreement["spearman"] == pytest.approx({"first": 1, "second": 0.5, "difference": -0.5})
    assert agreement["kendall"] == pytest.approx({"first": 1, "second": 1 / 3, "difference": -2 / 3})


def test_agreement_covers_models_of_both_benchmarks_and_may_be_undefined():
    value = {"accuracy_mean_all": 0.5}
    pairs = [pair("m", "a", value, value), pair("n", "a", value, value), pair("m", "b", value, value)]
    (agreement,) = compare(pairs)["benchmark_pairs"]
    undefined = {"first": None, "second": None, "difference": None}
    assert agreement == {"benchmarks": ["a", "b"], "models": 1, "spearman": undefined, "kendall": undefined}


def test_exchanging_the_protocols_inverts_ratios_and_turns_differences_round():
    forward, back = (compare(_list_published(end, turned)) for end, turned in (("mid", False), ("mid", True)))
    assert back["overall"]["variance_ratio"] == pytest.approx(1 / forward["overall"]["variance_ratio"])
    for one, other in zip(forward["pairs"], back["pairs"], strict=True):
        assert other["variance_ratio"] == pytest.approx(1 / one["variance_ratio"])
        assert other["score_difference"] == -one["score_difference"]
    for one, other in zip(forward["benchmark_pairs"], back["benchmark_pairs"], strict=True):
        assert other["spearman"]["difference"] == pytest.approx(-one["spearman"]["difference"])


@pytest.mark.parametrize(
    ("reference", "parsed"),
    [("symbols", ("symbols", 0)), ("symbols:0", ("symbols", 0)), ("match-dash:5", ("match-dash", 5))],
)
def test_a_protocol_is_named_with_its_shots_or_without(reference: str, parsed: tuple[str, int]):
    assert parse_protocol(reference) == parsed


# Nowak et al.: S&L first, M&D second

MEAN_MODEL, MEAN_BENCHMARK = "geometric mean over models", "geometric mean over benchmarks"
IN_TABLE_1 = ("CommonsenseQA", "ARC", "GPQA", "INCLUDE (es,fr,it,de)", "MMLU-Pro")


@cache
def _lines():
    return dict(group_by(rows("nowak_tables_5_11"), "benchmark", "model", "protocol"))


def _ends(text: str, end: str) -> float:
    """Return a printed number, or its least ("low") or greatest ("high") value before rounding."""
    interval = print_value(text)
    return float({"low": interval.low, "mid": Fraction(text), "high": interval.high}[end])


def _list_published(end: str, turned: bool = False) -> list[Pair]:
    """Return tables 5 to 11; "low" and "high": the values that make ratios and differences smallest or greatest."""
    other = {"low": "high", "mid": "mid", "high": "low"}[end]
    # A variance ratio grows with the second variance and falls with the first; a SCORE difference the other way round.
    ends = {"S&L": {"variance": other, "SCORE": end}, "M&D": {"variance": end, "SCORE": other}}
    protocols = ("M&D", "S&L") if turned else ("S&L", "M&D")
    models = list(dict.fromkeys(model for _, model, _ in _lines()))

    def values(benchmark: str, model: str, protocol: str) -> dict[str, float | None]:
        line = _lines()[benchmark, model, protocol]
        return {
            "accuracy_mean_all": float(line["mean_accuracy"]) / 100,
            "accuracy_variance": _ends(line["variance"], ends[protocol]["variance"]),
            "score": _ends(line["SCORE"], ends[protocol]["SCORE"]),
        }

    return [
        pair(model, benchmark, *(values(benchmark, model, protocol) for protocol in protocols))
        for model in models
        for benchmark in IN_TABLE_1
    ]


def _make_interval(low: float | None, high: float | None) -> Interval:
    """Return the interval that the numbers before rounding permit."""
    assert low is not None
    assert high is not None
    assert low <= high
    return Interval(Fraction(low), Fraction(high))


def test_nowak_table_1_comes_out_of_the_variances_of_the_other_tables():
    low, high = (compare(_list_published(end)) for end in ("low", "high"))
    assert low["complete"]
    table = {(row["model"], row["benchmark"]): print_value(row["value"]) for row in rows("nowak_table_1")}
    intervals = {
        (one["model"], one["benchmark"]): _make_interval(one["variance_ratio"], other["variance_ratio"])
        for one, other in zip(low["pairs"], high["pairs"], strict=True)
    }
    for one, other in zip(low["models"], high["models"], strict=True):
        intervals[one["model"], MEAN_BENCHMARK] = _make_interval(one["variance_ratio"], other["variance_ratio"])
    for one, other in zip(low["benchmarks"], high["benchmarks"], strict=True):
        intervals[MEAN_MODEL, one["benchmark"]] = _make_interval(one["variance_ratio"], other["variance_ratio"])
    intervals[MEAN_MODEL, MEAN_BENCHMARK] = _make_interval(
        low["overall"]["variance_ratio"], high["overall"]["variance_ratio"]
    )
    assert intervals.keys() == table.keys()
    assert len(table) == 84
    for cell, value in table.items():
        assert intervals[cell].meets(value), cell

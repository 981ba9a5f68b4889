"""R², errors and the choice of a subset on points with known values."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from registry.studies.assessment.correlations import (
    Cell,
    Point,
    both,
    correlations,
    leave_one_out_error_of_mean,
    leave_one_out_rmse,
    recommend,
    stabilities,
)
from registry.studies.assessment.orders import SUBSETS
from registry.studies.assessment.tables import ASSESSED, OVER_ORDERS

PROMPTS = {"original": 1.0, "original-inverse": 2.0, "cyclic": 4.0, "random2": 2.0, "randomL": 4.0, "full": 24.0}


def point(
    fluctuation: float,
    accuracy: float,
    values: Mapping[tuple[str, str], float | None],
    *,
    model: str = "m@1",
    benchmark: str = "b@1",
    protocol: str = "symbols:0",
    options: Mapping[int, int] | None = None,
    prompts: Mapping[str, float] | None = None,
    deviation: float | None = 0.0,
) -> Point:
    """Return a point.

    values: (subset, metric) → value; all others are undefined.
    """
    return Point(
        model=model,
        benchmark=benchmark,
        protocol=protocol,
        evaluation=1,
        options=options or {4: 10},
        prompts=prompts or PROMPTS,
        targets={"fluctuation_rate": fluctuation, "accuracy": accuracy},
        values={subset: {metric: (values.get((subset, metric)), 10) for metric in ASSESSED} for subset in SUBSETS},
        stability={size: dict.fromkeys(OVER_ORDERS, deviation) for size in ("pair", "L-tuple")},
    )


FLUCTUATION = (0.1, 0.3, 0.4, 0.6, 0.7, 0.9)
ACCURACY = (0.9, 0.8, 0.5, 0.6, 0.3, 0.2)
NEARLY = (0.12, 0.29, 0.41, 0.58, 0.72, 0.89)
ROUGHLY = (0.3, 0.1, 0.5, 0.4, 0.6, 0.9)

CYCLIC = ("cyclic", "fluctuation_rate")
INVERSE = ("original-inverse", "worst_accuracy")
ENTROPY = ("original", "entropy")


def points(**columns: Sequence[float | None]) -> list[Point]:
    """Return six points; cyclic, inverse and entropy are columns of values."""
    keys = {"cyclic": CYCLIC, "inverse": INVERSE, "entropy": ENTROPY}
    return [
        point(
            FLUCTUATION[index],
            ACCURACY[index],
            {keys[name]: column[index] for name, column in columns.items()},
            model=f"m{index}@1",
        )
        for index in range(6)
    ]


def cell(cells: Sequence[Cell], key: tuple[str, str]) -> Cell:
    return next(cell for cell in cells if (cell.subset, cell.metric) == key)


def test_a_metric_that_is_the_target_has_r_squared_one() -> None:
    correlation = cell(correlations(points(cyclic=FLUCTUATION)), CYCLIC)
    assert correlation.points == 6
    assert correlation.r_squared["fluctuation_rate"] == pytest.approx(1)
    assert correlation.rmse["fluctuation_rate"] == pytest.approx(0, abs=1e-12)
    assert 0 < (correlation.r_squared["accuracy"] or 0) < 1


def test_a_constant_metric_and_a_missing_one_have_none() -> None:
    cells = correlations(points(cyclic=[0.5] * 6))
    for key, count in ((CYCLIC, 6), (INVERSE, 0)):
        correlation = cell(cells, key)
        assert correlation.points == count
        assert set(correlation.r_squared.values()) == {None}
        assert set(correlation.rmse.values()) == {None}


def test_points_without_the_metric_are_left_out() -> None:
    correlation = cell(correlations(points(cyclic=[None, None, *FLUCTUATION[2:]])), CYCLIC)
    assert correlation.points == 4
    assert correlation.r_squared["fluctuation_rate"] == pytest.approx(1)


def test_the_error_is_that_of_lines_through_the_other_points() -> None:
    # Left out in turn, (0,0) (1,1) (2,2) (3,0): lines through the other three miss by 2, 3/7, 12/7 and 3.
    # 1. (1,1) (2,2) (3,0): mean 1, slope −1/2, at 0: 2.      2. (0,0) (2,2) (3,0): mean 2/3, slope 1/7, at 1: 4/7.
    # 3. (0,0) (1,1) (3,0): mean 1/3, slope −1/14, at 2: 2/7. 4. (0,0) (1,1) (2,2): slope 1, at 3: 3.
    errors = (2, 3 / 7, 12 / 7, 3)
    expected = (sum(error**2 for error in errors) / 4) ** 0.5
    assert leave_one_out_rmse([0, 1, 2, 3], [0, 1, 2, 0]) == pytest.approx(expected)
    # Without the third there is one x left: the level line at the mean of (0, 0, 3).
    assert leave_one_out_rmse([0, 0, 0, 1], [0, 0, 3, 1]) == pytest.approx((((1.5**2) * 2 + 9 + 0) / 4) ** 0.5)


def test_three_points_are_too_few_for_an_error() -> None:
    assert leave_one_out_rmse([0, 1, 2], [0, 1, 2]) is None
    assert leave_one_out_rmse([1, 1, 1, 1], [0, 1, 2, 3]) is None
    assert leave_one_out_error_of_mean([0, 1, 2]) is None
    assert leave_one_out_error_of_mean([0, 0, 0, 3]) == pytest.approx(((1 + 1 + 1 + 9) / 4) ** 0.5)


def test_the_cheapest_subset_within_the_tolerance_is_recommended() -> None:
    assessed = points(cyclic=FLUCTUATION, inverse=NEARLY, entropy=ROUGHLY)
    cells = correlations(assessed)
    inverse = cell(cells, INVERSE).r_squared["fluctuation_rate"]
    entropy = cell(cells, ENTROPY).r_squared["fluctuation_rate"]
    assert inverse is not None
    assert entropy is not None
    assert 0.98 < inverse < 1
    assert entropy < 0.9
    by_default = recommend(assessed, cells, "fluctuation_rate", 0.02)
    assert by_default["recommended"]["subset"] == "original-inverse"
    assert by_default["recommended"]["metric"] == "worst_accuracy"
    assert by_default["recommended"]["saving"] == pytest.approx(1 - 2 / 24)
    assert by_default["recommended"]["rmse"]["fluctuation_rate"] > 0
    assert [candidate["subset"] for candidate in by_default["candidates"]] == ["original", "original-inverse", "cyclic"]
    assert recommend(assessed, cells, "fluctuation_rate", 0)["recommended"]["subset"] == "cyclic"
    assert recommend(assessed, cells, "fluctuation_rate", 1)["recommended"]["subset"] == "original"


def test_a_metric_that_a_point_lacks_is_no_candidate() -> None:
    assessed = points(cyclic=[None, *FLUCTUATION[1:]], inverse=ROUGHLY)
    recommendation = recommend(assessed, correlations(assessed), "fluctuation_rate", 0.02)
    assert [candidate["subset"] for candidate in recommendation["candidates"]] == ["original-inverse"]


def test_five_points_are_too_few() -> None:
    assessed = points(cyclic=FLUCTUATION)[:5]
    recommendation = recommend(assessed, correlations(assessed), "fluctuation_rate", 0.02)
    assert recommendation["recommended"] is None
    assert recommendation["reason"].startswith("too few points: 5, at least 6 are needed")
    assert [candidate["r_squared"] for candidate in recommendation["candidates"]] == [pytest.approx(1)]


def test_a_target_that_never_varies_leaves_nothing_to_recommend() -> None:
    assessed = [point(1.0, accuracy, {CYCLIC: accuracy}) for accuracy in ACCURACY]
    cells = correlations(assessed)
    reasons = {
        target: recommend(assessed, cells, target, 0.02)["reason"]
        for target in ("fluctuation_rate", "accuracy", "both")
    }
    assert reasons["fluctuation_rate"] == "fluctuation_rate is 1.000 at every point: there is no difference to explain"
    assert reasons["both"] == reasons["fluctuation_rate"]
    assert reasons["accuracy"] is None


def test_metrics_that_never_vary_leave_nothing_to_recommend() -> None:
    assessed = points(cyclic=[0.5] * 6)
    recommendation = recommend(assessed, correlations(assessed), "accuracy", 0.02)
    assert recommendation["recommended"] is None
    assert recommendation["reason"] == "no metric is defined at every point and varies between them"


def test_caveats_say_what_the_points_are() -> None:
    two = dict.fromkeys(PROMPTS, 2.0)
    assessed = [
        point(
            FLUCTUATION[index],
            ACCURACY[index],
            {("original", "average_accuracy"): ACCURACY[index]},
            model=f"m@{index}",
            benchmark="b@1" if index else "two@1",
            protocol=f"symbols:{5 * (index % 2)}",
            options={4: 10} if index else {2: 10},
            prompts=two,
        )
        for index in range(6)
    ]
    caveats = recommend(assessed, correlations(assessed), "both", 0.02)["caveats"]
    assert caveats[0].startswith("6 points from 1 model (6 revisions) on 2 benchmarks")
    for beginning in (
        "revisions of one model resemble each other",
        "the points were asked in several ways",
        "1 of 6 points have only two options",
        "numbers of options differ",
        "it shows as many orders as full",
        "on the original order this metric is that accuracy itself",
    ):
        assert any(caveat.startswith(beginning) for caveat in caveats), beginning
    plain = points(cyclic=FLUCTUATION)
    assert len(recommend(plain, correlations(plain), "fluctuation_rate", 0.02)["caveats"]) == 1


def test_a_metric_that_predicts_no_better_than_the_mean_is_named() -> None:
    unrelated = points(cyclic=(0.5, 0.1, 0.9, 0.1, 0.9, 0.5))
    recommendation = recommend(unrelated, correlations(unrelated), "fluctuation_rate", 0.02)
    error = recommendation["recommended"]["rmse"]["fluctuation_rate"]
    assert error >= recommendation["recommended"]["rmse_without_metric"]["fluctuation_rate"]
    assert "it predicts fluctuation_rate no better than the mean of the other points" in recommendation["caveats"]


def test_stability_is_averaged_over_benchmarks_and_then_over_models() -> None:
    assessed = [
        point(0.5, 0.5, {}, model="a@1", benchmark="one@1", deviation=0.1),
        point(0.5, 0.5, {}, model="a@1", benchmark="two@1", deviation=0.3),
        point(0.5, 0.5, {}, model="b@1", benchmark="one@1", deviation=0.6),
        point(0.5, 0.5, {}, model="b@1", benchmark="pairs@1", options={2: 4}, deviation=0.05),
        point(0.5, 0.5, {}, model="c@1", benchmark="one@1", deviation=None),
    ]
    averages = stabilities(assessed)
    assert averages["more_options"]["pair"]["worst_accuracy"] == pytest.approx((0.2 + 0.6) / 2)
    assert averages["two_options"]["pair"]["worst_accuracy"] == pytest.approx(0.05)
    assert (averages["two_options"]["models"], averages["two_options"]["points"]) == (1, 1)
    assert stabilities(assessed[:1])["two_options"]["L-tuple"]["entropy"] is None


def test_both_is_the_mean_of_the_two_as_in_print() -> None:
    path = Path(__file__).parents[2] / "registry" / "studies" / "published" / "goliakova_table_1.csv"
    with path.open(encoding="utf-8", newline="") as file:
        printed = {(row["table"], row["protocol"], row["metric"]): float(row["value"]) for row in csv.DictReader(file)}
    keys = [(orders, metric) for table, orders, metric in printed if table == "1c"]
    assert len(keys) == 36
    for key in keys:
        # All three are rounded to three decimals.
        assert both(printed["1a", *key], printed["1b", *key]) == pytest.approx(printed["1c", *key], abs=0.00101)
    assert both(None, 0.5) is None
    assert both(0.5, None) is None

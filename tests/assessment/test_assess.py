"""The assessment protocol on stored evaluations, with all results computed a second time from the rows."""

from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from sqlalchemy import Engine

from registry.db import get_engine, read_session, write_session
from registry.errors import NotFoundError, UsageError
from registry.queue.evaluations import EvaluationRequest, submit
from registry.studies.assessment import assess
from tests.assessment import independent
from tests.assessment.outputs import BENCHMARKS, MODELS, import_full, questions
from tests.integration.test_worker import run as run_worker
from tests.outputs.conftest import Registry
from tests.support.population import add_benchmark, add_model, question

pytestmark = pytest.mark.long_on("postgresql")

NAMES = {
    "average_accuracy": "AAcc",
    "strong_accuracy": "SAcc",
    "worst_accuracy": "WAcc",
    "best_accuracy": "BAcc",
    "sensitivity_gap": "SensG",
    "fluctuation_rate": "FR",
    "prob_mass": "Prob",
    "brier_score": "BS",
    "entropy": "EN",
    "retest_accuracy": "retest",
    "pride_accuracy": "PriDe",
}
SUBSETS = ("original", "original-inverse", "cyclic", "random2", "randomL")


def close(one: float | None, other: float | None) -> bool:
    return one is other is None or (one is not None and other is not None and abs(one - other) < 1e-9)


class Again:
    """All points, read and computed without the registry."""

    def __init__(self, engine: Engine) -> None:
        self.points = [(model, benchmark) for model in MODELS for benchmark in BENCHMARKS]
        self.questions = {point: independent.read(engine, independent.newest(engine, *point)) for point in self.points}
        self.accuracy = {point: self._values(point, "original")["AAcc"] for point in self.points}
        self.fluctuation = {point: self._values(point, "full")["FR"] for point in self.points}
        self.values = {(point, subset): self._values(point, subset) for point in self.points for subset in SUBSETS}

    def _values(self, point: tuple[str, str], subset: str) -> dict[str, Any]:
        R_of = {L: independent.orders(subset, L) for L in (2, 3, 4)}
        computed: dict[str, Any] = dict(independent.compute_benchmark(self.questions[point], R_of))
        if subset != "full":
            computed["PriDe"] = independent.pride(self.questions[point], subset)
        return computed

    def xy(self, subset: str, name: str, target: dict[Any, Any]) -> tuple[list[float], list[float]]:
        having = [point for point in self.points if self.values[point, subset][name] is not None]
        return [self.values[point, subset][name] for point in having], [target[point] for point in having]


@pytest.fixture(scope="module")
def again(sqlite_assessed: Engine) -> Again:
    return Again(sqlite_assessed)


@pytest.fixture
def document(assessed: Engine) -> dict[str, Any]:
    return document_of(assessed)


@cache
def document_of(engine: Engine) -> dict[str, Any]:
    """Compute the document, once for all tests, which only read it."""
    with read_session(engine) as session:
        return assess(session)


def test_points_are_the_newest_sealed_evaluations_in_all_orders(document: dict[str, Any], again: Again) -> None:
    by_name = {(point["model"].split("@")[0], point["benchmark"].split("@")[0]): point for point in document["points"]}
    assert len(document["points"]) == len(by_name) == 21
    assert set(by_name) == set(again.points)  # not the cyclic evaluation
    for key, point in by_name.items():
        assert close(point["accuracy"], again.accuracy[key]), key
        assert close(point["fluctuation_rate"], again.fluctuation[key]), key
        assert point["questions"] == 12
    assert by_name["good", "mixed"]["options"] == {"3": 6, "4": 6}
    assert by_name["good", "mixed"]["prompts_per_question"] == {
        "original": 1,
        "original-inverse": 2,
        "cyclic": 3.5,
        "random2": 2,
        "randomL": 3.5,
        "full": 15,
    }
    assert len(set(again.fluctuation.values())) > 6  # else there is nothing to follow
    assert document["notes"] == []


def test_every_value_of_every_point_is_that_of_the_contract(document: dict[str, Any], again: Again) -> None:
    defined = 0
    for point in document["points"]:
        key = (point["model"].split("@")[0], point["benchmark"].split("@")[0])
        for subset in SUBSETS:
            for metric, name in NAMES.items():
                expected = again.values[key, subset][name]
                assert close(point["values"][subset][metric], expected), (key, subset, metric)
                assert (point["n"][subset][metric] > 0) == (expected is not None)
                defined += expected is not None
    assert defined > 900


def test_metrics_without_what_they_need_are_null(document: dict[str, Any]) -> None:
    points = {(point["model"], point["benchmark"].split("@")[0]): point for point in document["points"]}
    four, lettered = points["good@1", "four"], points["lettered@1", "four"]
    for metric in ("fluctuation_rate", "retest_accuracy", "pride_accuracy"):
        assert four["values"]["original"][metric] is None  # one order
    for metric in ("retest_accuracy", "pride_accuracy"):
        assert four["values"]["randomL"][metric] is None  # without the original order
        assert four["values"]["cyclic"][metric] is not None
        assert points["good@1", "two"]["values"]["random2"][metric] is not None  # two options: it is among them
        assert points["good@1", "mixed"]["n"]["randomL"][metric] == 6  # three options: rank 0 is drawn
    for metric in ("prob_mass", "brier_score", "entropy", "pride_accuracy"):
        assert lettered["values"]["cyclic"][metric] is None
        assert lettered["n"]["cyclic"][metric] == 0


@pytest.mark.one_engine
def test_r_squared_and_errors_are_those_of_an_independent_computation(document: dict[str, Any], again: Again) -> None:
    assert len(document["correlations"]) == 5 * 11
    compared = 0
    for cell in document["correlations"]:
        name = NAMES[cell["metric"]]
        expected: dict[str, float | None] = {}
        for target, values in (("fluctuation_rate", again.fluctuation), ("accuracy", again.accuracy)):
            x, y = again.xy(cell["subset"], name, values)
            assert cell["points"] == len(x)
            expected[target] = independent.r_squared(x, y) if x else None
            assert close(cell["r_squared"][target], expected[target]), (cell, target)
            if expected[target] is not None:
                assert cell["rmse"][target] == pytest.approx(independent.compute_left_out_error(x, y), abs=1e-9)
                compared += 1
        one, other = expected.values()
        assert close(cell["r_squared"]["both"], None if one is None or other is None else (one + other) / 2)
    assert compared > 90


@pytest.mark.one_engine
def test_points_without_a_metric_are_left_out_and_counted(document: dict[str, Any]) -> None:
    points = {(cell["subset"], cell["metric"]): cell["points"] for cell in document["correlations"]}
    assert points["cyclic", "worst_accuracy"] == 21
    assert points["cyclic", "prob_mass"] == 18  # not the three of the model without probabilities
    assert points["original", "fluctuation_rate"] == 0
    assert points["randomL", "retest_accuracy"] == 14  # two options, and half of the mixed benchmark


@pytest.mark.one_engine
def test_stability_is_that_of_an_independent_computation(document: dict[str, Any], again: Again) -> None:
    benchmarks = {"more_options": ("four", "mixed"), "two_options": ("two",)}
    for size in ("pair", "L-tuple"):
        stabilities = {
            point: independent.stability(questions, pairs=size == "pair")
            for point, questions in again.questions.items()
        }
        for group, names in benchmarks.items():
            assert document["stability"][group]["models"] == len(MODELS)
            assert document["stability"][group]["points"] == len(MODELS) * len(names)
            for metric, value in document["stability"][group][size].items():
                of_models = [
                    [deviation for name in names if (deviation := stabilities[model, name][NAMES[metric]]) is not None]
                    for model in MODELS
                ]
                assert close(value, mean(mean(model) for model in of_models if model)), (group, size, metric)
    assert document["stability"]["more_options"]["pair"]["fluctuation_rate"] > 0.01
    assert document["stability"]["two_options"]["pair"]["fluctuation_rate"] == 0  # every pair is both orders
    assert document["stability"]["draws"] == 100


def test_recommendations_follow_the_rule(document: dict[str, Any]) -> None:
    costs = {name: cost["prompts_per_question"] for name, cost in document["subsets"].items()}
    assert costs == {
        "original": 1,
        "original-inverse": 2,
        "cyclic": pytest.approx((4 + 2 + 3.5) / 3),
        "random2": 2,
        "randomL": pytest.approx((4 + 2 + 3.5) / 3),
        "full": pytest.approx((24 + 2 + 15) / 3),
    }
    assert [item["target"] for item in document["recommendations"]] == ["fluctuation_rate", "accuracy", "both"]
    for item in document["recommendations"]:
        best: dict[str, float] = {}
        for cell in document["correlations"]:
            value = cell["r_squared"][item["target"]]
            if value is not None and cell["points"] == 21:
                best[cell["subset"]] = max(value, best.get(cell["subset"], 0))
        near = [subset for subset in best if best[subset] >= max(best.values()) - 0.02]
        chosen = item["recommended"]
        assert chosen["subset"] in near
        assert costs[chosen["subset"]] == min(costs[subset] for subset in near)
        assert chosen["r_squared"] == pytest.approx(best[chosen["subset"]])
        assert chosen["saving"] == pytest.approx(1 - costs[chosen["subset"]] / costs["full"])
        low, high = chosen["r_squared_range"]
        assert low <= chosen["r_squared"] <= high
        assert item["reason"] is None
        assert item["caveats"][0].startswith("21 points from 7 models (7 revisions) on 3 benchmarks")


def test_pride_reads_its_questions_in_parts(assessed: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from registry.studies.assessment import evaluations

    with read_session(assessed) as session:
        unparted = assess(session, models=["good"])
        monkeypatch.setattr(evaluations, "_CHUNK", 1)  # the mixed benchmark has an estimation question of each size
        assert assess(session, models=["good"]) == unparted


def test_a_filter_leaves_only_what_it_names(assessed: Engine) -> None:
    with read_session(assessed) as session:
        some = assess(session, benchmarks=["two", "four"], models=["good", "fair@1"], protocol="symbols:0")
        named = {(point["model"], point["benchmark"].split("@")[0]) for point in some["points"]}
        assert named == {(model, name) for model in ("good@1", "fair@1") for name in ("two", "four")}
        assert all("too few points: 4" in item["reason"] for item in some["recommendations"])
        for filters in ({"benchmarks": ["three"]}, {"models": ["good@2"]}, {"protocol": "symbols:5"}):
            (name,) = (value if isinstance(value, str) else value[0] for value in filters.values())
            with pytest.raises(NotFoundError, match=f"{name} has no sealed evaluation with all orders here; there are"):
                assess(session, **filters)  # type: ignore[arg-type]


@pytest.mark.one_engine
def test_the_model_without_probabilities_keeps_probability_metrics_out_of_a_recommendation(assessed: Engine) -> None:
    others = [model for model in MODELS if model != "lettered"]
    with read_session(assessed) as session:
        without = assess(session, models=others)
    metrics = {
        item["metric"]
        for recommendation in document_of(assessed)["recommendations"]
        for item in recommendation["candidates"]
    }
    assert not metrics & {"prob_mass", "brier_score", "entropy", "pride_accuracy"}
    metrics = {item["metric"] for recommendation in without["recommendations"] for item in recommendation["candidates"]}
    assert metrics & {"prob_mass", "brier_score", "entropy"}


@pytest.mark.parametrize("tolerance", [-0.1, 1.5, float("nan")])
def test_a_tolerance_that_is_no_difference_of_r_squared_is_refused(sqlite_assessed: Engine, tolerance: float) -> None:
    with read_session(sqlite_assessed) as session, pytest.raises(UsageError, match="from 0 to 1"):
        assess(session, tolerance=tolerance)


def test_without_a_sealed_evaluation_in_all_orders_the_remedy_is_named(database: str, tmp_path: Path) -> None:
    registry = Registry(database, tmp_path)
    remedy = "queue one: shuffleboard evaluations submit --model MODEL --benchmark BENCHMARK --variants full"
    with read_session(registry.engine) as session, pytest.raises(NotFoundError, match=f"all orders; {remedy}"):
        assess(session)
    with write_session(registry.engine) as session:
        add_benchmark(session, tmp_path, [question(1)])
        add_model(session)
        submit(session, EvaluationRequest(model="fake", benchmark="bench", variants="full"))
    with read_session(registry.engine) as session, pytest.raises(NotFoundError, match=r"\(not yet complete: 1\)"):
        assess(session)


@pytest.mark.one_engine
def test_other_shots_are_another_point_with_a_note_of_shared_questions(database: str, tmp_path: Path) -> None:
    registry = Registry(database, tmp_path)
    registry.model("good")
    registry.benchmark("two", questions("two"))
    for shots in (0, 5):
        import_full(registry, "good", "two", MODELS["good"], seed=shots, shots=shots)
    with read_session(registry.engine) as session:
        assessment = assess(session)
        assert [point["protocol"] for point in assessment["points"]] == ["symbols:0", "symbols:5"]
        assert assessment["notes"] == []  # another protocol is no second count
        assert len(assess(session, protocol="symbols")["points"]) == 2
        assert len(assess(session, protocol="symbols:5")["points"]) == 1


def test_parts_of_a_benchmark_are_points_and_what_they_share_is_noted(database: str, tmp_path: Path) -> None:
    engine = get_engine(database)
    with write_session(engine) as session:
        add_benchmark(session, tmp_path, [question(number, options=3) for number in range(4)])
        add_model(session)
        for limit in (None, 2):
            submit(session, EvaluationRequest(model="fake", benchmark="bench", variants="full", limit=limit))
    run_worker(engine)
    with read_session(engine) as session:
        assessment = assess(session)
        assert [point["questions"] for point in assessment["points"]] == [4, 2]
        assert assessment["points"][1]["benchmark"].endswith(" (limit 2)")
        assert assessment["notes"] == ["evaluations 1 and 2 of fake@1 share 2 questions, which count twice"]
        (complete,) = assess(session, benchmarks=[assessment["points"][1]["benchmark"]])["points"]
        assert complete["questions"] == 2

"""Comparisons of two evaluations and of replicates, on both engines."""

import json

import numpy as np
import pytest
from sqlalchemy import select
from statsmodels.stats.contingency_tables import mcnemar

from registry.db import read_session, write_session
from registry.errors import NotFoundError, UsageError
from registry.leaderboard.reports import evaluation_metrics
from registry.metrics.catalogue import HEADLINES
from registry.metrics.pride import ALPHA
from registry.scores.pride import pride_document
from registry.sealed.verification import verify_evaluation
from registry.statistics.bootstrap import mean_intervals
from registry.studies.comparing import (
    COMPARED,
    compare_evaluations,
    compare_several,
    cora_document,
    metric_differences,
    several_differences,
)
from registry.tables import Analysis, QuestionPride
from tests.boards.outputs import import_all
from tests.outputs.conftest import four_options, registries, registry
from tests.spec.tables import same

pytestmark = pytest.mark.long_on("postgresql")

__all__ = ["registries", "registry"]

QUESTIONS = four_options(60)


def two_models(registry):
    registry.benchmark("b", QUESTIONS)
    models = []
    for name, skill in (("one", 0.8), ("two", 0.5)):
        registry.model(name)
        models += import_all(registry, name, "b", QUESTIONS, ["cyclic"], skill=skill, liking=0.8, seed=len(name))
    return models


@pytest.mark.one_engine
def test_several_are_compared_as_each_pair_of_them_is(registry):
    one, two = two_models(registry)
    with read_session(registry.engine) as session:
        pair = compare_evaluations(session, one, two)["metrics"]["worst_accuracy"]
        several = compare_several(session, [one, two], "worst_accuracy")
        with pytest.raises(UsageError, match="at least two, each once"):
            compare_several(session, [one, one], "worst_accuracy")
    assert several["values"]["worst_accuracy"] == {
        "n": 60,
        "values": [pytest.approx(pair["first"]), pytest.approx(pair["second"])],
    }
    ((nothing, compared), (turned, _)) = several["differences"]
    assert nothing is None
    assert compared["difference"] == pytest.approx(pair["difference"])
    assert compared["interval"] == pytest.approx(pair["interval"])
    assert turned["difference"] == -compared["difference"]
    assert turned["interval"] == [-end for end in reversed(compared["interval"])]
    assert turned["distinguished"] is compared["distinguished"] is True


def test_several_differ_over_the_questions_that_all_of_them_have():
    values = np.random.default_rng(1).integers(0, 2, (80, 3)).astype(float)
    values[:5, 2] = np.nan
    expected = np.nanmean(values[5:, 0]) - np.nanmean(values[5:, 1])
    assert several_differences(values, "accuracy")[0][1]["difference"] == pytest.approx(expected)
    assert several_differences(values[:30], "accuracy")[0][1]["interval"] is None  # 25 questions are too few


def test_a_comparison_is_what_the_questions_say(registry):
    one, two = two_models(registry)
    with read_session(registry.engine) as session:
        document = compare_evaluations(session, one, two)
        metrics = [evaluation_metrics(session, number, per_question=True, papers=True) for number in (one, two)]
    assert (document["questions"], document["relation"]) == (60, "another model")
    assert [*document["metrics"]] == [name for name in COMPARED if name in document["metrics"]]
    assert next(iter(document["metrics"])) == HEADLINES[0]
    for name, item in document["metrics"].items():
        assert same(item["first"], metrics[0]["metrics"][name]), name
        assert same(item["second"], metrics[1]["metrics"][name]), name
        if item["difference"] is None:
            assert item["first"] is None
            continue
        assert item["difference"] == pytest.approx(item["first"] - item["second"], abs=1e-9)
        if item["interval"] is not None:
            assert item["interval"][0] < item["difference"] < item["interval"][1]
    hits = [[document["per_question"][q["id"]]["accuracy"] for q in QUESTIONS] for document in metrics]
    table = np.zeros((2, 2))
    for first, second in zip(*hits, strict=True):
        table[int(1 - first), int(1 - second)] += 1
    assert document["metrics"]["accuracy"]["mcnemar"]["p_value"] == pytest.approx(mcnemar(table, exact=True).pvalue)
    assert document["metrics"]["average_accuracy"]["mcnemar"] is None
    worst = [{q for q, values in document["per_question"].items() if values["worst_accuracy"]} for document in metrics]
    assert {item["external_id"] for item in document["differing"]["only_first"]} == worst[0] - worst[1]
    assert {item["external_id"] for item in document["differing"]["only_second"]} == worst[1] - worst[0]


def accuracy_differs(first, second):
    """Return the difference in accuracy between questions with these values."""
    return metric_differences({"accuracy": np.array(first, float)}, {"accuracy": np.array(second, float)})["accuracy"]


def test_a_difference_is_over_the_questions_that_both_have():
    nan = float("nan")
    compared = accuracy_differs([1, 0, nan, 1], [0, 0, 1, nan])
    assert (compared["difference"], compared["n"], compared["interval"]) == (0.5, 2, None)
    compared = accuracy_differs([1, nan], [nan, 1])
    assert (compared["difference"], compared["n"], compared["interval"], compared["mcnemar"]) == (None, 0, None, None)


def test_pairing_narrows_the_interval_of_models_that_err_on_the_same_questions():
    generator = np.random.default_rng(0)
    first = (generator.random(500) < 0.6).astype(float)
    second = np.where(generator.random(500) < 0.05, 1 - first, first)
    low, high = accuracy_differs(first, second)["interval"]
    single = mean_intervals(first[:, None])[0]
    assert high - low < single.high - single.low
    assert low < first.mean() - second.mean() < high


def test_a_difference_changes_sign_with_the_models():
    generator = np.random.default_rng(0)
    first, second = generator.random((2, 100)) < [[0.6], [0.4]]
    one, other = accuracy_differs(first, second), accuracy_differs(second, first)
    assert one["difference"] == -other["difference"]
    assert one["interval"] == pytest.approx([-bound for bound in reversed(other["interval"])], abs=1e-12)


def test_models_that_agree_everywhere_may_still_differ_a_little_elsewhere():
    values = [1] * 50 + [0] * 50
    compared = accuracy_differs(values, values)
    assert compared["difference"] == 0
    assert compared["interval"] == pytest.approx([-0.02765, 0.02765], abs=1e-5)


@pytest.mark.one_engine
def test_what_cannot_be_compared_is_said(registry):
    one, _ = two_models(registry)
    registry.benchmark("other", four_options(5, context="Elsewhere."))
    third = import_all(registry, "one", "other", four_options(5), ["cyclic"], skill=1, liking=0, seed=1)[0]
    with read_session(registry.engine) as session:
        with pytest.raises(UsageError, match=r"ask different questions: .* is on b@.* is on other@"):
            compare_evaluations(session, one, third)
        with pytest.raises(UsageError, match="compared with itself"):
            compare_evaluations(session, one, one)
        with pytest.raises(NotFoundError, match="no evaluation 99"):
            compare_evaluations(session, one, 99)


@pytest.mark.one_engine
def test_coras_bootstrap_is_kept_and_needs_one_number_of_variants(registry):
    registry.benchmark("b", QUESTIONS)
    registry.model("one")
    one = import_all(registry, "one", "b", QUESTIONS, ["divergent"], skill=0.8, liking=0.5, seed=1)[0]
    with write_session(registry.engine) as session:
        first = cora_document(session, one)
    with write_session(registry.engine) as session:
        again = cora_document(session, one)
        kept = session.scalars(select(Analysis).filter_by(evaluation_id=one)).all()
        value = evaluation_metrics(session, one)["metrics"]["cora"]
    assert again == first
    assert [item.kind for item in kept].count("cora_over_variants") == 1
    assert first["variants"] == 20
    assert abs(first["mean"] - value) < 0.01
    mixed = [*four_options(3), {"id": "x", "subject": None, "question": "?", "options": ["a", "b"], "answer": 0}]
    registry.benchmark("mixed", mixed)
    other = import_all(registry, "one", "mixed", mixed, ["divergent"], skill=0.8, liking=0.5, seed=1)[0]
    with write_session(registry.engine) as session, pytest.raises(UsageError, match="have 8 to 20 variants"):
        cora_document(session, other)


def test_pride_is_recorded_with_its_estimation_set(registries):
    documents = []
    for each in registries:
        one, _ = two_models(each)
        with read_session(each.engine) as session:
            kept = session.scalars(select(Analysis).filter_by(evaluation_id=one, kind="pride")).all()
            estimation = session.scalars(
                select(QuestionPride.question_id).where(QuestionPride.evaluation_id == one, QuestionPride.estimation)
            ).all()
            value = evaluation_metrics(session, one)["metrics"]["pride_accuracy"]
            assert verify_evaluation(session, one)["ok"]
        assert len(kept) == 1
        assert kept[0].parameters["alpha"] == repr(ALPHA)
        assert len(kept[0].result["estimation"]) == len(estimation) == 3
        assert kept[0].result["pride_accuracy"] == pytest.approx(value)
        with write_session(each.engine) as session:
            other = pride_document(session, one, 0.5)
        assert len(other["estimation"]) == 30
        with read_session(each.engine) as session:
            assert len(session.scalars(select(Analysis).filter_by(evaluation_id=one, kind="pride")).all()) == 2
            assert evaluation_metrics(session, one)["metrics"]["pride_accuracy"] == value
        with write_session(each.engine) as session, pytest.raises(UsageError, match=r"alpha 1\.5: give the share"):
            pride_document(session, one, 1.5)
        documents.append(json.dumps(other, sort_keys=True))
    assert documents[0] == documents[1]

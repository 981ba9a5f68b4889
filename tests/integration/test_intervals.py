"""Intervals of sealed metrics next to their values, with method, resamples and seed, which are stated once."""

import numpy as np
import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import DBAPIError

from registry.db import read_session, write_session
from registry.metrics import METRICS
from registry.scores import intervals
from registry.scores.intervals import METHOD, NONE, fewest_orders
from registry.statistics.bootstrap import RANK_RESAMPLES, RESAMPLES, SEED
from registry.tables import EvaluationMetric
from tests.boards.outputs import import_all
from tests.outputs.conftest import four_options, registries, registry

__all__ = ["registries", "registry"]

QUESTIONS = [
    question | {"subject": "big" if number < 60 else "small"} for number, question in enumerate(four_options(80))
]
STORED = set(METRICS)
NEVER = (
    "accuracy_min",
    "accuracy_max",
    "accuracy_range",
    "accuracy_variance",
    "accuracy_abs_diff",
    "accuracy_median_moved",
)


def evaluate(registry):
    registry.benchmark("b", QUESTIONS)
    return import_all(registry, "m", "b", QUESTIONS, ["cyclic"], skill=0.7, liking=0.8, seed=3)[0]


def list_stated(registry, evaluation_id):
    with read_session(registry.engine) as session:
        rows = session.scalars(select(EvaluationMetric).filter_by(evaluation_id=evaluation_id)).all()
        return {
            (row.scope, row.metric): (
                row.value,
                row.interval_low,
                row.interval_high,
                row.interval_method,
                row.interval_resamples,
                row.interval_seed,
            )
            for row in rows
        }


def test_a_sealed_metric_says_how_its_interval_was_made(registries):
    rounded = []
    for each in registries:
        each.model("m")
        evaluation_id = evaluate(each)
        rows = list_stated(each, evaluation_id)
        for (scope, metric), (value, low, high, method, resamples, seed) in rows.items():
            if low is None:
                assert (high, method, resamples, seed) == (None, NONE, None, None)
            else:
                assert low < value < high, metric
                assert (method, seed) == (METHOD, SEED)
                assert resamples == (RANK_RESAMPLES if ":" in scope else RESAMPLES)
        for metric in (
            "accuracy",
            "worst_accuracy",
            "fluctuation_rate",
            "prob_mass",
            "cora",
            "pct_drop",
            "pride_accuracy",
        ):
            assert rows["all", metric][1] is not None, metric
            assert rows["subject:big", metric][1] is not None, metric
            # Twenty questions are too few.
            assert rows["subject:small", metric][1] is None, metric
        for metric in NEVER:
            assert rows["all", metric][3] == NONE
        assert {metric for scope, metric in rows if scope == "all"} == STORED
        rounded.append(
            {key: [None if item is None else round(item, 9) for item in row[:3]] for key, row in rows.items()}
        )
    assert rounded[0] == rounded[1]


def test_neither_a_sealed_value_nor_its_interval_is_ever_changed(registry):
    of_evaluation = EvaluationMetric.evaluation_id == evaluate(registry)
    for changed in ({"interval_low": 0.0}, {"value": 1.0}):
        statement = update(EvaluationMetric).where(of_evaluation).values(**changed)
        with pytest.raises(DBAPIError, match="never changed"), write_session(registry.engine) as session:
            session.execute(statement)


def test_values_of_questions_are_read_of_several_evaluations_as_of_each(registry, monkeypatch):
    registry.benchmark("b", QUESTIONS)
    ids = []
    for number, variants in enumerate((["cyclic"], ["original"], ["full"])):
        registry.model(f"m{number}")
        ids += import_all(registry, f"m{number}", "b", QUESTIONS, variants, skill=0.7, liking=0.8, seed=number)
    names = ("accuracy", "worst_accuracy", "npsq_accuracy")
    with read_session(registry.engine) as session:
        query = text("SELECT question_id, accuracy, worst_accuracy, npsq_accuracy FROM question_metrics")
        stored = {
            evaluation_id: {
                row[0]: row[1:] for row in session.execute(text(f"{query} WHERE evaluation_id = {evaluation_id}"))
            }
            for evaluation_id in ids
        }
        question_ids = sorted(stored[ids[0]], reverse=True)[:30]
        question_ids[3:3] = [question_ids[-1] + 10**6, 0]  # no questions
        for rows in (1, 70, 20_000):
            monkeypatch.setattr(intervals, "ROWS_READ", rows)
            by_evaluation = dict(intervals.question_values_of_each(session, [*ids, 10**6], question_ids, names))
            assert list(by_evaluation) == [*ids, 10**6]
            for evaluation_id, values in by_evaluation.items():
                nothing = (None,) * len(names)
                expected = [stored.get(evaluation_id, {}).get(question_id, nothing) for question_id in question_ids]
                for place, name in enumerate(names):
                    column = np.array([row[place] for row in expected], dtype=np.float64)
                    assert np.array_equal(values[name], column, equal_nan=True)
        assert not np.isnan(by_evaluation[ids[0]]["worst_accuracy"]).all()
        assert by_evaluation[ids[0]]["accuracy"][3:5] == pytest.approx([np.nan] * 2, nan_ok=True)
        assert dict(intervals.question_values_of_each(session, ids, [], names))[ids[0]]["accuracy"].size == 0


def test_the_fewest_orders_are_those_of_a_question_that_has_several(registry):
    three = [{"id": f"t{n}", "question": f"{n}?", "options": ["p", "q", "r"], "answer": n % 3} for n in range(4)]
    two = [{"id": "u", "question": "?", "options": ["p", "q"], "answer": 0}]
    registry.benchmark("three", three)
    registry.benchmark("mixed", three + two)
    drawn = {"skill": 0.5, "liking": 0.5, "seed": 1}
    cyclic, original, divergent = import_all(
        registry, "m", "three", three, ["cyclic", "original", "divergent"], **drawn
    )
    mixed = import_all(registry, "m", "mixed", three + two, ["cyclic"], **drawn)[0]
    with read_session(registry.engine) as session:
        assert fewest_orders(session, [cyclic, original, divergent, mixed]) == {cyclic: 3, divergent: 2, mixed: 2}

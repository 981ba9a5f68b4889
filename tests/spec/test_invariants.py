"""Chapter 8: properties of every metric under all outcomes.

Only the definitions are tested here; chapter 7 checks that the engines agree with them.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from registry.metrics import METRICS, VariantOutcome
from registry.metrics.permutation import best_accuracy, fluctuation_rate, strong_accuracy, worst_accuracy
from registry.metrics.repeats import average_accuracy
from tests.spec.random_tables import sample_tables
from tests.spec.tables import NEEDS_ONLY_THE_ORIGINAL, TOLERANCE, omit_prompts, python_answers, same

TABLES = sample_tables(150)
OUTCOMES = [[case.outcomes() for case in table] for table in TABLES]
QUESTIONS: list[list[VariantOutcome]] = [question for table in OUTCOMES for question in table]
BMCA = tuple(name for name in METRICS if name.startswith("bmca_"))


def compute_over_questions(*names: str) -> Iterator[list[float]]:
    """Yield the values of several metrics over each table in which all of them are defined."""
    defined = 0
    for table in OUTCOMES:
        values = [METRICS[name].over_questions(table)[0] for name in names]
        if None not in values:
            defined += 1
            yield values
    assert defined > len(TABLES) / 4  # else the tables test little


def test_the_tables_hold_what_they_are_for():
    prompts = [prompt for table in TABLES for case in table for prompt in case.prompts]
    assert {len(case.texts) for table in TABLES for case in table} == set(range(2, 14))
    assert any(prompt.answered and prompt.chosen is None for prompt in prompts)
    assert any(prompt.weights and 0 in prompt.weights and sum(prompt.weights) for prompt in prompts)
    assert any(prompt.weights and not sum(prompt.weights) for prompt in prompts)
    assert any(prompt.weights and prompt.weights.count(max(prompt.weights)) > 1 for prompt in prompts)
    assert any(-1 in prompt.order for prompt in prompts)
    assert any(not prompt.question_shown for prompt in prompts)
    assert any(prompt.without for prompt in prompts)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_defined_somewhere(name: str):
    assert any(METRICS[name].over_questions(table)[0] is not None for table in OUTCOMES)


@pytest.mark.parametrize("name", METRICS)
def test_the_order_of_questions_and_of_lines_is_irrelevant(name: str):
    random = Random(0)
    for table in OUTCOMES:
        shuffled = [random.sample(question, len(question)) for question in random.sample(table, len(table))]
        (one, n), (other, m) = METRICS[name].over_questions(table), METRICS[name].over_questions(shuffled)
        assert same(one, other)
        assert n == m


@pytest.mark.parametrize("name", METRICS)
def test_every_value_lies_in_its_range(name: str):
    metric = METRICS[name]
    values = [metric.over_questions(table)[0] for table in OUTCOMES]
    if metric.per_question is not None:
        values += [metric.per_question(question) for question in QUESTIONS]
    for value in values:
        if value is not None:
            assert metric.low is None or value >= metric.low - TOLERANCE
            assert metric.high is None or value <= metric.high + TOLERANCE


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.per_question is not None])
def test_a_metric_says_whether_its_values_are_all_0_or_1(name: str):
    # Their intervals and comparisons rest on it.
    metric = METRICS[name]
    assert metric.per_question is not None
    values = {metric.per_question(question) for question in QUESTIONS} - {None}
    # The lower end of a bracket is the minimum over orders, not a mean of questions.
    assert metric.zero_or_one == (values <= {0, 1} and name != "worst_order_low")


@pytest.mark.parametrize("name", METRICS)
def test_over_nothing_at_all_nothing_is_defined(name: str):
    assert METRICS[name].over_questions([]) == (None, 0)
    per_question = METRICS[name].per_question
    assert per_question is None or per_question([]) is None


def test_an_unscored_question_never_counts_as_wrong():
    # Each table is followed by another whose questions all lack their last variant.
    for table, other in pairwise(TABLES[:60]):
        unscored = [
            replace(omit_prompts(case, case.prompts[-1].variant), question=f"{case.question}, unscored")
            for case in other
        ]
        alone = python_answers(table).over_questions["all"]
        together = python_answers([*table, *unscored]).over_questions["all"]
        for name in METRICS.keys() - NEEDS_ONLY_THE_ORIGINAL:
            if METRICS[name].over_evaluation is not None:  # has no value before the evaluation is complete
                assert together[name] == (None, 0)
            else:
                assert alone[name] == together[name], name


def test_worst_average_and_best_accuracy_stand_in_this_order():
    for question in QUESTIONS:
        values = [function(question) for function in (worst_accuracy, average_accuracy, best_accuracy)]
        assert None in values or values == sorted(values)
    for worst, best in compute_over_questions("worst_accuracy", "best_accuracy"):
        assert worst <= best + TOLERANCE


def test_worst_accuracy_is_at_most_strong_accuracy():
    for question in QUESTIONS:
        worst, strong = worst_accuracy(question), strong_accuracy(question)
        assert worst is None or worst <= strong
    for worst, strong in compute_over_questions("worst_accuracy", "strong_accuracy"):
        assert worst <= strong + TOLERANCE


def test_nothing_fluctuates_where_every_order_is_right():
    right = [question for question in QUESTIONS if worst_accuracy(question) == 1]
    rates = [fluctuation_rate(question) for question in right]
    assert set(rates) == {0, None}
    for question, rate in zip(right, rates, strict=True):
        orders = [outcome for outcome in question if outcome.own_options and outcome.question_shown]
        assert (rate is None) == (len(orders) < 2)


def test_bmca_falls_with_its_threshold_and_the_majority_lies_between():
    for majority, *curve in compute_over_questions("majority_vote", *BMCA):
        assert curve == sorted(curve, reverse=True)
        assert curve[1] <= majority <= curve[0]


def test_full_consistency_is_at_most_the_mean_response_consistency():
    for full, mean in compute_over_questions("bmca_100", "mcqa_plus"):
        assert full <= mean + TOLERANCE


def test_cora_is_at_most_accuracy():
    # Over the questions that have both: if some have a single order, accuracy is over more of them.
    tested = METRICS["bmca_100"].per_question
    for table in OUTCOMES:
        both = [question for question in table if tested(question) is not None]
        cora, accuracy = (METRICS[name].over_questions(both)[0] for name in ("cora", "accuracy"))
        assert cora is None or cora <= accuracy + TOLERANCE


def test_retest_accuracy_is_at_most_accuracy():
    for question in QUESTIONS:
        retest = METRICS["retest_accuracy"].per_question(question)
        assert retest is None or retest <= METRICS["accuracy"].per_question(question)


def test_the_sensitivity_gap_is_what_lies_between_worst_and_best():
    for gap, best, worst in compute_over_questions("sensitivity_gap", "best_accuracy", "worst_accuracy"):
        assert same(gap, best - worst)


def test_minimum_mean_and_maximum_of_the_runs_stand_in_this_order():
    names = ("accuracy_min", "accuracy_mean_all", "accuracy_max", "accuracy_range", "accuracy_variance")
    for low, mean, high, spread, variance in compute_over_questions(*names):
        assert low - TOLERANCE <= mean <= high + TOLERANCE
        assert same(spread, high - low)
        # Popoviciu: no variance exceeds a quarter of the squared range.
        assert variance <= (100 * spread) ** 2 / 4 + 1e-6

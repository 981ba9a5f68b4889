"""What would rank a board otherwise: other tasks, weights and questions."""

import numpy as np
import pytest

from registry.boards.fragility import (
    ABSENT,
    NO_ANSWER,
    RIGHT,
    Otherwise,
    TaskValues,
    TiersWithoutOrders,
    WithoutOrders,
    fewest_orders,
    fewest_orders_of_tiers,
    fewest_questions,
    otherwise,
    without_models,
)
from registry.scores.intervals import FUNCTIONS_OF_TWO_MEANS


def task(*values, flagged=()):
    base = np.array(values, dtype=float)
    return TaskValues((base,), np.isin(np.arange(base.size), flagged))


def test_ranks_without_a_task_by_question_and_without_flagged_questions():
    # The first is better on the small task, the second on the large one; its first question there is flagged.
    first = [task(1, 1), task(1, 0, 0, 0, 0, 0, flagged=[0])]
    second = [task(0, 1), task(0, 1, 1, 0, 0, 0, flagged=[0])]
    assert otherwise([first, second], ["small", "large"], "higher", None) == [
        Otherwise("without small", (1,), 2, 1),
        Otherwise("without large", (0,), 0, 0),
        Otherwise("every question counts alike", (0, 1), 1, 1),
        Otherwise("without flagged questions", (0,), 0, 0),
    ]


def test_a_board_of_one_task_without_flagged_questions_has_no_other_choice():
    assert otherwise([[task(1, 0)], [task(0, 0)]], ["one"], "higher", None) == []


def test_a_choice_that_leaves_nothing_is_left_out():
    models = [[task(1, 0, flagged=[0, 1])], [task(0, 0, flagged=[0, 1])]]
    assert otherwise(models, ["one"], "higher", None) == []


def test_a_share_of_the_first_mean_is_taken_of_both_macro_means():
    function = FUNCTIONS_OF_TWO_MEANS["pct_drop"]
    assert function.share_of_first

    def model(*pairs):
        return [
            TaskValues((np.array(first, float), np.array(second, float)), np.zeros(len(first), bool))
            for first, second in pairs
        ]

    steady = model(([1, 0], [1, 0]), ([1, 1], [1, 0]))
    shaky = model(([1, 1], [0, 0]), ([1, 1], [1, 1]))
    found = {item.choice: item.first for item in otherwise([steady, shaky], ["a", "b"], "lower", function)}
    assert found == {"without a": (1,), "without b": (0,), "every question counts alike": (0,)}


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_the_fewest_questions_are_those_that_speak_most_for_the_first(better):
    sign = 1 if better == "higher" else -1
    first = [task(*(sign * np.array([1, 1, 1, 1, 0, 0])))]
    close = [task(*(sign * np.array([1, 0, 0, 1, 1, 0])))]
    far = [task(*(sign * np.array([0, 0, 0, 0, 0, 0])))]
    found = fewest_questions([far, first, close], better)
    assert (found.questions, found.of, found.model) == (1, 6, 2)


def test_over_tasks_what_is_found_is_enough():
    generator = np.random.default_rng(0)
    models = [[task(*generator.integers(0, 2, 30)), task(*generator.integers(0, 2, 90))] for _ in range(2)]
    means = [np.mean([one.base[0].mean() for one in model]) for model in models]
    first, other = models if means[0] > means[1] else models[::-1]
    found = fewest_questions(models, "higher")
    differences = [one.base[0] - two.base[0] for one, two in zip(first, other, strict=True)]
    weights = np.concatenate([difference / difference.size for difference in differences])
    gone = np.argsort(-weights, kind="stable")[: found.questions]
    keep = np.isin(np.arange(120), gone, invert=True)
    left = np.concatenate(differences)
    assert np.mean([left[:30][keep[:30]].mean(), left[30:][keep[30:]].mean()]) <= 1e-9


def test_level_models_need_no_question_less_and_one_alone_has_no_rival():
    assert fewest_questions([[task(1, 0)], [task(0, 1)]], "higher").questions == 0
    assert fewest_questions([[task(1, 0)]], "higher") is None


def test_without_its_leader_a_tier_is_drawn_anew():
    # Told apart by more than 2: a from c, not b from either. Without a, b leads and c joins it.
    generator = np.random.default_rng(0)
    values = [3.0, 1.5, 0.0]
    samples = np.array(values) + generator.standard_normal((2000, 3)) * 0.6
    found = without_models(values, samples, "higher", 1000)
    assert [(item.model, item.first, item.tiers) for item in found] == [(0, (1,), 2), (1, (0,), 0), (2, (0,), 0)]
    unsure = without_models(values, None, "lower", 1000)
    assert [(item.model, item.first, item.tiers, item.all_tiers) for item in unsure] == [
        (2, (1,), None, None),
        (1, (2,), None, None),
        (0, (2,), None, None),
    ]
    assert without_models(values[:2], samples[:, :2], "higher", 1000) == []


def in_orders(*rows):
    """Letters by order, one text a question: R right, w another wrong option, x none, - no such order."""
    return np.array(
        [[{"R": RIGHT, "x": NO_ANSWER, "-": ABSENT}.get(letter, ord(letter)) for letter in row] for row in rows]
    )


def test_the_fewest_orders_without_which_another_model_is_first():
    shaky = [in_orders("RRRw", "RRRw", "RRRR", "wwww")]
    steady = [in_orders("RRRR", "RRRR", "wwww", "wwww")]
    assert fewest_orders([shaky, steady], "worst_accuracy", "higher") == WithoutOrders((3,), (0,), 4, 1)
    # On average the steady one has 8 of 16 and the shaky one 10; without the first two orders each has 4 of 8.
    assert fewest_orders([shaky, steady], "average_accuracy", "higher") == WithoutOrders((0, 1), (0, 1), 4, 2)
    same = fewest_orders([steady, [in_orders("wwww", "wwww", "wwww", "wwww")]], "worst_accuracy", "higher")
    assert same == WithoutOrders((), (), 4, 2)


def test_the_fewest_orders_without_which_tiers_change():
    # Over all four orders the steady model is better in 40 of 80 questions; without the last order it is in none.
    shaky = [in_orders(*["RRRw"] * 40, *["wwww"] * 40)]
    steady = [in_orders(*["RRRR"] * 40, *["wwww"] * 40)]
    found = fewest_orders_of_tiers([steady, shaky], "worst_accuracy", "higher")
    assert found == TiersWithoutOrders((3,), 2, 4, 1)
    same = fewest_orders_of_tiers([steady, steady], "worst_accuracy", "higher")
    assert same == TiersWithoutOrders((), 0, 4, 2)
    assert fewest_orders_of_tiers([[in_orders("RRRR")], [in_orders("wwww")]], "worst_accuracy", "higher") is None


def test_a_missing_answer_equals_none_and_a_question_keeps_two_orders():
    stable = [in_orders("RRRR-", "wwwww")]
    lapse, silent = [in_orders("RRxR-", "wwwww")], [in_orders("xxxx-", "wwwww")]
    assert fewest_orders([lapse, stable], "fluctuation_rate", "lower") == WithoutOrders((2,), (0, 1), 5, 1)
    assert fewest_orders([silent, stable], "fluctuation_rate", "lower") == WithoutOrders((), (), 5, 2)
    assert fewest_orders([[in_orders("RR")], [in_orders("ww")]], "worst_accuracy", "higher") is None
    assert fewest_orders([stable], "worst_accuracy", "higher") is None

"""Chapter 1: orders of one question. Goliakova et al., Eq. 1 to 9; Gupta et al., Eq. 1.

m₁ is the option chosen under the first order of the set R, a the right one.
"""

from dataclasses import replace

import pytest

from registry.metrics import METRICS
from tests.spec.tables import hits, read_table

EXAMPLE_E = """
    question | variant | order   | chosen | answer
    q1       | 0       | 0 1 2 3 | 1      | 1
    q1       | 1       | 1 2 3 0 | 1      |
    q1       | 2       | 2 3 0 1 | 1      |
    q1       | 3       | 3 0 1 2 | 2      |
    """


def test_example_e_of_the_contract(spec):
    # Four options, the right one is b; the four rotations are answered b, b, b, c.
    values = {
        "accuracy": 1.0,
        "fluctuation_rate": 1.0,  # c differs from the first answer
        "average_accuracy": 0.75,  # 3 of 4
        "strong_accuracy": 0.75,  # the first is right; 3 of 4 agree with it, itself included
        "worst_accuracy": 0.0,
        "best_accuracy": 1.0,
        "sensitivity_gap": 1.0,  # 1 − 0
        "retest_accuracy": 2 / 3,  # right at first, and 2 of the 3 others
        "score": 0.5,  # b, b, b make 3 equal pairs of 6
        "pct_drop": 100 / 3,  # 100 (1 − ⅔) / 1
    }
    spec(EXAMPLE_E, values, per_question={"q1": {name: value for name, value in values.items() if name != "pct_drop"}})


def test_an_answer_is_the_content_and_not_the_letter(spec):
    # "The first position" twice: option 0, then option 2. Two different answers; one is right.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1 2 | 0      | 0
        q1       | 1       | 2 0 1 | 2      |
        """,
        {"fluctuation_rate": 1.0, "average_accuracy": 0.5, "score": 0.0},
    )


def test_a_model_that_follows_the_position_is_right_once_in_a_cycle(spec):
    # Position 0 throughout: contents 0, 1, 2, and the right one is 2.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1 2 | 0      | 2
        q1       | 1       | 1 2 0 | 1      |
        q1       | 2       | 2 0 1 | 2      |
        """,
        {"average_accuracy": 1 / 3, "worst_accuracy": 0.0, "best_accuracy": 1.0, "strong_accuracy": 0.0, "score": 0.0},
    )


def test_consistently_wrong_is_consistent_and_wrong(spec):
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1 2 | 1      | 2
        q1       | 1       | 1 2 0 | 1      |
        q1       | 2       | 2 0 1 | 1      |
        """,
        {
            "fluctuation_rate": 0.0,
            "score": 1.0,
            "strong_accuracy": 0.0,
            "retest_accuracy": 0.0,
            "average_accuracy": 0.0,
            "sensitivity_gap": 0.0,
        },
    )


UNTESTED = dict.fromkeys(
    (
        *("average_accuracy", "worst_accuracy", "best_accuracy", "strong_accuracy", "retest_accuracy"),
        *("sensitivity_gap", "fluctuation_rate", "pct_drop", "score", "mcqa_plus", "majority_vote"),
        *("bmca_50", "bmca_60", "bmca_70", "bmca_80", "bmca_90", "bmca_100", "consistency_index", "cora"),
        *(name for name, metric in METRICS.items() if metric.over_runs is not None),
    )
)
"""Metrics of robustness (common rule 8), which have no value here."""


def test_one_order_says_nothing_of_how_an_answer_holds_up(spec):
    spec(
        """
        question | variant | chosen | answer | probabilities
        q1       | 0       | 1      | 1      | .2 .8
        """,
        UNTESTED | {"accuracy": 1.0, "prob_mass": 0.8, "brier_score": 0.08},
        counts={"worst_accuracy": 0, "fluctuation_rate": 0, "accuracy_mean_all": 0, "accuracy": 1},
    )


def test_repeats_of_one_prompt_are_no_orders(spec):
    # Three answers to one prompt: any difference is repeat noise, not an effect of the order.
    spec(
        """
        question | variant | chosen | answer | probabilities
        q1       | 0       | 1      | 1      | .2 .8
        q1       | 1       | 0      |        | .6 .4
        q1       | 2       | 1      |        | .3 .7
        """,
        UNTESTED | {"accuracy": 1.0, "prob_mass": 1.9 / 3},
    )


def test_orders_of_options_that_are_not_listed_are_one_prompt(spec):
    # A protocol such as cloze scores the options without showing them: it shows the same prompt in every order.
    cases = read_table(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1 2 | 1      | 1
        q1       | 1       | 1 2 0 | 1      |
        q1       | 2       | 2 0 1 | 0      |
        q1       | 3       | 1 2 0 | 2      |
        """
    )
    chance = dict.fromkeys(("right_in_every_order", "order_loss", "worst_order_low", "worst_order_high"))
    spec([replace(case, listed=False) for case in cases], UNTESTED | chance | {"accuracy": 1.0})


def test_where_orders_and_repeats_mix_every_variant_counts(spec):
    # Two distinct prompts, one with three answers: all four count as listed, but average accuracy is the mean of 2/3
    # and 1.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1   | 1      | 1
        q1       | 1       | 0 1   | 0      |
        q1       | 2       | 1 0   | 1      |
        q1       | 3       | 0 1   | 1      |
        """,
        {"average_accuracy": 5 / 6, "retest_accuracy": 2 / 3, "score": 0.5, "mcqa_plus": 0.75, "bmca_70": 1.0},
    )


def test_labels_and_inserted_options_change_the_prompt_a_hidden_question_removes_it(spec):
    spec(
        """
        question | variant | order  | chosen | answer | labels   | question shown
        labels   | 0       | 0 1    | 1      | 1      |          |
        labels   | 1       | 0 1    | 1      |        | reversed |
        inserted | 0       | 0 1    | 1      | 1      |          |
        inserted | 1       | 0 1 -1 | 1      |        |          |
        hidden   | 0       | 0 1    | 1      | 1      |          |
        hidden   | 1       | 0 1    | 1      |        |          | no
        """,
        per_question={
            "labels": {"worst_accuracy": 1.0, "mcqa_plus": 1.0},
            "inserted": {"worst_accuracy": 1.0, "mcqa_plus": 1.0},
            "hidden": {"worst_accuracy": None, "mcqa_plus": None},
        },
    )


def test_a_silent_model_is_wrong_and_never_consistent(spec):
    # Three missing answers equal nothing, not even each other.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1 2 | -      | 0
        q1       | 1       | 1 2 0 | -      |
        q1       | 2       | 2 0 1 | -      |
        """,
        {
            "accuracy": 0.0,
            "fluctuation_rate": 1.0,
            "average_accuracy": 0.0,
            "strong_accuracy": 0.0,
            "best_accuracy": 0.0,
            "sensitivity_gap": 0.0,
            "retest_accuracy": 0.0,
            "score": 0.0,
            "mcqa_plus": 0.0,
            "majority_vote": 0.0,
        },
    )


def test_a_missing_answer_counts_among_the_orders(spec):
    # b, –, b: 2 of 3 right; one equal pair of three; the silence is a change of mind.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1 2 | 1      | 1
        q1       | 1       | 1 2 0 | -      |
        q1       | 2       | 2 0 1 | 1      |
        """,
        {
            "average_accuracy": 2 / 3,
            "strong_accuracy": 2 / 3,
            "retest_accuracy": 0.5,
            "fluctuation_rate": 1.0,
            "worst_accuracy": 0.0,
            "score": 1 / 3,
        },
    )


def test_a_missing_first_answer_agrees_with_no_later_one(spec):
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1 2 | -      | 1
        q1       | 1       | 1 2 0 | 1      |
        q1       | 2       | 2 0 1 | 1      |
        """,
        {"accuracy": 0.0, "strong_accuracy": 0.0, "fluctuation_rate": 1.0, "score": 1 / 3, "average_accuracy": 2 / 3},
    )


def test_without_the_original_order_nothing_is_said_about_it(spec):
    # Random orders need not contain the original.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 1 2 0 | 1      | 1
        q1       | 1       | 2 0 1 | 1      |
        """,
        {
            "accuracy": None,
            "retest_accuracy": None,
            "pct_drop": None,
            "cora": None,
            "consistency_index": None,
            "accuracy_mean_moved": None,
            "accuracy_median_moved": None,
            "accuracy_abs_diff": None,
            "average_accuracy": 1.0,
            "worst_accuracy": 1.0,
            "strong_accuracy": 1.0,
            "fluctuation_rate": 0.0,
            "mcqa_plus": 1.0,
            "accuracy_mean_all": 1.0,
        },
        counts={"accuracy": 0, "average_accuracy": 1, "cora": 0},
    )


def test_the_original_need_not_come_first(spec):
    # randomL for three options: ranks 3, 5, 0. The original is the last of them; m₁ stays the first, and is wrong.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 1 2 0 | 2      | 1
        q1       | 1       | 2 1 0 | 1      |
        q1       | 2       | 0 1 2 | 1      |
        """,
        {
            "accuracy": 1.0,
            "retest_accuracy": 0.5,  # right on the original; the others are wrong and right
            "strong_accuracy": 0.0,
            "fluctuation_rate": 1.0,
            "accuracy_mean_moved": 0.5,
            "accuracy_abs_diff": 0.5,
        },
    )


def test_a_draw_that_equals_the_original_order_is_another_order(spec):
    # The lowest of the two is the original; the second is one of the M = 2 others. Average accuracy: (1/2 + 1)/2.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1 2 | 1      | 1
        q1       | 1       | 0 1 2 | 2      |
        q1       | 2       | 2 0 1 | 1      |
        """,
        {"accuracy": 1.0, "retest_accuracy": 0.5, "average_accuracy": 0.75, "fluctuation_rate": 1.0},
    )


def test_ordinals_may_have_gaps(spec):
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 3       | 0 1 2 | 1      | 1
        q1       | 7       | 1 2 0 | 1      |
        q1       | 20      | 2 0 1 | 0      |
        """,
        {"accuracy": 1.0, "strong_accuracy": 2 / 3, "retest_accuracy": 0.5},
    )


def test_the_order_of_lines_is_irrelevant(spec):
    # m₁ belongs to the lowest ordinal, on any line.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 2       | 2 0 1 | 0      | 1
        q1       | 0       | 0 1 2 | 1      |
        q1       | 1       | 1 2 0 | 1      |
        """,
        {"accuracy": 1.0, "strong_accuracy": 2 / 3},
    )


def test_another_scheme_of_labels_is_another_order_but_not_the_original(spec):
    # Relabelled: exactly the question's own options, so it counts in R; only the unlabelled line is the original.
    spec(
        """
        question | variant | chosen | answer | labels
        q1       | 1       | 0      | 1      | reversed
        q1       | 2       | 1      |        |
        """,
        {"accuracy": 1.0, "average_accuracy": 0.5, "retest_accuracy": 0.0, "strong_accuracy": 0.0},
    )


def test_inserted_options_and_hidden_questions_are_no_orders_of_the_question(spec):
    # Of four prompts only the first two show exactly the question's own options with the question.
    spec(
        """
        question | variant | order  | chosen | answer | question shown
        q1       | 0       | 0 1 2  | 1      | 1      |
        q1       | 1       | 1 2 0  | 1      |        |
        q1       | 2       | 0 1 -1 | -1     |        |
        q1       | 3       | 0 1 2  | 0      |        | no
        """,
        {
            "average_accuracy": 1.0,
            "worst_accuracy": 1.0,
            "fluctuation_rate": 0.0,
            "retest_accuracy": 1.0,
            "score": 1.0,
            "accuracy_mean_all": 1.0,
            "mcqa_plus": 2 / 3,  # the CoRA family counts the altered one, too
        },
    )


def test_a_question_that_was_only_altered_has_no_order(spec):
    spec(
        """
        question | variant | order  | chosen | answer | options
        q1       | 0       | 0 1 -1 | 1      | 1      | 3
        q1       | 1       | 1 2    | 1      |        |
        """,
        {
            "accuracy": None,
            "average_accuracy": None,
            "worst_accuracy": None,
            "best_accuracy": None,
            "sensitivity_gap": None,
            "strong_accuracy": None,
            "fluctuation_rate": None,
            "score": None,
            "accuracy_mean_all": None,
            "accuracy_min": None,
            "mcqa_plus": 1.0,
            "cora": None,
        },
    )


@pytest.mark.parametrize(
    ("marks", "strong", "retest"),
    [
        # SAcc = (V₀ + M·retest) / (M + 1)
        ("1111", 1.0, 1.0),  # (1 + 3·1) / 4
        ("1101", 0.75, 2 / 3),  # (1 + 3·⅔) / 4
        ("1000", 0.25, 0.0),  # (1 + 3·0) / 4
        ("0111", 0.0, 0.0),  # (0 + 3·0) / 4
        ("1-1", 2 / 3, 0.5),  # (1 + 2·½) / 3
    ],
)
def test_strong_accuracy_is_retest_accuracy_with_the_original_among_the_orders(spec, marks, strong, retest):
    others = len(marks) - 1
    assert strong == pytest.approx(((marks[0] == "1") + others * retest) / (others + 1))
    spec(hits(q1=marks), {"strong_accuracy": strong, "retest_accuracy": retest})


@pytest.mark.parametrize(("marks", "worst", "strong"), [("11", 1, 1), ("10", 0, 0.5), ("01", 0, 0), ("00", 0, 0)])
def test_on_two_orders_retest_accuracy_equals_worst_accuracy(spec, marks, worst, strong):
    # [G] claims this for its Eq. 3; it is true of Gupta et al.'s metric. "10": SAcc = ½, WAcc = 0.
    spec(hits(q1=marks), {"retest_accuracy": worst, "worst_accuracy": worst, "strong_accuracy": strong})


def test_a_drop_from_fifty_to_forty_percent_is_twenty_percent(spec):
    # Ten questions, five right on the original, four of them again: 100 (.5 − .4) / .5 = 20.
    questions = {f"q{number}": marks for number, marks in enumerate(["11"] * 4 + ["10"] + ["01"] * 2 + ["00"] * 3)}
    spec(hits(**questions), {"accuracy": 0.5, "retest_accuracy": 0.4, "pct_drop": 20.0}, counts={"pct_drop": 10})


def test_nothing_can_drop_from_zero(spec):
    spec(hits(q1="01", q2="00"), {"accuracy": 0.0, "retest_accuracy": 0.0, "pct_drop": None})


def test_numbers_of_variants_may_differ_and_every_question_counts_once(spec):
    # AAcc: (1/2 + 4/4) / 2; q3 has one order only, and is in none of them.
    spec(
        hits(q1="10", q2="1111", q3="1"),
        {"accuracy": 1.0, "average_accuracy": 0.75, "fluctuation_rate": 0.5, "score": 0.5, "worst_accuracy": 0.5},
        counts={"accuracy": 3, "average_accuracy": 2, "fluctuation_rate": 2, "score": 2, "retest_accuracy": 2},
    )


def test_numbers_of_options_may_differ_from_two_to_thirteen(spec):
    spec(
        """
        question | variant | order                      | chosen | answer
        two      | 0       | 0 1                        | 1      | 1
        two      | 1       | 1 0                        | 1      |
        thirteen | 0       | 0 1 2 3 4 5 6 7 8 9 10 11 12 | 12     | 12
        thirteen | 1       | 12 11 10 9 8 7 6 5 4 3 2 1 0 | 0      |
        """,
        {"average_accuracy": 0.75, "worst_accuracy": 0.5, "fluctuation_rate": 0.5, "retest_accuracy": 0.5},
    )

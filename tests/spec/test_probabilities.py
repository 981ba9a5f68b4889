"""Chapter 2: probabilities of the labels. Goliakova et al., Prob, BS and EN.

Probabilities are renormalised over the labels shown. H(.8) = −.8 log₂ .8 − .2 log₂ .2 = .7219280948873623 bits.
"""

import math

from tests.spec.tables import read_table

H_8 = 0.7219280948873623
PROBABILITY_METRICS = ("prob_mass", "brier_score", "entropy")
UNDEFINED = dict.fromkeys(PROBABILITY_METRICS)


def test_the_example_of_the_contract(spec):
    # Two options, the right one first: (.8, .2); then reversed, with weights (.4, .4), that is (.5, .5).
    # Prob: (.8 + .5) / 2. BS: ((.2² + .2²) + (.5² + .5²)) / 2 = (.08 + .5) / 2. EN: (.7219 + 1) / 2 = .861.
    values = {"prob_mass": 0.65, "brier_score": 0.29, "entropy": (H_8 + 1) / 2}
    assert round((H_8 + 1) / 2, 3) == 0.861
    spec(
        """
        question | variant | order | chosen | answer | probabilities
        q1       | 0       | 0 1   | 0      | 0      | .8 .2
        q1       | 1       | 1 0   | 1      |        | .4 .4
        """,
        values,
        per_question={"q1": values},
    )


def test_weights_of_any_sum_are_shares_of_one_whole(spec):
    # (3, 1) is (.75, .25): BS = 2 · .25² = .125.
    spec(
        """
        question | variant | answer | probabilities
        q1       | 0       | 0      | 3 1
        """,
        {"prob_mass": 0.75, "brier_score": 0.125, "accuracy": 1.0},
    )


def test_log_probabilities_are_renormalised_too(spec):
    # e^−1 against e^−3: 1 / (1 + e^−2) = .8808.
    right = 1 / (1 + math.exp(-2))
    spec(
        """
        question | variant | answer | logprobs
        q1       | 0       | 0      | -1 -3
        """,
        {"prob_mass": right, "brier_score": 2 * (1 - right) ** 2, "accuracy": 1.0},
    )


def test_log_probabilities_too_small_for_a_probability_are_still_compared(spec):
    # e^−1000 is 0 in float64, e^−1000 / (e^−1000 + e^−1000) is one half. The tie goes to the lowest position. The
    # simple reference cannot compute this; both engines can.
    answers = spec.engines.answers(
        [read_table("question | variant | answer | logprobs\nq1 | 0 | 1 | -1000 -1000")],
    )[0]
    for engine in answers:
        assert engine.per_question["q1"]["prob_mass"] == 0.5
        assert engine.per_question["q1"]["accuracy"] == 0.0


def test_zero_times_log_zero_is_zero(spec):
    # (1, 0): no doubt at all. Certain and right: BS 0; certain and wrong: BS 2.
    spec(
        """
        question | variant | answer | probabilities
        right    | 0       | 0      | 1 0
        wrong    | 0       | 1      | 1 0
        """,
        {"entropy": 0.0, "prob_mass": 0.5, "brier_score": 1.0},
        per_question={"right": {"brier_score": 0.0, "entropy": 0.0}, "wrong": {"brier_score": 2.0, "entropy": 0.0}},
    )


def test_entropy_is_measured_against_the_number_of_options_shown(spec):
    # Four equal shares: log₂ 4 / log₂ 4 = 1. Half and half of four: 1 / 2. Thirteen equal shares: 1.
    spec(
        """
        question | variant | answer | probabilities
        even     | 0       | 0      | 1 1 1 1
        two      | 0       | 0      | 1 1 0 0
        thirteen | 0       | 0      | 1 1 1 1 1 1 1 1 1 1 1 1 1
        """,
        per_question={
            "even": {"entropy": 1.0, "prob_mass": 0.25, "brier_score": 0.75},  # (3/4)² + 3 (1/4)²
            "two": {"entropy": 0.5, "brier_score": 0.5},
            "thirteen": {"entropy": 1.0, "prob_mass": 1 / 13},
        },
    )


def test_all_zero_weights_are_no_probabilities_and_no_answer(spec):
    spec(
        """
        question | variant | answer | probabilities
        q1       | 0       | 0      | 0 0
        """,
        UNDEFINED | {"accuracy": 0.0},
    )


def test_one_order_without_probabilities_leaves_the_question_undefined(spec):
    spec(
        """
        question | variant | order | chosen | answer | probabilities
        lacking  | 0       | 0 1   | 0      | 0      | .8 .2
        lacking  | 1       | 1 0   | 0      |        |
        zero     | 0       | 0 1   | 0      | 0      | .8 .2
        zero     | 1       | 1 0   | 0      |        | 0 0
        complete | 0       | 0 1   | 0      | 0      | .8 .2
        """,
        {"prob_mass": 0.8, "average_accuracy": 1.0},
        per_question={"lacking": UNDEFINED, "zero": UNDEFINED, "complete": {"prob_mass": 0.8}},
        counts=dict.fromkeys(PROBABILITY_METRICS, 1),
    )


def test_probabilities_of_altered_variants_do_not_count(spec):
    # The decoupled prompt shows two of three options: not an order of the question.
    spec(
        """
        question | variant | order | chosen | answer | probabilities
        q1       | 0       | 0 1 2 | 0      | 0      | .5 .25 .25
        q1       | 1       | 0 1   | 0      |        | .9 .1
        """,
        {"prob_mass": 0.5, "brier_score": 0.25 + 0.125},
    )


def test_an_altered_variant_without_probabilities_leaves_them_defined(spec):
    spec(
        """
        question | variant | order | chosen | answer | probabilities
        q1       | 0       | 0 1 2 | 0      | 0      | .5 .25 .25
        q1       | 1       | 0 1   | 0      |        |
        """,
        {"prob_mass": 0.5},
    )


def test_the_answer_is_the_highest_share_the_lowest_position_on_ties(spec):
    # Positions 1 and 2 tie; position 1 has option 2 in the original's reverse.
    spec(
        """
        question | variant | order | answer | probabilities
        original | 0       | 0 1 2 | 1      | .2 .4 .4
        reversed | 0       | 2 1 0 | 0      | .2 .4 .4
        reversed | 1       | 1 2 0 |        | .2 .4 .4
        """,
        per_question={"original": {"accuracy": 1.0}, "reversed": {"average_accuracy": 0.0, "accuracy": None}},
    )


def test_a_stated_answer_stands_against_the_probabilities(spec):
    # Generated text may differ from the probabilities; null is "no valid answer" even then.
    spec(
        """
        question | variant | order | chosen | answer | probabilities
        stated   | 0       | 0 1   | 1      | 1      | .9 .1
        silent   | 0       | 0 1   | -      | 0      | .9 .1
        """,
        {"accuracy": 0.5},
        per_question={"stated": {"accuracy": 1.0, "prob_mass": 0.1}, "silent": {"accuracy": 0.0, "prob_mass": 0.9}},
    )

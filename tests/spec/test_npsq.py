"""Chapter 5: how much the choices alone reveal, and how much the question adds. Cho et al.

`logprobs` is log P(x|Q,C), `without` log P(x|C). NPSQ = (log P(x|Q,C) − log P(x|C)) / −log P(x|C).
"""

import pytest

from registry.metrics.npsq import npsq

CHOICE_METRICS = (
    "npsq_correct",
    "npsq_accuracy",
    "choice_only_accuracy",
    "choice_sensitivity",
    "choice_sensitivity_normalized",
)
UNDEFINED = dict.fromkeys(CHOICE_METRICS)


def test_the_example_of_the_contract(spec):
    # (−1|−4): 3/4. (−2|−2.5): .5/2.5. Δchoice = −4 + 2.5 = −1.5; the gap is 1, so Δquestion = 2.5.
    spec(
        """
        question | variant | answer | logprobs | without
        q1       | 0       | 0      | -1 -2    | -4 -2.5
        """,
        {
            "npsq_correct": 0.75,
            "npsq_accuracy": 1.0,
            "choice_sensitivity": 0.0,
            "choice_sensitivity_normalized": 0.0,
            "choice_only_accuracy": 0.0,  # −2.5 is the higher, and wrong
            "accuracy": 1.0,
            "accuracy_normalized": 1.0,
        },
    )


def test_a_question_that_adds_nothing_scores_zero(spec):
    spec(
        """
        question | variant | answer | logprobs | without
        q1       | 0       | 1      | -3 -3    | -3 -3
        """,
        {"npsq_correct": 0.0, "npsq_accuracy": 0.0, "choice_sensitivity": 0.0},  # ties go to position 0
    )


def test_a_question_that_misleads_scores_below_zero(spec):
    # (−6 + 2)/2 = −2: there is no lower bound.
    spec(
        """
        question | variant | answer | logprobs | without
        q1       | 0       | 0      | -6 -1    | -2 -2
        """,
        {"npsq_correct": -2.0, "npsq_accuracy": 0.0},
    )


def test_any_base_of_the_logarithm_gives_the_same():
    # Both are divided by log 2 to turn nats into bits.
    assert npsq(-1 / 0.6931471805599453, -4 / 0.6931471805599453) == pytest.approx(npsq(-1, -4))


def test_nothing_is_left_to_close_where_the_choices_alone_are_certain(spec):
    # log P(x|C) = 0 at the right option: npsq_correct undefined. At any option: no highest NPSQ.
    spec(
        """
        question | variant | answer | logprobs | without
        right    | 0       | 0      | -1 -2    | 0 -2
        other    | 0       | 1      | -1 -2    | 0 -4
        """,
        {"npsq_correct": 0.5},
        per_question={
            "right": {"npsq_correct": None, "npsq_accuracy": None, "choice_only_accuracy": 1.0},
            "other": {"npsq_correct": 0.5, "npsq_accuracy": None, "choice_only_accuracy": 0.0},
        },
        counts={"npsq_correct": 1, "npsq_accuracy": 0, "choice_only_accuracy": 2},
    )


def test_choosing_by_npsq_can_be_right_where_probability_is_wrong(spec):
    # Option 0 is likely anyway (−1|−1.25): .2; the question lifts option 1 (−2|−8): .75.
    spec(
        """
        question | variant | answer | logprobs | without
        q1       | 0       | 1      | -1 -2    | -1.25 -8
        """,
        {"accuracy": 0.0, "npsq_accuracy": 1.0, "npsq_correct": 0.75, "choice_only_accuracy": 0.0},
    )


@pytest.mark.parametrize(
    ("logprobs", "without", "sensitive"),
    [
        ("-1 -3", "-2 -3.5", 1.0),  # Δchoice 1.5, the gap is 2, Δquestion .5
        ("-1 -3", "-2 -3", 0.0),  # Δchoice 1 = Δquestion 1, but the rule needs strictly more
        ("-1 -3", "-2 -2", 0.0),  # Δchoice 0, Δquestion 2
        ("-1 -3", "-2 -9", 1.0),  # Δchoice 7, Δquestion −5
        ("-1 -1", "-3 -2", 0.0),  # a tie: x₁ is position 0; Δchoice −1, Δquestion 1
        ("-1 -1", "-2 -3", 1.0),  # the same tie the other way round
        ("-3 -1", "-3 -2", 0.0),  # x₁ is position 1; Δchoice 1, Δquestion 1
        ("-9 -1 -3", "-1 -2 -3.5", 1.0),  # only the two leading options count: 1.5 against .5
        ("-1 -3 -3", "-2 -3 -9", 0.0),  # x₂ is the lower position of a tie: 1 against 1
    ],
)
def test_choices_must_weigh_strictly_more_than_the_question(spec, logprobs, without, sensitive):
    spec(
        f"question | variant | answer | logprobs | without\nq1 | 0 | 0 | {logprobs} | {without}",
        {"choice_sensitivity": sensitive},
    )


def test_length_normalisation_divides_by_bytes_and_not_by_characters(spec):
    # "éé" has two characters and four bytes: −4/4 = −1 beats −3/2. By characters −4/2 = −2 would lose.
    # Without the question −8/4 = −2 against −4/2 = −2: Δchoice 0, Δquestion ½. Raw: x₁ is "no" (−3), Δchoice −4 + 8.
    spec(
        """
        question | variant | answer | logprobs | without | texts
        q1       | 0       | 0      | -4 -3    | -8 -4   | éé no
        """,
        {
            "accuracy": 0.0,
            "accuracy_normalized": 1.0,
            "choice_sensitivity": 1.0,  # 4 > 1 − 4
            "choice_sensitivity_normalized": 0.0,  # 0 > ½ is false
            "npsq_correct": 0.5,  # (−4 + 8)/8, whatever the length
        },
    )


def test_a_tie_after_normalisation_goes_to_the_lowest_position(spec):
    # −2/2 and −3/3.
    spec(
        """
        question | variant | answer | logprobs | texts
        q1       | 0       | 1      | -2 -3    | no yes
        """,
        {"accuracy_normalized": 0.0, "accuracy": 0.0},
    )


def test_without_log_probabilities_there_is_no_normalised_accuracy(spec):
    spec(
        """
        question | variant | answer | probabilities
        q1       | 0       | 0      | .9 .1
        """,
        UNDEFINED | {"accuracy_normalized": None, "accuracy": 1.0},
    )


def test_normalised_accuracy_is_over_the_questions_of_accuracy_or_undefined(spec):
    spec(
        """
        question | variant | answer | logprobs | chosen
        q1       | 0       | 0      | -1 -2    |
        q2       | 0       | 0      |          | 1
        q3       | 0       | 0      |          | 0
        """,
        {"accuracy": 2 / 3, "accuracy_normalized": None},
        per_question={"q1": {"accuracy_normalized": 1.0}, "q2": {"accuracy_normalized": None}},
        counts={"accuracy": 3, "accuracy_normalized": 1},
    )


def test_without_the_counterpart_there_is_no_npsq(spec):
    spec(
        """
        question | variant | answer | logprobs
        q1       | 0       | 0      | -1 -2
        """,
        UNDEFINED | {"accuracy_normalized": 1.0},
    )


def test_the_original_is_what_choice_metrics_are_taken_on(spec):
    # Variant 1 would give .75 and right; the original gives (−3 + 4)/4 and chooses option 1.
    spec(
        """
        question | variant | order | answer | logprobs | without
        q1       | 1       | 1 0   | 0      | -2 -1    | -2.5 -4
        q1       | 0       | 0 1   |        | -3 -1    | -4 -4
        """,
        {"npsq_correct": 0.25, "npsq_accuracy": 0.0, "accuracy_normalized": 0.0},
    )


def test_without_an_original_they_are_taken_on_the_first_order(spec):
    # The right option is second: (−1|−4).
    spec(
        """
        question | variant | order | answer | logprobs | without
        q1       | 0       | 1 0   | 0      | -2 -1    | -2.5 -4
        q1       | 1       | 1 0   |        | -2 -1    | -2 -1
        """,
        {"npsq_correct": 0.75, "npsq_accuracy": 1.0, "accuracy_normalized": None},
    )


def test_the_prompt_without_the_question_is_no_variant_of_it(spec):
    # choice-only: variant 1 leaves the question out. It counts in no accuracy, not even in the CoRA family's.
    spec(
        """
        question | variant | answer | logprobs | without | question shown
        q1       | 0       | 0      | -1 -2    | -4 -2.5 |
        q1       | 1       |        | -4 -2.5  |         | no
        """,
        {"accuracy": 1.0, "average_accuracy": None, "mcqa_plus": None, "fluctuation_rate": None, "npsq_correct": 0.75},
    )


def test_means_are_over_the_questions_that_have_a_value(spec):
    spec(
        """
        question | variant | chosen | answer | logprobs | without
        q1       | 0       |        | 0      | -1 -2    | -4 -2.5
        q2       | 0       |        | 0      | -6 -1    | -2 -2
        q3       | 0       | 1      | 0      |          |
        """,
        {"npsq_correct": (0.75 - 2) / 2, "npsq_accuracy": 0.5, "accuracy": 1 / 3},
        counts={"npsq_correct": 2, "npsq_accuracy": 2, "accuracy": 3},
    )

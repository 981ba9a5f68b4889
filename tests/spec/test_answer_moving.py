"""Chapter 4: accuracy run by run, and agreement between runs. Nowak et al., Tables 5 to 11 and Eq. 2.

A run is one variant ordinal over all questions that have it. Accuracies are fractions here, percent in the paper; the
variance is in squared percentage points, as there.
"""

import pytest

from registry.metrics import METRICS
from tests.spec.tables import hits

OVER_RUNS = [name for name, metric in METRICS.items() if metric.over_runs is not None]
# Accuracies .6 (original), .7, .8 over ten questions.
SIXTY_SEVENTY_EIGHTY = ["111"] * 6 + ["011", "001", "000", "000"]


def test_sixty_seventy_eighty(spec):
    # mean of all (60 + 70 + 80)/3; moved (70 + 80)/2; |60 − 75|; ((−10)² + 0 + 10²)/3 = 66.67.
    spec(
        hits(**{f"q{number}": marks for number, marks in enumerate(SIXTY_SEVENTY_EIGHTY)}),
        {
            "accuracy": 0.6,
            "accuracy_mean_all": 0.7,
            "accuracy_mean_moved": 0.75,
            "accuracy_median_moved": 0.75,
            "accuracy_abs_diff": 0.15,
            "accuracy_variance": 200 / 3,
            "accuracy_min": 0.6,
            "accuracy_max": 0.8,
            "accuracy_range": 0.2,
        },
    )


def test_an_odd_number_of_moved_runs_has_a_run_in_the_middle(spec):
    # Moved runs of two questions: 0, 1, ½: median ½, mean ½. Then 0, 1, 1: median 1, mean ⅔.
    spec(hits(q1="1011", q2="1010"), {"accuracy_median_moved": 0.5, "accuracy_mean_moved": 0.5})
    spec(hits(q1="1011", q2="1011"), {"accuracy_median_moved": 1.0, "accuracy_mean_moved": 2 / 3})


def test_an_even_number_of_moved_runs_has_two(spec):
    # Moved 0, 0, ½, 1: (0 + ½)/2.
    spec(hits(q1="10011", q2="10001"), {"accuracy_median_moved": 0.25, "accuracy_mean_moved": 0.375})


def test_a_run_covers_the_questions_that_have_it(spec):
    # Runs 0, 1, 2 of both questions and run 3 of the three-option question alone: 1, ½, ½, 0.
    spec(
        """
        question | variant | order | chosen | answer
        two      | 0       | 0 1   | 0      | 0
        two      | 1       | 0 1   | 0      |
        two      | 2       | 1 0   | 1      |
        three    | 0       | 0 1 2 | 2      | 2
        three    | 1       | 2 1 0 | 1      |
        three    | 2       | 0 2 1 | 2      |
        three    | 3       | 0 1 2 | 0      |
        """,
        {
            "accuracy_mean_all": 0.5,
            "accuracy_mean_moved": 1 / 3,
            "accuracy_min": 0.0,
            "accuracy_max": 1.0,
            "accuracy_variance": 1250.0,  # (50² + 0 + 0 + 50²)/4
        },
    )


def test_a_question_asked_in_one_prompt_is_in_no_run(spec):
    # q2 has one prompt twice: repeat noise, and no order. The runs are over q1 alone.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1   | 0      | 0
        q1       | 1       | 1 0   | 1      |
        q2       | 0       | 0 1   | 1      | 0
        q2       | 1       | 0 1   | 0      |
        """,
        {"accuracy": 0.5, "accuracy_mean_all": 0.5, "accuracy_min": 0.0, "accuracy_max": 1.0},
        counts={"accuracy": 2, "accuracy_mean_all": 1, "accuracy_variance": 1},
    )


def test_the_variance_divides_by_the_number_of_runs(spec):
    # 100 and 0 percent: population variance 2500, sample variance 5000.
    spec(hits(q1="10"), {"accuracy_variance": 2500.0, "accuracy_range": 1.0})


def test_runs_that_agree_do_not_vary(spec):
    spec(hits(q1="111", q2="000"), {"accuracy_variance": 0.0, "accuracy_range": 0.0, "accuracy_abs_diff": 0.0})


def test_the_original_run_is_the_lowest_unchanged_on_all_questions(spec):
    # Run 1 is unchanged on q1 only; run 2 on both: moved is run 0 and 1.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 1 0   | 1      | 0
        q1       | 1       | 0 1   | 1      |
        q1       | 2       | 0 1   | 0      |
        q2       | 0       | 1 0   | 1      | 0
        q2       | 1       | 1 0   | 0      |
        q2       | 2       | 0 1   | 0      |
        """,
        {
            "accuracy_mean_moved": 0.25,
            "accuracy_abs_diff": 0.75,
            "accuracy": 0.5,  # question by question, the lowest unchanged variant: q1's is variant 1, and wrong
        },
    )


def test_without_an_original_run_nothing_has_moved(spec):
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 1 0 2 | 1      | 0
        q1       | 1       | 1 2 0 | 0      |
        """,
        {
            "accuracy_mean_all": 0.5,
            "accuracy_mean_moved": None,
            "accuracy_median_moved": None,
            "accuracy_abs_diff": None,
            "accuracy_variance": 2500.0,
        },
    )


def test_repeats_of_one_prompt_are_no_runs(spec):
    # Only q1 has two orders: its runs are 1 and 0.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1   | 0      | 0
        q1       | 1       | 1 0   | 1      |
        q2       | 0       | 0 1   | 1      | 0
        q2       | 1       | 0 1   | 0      |
        """,
        {"accuracy_min": 0.0, "accuracy_max": 1.0, "accuracy_mean_all": 0.5, "accuracy": 0.5},
    )
    repeats = """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1   | 0      | 0
        q1       | 1       | 0 1   | 1      |
        """
    spec(repeats, {"accuracy": 1.0, "average_accuracy": None} | dict.fromkeys(OVER_RUNS))


def test_altered_options_make_no_run(spec):
    spec(
        """
        question | variant | order | chosen | answer | options
        q1       | 0       | 0 1 2 | 0      | 0      | 3
        q1       | 1       | 0 -1 2 | 2     |        |
        q1       | 2       | 2 1 0 | 0      |        |
        """,
        {"accuracy_mean_all": 1.0, "accuracy_min": 1.0, "accuracy_variance": 0.0},
    )


def rotate(options: int, by: int) -> str:
    """Return a rotation of that many options."""
    return " ".join(str((position + by) % options) for position in range(options))


@pytest.mark.parametrize(
    ("chosen", "score"),
    [
        ("1 1 1 2", 0.5),  # example E: 3 pairs of 6
        ("0 0", 1.0),
        ("0 1", 0.0),
        ("0 0 1 1", 1 / 3),  # 1 + 1 of 6
        ("0 1 2 3", 0.0),
        ("- - - -", 0.0),  # silence equals nothing
        ("0 0 -", 1 / 3),  # 1 of 3: the silence counts among the runs
    ],
)
def test_score_is_the_share_of_pairs_of_runs_with_the_same_content(spec, chosen, score):
    lines = [f"q1 | {variant} | {rotate(4, variant)} | {option} | 0" for variant, option in enumerate(chosen.split())]
    spec("\n".join(["question | variant | order | chosen | answer", *lines]), {"score": score})


@pytest.mark.parametrize(("k", "printed"), [(4, "0.6"), (5, "0.66"), (10, "0.81")])
def test_score_of_a_model_that_follows_the_right_option_by_place(spec, k, printed):
    # The paper's values 0.6, 0.66 and 0.81 (cut off, not rounded) are (k − 1)/(k + 1): k + 1 runs of k options, of
    # which all but one agree: C(k, 2) / C(k + 1, 2).
    lines = [f"q1 | {run} | {rotate(k, run)} | {int(run == k)} | 0" for run in range(k + 1)]
    assert str((k - 1) / (k + 1)).startswith(printed)
    spec("\n".join(["question | variant | order | chosen | answer", *lines]), {"score": (k - 1) / (k + 1)})


def test_score_is_a_mean_over_questions_with_two_runs_or_more(spec):
    spec(hits(q1="11", q2="10", q3="1"), {"score": 0.5}, counts={"score": 2})

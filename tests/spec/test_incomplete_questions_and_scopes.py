"""Chapter 6: which questions count. docs/metrics.md, the rules on top."""

from dataclasses import replace

from registry.metrics import METRICS
from tests.spec.tables import NEEDS_ONLY_THE_ORIGINAL, hits, omit_prompts, python_answers, same


def test_a_question_with_a_variant_missing_is_not_scored_and_not_wrong(spec):
    # q2 has two of three expected variants: nothing over its orders is known. Its original is known, and right.
    spec(
        """
        question | variant | order | chosen | answer | expected
        q1       | 0       | 0 1   | 0      | 0      |
        q1       | 1       | 1 0   | 0      |        |
        q2       | 0       | 0 1   | 0      | 0      | 3
        q2       | 1       | 1 0   | 1      |        |
        """,
        {"accuracy": 1.0, "average_accuracy": 1.0, "worst_accuracy": 1.0, "cora": 1.0, "accuracy_mean_all": 1.0},
        per_question={
            "q2": {
                "accuracy": 1.0,
                "average_accuracy": None,
                "worst_accuracy": None,
                "best_accuracy": None,
                "fluctuation_rate": None,
                "retest_accuracy": None,
                "score": None,
                "mcqa_plus": None,
                "bmca_50": None,
                "prob_mass": None,
            }
        },
        counts={"accuracy": 2, "average_accuracy": 1, "cora": 1, "pct_drop": 1, "accuracy_mean_all": 1},
    )


def test_without_its_original_an_incomplete_question_says_nothing(spec):
    # The variant that lacks may be the first: the choice metrics wait for it, too.
    spec(
        """
        question | variant | order | answer | logprobs | without | expected
        q1       | 1       | 1 0   | 0      | -2 -1    | -2.5 -4 | 2
        """,
        dict.fromkeys(METRICS),
    )


def test_a_question_of_which_nothing_is_there_yet_says_nothing(spec):
    spec(
        """
        question | variant | chosen | answer | expected
        q1       |         |        | 0      | 4
        """,
        dict.fromkeys(METRICS),
        counts=dict.fromkeys(METRICS, 0),
    )


def test_an_incomplete_question_changes_no_metric_over_orders(engines):
    # Right or wrong, incomplete questions change nothing: the complete ones alone decide.
    complete = hits(q1="1101", q2="1111", q3="0-10")
    added = [omit_prompts(case, 3) for case in hits(q4="0000", q5="1111", q6="----")]
    alone, together = engines.answers([complete, [*complete, *added]])
    before = {answers.engine: answers.over_questions["all"] for answers in (python_answers(complete), *alone)}
    for answers in (python_answers([*complete, *added]), *together):
        for name in METRICS.keys() - NEEDS_ONLY_THE_ORIGINAL:
            value, n = answers.over_questions["all"][name]
            assert same(before[answers.engine][name][0], value), (answers.engine, name)
            assert before[answers.engine][name][1] == n, (answers.engine, name)


def test_a_silent_question_is_scored_and_counts(spec):
    # "-" is an answer: unlike a missing variant it is wrong.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1   | 0      | 0
        q1       | 1       | 1 0   | 0      |
        q2       | 0       | 0 1   | -      | 0
        q2       | 1       | 1 0   | -      |
        """,
        {"accuracy": 0.5, "average_accuracy": 0.5},
        counts={"accuracy": 2, "average_accuracy": 2},
    )


FLAGGED = """
    question | variant | order | chosen | answer | flags             | subject
    plain    | 0       | 0 1   | 0      | 0      |                   | virology
    plain    | 1       | 1 0   | 0      |        |                   |
    refers   | 0       | 0 1   | 1      | 0      | references        | virology
    refers   | 1       | 1 0   | 1      |        |                   |
    sorted   | 0       | 0 1   | 1      | 0      | sorted            | formal_logic
    sorted   | 1       | 1 0   | 1      |        |                   |
    both     | 0       | 0 1   | 0      | 0      | references sorted |
    both     | 1       | 1 0   | 0      |        |                   |
    """


def test_every_metric_exists_with_and_without_flagged_questions(spec):
    # right: plain, both. Of four ½; unflagged: plain; without references: plain, sorted; without sorted: plain, refers.
    spec(FLAGGED, {"accuracy": 0.5}, counts={"accuracy": 4})
    spec(FLAGGED, {"accuracy": 1.0, "average_accuracy": 1.0}, scope="unflagged", counts={"accuracy": 1})
    spec(FLAGGED, {"accuracy": 0.5, "cora": 0.5}, scope="without-references", counts={"accuracy": 2})
    spec(FLAGGED, {"accuracy": 0.5}, scope="without-sorted-numbers", counts={"accuracy": 2})


def test_subjects_and_categories_have_metrics_of_their_own(spec):
    # formal_logic is a subject of problem solving, virology is not; a question without a subject is in neither.
    spec(FLAGGED, {"accuracy": 0.5}, scope="subject:virology", counts={"accuracy": 2})
    spec(FLAGGED, {"accuracy": 0.0}, scope="subject:formal_logic", counts={"accuracy": 1})
    spec(FLAGGED, {"accuracy": 0.0}, scope="category:problem-solving", counts={"accuracy": 1})


def test_a_category_joins_its_subjects(spec):
    cases = hits(q1="10", q2="11", q3="01")
    cases = [
        replace(case, subject=subject)
        for case, subject in zip(cases, ("formal_logic", "college_physics", "virology"), strict=True)
    ]
    # q1 and q2: originals 1 and 1, retests 0 and 1.
    values = {"accuracy": 1.0, "retest_accuracy": 0.5, "pct_drop": 50.0, "accuracy_mean_all": 0.75}
    spec(cases, values, scope="category:problem-solving")


def test_the_run_of_the_original_is_found_within_each_scope(spec):
    # Over all, either run is changed on one question, so no run is the original's; over virology it is.
    table = """
        question | variant | order | chosen | answer | subject
        q1       | 0       | 0 1   | 0      | 0      | virology
        q1       | 1       | 1 0   | 1      |        |
        q2       | 0       | 1 0 2 | 0      | 0      | anatomy
        q2       | 1       | 1 2 0 | 0      |        |
        """
    spec(table, {"accuracy_mean_moved": None, "accuracy_mean_all": 0.75})
    spec(table, {"accuracy_mean_moved": 0.0, "accuracy_abs_diff": 1.0}, scope="subject:virology")

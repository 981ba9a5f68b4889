"""Chapter 3: response consistency. Cavalin et al., Eq. 1 to 10.

RC = hits / M over every variant that shows the question, the original among them. Hits are written 1, misses 0.
"""

from fractions import Fraction

import pytest

from registry.metrics.cora import bmca
from tests.spec.tables import hits

CURVE = (50, 60, 70, 80, 90, 100)


def test_the_example_of_the_contract(spec):
    # Hits 1111 and 1010. RC 1 and ½; MCQA+ (1 + ½)/2; MV: 1 > ½, and ½ is not more than ½.
    # CI = 1 − (1 − ½); CoRA = 1 · ½.
    spec(
        hits(q1="1111", q2="1010"),
        {
            "accuracy": 1.0,
            "mcqa_plus": 0.75,
            "majority_vote": 0.5,
            "bmca_50": 1.0,
            "bmca_60": 0.5,
            "bmca_100": 0.5,
            "consistency_index": 0.5,
            "cora": 0.5,
        },
    )


REACHED = (
    # The threshold is reached by the exact share: 7/10 is .7, although .7 has no exact float.
    (5, 10, 50),
    (6, 10, 60),
    (3, 5, 60),
    (7, 10, 70),
    (14, 20, 70),
    (4, 5, 80),
    (9, 10, 90),
    (10, 10, 100),
    # 26 variants, five options: 13/26 = .5, 16/26 = .615, 18/26 = .692, 19/26 = .731, 21/26 = .808, 24/26 = .923
    (13, 26, 50),
    (15, 26, 50),
    (16, 26, 60),
    (18, 26, 60),
    (19, 26, 70),
    (20, 26, 70),
    (21, 26, 80),
    (23, 26, 80),
    (24, 26, 90),
    (25, 26, 90),
    (26, 26, 100),
)
"""Right answers, variants, and the highest percentage that they reach."""


def test_thresholds_are_reached_at_exact_fractions(spec):
    expected = {}
    for right, total, reached in REACHED:
        curve = {f"bmca_{percent}": float(percent <= reached) for percent in CURVE}
        assert curve == {
            f"bmca_{percent}": float(Fraction(right, total) >= Fraction(percent, 100)) for percent in CURVE
        }
        majority = {"mcqa_plus": right / total, "majority_vote": float(2 * right > total)}
        expected[f"{right} of {total}"] = curve | majority
    spec(
        hits(**{f"{right} of {total}": "1" * right + "0" * (total - right) for right, total, _ in REACHED}),
        per_question=expected,
    )


@pytest.mark.parametrize("of", range(2, 75))
def test_no_number_of_variants_blurs_a_threshold(of):
    # TruthfulQA's 13 options make 2 + 6·12 = 74 variants.
    for right in range(of + 1):
        outcomes = hits(q="1" * right + "0" * (of - right))[0].outcomes()
        for percent in CURVE:
            assert bmca(percent)(outcomes) == float(Fraction(right, of) >= Fraction(percent, 100))


def test_a_majority_is_more_than_half(spec):
    # 1 of 2 is not, 2 of 3 is, 13 of 26 is not, 14 of 26 is.
    spec(
        hits(half="10", most="110", even="1" * 13 + "0" * 13, more="1" * 14 + "0" * 12),
        per_question={
            "half": {"majority_vote": 0.0},
            "most": {"majority_vote": 1.0},
            "even": {"majority_vote": 0.0},
            "more": {"majority_vote": 1.0},
        },
    )


def test_with_unequal_numbers_of_variants_every_question_counts_once(spec):
    # MCQA+: (1/2 + 3/4 + 8/8) / 3, not 12/14.
    spec(hits(q1="10", q2="1101", q3="1" * 8), {"mcqa_plus": 2.25 / 3})


def test_a_missing_answer_is_a_miss_and_is_not_skipped(spec):
    # 1 of 3; the paper's voting skips missing answers, the equations do not.
    spec(hits(q1="1--"), {"mcqa_plus": 1 / 3, "majority_vote": 0.0, "bmca_50": 0.0, "cora": 0.0})


def test_a_decoupled_pair_is_answered_by_its_own_options(spec):
    # A question of two options: its decoupled pair happens to be the whole question, in order. It is one more variant,
    # but no other order, so that there is no average over orders.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1   | 0      | 0
        q1       | 4       | 0 1   | 1      |
        q1       | 6       | 0 1 -1 | -1    |
        """,
        {"average_accuracy": None, "retest_accuracy": 0.0, "mcqa_plus": 1 / 3, "fluctuation_rate": 1.0},
    )


def test_none_of_the_above_is_always_wrong(spec):
    spec(
        """
        question | variant | order   | chosen | answer | options
        q1       | 0       | 0 1 2   | 2      | 2      | 3
        q1       | 1       | -1 1 2  | -1     |        |
        q1       | 2       | -1 1 2  | 2      |        |
        q1       | 3       | 2 0 -1  | 2      |        |
        """,
        {"mcqa_plus": 0.75, "bmca_70": 1.0, "bmca_80": 0.0, "accuracy": 1.0, "consistency_index": 0.0, "cora": 0.0},
    )


def test_cora_takes_its_accuracy_from_the_original_and_not_from_all_variants(spec):
    # MCQA 1/2 (the second original is wrong), BMCA(1) 0, so CI ½ and CoRA ¼; from MCQA+ it would be (½ + ½)/2 · ½.
    spec(hits(q1="10", q2="01"), {"mcqa_plus": 0.5, "consistency_index": 0.5, "cora": 0.25})
    # All originals right, nothing consistent: CI 0.
    spec(hits(q1="10", q2="10"), {"consistency_index": 0.0, "cora": 0.0, "mcqa_plus": 0.5})


def test_a_consistently_wrong_model_has_a_high_index_and_no_cora(spec):
    # CI = 1 − (0 − 0) = 1; CoRA = 0 · 1.
    spec(hits(q1="000"), {"consistency_index": 1.0, "cora": 0.0})


def test_index_and_cora_take_both_means_over_the_same_questions(spec):
    # q2 has no original: it counts in BMCA(1), not in CI, which is 1 − (1 − 1) over q1 alone.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1   | 0      | 0
        q1       | 1       | 1 0   | 0      |
        q2       | 0       | 1 0   | 1      | 0
        q2       | 1       | 0 1 -1 | 1     |
        """,
        {"bmca_100": 0.5, "consistency_index": 1.0, "cora": 1.0},
        counts={"bmca_100": 2, "cora": 1, "consistency_index": 1},
    )

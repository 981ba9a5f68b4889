"""Chapter 10: PriDe divides out how much a model likes a position (Zheng et al., as Goliakova et al. use it).

The prior is estimated from the K = max(1, ⌊.05 N⌋) questions, of those with equally many options, whose ids hash lowest.
"""

import hashlib
import math

import pytest

from registry.metrics.pride import estimation_set, pride
from tests.spec.tables import omit_prompts, read_table

# Of these two ids "a" hashes lower, so the prior is estimated from it.
EXAMPLE = """
question | variant | order | probabilities | answer
a        | 0       | 0 1   | .8 .2         | 0
a        | 1       | 1 0   | .6 .4         |
b        | 0       | 0 1   | .65 .35       | 1
b        | 1       | 1 0   | .5 .5         |
"""


def lowest(*names):
    return min(names, key=lambda name: hashlib.sha256(f"0:{name}".encode()).hexdigest())


def test_the_example_of_the_contract(spec):
    assert lowest("a", "b") == "a"
    result = pride([case.outcomes() for case in read_table(EXAMPLE)])
    assert result.priors[2] == pytest.approx((0.710, 0.290), abs=5e-4)
    assert result.answers["a"].estimation
    # Content scores of the estimation question: (.8 + .4) / 2 and (.2 + .6) / 2.
    assert result.answers["a"].correct
    # .65 is less than the prior gives to position 1, so the other question flips to position 2.
    assert result.answers["b"].correct
    spec(EXAMPLE, {"pride_accuracy": 1.0, "accuracy": 0.5}, per_question={"b": {"pride_accuracy": 1.0}})


def test_the_mean_over_a_scope_keeps_the_prior_of_the_whole_evaluation(spec):
    table = EXAMPLE.replace("| answer", "| answer | subject").replace("| 0\na", "| 0 | virology\na")
    lines = [line if line.count("|") == 5 or not line else line + " |" for line in table.split("\n")]
    spec("\n".join(lines), {"pride_accuracy": 1.0}, counts={"pride_accuracy": 1}, scope="subject:virology")


def test_the_estimation_set_is_a_twentieth_of_each_group():
    names = [f"q{number}" for number in range(100)]
    hashed = sorted(names, key=lambda name: hashlib.sha256(f"0:{name}".encode()).hexdigest())
    for size, expected in ((1, 1), (19, 1), (20, 1), (39, 1), (40, 2), (60, 3), (100, 5)):
        chosen = estimation_set(names[:size])
        assert len(chosen) == expected
        assert chosen == set([name for name in hashed if name in names[:size]][:expected])
    assert len(estimation_set(names, 0.2)) == 20


def test_groups_of_other_numbers_of_options_have_priors_of_their_own():
    table = EXAMPLE + "c | 0 | 0 1 2 | .4 .3 .3 | 0\nc | 1 | 2 0 1 | .4 .3 .3 |\n"
    result = pride([case.outcomes() for case in read_table(table)])
    assert set(result.priors) == {2, 3}
    assert result.answers["c"].estimation
    assert math.fsum(result.priors[3]) == pytest.approx(1)


def test_a_tie_goes_to_the_lowest():
    table = """
    question | variant | order | probabilities | answer
    a        | 0       | 0 1   | .5 .5         | 0
    a        | 1       | 1 0   | .5 .5         |
    b        | 0       | 0 1   | .5 .5         | 0
    b        | 1       | 1 0   | .5 .5         |
    """
    result = pride([case.outcomes() for case in read_table(table)])
    assert [result.answers[name].correct for name in "ab"] == [True, True]


def test_one_order_cannot_tell_a_position_from_what_stands_there(spec):
    spec(
        """
        question | variant | order | probabilities | answer
        b        | 0       | 0 1   | .8 .2         | 0
        """,
        {"pride_accuracy": None},
    )


def test_without_probabilities_there_is_no_answer(spec):
    # The estimation question has none, so there is no prior either.
    spec(EXAMPLE.replace(".6 .4", "0 0"), {"pride_accuracy": None}, counts={"pride_accuracy": 0})
    # The other one has none on its original: only the estimation question counts.
    spec(EXAMPLE.replace(".65 .35", "0 0"), {"pride_accuracy": 1.0}, counts={"pride_accuracy": 1})


def test_without_the_original_only_the_estimation_set_is_answered(spec):
    spec(
        EXAMPLE.replace("b        | 0       | 0 1", "b        | 0       | 1 0"),
        {"pride_accuracy": 1.0},
        counts={"pride_accuracy": 1},
    )


def test_an_evaluation_that_lacks_a_prompt_has_no_value_yet(spec):
    cases = read_table(EXAMPLE)
    spec([cases[0], omit_prompts(cases[1], 1)], {"pride_accuracy": None})

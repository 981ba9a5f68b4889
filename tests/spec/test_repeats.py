"""Chapter 9: one scale for order and chance.

Every value is compared with a value found by counting: all ways to take one answer of each prompt, all pairs of
answers.
"""

import gzip
import itertools
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
from sqlalchemy.orm import Session

from registry.metrics import VariantOutcome, repeats
from registry.metrics.permutation import fluctuation_rate, score, worst_accuracy
from registry.metrics.repeats import compute_across_orders, group_repeated, same_order
from tests.spec.random_tables import sample_tables
from tests.spec.stores import question_rows, store
from tests.spec.tables import Case, Prompt, read_table, same
from tests.support.marks import long_but

DATA = Path(__file__).parents[1] / "data"
SCALE = ("average_accuracy", "right_twice_same_order", "right_twice_across_orders", "chance_loss", "order_loss")
SEVERAL = ("right_in_every_order", "worst_order_low", "worst_order_high")
NAMES = (*SCALE, *SEVERAL)


def ask(*answers: str, shuffled: Random | None = None, sampled: bool | None = None) -> list[VariantOutcome]:
    """Return a question's outcomes: each text has the hits of one order's repeats; - is no valid answer.

    The repeats of all orders follow one another, or have random places. sampled: whether the model samples its answers.
    """
    orders = list(itertools.islice(itertools.permutations(range(6)), len(answers)))
    cells = [(order, mark) for order, marks in zip(orders, answers, strict=True) for mark in marks]
    if shuffled is not None:
        shuffled.shuffle(cells)
    chosen = {"1": 0, "0": 1, "-": None}
    return [
        VariantOutcome(variant, chosen[mark], 0, order, original=order == orders[0], sampled=sampled)
        for variant, (order, mark) in enumerate(cells)
    ]


def values_of(outcomes: list[VariantOutcome]) -> list[float | None]:
    return [getattr(repeats, name)(outcomes) for name in NAMES]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        # x = (2, 1) of two each: A ¾; one pair of two; the pair of orders 1 · ½; ¾ − ½; 0; 1 · ½; the bracket.
        (("11", "10"), [0.75, 0.5, 0.5, 0.25, 0, 0.5, 0.5, 0.75]),
        # x = (2, 0): never right in the second order.
        (("11", "00"), [0.5, 0.5, 0, 0, 0.5, 0, 0, 0]),
        # x = (1, 1), right and wrong together: without one repeat, both orders are equal. ½ · ½; no pair is right
        # twice; ¼.
        (("10", "10"), [0.5, 0, 0.25, 0.5, -0.25, 0.25, 0.5, 0.5]),
        # The same counts, taking turns: the worst order by one answer is right by the other.
        (("10", "01"), [0.5, 0, 0.25, 0.5, -0.25, 0.25, 0.5, 1]),
        # Orders with 3, 2 and 1 answers, x = (2, 1, 1): A 13/18, of the first two 7/12; (⅓ + 0) / 2; (⅓ + ⅔ + ½) / 3.
        (("110", "10", "1"), [13 / 18, 1 / 6, 1 / 2, 7 / 12 - 1 / 6, -1 / 3, 1 / 3, None, None]),
        # The original alone was repeated: S₂ is that of the original, 3 of 6 pairs, of ¾ right.
        (("1110", "1", "0"), [1.75 / 3, 0.5, (0.75 + 0 + 0) / 3, 0.25, 0.25, 0, None, None]),
        # A missing answer is wrong.
        (("1-", "11"), [0.75, 0.5, 0.5, 0.25, 0, 0.5, 0.5, 0.75]),
        # One answer in each order, and unknown sampling: chance and order cannot be separated.
        (("1", "1", "0"), [2 / 3, None, 1 / 3, None, None, None, None, None]),
    ],
)
def test_values_worked_by_hand(answers, expected):
    assert values_of(ask(*answers)) == pytest.approx(expected, abs=1e-12)
    if len(answers[0]) > 1:
        assert values_of(ask(*answers, sampled=True)) == pytest.approx(expected, abs=1e-12)


def test_a_model_that_does_not_sample_loses_nothing_to_chance():
    # m = 3, hits 110: A ⅔, S₂ ⅔, one of three pairs is right twice.
    assert values_of(ask("1", "1", "0", sampled=False))[:5] == pytest.approx([2 / 3, 2 / 3, 1 / 3, 0, 1 / 3])


def test_a_model_that_samples_and_was_asked_once_has_no_losses():
    assert values_of(ask("1", "1", "0", sampled=True)) == [2 / 3, None, 1 / 3, *[None] * 5]


@pytest.mark.parametrize("sampled", [None, False, True])
@pytest.mark.parametrize("answers", [("11111111111",), ("1",), ()])
def test_one_prompt_says_nothing_of_chance_and_order(answers, sampled):
    assert values_of(ask(*answers, sampled=sampled)) == [None] * len(NAMES)


@pytest.mark.parametrize("right", range(0, 25, 3))
def test_right_in_two_orders_is_unbiased_for_every_four_of_24_orders(right):
    # All 10,626 sets of four orders of a question that is right in so many of its 24.
    hits = [(int(place < right), 1) for place in range(24)]
    estimates = [compute_across_orders(chosen) for chosen in itertools.combinations(hits, 4)]
    assert fmean(estimates) == pytest.approx(compute_across_orders(hits), abs=1e-12)


def by_counting(answers: list[list[int]], *, sampled: bool) -> list[Fraction | None]:
    """Return the values of SCALE and W, computed with whole numbers from every way to choose answers."""
    one = fmean([Fraction(sum(of_order), len(of_order)) for of_order in answers])
    again = [of_order for of_order in answers if len(of_order) > 1]
    pairs = [
        fmean([Fraction(a * b) for a, b in itertools.product(one, other)])
        for one, other in itertools.combinations(answers, 2)
    ]
    every = fmean([Fraction(all(ways)) for ways in itertools.product(*answers)]) if again else None
    if not sampled:
        return [one, one, fmean(pairs), Fraction(0), one - fmean(pairs), every]
    if not again:
        return [one, None, fmean(pairs), None, None, None]
    twice = fmean(fmean([Fraction(a * b) for a, b in itertools.combinations(of_order, 2)]) for of_order in again)
    one_again = fmean([Fraction(sum(of_order), len(of_order)) for of_order in again])
    return [one, twice, fmean(pairs), one_again - twice, twice - fmean(pairs), every]


def bound_held_out(answers: list[list[int]]) -> Fraction:
    """Return the upper end of the bracket, from the answers without each repeat in turn."""
    bounds = []
    for repeat in range(len(answers[0])):
        rest = [of_order[:repeat] + of_order[repeat + 1 :] for of_order in answers]
        fewest = min(map(sum, rest))
        tied = [answers[place][repeat] for place, of_order in enumerate(rest) if sum(of_order) == fewest]
        bounds.append(Fraction(sum(tied), len(tied)))
    return Fraction(sum(bounds), len(bounds))


@pytest.mark.parametrize("seed", range(60))
def test_values_are_those_of_counting_every_way_to_take_answers(seed):
    random = Random(seed)
    equal, sampled = random.choice((True, False)), random.choice((True, False))
    times = random.randint(1, 4)
    answers = [
        [int(random.random() < 0.7) for _ in range(times if equal else random.randint(1, 4))]
        for _ in range(random.randint(2, 5))
    ]
    outcomes = ask(*("".join(map(str, of_order)) for of_order in answers), sampled=sampled)
    values = values_of(outcomes)
    expected = [None if value is None else float(value) for value in by_counting(answers, sampled=sampled)]
    assert values[:6] == pytest.approx(expected, abs=1e-12)
    if {len(of_order) for of_order in answers} in ({2}, {3}, {4}):
        lowest = min(Fraction(sum(of_order), len(of_order)) for of_order in answers)
        assert values[6:] == pytest.approx([float(lowest), float(bound_held_out(answers))], abs=1e-12)
    else:
        assert values[6:] == [None, None]


@pytest.mark.parametrize("seed", range(10))
def test_the_place_of_repeats_changes_no_metric_of_answers(seed):
    marks = ("1101", "01", "1", "111")
    assert values_of(ask(*marks, shuffled=Random(seed)))[:7] == pytest.approx(values_of(ask(*marks))[:7])


def test_more_than_two_right_answers_are_counted_like_two():
    counts = [(3, 4), (2, 3), (4, 4), (1, 1)]
    triples = [Fraction(3, 4) * Fraction(2, 3) * 1, Fraction(3, 4) * Fraction(2, 3), Fraction(3, 4), Fraction(2, 3)]
    assert compute_across_orders(counts, 3) == pytest.approx(float(sum(triples) / 4))
    assert same_order(counts, 3) == pytest.approx((1 / 4 + 0 + 1) / 3)
    assert (same_order(counts, 5), compute_across_orders(counts, 5)) == (None, None)


def test_repeated_answers_are_none_of_the_papers():
    # Two orders with two answers each: the first answers are right and right, the second both wrong.
    first = ask("1", "1")
    again = [VariantOutcome(**{**vars(o), "variant": o.variant + 2, "option": 1, "repeat": 1}) for o in first]
    for metric in (worst_accuracy, fluctuation_rate, score):
        assert metric([*first, *again]) == metric(first)
    assert values_of([*first, *again])[:6] == [0.5, 0, 0.25, 0.5, -0.25, 0.25]


def test_a_copied_answer_is_no_repeat():
    first, other = ask("1", "1")
    copy = VariantOutcome(**{**vars(first), "variant": 2, "copied": True})
    assert group_repeated([first, other, copy]) is None
    assert repeats.average_accuracy([first, other, copy]) == 1


@pytest.mark.parametrize(("model", "same", "across"), [("mistral7b", 0.136, 0.048), ("medalpaca", 0.022, 0.015)])
def test_recorded_repeats_of_the_original_order_tell_chance_from_order(model, same, across):
    # Eleven repeats of the original order and eleven shuffles of each question of MedQA.
    questions: dict[str, dict[tuple[str, ...], list[bool]]] = {}
    with gzip.open(DATA / f"medqa_{model}_cat.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in map(json.loads, file):
            if line["variant_type"] in ("standard_MC", "standard_MC_shuffled"):
                of_question = questions.setdefault(line["question_id"], {})
                of_question.setdefault(tuple(line["options"]), []).append(line["chosen"] == line["correct"])
    counts = [[(sum(answers), len(answers)) for answers in orders.values()] for orders in questions.values()]
    pairs = [(same_order(one, 11), compute_across_orders(one, 11)) for one in counts if len(one) > 10]
    assert fmean(one for one, _ in pairs) == pytest.approx(same, abs=0.001)
    assert fmean(other for _, other in pairs) == pytest.approx(across, abs=0.0015)


# The same on both databases


def test_repeats_of_orders_by_table(spec):
    # q1: x = (2, 1); q2: x = (2, 0) of two each; q3 has one answer in each order, q4 a single prompt.
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1   | 0      | 0
        q1       | 1       | 1 0   | 0      |
        q1       | 2       | 0 1   | 0      |
        q1       | 3       | 1 0   | 1      |
        q2       | 0       | 0 1   | 0      | 0
        q2       | 1       | 0 1   | 0      |
        q2       | 2       | 1 0   | 1      |
        q2       | 3       | 1 0   | -      |
        q3       | 0       | 0 1   | 0      | 0
        q3       | 1       | 1 0   | 0      |
        q4       | 0       | 0 1   | 0      | 0
        q4       | 1       | 0 1   | 1      |
        """,
        {
            "average_accuracy": (0.75 + 0.5 + 1) / 3,
            "right_twice_same_order": 0.5,
            "right_twice_across_orders": 0.5,
            "chance_loss": 0.125,
            "order_loss": 0.25,
            "right_in_every_order": 0.25,
            "worst_order_low": 0.25,
            "worst_order_high": 0.375,
        },
        per_question={
            "q1": dict(zip(NAMES, [0.75, 0.5, 0.5, 0.25, 0, 0.5, 0.5, 0.75], strict=True)),
            "q2": dict(zip(NAMES, [0.5, 0.5, 0, 0, 0.5, 0, 0, 0], strict=True)),
            "q3": dict(zip(NAMES, [1, None, 1, None, None, None, None, None], strict=True)),
            "q4": dict.fromkeys(NAMES),
        },
        counts=dict.fromkeys(NAMES, 2) | {"average_accuracy": 3, "right_twice_across_orders": 3},
    )


def test_an_order_drawn_twice_has_copies_unless_answers_were_recorded(spec):
    # Variants 0 and 2 show one prompt, each asked twice: x = (2, 0) of (2, 2), and recorded x = (3, 0) of (4, 2).
    (case,) = read_table(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1   | 0      | 0
        q1       | 1       | 0 1   | 0      |
        q1       | 2       | 1 0   | 1      |
        q1       | 3       | 1 0   | -      |
        q1       | 4       | 0 1   | 1      |
        q1       | 5       | 0 1   | 0      |
        """
    )
    of_papers = {"accuracy": 1, "worst_accuracy": 0, "score": 1 / 3}
    copied = dict(zip(NAMES, [0.5, 0.5, 0, 0, 0.5, 0, 0, 0], strict=True))
    spec([replace(case, repeats=2)], of_papers | copied)
    recorded = dict(zip(NAMES, [3 / 8, 1 / 4, 0, 1 / 8, 1 / 4, 0, None, None], strict=True))
    spec([replace(case, repeats=2, recorded=True)], of_papers | recorded)


def test_a_model_that_does_not_sample_by_table(spec):
    # Hits 110 and 11: ⅔ and 1 right, one pair of three and one of one.
    cases = read_table(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1 2 | 0      | 0
        q1       | 1       | 1 2 0 | 0      |
        q1       | 2       | 2 0 1 | 1      |
        q2       | 0       | 0 1   | 1      | 1
        q2       | 1       | 1 0   | 1      |
        """
    )
    expected = dict(zip(SCALE, [5 / 6, 5 / 6, 2 / 3, 0, 1 / 6], strict=True))
    spec([replace(case, samples=False) for case in cases], expected | dict.fromkeys(SEVERAL))
    unknown = {"right_twice_same_order": None, "chance_loss": None, "order_loss": None}
    spec([replace(case, samples=True) for case in cases], expected | unknown)


def draw_case(random: Random, name: str, samples: bool | None) -> Case:
    """Return a question with 2 to 24 orders, each once or unequally often, some without a valid answer."""
    orders = random.sample(list(itertools.permutations(range(4))), random.randint(2, 24))
    most, skill = random.choice((1, 1, 2, 4)), random.random()
    cells = [order for order in orders for _ in range(random.randint(1, most))]
    prompts = [
        Prompt(
            variant,
            order,
            chosen=None if random.random() < 0.05 else 0 if random.random() < skill else random.randrange(4),
        )
        for variant, order in enumerate(cells)
    ]
    return Case(name, ("a", "b", "c", "d"), 0, len(prompts), tuple(prompts), samples=samples)


@pytest.mark.parametrize("evaluations", long_but([20], [20, 500]))
def test_right_in_two_orders_and_both_losses_sum_to_accuracy(engines, evaluations):
    for engine in (engines.sqlite, engines.postgresql):
        random = Random(evaluations)
        with Session(engine) as session:
            for _ in range(evaluations):
                samples = random.choice((None, False, True))
                cases = [draw_case(random, f"q{number}", samples) for number in range(3)]
                rows = question_rows(session, store(session, cases))
                for case in cases:
                    row, outcomes = rows[case.question], case.outcomes()
                    for name in NAMES:
                        assert same(row[name], getattr(repeats, name)(outcomes)), (engine.dialect.name, case, name)
                    if row["order_loss"] is not None:
                        groups = repeats.group_by_prompt(outcomes)
                        one = repeats.right_once(groups.asked_again)
                        parts = row["right_twice_across_orders"] + row["order_loss"] + row["chance_loss"]
                        assert parts == pytest.approx(one, abs=1e-9)
                        if samples is False:
                            assert (row["average_accuracy"], row["chance_loss"]) == (pytest.approx(one), 0)
            session.rollback()


def test_orders_asked_differently_often_have_no_bracket(spec):
    spec(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1 2 | 1      | 1
        q1       | 1       | 0 1 2 | 1      |
        q1       | 2       | 0 1 2 | 0      |
        q1       | 3       | 1 2 0 | 1      |
        q1       | 4       | 1 2 0 | 2      |
        q1       | 5       | 2 0 1 | 1      |
        """,
        per_question={
            "q1": dict(zip(NAMES, [13 / 18, 1 / 6, 1 / 2, 7 / 12 - 1 / 6, -1 / 3, 1 / 3, None, None], strict=True))
        },
    )


def test_a_prompt_without_an_answer_yet_leaves_the_question_out(spec):
    spec(
        """
        question | variant | order | chosen | answer | expected
        q1       | 0       | 0 1   | 0      | 0      | 4
        q1       | 1       | 0 1   | 0      |        |
        q1       | 2       | 1 0   | 0      |        |
        """,
        per_question={"q1": dict.fromkeys(NAMES)},
    )


def ask_again(case: Case, repeats: int, random: Random) -> Case:
    """Return the case with this number of answers to each of its prompts, as `repeats` numbers them."""
    prompts = [
        replace(
            prompt,
            variant=repeats * prompt.variant + number,
            **({"chosen": random.choice(prompt.order)} if number else {}),
        )
        for prompt in case.prompts
        for number in range(repeats)
    ]
    return replace(case, prompts=tuple(prompts), expected=len(prompts), repeats=repeats)


@pytest.mark.parametrize("repeats", long_but((2,), (1, 2, 3)))
def test_repeats_are_left_out_of_the_papers_metrics_on_every_engine(engines, repeats):
    random = Random(repeats)
    tables = [[ask_again(case, repeats, random) for case in table] for table in sample_tables(4, first_seed=repeats)]
    assert engines.disagreements(tables) == []


def test_options_that_are_not_listed_have_no_orders_on_every_engine(engines):
    tables = [[unlist(case) for case in table] for table in sample_tables(6, first_seed=7)]
    assert engines.disagreements(tables) == []


def unlist(case: Case) -> Case:
    """Return the case under a protocol that does not list its options, which have no labels then."""
    prompts = tuple(replace(prompt, labels=None) for prompt in case.prompts)
    return replace(case, prompts=prompts, listed=False)


def test_the_papers_metrics_do_not_depend_on_repeats(spec):
    once, *_ = read_table(
        """
        question | variant | order | chosen | answer
        q1       | 0       | 0 1   | 0      | 0
        q1       | 1       | 1 0   | 0      |
        """
    )
    again = [
        replace(prompt, variant=2 * prompt.variant + number, chosen=number)
        for prompt in once.prompts
        for number in range(2)
    ]
    spec(
        [replace(once, prompts=tuple(again), expected=4, repeats=2)],
        {
            "worst_accuracy": 1,
            "fluctuation_rate": 0,
            "score": 1,
            "mcqa_plus": 1,
            "accuracy_range": 0,
            "order_loss": -0.25,
        }
        | {"right_in_every_order": 0.25},
    )

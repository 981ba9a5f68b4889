"""The table of sentences, each with facts that require it and similar facts that exclude it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import web
from registry.verdicts.facts import Asked, Facts, Noise, Number, Pooled, Reading
from registry.verdicts.subjects import (
    BoardFacts,
    Cell,
    Concluded,
    Listed,
    ModelFacts,
    Neighbours,
    OnBoard,
    Pair,
    Position,
    Several,
)
from registry.verdicts.table import TABLE, conclude, say

ACCURACY = Number(0.8, 400, 0.76, 0.84)
LOSS = {
    "order_loss": Number(0.1, 400, 0.083, 0.118),
    "right_twice_same_order": Number(0.8, 400, 0.76, 0.84),
    "right_twice_across_orders": Number(0.7, 400, 0.65, 0.75),
}
ONCE = Asked("order", fewest=1, most=1, prompts=1)
FOUR = Asked("order", fewest=4, most=4, prompts=4)
SAMPLED = replace(FOUR, samples=True)
UNLISTED = Asked(None, fewest=1, most=1, prompts=4, lists_options=False)


def facts(asked: Asked = FOUR, *, missing: int = 0, tied: int = 0, **numbers: Number | None) -> Facts:
    """Return a model with four options on 400 questions in four orders, above guessing."""
    stated = {name: number for name, number in ({"accuracy": ACCURACY} | numbers).items() if number is not None}
    reading = Reading(1_600, {"unread": missing} if missing else {}, tied)
    return Facts("m", "b", 400, asked, reading, stated, 0.25, repeat="shuffleboard evaluations submit")


def costs(low: float | None, high: float | None, value: float = 0.1, **more: Any) -> Facts:
    """Return facts with an order loss and this interval."""
    return facts(**({**LOSS, "order_loss": Number(value, 400, low, high)} | more))


def noisy(interval: tuple[float, float] | None) -> Facts:
    """Return facts with repeats from another evaluation, and an interval of the difference."""
    return replace(facts(), noise=Noise(0.0, 0.3, None if interval is None else 0.2, interval, 400))


def model(*evaluations: Facts) -> ModelFacts:
    conclusions = [conclude("evaluation", one) for one in evaluations]
    return ModelFacts(
        [
            Concluded(one, None if text is None else text.text)
            for one, text in zip(evaluations, conclusions, strict=True)
        ]
    )


def board(*evaluations: Facts) -> BoardFacts:
    return BoardFacts(
        [OnBoard(f"m{place}", one.numbers, 0.25, Pooled([[one]])) for place, one in enumerate(evaluations)]
    )


def pair(difference: Number, better: int | None = 0, one: Facts | None = None) -> Pair:
    return Pair(("one", "two"), "accuracy", ("80 %", "70 %"), better, difference, (one or facts(), facts()))


def several(level: tuple[str, ...] = (), *, stated: bool = True, unread: tuple[str, ...] = ()) -> Several:
    return Several("m", "accuracy", "80 %", 3, level, stated, 400, unread)


def position(chosen: int, questions: int = 4_000, of: Facts | None = None) -> Position:
    """Return position A, right in a quarter of 1,000 prompts."""
    return Position(0, chosen, 250, 1_000, questions, of or facts())


GUESSER = facts(accuracy=Number(0.24, 4_000, 0.228, 0.256))
UNSURE = facts(accuracy=Number(0.26, 100, 0.18, 0.35))
LOSING = costs(0.083, 0.118)
CALM = costs(0.0, 0.02, 0.01)
BELOW_ZERO = costs(0.0, 0.02, -0.001)
BARELY = costs(0.03, 0.17)
UNCLEAR = costs(0.01, 0.19)
UNREAD = facts(missing=900)
SAME = facts(fluctuation_rate=Number(0, 400))
DIFFERENCE = Number(0.1, 400, 0.05, 0.15)

CASES: Mapping[str, tuple[Any, Any]] = {
    # Name of the sentence → facts that require it, and facts that exclude it.
    "mostly-unread": (facts(missing=801), facts(missing=800)),
    "partly-unread": (facts(missing=81), facts(missing=80)),
    "tied-answers": (facts(tied=17), facts(tied=16)),
    "surely-guesses": (GUESSER, facts(accuracy=Number(0.58, 100, 0.48, 0.674))),
    "perhaps-guesses": (UNSURE, facts(accuracy=Number(0.3, 4_000, 0.286, 0.314))),
    "untested": (facts(ONCE), facts()),
    "same-answers": (SAME, facts(fluctuation_rate=Number(0, 400), missing=1)),
    "order-costs": (LOSING, costs(0.083, 0.118, missing=160)),
    "order-costs-little": (costs(None, 0.02, 0.01), costs(None, None, 0.01)),
    "order-unsure": (UNCLEAR, costs(None, 0.02)),
    "chance-inside": (facts(SAMPLED), facts(SAMPLED, **LOSS)),
    "has-accuracy": (facts(), facts(accuracy=None)),
    "has-worst-accuracy": (facts(worst_accuracy=ACCURACY), facts(ONCE, worst_accuracy=ACCURACY)),
    "has-noise": (noisy(None), facts()),
    "can-ask-again": (facts(SAMPLED), replace(facts(SAMPLED), repeat=None)),
    "not-evaluated": (model(), model(facts())),
    "unread-everywhere": (model(UNREAD, UNREAD), model(UNREAD, facts())),
    "guesses-everywhere": (model(GUESSER, UNSURE), model(GUESSER, LOSING)),
    "is-told": (model(CALM, LOSING), model(UNREAD)),
    # One of ten evaluations seems to show a cost: of ten, one does by chance.
    "nothing-clear": (model(*[BARELY] * 10), model(BARELY)),
    "listed-order-costs": (Listed(BARELY, "…", 1), Listed(BARELY, "…", 10)),
    "board-unread": (board(facts(missing=81), facts()), board(facts(missing=80), facts())),
    "board-untested": (board(facts(ONCE)), board(facts(ONCE), facts())),
    "board-order-costs": (board(LOSING, CALM), board(replace(LOSING, numbers={**LOSING.numbers, **UNSURE.numbers}))),
    "board-no-cost": (board(*[BARELY] * 10), board(BARELY)),
    "board-chance": (board(facts(SAMPLED)), board(facts())),
    "board-unsure": (board(costs(None, None)), board(costs(None, None), CALM)),
    "board-guesses": (board(GUESSER, LOSING), board(LOSING, CALM)),
    "pair-unread": (pair(DIFFERENCE, one=facts(missing=81)), pair(DIFFERENCE)),
    "pair-unreadable": (pair(DIFFERENCE, one=UNREAD), pair(DIFFERENCE, one=facts(missing=700))),
    "pair-equal": (pair(Number(0, 400), None), pair(DIFFERENCE)),
    "pair-apart": (pair(DIFFERENCE), pair(DIFFERENCE, one=UNREAD)),
    "pair-not-apart": (pair(Number(0.1, 400, -0.01, 0.21)), pair(DIFFERENCE)),
    "several-unread": (several(unread=("a",)), several()),
    "several-few": (several(("a",), stated=False), several(("a",))),
    "several-apart": (several(), several(("a",))),
    "several-level": (several(("a",)), several()),
    "two-neighbours": (Neighbours(1, 1, 1, 1), Neighbours(2, 1, 3, 1)),
    "more-neighbours": (Neighbours(2, 1, 3, 1), Neighbours(1, 1, 1, 1)),
    "position-preferred": (position(350), position(350, of=facts(tied=160))),
    # 500 questions would not have shown an excess of 5 points.
    "no-position-preferred": (position(251), position(251, 500)),
    "cell-guesses": (Cell(Number(0.49, 4_000, 0.48, 0.51), 0.5), Cell(Number(0.58, 100, 0.48, 0.674), 0.5)),
    "cell-may-guess": (Cell(Number(0.58, 100, 0.48, 0.674), 0.5), Cell(Number(0.58, 1_000, 0.55, 0.61), 0.5)),
    "cell-near-guesses": (Cell(Number(0.58, 1_000, 0.55, 0.61), 0.5), Cell(Number(0.61, 1_000, 0.58, 0.64), 0.5)),
    "chart-unread": (UNREAD, facts()),
    "chart-unlisted": (facts(UNLISTED), facts()),
    "chart-other": (facts(replace(FOUR, varied="wording")), facts()),
    "chart-chance": (facts(SAMPLED), facts()),
}


def test_every_sentence_has_a_case_and_a_counterexample() -> None:
    rows = [row.name for subject in TABLE.values() for row in subject.sentences]
    assert len(rows) == len(set(rows))
    assert sorted(rows) == sorted(CASES)


@pytest.mark.parametrize(("about", "name"), [(about, row.name) for about in TABLE for row in TABLE[about].sentences])
def test_a_sentence_is_said_in_its_case_and_not_in_its_counterexample(about: str, name: str) -> None:
    case, counterexample = CASES[name]
    (sentence,) = [sentence for sentence in say(about, case) if sentence.name == name]
    assert "{" not in sentence.text
    assert name not in [sentence.name for sentence in say(about, counterexample)]


def test_texts_write_numbers_in_one_way() -> None:
    conclusion = conclude("evaluation", LOSING)
    assert conclusion is not None
    assert conclusion.text == (
        "Right twice in one order 80.0\u202f%, once in each of two orders 70.0\u202f%: changing the order costs "
        "10.0 points of that (8.3 to 11.8)."
    )
    guess = conclude("evaluation", facts(accuracy=Number(0.58, 100, 0.48, 0.674)))
    assert guess is None
    half = conclude("evaluation", replace(facts(accuracy=Number(0.58, 100, 0.48, 0.674)), chance=0.5))
    assert half is not None
    assert half.text == "Cannot be distinguished from guessing (50.0\u202f%): 58.0\u202f% (48.0 to 67.4\u202f%)."


@pytest.mark.parametrize("loss", [CALM, BELOW_ZERO, costs(0.0, 0.02, 0.0), costs(None, 0.02, -0.001)])
def test_a_loss_whose_interval_begins_at_zero_is_blamed_nowhere(loss: Facts) -> None:
    assert not say("list", Listed(loss, "…", 1))
    for about, subject in (("evaluation", loss), ("model", model(loss)), ("board", board(loss, loss))):
        assert "order-costs" not in {sentence.name.removeprefix("board-") for sentence in say(about, subject)}


@pytest.mark.parametrize(
    ("samples", "noise", "said"),
    [
        (False, Noise(0.7), True),
        (True, Noise(0.7), False),
        (None, Noise(0.7), False),
        (False, Noise(0.0), False),
        (False, Noise(0.7, elsewhere=True), False),
    ],
)
def test_repeats_that_differ_without_sampling_are_said_to_be_unexpected(
    samples: bool | None, noise: Noise, said: bool
) -> None:
    one = replace(facts(replace(FOUR, samples=samples)), noise=noise)
    (text,) = [sentence.text for sentence in say("evaluation", one) if sentence.topic == "noise"]
    assert ("although its protocol does not sample: what the order seems to cost may be chance" in text) is said


def test_losses_over_some_questions_are_stated_with_them() -> None:
    some = {**LOSS, "order_loss": Number(0.1, 150, 0.083, 0.118), "right_twice_same_order": Number(0.82, 150)}
    conclusion = conclude("evaluation", facts(**some))
    assert conclusion is not None
    assert conclusion.text == (
        "Right in two orders 70.0\u202f%; on the 150 of 400 questions with a repeated prompt, right twice in one order "
        "82.0\u202f%: changing the order costs 10.0 points of that (8.3 to 11.8)."
    )


@pytest.mark.parametrize(
    "subject",
    [facts(SAMPLED), GUESSER, UNSURE, UNREAD, facts(ONCE, **LOSS), facts(UNLISTED, **LOSS), facts(tied=17, **LOSS)],
)
def test_nothing_is_blamed_on_the_order_without_a_test_of_it(subject: Facts) -> None:
    sentences = [*say("evaluation", subject), *say("model", model(subject)), *say("board", board(subject))]
    assert not [sentence for sentence in sentences if "cost" in sentence.text]


def test_the_headline_of_a_board_is_about_no_guesser() -> None:
    guesser = replace(LOSING, numbers={**LOSING.numbers, **UNSURE.numbers})
    conclusion = conclude("board", board(guesser, CALM))
    assert conclusion is not None
    assert conclusion.text == "No cost of changing the order is clear in 1 of 2 models when all are looked at together."


def test_the_headline_of_a_board_names_its_only_model_once() -> None:
    alone, two = conclude("board", board(LOSING)), conclude("board", board(LOSING, CALM))
    assert alone is not None
    assert two is not None
    assert alone.text.startswith("Changing the order costs m0 right answers: right twice in one order ")
    assert two.text.startswith("Changing the order costs 1 of 2 models right answers. m0: right twice in one order ")


def test_a_board_names_how_many_models_have_unread_answers() -> None:
    sentences = say("board", board(facts(missing=200), facts(), facts()))
    assert [sentence.text for sentence in sentences] == [
        "More than 5\u202f% of the answers of 1 of 3 models are missing and count as wrong."
    ]


def test_a_board_counts_the_models_that_may_guess() -> None:
    (sentence,) = [one for one in say("board", board(GUESSER, UNSURE, LOSING)) if one.topic == "guessing"]
    assert sentence.text == "2 of 3 models cannot be distinguished from guessing."


def test_a_model_that_may_guess_on_one_benchmark_is_told_by_another() -> None:
    conclusion = conclude("model", model(UNSURE, replace(LOSING, benchmark="c")))
    assert conclusion is not None
    assert conclusion.text.startswith("c: Right twice in one order")


SENTENCES = re.compile(
    r"no better than guessing|distinguished from guessing|is better:|is first:|costs? it|is known about other orders|"
    r"can(not)? be distinguished|Right twice|more often than"
)


def test_templates_have_no_sentences_of_their_own() -> None:
    folder = Path(web.__file__).parent / "templates"
    matches = {path.name: SENTENCES.search(path.read_text(encoding="utf-8")) for path in folder.glob("*.html")}
    assert not {name: match[0] for name, match in matches.items() if match}

"""Sentences about random evaluations, which must be true and name only numbers that the answers have."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import comb
from statistics import fmean

import pytest

from registry.verdicts.facts import Facts, Number, Pooled
from registry.verdicts.subjects import BoardFacts, Neighbours, OnBoard, Pair, Position
from registry.verdicts.table import Said, judge_listed, judge_model, say
from registry.verdicts.wording import count, interval_text, points, share
from tests.verdicts.generated import Raw, facts_of_raw, make, pairs
from tests.verdicts.simulated import BLAME

QUICK = 60
MANY = 5_000
AT_ONCE = 250
TOGETHER = 5
"""Size of a board with a checked evaluation, and largest number of others under the same conditions."""
NUMBER = re.compile(r"−?\d[\d,]*\.\d(?:\u202f%| points?)|\(−?\d[^)]* to [^)]*\)")
"""Pattern of a share, a difference or an interval."""


@pytest.mark.parametrize(
    "first",
    [pytest.param(start, marks=[pytest.mark.long] * (start >= 0)) for start in (-QUICK, *range(0, MANY, AT_ONCE))],
)
def test_sentences_about_random_evaluations_are_true(first: int) -> None:
    for seed in range(first, 0) if first < 0 else range(first, first + AT_ONCE):
        raw = make(seed)
        facts = facts_of_raw(raw)
        sentences = say("evaluation", facts)
        context = f"seed {seed}: {[str(item) for item in sentences]}"
        defined = set(numbers(raw, facts))
        for item in sentences:
            assert set(NUMBER.findall(item.text)) <= defined, context
            assert CHECKS[item.name](raw, facts, item), context
        check_order(raw, facts, list(sentences), context)
        check_position(raw, facts, context)
        check_elsewhere([raw], [facts], context)
        if seed % TOGETHER == 0:
            raws = [
                make(seed * TOGETHER + number, alike=seed) for number in range(2 + abs(seed) // TOGETHER % TOGETHER)
            ]
            named = [replace(facts_of_raw(answers), model=f"m{place}") for place, answers in enumerate(raws)]
            check_elsewhere(raws, named, f"board {seed}")
            check_pair(raws, named, f"pair {seed}")


# The same numbers, computed from the answers in another way


def missing_of(raw: Raw) -> Fraction:
    options = [option for answers in raw.asked for _, option in answers]
    return Fraction(sum(option is None for option in options), max(1, len(options)))


def is_tested(raw: Raw) -> bool:
    return bool(raw.varied or raw.listed) and max(map(raw.prompts, range(len(raw.asked)))) > 1


def accuracy_of(raw: Raw) -> float:
    return raw.mean([raw.right(index)[0] if raw.asked[index] else None for index in range(len(raw.asked))]) or 0.0


def twice(raw: Raw) -> tuple[float, float]:
    """Return S₂ and D₂ from every pair of answers; a model that does not sample repeats its only answer."""
    same, across = [], []
    for index in range(len(raw.asked)):
        by_prompt: dict[int, list[bool]] = {}
        for prompt, option in raw.asked[index]:
            by_prompt.setdefault(prompt, []).append(option == 0)
        lists = list(by_prompt.values())
        again = [fmean(one and two for one, two in combinations(right, 2)) for right in lists if len(right) > 1]
        if not raw.repeated or raw.samples is False:
            again = [fmean(right) for right in lists]
        if len(lists) > 1 and again:
            same.append(fmean(again))
            across.append(fmean(fmean(one) * fmean(two) for one, two in combinations(lists, 2)))
    return fmean(same), fmean(across)


def right_twice_across(raw: Raw) -> float:
    """Return D₂ over all questions with two prompts, repeated or not, which sentences state."""
    estimates = []
    for index in range(len(raw.asked)):
        by_prompt: dict[int, list[bool]] = {}
        for prompt, option in raw.asked[index]:
            by_prompt.setdefault(prompt, []).append(option == 0)
        if len(by_prompt) > 1:
            estimates.append(fmean(fmean(one) * fmean(two) for one, two in combinations(by_prompt.values(), 2)))
    return fmean(estimates)


def numbers(raw: Raw, facts: Facts) -> Iterator[str]:
    """Yield every number that a sentence about this evaluation may name, as it is written."""
    rights = [raw.right(index) for index in range(len(raw.asked)) if raw.asked[index]]
    yield from map(share, (1 / raw.options, float(missing_of(raw)), raw.tied / max(1, facts.reading.asked)))
    if rights:
        yield share(fmean(right[0] for right in rights))
        answered = [answers[0][1] for answers in raw.asked if answers[0][1] is not None]
        yield share(fmean(option == 0 for option in answered) if answered else 0)
    tested = [raw.right(index) for index in range(len(raw.asked)) if raw.prompts(index) > 1]
    if tested:
        yield share(fmean(map(all, tested)))
        counted = [raw.counts(index) for index in range(len(raw.asked)) if raw.prompts(index) > 1]
        yield share(fmean(fmean(right / times for right, times in counts) for counts in counted))
    if "order_loss" in facts.numbers:
        same, across = twice(raw)
        yield from (share(same), share(across), share(right_twice_across(raw)), points(same - across))
    for name, number in facts.numbers.items():
        if number.low is not None and number.high is not None:
            value = max(0.0, number.value) if name == "order_loss" else number.value
            assert number.low - 1e-9 <= value <= number.high + 1e-9
            yield f"({interval_text(name, number.low, number.high).removesuffix(' points').removesuffix(' point')})"
    if (loss := facts.number("order_loss")) is not None and loss.high is not None:
        yield points(loss.high)
    if facts.noise is not None:
        differ = [pairs(raw, index) for index in range(len(raw.asked))]
        yield share(fmean(fmean(one) for one, _ in differ if one))
        if any(two for _, two in differ):
            yield share(fmean(fmean(two) for _, two in differ if two))
        if facts.noise.interval is not None:
            yield points(fmean(fmean(two) - fmean(one) for one, two in differ if one and two))
            low, high = facts.noise.interval
            yield f"({interval_text('order_loss', low, high).removesuffix(' points').removesuffix(' point')})"


def tail(hits: int, n: int, chance: Fraction) -> float:
    """Return the probability of at least this number of hits in n."""
    return float(sum((comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(hits, n + 1)), Fraction(0)))


def may_guess(raw: Raw, facts: Facts) -> bool:
    number = facts.number("accuracy") or facts.numbers["average_accuracy"]
    if number.low is not None:
        return number.low <= 1 / raw.options
    return tail(round(number.value * number.n), number.n, Fraction(1, raw.options)) >= 0.025


# A check for each sentence about an evaluation: an unknown one fails


def _guesses_surely(raw: Raw, facts: Facts, _: Said) -> bool:
    number = facts.number("accuracy") or facts.numbers["average_accuracy"]
    return may_guess(raw, facts) and (number.high is None or number.high <= 1 / raw.options + 0.02)


def _same_answers(raw: Raw, _: Facts, __: Said) -> bool:
    answers = [{option for _, option in raw.papers(index)} for index in range(len(raw.asked))]
    return all(len(answer) == 1 and None not in answer for answer in answers)


def _order_costs(raw: Raw, facts: Facts, said: Said) -> bool:
    same, across = twice(raw)
    spoilt = raw.tied / facts.reading.asked + (float(missing_of(raw)) if not raw.repeated else 0)
    low = facts.numbers["order_loss"].low or 0.0
    return points(same - across) in said.text and same - across > spoilt and low > spoilt and separate(raw)


def _worst(raw: Raw, _: Facts, said: Said) -> bool:
    for number in re.findall(r"every one of (\d+) (?!to)", said.text):
        if {raw.prompts(index) for index in range(len(raw.asked))} != {int(number)}:
            return False
    return (" of its own options" in said.text) == (raw.kind == "divergent")


def _states(raw: Raw, _: Facts, said: Said) -> bool:
    counts = re.findall(r"([\d,]+) (unread|unfinished|empty|refused)", said.text)
    return said.text.startswith(share(float(missing_of(raw)))) and all(
        raw.states[state] == int(number.replace(",", "")) for number, state in counts
    )


def _costs_little(_: Raw, facts: Facts, said: Said) -> bool:
    loss = facts.numbers["order_loss"]
    return not loss.low and loss.high is not None and f"at most {points(loss.high)} of that" in said.text


def separate(raw: Raw) -> bool:
    """Return whether chance is separated from the order, because prompts were repeated or nothing is drawn."""
    return raw.repeated or raw.samples is False


def repeats_prompts(raw: Raw) -> bool:
    return any(times > 1 for index in range(len(raw.asked)) for _, times in raw.counts(index))


Check = Callable[[Raw, Facts, Said], bool]
CHECKS: dict[str, Check] = {
    "mostly-unread": lambda raw, _, said: missing_of(raw) > Fraction(1, 2) and "no verdict" in said.text,
    "partly-unread": _states,
    "tied-answers": lambda raw, facts, _: raw.tied > 0.01 * facts.reading.asked,
    "surely-guesses": _guesses_surely,
    "perhaps-guesses": lambda raw, facts, _: may_guess(raw, facts),
    "untested": lambda raw, _, __: not is_tested(raw),
    "same-answers": _same_answers,
    "order-costs": _order_costs,
    "order-costs-little": _costs_little,
    "order-unsure": lambda _, facts, __: "order_loss" in facts.numbers,
    "chance-inside": lambda raw, facts, _: facts.samples is not False and not repeats_prompts(raw),
    "has-accuracy": lambda raw, _, said: share(accuracy_of(raw)) in said.text and not raw.lacks_original,
    "has-worst-accuracy": _worst,
    "has-noise": lambda raw, _, __: raw.repeated or bool(raw.again),
    "can-ask-again": lambda raw, _, said: raw.samples is True and not raw.repeated and said.command is not None,
}


def check_order(raw: Raw, facts: Facts, said: list[Said], context: str) -> None:
    """Check that no sentence is about an order that was untested, or whose model guesses, was not read, or is tied."""
    missing, text = missing_of(raw), " ".join(map(str, said))
    assert any(sentence.topic == "unread" for sentence in said) == (missing > Fraction(1, 20)), context
    if missing > Fraction(1, 2):
        assert len(said) == 1, context
    if BLAME.search(text):
        assert is_tested(raw), context
        assert separate(raw), context
        assert not may_guess(raw, facts), context
        assert raw.tied <= 0.01 * facts.reading.asked, context
    if raw.varied != "order":
        assert not re.search(r"the order costs|from the order|changing the order|every one of \d+ order", text), context


def check_position(raw: Raw, facts: Facts, context: str) -> None:
    answered = sum(map(len, raw.asked))
    if not answered:
        return
    most = max(range(raw.options), key=lambda place: raw.chosen[place] - raw.right_at[place])
    chosen, right = raw.chosen[most] / answered, raw.right_at[most] / answered
    for sentence in say(
        "position", Position(most, raw.chosen[most], raw.right_at[most], answered, len(raw.asked), facts)
    ):
        assert raw.listed, context
        assert raw.tied <= 0.01 * facts.reading.asked, context
        assert missing_of(raw) <= Fraction(1, 2), context
        assert re.findall(r"[\d.]+\u202f%", sentence.text) == [share(chosen), share(right)], context
        error = (chosen * (1 - chosen) / len(raw.asked)) ** 0.5
        assert (chosen - right > 2.6 * error) if sentence.name == "position-preferred" else 3.9 * error <= 0.05, context


def check_elsewhere(raws: list[Raw], found: list[Facts], context: str) -> None:
    """Check that a model's page, a list and a board describe an evaluation only by its own facts."""
    by_model = {facts.model: (raw, facts) for raw, facts in zip(raws, found, strict=True)}
    for facts, sentence in judge_listed(found):
        check_order(*by_model[facts.model], [*unread(facts), sentence], context)
        assert sentence.text.startswith(f"{facts.model}, "), context
    conclusion = judge_model(found)
    assert conclusion is not None, context
    if BLAME.search(conclusion.text):
        assert any(separate(raw) and is_tested(raw) and points(_loss(raw)) in conclusion.text for raw in raws), context
    if conclusion.name == "unread-everywhere":
        assert all(missing_of(raw) > Fraction(1, 2) for raw in raws), context
    ranked = [facts for facts in found if not facts.unreadable]
    rows = [OnBoard(facts.model, facts.numbers, facts.chance, Pooled([[facts]])) for facts in ranked]
    for sentence in say("board", BoardFacts(rows)):
        if sentence.topic == "unread":
            lacking = sum(by_model[facts.model][1].reading.share > 0.05 for facts in ranked)
            assert count(lacking) in sentence.text or lacking == len(ranked), context
        if name := re.search(r"right answers\. (m\d?):", sentence.text):
            raw, facts = by_model[name[1]]
            check_order(raw, facts, [*unread(facts), sentence], context)
            same, across = twice(raw)
            rights = [share(same), share(across)]
            if "with a repeated prompt" in sentence.text:
                rights = [share(right_twice_across(raw)), share(same)]
            assert [*rights, points(same - across)] == NUMBER.findall(sentence.text)[:3], context


def _loss(raw: Raw) -> float:
    same, across = twice(raw)
    return same - across


def unread(facts: Facts) -> list[Said]:
    return [sentence for sentence in say("evaluation", facts) if sentence.topic == "unread"]


def check_pair(raws: list[Raw], found: list[Facts], context: str) -> None:
    defined = [facts for facts in found if facts.number("accuracy")]
    if len(defined) < 2:
        return
    a, b = (facts.numbers["accuracy"].value for facts in defined[:2])
    better = None if a == b else int(a < b)
    difference = Number(abs(a - b), 400, abs(a - b) - 0.05, abs(a - b) + 0.05)
    sentences = say(
        "pair", Pair(("one", "two"), "accuracy", (share(a), share(b)), better, difference, (defined[0], defined[1]))
    )
    missing = [facts.reading.share for facts in defined[:2]]
    assert (sentences[0].topic == "unread") == (max(missing) > 0.05), context
    last = sentences[-1]
    assert (last.name == "pair-unreadable") == (max(missing) > 0.5), context
    if last.name == "pair-apart":
        assert abs(a - b) > 0.05, context
        assert last.text.startswith("one is" if a > b else "two is"), context
    assert not say("neighbours", Neighbours(0, 0, 0, 0)), context

"""Random evaluations of all kinds, states and sizes: the raw answers, and the registry's facts about them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean

import numpy as np

from registry.metrics.repeats import compute_across_orders, right_once, same_order
from registry.statistics.bootstrap import UpperBound, mean_intervals
from registry.statistics.order_loss import state_order_loss
from registry.verdicts.facts import Asked, Facts, Noise, Number, Reading

STATES = ("unread", "unfinished", "empty", "refused", "no valid answer")
RECORDED = "imported"
"""Evaluation by another program, in which prompts may be repeated, some more often than others."""
# Name of a kind, the part of the prompts that it varies, and whether the prompts list the options.
KINDS = (
    ("cyclic", "order", True),
    ("full", "order", True),
    (RECORDED, "order", True),
    ("divergent", "order", True),
    ("original", None, True),
    ("choice-only", None, True),
    ("wording", "wording", True),
    ("relabel", "labels", True),
    ("cyclic", None, False),
    ("wording", "wording", False),
)


@dataclass
class Raw:
    """Raw answers.

    asked: by question, (prompt, answered option or None), the benchmark's own order first.
    copies: number of variants that show the same prompt and share its answer, which is all orders if no options are
    listed.
    """

    kind: str
    varied: str | None
    listed: bool
    samples: bool | None
    repeated: bool
    options: int
    asked: list[list[tuple[int, int | None]]] = field(default_factory=list)
    states: dict[str, int] = field(default_factory=dict)
    model: str = "m"
    chosen: list[int] = field(default_factory=list)
    """How often each position was answered."""
    right_at: list[int] = field(default_factory=list)
    copies: int = 1
    lacks_original: bool = False
    """Whether the prompts exclude the benchmark's own order."""
    again: list[list[int | None]] = field(default_factory=list)
    """By question, repeated answers to one prompt in another evaluation of the model."""
    tied: int = 0

    def mean(self, values: Sequence[float | None]) -> float | None:
        """Return the mean over the questions that have a value."""
        defined = [value for value in values if value is not None]
        return fmean(defined) if defined else None

    def right(self, question: int) -> list[bool]:
        """Return, for each answer, whether it is right, which means that it is option 0."""
        return [option == 0 for _, option in self.papers(question)]

    def papers(self, question: int) -> list[tuple[int, int | None]]:
        """Return the answers that the papers' metrics count: the first of each prompt if repeats were requested."""
        answers = self.asked[question]
        if not self.repeated or self.kind == RECORDED:
            return answers
        return [
            next(answer for answer in answers if answer[0] == prompt) for prompt in dict.fromkeys(p for p, _ in answers)
        ]

    def prompts(self, question: int) -> int:
        """Return the number of distinct prompts."""
        return len({prompt for prompt, _ in self.asked[question]})

    def counts(self, question: int) -> list[tuple[int, int]]:
        """Return, for each prompt, its number of right answers and of all answers."""
        groups: dict[int, list[bool]] = {}
        for prompt, option in self.asked[question]:
            groups.setdefault(prompt, []).append(option == 0)
        return [(sum(right), len(right)) for right in groups.values()]


def make(seed: int, alike: int | None = None) -> Raw:
    """Return raw answers of a model of any kind; models with the same number `alike` share their conditions."""
    draw, how = random.Random(seed), random.Random(f"asked {seed if alike is None else alike}")
    kind, varied, listed = how.choice(KINDS)
    options = how.choice((2, 4, 4, 5, 10))
    repeated = how.random() < 0.35
    levels = 1 if kind == "original" or not (varied or listed) else how.choice((1, 2, 4, 4, 6, 12, 24))
    times = how.choice((2, 2, 3, 4, 11)) if repeated else 1
    questions = how.choice((1, 2, 5, 29, 30, 100, 100, 400 if levels * times <= 24 else 30, 1000 if levels < 5 else 40))
    samples = draw.choice((True, False, True if repeated and kind != RECORDED else None))
    raw = Raw(kind, varied, listed, samples, repeated, options, model=f"model-{seed % 7}")
    raw.copies = how.choice((2, 4)) if "cyclic" in kind and not listed and not repeated else 1
    raw.chosen, raw.right_at = [0] * options, [0] * options
    if kind == "choice-only":
        raw.asked, raw.repeated = [[] for _ in range(questions)], False
        return raw
    ability = draw.choice((0.0, 1 / options, 0.5, 0.8, 0.95, 1.0))
    effect = draw.choice((0.0, 0.0, 0.03, 0.3, 0.9))
    unread = draw.choice((0.0, 0.0, 0.0, 0.01, 0.04, 0.1, 0.45, 0.55, 1.0))
    noisy = samples is not False and draw.random() < 0.8
    names = draw.sample(STATES[:4], draw.randint(1, 4)) if draw.random() < 0.7 else ["no valid answer"]
    tied = draw.choice((0.0, 0.0, 0.004, 0.05, 1.0)) if samples is False and listed and not repeated else 0.0
    elsewhere = draw.choice((0, 0, 2, 11)) if varied == "order" and not repeated and kind != "divergent" else 0

    def answer(steady: int, moved: bool) -> int | None:
        option = steady
        if noisy:
            option = 0 if draw.random() < (ability * (0.4 if moved else 1)) else 1 + draw.randrange(options - 1)
        return None if draw.random() < unread else option

    for _ in range(questions):
        answers: list[tuple[int, int | None]] = []
        knows = draw.random() < ability
        once_only = kind == RECORDED and draw.random() < 0.3
        for level in range(levels):
            moved = draw.random() < effect
            settled = draw.randrange(options) if moved else 0 if knows else 1 + draw.randrange(options - 1)
            steady = settled if moved or knows else 1
            repeats = times if not (kind == RECORDED and level) else draw.choice((1, times))
            repeats = 1 if once_only else repeats
            if draw.random() < tied:  # the first position counts as chosen
                raw.tied += raw.copies
                answers.append((level, -level % options))
            else:
                answers += [(level, answer(steady, moved)) for _ in range(repeats)]
        raw.asked.append(answers)
        if elsewhere:
            raw.again.append([answer(0 if knows else 1, moved=False) for _ in range(elsewhere)])
    raw.lacks_original = kind == RECORDED and how.random() < 0.2
    for level, option in (chosen_answer for answers in raw.asked for chosen_answer in answers):
        raw.right_at[level % options] += 1
        if option is None:
            state = draw.choice(names)
            raw.states[state] = raw.states.get(state, 0) + raw.copies
        else:
            raw.chosen[(level + option) % options] += 1
    return raw


def facts_of_raw(raw: Raw, *, resamples: int = 400) -> Facts:
    """Return the registry's facts about these answers."""
    indices = range(len(raw.asked))
    tested = [raw.prompts(index) > 1 for index in indices]
    values: dict[str, list[float | None]] = {
        "accuracy": [float(raw.right(index)[0]) if raw.asked[index] else None for index in indices],
        "average_accuracy": [right_once(raw.counts(index)) if tested[index] else None for index in indices],
        "worst_accuracy": [float(all(raw.right(index))) if tested[index] else None for index in indices],
        "fluctuation_rate": [_flips(raw, index) if tested[index] else None for index in indices],
        "accuracy_of_answered": [_was_answered(raw, index) for index in indices],
        "right_twice_across_orders": [
            compute_across_orders(raw.counts(index)) if tested[index] else None for index in indices
        ],
    }
    counted = [raw.counts(index) if _repeats(raw, index) else None for index in indices]
    if raw.lacks_original:
        del values["accuracy"], values["accuracy_of_answered"]
    if raw.kind == "choice-only":
        values = {}
    same = values["average_accuracy"] if values and raw.samples is False else None
    again = same
    if raw.repeated and raw.samples is not False:
        same = [None if number is None else same_order(number) for number in counted]
        again = [
            None if number is None else right_once([counts for counts in number if counts[1] > 1]) for number in counted
        ]
    if same is not None and again is not None:
        across = values["right_twice_across_orders"]
        values["right_twice_same_order"] = same
        values["order_loss"], values["chance_loss"] = _differences(same, across), _differences(again, same)
    shown = [raw.copies * len(answers) for answers in raw.asked]
    prompts = [raw.prompts(index) for index in indices]
    return Facts(
        model=raw.model,
        benchmark="benchmark",
        questions=len(raw.asked),
        asked=Asked(
            varied=raw.varied,
            fewest=min(prompts),
            most=max(prompts),
            prompts=max(shown),
            repeated=raw.repeated and raw.kind != RECORDED,
            own_only=raw.kind != "divergent",
            lists_options=raw.listed,
            samples=raw.samples,
        ),
        reading=Reading(sum(shown), dict(raw.states), raw.tied),
        numbers=_numbers(raw, values, resamples),
        chance=1 / raw.options,
        noise=_noise(raw, resamples) if raw.repeated or raw.again else None,
        variants=raw.kind,
        repeat="shuffleboard evaluations submit" if raw.samples and raw.kind != RECORDED else None,
        evaluation=1,
    )


def _differences(first: list[float | None], second: list[float | None]) -> list[float | None]:
    pairs = zip(first, second, strict=True)
    return [None if one is None or other is None else one - other for one, other in pairs]


def _numbers(raw: Raw, values: dict[str, list[float | None]], resamples: int) -> dict[str, Number]:
    if not values:
        return {}
    table = np.array([[np.nan if value is None else value for value in column] for column in values.values()]).T
    intervals = mean_intervals(table, resamples=resamples)
    numbers = {}
    columns = dict(zip(values, table.astype(np.float64).T, strict=True))
    fewest = min((prompts for index in range(len(raw.asked)) if (prompts := raw.prompts(index)) > 1), default=2)
    for (name, column), resampled in zip(values.items(), intervals, strict=True):
        mean, interval = raw.mean(column), resampled
        if name == "order_loss":
            interval = state_order_loss(resampled, columns[name], columns["chance_loss"], fewest)
        if mean is not None:
            low, high = (None, None) if interval is None else (interval.low, interval.high)
            low = None if isinstance(interval, UpperBound) else low
            numbers[name] = Number(mean, sum(value is not None for value in column), low, high)
    return numbers


def _was_answered(raw: Raw, index: int) -> float | None:
    """Return whether the answer in the benchmark's own order is right; None if there is no answer."""
    if not raw.asked[index] or raw.asked[index][0][1] is None:
        return None
    return float(raw.asked[index][0][1] == 0)


def _repeats(raw: Raw, index: int) -> bool:
    counts = raw.counts(index)
    return len(counts) > 1 and max(times for _, times in counts) > 1


def _flips(raw: Raw, index: int) -> float:
    answers = [option for _, option in raw.papers(index)]
    return float(None in answers or len(set(answers)) > 1)


def pairs(raw: Raw, index: int) -> tuple[list[bool], list[bool]]:
    """Return whether the answers of each pair differ, for pairs on one prompt and on two.

    A missing answer differs from all. If prompts differ in more than the order, the second list is empty.
    """
    same: list[bool] = []
    other: list[bool] = []
    for (prompt, one), (second, two) in combinations(raw.asked[index], 2):
        (same if prompt == second else other).append(one is None or one != two)
    if raw.again:
        same = [one is None or one != two for one, two in combinations(raw.again[index], 2)]
    return same, other if raw.varied == "order" else []


def _noise(raw: Raw, resamples: int) -> Noise | None:
    shares = [pairs(raw, index) for index in range(len(raw.asked))]
    same = [fmean(found) if found else np.nan for found, _ in shares]
    other = [fmean(found) if found else np.nan for _, found in shares]
    effect = [two - one for one, two in zip(same, other, strict=True)]
    if all(np.isnan(same)):
        return None
    intervals = mean_intervals(np.array([same, other, effect]).T, resamples=resamples)
    ends = [None if interval is None else (interval.low, interval.high) for interval in intervals]
    stated = ends[0] is not None and ends[2] is not None

    def mean(found: Sequence[float]) -> float | None:
        defined = [value for value in found if not np.isnan(value)]
        return fmean(defined) if defined else None

    defined = int(np.count_nonzero(~np.isnan(effect)))
    net = (mean(effect), ends[2], defined) if stated else (None, None, 0)
    return Noise(mean(same) or 0.0, mean(other), *net, elsewhere=bool(raw.again))

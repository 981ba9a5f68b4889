"""Simulates many evaluations of models that sample, with and without an order effect, as arrays and as pages' facts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.statistics.bootstrap import RESAMPLES, UpperBound, mean_intervals
from registry.statistics.order_loss import state_order_loss
from registry.statistics.paired import paired
from registry.statistics.simultaneous import compare_all
from registry.verdicts.facts import Asked, Facts, Noise, Number, Pooled, Reading
from registry.verdicts.subjects import BoardFacts, OnBoard
from registry.verdicts.table import judge_listed, judge_model, say

Floats = NDArray[np.float64]
Options = NDArray[np.int8]

OPTIONS: Final = 4
BLAME: Final = re.compile(r"costs \d|costs? \d+ of|, a cost of")
"""Words that attribute a loss to the order."""


@dataclass(frozen=True)
class Model:
    """A model that samples.

    p: its mean probability of a right answer.
    effect: its true order loss L₂.
    even: whether every question has this effect, with half of its orders being better; otherwise probabilities are
    drawn for each order, so that a part of the questions has a large effect.
    spread: the variance of p between questions.
    """

    p: float
    effect: float = 0.0
    even: bool = True
    spread: float = 0.0

    def probabilities(self, generator: np.random.Generator, evaluations: int, n: int, m: int) -> Floats:
        """Return the probabilities of a right answer, shape (evaluations, n, m)."""
        shape = (evaluations, n, 1)
        rates = np.full(shape, self.p) if not self.spread else _beta(generator, np.full(shape, self.p), self.spread)
        if not self.effect:
            return np.broadcast_to(rates, (evaluations, n, m))
        if not self.even:
            # The variance of each question over its orders is a share of the variance that chance permits.
            room = float((rates * (1 - rates)).mean())
            expected = np.broadcast_to(rates, (evaluations, n, m))
            return _beta(generator, expected, expected * (1 - expected) * self.effect / room)
        better = np.argsort(generator.random((evaluations, n, m)), axis=2) < m // 2
        return np.asarray(rates + sqrt(self.effect * (m - 1) / m) * np.where(better, 1, -1))


def _beta(generator: np.random.Generator, mean: Floats, variance: Floats | float) -> Floats:
    """Return beta-distributed draws with these means and variances, where each variance is below mean · (1 − mean)."""
    inside = np.clip(mean, 1e-9, 1 - 1e-9)
    both = np.maximum(inside * (1 - inside) / np.maximum(variance, 1e-12) - 1, 1e-6)
    return generator.beta(inside * both, (1 - inside) * both)


def answers(generator: np.random.Generator, probabilities: Floats, k: int) -> Options:
    """Return chosen options, shape (evaluations, n, m, k); 0 is right, and wrong options are equally likely."""
    shape = (*probabilities.shape, k)
    right = generator.random(shape) < probabilities[..., None]
    return np.where(right, 0, generator.integers(1, OPTIONS, shape)).astype(np.int8)


def per_question(chosen: Options) -> dict[str, Floats]:
    """Return metric → its value for each question, shape (evaluations, n), by formulas on arrays.

    `pairs_same` and `pairs_other` are the shares of pairs of answers that differ, on one prompt and on two.
    """
    *_, m, k = chosen.shape
    right, first = chosen == 0, chosen[..., 0]
    shares = right.mean(axis=3)
    per_metric = {
        "accuracy": right[:, :, 0, 0].astype(float),
        "average_accuracy": shares.mean(axis=2),
        "worst_accuracy": (first == 0).all(axis=2).astype(float),
        "best_accuracy": (first == 0).any(axis=2).astype(float),
        "fluctuation_rate": (first != first[..., :1]).any(axis=2).astype(float),
    }
    if k == 1:
        return per_metric
    hits = right.sum(axis=3)
    twice = (hits * (hits - 1)).mean(axis=2) / (k * (k - 1))
    across = (shares.sum(axis=2) ** 2 - (shares**2).sum(axis=2)) / (m * (m - 1))
    held_out = np.zeros(chosen.shape[:2])
    for repeat in range(k):
        others = hits - right[..., repeat]
        worst = others == others.min(axis=2, keepdims=True)
        held_out += (right[..., repeat] & worst).sum(axis=2) / worst.sum(axis=2) / k
    counts = np.stack([(chosen == option).sum(axis=3) for option in range(OPTIONS)], axis=3)
    alike = (counts * (counts - 1) // 2).sum(axis=(2, 3))
    every = counts.sum(axis=2)
    alike_anywhere = (every * (every - 1) // 2).sum(axis=2)
    same, all_pairs = m * k * (k - 1) // 2, m * k * (m * k - 1) // 2
    return per_metric | {
        "right_in_every_order": shares.prod(axis=2),
        "right_twice_same_order": twice,
        "right_twice_across_orders": across,
        "chance_loss": shares.mean(axis=2) - twice,
        "order_loss": twice - across,
        "worst_order_low": shares.min(axis=2),
        "worst_order_high": held_out,
        "pairs_same": 1 - alike / same,
        "pairs_other": 1 - (alike_anywhere - alike) / (all_pairs - same),
    }


def facts_of_answers(chosen: Options, *, resamples: int = RESAMPLES) -> list[Facts]:
    """Return the registry's facts about each evaluation, with intervals that are computed here."""
    evaluations, n, m, k = chosen.shape
    values = per_question(chosen)
    if k > 1:
        values["pairs_effect"] = values["pairs_other"] - values["pairs_same"]
    # All columns of all evaluations are resampled at once.
    columns = np.concatenate([values[name].T for name in values], axis=1)
    intervals = iter(mean_intervals(columns, resamples=resamples))
    numbers: list[dict[str, Number]] = [{} for _ in range(evaluations)]
    for name, of_evaluations in values.items():
        for place, mean in enumerate(of_evaluations.mean(axis=1).tolist()):
            number, interval = numbers[place], next(intervals)
            if name == "order_loss":
                interval = state_order_loss(interval, of_evaluations[place], values["chance_loss"][place], m)
            ends = (None, None) if interval is None else (interval.low, interval.high)
            if isinstance(interval, UpperBound):
                ends = (None, interval.high)
            number[name] = Number(mean, n, *ends)
    request = Asked("order", m, m, m * k, repeated=k > 1, samples=True)
    return [
        Facts(
            f"m{place}",
            "benchmark",
            n,
            request,
            Reading(n * m * k),
            evaluation_numbers,
            1 / OPTIONS,
            _noise(evaluation_numbers),
        )
        for place, evaluation_numbers in enumerate(numbers)
    ]


def _noise(numbers: dict[str, Number]) -> Noise | None:
    parts = [numbers.pop(name, None) for name in ("pairs_same", "pairs_other", "pairs_effect")]
    same, other, effect = parts
    if same is None or other is None or effect is None:
        return None
    if None in (same.low, effect.low, effect.high):
        return Noise(same.value, other.value)
    return Noise(same.value, other.value, effect.value, (effect.low or 0.0, effect.high or 0.0), effect.n)


def is_blamed_on_page(facts: Facts) -> bool:
    """Check that an evaluation's page, or a list with only this evaluation, attributes a loss to the order."""
    sentences = [*say("evaluation", facts), *(sentence for _, sentence in judge_listed([facts])), judge_model([facts])]
    return any(one is not None and BLAME.search(one.text) for one in sentences)


def is_blamed_on_front_page(models: Sequence[Facts]) -> bool:
    """Check that a list of these models attributes a loss of some model to the order."""
    return bool(judge_listed(models))


def is_blamed_on_board(models: Sequence[Facts]) -> bool:
    """Check that the top of a board with these models attributes a loss of some model to the order."""
    rows = [OnBoard(facts.model, facts.numbers, facts.chance, Pooled([[facts]])) for facts in models]
    return any(BLAME.search(sentence.text) for sentence in say("board", BoardFacts(rows)))


def in_lower_tier(losses: Floats, samples: Floats) -> int:
    """Return the number of models below the first tier on a board of order losses, with all pairs compared at once.

    losses: losses of each question and model, shape (n, models). samples: the result of `resample_means` for them.
    """
    means: list[float | None] = losses.mean(axis=0).tolist()
    compared = compare_all(means, samples, "lower", len(losses), paired([[losses]], zero_or_one=False))
    return sum(tier is not None and tier.number > 1 for tier in compared.tiers(means, "lower"))


def name_models(models: Sequence[Facts]) -> list[Facts]:
    """Return the same facts with distinct names."""
    return [replace(facts, model=f"m{place}") for place, facts in enumerate(models)]

"""Made-up models that like a position, some of which saw a benchmark as it was published."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from registry.scores.contamination import COUNTED, LEAST_PROBABILITY, careful, standardised
from registry.statistics.bootstrap import SEED
from registry.statistics.original_order import (
    CLEAR,
    DRAWS,
    FIRST_DRAWS,
    LEVEL,
    Asked,
    Floats,
    compare_with_other_orders,
    owed_to_lengths,
)

AT_ONCE = 50
"""Models simulated together."""

LIKES_FIRST = (2.0, 0.0, 0.0, -1.0)
"""By how many nats more probable an option is at each of four positions, on average over questions."""
EVEN = (0.25, 0.25, 0.25, 0.25)
MOSTLY_FIRST = (0.6, 0.2, 0.1, 0.1)
"""Shares of a benchmark's keys at each of four positions."""


def made_up(
    generator: np.random.Generator,
    *,
    questions: int = 100,
    others: int = 1,
    liking: Sequence[float] = LIKES_FIRST,
    shares: Sequence[float] = EVEN,
    seen: float = 0.0,
) -> list[Asked]:
    """Answers in four rotations, or with others=6 in all 24 orders: log-odds of the key, and right or wrong.

    Log-odds have a standard normal part of each question and one of each order, and the liking, whose strength varies
    from question to question. seen: the share of questions whose published order is known by heart.
    """
    shape = (questions, 4, others)
    keys = generator.choice(4, size=questions, p=shares)
    other = generator.integers(others, size=questions)
    strength = 2 * generator.random((questions, 1, 1)) * np.asarray(liking)[None, :, None]
    odds = generator.standard_normal((questions, 1, 1)) + strength + generator.standard_normal(shape)
    odds[np.arange(questions), keys, other] += np.where(generator.random(questions) < seen, 5.0, 0.0)
    values = np.stack([odds > 0, odds], axis=1).astype(np.float64)
    return [Asked(*item) for item in zip(values, keys.tolist(), other.tolist(), strict=True)]


@dataclass(frozen=True)
class Liking:
    """What a made-up model likes, in nats: the position `place`, with a strength that varies from question to question,
    and each standard deviation of length. The key has one nat more, plus `ability`. seen: the share of questions of
    whose key the model is five nats surer in the published order.
    """

    position: float = 0.0
    length: float = 0.0
    place: int = 0
    ability: float = 0.0
    seen: float = 0.0


class OnOptions:
    """Made-up models on the same real options, equally many in each question, asked in all rotations.

    Its test is that of `compare_with_other_orders`, with the same draws for all models.
    """

    def __init__(self, options: Sequence[Sequence[str]], keys: Sequence[int]) -> None:
        self.keys = np.array(keys)
        self.lengths = np.stack([standardised(list(map(len, texts))) for texts in options])
        questions, size = self.lengths.shape
        # By position of the key: the option at each position.
        places, positions = np.arange(size)[:, None], np.arange(size)
        self.shown = (self.keys[:, None, None] - places + positions) % size
        self.at = np.take_along_axis(self.lengths[:, None], self.shown, 2)
        generator = np.random.default_rng(SEED)
        drawn = [self.keys, *(generator.permutation(self.keys) for _ in range(DRAWS))]
        self.drawn = np.zeros((len(drawn), questions, size), dtype=np.float32)
        for row, published in zip(self.drawn, drawn, strict=True):
            row[np.arange(questions), published] = 1

    def answers(self, generator: np.random.Generator, models: int, liking: Liking) -> Floats:
        """Right or wrong, and log-odds of the key, shape (models, 2, questions, positions of the key).

        The likeliest option is chosen. It has a standard normal part of its own, and one in each order.
        """
        questions, size = self.lengths.shape
        every = np.arange(questions)
        own = (
            generator.standard_normal((models, questions, size), np.float32) + np.float32(liking.length) * self.lengths
        )
        own[:, every, self.keys] += 1 + liking.ability + generator.standard_normal((models, questions), np.float32)
        score = np.take_along_axis(own[:, :, None], self.shown[None], 3).astype(np.float32)
        score += generator.standard_normal(score.shape, np.float32)
        score[..., liking.place] += liking.position * 2 * generator.random((models, questions, 1))
        score[:, every, self.keys, self.keys] += 5 * (generator.random((models, questions)) < liking.seen)
        of_key = np.einsum("mqpp->mqp", score)
        probable = 1 / np.exp(score - of_key[..., None]).sum(axis=3)
        bounded = np.clip(probable, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        return np.stack([of_key >= score.max(axis=3), np.log(bounded / (1 - bounded))], axis=1)

    def p_values(self, answers: Floats) -> Floats:
        """Of each model and measure, shape (models, 2); only those below CLEAR rest on all draws."""
        models, measures, questions, size = answers.shape
        values = np.moveaxis(answers.reshape(-1, questions, size), 0, -1)[:, :, None]
        left = (values - owed_to_lengths(values, self.at[:, :, None]))[:, :, 0].reshape(questions * size, -1)
        left = (left - left.mean(axis=0)).astype(np.float32)
        drawn = self.drawn.reshape(len(self.drawn), -1)
        found = self._shares(drawn[: FIRST_DRAWS + 1] @ left)
        unclear = np.flatnonzero(found <= CLEAR)
        found[unclear] = self._shares(drawn @ left[:, unclear])
        return found.reshape(models, measures)

    def _shares(self, sums: Floats) -> Floats:
        return np.asarray((sums >= sums[0] - 1e-4 * sums.std(axis=0)).mean(axis=0))

    def asked(self, answers: Floats) -> list[Asked]:
        """One model's answers, shape (2, questions, positions), as the test takes them."""
        return [
            Asked(values[:, :, None], int(key), 0, at[:, None])
            for values, key, at in zip(np.moveaxis(answers, 1, 0), self.keys, self.at, strict=True)
        ]

    def ability(self, liking: Liking, accuracy: float) -> float:
        """With which a model that likes this has that accuracy, in nats."""
        low, high = -5.0, 15.0
        for _ in range(10):
            middle = (low + high) / 2
            tried = self.answers(np.random.default_rng(1), 4, replace(liking, ability=middle, seen=0.0))
            low, high = (middle, high) if tried[:, 0].mean() < accuracy else (low, middle)
        return (low + high) / 2

    def outliers(self, models: int, liking: Liking, seed: int = 0) -> tuple[float, float, float]:
        """Mean accuracy, and the shares of outliers: by both measures, and by the answers alone."""
        generator, accuracy, found = np.random.default_rng(seed), [], []
        for start in range(0, models, AT_ONCE):
            answers = self.answers(generator, min(AT_ONCE, models - start), liking)
            accuracy.append(answers[:, 0].mean())
            found.append(np.minimum(1, COUNTED * self.p_values(answers)))
        careful_p = np.concatenate(found)
        both, alone = careful_p.min(axis=1) <= LEVEL, careful_p[:, 0] <= LEVEL
        return float(np.mean(accuracy)), float(both.mean()), float(alone.mean())

    def most_powerful(self, liking: Liking, models: int = 1_000) -> float:
        """In how many models any test at LEVEL could find what was seen, at most, by right and wrong answers alone.

        It is the likelihood ratio (Neyman and Pearson 1933) of a test that knows what the model likes, what it can and
        what it saw: how probable each pattern of right answers is, by the position of the key as published.
        """
        generator, size = np.random.default_rng(0), self.lengths.shape[1]

        def patterns(seen: float) -> Any:
            made = (self.answers(generator, AT_ONCE, replace(liking, seen=seen)) for _ in range(models // AT_ONCE))
            right = np.concatenate([answers[:, 0] for answers in made]).astype(int)
            return (right << np.arange(size)).sum(axis=2) + (self.keys << size)

        counts = [np.bincount(patterns(seen).ravel(), minlength=size << size) + 0.5 for seen in (0.0, liking.seen)]
        ratio = np.log(counts[1] / counts[0])
        clean, saw = (ratio[patterns(seen)].sum(axis=1) for seen in (0.0, liking.seen))
        return float((saw > np.quantile(clean, 1 - LEVEL)).mean())


def is_outlier(benchmark: Sequence[Asked]) -> bool:
    """Whether the published order is one."""
    p_value = careful(compare_with_other_orders(benchmark))
    return p_value is not None and p_value <= LEVEL


def is_outlier_of_any_order(generator: np.random.Generator, benchmark: Sequence[Asked], draws: int = 999) -> bool:
    """Whether it would be one if published orders were compared with any orders, whatever the positions of the keys."""
    values = np.stack([question.values[1].ravel() for question in benchmark])
    observed = sum(question.values[1, question.key, question.others] for question in benchmark)
    drawn = values[np.arange(len(values)), generator.integers(values.shape[1], size=(draws, len(values)))].sum(axis=1)
    return bool((1 + np.count_nonzero(drawn >= observed - 1e-9)) / (1 + draws) <= LEVEL)

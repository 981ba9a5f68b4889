"""Made-up models that like a position, some of which saw a benchmark as it was published."""

from collections.abc import Sequence

import numpy as np

from registry.scores.contamination import LEAST_PROBABILITY, standardised
from registry.statistics.original_order import LEVEL, Asked, compare_with_other_orders

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


def on_options(
    generator: np.random.Generator,
    options: Sequence[Sequence[str]],
    keys: Sequence[int],
    *,
    first: float,
    long: float,
    seen: float = 0.0,
    letters: bool = False,
) -> list[Asked]:
    """Answers to real options, equally many in each question, in all rotations, of a model that chooses the likeliest.

    first, long: by how many nats an option is more probable at the first position, with a strength that varies from
    question to question, and for each standard deviation of length. The key has one nat more, an option a standard
    normal part of its own, and one in each order. seen: the share of questions of whose key the model is five nats
    surer in the published order. letters: nothing but the answers is known.
    """
    lengths = np.stack([standardised(list(map(len, texts))) for texts in options])
    questions, size = lengths.shape
    key = np.array(keys)
    rotations = (np.arange(size)[:, None] + np.arange(size)) % size
    own = generator.standard_normal((questions, size)) + long * lengths
    own[np.arange(questions), key] += 1 + generator.standard_normal(questions)
    score = own[:, rotations] + generator.standard_normal((questions, size, size))
    score[:, :, 0] += first * 2 * generator.random((questions, 1))
    known = generator.random(questions) < seen
    score[known, 0, key[known]] += 5
    places = (key[:, None] - np.arange(size)) % size
    of_key = np.take_along_axis(score, places[:, :, None], 2)[:, :, 0]
    right = (of_key >= score.max(axis=2)).astype(np.float64)
    probable = 1 / np.exp(score - of_key[:, :, None]).sum(axis=2)
    bounded = np.clip(probable, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    by_place = np.argsort(places, axis=1)
    measures = [right] if letters else [right, np.log(bounded / (1 - bounded))]
    values = np.stack([np.take_along_axis(measure, by_place, 1) for measure in measures], axis=1)
    at = np.take_along_axis(lengths[:, rotations], by_place[:, :, None], 1)
    return [
        Asked(one[:, :, None], int(place), 0, of[:, None, :]) for one, place, of in zip(values, key, at, strict=True)
    ]


def is_outlier(benchmark: Sequence[Asked]) -> bool:
    """Whether the published order is one."""
    found = compare_with_other_orders(benchmark)
    return found is not None and found.p_value is not None and found.p_value <= LEVEL


def is_outlier_of_any_order(generator: np.random.Generator, benchmark: Sequence[Asked], draws: int = 999) -> bool:
    """Whether it would be one if published orders were compared with any orders, whatever the positions of the keys."""
    values = np.stack([question.values[1].ravel() for question in benchmark])
    observed = sum(question.values[1, question.key, question.others] for question in benchmark)
    drawn = values[np.arange(len(values)), generator.integers(values.shape[1], size=(draws, len(values)))].sum(axis=1)
    return bool((1 + np.count_nonzero(drawn >= observed - 1e-9)) / (1 + draws) <= LEVEL)

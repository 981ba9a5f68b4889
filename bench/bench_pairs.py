"""How often equal models are told apart: `python -m bench.bench_pairs [BOARDS]`.

First by enumeration, of 0/1 values: every split of every number of differing questions, at each share of questions that
differ. Then simulated, of average accuracy over orders and of whole boards, by the functions that pages call: BOARDS
pairs of equal models, and as many boards of ten, for each number of questions. Prints Markdown, in percent.
"""

import sys
import time
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from registry.statistics.bootstrap import RANK_RESAMPLES, percentile_interval, resampled_means
from registry.statistics.paired import adjusted, paired, quantile
from registry.statistics.ranks import separated
from registry.statistics.simultaneous import compare_all

Floats = NDArray[np.float64]

QUESTIONS: Final = (30, 50, 100, 200, 400, 1000)
SHARES: Final = tuple(
    float(share)
    for share in np.r_[np.arange(0.004, 0.1, 0.004), np.arange(0.1, 0.9, 0.02), np.arange(0.9, 1.0001, 0.01)]
)
ORDERS: Final = 4
MODELS: Final = 10


def told_apart(questions: int, shares: Sequence[float]) -> list[float]:
    """How often models that are right equally often are told apart, at each share of questions in which they differ."""
    rejected = np.zeros(questions + 1)
    for differing in range(questions + 1):
        first = np.arange(differing + 1, dtype=np.float64)
        difference, error, slack = adjusted(first, differing - first, np.full(first.shape, float(questions)))
        apart = np.abs(difference) - slack > quantile(questions) * error
        rejected[differing] = binom.pmf(first[apart], differing, 0.5).sum()
    return [float(binom.pmf(np.arange(questions + 1), questions, share) @ rejected) for share in shares]


def power(questions: int, share: float, ahead: float) -> float:
    """How often two models are told apart that differ in this share, of which the first has `ahead` right."""
    found = 0.0
    for differing in range(questions + 1):
        first = np.arange(differing + 1, dtype=np.float64)
        difference, error, slack = adjusted(first, differing - first, np.full(first.shape, float(questions)))
        apart = difference - slack > quantile(questions) * error
        found += float(binom.pmf(differing, questions, share) * binom.pmf(first[apart], differing, ahead).sum())
    return found


def simulated(questions: int, share: float, boards: int, seed: int) -> tuple[float, float]:
    """Of average accuracy over ORDERS: how often equal models are told apart by the rule, and by resampling alone.

    share: of the questions, those that either model has right under some orders only, each with its own probability.
    """
    generator = np.random.default_rng(seed)
    by_rule = alone = 0
    for _ in range(boards):
        right = np.where(
            generator.random(questions) < share, generator.random(questions), generator.integers(0, 2, questions)
        )
        values = generator.binomial(ORDERS, right[:, None], (questions, 2)) / ORDERS
        samples = resampled_means(values, resamples=RANK_RESAMPLES, seed=int(generator.integers(2**31)))
        pairs = paired([[values]], zero_or_one=False)
        means: list[float | None] = values.mean(axis=0).tolist()
        by_rule += separated(means, samples, 0, 1, questions, pairs)
        interval = percentile_interval(samples[:, 0] - samples[:, 1], questions)
        alone += interval is not None and not interval.low <= 0 <= interval.high
    return by_rule / boards, alone / boards


def of_boards(questions: int, share: float, boards: int, seed: int) -> float:
    """How often any two of MODELS equal models are told apart at once; share: of questions that are no common ones."""
    generator = np.random.default_rng(seed)
    found = 0
    for _ in range(boards):
        common = generator.random((questions, 1)) < 0.6
        own = generator.random((questions, MODELS)) < 0.5
        values = np.where(generator.random((questions, 1)) < share, own, common).astype(np.float64)
        samples = resampled_means(values, resamples=RANK_RESAMPLES, seed=int(generator.integers(2**31)))
        pairs = paired([[values]], zero_or_one=True)
        found += bool(compare_all(values.mean(axis=0).tolist(), samples, "higher", questions, pairs).told_apart.any())
    return found / boards


def main(arguments: Sequence[str]) -> None:
    """Prints the tables."""
    boards, started = int(arguments[0]) if arguments else 500, time.perf_counter()
    print("| questions | equal, worst share | at a share of .02 | .1 | .3 | power at 60 : 40 of a share of .3 |")
    print("|---|---|---|---|---|---|")
    for questions in QUESTIONS:
        worst = max(told_apart(questions, SHARES))
        cells = [worst, *told_apart(questions, (0.02, 0.1, 0.3)), power(questions, 0.3, 0.6)]
        print(f"| {questions:,} | {' | '.join(f'{100 * cell:.1f}' for cell in cells)} |", flush=True)
    print("\n| questions | share | average accuracy, by the rule | resampling alone | ten equal models at once |")
    print("|---|---|---|---|---|")
    for questions in QUESTIONS[1:]:
        for share in (0.02, 0.05, 0.1, 0.3):
            rule, alone = simulated(questions, share, boards, seed=questions)
            at_once = of_boards(questions, share, boards, seed=questions)
            cells = [rule, alone, at_once]
            print(f"| {questions:,} | {share} | {' | '.join(f'{100 * cell:.1f}' for cell in cells)} |", flush=True)
    print(f"\n{boards} of each kind, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])

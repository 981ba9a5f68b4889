"""Measures how often equal models are declared different: `python -m bench pairs [BOARDS]`.

First by enumeration, for 0/1 values: every split of every number of differing questions, at each share of questions
that differ. Then simulated, by the functions that pages call: BOARDS pairs of equal models that sample, by each metric
over orders and repeats; and as many boards of ten, for each number of questions. Prints Markdown, in percent.
"""

import sys
import time
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from bench.bench_order_loss import World, losses_of
from registry.statistics.bootstrap import RANK_RESAMPLES, resample_means
from registry.statistics.paired import adjust, paired, quantile
from registry.statistics.simultaneous import compare_all

Floats = NDArray[np.float64]

QUESTIONS: Final = (30, 50, 100, 200, 400, 1000)
SHARES: Final = tuple(
    float(share)
    for share in np.r_[np.arange(0.004, 0.1, 0.004), np.arange(0.1, 0.9, 0.02), np.arange(0.9, 1.0001, 0.01)]
)
ASKED: Final = ((4, 2), (24, 2))
METRICS: Final = ("average_accuracy", "right_in_every_order", "right_twice_across_orders", "order_loss")
MODELS: Final = 10


def count_distinguished(questions: int, shares: Sequence[float]) -> list[float]:
    """Return how often equally accurate models are declared different, at each share of differing questions."""
    rejected = np.zeros(questions + 1)
    for differing in range(questions + 1):
        first = np.arange(differing + 1, dtype=np.float64)
        difference, error, slack = adjust(first, differing - first, np.full(first.shape, float(questions)))
        is_distinct = np.abs(difference) - slack > quantile(questions) * error
        rejected[differing] = binom.pmf(first[is_distinct], differing, 0.5).sum()
    return [float(binom.pmf(np.arange(questions + 1), questions, share) @ rejected) for share in shares]


def power(questions: int, share: float, ahead: float) -> float:
    """Return how often two models that differ on this share of questions are declared different.

    ahead: part of the differing questions that only the first model has right.
    """
    probability = 0.0
    for differing in range(questions + 1):
        first = np.arange(differing + 1, dtype=np.float64)
        difference, error, slack = adjust(first, differing - first, np.full(first.shape, float(questions)))
        is_distinct = difference - slack > quantile(questions) * error
        probability += float(
            binom.pmf(differing, questions, share) * binom.pmf(first[is_distinct], differing, ahead).sum()
        )
    return probability


EQUALS: Final = {
    "no effect, .9": (World(0.9), World(0.9)),
    "no effect, .97": (World(0.97), World(0.97)),
    "5 % of questions, .97": (World(0.97, "half", 0.05), World(0.97, "half", 0.05)),
    "10 % of questions, no chance": (World(1.0, "half", 0.1), World(1.0, "half", 0.1)),
    "one order of 20 %, no chance": (World(1.0, "one", 0.2), World(1.0, "one", 0.2)),
}
"""Pairs of equal models; models without chance answer each prompt once."""


def simulate(worlds: tuple[World, World], questions: int, m: int, k: int, pairs: int, seed: int) -> dict[str, float]:
    """Return how often two equal models are declared different, by metric."""
    generator = np.random.default_rng(seed)
    distinct = dict.fromkeys(METRICS, 0)
    for _ in range(pairs):
        columns = [by_metric(world, generator, questions, m, k) for world in worlds]
        for metric in METRICS:
            values = np.stack([column[metric] for column in columns], axis=1)
            interval = paired([[values]], zero_or_one=False).interval(0, 1, questions)
            distinct[metric] += interval is not None and not interval.low <= 0 <= interval.high
    return {metric: count / pairs for metric, count in distinct.items()}


def by_metric(world: World, generator: np.random.Generator, questions: int, m: int, k: int) -> dict[str, Floats]:
    """Return the values of a model's questions, by metric."""
    times = 1 if world.p == 1 else k
    right = world.right(generator, 1, questions, m, times)[0]
    losses, both = losses_of(right, times)
    shares = (right / times).astype(np.float64)
    once = shares.mean(axis=1)
    return dict(zip(METRICS, (once, shares.prod(axis=1), once - both, losses), strict=True))


def count_boards(questions: int, share: float, boards: int, seed: int) -> float:
    """Return how often any two of MODELS equal models are declared different, all pairs compared at once.

    share: part of the questions whose outcomes the models do not share.
    """
    generator = np.random.default_rng(seed)
    wrong_boards = 0
    for _ in range(boards):
        common = generator.random((questions, 1)) < 0.6
        own = generator.random((questions, MODELS)) < 0.5
        values = np.where(generator.random((questions, 1)) < share, own, common).astype(np.float64)
        samples = resample_means(values, resamples=RANK_RESAMPLES, seed=int(generator.integers(2**31)))
        pairs = paired([[values]], zero_or_one=True)
        wrong_boards += bool(
            compare_all(values.mean(axis=0).tolist(), samples, "higher", questions, pairs).told_apart.any()
        )
    return wrong_boards / boards


def main(arguments: Sequence[str]) -> None:
    """Print the tables."""
    boards, started = int(arguments[0]) if arguments else 500, time.perf_counter()
    print("| questions | equal, worst share | at a share of .02 | .1 | .3 | power at 60 : 40 of a share of .3 |")
    print("|---|---|---|---|---|---|")
    for questions in QUESTIONS:
        worst = max(count_distinguished(questions, SHARES))
        cells = [worst, *count_distinguished(questions, (0.02, 0.1, 0.3)), power(questions, 0.3, 0.6)]
        print(f"| {questions:,} | {' | '.join(f'{100 * cell:.1f}' for cell in cells)} |", flush=True)
    print(f"\n| equal models | m | k | questions | {' | '.join(METRICS)} |")
    print("|---" * (4 + len(METRICS)) + "|")
    for name, worlds in EQUALS.items():
        for m, k in ASKED:
            for questions in (50, 100, 400):
                shares = simulate(worlds, questions, m, k, boards, seed=questions)
                cells = " | ".join(f"{100 * shares[metric]:.1f}" for metric in METRICS)
                print(f"| {name} | {m} | {k} | {questions} | {cells} |", flush=True)
    print("\n| questions | share | ten equal models at once |")
    print("|---|---|---|")
    for questions in QUESTIONS[1:]:
        for share in (0.02, 0.05, 0.1, 0.3):
            at_once = count_boards(questions, share, boards, seed=questions)
            print(f"| {questions:,} | {share} | {100 * at_once:.1f} |", flush=True)
    print(f"\n{boards} of each kind, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Compares planned with simulated power: `python -m bench.bench_power [SIMULATIONS]`. Prints Markdown.

Two models differ on a share of the questions, with a true difference that the plan expects to find with a probability
of 50, 80 or 90 %. The simulation gives the share of evaluations in which the interval of their paired difference
excludes 0, as on pages and in commands. Then the same among 30 models that are all compared at once.
"""

import math
import sys
import time
from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy.special import ndtri

from registry.statistics.bootstrap import RANK_RESAMPLES, percentile_interval, resample_means
from registry.statistics.power import critical_of, power_of, power_of_differing, smallest_difference_of_differing
from registry.statistics.simultaneous import compare_all

QUESTIONS: Final = (100, 300, 1000)
DIFFERING: Final = (0.1, 0.3, 0.5)
POWERS: Final = (0.5, 0.8, 0.9)
AT_ONCE: Final = 500


def simulate(questions: int, differing: float, difference: float, simulations: int, seed: int = 0) -> float:
    """Return the share of simulated pairs that are declared different."""
    generator, distinguished = np.random.default_rng(seed), 0
    better = (differing + difference) / 2
    for start in range(0, simulations, AT_ONCE):
        draws = generator.random((questions, min(AT_ONCE, simulations - start)))
        differences = np.where(draws < better, 1.0, np.where(draws < differing, -1.0, 0.0))
        for samples in resample_means(differences, resamples=RANK_RESAMPLES).T:
            interval = percentile_interval(samples, questions)
            distinguished += interval is not None and not interval.low <= 0 <= interval.high
    return distinguished / simulations


def simulate_board(models: int, questions: int, difference: float, boards: int, seed: int = 0) -> tuple[float, float]:
    """Return (planned, simulated) power for one model that is better than all others, which are equal at .5.

    The simulated power is the mean over the pairs of the best model with each other model. The planned power uses the
    true variance of the pairs.
    """
    generator = np.random.default_rng(seed)
    limits = ndtri(np.array([0.5 + difference] + [0.5] * (models - 1))) * math.sqrt(2)
    spreads, beaten = [], 0
    for _ in range(boards):
        difficulty = generator.standard_normal((questions, 1))
        right = (difficulty + generator.standard_normal((questions, models)) < limits).astype(np.float64)
        samples = resample_means(right, resamples=RANK_RESAMPLES)
        beaten += int(compare_all(list(right.mean(axis=0)), samples, "higher", questions).beats[0].sum())
        spreads.append((right[:, :1] - right[:, 1:]).std(axis=0, ddof=1).mean())
    planned = power_of(difference, float(np.mean(spreads)), questions, critical=critical_of(models))
    return planned, beaten / boards / (models - 1)


def main(arguments: Sequence[str]) -> None:
    """Print both tables."""
    simulations = int(arguments[0]) if arguments else 1000
    started = time.perf_counter()
    print("| questions | one alone is right on | true difference | planned | simulated |")
    print("|---|---|---|---|---|")
    for questions in QUESTIONS:
        for differing in DIFFERING:
            for power in POWERS:
                difference = smallest_difference_of_differing(differing, questions, power=power)
                if difference is None:
                    continue
                planned = power_of_differing(difference, differing, questions)
                share = simulate(questions, differing, difference, simulations)
                cells = [f"{100 * value:.1f}" for value in (differing, difference, planned, share)]
                print(f"| {questions:,} | {' | '.join(f'{cell} %' for cell in cells)} |", flush=True)
    print("\n| models | questions | true difference | planned | simulated |\n|---|---|---|---|---|")
    for questions, difference in ((200, 0.16), (1000, 0.07)):
        planned, share = simulate_board(30, questions, difference, max(1, simulations // 10))
        print(
            f"| 30 | {questions:,} | {100 * difference:.1f} % | {100 * planned:.1f} % | {100 * share:.1f} % |",
            flush=True,
        )
    print(f"\n{simulations} pairs a row, {max(1, simulations // 10)} boards, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Resamples 14,042 questions 10,000 times: `python -m bench.bench_statistics [QUESTIONS COLUMNS]`.

Prints the seconds that all mean-type metrics take together, with and without intervals, how many times faster that is
than the reference, which draws one resample after the other, and the largest difference between the two; then CoRA's
bootstrap over variants. The values are generated from a seed: half of the columns 0/1, a fifth undefined for some
questions.
"""

import resource
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from registry.statistics.bootstrap import (
    RESAMPLES,
    cora_over_variants,
    cora_over_variants_reference,
    percentile_interval,
    resample_means,
    resample_means_reference,
)

REFERENCE_RESAMPLES = 200
REPEATS = 3
VARIANTS = (20, 26, 74)  # numbers of divergent variants of 4, 5 and 13 options


def make_values(questions: int, columns: int) -> NDArray[np.float64]:
    """Return per-question values, shape (questions, columns)."""
    generator = np.random.default_rng(0)
    values = generator.random((questions, columns))
    values[:, ::2] = values[:, ::2] < 0.6
    for column in range(0, columns, 5):
        values[generator.random(questions) < 0.1, column] = np.nan
    return values


def seconds(function: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the seconds of the fastest of a few runs."""
    measured = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        measured.append(time.perf_counter() - started)
    return min(measured)


def measure_means(questions: int, columns: int) -> None:
    """Measure the bootstrap over questions."""
    values = make_values(questions, columns)
    fast = seconds(lambda: resample_means(values))
    slow = seconds(lambda: resample_means_reference(values, resamples=REFERENCE_RESAMPLES), repeats=1)
    slow *= RESAMPLES / REFERENCE_RESAMPLES
    difference = np.abs(
        resample_means(values, resamples=REFERENCE_RESAMPLES)
        - resample_means_reference(values, resamples=REFERENCE_RESAMPLES)
    ).max()
    samples = resample_means(values)
    intervals = seconds(lambda: [percentile_interval(column, questions) for column in samples.T])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{RESAMPLES:,} resamples of {questions:,} questions x {columns} metrics")
    print(f"  resample_means  {fast:6.2f} s   intervals {intervals:.2f} s   {peak:.0f} MiB peak of the whole process")
    print(f"  reference        {slow:6.1f} s   from {REFERENCE_RESAMPLES} resamples; {slow / fast:.0f} times as long")
    print(f"  largest difference {difference:.1e}")


def measure_cora(questions: int, M: int) -> None:
    """Measure CoRA's bootstrap over variants."""
    hits = np.random.default_rng(0).random((questions, M)) < 0.95
    fast = seconds(lambda: cora_over_variants(hits, 0.95))
    slow = seconds(lambda: cora_over_variants_reference(hits, 0.95, resamples=REFERENCE_RESAMPLES), repeats=1)
    slow *= RESAMPLES / REFERENCE_RESAMPLES
    print(f"  M = {M}  {fast:6.2f} s   reference {slow:6.1f} s, {slow / fast:.0f} times as long")


def main() -> None:
    """Measure both bootstraps."""
    questions, columns = [int(argument) for argument in sys.argv[1:3]] or [14_042, 30]
    measure_means(questions, columns)
    print(f"CoRA over variants, {RESAMPLES:,} resamples of 100 draws, {questions:,} questions")
    for M in VARIANTS:
        measure_cora(questions, M)


if __name__ == "__main__":
    main()

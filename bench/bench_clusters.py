"""Coverage with clustered questions: `python -m bench.bench_clusters [SIMULATIONS]`. Prints Markdown.

Evaluations are simulated with questions in clusters of 4 to 12, such as questions on one passage. A model's probability
of a right answer is drawn from a Beta distribution for each cluster, so that answers in a cluster have the
intra-cluster correlation. Three intervals of accuracy are compared by how often they cover the truth: over resampled
questions, over resampled clusters, and statsmodels' least squares with cluster-robust errors. Then the design effect is
compared with Kish's for clusters of unequal size: 1 + (Σ size² / Σ size − 1) · correlation.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t
from statsmodels.regression.linear_model import OLS

from registry.statistics.bootstrap import RANK_RESAMPLES, design_effect, percentile_interval, resample_means

TRUTH: Final = 0.6
CORRELATIONS: Final = (0.0, 0.1, 0.3)
CLUSTERS: Final = (40, 100)
AT_ONCE: Final = 250


@dataclass
class Found:
    """Numbers of evaluations and of covering intervals, by kind, and mean design effects: ours and Kish's."""

    simulations: int
    alone: int = 0
    clustered: int = 0
    statsmodels: int = 0
    effect: float = 0.0
    kish: float = 0.0
    errors: float = 0.0
    """Mean ratio of the bootstrap's standard error over clusters to statsmodels' error."""


def answers(
    generator: np.random.Generator, clusters: NDArray[np.intp], correlation: float, evaluations: int
) -> NDArray[np.float64]:
    """Return answers as right (1) or wrong (0), shape (questions, evaluations)."""
    count = int(clusters.max()) + 1
    if correlation == 0:
        chance = np.full((count, evaluations), TRUTH)
    else:
        strength = 1 / correlation - 1
        chance = generator.beta(TRUTH * strength, (1 - TRUTH) * strength, (count, evaluations))
    return (generator.random((clusters.size, evaluations)) < chance[clusters]).astype(np.float64)


def study(count: int, correlation: float, simulations: int, seed: int = 0) -> Found:
    """Simulate evaluations with this many clusters."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(4, 13, count)
    clusters = np.repeat(np.arange(count), sizes)
    counts = Found(simulations, kish=float(1 + ((sizes**2).sum() / sizes.sum() - 1) * correlation))
    critical = t.ppf(0.975, count - 1)
    for start in range(0, simulations, AT_ONCE):
        values = answers(generator, clusters, correlation, min(AT_ONCE, simulations - start))
        alone = resample_means(values, resamples=RANK_RESAMPLES)
        together = resample_means(values, resamples=RANK_RESAMPLES, clusters=clusters)
        for own, samples_alone, samples_together in zip(values.T, alone.T, together.T, strict=True):
            for name, samples, units in (("alone", samples_alone, own.size), ("clustered", samples_together, count)):
                interval = percentile_interval(samples, units)
                inside = interval is not None and interval.low <= TRUTH <= interval.high
                setattr(counts, name, getattr(counts, name) + inside)
            fit = OLS(own, np.ones_like(own)).fit(cov_type="cluster", cov_kwds={"groups": clusters})
            counts.statsmodels += abs(fit.params[0] - TRUTH) <= critical * fit.bse[0]
            counts.errors += float(samples_together.std() / fit.bse[0]) / simulations
            counts.effect += (design_effect(samples_together, samples_alone) or 1.0) / simulations
    return counts


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    simulations = int(arguments[0]) if arguments else 500
    started = time.perf_counter()
    print("| clusters | correlation | questions alone | clusters | statsmodels | design effect | Kish |")
    print("|---|---|---|---|---|---|---|")
    for count in CLUSTERS:
        for correlation in CORRELATIONS:
            result = study(count, correlation, simulations)
            shares = [100 * covered / simulations for covered in (result.alone, result.clustered, result.statsmodels)]
            cells = [f"{share:.1f}" for share in shares] + [f"{result.effect:.2f}", f"{result.kish:.2f}"]
            print(f"| {count} | {correlation} | {' | '.join(cells)} |", flush=True)
    print(f"\n{simulations} evaluations a row, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])

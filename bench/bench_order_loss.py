"""Measures how often a reported order loss covers the true one: `python -m bench order_loss [EVALUATIONS]`.

Models that sample are simulated, right with probability p, on n questions in m orders, k times each; first without an
effect of the order, then with 2 % of the questions decided by the order alone; also models that do not sample. For each
cell: how often a two-sided interval is stated, how often it covers the truth, how often all reported bounds do, and the
median upper bound, by the functions that pages call.

With `--worlds` many more kinds of effects: by n, m and k the lowest coverage in any of WORLDS, of two-sided intervals
and of all reported bounds. For these the ends of the bootstrap's interval are approximated by its cumulants. Prints
Markdown.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from registry.statistics.bootstrap import (
    LARGEST_SKEWNESS,
    RANK_RESAMPLES,
    UpperBound,
    percentile_intervals,
    resample_means,
)
from registry.statistics.order_loss import bound_order_loss, largest_loss, lift_of_losses, state_order_loss, unseen_loss

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

QUESTIONS: Final = (30, 50, 100, 200, 400, 1000)
ORDERS: Final = (2, 4, 12, 24)
REPEATS: Final = (1, 2, 4)
RIGHT: Final = (0.5, 0.7, 0.9, 0.95, 0.97, 0.98, 0.99)
ASKED: Final = ((4, 2), (12, 2), (4, 4), (24, 2))
CLAIMED: Final = (50, 100, 400, 1000)
AT_ONCE: Final = 2_000_000
SELDOM: Final = 0.05
"""Smallest share of evaluations with an interval for which a world counts."""


@dataclass(frozen=True)
class World:
    """Models that are right with probability p, apart from an effect of the order.

    effect: `half`: a share of the questions is right in half of the orders and wrong in the others; `one`: a share is
    wrong in one order alone; `all`: every question is right more often in half of its orders, by `share`; None: no
    effect.
    """

    p: float
    effect: str | None = None
    share: float = 0.0

    def probabilities(self, generator: np.random.Generator, evaluations: int, n: int, m: int) -> Singles:
        """Return the probabilities of right answers, shape (evaluations, n, m)."""
        shape = (evaluations, n, m)
        if self.effect is None:
            return np.broadcast_to(np.float32(self.p), shape)
        ranks = np.argsort(generator.random(shape, dtype=np.float32), axis=2)
        if self.effect == "all":
            low, high = max(0.0, self.p - self.share), min(1.0, self.p + self.share)
            return np.where(ranks < m // 2, np.float32(high), np.float32(low))
        right = ranks < m // 2 if self.effect == "half" else ranks > 0
        affected = generator.random((evaluations, n, 1)) < self.share
        return np.where(affected, right.astype(np.float32), np.float32(self.p))

    def order_loss(self, m: int) -> float:
        """Return the true order loss."""
        if self.effect == "all":
            distance = min(1.0, self.p + self.share) - max(0.0, self.p - self.share)
            return distance**2 * largest_loss(m)
        return self.share * (largest_loss(m) if self.effect == "half" else 1 / m) if self.effect else 0.0

    def losses(self, generator: np.random.Generator, evaluations: int, n: int, m: int, k: int) -> tuple[Floats, Floats]:
        """Return the order losses, and the sums of order and chance losses, each of shape (evaluations, n)."""
        return losses_of(self.right(generator, evaluations, n, m, k), k)

    def right(self, generator: np.random.Generator, evaluations: int, n: int, m: int, k: int) -> Singles:
        """Return how many of k answers are right, shape (evaluations, n, m)."""
        chances = self.probabilities(generator, evaluations, n, m)
        right = np.zeros(chances.shape, dtype=np.float32)
        for _ in range(k):
            right += generator.random(chances.shape, dtype=np.float32) < chances
        return right


def losses_of(right: NDArray[np.floating], k: int) -> tuple[Floats, Floats]:
    """Return order losses, and sums of order and chance losses. right: right answers among k, shape (…, orders)."""
    m = right.shape[-1]
    shares = right / k
    once = shares.mean(axis=-1, dtype=np.float64)
    twice = (right * (right - 1)).mean(axis=-1, dtype=np.float64) / (k * (k - 1)) if k > 1 else once
    total = shares.sum(axis=-1, dtype=np.float64)
    across = (total**2 - (shares**2).sum(axis=-1, dtype=np.float64)) / (m * (m - 1))
    return twice - across, once - across


WORLDS: Final = (
    *(World(p) for p in RIGHT),
    *(World(p, "half", share) for p in (0.7, 0.9, 0.97, 0.99, 1.0) for share in (0.005, 0.01, 0.02, 0.05, 0.2)),
    *(World(p, "one", share) for p in (0.9, 0.97, 1.0) for share in (0.01, 0.03, 0.1)),
    *(World(p, "all", share) for p in (0.7, 0.9, 0.97) for share in (0.03, 0.1)),
)
"""The simulated worlds. With p = 1 a model does not sample: it has one answer to each prompt."""


def approximate_ends(losses: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the bootstrap's interval from its cumulants (Cornish and Fisher 1938); NaN if not stated."""
    n = losses.shape[1]
    mean = losses.mean(axis=1)
    deviations = losses - mean[:, None]
    variance = (deviations**2).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness = (deviations**3).mean(axis=1) / variance**1.5 / sqrt(n)
        excess = ((deviations**4).mean(axis=1) / variance**2 - 3) / n
    quantile = sqrt(n / (n - 1)) * -float(stdtrit(n - 1, 0.025))
    ends = []
    for side in (-1, 1):
        level = skewness / 3 + side * quantile
        level += skewness * (level**2 - 1) / 6 + excess * (level**3 - 3 * level) / 24
        level -= skewness**2 * (2 * level**3 - 5 * level) / 36
        ends.append(np.where(np.abs(skewness) <= LARGEST_SKEWNESS, mean + np.sqrt(variance / n) * level, np.nan))
    return ends[0], ends[1]


def chunks(evaluations: int, n: int, m: int) -> Iterator[int]:
    """Yield the numbers of evaluations that are simulated together."""
    most = max(1, AT_ONCE // (n * m))
    for start in range(0, evaluations, most):
        yield min(most, evaluations - start)


def lowest(n: int, m: int, k: int, evaluations: int) -> tuple[float, float]:
    """Return the lowest coverage in any world: of two-sided intervals, unless they are rare, and of all bounds."""
    two_sided, everything = [], []
    for number, world in enumerate(WORLDS):
        if k == 1 and (world.p < 1 or world.effect == "all"):
            continue
        generator = np.random.default_rng([number, n, m, k])
        samples = [world.losses(generator, count, n, m, k) for count in chunks(evaluations, n, m)]
        losses, both = (np.concatenate(parts) for parts in zip(*samples, strict=True))
        low, high = approximate_ends(losses)
        true, stated = world.order_loss(m), ~np.isnan(low)
        high = np.maximum(high + [lift_of_losses(row) for row in losses], unseen_loss(n, m))
        holding = (np.maximum(0, low) <= true + 1e-9) & (true - 1e-9 <= high)
        bounded = np.array([bound_order_loss(mean, n, m) >= true - 1e-9 for mean in both.mean(axis=1).tolist()])
        if stated.mean() > SELDOM:
            two_sided.append(float(holding[stated].mean()))
        everything.append(float(np.where(stated, holding, bounded).mean()))
    return min(two_sided, default=float("nan")), min(everything)


def worlds(evaluations: int) -> None:
    """Print the lowest coverages."""
    cells = [(m, k) for m in ORDERS for k in REPEATS]
    print("| n | " + " | ".join(f"m {m}, k {k}" for m, k in cells) + " |\n" + "|---" * (len(cells) + 1) + "|")
    for n in QUESTIONS:
        coverages = [lowest(n, m, k, evaluations) for m, k in cells]
        print(f"| {n:,} | {' | '.join(f'{100 * two:.1f} / {100 * all_:.1f}' for two, all_ in coverages)} |", flush=True)


@dataclass(frozen=True)
class Coverage:
    """Shares of evaluations: with a two-sided interval, covering the truth among these, and covering it among all."""

    two_sided: float
    holding: float
    all_holding: float
    median_bound: float


def coverage(world: World, n: int, m: int, k: int, evaluations: int, seed: int) -> Coverage:
    """Return how often the functions that pages call cover the truth."""
    generator = np.random.default_rng([seed, n, m, k])
    true = world.order_loss(m)
    two_sided, holding, all_holding, stated, bounds = 0, 0, 0, 0, []
    for count in chunks(evaluations, n, m):
        losses, both = world.losses(generator, count, n, m, k)
        samples = resample_means(losses.T, resamples=RANK_RESAMPLES, seed=int(generator.integers(2**31)))
        for place, interval in enumerate(percentile_intervals(samples.T, [n] * count)):
            stated_loss = state_order_loss(interval, losses[place], both[place] - losses[place], m)
            if stated_loss is None:
                continue
            holds = stated_loss.low <= true + 1e-9 and true - 1e-9 <= stated_loss.high
            stated += 1
            all_holding += holds
            if isinstance(stated_loss, UpperBound):
                bounds.append(stated_loss.high)
            else:
                two_sided += 1
                holding += holds
    return Coverage(
        two_sided / evaluations,
        holding / two_sided if two_sided else float("nan"),
        all_holding / stated,
        float(np.median(bounds)) if bounds else float("nan"),
    )


def claims(evaluations: int) -> None:
    """Print the coverage of each cell."""
    print("| effect | p | m | k | n | two-sided | holding | all that is stated holds | median bound, points |")
    print("|---" * 9 + "|")
    least = 1.0
    cells = [
        (World(p, *effect), m, k, n)
        for effect in ((), ("half", 0.02))
        for p in RIGHT
        for m, k in ASKED
        for n in CLAIMED
    ]
    cells += [(World(1.0, "half", share), m, 1, n) for share in (0.02, 0.1) for m in (4, 24) for n in CLAIMED]
    for seed, (world, m, k, n) in enumerate(cells):
        covered = coverage(world, n, m, k, evaluations, seed)
        least = min(least, covered.all_holding)
        effect = f"{world.share:.0%}" if world.effect else "none"
        numbers = (
            100 * covered.two_sided,
            100 * covered.holding,
            100 * covered.all_holding,
            100 * covered.median_bound,
        )
        texts = ("–" if np.isnan(number) else f"{number:.1f}" for number in numbers)
        print(f"| {effect} | {world.p} | {m} | {k} | {n:,} | {' | '.join(texts)} |", flush=True)
    print(f"\nLowest coverage of all that is stated: {100 * least:.1f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("evaluations", type=int, nargs="?", default=400)
    parser.add_argument("--worlds", action="store_true")
    arguments = parser.parse_args()
    began = time.perf_counter()
    (worlds if arguments.worlds else claims)(arguments.evaluations)
    print(f"\n{arguments.evaluations} evaluations a cell, {time.perf_counter() - began:.0f} s")

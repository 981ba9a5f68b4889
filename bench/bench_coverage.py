"""Measures how often the 95 % intervals cover the truth: `python -m bench.bench_coverage [SIMULATIONS]`.

Prints Markdown.
First exactly, for 0/1 metrics: every number of right answers, weighted by its binomial probability, with the
bootstrap's samples as the binomial's own percentiles, so that nothing is random. These figures decided the kind of
interval and the rules for omitting it. Then by simulated evaluations of models whose true values are known.
"""

import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, binom, norm, t

from registry.statistics import bootstrap
from registry.statistics.bootstrap import Interval, combine, mean_intervals, percentile_interval, resample_means

Floats = NDArray[np.float64]

# 0/1 metrics, exactly

SIZES = (200, 205, 211, 220, 233, 250, 266, 285, 300, 331, 375, 400, 450, 500, 700, 1000)
TRUTHS = np.linspace(0.05, 0.5, 1801)  # the other half mirrors it
LEVELS = (np.arange(10_000) + 0.5) / 10_000

Method = Callable[[Floats, int], Interval | None]


def plain(samples: Floats, _questions: int) -> Interval:
    """Return the plain percentile interval."""
    low, high = np.quantile(samples, [0.025, 0.975], method="inverted_cdf")
    return Interval(low, high)


def widen(samples: Floats, questions: int) -> Interval:
    """Return Hesterberg's expanded percentile interval."""
    level = norm.cdf(math.sqrt(questions / (questions - 1)) * t.ppf(0.025, questions - 1))
    low, high = np.quantile(samples, [level, 1 - level], method="inverted_cdf")
    return Interval(low, high)


def mid(samples: Floats, _questions: int) -> Interval:
    """Return the plain percentile interval of the mid-distribution."""
    values, counts = np.unique(samples, return_counts=True)
    low, high = np.interp([0.025, 0.975], (np.cumsum(counts) - counts / 2) / samples.size, values)
    return Interval(low, high)


def accelerate(samples: Floats, _questions: int) -> Interval:
    """Return the BCa interval of the mid-distribution; a sixth of the samples' skewness is the acceleration."""
    values, counts = np.unique(samples, return_counts=True)
    below = (np.cumsum(counts) - counts / 2) / samples.size
    bias = norm.ppf(np.interp(samples.mean(), values, below))
    deviations = samples - samples.mean()
    a = (deviations**3).mean() / (deviations**2).mean() ** 1.5 / 6
    z = norm.ppf([0.025, 0.975])
    low, high = np.interp(norm.cdf(bias + (bias + z) / (1 - a * (bias + z))), below, values)
    return Interval(low, high)


OURS = "mid-distribution, bias-corrected, widened (ours)"
METHODS: dict[str, Method] = {
    "plain percentile": plain,
    "widened for n": widen,
    "mid-distribution": mid,
    OURS: percentile_interval,
    "BCa of the mid-distribution": accelerate,
}


def resample(right: int, questions: int) -> Floats:
    """Return percentiles of the resampled means for this number of right answers."""
    below = binom.cdf(np.arange(questions + 1), questions, right / questions)
    return np.searchsorted(below, LEVELS) / questions


@cache
def every_interval(method: Method, questions: int) -> list[Interval | None]:
    """Return an interval for each number of right answers; none for all right and all wrong."""
    with patch.multiple(bootstrap, LARGEST_SKEWNESS=math.inf, MINIMUM_QUESTIONS=0):
        stated = [method(resample(right, questions), questions) for right in range(1, questions // 2 + 1)]
    mirrored = [
        None if interval is None else Interval(1 - interval.high, 1 - interval.low) for interval in reversed(stated)
    ]
    return [None, *stated, *mirrored[questions % 2 == 0 :], None]


def exact(method: Method, questions: int, truths: Floats, least: int) -> tuple[Floats, Floats]:
    """Return two shares for each truth: of stated intervals that cover it, and of evaluations whose interval misses it.

    least: an interval is stated if the rarer outcome occurs at least this often.
    """
    covered, stated = np.zeros(truths.size), np.zeros(truths.size)
    for right, interval in enumerate(every_interval(method, questions)):
        if interval is None or min(right, questions - right) < least:
            continue
        weight = binom.pmf(right, questions, truths)
        stated += weight
        covered += weight * ((interval.low <= truths + 1e-12) & (truths - 1e-12 <= interval.high))
    return covered / stated, stated - covered


def percent(share: float) -> str:
    """Format a share in percent, to one decimal."""
    return f"{100 * share:.1f}"


def kinds_of_interval() -> Iterable[str]:
    """Yield the coverage of each kind of interval over all sizes and truths."""
    yield "| interval | lowest | highest | below 93 % | above 97 % | at .05 of 200 |"
    yield "|---|---|---|---|---|---|"
    for name, method in METHODS.items():
        coverages = np.concatenate([exact(method, questions, TRUTHS, 3)[0] for questions in SIZES])
        (point,), _ = exact(method, 200, np.array([0.05]), 3)
        outside = [percent((coverages < 0.93).mean()), percent((coverages > 0.97).mean())]
        yield f"| {name} | {' | '.join([percent(coverages.min()), percent(coverages.max()), *outside, percent(point)])} |"


def least_counts() -> Iterable[str]:
    """Yield the effect of requiring more of the rarer outcome, for the plain interval and for ours."""
    yield "| interval | stated for at least | misses, at most (any truth) | coverage, truth ≥ .05 | at .05 of 200 |"
    yield "|---|---|---|---|---|"
    anywhere = np.concatenate([np.linspace(1e-4, 0.05, 2000), TRUTHS])
    for name in ("plain percentile", OURS):
        method = METHODS[name]
        for least in range(1, 7):
            missed = max(exact(method, questions, anywhere, least)[1].max() for questions in SIZES)
            inside = np.concatenate([exact(method, questions, TRUTHS, least)[0] for questions in SIZES])
            (point,), _ = exact(method, 200, np.array([0.05]), least)
            cells = [percent(missed), f"{percent(inside.min())} to {percent(inside.max())}", percent(point)]
            yield f"| {name} | {least} | {' | '.join(cells)} |"


def few_questions() -> Iterable[str]:
    """Yield the coverage on fewer than 200 questions."""
    yield "| questions | coverage, truth .3 to .7 | misses, at most (any truth) |"
    yield "|---|---|---|"
    for questions in (10, 15, 20, 30, 50, 100, 150):
        middle, _ = exact(percentile_interval, questions, np.linspace(0.3, 0.5, 801), 3)
        stated = [interval for interval in every_interval(percentile_interval, questions) if interval is not None]
        ends = np.array([end for interval in stated for end in (interval.low, interval.high)])
        # The worst true values are just outside an interval's end.
        just_outside = np.concatenate([ends - 1e-9, ends + 1e-9])
        _, missed = exact(percentile_interval, questions, just_outside[(just_outside > 0) & (just_outside < 1)], 3)
        yield f"| {questions} | {percent(middle.min())} to {percent(middle.max())} | {percent(missed.max())} |"


def credible(questions: int, prior: float) -> list[Interval | None]:
    """Return the central 95 % of the posterior for each number of right answers, under a symmetric Beta prior."""
    right = np.arange(questions + 1)
    low, high = (beta.ppf(level, right + prior, questions - right + prior) for level in (0.025, 0.975))
    return [Interval(*ends) for ends in zip(low, high, strict=True)]


def bayesian() -> Iterable[str]:
    """Yield coverage and mean width of Bayesian intervals on few questions, next to ours if one is stated."""
    yield "| questions | ours | width | uniform prior | width | Jeffreys' prior | width |"
    yield "|---|---|---|---|---|---|---|"
    truths = np.linspace(0.05, 0.5, 901)
    for questions in (10, 30, 50, 100, 200, 300):
        ours = [
            interval if min(right, questions - right) >= 3 else None
            for right, interval in enumerate(every_interval(percentile_interval, questions))
        ]
        cells = []
        for intervals in (ours if questions >= 30 else [], credible(questions, 1.0), credible(questions, 0.5)):
            stated, covered, width = (np.zeros(truths.size) for _ in range(3))
            for right, interval in enumerate(intervals):
                if interval is not None:
                    weight = binom.pmf(right, questions, truths)
                    stated += weight
                    width += weight * (interval.high - interval.low)
                    covered += weight * ((interval.low <= truths + 1e-12) & (truths - 1e-12 <= interval.high))
            if intervals:
                shares = covered / stated
                cells += [f"{percent(shares.min())} to {percent(shares.max())}", f"{(width / stated).mean():.3f}"]
            else:
                cells += ["–", "–"]
        yield f"| {questions} | {' | '.join(cells)} |"


# Simulated evaluations

VARIANTS = 4
QUESTIONS = (200, 1000)
ACCURACIES = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95)
AT_ONCE = 50
COLUMNS = 7


def moment(p: float, order: int) -> float:
    """Return E[θ^order] for θ ~ Beta(p, 1 − p)."""
    return math.prod((p + i) / (1 + i) for i in range(order))


def truths(p: float) -> dict[str, float]:
    """Map metric → its true value, for models that know a question with probability θ ~ Beta(p, 1 − p)."""
    consistent = moment(p, VARIANTS)
    same_wrong = 3 * moment(1 - p, VARIANTS) / 3**VARIANTS
    return {
        "accuracy": p,
        "average_accuracy": p,
        "worst_accuracy": consistent,
        "fluctuation_rate": 1 - consistent - same_wrong,
        "prob_mass": p,
        "consistency_index": 1 - (p - consistent),
        "cora": p * (1 - (p - consistent)),
        "pct_drop": 100 * (1 - moment(p, 2) / p),
        "difference": p - moment(p, 2),
    }


def simulate(generator: np.random.Generator, questions: int, p: float) -> Floats:
    """Return per-question values, shape (questions, COLUMNS), of one evaluation with four options and four orders.

    In each order a question is answered correctly with its probability θ, otherwise with one of three wrong options. A
    second model, for the difference, is right with probability θ².
    """
    theta = generator.beta(p, 1 - p, questions)
    right = generator.random((questions, VARIANTS)) < theta[:, None]
    answers = np.where(right, 0, generator.integers(1, 4, right.shape))
    original = right[:, 0].astype(np.float64)
    second_model = (generator.random(questions) < theta**2).astype(np.float64)
    return np.column_stack(
        [
            original,
            right.mean(axis=1),
            right.all(axis=1),
            (answers != answers[:, :1]).any(axis=1),
            theta,
            original * right[:, 1:].mean(axis=1),
            original - second_model,
        ]
    )


def intervals(values: Floats, means: Floats) -> list[Interval | None]:
    """Return the intervals in the order of `truths`. values: (questions, COLUMNS); means: (COLUMNS, resamples)."""
    questions = len(values)
    original, consistent, retest = means[0], means[2], means[5]
    # The loss of right answers depends on the number of questions answered correctly.
    answered_rightly = int(values[:, 0].sum())
    return [
        *(percentile_interval(means[column], questions) for column in range(5)),
        percentile_interval(combine(lambda a, c: 1 - (a - c), original, consistent), questions),
        percentile_interval(combine(lambda a, c: a * (1 - (a - c)), original, consistent), questions),
        percentile_interval(combine(lambda a, r: 100 * (a - r) / a, original, retest), answered_rightly),
        percentile_interval(means[6], questions),
    ]


def study(questions: int, p: float, simulations: int, seed: int) -> dict[str, tuple[int, int]]:
    """Map metric → (stated intervals, intervals that cover the truth)."""
    generator = np.random.default_rng(seed)
    true = truths(p)
    stated, covering = dict.fromkeys(true, 0), dict.fromkeys(true, 0)
    for start in range(0, simulations, AT_ONCE):
        evaluations = [simulate(generator, questions, p) for _ in range(min(AT_ONCE, simulations - start))]
        means = resample_means(np.concatenate(evaluations, axis=1)).T
        for place, values in enumerate(evaluations):
            own = means[place * COLUMNS : (place + 1) * COLUMNS]
            for name, interval in zip(true, intervals(values, own), strict=True):
                if interval is not None:
                    stated[name] += 1
                    covering[name] += interval.low <= true[name] <= interval.high
    return {name: (stated[name], covering[name]) for name in true}


def cell(found: tuple[int, int], simulations: int, *, inside: bool) -> str:
    """Format the coverage in percent, with the number of intervals if some are missing; in brackets if not claimed."""
    stated, covering = found
    if stated < simulations / 20:
        return f"– ({stated} stated)" if stated else "–"
    text = percent(covering / stated) + ("" if stated == simulations else f" of {stated}")
    return text if inside else f"({text})"


def run_simulation(simulations: int) -> Iterable[str]:
    """Yield the table of simulated evaluations."""
    names = list(truths(0.5))
    yield f"| questions | accuracy | {' | '.join(f'`{name}`' for name in names)} |"
    yield "|---" * (len(names) + 2) + "|"
    for questions in QUESTIONS:
        for seed, p in enumerate(ACCURACIES):
            covered = study(questions, p, simulations, seed)
            true = truths(p)
            # pct_drop is in percent; coverage of a difference is claimed everywhere.
            inside = {name: 0.05 <= true[name] / (100 if name == "pct_drop" else 1) <= 0.95 for name in names}
            inside["difference"] = True
            cells = [cell(covered[name], simulations, inside=inside[name]) for name in names]
            yield f"| {questions} | {p} | {' | '.join(cells)} |"


def long_tails(simulations: int) -> Iterable[str]:
    """Yield the coverage for means of 1 − a lognormal variable: values without a lower limit, as in NPSQ."""
    yield "| σ of the logarithm | questions | coverage | stated of |"
    yield "|---|---|---|---|"
    generator = np.random.default_rng(0)
    for sigma in (0.5, 1.0, 1.5):
        for questions in QUESTIONS:
            true = 1 - math.exp(sigma**2 / 2)
            stated = covering = 0
            for start in range(0, simulations, AT_ONCE):
                size = (questions, min(AT_ONCE, simulations - start))
                for interval in mean_intervals(1 - generator.lognormal(0, sigma, size)):
                    if interval is not None:
                        stated += 1
                        covering += interval.low <= true <= interval.high
            yield f"| {sigma} | {questions} | {percent(covering / stated)} | {stated} of {simulations} |"


def main(arguments: Sequence[str]) -> None:
    """Print all tables."""
    simulations = int(arguments[0]) if arguments else 1000
    started = time.perf_counter()
    for lines in (
        kinds_of_interval(),
        least_counts(),
        few_questions(),
        bayesian(),
        run_simulation(simulations),
        long_tails(simulations),
    ):
        for line in lines:
            print(line, flush=True)
        print()
    print(f"{simulations} simulations per row, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])

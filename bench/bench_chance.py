"""Tests sentences about the order and intervals of order loss: `python -m bench.bench_chance [EVALUATIONS]`.

Models that sample are simulated, in m orders, k times each. First how often pages, a list of ten, a board of ten and
its tiers attribute a loss to the order, if it has no effect and if it costs a known L₂, in percent of EVALUATIONS; then
how often the 95 % intervals cover the true W, S₂, D₂ and L₂, and the bracket the true accuracy in the worst order.
Prints Markdown.
"""

import argparse
import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from registry.statistics.bootstrap import RANK_RESAMPLES, resample_means
from registry.verdicts.facts import Facts
from tests.verdicts.simulated import (
    Model,
    answers,
    facts_of_answers,
    in_lower_tier,
    is_blamed_on_board,
    is_blamed_on_front_page,
    is_blamed_on_page,
    name_models,
    per_question,
)

ORDERS: Final = (4, 12, 24)
RIGHT: Final = (0.80, 0.90, 0.95, 0.99)
OF_A_LIST: Final = 10
AT_ONCE: Final = 200
POPULATION: Final = 400_000
METRICS: Final = (
    "right_in_every_order",
    "right_twice_same_order",
    "right_twice_across_orders",
    "order_loss",
)


def blame(model: Model, m: int, k: int, n: int, evaluations: int, seed: int) -> list[float]:
    """Return in percent how often evaluations, lists, boards and models below the first tier blame the order."""
    generator = np.random.default_rng([seed, m, k, n])
    pages = lists = boards = lower = groups = 0
    for start in range(0, evaluations, AT_ONCE):
        count = min(AT_ONCE, evaluations - start)
        chosen = answers(generator, model.probabilities(generator, count, n, m), k)
        verdicts = name_models(facts_of_answers(chosen))
        pages += sum(map(is_blamed_on_page, verdicts))
        for group in _groups(verdicts):
            groups += 1
            lists += is_blamed_on_front_page(group)
            boards += is_blamed_on_board(group)
        if k > 1:
            losses = per_question(chosen)["order_loss"].T
            samples = resample_means(losses, resamples=RANK_RESAMPLES, seed=int(generator.integers(2**31)))
            for first in range(0, count - OF_A_LIST + 1, OF_A_LIST):
                members = slice(first, first + OF_A_LIST)
                lower += in_lower_tier(losses[:, members], samples[:, members])
    return [100 * pages / evaluations, 100 * lists / groups, 100 * boards / groups, 100 * lower / evaluations]


def _groups(found: Sequence[Facts]) -> list[Sequence[Facts]]:
    return [found[start : start + OF_A_LIST] for start in range(0, len(found) - OF_A_LIST + 1, OF_A_LIST)]


def blames(evaluations: int) -> None:
    """Print the tables of attributed losses."""
    print("| L₂ | p | m | k | n | pages | lists of ten | boards of ten | models below the first tier |")
    print("|---" * 9 + "|")
    planted = [(Model(0.80, 0.03), m, 400) for m in ORDERS]
    planted += [(Model(p, 0.03, even=False), m, 400) for p in RIGHT[:3] for m in ORDERS]
    cells = [(Model(p), m, 2, n) for n in (100, 400) for p in RIGHT for m in ORDERS]
    cells += [(Model(0.90), m, 1, 100) for m in ORDERS]
    cells += [(model, m, 2, n) for model, m, n in planted]
    for seed, (model, m, k, n) in enumerate(cells):
        shares = " | ".join(f"{cell:.1f}" for cell in blame(model, m, k, n, evaluations, seed))
        print(
            f"| {model.effect}{'' if model.even else ', uneven'} | {model.p} | {m} | {k} | {n} | {shares} |", flush=True
        )


def coverage(model: Model, m: int, k: int, n: int, evaluations: int, seed: int) -> list[str]:
    """Return the coverage in percent of each of METRICS, how often L₂ > 0 is claimed, and the bracket's coverage."""
    generator = np.random.default_rng([seed, m, k, n])
    of_population = model.probabilities(generator, 1, POPULATION, m)
    orders, twice = of_population.sum(axis=2), (of_population**2).sum(axis=2)
    across = float(((orders**2 - twice) / (m * (m - 1))).mean())
    true = dict(zip(METRICS, (float(of_population.prod(axis=2).mean()), float(twice.mean() / m), across), strict=False))
    true["order_loss"] = model.effect
    worst = float(of_population.min(axis=2).mean())
    stated, holding = dict.fromkeys(METRICS, 0), dict.fromkeys(METRICS, 0)
    above = bracketed = brackets = 0
    for start in range(0, evaluations, AT_ONCE):
        count = min(AT_ONCE, evaluations - start)
        for facts in facts_of_answers(answers(generator, model.probabilities(generator, count, n, m), k)):
            for name in METRICS:
                number = facts.numbers[name]
                if number.low is not None and number.high is not None:
                    stated[name] += 1
                    holding[name] += number.low <= true[name] <= number.high
            cost = facts.numbers["order_loss"].low
            above += cost is not None and cost > 0
            low, high = facts.numbers["worst_order_low"].low, facts.numbers["worst_order_high"].high
            if low is not None and high is not None:
                brackets += 1
                bracketed += low <= worst <= high
    shares = [f"{100 * holding[name] / stated[name]:.1f}" if stated[name] else "–" for name in METRICS]
    return [*shares, f"{100 * above / evaluations:.1f}", f"{100 * bracketed / brackets:.1f}" if brackets else "–"]


def coverages(evaluations: int) -> None:
    """Print the table of coverage."""
    print("\n| L₂ | m | k | n | W | S₂ | D₂ | L₂ | L₂ above 0 | bracket |\n" + "|---" * 10 + "|")
    for seed, effect in enumerate((0.0, 0.03)):
        for m in ORDERS:
            for k in (2, 4):
                for n in (50, 100, 400):
                    model = Model(0.7, effect, even=False, spread=0.08)
                    cells = " | ".join(coverage(model, m, k, n, evaluations, seed))
                    print(f"| {effect} | {m} | {k} | {n} | {cells} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("evaluations", type=int, nargs="?", default=200)
    parser.add_argument("--only", choices=("said", "coverage"))
    arguments = parser.parse_args()
    began = time.perf_counter()
    if arguments.only != "coverage":
        blames(arguments.evaluations)
    if arguments.only != "said":
        coverages(arguments.evaluations)
    print(f"\n{arguments.evaluations} evaluations a row, {time.perf_counter() - began:.0f} s")

"""Boards with one small task among large ones: `python -m bench small_tasks [BOARDS] [--models N]`.

Boards are simulated whose true means are known: the models' abilities are spread evenly, and the probability of a right
answer depends on the model's ability and the question's difficulty. By the functions that rank boards, in percent of
BOARDS: how often all rank intervals cover the true ranks at once, how often the first and the last model are declared
different, how often a model's interval is stated, and how often a stated interval covers the true mean; the small
task's share of the uncertainty; and the seconds per board. Prints Markdown.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.boards.definition import parse_column
from registry.boards.standings import Standing, TaskColumn, TaskStanding, TaskValues, Together, standings_over
from registry.statistics.bootstrap import RANK_RESAMPLES, resample_means
from registry.tables import ModelRevision

Floats = NDArray[np.float64]

SMALL: Final = (5, 12, 20)
LARGE: Final = ((400,) * 4, (400,) * 13)


@dataclass(frozen=True)
class Found:
    """A board's standings, and which of its intervals cover the truth."""

    ranks_hold: bool
    ends_apart: bool
    stated: float
    holding: float
    share: float


def probabilities(generator: np.random.Generator, abilities: Floats, questions: int) -> Floats:
    """Return each model's probability of a right answer to newly drawn questions, shape (questions, models)."""
    difficulty = generator.normal(0, 1.5, (questions, 1))
    return 1 / (1 + np.exp(difficulty - abilities))


def true_means(abilities: Floats) -> Floats:
    """Return the models' true means over all questions from the distribution of difficulties."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    chances = 1 / (1 + np.exp(1.5 * nodes[:, None] - abilities))
    return np.asarray(weights @ chances / weights.sum())


def column_of(values: Floats, seed: int, task: str, metric: str = "accuracy") -> TaskColumn:
    """Return a task's column as boards compute it. values: shape (questions, models)."""
    samples = resample_means(values, resamples=RANK_RESAMPLES, seed=seed)
    standings = [
        TaskStanding(
            float(column.mean()),
            len(column),
            (float(column.mean()),),
            samples[:, [place]],
            len(column),
            values=TaskValues((column,)),
        )
        for place, column in enumerate(np.ascontiguousarray(values.T))
    ]
    return TaskColumn(metric, standings, 1.0, task)


def board(generator: np.random.Generator, sizes: tuple[int, ...], abilities: Floats) -> Found:
    """Simulate one board and compare its intervals with the truth."""
    true = true_means(abilities)
    columns = [
        column_of(
            (generator.random((size, abilities.size)) < probabilities(generator, abilities, size)).astype(np.float64),
            int(generator.integers(2**31)),
            f"task-{number}",
        )
        for number, size in enumerate(sizes)
    ]
    standings, together = rank(columns)
    best = [1 + int((true > ability + 1e-12).sum()) for ability in true]
    worst = [len(true) - int((true < ability - 1e-12).sum()) for ability in true]
    ranks = [(standing.all_rank_low or 1, standing.all_rank_high or len(true)) for standing in standings]
    holding = [
        standing.interval[0] <= value <= standing.interval[1] for standing, value in _filter_stated(standings, true)
    ]
    return Found(
        all(low <= top and bottom <= high for (low, high), top, bottom in zip(ranks, best, worst, strict=True)),
        standings[int(true.argmax())].all_tier != standings[int(true.argmin())].all_tier,
        len(holding) / len(true),
        float(np.mean(holding)) if holding else float("nan"),
        0.0 if together is None or together.uncertainty is None else together.uncertainty.share,
    )


def rank(columns: Sequence[TaskColumn]) -> tuple[list[Standing], Together | None]:
    """Return each model's standing, and all pairs compared at once."""
    column = parse_column(f"{columns[0].metric}@original")
    revision = ModelRevision()  # models need no names here
    rows = [(place, revision, True) for place in range(len(columns[0].standings))]
    placed, together = standings_over([column], rows, [{column.name: standing} for standing in columns], None)
    return [standings_of_row[column.name] for standings_of_row in placed], together.get(column.name)


def _filter_stated(standings: list[Standing], true: Floats) -> list[tuple[Standing, float]]:
    return [
        (standing, float(value))
        for standing, value in zip(standings, true, strict=True)
        if standing.interval is not None
    ]


def main(boards: int, models: int) -> None:
    """Print the table."""
    print(
        "| models | small task | large tasks | equal models: ranks hold | ranks hold | first and last apart |", end=""
    )
    print(" interval stated | holding | share | s |\n" + "|---" * 10 + "|")
    spread, equal = np.linspace(-2.0, 2.0, models), np.zeros(models)
    for large in LARGE:
        for small in SMALL:
            generator = np.random.default_rng([small, len(large), models])
            began = time.perf_counter()
            results = [board(generator, (small, *large), spread) for _ in range(boards)]
            seconds = (time.perf_counter() - began) / boards
            alike = [board(generator, (small, *large), equal) for _ in range(boards)]
            numbers = (
                np.mean([result.ranks_hold for result in alike]),
                np.mean([result.ranks_hold for result in results]),
                np.mean([result.ends_apart for result in results]),
                np.mean([result.stated for result in results]),
                np.nanmean([result.holding for result in (*results, *alike)])
                if any(result.stated for result in results)
                else np.nan,
                np.mean([result.share for result in results]),
            )
            cells = " | ".join("–" if np.isnan(number) else f"{100 * number:.1f}" for number in numbers)
            print(f"| {models} | {small} | {len(large)} × {large[0]} | {cells} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("boards", type=int, nargs="?", default=200)
    parser.add_argument("--models", type=int, default=26)
    arguments = parser.parse_args()
    main(arguments.boards, arguments.models)

"""Measures how often all rank intervals of a board are right at once: `python -m bench.bench_ranks [BOARDS]`.

Boards of 30 models are simulated whose true accuracies are known. A question has a difficulty that all models share, so
that they tend to err on the same questions (correlation ½ of the latent variables). Prints Markdown: for the marginal
rank intervals and for the simultaneous ones the percentage of boards in which every model's true rank, 1 + the number
of models that are truly better, is in its interval; the percentage of boards in which truly equal models are in
different tiers; and how many of the 29 pairs of neighbours are declared different.
"""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from registry.statistics.bootstrap import RANK_RESAMPLES, resample_means
from registry.statistics.competition_ranks import ranks
from registry.statistics.ranks import rank_intervals, tiers
from registry.statistics.simultaneous import compare_all

Floats = NDArray[np.float64]

MODELS: Final = 30
AT_ONCE: Final = 50
"""Number of boards whose questions are drawn together; it never changes a result."""


@dataclass(frozen=True)
class Setting:
    """A kind of board: its models' true accuracies, shape (models,), and its number of questions."""

    name: str
    truth: Floats
    questions: int


SETTINGS: Final = (
    Setting("30 equal models at .5", np.full(MODELS, 0.5), 200),
    Setting("30 equal models at .9", np.full(MODELS, 0.9), 200),
    Setting("spread evenly, .3 to .8", np.linspace(0.3, 0.8, MODELS), 200),
    Setting("ten groups of three equal ones, .3 to .8", np.repeat(np.linspace(0.3, 0.8, 10), 3), 200),
)


@dataclass
class Found:
    """Numbers of boards: all, covered by each kind of interval, with equal models split, and pairs of neighbours.

    models_covered: rank intervals that cover their model's true rank, over all boards and models.
    """

    boards: int = 0
    marginal: int = 0
    marginal_models: int = 0
    marginal_split: int = 0
    simultaneous: int = 0
    simultaneous_split: int = 0
    neighbours: int = 0
    wrong_holm: int = 0


def answers(generator: np.random.Generator, setting: Setting, boards: int) -> Floats:
    """Return answers as right (1) or wrong (0), shape (questions, boards · models), board by board."""
    shape = (setting.questions, boards, setting.truth.size)
    difficulty = generator.standard_normal(shape[:2])[:, :, None]
    right = difficulty + generator.standard_normal(shape) < ndtri(setting.truth) * math.sqrt(2)
    return right.reshape(setting.questions, -1).astype(np.float64)


def study(setting: Setting, boards: int, seed: int = 0) -> Found:
    """Simulate this many boards."""
    generator, counts = np.random.default_rng(seed), Found()
    true_ranks = np.array(ranks(list(setting.truth), "higher"))
    equal = np.subtract.outer(setting.truth, setting.truth) == 0
    models = setting.truth.size
    for start in range(0, boards, AT_ONCE):
        of_chunk = min(AT_ONCE, boards - start)
        values = answers(generator, setting, of_chunk)
        samples = resample_means(values, resamples=RANK_RESAMPLES)
        for board in range(of_chunk):
            own = slice(board * models, (board + 1) * models)
            point = list(values[:, own].mean(axis=0))
            _count(counts, point, samples[:, own], setting.questions, true_ranks, equal)
    return counts


def _count(
    found: Found,
    values: list[float],
    samples: Floats,
    questions: int,
    true_ranks: NDArray[np.int64],
    equal: NDArray[np.bool_],
) -> None:
    marginal = _covers(rank_intervals(samples, "higher"), true_ranks)
    compared = compare_all(values, samples, "higher", questions)
    order = np.argsort(values)
    found.boards += 1
    found.marginal += bool(marginal.all())
    found.marginal_models += int(marginal.sum())
    found.simultaneous += bool(_covers(compared.rank_intervals(), true_ranks).all())
    found.marginal_split += _split(tiers(values, samples, "higher", questions), equal)
    found.simultaneous_split += _split(compared.tiers(values, "higher"), equal)
    found.neighbours += int(compared.told_apart[order[:-1], order[1:]].sum())
    found.wrong_holm += bool((compared.p_values(*np.nonzero(equal))[1] < 0.05).any())


def _covers(intervals: Sequence[tuple[int, int] | None], true_ranks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each model's interval covers its true rank; a missing interval counts as covering."""
    return np.array(
        [
            interval is None or interval[0] <= true <= interval[1]
            for interval, true in zip(intervals, true_ranks, strict=True)
        ]
    )


def _split(found: Sequence[object], equal: NDArray[np.bool_]) -> bool:
    """Return whether equal models are in different tiers although one equals the leader of the other's tier."""
    return any(
        first is not None
        and second is not None
        and first.number != second.number
        and equal[first.leader, second.leader]  # type: ignore[attr-defined]
        for first in found
        for second in found
    )


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    boards = int(arguments[0]) if arguments else 500
    started = time.perf_counter()
    print("| models | questions | marginal, all right | marginal, a model's | simultaneous, all right | ", end="")
    print("equal ones split, marginal | simultaneous | neighbours told apart | Holm wrong |")
    print("|---" * 9 + "|")
    for seed, setting in enumerate(SETTINGS):
        counts = study(setting, boards, seed)
        share = [
            counts.marginal / boards,
            counts.marginal_models / boards / MODELS,
            counts.simultaneous / boards,
            counts.marginal_split / boards,
            counts.simultaneous_split / boards,
        ]
        cells = [f"{100 * part:.1f}" for part in share] + [f"{counts.neighbours / boards:.1f} of {MODELS - 1}"]
        cells.append(f"{100 * counts.wrong_holm / boards:.1f}")
        print(f"| {setting.name} | {setting.questions:,} | {' | '.join(cells)} |", flush=True)
    print(f"\n{boards} boards a row, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])

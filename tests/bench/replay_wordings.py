"""Quantiles over wordings from a tenth of the cells, held against all of them: `python -m tests.bench.replay_wordings`.

Simulated models answer every question in every rotation under every wording. Each replay draws other questions, model and
wordings, asks the cells that 'cyclic*wording*sample' asks of each question, and compares the estimates with the exact
quantiles: how far off they are, how far those of the asked cells alone are, and how often the range holds the truth.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from registry.prompting.variants import QuestionShape, parse_variants
from registry.statistics.quantiles import LEVELS, quantile_of, wording_quantiles

ROTATIONS = 4
WORDINGS = 11


def asked_cells(questions: int, cells: int, seed: int) -> NDArray[np.float64]:
    """Which cells are asked, shape (questions, rotations, wordings)."""
    definition = parse_variants(f"cyclic*wording*sample:cells={cells},seed={seed}")
    found = np.zeros((questions, ROTATIONS, WORDINGS))
    for number in range(questions):
        for variant in definition.variants(QuestionShape(f"q{number}", ROTATIONS, 0)):
            found[(number, *divmod(variant.ordinal, WORDINGS))] = 1
    return found


def answers(questions: int, spread: float, draw: np.random.Generator) -> NDArray[np.float64]:
    """1 for each right answer. spread: standard deviation of the wordings' effects, on the logistic scale."""
    leaning = (
        draw.normal(draw.normal(0, 1), 1.5, (questions, 1, 1))
        + draw.normal(0, 0.3, (1, ROTATIONS, 1))
        + draw.normal(0, 0.8, (questions, ROTATIONS, 1))
        + draw.normal(0, spread, (1, 1, WORDINGS))
        + draw.normal(0, 0.4, (questions, 1, WORDINGS))
    )
    return (draw.random(leaning.shape) < 1 / (1 + np.exp(-leaning))).astype(np.float64)


def replay(questions: int, cells: int, spread: float, replays: int) -> dict[float, tuple[float, float, float, float]]:
    """Level to error, bias and error of the asked cells alone (in points), and coverage."""
    draw = np.random.default_rng(0)
    found: dict[float, list[tuple[float, float, bool]]] = {level: [] for level in LEVELS}
    for seed in range(replays):
        right = answers(questions, spread, draw)
        asked = asked_cells(questions, cells, seed)
        _, estimates = wording_quantiles((right * asked).sum(axis=1), asked.sum(axis=1), ROTATIONS, seed=seed)
        alone = (right * asked).sum(axis=(0, 1)) / asked.sum(axis=(0, 1))
        for estimate in estimates:
            true = float(quantile_of(right.mean(axis=(0, 1)), estimate.level))
            assert estimate.low is not None
            assert estimate.high is not None
            held = estimate.low <= true <= estimate.high
            found[estimate.level].append(
                (estimate.value - true, float(quantile_of(alone, estimate.level)) - true, held)
            )
    summary = {}
    for level, rows in found.items():
        errors, naive, held = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
        points = [100 * float(np.sqrt(np.mean(values**2))) for values in (errors, naive)]
        summary[level] = (points[0], 100 * float(errors.mean()), points[1], float(held.mean()))
    return summary


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a row for each number of questions and spread of the wordings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replays", type=int, default=200)
    parser.add_argument("--cells", type=int, default=4, help="of 44")
    given = parser.parse_args(arguments)
    print("questions  spread  quantile  error  bias  asked alone  coverage")
    for questions in (60, 200):
        for spread in (0.1, 0.4):
            for level, (error, bias, naive, held) in replay(questions, given.cells, spread, given.replays).items():
                print(f"{questions:9}  {spread:6}  {level:8}  {error:5.2f}  {bias:4.2f}  {naive:11.2f}  {held:8.3f}")


if __name__ == "__main__":
    main()

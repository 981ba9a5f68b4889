"""Anchor points and item-response models beside a drawn sample: `python -m tests.bench.bench_anchors [REPLAYS]`.

26 models' answers to the 12,032 questions of MMLU-Pro; each model in turn is the new one, the other 25 are its history.
Prints Markdown: by questions asked, the error of each way, and how often its 95 % interval holds the value over all
questions. Anchors: the medoids of clusters of questions by who answers them right, each counting for its cluster, after
Maia Polo et al., *tinyBenchmarks: evaluating LLMs with fewer examples* (2024). 2PL: items' discriminations and
difficulties from the other models, the new model's ability from the anchors, its answers to the rest as predicted
(their p-IRT); the interval is the ability's. Ours: `registry.statistics.survey`, at one look.
"""

import argparse
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from registry.statistics.sequential import score_interval
from registry.statistics.survey import Frame, due_order, estimates, frame_by_history
from tests.bench.bench_precision import mmlu_pro

Floats = NDArray[np.float64]
ASKED = (100, 300, 1_000)
REPLAYS = 40
Z = 1.959964
PRIOR_SD = 1.0


@dataclass
class Way:
    """Errors of a way of asking and, where it states intervals, whether they held the value."""

    errors: list[float] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)
    halves: list[float] = field(default_factory=list)

    def add(self, value: float, truth: float, half: float | None = None) -> None:
        self.errors.append(value - truth)
        if half is not None:
            self.held.append(abs(value - truth) <= half)
            self.halves.append(half)

    def cells(self) -> str:
        rmse = np.sqrt(np.mean(np.square(self.errors)))
        worst = np.abs(self.errors).max()
        covered = f"{np.mean(self.held):.1%} | {100 * np.median(self.halves):.2f}" if self.held else "none stated | "
        return f"{100 * rmse:.2f} | {100 * worst:.2f} | {covered} |"


def anchors(known: Floats, count: int, seed: int) -> tuple[NDArray[np.int64], Floats]:
    """The medoids of clusters of questions, and the share of all questions that each stands for.

    known: shape (questions, models). Lloyd's algorithm from randomly drawn questions.
    """
    generator = np.random.default_rng(seed)
    centres = known[generator.choice(len(known), count, replace=False)] + generator.normal(0, 1e-6, (count, 1))
    for _ in range(12):
        cluster = _distances(known, centres).argmin(axis=1)
        sizes = np.bincount(cluster, minlength=count)
        sums = np.zeros_like(centres)
        np.add.at(sums, cluster, known)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    distances = _distances(known, centres)
    cluster = distances.argmin(axis=1)
    sizes = np.bincount(cluster, minlength=count)
    kept = np.flatnonzero(sizes)
    own = distances[np.arange(len(known)), cluster]
    medoids = [members[own[members].argmin()] for members in (np.flatnonzero(cluster == number) for number in kept)]
    return np.array(medoids), sizes[kept] / len(known)


def _distances(points: Floats, centres: Floats) -> Floats:
    return np.asarray((centres**2).sum(axis=1) - 2 * points @ centres.T)


def two_parameters(known: Floats, steps: int = 400) -> tuple[Floats, Floats]:
    """Discrimination a and intercept b of each question, P = σ(a·θ + b), by penalised joint likelihood with Adam.

    known: shape (questions, models). Abilities θ are kept at mean 0 and standard deviation 1.
    """
    questions, models = known.shape
    scores = known.mean(axis=0)
    theta = (scores - scores.mean()) / scores.std()
    shares = (known.sum(axis=1) + 1) / (models + 2)
    parameters = [np.ones(questions), np.log(shares / (1 - shares)), theta.copy()]
    moments = [(np.zeros_like(one), np.zeros_like(one)) for one in parameters]
    for step in range(1, steps + 1):
        a, b, theta = parameters
        wrong = known - expit(a[:, None] * theta + b[:, None])
        gradients = [wrong @ theta - (a - 1), wrong.sum(axis=1) - b / 9, a @ wrong - theta]
        for place, gradient in enumerate(gradients):
            first, second = moments[place]
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            moments[place] = first, second
            rate = 0.05 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
            parameters[place] = parameters[place] + rate
        parameters[2] = (parameters[2] - parameters[2].mean()) / parameters[2].std()
    return parameters[0], parameters[1]


def predicted(a: Floats, b: Floats, asked: NDArray[np.int64], answers: Floats, weights: Floats) -> tuple[float, float]:
    """Accuracy over all questions as the model predicts it, with half its interval; asked questions are as answered."""
    grid = np.linspace(-6, 6, 601)
    scaled = weights / weights.mean()
    odds = a[asked, None] * grid + b[asked, None]
    likelihood = (scaled[:, None] * (answers[:, None] * odds - np.logaddexp(0, odds))).sum(axis=0)
    posterior = np.exp(likelihood - 0.5 * (grid / PRIOR_SD) ** 2 - likelihood.max())
    posterior /= posterior.sum()
    rest = np.setdiff1d(np.arange(len(a)), asked)
    means = np.array([expit(a[rest] * point + b[rest]).sum() for point in grid[::10]])
    curve = (np.interp(grid, grid[::10], means) + answers.sum()) / len(a)
    value = float(posterior @ curve)
    return value, float(Z * np.sqrt(posterior @ (curve - value) ** 2))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("replays", type=int, nargs="?", default=REPLAYS, help="drawn samples of each model")
    parser.add_argument("--models", type=int, default=26)
    given = parser.parse_args()
    scores = mmlu_pro().scores
    names = ("anchors", "2PL on anchors", "2PL on a drawn sample", "drawn sample", "ours, with history")
    found = {(count, name): Way() for count in ASKED for name in names}
    for model in range(given.models):
        values, known = scores[:, model], np.delete(scores, model, axis=1)
        truth = float(values.mean())
        a, b = two_parameters(known)
        frame = frame_by_history(known)
        plain = Frame(np.zeros(len(values), dtype=np.int64), np.ones(1), np.empty((len(values), 0)))
        generator = np.random.default_rng(model)
        for count in ASKED:
            medoids, weights = anchors(known, count, model)
            found[count, "anchors"].add(float(weights @ values[medoids]), truth)
            found[count, "2PL on anchors"].add(*_turned(predicted(a, b, medoids, values[medoids], weights), truth))
            drawn = generator.permutation(len(values))[:count]
            even = np.ones(count)
            found[count, "2PL on a drawn sample"].add(*_turned(predicted(a, b, drawn, values[drawn], even), truth))
            for name, of in (("drawn sample", plain), ("ours, with history", frame)):
                orders = [due_order(of, generator.permutation(len(values)))[:count] for _ in range(given.replays)]
                asked = np.stack(orders)
                means, errors = estimates(of, asked, values[asked])
                low, high = score_interval(means, errors, count, Z)
                for mean, begin, end in zip(means, low, high, strict=True):
                    way = found[count, name]
                    way.errors.append(float(mean - truth))
                    way.held.append(bool(begin <= truth <= end))
                    way.halves.append(float(end - begin) / 2)
    print("| Asked | Way | RMSE, points | Largest error | Covered | Half the interval, points |")
    print("|---|---|---|---|---|---|")
    for (count, name), way in found.items():
        print(f"| {count:,} | {name} | {way.cells()}")


def _turned(prediction: tuple[float, float], truth: float) -> tuple[float, float, float]:
    value, half = prediction
    return value, truth, half


if __name__ == "__main__":
    main()

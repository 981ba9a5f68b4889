"""The accuracy that a wording drawn from a set gives: its 5 %, 50 % and 95 % quantiles, exact or from few cells.

Where every question was asked in every wording, the accuracy of each is known, and the quantile q is the lowest
accuracy that at least the share q of the wordings does not exceed. Where only some cells were asked, the accuracies
that all cells would have given are drawn from a model, with what was asked kept as it is:

    y = μ + a(wording) + b(question) + e,

with independent normal effects of mean 0. The variances of b and e are those of pairs of answers to the same question,
in the same wording, and in neither; the standard deviation of a is weighed by how likely it makes the answers, since
few wordings tell little of it. So a wording borrows from the questions that it was asked with, and they from their
wordings.

Source of the idea: Maia Polo et al., *Efficient multi-prompt evaluation of LLMs* (PromptEval, NeurIPS 2024), whose
model is logistic and whose estimate of an accuracy is made of what was asked and of what the model says of the rest, as
here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.errors import MetricInputError
from registry.statistics.bootstrap import SEED

Floats = NDArray[np.float64]

LEVELS: Final = (0.05, 0.5, 0.95)
DRAWS: Final = 2_000
_DRAWS_AT_ONCE: Final = 4_000_000


@dataclass(frozen=True)
class Quantile:
    """A quantile of the accuracies over wordings.

    standard_error, low, high: of the draws, low to high 95 % of them; None where it is exact.
    """

    level: float
    value: float
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None


def quantile_of(accuracies: Floats, level: float) -> Floats:
    """The lowest of the values along the last axis that at least the share `level` of them does not exceed."""
    return np.asarray(np.quantile(accuracies, level, axis=-1, method="inverted_cdf"))


def wording_quantiles(
    right: Floats, asked: Floats, cells: int, *, levels: Sequence[float] = LEVELS, draws: int = DRAWS, seed: int = SEED
) -> tuple[Floats, list[Quantile]]:
    """The accuracy of each wording and the quantiles over them.

    right, asked: shape (questions, wordings), how many answers were right and how many were given; cells: how many
    there would be of each question in each wording. Raises MetricInputError where a wording was never asked.
    """
    if right.shape != asked.shape or right.ndim != 2 or not asked.all(axis=0).size or not asked.sum(axis=0).all():
        raise MetricInputError(f"answers of shape {right.shape}; give each wording at least one answer")
    if (asked == cells).all():
        accuracies = np.asarray(right.sum(axis=0) / asked.sum(axis=0))
        return accuracies, [Quantile(level, float(quantile_of(accuracies, level))) for level in levels]
    drawn = _completed(right, asked, cells, draws, seed)
    found = []
    for level in levels:
        values = quantile_of(drawn, level)
        low, high = np.quantile(values, (0.025, 0.975))
        found.append(Quantile(level, float(values.mean()), float(values.std(ddof=1)), float(low), float(high)))
    return np.asarray(drawn.mean(axis=0)), found


def _variances(right: Floats, asked: Floats) -> tuple[float, float]:
    """Of questions, and of a single answer besides.

    From the mean products of pairs of answers that share a wording, a question, or neither.
    """
    n, total = asked.sum(), right.sum()
    of_wording, of_question, of_cell = (right.sum(axis=0) ** 2).sum(), (right.sum(axis=1) ** 2).sum(), (right**2).sum()
    n_wording, n_question, n_cell = (asked.sum(axis=0) ** 2).sum(), (asked.sum(axis=1) ** 2).sum(), (asked**2).sum()
    neither = _share(total**2 - of_wording - of_question + of_cell, n**2 - n_wording - n_question + n_cell)
    wording = max(0.0, _share(of_wording - of_cell, n_wording - n_cell) - neither)
    question = max(0.0, _share(of_question - of_cell, n_question - n_cell) - neither)
    rest = max(1e-6, total / n - neither - wording - question)
    return float(question), float(rest)


def _share(total: float, number: float) -> float:
    return total / number if number else 0.0


_WORDING_SDS: Final = np.arange(0.005, 0.3, 0.005)
"""Standard deviations of the wordings' effects that are weighed against each other."""
_USUAL_SD: Final = 0.05
"""They are half-normal with this scale beforehand: SCORE found accuracies over ten wordings up to 10 points apart."""


@dataclass(frozen=True)
class _Effects:
    """The mean and the wordings' effects, if their standard deviation is one of _WORDING_SDS.

    probability: of that, given the answers. factor: the lower triangle whose square is the covariance.
    """

    probability: float
    mean: Floats
    factor: Floats


def _effects_given(precision: Floats, pull: Floats) -> list[_Effects]:
    """precision, pull: of the answers, without what the wordings' own distribution adds."""
    wordings = len(pull) - 1
    likelihoods, found = [], []
    for sd in _WORDING_SDS:
        whole = precision.copy()
        whole[1:, 1:] += np.eye(wordings) / sd**2
        covariance = np.linalg.inv(whole)
        mean = covariance @ pull
        beforehand = -0.5 * (sd / _USUAL_SD) ** 2
        likelihood = 0.5 * float(pull @ mean) - wordings * np.log(sd) - 0.5 * np.linalg.slogdet(whole)[1]
        likelihoods.append(beforehand + likelihood)
        found.append((mean, np.linalg.cholesky(covariance)))
    weights = np.exp(np.array(likelihoods) - max(likelihoods))
    weights /= weights.sum()
    return [_Effects(float(weight), *of_sd) for weight, of_sd in zip(weights, found, strict=True)]


def _completed(right: Floats, asked: Floats, cells: int, draws: int, seed: int) -> Floats:
    """Accuracies of the wordings over all cells, shape (draws, wordings), from the model given what was asked."""
    questions, wordings = asked.shape
    question, rest = _variances(right, asked)
    per_question = asked.sum(axis=1)
    shrink = question / (rest + per_question * question)
    # The mean and the wordings' effects, with the questions' integrated out: normal, with this precision.
    design = np.concatenate([per_question[:, None], asked], axis=1)
    gram = np.diag(np.concatenate([[per_question.sum()], asked.sum(axis=0)]))
    gram[0, 1:] = gram[1:, 0] = asked.sum(axis=0)
    precision = (gram - (design * shrink[:, None]).T @ design) / rest
    answers = np.concatenate([[right.sum()], right.sum(axis=0)])
    pull = (answers - (design * shrink[:, None]).T @ right.sum(axis=1)) / rest
    known = _effects_given(precision, pull)
    generator = np.random.default_rng(seed)
    chosen = generator.choice(len(known), draws, p=[effects.probability for effects in known])
    normal = generator.standard_normal((draws, wordings + 1))
    effects_of = np.empty((draws, wordings + 1))
    for place, given in enumerate(known):
        drawn = chosen == place
        effects_of[drawn] = given.mean + normal[drawn] @ given.factor.T
    left = cells - asked
    spread = np.sqrt(rest * shrink)
    chunks = []
    rows = max(1, _DRAWS_AT_ONCE // questions)
    for start in range(0, draws, rows):
        number = min(rows, draws - start)
        effects = effects_of[start : start + number]
        residual = right.sum(axis=1) - effects[:, :1] * per_question - effects[:, 1:] @ asked.T
        of_question = residual * shrink + generator.standard_normal((number, questions)) * spread
        unseen = (effects[:, :1] + effects[:, 1:]) * left.sum(axis=0) + of_question @ left
        unseen += generator.standard_normal((number, wordings)) * np.sqrt(rest * left.sum(axis=0))
        chunks.append((right.sum(axis=0) + unseen) / (cells * questions))
    return np.asarray(np.clip(np.concatenate(chunks), 0.0, 1.0))

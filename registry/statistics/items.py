"""How well a benchmark's questions measure models: reliability of all, difficulty and discrimination of each.

Scores have shape (models, questions): the share of a question's prompts that a model has right, in [0, 1]. Models are
the sample: intervals say what other models like these would give. Why each interval is the one it is:
docs/decisions/0058-questions-under-review.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from registry.errors import MetricInputError
from registry.statistics.bootstrap import CONFIDENCE, Floats, Interval

MINIMUM_MODELS: Final = 10
"""Nothing is stated for fewer: a correlation over nine models has an interval from −.66 to .66 around zero."""
WEIGHT_OF_DISCRIMINATION: Final = 0.3
"""How much a discrimination of −1 adds to the evidence against a key, whose first part is a share of votes."""
WEIGHT_OF_LATENT_KEY: Final = 0.1
"""How much a likelihood adds that is e times as high under another key."""
_SMALLEST: Final = 1e-12
"""A variance below this is none."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval."""

    value: float
    interval: Interval


def cronbach_alpha(scores: Floats) -> float | None:
    """Cronbach's α: α = k/(k − 1) · (1 − Σᵢ Var(xᵢ) / Var(Σᵢ xᵢ)), over k questions; at most 1, and it may be negative.

    Where every score is 0 or 1 it is KR-20, whose Var(xᵢ) is p(1 − p). Population variances over models: their
    divisor cancels. None for fewer than two models or questions, or where all models have the same total.
    Raises MetricInputError on scores of another shape, outside [0, 1] or undefined.
    Source: Cronbach, *Coefficient alpha and the internal structure of tests* (1951), Eq. 2; Kuder and Richardson,
    *The theory of the estimation of test reliability* (1937), Eq. 20.

    >>> round(cronbach_alpha(np.array([[1, 1, 1], [1, 1, 0], [0, 0, 0]], dtype=float)), 3)
    0.857
    """
    scores = _checked(scores)
    models, questions = scores.shape
    if models < 2 or questions < 2:
        return None
    totals = float(scores.sum(axis=1).var())
    return None if totals < _SMALLEST else questions / (questions - 1) * (1 - float(scores.var(axis=0).sum()) / totals)


def alpha_interval(scores: Floats) -> Interval | None:
    """The 95 % interval of Cronbach's α over models: the jackknife of log(1 − α), with Student's t of n − 1 degrees.

    None where α is, for fewer than MINIMUM_MODELS, or where α is 1 or undefined without one of the models.
    Questions are not resampled: drawn twice, a question agrees with itself, and α would be too high.
    Source: Tukey, *Bias and confidence in not-quite large samples* (1958), the jackknife; Feldt, *The approximate
    sampling distribution of Kuder-Richardson reliability coefficient twenty* (1965), the scale of 1 − α.
    """
    from scipy.special import stdtrit

    alpha, scores = cronbach_alpha(scores), _checked(scores)
    models, questions = scores.shape
    if alpha is None or models < MINIMUM_MODELS:
        return None
    totals = scores.sum(axis=1)
    # Variances without one model after the other: from the sums without its own.
    left = models - 1
    within = (((scores**2).sum(axis=0) - scores**2) / left - ((scores.sum(axis=0) - scores) / left) ** 2).sum(axis=1)
    of_totals = ((totals**2).sum() - totals**2) / left - ((totals.sum() - totals) / left) ** 2
    if (of_totals < _SMALLEST).any():
        return None
    without = 1 - questions / (questions - 1) * (1 - within / of_totals)
    if 1 - alpha < _SMALLEST or (without < _SMALLEST).any():
        return None
    logs = np.log(without)
    reach = -float(stdtrit(left, (1 - CONFIDENCE) / 2)) * float(np.sqrt(left * logs.var()))
    return Interval(*(float(1 - (1 - alpha) * np.exp(sign * reach)) for sign in (1, -1)))


def difficulties(scores: Floats) -> list[Estimate]:
    """The mean score of each question over models, with Wilson's interval for a proportion.

    Where scores are shares of several prompts the interval is too long, never too short: no variable in [0, 1] with
    mean p varies more than one of 0 and 1. Raises MetricInputError as `cronbach_alpha`, and without models.
    Source: Wilson, *Probable inference, the law of succession, and statistical inference* (1927).

    >>> difficulties(np.array([[1.0], [0.0]]))[0].value
    0.5
    """
    from scipy.special import ndtri

    scores = _checked(scores)
    models = len(scores)
    if not models:
        raise MetricInputError("difficulties without models; give at least one row")
    p, z2 = scores.mean(axis=0), float(ndtri((1 + CONFIDENCE) / 2)) ** 2
    middle = (p + z2 / (2 * models)) / (1 + z2 / models)
    reach = np.sqrt(z2 * (p * (1 - p) / models + z2 / (4 * models**2))) / (1 + z2 / models)
    return [
        Estimate(float(value), Interval(float(low), float(high)))
        for value, low, high in zip(p, np.maximum(middle - reach, 0), np.minimum(middle + reach, 1), strict=True)
    ]


def discriminations(scores: Floats) -> list[Estimate | None]:
    """Of each question the correlation of its score with the sum of all others, over models, in [−1, 1].

    The item-rest correlation: point-biserial where scores are 0 or 1. Its interval is Fisher's: tanh(artanh r ± z /
    √(n − 3)). None where all models score the question alike, or all others together, and for fewer than four models.
    Raises MetricInputError as `cronbach_alpha`.
    Source: Henrysson, *Correction of item-total correlations in item analysis* (1963); Fisher, *On the "probable error"
    of a coefficient of correlation deduced from a small sample* (1921).

    >>> [found.value for found in discriminations(np.array([[1, 1], [1, 1], [0, 0], [0, 0]], dtype=float))]
    [1.0, 1.0]
    """
    from scipy.special import ndtri

    scores = _checked(scores)
    models, questions = scores.shape
    if models < 4:
        return [None] * questions
    own = scores - scores.mean(axis=0)
    rest = own.sum(axis=1, keepdims=True) - own
    # The totals are in float64, so that what is left of a constant column is far below any variance of shares.
    known = ((own**2).mean(axis=0) > _SMALLEST) & ((rest**2).mean(axis=0) > _SMALLEST)
    own, rest = own[:, known], rest[:, known]
    r = np.clip((own * rest).sum(axis=0) / np.sqrt((own**2).sum(axis=0) * (rest**2).sum(axis=0)), -1, 1)
    reach = float(ndtri((1 + CONFIDENCE) / 2)) / np.sqrt(models - 3)
    with np.errstate(divide="ignore"):  # artanh 1 is infinite, and tanh of that is 1 again
        z = np.arctanh(r)
    found: list[Estimate | None] = [None] * questions
    lows, highs = np.tanh(z - reach), np.tanh(z + reach)
    for place, value, low, high in zip(np.flatnonzero(known), r, lows, highs, strict=True):
        found[place] = Estimate(round(float(value), 12), Interval(float(low), float(high)))
    return found


def strongest(scores: Floats) -> NDArray[np.intp]:
    """The rows of the strongest third of the models, rounded up, by their mean score; the best first.

    >>> strongest(np.array([[0.0], [1.0], [0.5], [0.25]])).tolist()
    [1, 2]
    """
    scores = _checked(scores)
    return np.argsort(-scores.mean(axis=1), kind="stable")[: -(-len(scores) // 3)]


def weighted_votes(votes: Floats, scores: Floats, options: Sequence[int]) -> Floats:
    """The share of the models' votes for each option, models weighted by what they know; shape (questions, options).

    votes: shape (models, questions, options), the share of a question's prompts in which a model chose the option.
    options: how many options each question has. A model with a mean score of p weighs max(0, log(p(k − 1) / (1 − p)))
    on a question of k options, with p at least .01 and at most .99: best where models err independently, and evenly
    over the other options. All zero where no model is better than guessing. What is missing to 1 are answers that are
    not valid.
    Source: Nitzan and Paroush, *Optimal decision rules in uncertain dichotomous choice situations* (1982).
    """
    p = np.clip(_checked(scores).mean(axis=1), 0.01, 0.99)[:, np.newaxis]
    weights = np.maximum(0, np.log(p * (np.asarray(options) - 1) / (1 - p)))
    of_question = weights.sum(axis=0)
    found: Floats = np.einsum("mq,mqo->qo", weights, votes)
    return found / np.where(of_question > 0, of_question, 1)[:, np.newaxis]


def rivals(shares: Floats, keys: Sequence[int]) -> tuple[NDArray[np.intp], Floats]:
    """Of each question the most voted option that is not its key, and by how much its share exceeds the key's.

    shares: of `weighted_votes`; keys: the right option of each question. The lead is in [−1, 1].

    >>> rivals(np.array([[0.25, 0.75, 0.0]]), [0])
    (array([1]), array([0.5]))
    """
    rows = np.arange(len(shares))
    others = shares.copy()
    others[rows, keys] = -1
    chosen = others.argmax(axis=1)
    return chosen, others[rows, chosen] - shares[rows, keys]


_DIFFICULTIES: Final = np.linspace(-4, 5, 19)
"""Where difficulty is integrated over, on the scale of abilities."""
_SPREAD: Final = 2.0
"""Standard deviation of difficulties."""
_SLOPE: Final = 1.5
"""How steeply the chance of being right rises with ability."""


def latent_keys(
    votes: Floats, scores: Floats, keys: Sequence[int], options: Sequence[int]
) -> tuple[NDArray[np.intp], Floats]:
    """Of each question the option that is the likeliest key but the stated one, and the log of all others' odds.

    votes, options: as for `weighted_votes`; keys: the stated ones. The odds are those of the answers if another option,
    any with the same chance, were the key, against the stated one: above 0, they speak against it.

    Under a key, a model of ability θ = log(p / (1 − p)), p being its mean score, has a question of difficulty b right
    with probability 1/k + (1 − 1/k)σ(a(θ − b)), and wrong answers fall on the other options by shares that are as
    likely as any others (Dirichlet, all ones); both unknowns are integrated out, b as normal around 0.
    Source: Dawid and Skene, *Maximum likelihood estimation of observer error-rates using the EM algorithm* (1979), the
    latent key; Birnbaum, in Lord and Novick, *Statistical theories of mental test scores* (1968), the curve.
    """
    from scipy.special import expit, gammaln, logsumexp

    p = np.clip(_checked(scores).mean(axis=1), 0.02, 0.98)
    prior = -0.5 * (_DIFFICULTIES / _SPREAD) ** 2
    known = expit(_SLOPE * (np.log(p / (1 - p))[:, np.newaxis] - _DIFFICULTIES))
    stated, counts = np.asarray(keys), np.asarray(options)
    best, odds = np.zeros(len(stated), dtype=np.intp), np.zeros(len(stated))
    for k in np.unique(counts):
        places = np.flatnonzero(counts == k)
        chosen = votes[:, places, :k].astype(np.float64)
        right = np.clip(1 / k + (1 - 1 / k) * known, 1e-4, 1 - 1e-4)
        ability = np.einsum("mg,mqo->qog", np.log(right) - np.log(1 - right), chosen)
        ability += np.einsum("mg,mq->qg", np.log(1 - right), chosen.sum(axis=2))[:, np.newaxis]
        total = chosen.sum(axis=0)
        others = total.sum(axis=1, keepdims=True) - total
        spread = gammaln(1 + total).sum(axis=1, keepdims=True) - gammaln(1 + total) - gammaln(k - 1 + others)
        likelihood = logsumexp(ability + prior, axis=2) + spread
        rows = np.arange(len(places))
        own = likelihood[rows, stated[places]].copy()
        likelihood[rows, stated[places]] = -np.inf
        best[places] = likelihood.argmax(axis=1)
        odds[places] = logsumexp(likelihood, axis=1) - np.log(k - 1) - own
    return best, odds


def suspicion(lead: float, discrimination: float | None, log_odds: float = 0.0) -> float:
    """How strongly the answers speak against a key: another option's lead, low discrimination, another key's odds.

    >>> round(suspicion(0.5, -0.5, 2.0), 12)
    0.85
    """
    return lead - WEIGHT_OF_DISCRIMINATION * (discrimination or 0.0) + WEIGHT_OF_LATENT_KEY * log_odds


def _checked(scores: Floats) -> Floats:
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2:
        raise MetricInputError(f"scores of shape {scores.shape}; give one row per model and one column per question")
    if not ((scores >= 0) & (scores <= 1)).all():
        raise MetricInputError("a score that is undefined or not from 0 to 1; leave out questions without one")
    return scores

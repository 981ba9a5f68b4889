"""PriDe accuracy: Zheng et al., as Goliakova et al. use it.

A few questions, shown in several orders, reveal how much the model prefers each position whatever its content; that
prior is divided out of the other questions' probabilities, which have one order. The published code draws the few at
random; here they are the questions with the lowest hashes of their ids, so that everyone with the benchmark gets the
same.
Example, two options: rows (.8, .2) and, reversed, (.6, .4) give the prior (.710, .290); another question with (.65,
.35) then flips to position 2.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from registry.metrics import examples
from registry.metrics.averaging import OverEvaluation, zero_or_one
from registry.metrics.entry import Example, Metric
from registry.metrics.outcome import Outcomes, VariantOutcome, original_variant, own_variants
from registry.metrics.papers import goliakova, zheng

ALPHA: Final = 0.05
"""Share of the questions that the prior is estimated from."""

EPSILON: Final = 1e-10
"""Added to a probability before its logarithm is taken."""


@dataclass(frozen=True)
class PrideAnswer:
    """PriDe's answer to one question.

    estimation: whether the prior was estimated from this question. correct: None if probabilities are missing.
    """

    estimation: bool
    correct: bool | None


@dataclass(frozen=True)
class Pride:
    """PriDe's results for an evaluation.

    answers: by question id. priors: for each number of options L the global prior over its L positions, summing to 1;
    absent if it could not be estimated.
    """

    answers: Mapping[str, PrideAnswer] = field(default_factory=dict)
    priors: Mapping[int, tuple[float, ...]] = field(default_factory=dict)


def estimation_set(question_ids: Iterable[str], alpha: float = ALPHA) -> set[str]:
    """Return the K = max(1, ⌊αN⌋) of N question ids with the lowest SHA-256 of `0:<id>`.

    Call it separately for the questions of each number of options.
    """
    ids = list(question_ids)
    # ⌊αN⌋ in whole numbers, since .05 · 20 must be exactly 1.
    size = max(1, round(alpha * 1_000_000) * len(ids) // 1_000_000)
    return set(sorted(ids, key=lambda external_id: hashlib.sha256(f"0:{external_id}".encode()).hexdigest())[:size])


def pride(
    questions: Sequence[Outcomes],
    *,
    alpha: float = ALPHA,
    orders: Callable[[Outcomes], list[VariantOutcome]] = own_variants,
) -> Pride:
    """Return PriDe's answers to the complete questions of one evaluation, by `VariantOutcome.question`.

    orders: the set R that the prior is estimated on (all orders of the question's own options). Questions with fewer
    than two orders in R have no answer: one order cannot separate a position from its content.
    """
    groups: dict[int, dict[str, Outcomes]] = {}
    answers: dict[str, PrideAnswer] = {}
    priors: dict[int, tuple[float, ...]] = {}
    for outcomes in questions:
        if own_orders := own_variants(outcomes):
            groups.setdefault(len(own_orders[0].order), {})[own_orders[0].question] = outcomes
    for L, group in sorted(groups.items()):
        chosen = estimation_set(group, alpha)
        estimated = {
            name: rows for name in sorted(chosen) if (rows := _with_probabilities(orders(group[name]))) is not None
        }
        prior = mean_prior([question_prior(rows) for rows in estimated.values()])
        if prior is not None:
            priors[L] = prior
        for name, outcomes in group.items():
            if name in chosen:
                option = best_content(estimated[name]) if name in estimated else None
                answer = outcomes[0].answer
            else:
                original = original_variant(outcomes)
                option = None if original is None or prior is None else debias(original, prior)
                answer = outcomes[0].answer
            answers[name] = PrideAnswer(name in chosen, None if option is None else option == answer)
    return Pride(answers, priors)


def _with_probabilities(rows: Sequence[VariantOutcome]) -> list[VariantOutcome] | None:
    """Return the orders of R; None unless there are at least two and all of them have probabilities."""
    return list(rows) if len(rows) > 1 and all(row.probabilities is not None for row in rows) else None


def _log(probability: float) -> float:
    return math.log(probability + EPSILON)


def question_prior(rows: Sequence[VariantOutcome]) -> tuple[float, ...]:
    """Return the softmax over positions of the mean log p over R."""
    by_position = zip(*(row.probabilities or () for row in rows), strict=True)
    means = [math.fsum(map(_log, values)) / len(rows) for values in by_position]
    weights = [math.exp(mean - max(means)) for mean in means]
    return tuple(weight / math.fsum(weights) for weight in weights)


def mean_prior(priors: Sequence[tuple[float, ...]]) -> tuple[float, ...] | None:
    """Return the arithmetic mean of the estimation questions' priors; None without any."""
    if not priors:
        return None
    return tuple(math.fsum(values) / len(priors) for values in zip(*priors, strict=True))


def best_content(rows: Sequence[VariantOutcome]) -> int:
    """Return the option with the highest mean probability over R, at any position; the lowest ordinal on a tie."""
    sums: dict[int, list[float]] = {}
    for row in rows:
        for option, probability in zip(row.order, row.probabilities or (), strict=True):
            sums.setdefault(option, []).append(probability)
    return max(sums, key=lambda option: (math.fsum(sums[option]), -option))


def debias(original: VariantOutcome, prior: Sequence[float]) -> int | None:
    """Return the option with the highest log p − log prior on the original order; None without probabilities."""
    if original.probabilities is None:
        return None
    scores = [_log(p) - _log(q) for p, q in zip(original.probabilities, prior, strict=True)]
    best = max(range(len(scores)), key=lambda position: (scores[position], -position))
    return original.order[best]


def pride_per_question(questions: Sequence[Outcomes]) -> list[float | None]:
    """Return 0 or 1 for each question; None if PriDe has no answer."""
    answers = pride(questions).answers
    correct = [
        answers[outcomes[0].question].correct if outcomes and outcomes[0].question in answers else None
        for outcomes in questions
    ]
    return [None if value is None else float(value) for value in correct]


METRICS: Final = (
    Metric(
        name="pride_accuracy",
        label="PriDe accuracy",
        zero_or_one=True,
        better="higher",
        summary="Accuracy after dividing out the model's liking for positions, estimated on a few questions.",
        formulas=(
            r"\pi_q(l) \propto \exp \frac{1}{|R|} \sum_{j=1}^{|R|} \log p_{q,j,l}",
            r"\pi(l) = \frac{1}{K} \sum_{q=1}^{K} \pi_q(l)",
            r"\text{answer} = \operatorname{argmax}_l ( \log p_{0,l} - \log \pi(l) )",
        ),
        sources=(zheng("PriDe"), goliakova("PriDe")),
        needs="Probabilities on the original order; on the K questions that the prior π is estimated from, "
        "probabilities on at least two orders, such as `cyclic`. Here l is a position, not an option. The K questions "
        "themselves are answered by the option with the highest mean probability over the orders. Logarithms take p + "
        "10⁻¹⁰.",
        example=Example(
            examples.PRIOR,
            "K = 1, and `first` is the question whose hash is lower. By position its geometric means are √(.8 · .6) = "
            ".693 and √(.2 · .4) = .283, so the prior is .710 and .290. Its options have mean probabilities .6 and "
            ".4: a, right. In `second`, .65/.710 = .915 and .35/.290 = 1.207: position 2, b, right.",
            "1",
        ),
        differs="The published code shuffles the questions at random to choose those that the prior is estimated from. "
        "Here they are the K = max(1, ⌊.05 N⌋) of the N questions with equally many options whose SHA-256 of `0:<id>` "
        "is lowest.",
        averaging=OverEvaluation(pride_per_question, zero_or_one("question_pride.correct")),
        undefined="not sealed, fewer than two orders, or no probabilities",
    ),
)

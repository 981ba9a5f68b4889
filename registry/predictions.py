"""From what an engine or a file says of one prompt to the row that is stored. Positions become options here, once."""

import math
from collections.abc import Sequence
from typing import Any

from registry.variants import VariantShown


def prediction_row(
    *,
    evaluation_id: int,
    question_id: int,
    n_options: int,
    answer: int,
    variant: VariantShown,
    prompt_digest: str | None = None,
    logprobs: Sequence[float] | None = None,
) -> dict[str, Any]:
    """The columns of one prediction.

    logprobs: log-probability (nats) of each position's label over the whole vocabulary; the highest is the choice, the
    lowest position on a tie. answer: option ordinal.
    """
    row: dict[str, Any] = {
        "evaluation_id": evaluation_id,
        "question_id": question_id,
        "variant": variant.ordinal,
        "shown": list(variant.order),
        "question_shown": variant.question_shown,
        "own_options": variant.own_options(n_options),
        "unchanged": variant.unchanged(n_options),
        "prompt_digest": prompt_digest,
        "chosen_position": None,
        "chosen_option": None,
        "correct": False,
        "tied": False,
    }
    if logprobs is not None:
        row |= label_scores(logprobs, variant.order, answer)
    return row


def label_scores(logprobs: Sequence[float], order: Sequence[int], answer: int) -> dict[str, Any]:
    """Choice, probabilities and the scalars that metrics average, from label log-probabilities by position.

    Probabilities are renormalised over the labels shown; `label_mass` is their sum before. Goliakova et al.: the Brier
    score sums over the labels, in [0, 2]; the entropy is divided by log₂ of their number, in [0, 1].
    """
    highest = max(logprobs)
    position = list(logprobs).index(highest)
    weights = [math.exp(value - highest) for value in logprobs]
    total = math.fsum(weights)
    probabilities = [weight / total for weight in weights]
    right = order.index(answer) if answer in order else None
    return {
        "chosen_position": position,
        "chosen_option": order[position],
        "correct": order[position] == answer,
        "tied": sum(value == highest for value in logprobs) > 1,
        "label_logprobs": list(logprobs),
        "label_probabilities": probabilities,
        "label_mass": min(1.0, math.exp(highest) * total),
        **probability_scores(probabilities, right),
    }


def probability_scores(probabilities: Sequence[float], right: int | None) -> dict[str, float | None]:
    """Answer probability, Brier score and entropy of one prompt; `right` is the position of the answer, if shown."""
    entropy = -math.fsum(p * math.log2(p) for p in probabilities if p > 0)
    return {
        "answer_probability": None if right is None else probabilities[right],
        "brier_score": None
        if right is None
        else min(2.0, math.fsum(((position == right) - p) ** 2 for position, p in enumerate(probabilities))),
        "entropy": min(1.0, max(0.0, entropy / math.log2(len(probabilities)))) if len(probabilities) > 1 else None,
    }

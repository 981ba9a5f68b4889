"""Build the stored row from the result of one prompt. Positions become options here, once."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from registry.metrics.npsq import choice_scores, highest, per_byte
from registry.metrics.probability import brier, compute_entropy, renormalise
from registry.prompting.variants import VariantShown
from registry.tables import UNANSWERED_STATES

MASS_SLACK: Final = 1.000001
"""If probabilities sum to more than this, they are not shares of one whole, and have no mass on the labels."""


def prediction_row(
    *,
    evaluation_id: int,
    question_id: int,
    options: Sequence[str],
    answer: int,
    variant: VariantShown,
    prompt_key: int,
    inserted: Mapping[int, str] | None = None,
    prompt_digest: str | None = None,
    logprobs: Sequence[float] | None = None,
    weights: Sequence[float] | None = None,
    logprobs_without_question: Sequence[float] | None = None,
    position: int | None = None,
    answered: bool = False,
    extraction_rule: str | None = None,
    state: str | None = None,
) -> dict[str, Any]:
    """Return the columns of one prediction. Sequences are indexed by position.

    options: the question's own, in the benchmark's order; answer: ordinal of the right one.
    prompt_key: from `PromptKeys`.
    logprobs: log-probabilities (nats) over the whole vocabulary; weights: probabilities of any sum, preferred if both
    are given. logprobs_without_question: log P(x|C).
    answered: whether the model stated its answer, at `position` (None: no valid answer); if not, the answer is the
    highest of weights or logprobs, the lowest position on a tie.
    extraction_rule: the rule that found a stated answer in a text. state: the output's state
    (`registry.prompting.reading`); None if unknown.
    """
    order = variant.order
    values = weights if weights is not None else logprobs
    probabilities = probabilities_of(weights, logprobs)
    tied = False
    if not answered and values is not None and (probabilities is not None or weights is None):
        position = highest(values)
        tied = sum(value == values[position] for value in values) > 1
    chosen = None if position is None else order[position]
    row: dict[str, Any] = {
        "evaluation_id": evaluation_id,
        "question_id": question_id,
        "variant": variant.ordinal,
        "prompt_key": prompt_key,
        "shown": list(order),
        "question_shown": variant.question_shown,
        "own_options": variant.own_options(len(options)),
        "unchanged": variant.unchanged(len(options)),
        "prompt_digest": prompt_digest,
        "chosen_position": position,
        "chosen_option": chosen,
        "tied": tied,
        "extraction_rule": extraction_rule,
        "state": state if state in UNANSWERED_STATES else None,  # states that follow from the answer are left out
        "label_logprobs": None if logprobs is None else list(logprobs),
        "label_probabilities": probabilities,
        "label_mass": mass_of(weights, logprobs),
    }
    if probabilities is not None:
        row["entropy"] = compute_entropy(probabilities)
    if logprobs_without_question is not None and logprobs is not None:
        row["logprobs_without_question"] = list(logprobs_without_question)
    return row | compute_keyed_columns(row, options, answer, inserted or {})


def compute_keyed_columns(
    row: Mapping[str, Any], options: Sequence[str], answer: int, inserted: Mapping[int, str]
) -> dict[str, Any]:
    """Return the columns of a prediction that depend on which option is right.

    row: its other columns. options: texts of the question's own options. inserted: texts of inserted options by
    ordinal.
    """
    order = row["shown"]
    right = order.index(answer) if answer in order else None
    columns: dict[str, Any] = {"correct": row["chosen_option"] == answer}
    if (probabilities := row["label_probabilities"]) is not None:
        columns["answer_probability"] = None if right is None else probabilities[right]
        columns["brier_score"] = None if right is None else brier(probabilities, right)
    if (logprobs := row["label_logprobs"]) is not None:
        lengths = [len((options[o] if o >= 0 else inserted[o]).encode()) for o in order]
        columns["accuracy_normalized"] = highest(per_byte(logprobs, lengths)) == right
        if (without_question := row.get("logprobs_without_question")) is not None:
            columns |= asdict(choice_scores(logprobs, without_question, lengths, right))
    return columns


def probabilities_of(
    weights: Sequence[float] | None, logprobs: Sequence[float] | None, exp: Callable[[float], float] = math.exp
) -> list[float] | None:
    """Return the probabilities of the positions, with sum 1; None if there are none, or all weights are zero."""
    if weights is not None:
        return renormalise(weights)
    if logprobs is None:
        return None
    top = max(logprobs)
    return renormalise([exp(value - top) for value in logprobs])


def mass_of(
    weights: Sequence[float] | None, logprobs: Sequence[float] | None, exp: Callable[[float], float] = math.exp
) -> float | None:
    """Return the probability mass on the labels, in [0, 1]; None if unknown, or if the values sum to more than 1."""
    total = math.fsum(weights if weights is not None else map(exp, logprobs or ()))
    if (weights is None and logprobs is None) or total > MASS_SLACK:
        return None
    return min(1.0, total)

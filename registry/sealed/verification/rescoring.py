"""Score a sample of a sealed evaluation's prompts again, and compare the results with the stored ones."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from registry.db import read_session
from registry.digests import specification_digest
from registry.errors import UsageError
from registry.lookups import find_sealed
from registry.predictions.stored import require_rows
from registry.scores.asked import is_recorded
from registry.sealed.provenance import evaluation_of_seal
from registry.settings import Settings
from registry.tables import EngineFingerprint, Evaluation, EvaluationQuestion, Generation, Prediction, Question, Shard

TOLERANCE: Final = 1e-4
"""Largest accepted difference of a probability in float32; batches, prefixes and threads change it by 1e-4 at most
(docs/provenance.md).
"""

LOW_PRECISION_TOLERANCE: Final = 0.05
"""The same for 16 bits or fewer: rounding depends on the shape of a matrix product."""

LISTED: Final = 10


Key = tuple[int, int]
"""Question id and variant."""


class Rescorer(Protocol):
    """The interface that scores prompts again: the module `workers.rescoring`, which the caller passes in."""

    def score_again(
        self,
        engine: Engine,
        settings: Settings,
        evaluation_id: int,
        sample: Sequence[Key],
        fingerprint: Mapping[str, Any],
    ) -> tuple[dict[Key, dict[str, Any]], dict[str, Any]]:
        """Return the new results of the prompts, and the fingerprint of their engine.

        fingerprint: of the engine that scored the prompts the first time.
        """
        ...

    def promises_same_bits(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """Return whether engines with these two fingerprints give bit-identical results."""
        ...


def rescore_evaluation(
    engine: Engine, settings: Settings, evaluation_id: int, prompts: int, seed: int, rescorer: Rescorer
) -> dict[str, Any]:
    """Score a random sample of the prompts again, and compare the results with the stored ones.

    prompts: the size of the sample, which `seed` determines. In the report, `largest_difference` is that of a
    probability (None if only texts are written), `flips` lists the answers that differ, and `ok` is true if every
    difference is within the tolerance or, without probabilities, no answer differs. Equal engines that both compute
    canonically must agree in every bit.
    Raises QueueError if the evaluation is not sealed, UsageError for recorded outputs, ModelError if the model's files
    have changed.
    """
    with read_session(engine) as session:
        evaluation = find_sealed(session, evaluation_id)
        if evaluation.replayed_from is not None:
            source = evaluation_of_seal(session, evaluation.replayed_from)
            named = "an evaluation that this registry does not hold" if source is None else f"evaluation {source}"
            raise UsageError(
                f"evaluation {evaluation_id} was made from the stored answers of {named}; it is that evaluation whose "
                "prompts can be scored again"
            )
        if is_recorded(evaluation.specification) or evaluation.model_revision.kind == "external":
            raise UsageError(
                f"evaluation {evaluation_id} has outputs that were recorded elsewhere: there is no model here to "
                "score its prompts"
            )
        sample = _draw_sample(session, evaluation, prompts, seed)
        stored = _load_stored(session, evaluation_id, sample)
        fingerprints = _load_fingerprints(session, evaluation_id, sample)
        low = (evaluation.model_revision.dtype or "float32") != "float32" or evaluation.model_revision.quantisation
    now, fingerprint = rescorer.score_again(engine, settings, evaluation_id, sample, fingerprints[sample[0]])
    return _compare(
        sample,
        stored,
        now,
        exact=all(rescorer.promises_same_bits(fingerprints[key], fingerprint) for key in sample),
        tolerance=LOW_PRECISION_TOLERANCE if low else TOLERANCE,
    ) | {"seed": seed, "same_engine": all(_are_equal(fingerprints[key], fingerprint) for key in sample)}


def _draw_sample(session: Session, evaluation: Evaluation, prompts: int, seed: int) -> list[Key]:
    """Return a random sample of the model's prompts as sorted (question id, variant)."""
    query = select(Prediction.question_id, Prediction.variant).where(
        Prediction.evaluation_id == evaluation.id, Prediction.prompt_digest.is_not(None)
    )
    require_rows(session, evaluation.id)
    keys = [(row.question_id, row.variant) for row in session.execute(query.order_by(*query.selected_columns))]
    if not keys:
        raise UsageError(f"evaluation {evaluation.id}: its prompts were not recorded, so it cannot be scored again")
    return sorted(random.Random(seed).sample(keys, min(prompts, len(keys))))  # noqa: S311 - a sample, not a secret


def _load_stored(session: Session, evaluation_id: int, sample: Sequence[Key]) -> dict[Key, dict[str, Any]]:
    ids, prediction = {question_id for question_id, _ in sample}, Prediction
    query = (
        select(
            *(
                prediction.question_id,
                prediction.variant,
                prediction.chosen_option,
                prediction.label_logprobs,
                prediction.label_probabilities,
            ),
            *(Question.external_id, Generation.text, Generation.thought_digest),
        )
        .join(Question, Question.id == Prediction.question_id)
        .outerjoin(Prediction.generation)
        .where(
            Prediction.evaluation_id == evaluation_id,
            Prediction.question_id.in_(ids),
        )
    )
    return {
        (row.question_id, row.variant): {
            "external_id": row.external_id,
            "chosen_option": row.chosen_option,
            "label_logprobs": row.label_logprobs,
            "label_probabilities": row.label_probabilities,
            "text": row.text,
            "thought_digest": row.thought_digest,
        }
        for row in session.execute(query)
    }


def _load_fingerprints(session: Session, evaluation_id: int, sample: Sequence[Key]) -> dict[Key, dict[str, Any]]:
    """Return the engine fingerprint of each prompt of the sample."""
    query = (
        select(EvaluationQuestion.question_id, EngineFingerprint.document)
        .join(Shard, Shard.id == EvaluationQuestion.shard_id)
        .join(EngineFingerprint, EngineFingerprint.id == Shard.engine_fingerprint_id)
        .where(EvaluationQuestion.evaluation_id == evaluation_id)
    )
    by_question = {row.question_id: row.document for row in session.execute(query)}
    return {key: by_question[key[0]] for key in sample}


def _are_equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return specification_digest(one) == specification_digest(other)


def _compare(
    sample: Sequence[Key],
    stored: dict[Key, dict[str, Any]],
    now: dict[Key, dict[str, Any]],
    *,
    exact: bool,
    tolerance: float,
) -> dict[str, Any]:
    largest: float | None = None
    flips, problems, unequal = [], [], 0
    for key in sample:
        before, after = stored[key], now[key]
        name = f"question {before['external_id']}, variant {key[1]}"
        change = largest_change(before["label_probabilities"], after["label_probabilities"])
        if change is not None:
            largest = change if largest is None else max(largest, change)
        unequal += any(before[name] != after[name] for name in ("label_logprobs", "text", "thought_digest"))
        flipped = before["chosen_option"] != after["chosen_option"]
        if flipped:
            flips.append(
                {
                    "external_id": before["external_id"],
                    "variant": key[1],
                    "stored": before["chosen_option"],
                    "now": after["chosen_option"],
                    "change": change,
                }
            )
        if change is not None and change > tolerance:
            problems.append(f"{name}: a probability differs by {change:.3g}, more than {tolerance}")
        elif flipped and change is None:
            problems.append(f"{name}: the answer was option {before['chosen_option']}, and is {after['chosen_option']}")
    if exact and unequal:
        problems.append(f"{unequal} results are not bit-identical, although both engines are canonical and equal")
    more = len(problems) - LISTED
    return {
        "prompts": len(sample),
        "largest_difference": largest,
        "tolerance": 0.0 if exact else tolerance,
        "canonical": exact,
        "unequal": unequal,
        "flips": flips,
        "ok": not problems,
        "problems": problems[:LISTED] + ([f"{more} more prompts differ"] if more > 0 else []),
    }


def largest_change(one: list[float] | None, other: list[float] | None) -> float | None:
    """Return the largest difference in a probability between two lists by position; None if one is missing."""
    if one is None or other is None:
        return None
    return max(abs(first - second) for first, second in zip(one, other, strict=True))

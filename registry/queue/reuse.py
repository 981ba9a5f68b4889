"""Reuse results of prompts that the same model scored before on the same engine.

Variant sets overlap: the original is in all of them, `cyclic` lies inside `full`. A prompt is looked up by everything
that could change its result: the model revision (weights, tokenizer, precision), the protocol, the prompt's digest and
the engine fingerprint (code, packages, device, settings). Results are copied only from sealed evaluations that were not
withdrawn, and only if they do not vary from run to run: replicate 0 of protocols that read log-probabilities. A
replicate is scored again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.digests import specification_digest
from registry.lookups import not_withdrawn
from registry.predictions.prompts import ShardPrompt
from registry.tables import Archive, EngineFingerprint, Evaluation, EvaluationQuestion, Prediction, Shard

_CHUNK: Final = 500


@dataclass(frozen=True)
class Reused:
    """A result to copy: log-probabilities by position, and the prediction that they come from."""

    logprobs: tuple[float, ...]
    evaluation_id: int
    variant: int
    seal: str

    def pointer(self) -> dict[str, int | str]:
        """Return the columns of a prediction that name its source."""
        return {
            "reused_from_evaluation_id": self.evaluation_id,
            "reused_from_variant": self.variant,
            "reused_from_seal": self.seal,
        }


def reusable(
    session: Session, evaluation_id: int, fingerprint: Mapping[str, Any], prompts: Sequence[ShardPrompt]
) -> dict[int, Reused]:
    """Return reusable results by place in `prompts`; places that must be scored are absent."""
    evaluation = session.get_one(Evaluation, evaluation_id)
    if evaluation.replicate != 0:
        return {}
    places_by_question: dict[int, list[int]] = {}
    for place, item in enumerate(prompts):
        places_by_question.setdefault(item.question_id, []).append(place)
    results: dict[tuple[int, str], Reused] = {}
    ids = list(places_by_question)
    same_conditions = (
        Evaluation.model_revision_id == evaluation.model_revision_id,
        Evaluation.protocol_id == evaluation.protocol_id,
        Evaluation.benchmark_version_id == evaluation.benchmark_version_id,
        Evaluation.seal.is_not(None),
        Evaluation.replicate == 0,
    )
    evaluated = EvaluationQuestion
    for start in range(0, len(ids), _CHUNK):
        part = ids[start : start + _CHUNK]
        scored = (
            select(evaluated.evaluation_id, evaluated.question_id, Evaluation.seal)
            .join(Evaluation, Evaluation.id == evaluated.evaluation_id)
            .join(Shard, Shard.id == evaluated.shard_id)
            .join(EngineFingerprint, EngineFingerprint.id == Shard.engine_fingerprint_id)
            .where(
                *same_conditions,
                EngineFingerprint.digest == specification_digest(fingerprint),
                evaluated.question_id.in_(part),
                # A withdrawn evaluation is not trusted, or was replaced.
                not_withdrawn(),
                # An archived evaluation has no rows to copy.
                Evaluation.id.not_in(select(Archive.evaluation_id).where(Archive.state == "archived")),
            )
        )
        seals = {(row.evaluation_id, row.question_id): row.seal for row in session.execute(scored)}
        sources = sorted({number for number, _ in seals})
        prediction = Prediction
        query = (
            select(
                prediction.question_id,
                prediction.prompt_digest,
                prediction.label_logprobs,
                prediction.evaluation_id,
                prediction.variant,
            )
            .where(
                prediction.evaluation_id.in_(sources),
                prediction.question_id.in_(part),
                prediction.prompt_digest.is_not(None),
                prediction.label_logprobs.is_not(None),
                # A copy refers to the evaluation that computed the result, never to another copy.
                prediction.reused_from_evaluation_id.is_(None),
            )
            .order_by(prediction.evaluation_id, prediction.question_id, prediction.variant)
        )
        for row in session.execute(query):
            seal = seals.get((row.evaluation_id, row.question_id))
            if seal is not None:
                result = Reused(tuple(row.label_logprobs), row.evaluation_id, row.variant, seal)
                results.setdefault((row.question_id, row.prompt_digest), result)
    by_place = {}
    for question_id, places in places_by_question.items():
        for place in places:
            item = prompts[place]
            reused = results.get((question_id, item.prompt.digest))
            if reused is not None and len(reused.logprobs) == len(item.variant.order):
                by_place[place] = reused
    return by_place

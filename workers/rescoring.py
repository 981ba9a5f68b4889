"""Gives the prompts of a sealed evaluation to its model again, for `shuffleboard verify --rescore`.

The module is a `registry.sealed.verification.rescoring.Rescorer`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session, selectinload

from registry.db import read_session
from registry.predictions.prompts import ShardPrompt, prompts_of
from registry.queue.claims import ShardResult
from registry.queue.shards import rows_of
from registry.settings import Settings
from registry.tables import Evaluation, ModelRevision, Question
from workers.artifacts import check_files
from workers.fingerprint import promises_same_bits
from workers.scorer import ENGINES, TransformersScorer

__all__ = ["promises_same_bits", "score_again"]

Key = tuple[int, int]
"""Question id and variant ordinal."""


class _Again(TransformersScorer):
    """Scores prompts again, ignoring stored results."""

    def ask(
        self, revision: ModelRevision, definition: Mapping[str, Any], replicate: int, prompts: list[ShardPrompt]
    ) -> ShardResult:
        """Return the new results of the prompts."""
        self._load(revision)
        self._model.budget_tokens = self.budget_tokens
        if "answer" in definition:
            return self._read_answers(definition, replicate, prompts, _never)
        scored = self._model.score(prompts, whole=definition["score"] != "first-token", should_stop=_never)
        return ShardResult(
            rows=rows_of(prompts, scored.logprobs),
            fingerprint=self._fingerprint(definition),
            tokens_naive=scored.tokens_naive,
            tokens_computed=scored.tokens_computed,
            elapsed_s=0.0,
        )


def _never() -> bool:
    return False


def score_again(
    engine: Engine, settings: Settings, evaluation_id: int, sample: Sequence[Key], fingerprint: Mapping[str, Any]
) -> tuple[dict[Key, dict[str, Any]], dict[str, Any]]:
    """Return new results for the prompts in the sample, and the fingerprint of their engine.

    The results, by question and variant: answer, log-probabilities, probabilities, text, digest of the thought.
    fingerprint: the first engine's; the same engine is used, on this host's device.
    Raises ModelError if the model's files are not the scored ones.
    """
    engine_name = fingerprint.get("engine")
    scorer = _Again(
        settings.home.expanduser(),
        engine=next((name for name in ENGINES if engine_name == f"transformers-{name}"), ENGINES[0]),
    )
    try:
        with read_session(engine) as session:
            evaluation = session.get_one(Evaluation, evaluation_id)
            check_files(evaluation.model_revision, settings)
            prompts = _prompts(session, evaluation, sample)
            result = scorer.ask(
                evaluation.model_revision, evaluation.protocol.definition, evaluation.replicate, prompts
            )
    finally:
        scorer.unload()
    texts = {(row["question_id"], row["variant"]): row for row in result.generations}
    names = ("chosen_option", "label_logprobs", "label_probabilities")
    by_prompt: dict[Key, dict[str, Any]] = {}
    for item, row in zip(prompts, result.rows, strict=True):
        key = (item.question_id, item.variant.ordinal)
        written = texts.get(key, {})
        by_prompt[key] = {name: row.get(name) for name in names}
        by_prompt[key] |= {name: written.get(name) for name in ("text", "thought_digest")}
    return by_prompt, result.fingerprint


def _prompts(session: Session, evaluation: Evaluation, sample: Sequence[Key]) -> list[ShardPrompt]:
    """Return the prompts of the sample, in its order."""
    ids = {question_id for question_id, _ in sample}
    questions = session.scalars(
        select(Question).where(Question.id.in_(ids)).order_by(Question.ordinal).options(selectinload(Question.options))
    ).all()
    built = {
        (item.question_id, item.variant.ordinal): item for item in prompts_of(session, evaluation, list(questions))
    }
    return [built[key] for key in sample]

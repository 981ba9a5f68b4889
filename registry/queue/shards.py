"""The prompts of a shard, and the predictions made from their results."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from registry.predictions.prompts import ShardPrompt, prompts_of
from registry.revisions.endpoints import choose_from_partial
from registry.tables import Evaluation, EvaluationQuestion, Question


def rows_of(prompts: Sequence[ShardPrompt], logprobs: Sequence[Sequence[float | None]]) -> list[dict[str, object]]:
    """Return the prediction rows of scored prompts.

    logprobs: each prompt's log-probabilities by position; None for an unknown one. If some are unknown, the answer is
    the highest known one, and probabilities are unknown. A variant that shows the question is paired with the variant
    that differs only in leaving it out.
    """
    complete = [_all_known(values) for values in logprobs]
    without_question = {
        (item.question_id, item.variant.with_question()): values
        for item, values in zip(prompts, complete, strict=True)
        if not item.variant.question_shown
    }
    rows = []
    for item, values, partial in zip(prompts, complete, logprobs, strict=True):
        if values is None:
            position, _ = choose_from_partial(partial)
            tied = position is not None and partial.count(partial[position]) > 1
            rows.append(item.build_stated_row(position) | {"tied": tied})
        else:
            pair = (item.question_id, item.variant.with_question())
            counterpart = without_question.get(pair) if item.variant.question_shown else None
            rows.append(item.row(values, counterpart))
    return rows


def _all_known(values: Sequence[float | None]) -> list[float] | None:
    numbers = [value for value in values if value is not None]
    return numbers if len(numbers) == len(values) else None


def shard_prompts(session: Session, shard_id: int) -> list[ShardPrompt]:
    """Return every prompt of a shard, by question and variant."""
    query = (
        select(EvaluationQuestion.evaluation_id, Question)
        .join(Question, Question.id == EvaluationQuestion.question_id)
        .where(EvaluationQuestion.shard_id == shard_id)
        .order_by(Question.ordinal)
        .options(selectinload(Question.options))
    )
    rows = session.execute(query).all()
    if not rows:
        return []
    evaluation = session.get_one(Evaluation, rows[0].evaluation_id)
    return list(prompts_of(session, evaluation, [row.Question for row in rows]))

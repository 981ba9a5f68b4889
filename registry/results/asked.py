"""How an evaluation's questions were asked: in how many different prompts each, and what guessing would get right.

What was asked in one prompt alone says nothing of how an answer holds up, and must never look as if it did.
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Double, case, cast, func, select, type_coerce
from sqlalchemy.orm import Session

from registry.tables import Evaluation, EvaluationQuestion, Question, QuestionScore, VariantSet

ASKED: Final = ("distinct_prompts_min", "distinct_prompts_max", "variants_max", "orders_only", "chance")
"""The columns of `evaluation` that say how it was asked."""


def asked(session: Session, evaluation_id: int) -> dict[str, Any]:
    """The columns ASKED of an evaluation, over its questions as they are stored.

    distinct_prompts_min, distinct_prompts_max: different prompts that show a question. variants_max: the most prompts
    that show one. orders_only: no prompt alters options or labels. chance: accuracy of guessing, the mean of
    1 / number of options. Each is None where nothing is stored.
    """
    score = QuestionScore
    row = (
        session.execute(
            select(
                func.min(score.distinct_prompts).label("distinct_prompts_min"),
                func.max(score.distinct_prompts).label("distinct_prompts_max"),
                func.max(score.shown).label("variants_max"),
                func.min(case((score.variants == score.shown, 1), else_=0)).label("own_only"),
                type_coerce(func.avg(cast(1.0, Double) / Question.n_options), Double()).label("chance"),
            )
            .select_from(EvaluationQuestion)
            .join(Question, Question.id == EvaluationQuestion.question_id)
            .outerjoin(
                score,
                (score.evaluation_id == EvaluationQuestion.evaluation_id)
                & (score.question_id == EvaluationQuestion.question_id),
            )
            .where(EvaluationQuestion.evaluation_id == evaluation_id)
        )
        .mappings()
        .one()
    )
    kind = session.scalar(
        select(VariantSet.kind)
        .join(Evaluation, Evaluation.variant_set_id == VariantSet.id)
        .where(Evaluation.id == evaluation_id)
    )
    found = dict(row)
    own_only = found.pop("own_only")
    return found | {"orders_only": None if own_only is None else bool(own_only) and kind != "relabel"}


def distinct_prompts(row: Mapping[str, Any]) -> dict[str, int | None]:
    """`{"min": …, "max": …}` over the questions, from a row with the columns of `asked`."""
    return {"min": row["distinct_prompts_min"], "max": row["distinct_prompts_max"]}


def asked_how(row: Mapping[str, Any]) -> str | None:
    """In words, from a row with the columns of `asked`; None where nothing is stored.

    >>> orders = {"distinct_prompts_min": 4, "distinct_prompts_max": 4, "variants_max": 4, "orders_only": True}
    >>> asked_how(orders)
    '4 orders'
    >>> asked_how(orders | {"distinct_prompts_min": 1, "distinct_prompts_max": 1, "variants_max": 1})
    'asked in one order'
    >>> asked_how(orders | {"distinct_prompts_min": 1, "distinct_prompts_max": 1, "variants_max": 11})
    '11 repeats of one prompt'
    """
    low, high, most = row["distinct_prompts_min"], row["distinct_prompts_max"], row["variants_max"]
    if low is None or high is None:
        return None
    if high <= 1:
        return "asked in one order" if most is None or most <= 1 else f"{most} repeats of one prompt"
    count = str(high) if low == high else f"{low} to {high}"
    return f"{count} {'orders' if row['orders_only'] else 'variants'}"

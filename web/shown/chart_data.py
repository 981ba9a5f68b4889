"""SELECTs behind charts and comparisons: the effect of moving or replacing options, or of another model.

Functions take the session first. Callers must have checked that the viewer may see the evaluations.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Double, Integer, Select, Subquery, and_, case, cast, func, not_, select, type_coerce
from sqlalchemy.orm import Session, aliased

from registry.db import is_in
from registry.predictions.stored import require_rows
from registry.schema.selectables import (
    Row,
    adversarial_effects,
    evaluation_seconds,
    extraction_counts,
    list_rows,
    option_probability,
    question_metrics,
    rows_of,
    run_accuracy,
)
from registry.tables import Evaluation, Prediction, Question, QuestionScore


def moves_answers(row: Row) -> bool:
    """Return whether a row has answer-moving variants, with any parameters."""
    return bool(row["variants"].partition(":")[0] == "answer-moving")


def runs(session: Session, evaluation_ids: Sequence[int]) -> dict[int, list[Row]]:
    """Map evaluation → its runs by variant: accuracy over the questions that have the variant, and that of guessing.

    Only the first answers of repeated prompts count. For sealed evaluations, whose questions are all complete, this
    equals the view `run_accuracy` in scope "all", which takes four times as long because it also computes the other
    scopes.
    """
    times = func.coalesce(Evaluation.repeats, 1)
    query: Select[*tuple[Any, ...]] = (
        select(
            Prediction.evaluation_id,
            (Prediction.variant // times).label("variant"),
            func.count().label("questions"),
            func.count().filter(Prediction.correct).label("correct"),
            type_coerce(func.avg(1.0 / Question.n_options), Double()).label("guessing"),
        )
        .join(Question, Question.id == Prediction.question_id)
        .join(Evaluation, Evaluation.id == Prediction.evaluation_id)
        .where(Prediction.evaluation_id.in_(evaluation_ids), Prediction.question_shown, Prediction.own_options)
        .where(Prediction.variant % times == 0)
        .group_by(Prediction.evaluation_id, Prediction.variant, times)
        .order_by(Prediction.evaluation_id, Prediction.variant)
    )
    by_evaluation: dict[int, list[Row]] = {}
    require_rows(session, *evaluation_ids)
    for row in list_rows(session.execute(query)):
        by_evaluation.setdefault(row.pop("evaluation_id"), []).append(
            row | {"accuracy": row["correct"] / row["questions"]}
        )
    return by_evaluation


def adversarial(session: Session, evaluation_id: int) -> list[Row]:
    """Return the rows of the view `adversarial_effects`: one per inserted text, in the order of the variants."""
    query = (
        select(adversarial_effects)
        .where(adversarial_effects.c.evaluation_id == evaluation_id)
        .order_by(adversarial_effects.c.variant)
    )
    require_rows(session, evaluation_id)
    return list_rows(session.execute(query))


# Written answers


def written(session: Session, evaluation_id: int, rules: Sequence[str]) -> list[Row]:
    """Return the rows of the view `extraction_counts`: rules by precedence, `stated` if it occurs, then `none`."""
    query = select(extraction_counts).where(extraction_counts.c.evaluation_id == evaluation_id)
    require_rows(session, evaluation_id)
    counted = {row["extraction_rule"]: row for row in list_rows(session.execute(query))}
    nothing = {"prompts": 0, "correct": 0}
    return (
        [{"extraction_rule": rule, **nothing, **counted.get(rule, {})} for rule in (*rules, "none")] if counted else []
    )


def seconds(session: Session, evaluation_id: int) -> Row | None:
    """Return the row of the view `evaluation_seconds`; None if no shard is done or all were imported."""
    rows = rows_of(session, select(evaluation_seconds).where(evaluation_seconds.c.evaluation_id == evaluation_id))
    return rows[0] if rows else None


def by_subject(session: Session, evaluation_id: int) -> list[Row]:
    """Return the accuracy of every run on every subject: `run`, `subject`, `accuracy`, `questions`."""
    c = run_accuracy.c
    query = select(c.variant.label("run"), c.scope, c.accuracy, c.questions).where(
        c.evaluation_id == evaluation_id, c.scope.like("subject:%")
    )
    require_rows(session, evaluation_id)
    rows = list_rows(session.execute(query.order_by(c.scope, c.variant)))
    times = session.get_one(Evaluation, evaluation_id).repeats or 1
    return [row | {"run": row["run"] // times, "subject": row["scope"].partition(":")[2]} for row in rows]


# Positions


def _count_by_place(evaluation_id: int) -> Subquery:
    """Return a row per question and position of its right option: prompts, and prompts answered correctly.

    Only variants that show the question with exactly its own options count.
    """
    o = option_probability.c
    return (
        select(
            Prediction.question_id,
            o.position,
            func.count().label("prompts"),
            func.count().filter(Prediction.correct).label("correct"),
        )
        .join(Question, Question.id == Prediction.question_id)
        .join(
            option_probability,
            and_(
                o.evaluation_id == Prediction.evaluation_id,
                o.question_id == Prediction.question_id,
                o.variant == Prediction.variant,
                o.option == Question.answer,
            ),
        )
        .where(Prediction.evaluation_id == evaluation_id, Prediction.question_shown, Prediction.own_options)
        .group_by(Prediction.question_id, o.position)
        .subquery()
    )


def _by_position(evaluation_id: int) -> Subquery:
    """Select `_count_by_place` and whether a question is always wrong at this position and right elsewhere."""
    placed = _count_by_place(evaluation_id)
    c = placed.c
    positions, never_right, always_right = (
        func.sum(case((condition, 1), else_=0)).over(partition_by=c.question_id)
        for condition in (c.prompts > 0, c.correct == 0, c.correct == c.prompts)
    )
    counted = select(
        placed,
        positions.label("positions"),
        never_right.label("never_right"),
        always_right.label("always_right"),
    ).subquery()
    only_here = and_(
        counted.c.correct == 0,
        counted.c.positions > 1,
        counted.c.never_right == 1,
        counted.c.always_right == counted.c.positions - 1,
    )
    return select(counted, only_here.label("only_here")).subquery()


def fails_at(session: Session, evaluation_id: int, position: int) -> Select[*tuple[Any, ...]]:
    """Select the questions that are wrong always, and only, when the right option is at `position`."""
    counts = _by_position(evaluation_id)
    failing = select(counts.c.question_id).where(counts.c.position == position, counts.c.only_here)
    require_rows(session, evaluation_id)
    return select(Question.id).where(is_in(Question.id, session.execute(failing).scalars().all()))


def positions(session: Session, evaluation_id: int) -> tuple[list[Row], Row]:
    """Return how often each position is chosen, how often it has the right option, and both over all positions.

    Per position: `right_here` prompts with the right option there, `correct` of them answered correctly, `answered`
    prompts that chose it, `fails` questions that fail only there. In all: `prompts`, and `invalid` ones without a valid
    answer. Over variants that show the question with exactly its own options; empty if there are none.
    """
    answered = (
        select(Prediction.chosen_position, func.count())
        .where(Prediction.evaluation_id == evaluation_id, Prediction.question_shown, Prediction.own_options)
        .group_by(Prediction.chosen_position)
    )
    require_rows(session, evaluation_id)
    by_position: dict[int | None, int] = dict(session.execute(answered).all())
    columns = _by_position(evaluation_id).c
    stood = select(
        columns.position,
        cast(func.sum(columns.prompts), Integer).label("right_here"),
        cast(func.sum(columns.correct), Integer).label("correct"),
        func.count().filter(columns.only_here).label("fails"),
    ).group_by(columns.position)
    right = {row["position"]: row for row in list_rows(session.execute(stood))}
    nothing = {"right_here": 0, "correct": 0, "fails": 0}
    seen = [position for position in (*by_position, *right) if position is not None]
    rows = [
        {**nothing, **right.get(position, {}), "position": position, "answered": by_position.get(position, 0)}
        for position in range(max(seen, default=-1) + 1)
    ]
    return rows, {"prompts": sum(by_position.values()), "invalid": by_position.get(None, 0)}


# Flips


def right_in(session: Session, evaluation_id: int) -> list[Row]:
    """Count completely scored questions by the number of variants, with their own options, in which they are right.

    Rows have `variants`, `correct`, `steady` (whether the answer is the same in all of them) and `questions`; questions
    with one variant are omitted.
    """
    o = QuestionScore
    steady = (o.agreeing == o.variants).label("steady")
    query = (
        select(o.variants, o.correct, steady, func.count().label("questions"))
        .where(o.evaluation_id == evaluation_id, o.stored >= o.expected, o.variants > 1)
        .group_by(o.variants, o.correct, steady)
        .order_by(o.variants, o.correct, steady)
    )
    return rows_of(session, query)


# Two evaluations

_left, _right = question_metrics.alias("left_metrics"), question_metrics.alias("right_metrics")

DIFFERING: Final = ("all", "left", "right")
"""Lists of questions: all on which two evaluations differ, or only where the left, or the right, is right."""


def _both(query: Select[*tuple[Any, ...]], left: int, right: int, again: Any) -> Select[*tuple[Any, ...]]:
    """Join both evaluations' metrics by question, which has another id in another version of the benchmark.

    again: alias of the question in the right evaluation.
    """
    version = select(Evaluation.benchmark_version_id).where(Evaluation.id == right).scalar_subquery()
    same = and_(again.benchmark_version_id == version, not_(again.few_shot), again.external_id == Question.external_id)
    return (
        query.select_from(_left)
        .join(Question, Question.id == _left.c.question_id)
        .join(again, same)
        .join(_right, _right.c.question_id == again.id)
        .where(_left.c.evaluation_id == left, _right.c.evaluation_id == right)
    )


def differing(session: Session, left: int, right: int, *, metric: str, only: str, limit: int, offset: int) -> list[Row]:
    """Return the questions that one of two evaluations has right and the other wrong, in the benchmark's order.

    metric: 0 or 1 for every question. Each row has the metric and the counts of both, by `left_` and `right_`.
    """
    ours, theirs = aliased(QuestionScore), aliased(QuestionScore)
    sides = {"left": (_left, ours), "right": (_right, theirs)}
    columns = [
        column
        for side, (view, score) in sides.items()
        for column in (
            view.c[metric].label(f"{side}_value"),
            score.correct.label(f"{side}_correct"),
            score.variants.label(f"{side}_variants"),
        )
    ]
    again = aliased(Question)
    numbers = (
        Question.id.label("question_id"),
        Question.id.label("left_question_id"),
        again.id.label("right_question_id"),
    )
    query = (
        _both(select(*numbers, Question.external_id, Question.text, *columns), left, right, again)
        .join(ours, and_(ours.evaluation_id == left, ours.question_id == Question.id))
        .join(theirs, and_(theirs.evaluation_id == right, theirs.question_id == again.id))
        .order_by(Question.ordinal)
        .limit(limit)
        .offset(offset)
    )
    left_value, right_value = _left.c[metric], _right.c[metric]
    conditions = {
        "all": left_value != right_value,
        "left": and_(left_value == 1, right_value == 0),
        "right": and_(left_value == 0, right_value == 1),
    }
    return rows_of(session, query.where(conditions[only]))

"""What thinking goes with: how long thoughts are in each order, and how answers hold up after short and long ones.

Nothing here says that a long thought makes an answer better or worse: hard questions have longer thoughts.
"""

from collections.abc import Sequence
from itertools import groupby
from statistics import fmean, median
from typing import Any, Final

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from registry.predictions.prompts import shown_in, variants_of
from registry.predictions.stored import require_rows
from registry.predictions.texts import thought_of
from registry.prompting.final_answer import first_stated
from registry.scores.asked import first_answers
from registry.statistics.bootstrap import MINIMUM_QUESTIONS, mean_intervals
from registry.tables import Evaluation, Generation, Prediction, Question, Variant

QUARTILES: Final = 4
MOST_READ: Final = 500
"""Thoughts in which the first answer is looked for, those of the first questions."""
MOST_ORDERS: Final = 24
"""Of more variants than these the lengths are not listed one by one."""


def thought_lengths(session: Session, evaluation_id: int) -> dict[str, Any] | None:
    """How long the thoughts of an evaluation are; None where none is stored, or nothing shows a question's own options.

    unit: `tokens` where they were counted for every output, else `characters`. An output without a thought counts with
    a length of 0. prompts, thought: outputs, and those with a thought. mean, median, longest: over the outputs.
    orders: for each variant `name`, `prompts`, `mean`, `median` and `accuracy`; empty for more than MOST_ORDERS.
    quartiles: the questions by the mean length of their thoughts, shortest first: `from`, `to`, `questions`, and
    `accuracy` (the share of right answers over all orders), `fluctuation` (questions whose answers are not all the
    same; None unless asked in two orders) and `preferred` (how much more often the position in `position` is chosen
    than the right option stands there), each a value with `interval`, None for fewer than MINIMUM_QUESTIONS questions.
    first: of the first MOST_READ thoughts of outputs with an answer, `read`, `stated` (those that call an option the
    answer), and of these `kept` (the first such option is the final answer), `right_first` and `right_final`; None
    where no thought was kept.
    Where `repeat` asked for several answers to a prompt, the first of them count.
    """
    rows = _rows(session, evaluation_id)
    if not any(row.thought_characters for row in rows):
        return None
    counted = all(row.thought_tokens is not None for row in rows)
    lengths = [(row.thought_tokens if counted else row.thought_characters) or 0 for row in rows]
    position = _preferred(rows)
    return {
        "unit": "tokens" if counted else "characters",
        "prompts": len(rows),
        "thought": sum(bool(row.thought_characters) for row in rows),
        "mean": fmean(lengths),
        "median": median(lengths),
        "longest": max(lengths),
        "tokens_per_answer": session.get_one(Evaluation, evaluation_id).tokens_per_answer,
        "orders": _orders(rows, lengths),
        "position": position,
        "quartiles": _quartiles(rows, lengths, position),
        "first": _first_answers(session, evaluation_id, rows),
    }


def _first_answers(session: Session, evaluation_id: int, rows: Sequence[Any]) -> dict[str, int] | None:
    """Whether the answers that thoughts call the answer first are the final ones."""
    wanted = [row for row in rows if row.thought_characters and row.chosen_position is not None][:MOST_READ]
    ids = {row.question_id for row in wanted}
    text = Generation
    query = select(text.question_id, text.variant, text.thought).where(
        text.evaluation_id == evaluation_id, text.question_id.in_(ids), text.thought.is_not(None)
    )
    require_rows(session, evaluation_id)
    thoughts = {(row[0], row[1]): row[2] for row in session.execute(query)}
    if not thoughts:
        return None
    evaluation = session.get_one(Evaluation, evaluation_id)
    questions = {
        row.id: row
        for row in session.scalars(select(Question).where(Question.id.in_(ids)).options(selectinload(Question.options)))
    }
    variants = {question_id: variants_of(evaluation, question) for question_id, question in questions.items()}
    counts = dict.fromkeys(("read", "stated", "kept", "right_first", "right_final"), 0)
    for row in wanted:
        thought = thought_of(thoughts.get((row.question_id, row.variant)))
        if thought is None:
            continue
        variant = variants[row.question_id].get(row.variant)
        options, labels = shown_in(evaluation, questions[row.question_id], variant, row)
        first = first_stated(thought, labels, options)
        counts["read"] += 1
        if first is not None:
            counts["stated"] += 1
            counts["kept"] += first == row.chosen_position
            counts["right_first"] += row.shown[first] == row.answer
            counts["right_final"] += bool(row.correct)
    return counts


def _rows(session: Session, evaluation_id: int) -> Sequence[Any]:
    of, text = Prediction, Generation
    same = (
        (text.evaluation_id == of.evaluation_id) & (text.question_id == of.question_id) & (text.variant == of.variant)
    )
    named = (
        (Variant.variant_set_id == Evaluation.variant_set_id)
        & (Variant.n_options == Question.n_options)
        & (Variant.ordinal == of.variant)
    )
    query = (
        select(
            of.question_id,
            of.variant,
            of.shown,
            of.chosen_position,
            of.chosen_option,
            of.correct,
            Question.answer,
            text.thought_tokens,
            text.thought_characters,
            Variant.name,
        )
        .join(text, same)
        .join(Evaluation, Evaluation.id == of.evaluation_id)
        .join(Question, Question.id == of.question_id)
        .outerjoin(Variant, named)
        .where(of.evaluation_id == evaluation_id, of.question_shown, of.own_options)
        .where(first_answers(session, evaluation_id))
        .order_by(of.question_id, of.variant)
    )
    require_rows(session, evaluation_id)
    return session.execute(query).all()


def _orders(rows: Sequence[Any], lengths: Sequence[int]) -> list[dict[str, Any]]:
    by_variant: dict[int, list[tuple[Any, int]]] = {}
    for row, length in zip(rows, lengths, strict=True):
        by_variant.setdefault(row.variant, []).append((row, length))
    if len(by_variant) > MOST_ORDERS:
        return []
    return [
        {
            "variant": variant,
            "name": found[0][0].name or f"variant {variant}",
            "prompts": len(found),
            "mean": fmean(length for _, length in found),
            "median": median(length for _, length in found),
            "accuracy": fmean(row.correct for row, _ in found),
        }
        for variant, found in sorted(by_variant.items())
    ]


def _preferred(rows: Sequence[Any]) -> int:
    """The position that is chosen most above its share of right answers; the first of equals."""
    excess: dict[int, int] = {}
    for row in rows:
        if row.chosen_position is not None:
            excess[row.chosen_position] = excess.get(row.chosen_position, 0) + 1
        right = list(row.shown).index(row.answer)
        excess[right] = excess.get(right, 0) - 1
    return max(sorted(excess), key=lambda position: excess[position])


def _quartiles(rows: Sequence[Any], lengths: Sequence[int], position: int) -> list[dict[str, Any]]:
    table = []
    pairs = zip(rows, lengths, strict=True)
    for _, group in groupby(pairs, key=lambda pair: pair[0].question_id):
        members = list(group)
        answers = [row for row, _ in members]
        options = {row.chosen_option for row in answers}
        tested = len({tuple(row.shown) for row in answers}) > 1
        table.append(
            (
                fmean(length for _, length in members),
                fmean(row.correct for row in answers),
                float(len(options) > 1 or None in options) if tested else np.nan,
                fmean(
                    (row.chosen_position == position) - (list(row.shown).index(row.answer) == position)
                    for row in answers
                ),
            )
        )
    if len(table) < QUARTILES:
        return []
    found = np.array(table)
    parts = np.array_split(found[np.argsort(found[:, 0], kind="stable")], QUARTILES)
    return [_quartile(part) for part in parts]


def _quartile(part: Any) -> dict[str, Any]:
    intervals = mean_intervals(part[:, 1:]) if len(part) >= MINIMUM_QUESTIONS else [None] * 3
    names = ("accuracy", "fluctuation", "preferred")
    return {
        "from": float(part[0, 0]),
        "to": float(part[-1, 0]),
        "questions": len(part),
        **{
            name: {
                "value": None if np.isnan(part[:, column]).all() else float(np.nanmean(part[:, column])),
                "interval": None if interval is None else [interval.low, interval.high],
            }
            for column, (name, interval) in enumerate(zip(names, intervals, strict=True), start=1)
        },
    }

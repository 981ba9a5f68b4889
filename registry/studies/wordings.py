"""Accuracy over a set of wordings, and how consistent answers are: PromptEval's quantiles, SCORE's consistency rate."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.errors import UsageError
from registry.lookups import find_sealed
from registry.predictions.stored import require_rows
from registry.prompting.variants import move_to
from registry.scores.asked import first_answers
from registry.studies.axes import Answers, Axis, answers_by_axis
from registry.tables import Evaluation, Generation, Prediction, Question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_AXES: Final = ("wording", "paraphrase", "noise", "labels", "order", "options")
"""Of which axis the levels are taken where none is named: the first that the variants have."""


def wordings_document(session: Session, evaluation_id: int, axis: str | None = None) -> dict[str, Any]:
    """The accuracy under each wording, with its quantiles over wordings, exact or estimated from the cells asked.

    axis: whose levels stand for the wordings, such as `order`; None: the wording's own, else the first other.
    Raises NotFoundError, QueueError for one that is not sealed, and UsageError where nothing was varied on that axis.
    """
    from registry.statistics.bootstrap import SEED
    from registry.statistics.quantiles import DRAWS, wording_quantiles

    answers = answers_by_axis(session, evaluation_id)
    place, chosen = _axis(answers, evaluation_id, axis)
    levels, right, asked, cells = _counts(answers, place)
    accuracies, quantiles = wording_quantiles(right, asked, cells)
    exact = bool((asked == cells).all())
    return {
        "evaluations": list(answers.evaluations),
        "axis": chosen.name,
        "questions": len(right),
        "left_out": len(answers.of_question) - len(right),
        "cells": len(levels) * cells,
        "asked_share": float(asked.sum() / (cells * asked.size)),
        "exact": exact,
        "levels": [
            {
                "level": level,
                "name": chosen.names.get(level, str(level)),
                "accuracy": float(accuracies[number]),
                "answers": int(asked[:, number].sum()),
            }
            for number, level in enumerate(levels)
        ],
        "quantiles": [asdict(quantile) for quantile in quantiles],
        "draws": None if exact else DRAWS,
        "seed": None if exact else SEED,
    }


def _axis(answers: Answers, evaluation_id: int, axis: str | None) -> tuple[int, Axis]:
    varied = {
        of_axis.name: (place, of_axis)
        for place, of_axis in enumerate(answers.axes)
        if len({cell[place] for cells in answers.of_question.values() for cell in cells}) > 1
    }
    wanted = [axis] if axis is not None else [name for name in DEFAULT_AXES if name in varied]
    if not wanted or wanted[0] not in varied:
        listed = ", ".join(varied) or "none; submit it with --variants wording"
        raise UsageError(
            f"evaluation {evaluation_id} has no axis {axis or 'wording'} of several levels (it has: {listed})"
        )
    return varied[wanted[0]]


def _counts(answers: Answers, place: int) -> "tuple[list[int], NDArray[np.float64], NDArray[np.float64], int]":
    """The levels of an axis; right answers and answers, shape (questions, levels); cells of a question in each level.

    Only questions whose design has as many cells as that of most: with orders of all rotations, as many options.
    """
    import numpy as np

    sizes = Counter(answers.designed.values())
    most = max(sizes, key=lambda size: (sizes[size], size))
    chosen = [given for question_id, given in answers.of_question.items() if answers.designed[question_id] == most]
    levels = sorted({cell[place] for given in chosen for cell in given})
    cells = most // len(levels)
    number_of = {level: number for number, level in enumerate(levels)}
    right, asked = np.zeros((2, len(chosen), len(levels)))
    for row, given in enumerate(chosen):
        for cell, correct in given.items():
            asked[row, number_of[cell[place]]] += 1
            right[row, number_of[cell[place]]] += correct
    return levels, right, asked, cells


def consistency_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """How often two answers to one question are equal: SCORE's consistency rate, as defined and as computed there.

    consistency_rate: the mean over questions of the share of unordered pairs of answers that are equal in content; it
    is the metric `score`. printed: the sum as the harness's page prints it, over ordered pairs, which reaches 2.
    harness: as its program computes prompt consistency, over all pairs of all questions together, answers compared as
    texts: two answers without a label are equal where they are the same text. harness_options: as it computes it for
    orders, where they are those of `answer-moving`: a letter counts as the right option's original letter where it is
    that letter or the one that the right option was moved to, so that two different options are equal. Raises
    NotFoundError, and QueueError for one that is not sealed.
    """
    evaluation = find_sealed(session, evaluation_id)
    rows = _answers(session, evaluation_id)
    rates = []
    equal = pairs = 0
    for question in rows.values():
        own = [row.chosen_option for row in question]
        number = len(own) * (len(own) - 1) // 2
        if number:
            rates.append(_equal_pairs([option for option in own if option is not None]) / number)
        equal += _equal_pairs([_as_text(row) for row in question])
        pairs += number
    rate = sum(rates) / len(rates) if rates else None
    return {
        "evaluation": evaluation.id,
        "questions": len(rates),
        "consistency_rate": rate,
        "printed": None if rate is None else 2 * rate,
        "harness": equal / pairs if pairs else None,
        "harness_options": _harness_options(evaluation, rows),
    }


def _equal_pairs(values: Sequence[Any]) -> int:
    return sum(count * (count - 1) // 2 for count in Counter(values).values())


def _as_text(row: Any) -> Any:
    """What the harness compares: the option's letter, or all that was written where no label is found in it."""
    return row.chosen_option if row.chosen_option is not None else (row.text or "")


def _answers(session: Session, evaluation_id: int) -> dict[int, list[Any]]:
    query = (
        select(
            Prediction.question_id,
            Prediction.variant,
            Prediction.chosen_option,
            Prediction.chosen_position,
            Prediction.shown,
            Question.answer,
            Generation.text,
        )
        .join(Question, Question.id == Prediction.question_id)
        .outerjoin(Prediction.generation)
        .where(Prediction.evaluation_id == evaluation_id, Prediction.question_shown, Prediction.own_options)
        .where(first_answers(session, evaluation_id))
        .order_by(Prediction.question_id, Prediction.variant)
    )
    found: dict[int, list[Any]] = {}
    require_rows(session, evaluation_id)
    for row in session.execute(query):
        found.setdefault(row.question_id, []).append(row)
    return found


def _harness_options(evaluation: Evaluation, rows: Mapping[int, Sequence[Any]]) -> float | None:
    moves = {key: [row for row in question if row.variant > 0] for key, question in rows.items()}
    if evaluation.variant_set.kind not in ("answer-moving", "imported") or not all(
        row.variant <= len(row.shown)
        and tuple(row.shown) == move_to(range(len(row.shown)), row.answer, row.variant - 1)
        for moved in moves.values()
        for row in moved
    ):
        return None
    equal = pairs = 0
    for moved in moves.values():
        letters = [_mapped_back(row) for row in moved]
        equal += _equal_pairs(letters)
        pairs += len(moved) * (len(moved) - 1) // 2
    return equal / pairs if pairs else None


def _mapped_back(row: Any) -> Any:
    """Under the variant that moves the right option to position p, a letter as the harness reads it."""
    if row.chosen_position is None:
        return row.text or ""
    return row.answer if row.chosen_position in (row.answer, row.variant - 1) else row.chosen_position

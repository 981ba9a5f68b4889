"""How consistent answers are: SCORE's consistency rate."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.lookups import find_sealed
from registry.predictions.stored import require_rows
from registry.prompting.variants import move_to
from registry.scores.asked import first_answers
from registry.tables import Evaluation, Generation, Prediction, Question


def consistency_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """Return how often two answers to one question are equal: SCORE's consistency rate, as defined and as computed.

    consistency_rate: the mean over questions of the share of unordered pairs of answers that are equal in content; it
    is the metric `score`.
    printed: the same over ordered pairs, as the harness's page prints the sum, which reaches 2.
    harness: prompt consistency as the harness's program computes it, over all pairs of all questions together. It
    compares answers as texts: two answers without a label are equal if they are the same text.
    harness_options: the rate that the program computes for orders, if they are those in `answer-moving`, each shown
    once. A letter counts as the right option's original letter if it is that letter or the one to which the right
    option was moved, so two different options can be equal.

    Raises NotFoundError, and QueueError for an unsealed one.
    """
    evaluation = find_sealed(session, evaluation_id)
    rows = _answers(session, evaluation_id)
    rates = []
    equal = pairs = 0
    for question in rows.values():
        options = [row.chosen_option for row in question]
        number = len(options) * (len(options) - 1) // 2
        if number:
            rates.append(_equal_pairs([option for option in options if option is not None]) / number)
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
    """Return the text that the harness compares: the option's letter, or the whole output if it has no label."""
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
    answers: dict[int, list[Any]] = {}
    require_rows(session, evaluation_id)
    for row in session.execute(query):
        answers.setdefault(row.question_id, []).append(row)
    return answers


def _harness_options(evaluation: Evaluation, rows: Mapping[int, Sequence[Any]]) -> float | None:
    moves = {key: [row for row in question if row.variant > 0] for key, question in rows.items()}
    if (
        evaluation.variant_set.kind not in ("answer-moving", "imported")
        or (evaluation.repeats or 1) > 1
        or not all(
            row.variant <= len(row.shown)
            and tuple(row.shown) == move_to(range(len(row.shown)), row.answer, row.variant - 1)
            for moved in moves.values()
            for row in moved
        )
    ):
        return None
    equal = pairs = 0
    for moved in moves.values():
        letters = [_map_back(row) for row in moved]
        equal += _equal_pairs(letters)
        pairs += len(moved) * (len(moved) - 1) // 2
    return equal / pairs if pairs else None


def _map_back(row: Any) -> Any:
    """Read a letter as the harness does, under the variant that moves the right option to position p."""
    if row.chosen_position is None:
        return row.text or ""
    return row.answer if row.chosen_position in (row.answer, row.variant - 1) else row.chosen_position

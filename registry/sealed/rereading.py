"""Read the stored texts of a sealed evaluation by another protocol's rules; nothing is stored and no model is run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, selectinload

from registry.db import is_in
from registry.errors import ProtocolError, UsageError
from registry.lookups import find_evaluation
from registry.names import plural
from registry.predictions.prompts import list_shown, variants_of
from registry.predictions.texts import rebuild_output, storable
from registry.prompting.reading import Reading, read
from registry.prompting.thoughts import reads_apart
from registry.prompting.variants import VariantShown
from registry.proposals import propose
from registry.tables import Evaluation, Generation, Prediction, Question

CHUNK: Final = 500
"""Number of questions whose texts are in memory at once."""
LISTED: Final = 5
"""Maximum number of questions that an error lists."""

Match = Callable[[str, Sequence[str]], int]
"""(an answer in free text, option texts by position) → the position of the option that it means."""
Report = Callable[[str, int, int | None], None]
"""Called with the name of the step, the number of finished prompts, and the total if it is known."""


@dataclass(frozen=True)
class StoredReading:
    """A text's reading by another protocol. position: of the chosen option."""

    position: int | None
    state: str
    rule: str | None
    text: str | None


Readings = Mapping[tuple[int, int], StoredReading]
"""Maps the source's question id and variant to the new reading of its text."""


def read_texts(
    session: Session,
    evaluation_id: int,
    rules: Mapping[str, Any],
    question_ids: Sequence[int],
    match: Match,
    report: Report,
) -> Readings:
    """Read the text of every answer to these questions by the given rules.

    question_ids: all questions of the evaluation. Raises UsageError if a text or a thought is missing, ProtocolError if
    the rules read labels but the prompts had none.
    """
    source = find_evaluation(session, evaluation_id)
    _require_texts(session, source, rules)
    readings: dict[tuple[int, int], StoredReading] = {}
    for start in range(0, len(question_ids), CHUNK):
        ids = question_ids[start : start + CHUNK]
        rows = session.scalars(select(Question).where(is_in(Question.id, ids)).options(selectinload(Question.options)))
        questions = {row.id: row for row in rows}
        shown = {question_id: variants_of(source, question) for question_id, question in questions.items()}
        for row in session.execute(_select_texts(source.id, ids)):
            question = questions[row.question_id]
            variant = shown[row.question_id].get(row.variant)
            reading = _read_text(source, rules, question, variant, row, match)
            text = None if reading.text is None else storable(reading.text)
            stored = StoredReading(reading.position, reading.state, reading.rule, text)
            readings[row.question_id, row.variant] = stored
        session.expunge_all()  # ten thousand questions with their options would take too much memory
        source = find_evaluation(session, evaluation_id)
        report("reading", len(readings), source.prompts)
    return readings


def _select_texts(evaluation_id: int, ids: Sequence[int]) -> Select[*tuple[Any, ...]]:
    prediction, text = Prediction, Generation
    same = (
        text.evaluation_id == prediction.evaluation_id,
        text.question_id == prediction.question_id,
        text.variant == prediction.variant,
    )
    return (
        select(
            prediction.question_id,
            prediction.variant,
            prediction.shown,
            prediction.state,
            prediction.chosen_option,
            text.text,
            text.finished,
            text.forced,
            text.thought,
            text.thought_characters,
            text.thought_apart,
            text.thought_opened,
        )
        .join(text, same[0] & same[1] & same[2])
        .where(prediction.evaluation_id == evaluation_id, is_in(prediction.question_id, ids))
        .order_by(prediction.question_id, prediction.variant)
    )


def _require_texts(session: Session, source: Evaluation, rules: Mapping[str, Any]) -> None:
    """Raise UsageError unless the text of every answer is stored, with its thought if the rules read thoughts."""
    prediction, text = Prediction, Generation
    same = (
        text.evaluation_id == prediction.evaluation_id,
        text.question_id == prediction.question_id,
        text.variant == prediction.variant,
    )
    query = (
        select(Question.external_id)
        .join(prediction, prediction.question_id == Question.id)
        .outerjoin(text, same[0] & same[1] & same[2])
        .where(prediction.evaluation_id == source.id)
        .distinct()
    )
    missing = sorted(session.scalars(query.where(text.text.is_(None))))
    if missing:
        options = ("--model", "MODEL", "--benchmark", "BENCHMARK")
        raise UsageError(
            f"evaluation {source.id} lacks the texts of answers to {plural(len(missing), 'question')}, such as "
            f"{', '.join(missing[:LISTED])}, so {rules['name']} has nothing to read; only the key of such an "
            "evaluation can be changed (--benchmark), or ask the model by a protocol that writes texts: "
            f"{propose('evaluations submit', *options, '--protocol', rules['name'])}"
        )
    if reads_apart(rules):
        return
    dropped = sorted(session.scalars(query.where(text.thought.is_(None), text.thought_characters.is_not(None))))
    if dropped:
        raise UsageError(
            f"evaluation {source.id} lacks the thoughts of answers to {plural(len(dropped), 'question')}, such as "
            f"{', '.join(dropped[:LISTED])}, which {rules['name']} reads; use a protocol that reads answers alone, or "
            "keep thoughts (SHUFFLEBOARD_KEEP_THOUGHTS) and ask the model again"
        )


def _read_text(
    source: Evaluation,
    rules: Mapping[str, Any],
    question: Question,
    variant: VariantShown | None,
    row: Any,
    match: Match,
) -> Reading:
    options, labels = list_shown(source, question, variant, row)
    answers = labels if rules["answer"] == "label" else options
    if not answers:
        raise ProtocolError(
            f"evaluation {source.id} was asked by {source.protocol.name}, which shows no labels that an answer could "
            f"name, and {rules['name']} reads labels; use final-answer-text or match-dash"
        )
    state = row.state or ("unread" if row.chosen_option is None else "answered")
    reading = read(rules, rebuild_output(row, state), answers, options)
    if reading.to_match:
        assert reading.text is not None
        reading = reading.matched(match(reading.text, options))
    return reading

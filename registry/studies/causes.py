"""Why two evaluations differ: answers right in only one of them, split by the cause of the difference.

Between two evaluations, the chosen option of a prompt may differ (another model, or another reading of the same text),
and the right option may (another key). The share of each is computed from both mixed cases: the first one's answer
under the second one's key, and the other way round. If either change alone flips the answer, or only both together,
each has half of it.
"""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session, aliased

from registry.predictions.stored import filter_archived
from registry.prompting.protocols.replayed import asking_name, reading_rules
from registry.proposals import propose
from registry.tables import Evaluation, Prediction, Question
from registry.verdicts.wording import share

CAUSES: Final = ("model", "reading", "key")


@dataclass(frozen=True)
class _Split:
    """Flips between two evaluations, split by cause.

    prompts: answered in both, in the same order of options. by_answer, by_key: flips because of another chosen, or
    another right, option.
    """

    prompts: int
    flips: int
    by_answer: float
    by_key: float


def causes_of_flips(session: Session, first: Evaluation, second: Evaluation) -> dict[str, Any]:
    """Return how many answers flip between two sealed evaluations, and how many of the flips each of CAUSES explains.

    `prompts`: answered in both, in the same order of options; `flips`: right in one of them alone. `model`, `reading`
    and `key` add up to `flips`; `shares` are their parts of all flips. They are null if a cause cannot be separated
    from another one: then `undivided` names these causes and `together` is their number. `remedy` explains how to
    separate them, or the reason why nothing can be counted.
    """
    archived = filter_archived(session, [first.id, second.id])
    if archived:
        return _document(
            None, (), f"the answers are archived; restore them: {propose('evaluations restore', *archived)}"
        )
    split = _split(session, first, second)
    if not split.prompts:
        return _document(None, (), "no prompt shows the same options in the same order in both")
    if origin_of(session, first) == origin_of(session, second):
        return _document(split, ("reading",), None)
    if reading_rules(first.protocol.definition) == reading_rules(second.protocol.definition):
        return _document(split, ("model",), None)
    return _document(split, ("model", "reading"), _choose_division(first, second))


def origin_of(session: Session, evaluation: Evaluation) -> str | None:
    """Return the seal of the evaluation whose model wrote the answers, following replays back to the first."""
    seal, source = evaluation.seal, evaluation.replayed_from
    while source is not None:
        seal = source
        source = session.scalar(select(Evaluation.replayed_from).filter_by(seal=seal).limit(1))
    return seal


def _document(split: _Split | None, by_answer: tuple[str, ...], remedy: str | None) -> dict[str, Any]:
    counts: dict[str, float | None] = dict.fromkeys(CAUSES, None if split is None else 0.0)
    together = None
    if split is not None:
        counts["key"] = split.by_key
        if len(by_answer) == 1:
            counts[by_answer[0]] = split.by_answer
        else:
            counts |= dict.fromkeys(by_answer)
            together = split.by_answer
    flips = None if split is None else split.flips
    return {
        "prompts": 0 if split is None else split.prompts,
        "flips": flips,
        **counts,
        "shares": {name: value / flips if flips and value is not None else None for name, value in counts.items()},
        "undivided": list(by_answer) if len(by_answer) > 1 else [],
        "together": together,
        "remedy": remedy,
    }


def _split(session: Session, first: Evaluation, second: Evaluation) -> _Split:
    first_prediction, second_prediction, first_question, second_question = (
        aliased(Prediction),
        aliased(Prediction),
        aliased(Question),
        aliased(Question),
    )
    outcomes = {
        "before": _right(first_prediction, first_question),
        "after": _right(second_prediction, second_question),
        "answer_alone": _right(second_prediction, first_question),
        "key_alone": _right(first_prediction, second_question),
    }
    query = (
        select(*(outcome.label(name) for name, outcome in outcomes.items()), func.count().label("answers"))
        .select_from(first_prediction)
        .join(first_question, first_question.id == first_prediction.question_id)
        .join(
            second_question,
            (second_question.benchmark_version_id == second.benchmark_version_id)
            & ~second_question.few_shot
            & (second_question.external_id == first_question.external_id),
        )
        .join(
            second_prediction,
            (second_prediction.evaluation_id == second.id)
            & (second_prediction.question_id == second_question.id)
            & (second_prediction.variant == first_prediction.variant)
            & (second_prediction.shown == first_prediction.shown)
            & (second_prediction.question_shown == first_prediction.question_shown),
        )
        .where(first_prediction.evaluation_id == first.id)
        .group_by(*outcomes)
    )
    prompts = flips = 0
    by_answer = by_key = 0.0
    for row in session.execute(query):
        prompts += row.answers
        if row.before == row.after:
            continue
        flips += row.answers
        # The change takes two steps, answer first or key first; in either sequence one of the steps flips the outcome.
        steps = (row.answer_alone != row.before) + (row.key_alone == row.before)
        by_answer += row.answers * steps / 2
        by_key += row.answers * (2 - steps) / 2
    return _Split(prompts, flips, by_answer, by_key)


def _right(prediction: Any, question: Any) -> ColumnElement[int]:
    """Return 1 if an answer is right by a question's key; 0 if it is wrong, or is missing."""
    return case((prediction.chosen_option == question.answer, 1), else_=0)


def _choose_division(first: Evaluation, second: Evaluation) -> str:
    """Return advice on how to separate the model from the reading, such as by replaying one evaluation's texts."""
    names = [evaluation.protocol.name for evaluation in (first, second)]
    if asking_name(names[0]) != asking_name(names[1]):
        return (
            f"they were asked differently ({asking_name(names[0])} and {asking_name(names[1])}), so that the model, "
            "the way of asking and the reading act together; evaluations by one protocol tell them apart"
        )
    rules = reading_rules(second.protocol.definition)["name"]
    return (
        f"compare evaluation {second.id} with the first one's texts under its rules: "
        f"{propose('evaluations replay', first.id, '--protocol', rules)}"
    )


_NAMES: Final = {"model": "the model's answers", "reading": "the reading", "key": "the key"}


def describe_causes(document: dict[str, Any]) -> str | None:
    """Return the sentence that explains why answers flip; None if none does.

    document: the result of `causes_of_flips`.
    """
    flips = document["flips"]
    if flips is None:
        return f"Why answers differ cannot be counted: {document['remedy']}."
    if not flips:
        return None
    parts = [
        f"{_format_count(document[name])} because of {_NAMES[name]} ({share(document['shares'][name])})"
        for name in CAUSES
        if document[name]
    ]
    if document["together"]:
        number, together = _format_count(document["together"]), share(document["together"] / flips)
        parts.append(f"{number} because of the model's answers or the reading ({together})")
    sentence = f"{flips:,} of {document['prompts']:,} answers are right in only one of the two: {', '.join(parts)}."
    remedy = document["remedy"]
    return sentence if remedy is None else f"{sentence} To tell model and reading apart: {remedy}."


def _format_count(number: float) -> str:
    """Return a count, which may be of halves, as text."""
    return f"{number:,.1f}".removesuffix(".0")

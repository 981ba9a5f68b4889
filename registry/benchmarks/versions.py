"""Compare two versions of a benchmark: the questions that they share, and the differences."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from registry.tables import Question, QuestionOption


@dataclass(frozen=True)
class Content:
    """A question as it is stored. texts: subject, context and text. answer: the index of the right option."""

    question_id: int
    texts: tuple[str | None, ...]
    options: tuple[str, ...]
    answer: int


DIFFERENCES: Final[Mapping[str, Callable[[Content, Content], bool]]] = {
    "with another subject, context or text": lambda one, other: one.texts != other.texts,
    "with other options": lambda one, other: sorted(one.options) != sorted(other.options),
    "with options in another order": lambda one, other: one.options != other.options,
}
"""Name of a difference between two versions of a question, other than in their answers → its test."""


def contents_of(session: Session, version_id: int) -> dict[str, Content]:
    """Return the questions of a version by external id."""
    of_version = (Question.benchmark_version_id == version_id, ~Question.few_shot)
    options: dict[int, list[str]] = {}
    listed = select(QuestionOption.question_id, QuestionOption.text).join(Question).where(*of_version)
    for question_id, text in session.execute(listed.order_by(QuestionOption.question_id, QuestionOption.ordinal)):
        options.setdefault(question_id, []).append(text)
    columns = (Question.id, Question.external_id, Question.subject, Question.context, Question.text, Question.answer)
    return {
        row.external_id: Content(
            row.id, (row.subject, row.context, row.text), tuple(options.get(row.id, ())), row.answer
        )
        for row in session.execute(select(*columns).where(*of_version).order_by(Question.ordinal))
    }


def examples_of(session: Session, version_id: int) -> list[tuple[Any, ...]]:
    """Return the few-shot pool of a version, in its order."""
    query = select(Question).where(Question.benchmark_version_id == version_id, Question.few_shot)
    return [
        (row.subject, row.context, row.text, row.answer, [option.text for option in row.options])
        for row in session.scalars(query.order_by(Question.ordinal).options(selectinload(Question.options)))
    ]

"""Questions as an evaluation asks them: in how many variants, and in how many of them now."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from registry.errors import ProtocolError, VariantError
from registry.prompting.variants import QuestionShape, VariantSetDefinition
from registry.tables import Question


@dataclass(frozen=True)
class PlannedQuestion:
    """A question of an evaluation with its number of variants. asked_now: in how many of them a shard asks it."""

    question_id: int
    subject: str | None
    n_options: int
    n_variants: int
    asked_now: int


def plan_questions(
    questions: Iterable[Question], definition: VariantSetDefinition, labels: Sequence[str] | None
) -> tuple[list[PlannedQuestion], dict[int, dict[int, str]]]:
    """Each question's number of variants, and the variants' names by number of options and ordinal.

    labels: the protocol's; None where it names options by their texts alone.
    """
    planned: list[PlannedQuestion] = []
    names: dict[int, dict[int, str]] = {}
    for question in questions:
        if labels is not None and question.n_options > len(labels):
            raise ProtocolError(
                f"question {question.external_id} has {question.n_options} options; the protocol has {len(labels)} "
                "labels"
            )
        shape = QuestionShape(question.external_id, question.n_options, question.answer)
        variants = definition.variants(shape)
        if question.n_options not in names:
            names[question.n_options] = definition.names(shape)
        planned.append(PlannedQuestion(question.id, question.subject, question.n_options, len(variants), len(variants)))
    return planned, names


def require_sample(
    definition: VariantSetDefinition, planned: Sequence[PlannedQuestion], names: Mapping[int, Mapping[int, str]]
) -> None:
    """Refuses a sample of the cells that is all of them for every question.

    planned, names: of `plan_questions`. Raises VariantError.
    """
    if definition.sample is None or any(item.n_variants < len(names[item.n_options]) for item in planned):
        return
    most = max((item.n_variants for item in planned), default=0)
    raise VariantError(
        f"variants {definition.name!r}: no question has more than {most} cells, so all of them would be asked and "
        "nothing sampled; ask for fewer, or leave out the sample"
    )

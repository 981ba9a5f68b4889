"""Answers to the variants that leave the question out, made from log-probabilities without the question.

Under `choice-only` and `adversarial` every variant has such a counterpart, for which a file need not contain a line.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from registry.errors import VariantError
from registry.logs.record import KnownQuestion, Recorded
from registry.prompting.variants import QuestionShape, VariantSetDefinition

Reader = Callable[[], Iterator[Recorded]]


def with_counterparts(reader: Reader, definition: VariantSetDefinition) -> Reader:
    """Return a reader that adds each line's counterpart, if the kind has one and no line of the file contains it."""
    if definition.kind == "imported":
        return reader

    def read() -> Iterator[Recorded]:
        present: set[tuple[int, int]] | None = None
        known: dict[int, dict[int, int]] = {}
        for recorded in reader():
            yield recorded
            without = recorded.logprobs_without_question
            if without is None:
                continue
            question = recorded.question
            if question.question_id not in known:
                known[question.question_id] = _find_counterparts(definition, question)
            ordinal = known[question.question_id].get(recorded.variant)
            if ordinal is None:
                continue
            if present is None:
                present = {(other.question.question_id, other.variant) for other in reader()}
            if (question.question_id, ordinal) not in present:
                present.add((question.question_id, ordinal))
                yield replace(
                    recorded,
                    variant=ordinal,
                    answered=False,
                    position=None,
                    weights=None,
                    logprobs=without,
                    logprobs_without_question=None,
                    text=None,
                    stated=None,
                    excuse=None,
                )

    return read


def _find_counterparts(definition: VariantSetDefinition, question: KnownQuestion) -> dict[int, int]:
    """Map each variant that shows the question to the ordinal of the same variant without the question."""
    try:
        variants = definition.variants(QuestionShape(question.external_id, len(question.options), question.answer))
    except VariantError:  # the check of the line's variant reports it
        return {}
    without = {variant.with_question(): variant.ordinal for variant in variants if not variant.question_shown}
    return {
        variant.ordinal: without[variant.with_question()]
        for variant in variants
        if variant.question_shown and variant.with_question() in without
    }

"""Question + variant + protocol → the exact text a model is shown.

Pure: the same arguments give the same prompt, whose SHA-256 is stored with each prediction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry.digests import sha256_text
from registry.errors import ProtocolError
from registry.variants import VariantShown


@dataclass(frozen=True)
class QuestionText:
    """The texts of a question or few-shot example. `answer` is an option ordinal."""

    external_id: str
    subject: str | None
    context: str | None
    text: str
    options: tuple[str, ...]
    answer: int


@dataclass(frozen=True)
class Prompt:
    """What is shown (`text`) and the continuation that stands for each position (`continuations[p]`)."""

    text: str
    continuations: tuple[str, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over the text and its continuations."""
        return sha256_text("\x00".join((self.text, *self.continuations)))


def few_shot_examples(pool: Sequence[QuestionText], subject: str | None, shots: int) -> tuple[QuestionText, ...]:
    """The first `shots` examples of the question's subject in file order, else of the whole pool.

    Raises ProtocolError when the pool is too small.
    """
    if shots == 0:
        return ()
    of_subject = [example for example in pool if example.subject == subject]
    source = of_subject if len(of_subject) >= shots else pool
    if len(source) < shots:
        raise ProtocolError(
            f"{shots} shots asked for, but the benchmark's few-shot pool holds {len(pool)} examples; import it with "
            "--fewshot FILE or ask for fewer"
        )
    return tuple(source[:shots])


def build_prompt(
    definition: Mapping[str, Any],
    question: QuestionText,
    variant: VariantShown,
    examples: Sequence[QuestionText] = (),
    inserted: Mapping[int, str] | None = None,
) -> Prompt:
    """The prompt of one question under one variant.

    definition: a protocol's definition. inserted: text of each inserted (negative) option.
    Raises ProtocolError when the protocol has too few labels for the question.
    """
    shown = [question.options[option] if option >= 0 else (inserted or {})[option] for option in variant.order]
    blocks = [_header(definition, question.subject)]
    for example in examples:
        cue = _block(definition, example.text, example.context, example.options, example.external_id)
        blocks.append(cue + definition["continuation"].format(label=definition["labels"][example.answer]))
    text, context = (question.text, question.context) if variant.question_shown else ("", None)
    blocks.append(_block(definition, text, context, shown, question.external_id))
    continuations = tuple(
        definition["continuation"].format(label=definition["labels"][position]) for position in range(len(shown))
    )
    return Prompt("\n\n".join(blocks), continuations)


def _header(definition: Mapping[str, Any], subject: str | None) -> str:
    if subject is None:
        return str(definition["header_without_subject"])
    return str(definition["header"]).format(subject=subject.replace("_", " "))


def _block(
    definition: Mapping[str, Any], text: str, context: str | None, options: Sequence[str], external_id: str
) -> str:
    """Passage, question, labelled options and the cue, one a line."""
    labels = definition["labels"]
    if len(options) > len(labels):
        raise ProtocolError(f"question {external_id} has {len(options)} options but {len(labels)} labels; use others")
    lines = [] if context is None else [context]
    lines.append(text)
    lines += [
        definition["option"].format(label=label, option=option) for label, option in zip(labels, options, strict=False)
    ]
    return "\n".join([*lines, definition["cue"]])

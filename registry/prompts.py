"""Question + variant + protocol → the exact text a model is shown.

Pure: the same arguments give the same prompt, whose SHA-256 is stored with each prediction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry.digests import sha256_text
from registry.errors import ProtocolError
from registry.labels import LABEL_SCHEMES, scheme_labels
from registry.variants import VariantShown, move_to


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
        order = _example_order(example, variant.examples_position)
        options = [example.options[option] for option in order]
        labels, template = _labels(definition, variant.labels, len(options), example.external_id)
        cue = _block(definition, example.text, example.context, options, labels, template)
        blocks.append(cue + definition["continuation"].format(label=labels[order.index(example.answer)]))
    text, context = (question.text, question.context) if variant.question_shown else ("", None)
    labels, template = _labels(definition, variant.labels, len(shown), question.external_id)
    blocks.append(_block(definition, text, context, shown, labels, template))
    return Prompt("\n\n".join(blocks), tuple(definition["continuation"].format(label=label) for label in labels))


def _example_order(example: QuestionText, position: int | None) -> tuple[int, ...]:
    """The order of an example's options: its own, or with the right one at `position` where it has one."""
    identity = tuple(range(len(example.options)))
    if position is None or position >= len(identity):
        return identity
    return move_to(identity, example.answer, position)


def _labels(
    definition: Mapping[str, Any], scheme: str | None, n_shown: int, external_id: str
) -> tuple[Sequence[str], str]:
    """(labels by position, how a labelled option is written): the protocol's own, or those of a scheme."""
    what = f"question {external_id}"
    if scheme is not None:
        labels, template = scheme_labels(scheme, n_shown, what)
        if LABEL_SCHEMES[scheme].uniform:
            raise ProtocolError(f"labels {scheme!r} are the same for every option; {definition['name']} needs distinct")
        return labels, template
    if n_shown > len(definition["labels"]):
        raise ProtocolError(f"{what} has {n_shown} options but the protocol has {len(definition['labels'])} labels")
    return definition["labels"][:n_shown], definition["option"]


def _header(definition: Mapping[str, Any], subject: str | None) -> str:
    if subject is None:
        return str(definition["header_without_subject"])
    return str(definition["header"]).format(subject=subject.replace("_", " "))


def _block(
    definition: Mapping[str, Any],
    text: str,
    context: str | None,
    options: Sequence[str],
    labels: Sequence[str],
    template: str,
) -> str:
    """Passage, question, labelled options and the cue, one a line."""
    lines = [] if context is None else [context]
    lines.append(text)
    lines += [template.format(label=label, option=option) for label, option in zip(labels, options, strict=True)]
    return "\n".join([*lines, definition["cue"]])

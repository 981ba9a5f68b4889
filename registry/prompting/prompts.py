"""Build the exact text that a model is shown from a question, a variant and a protocol.

The functions are pure: the same arguments give the same prompt, whose SHA-256 is stored with each prediction.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from registry.digests import sha256_text
from registry.errors import ProtocolError
from registry.prompting.labels import LABEL_SCHEMES, LETTERS, scheme_labels
from registry.prompting.templates import ANSWER_FORMATS, UNLABELLED_FORMATS, Template
from registry.prompting.variants import QuestionShape, VariantSetDefinition, VariantShown, move_to

if TYPE_CHECKING:
    from registry.tables import Question


@dataclass(frozen=True)
class QuestionText:
    """The texts of a question or a few-shot example. answer: ordinal of the right option."""

    external_id: str
    subject: str | None
    context: str | None
    text: str
    options: tuple[str, ...]
    answer: int


def question_text(question: "Question") -> QuestionText:
    """Convert a stored question for the prompt builder."""
    return QuestionText(
        question.external_id,
        question.subject,
        question.context,
        question.text,
        tuple(option.text for option in question.options),
        question.answer,
    )


def question_shape(question: "Question") -> QuestionShape:
    """Return the parts of a stored question on which its variants depend."""
    return QuestionShape(question.external_id, question.n_options, question.answer)


@dataclass(frozen=True)
class Message:
    """One turn of a conversation. role: `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True)
class Prompt:
    """A prompt (`text`), with the continuations to score after it or the answers to compare an output with.

    continuations: the text for each position, in protocols that score; else empty.
    answers: the label or option text of each position, in protocols that generate; else empty.
    options: the option text of each position as shown, in protocols that generate; else empty.
    messages: with a chat template, the turns to which the model's own template is applied; else None. A final
    `assistant` turn is left open. `text` then contains the turns in a form for people.
    """

    text: str
    continuations: tuple[str, ...]
    answers: tuple[str, ...] = ()
    messages: tuple[Message, ...] | None = None
    options: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Return the SHA-256 over the text, or the turns, and the continuations; the text determines the answers.

        The model's template, which turns messages into text, is part of the model's identity instead.
        """
        shown = self.text
        if self.messages is not None:
            shown = json.dumps([[turn.role, turn.content] for turn in self.messages], ensure_ascii=False)
        return sha256_text("\x00".join((shown, *self.continuations)))


def few_shot_examples(pool: Sequence[QuestionText], subject: str | None, shots: int) -> tuple[QuestionText, ...]:
    """Return the first `shots` examples in file order: of the question's subject if it has enough, else of the pool.

    Raises ProtocolError if the pool is too small.
    """
    if shots == 0:
        return ()
    same_subject = [example for example in pool if example.subject == subject]
    source = same_subject if len(same_subject) >= shots else pool
    if len(source) < shots:
        raise ProtocolError(
            f"{shots} shots requested, but the benchmark's few-shot pool has {len(pool)} examples; import it with "
            "--fewshot FILE or request fewer"
        )
    return tuple(source[:shots])


class PromptKeys:
    """Numbers for the distinct prompts of one question, from 0 in the order of its variants.

    A different order, inserted option, label or wording makes a different prompt. Different examples do not, nor does a
    different order or choice of options if the protocol does not list them.
    """

    def __init__(self, definition: VariantSetDefinition, question: QuestionShape, *, lists_options: bool) -> None:
        self.variants = definition.variants(question) if definition.kind != "imported" else []
        self._by_ordinal = {variant.ordinal: variant for variant in self.variants}
        self._lists_options = lists_options
        self._numbers: dict[Any, int] = {}
        self.first_recorded = 1 + max(map(self.of, self.variants), default=-1)
        """The first number for recorded orders that no variant has."""

    @property
    def distinct(self) -> int:
        """Return the number of distinct prompts that show the question."""
        return len({self.of(variant) for variant in self.variants if variant.question_shown})

    def of(self, variant: VariantShown) -> int:
        """Return the number of a variant's prompt."""
        order = variant.order if self._lists_options else ()
        prompt = (variant.question_shown, variant.labels, variant.template)
        # There can be a million recorded orders, so the common part is not stored with each.
        key = order if prompt == (True, None, None) else (order, prompt)
        return self._numbers.setdefault(key, len(self._numbers))

    def recorded(self, ordinal: int, order: tuple[int, ...]) -> VariantShown:
        """Return the variant of a recorded answer: the variant with this ordinal, but in the recorded order."""
        variant = self._by_ordinal.get(ordinal)
        if variant is None:
            return VariantShown(ordinal, "", order)
        # Copying takes as long as parsing a line, and is needed only for drawn orders.
        return variant if variant.order == order else replace(variant, order=order)


def labels_shown(
    definition: Mapping[str, Any], variant: VariantShown, n_shown: int, external_id: str
) -> tuple[str, ...] | None:
    """Return the labels by which answers can name the options, by position; None if the prompts have no labels.

    The prompts of `recorded` answers are unknown; they are assumed to have had letters.
    """
    if definition["format"] == "recorded":
        return tuple(LETTERS[:n_shown])
    if "labels" not in definition:
        return None
    labelled = _choose_labels(definition, variant, n_shown, external_id)
    if definition.get("answer") == "label" or "{label}" in definition["continuation"]:
        return labelled.answers
    return labelled.shown if "{label}" in (labelled.option or "") else None


def build_prompt(
    definition: Mapping[str, Any],
    question: QuestionText,
    variant: VariantShown,
    examples: Sequence[QuestionText] = (),
    inserted: Mapping[int, str] | None = None,
) -> Prompt:
    """Build the prompt of one question under one variant.

    definition: a protocol's definition. inserted: text of each inserted (negative) option.
    Raises ProtocolError if the protocol has too few labels for the question, cannot be answered with the variant's
    labels, does not list the options that the variant's wording mentions, or is `recorded`.
    """
    if definition["format"] == "recorded":
        raise ProtocolError(
            f"protocol {definition['name']} makes no prompts: it says that nobody knows how recorded answers were "
            "asked; use another, such as symbols"
        )
    shown = [question.options[option] if option >= 0 else (inserted or {})[option] for option in variant.order]
    labelled = _choose_labels(definition, variant, len(shown), question.external_id)
    definition = _apply_wording(definition, variant.template, question.subject, labelled)
    instruction = _format_instruction(definition, question.subject, labelled)
    answered: list[tuple[str, str]] = []
    for example in examples:
        order = _choose_example_order(example, variant.examples_position)
        options = [example.options[option] for option in order]
        example_labels = _choose_labels(definition, variant, len(options), example.external_id)
        block = _format_question(definition, example.text, example.context, options, example_labels)
        right = order.index(example.answer)
        answered.append((block, _format_continuation(definition, example_labels.answers[right], options[right])))
    text, context = (question.text, question.context) if variant.question_shown else ("", None)
    last = _format_question(definition, text, context, shown, labelled)
    answers: tuple[str, ...] = ()
    options_shown: tuple[str, ...] = ()
    continuations: tuple[str, ...] = ()
    if "answer" in definition:
        options_shown = tuple(shown)
        answers = labelled.answers if definition["answer"] == "label" else tuple(shown)
    else:
        pairs = zip(labelled.answers, shown, strict=True)
        continuations = tuple(_format_continuation(definition, label, option) for label, option in pairs)
    if definition["chat_template"]:
        messages = _build_messages(definition, instruction, answered, last)
        written = "\n\n".join(f"[{turn.role}]\n{turn.content}" for turn in messages)
        return Prompt(written, continuations, answers, messages, options_shown)
    blocks = [*([] if instruction is None else [instruction]), *(block + answer for block, answer in answered), last]
    return Prompt("\n\n".join(blocks), continuations, answers, options=options_shown)


def _build_messages(
    definition: Mapping[str, Any], instruction: str | None, answered: Sequence[tuple[str, str]], last: str
) -> tuple[Message, ...]:
    """Return the turns of a chat: instruction, then question and answer for each example, then the question.

    In protocols that score, the scored text follows the cue, so the cue begins the assistant's turns. In protocols that
    generate, the cue ends the user's turn, and the model writes the assistant's last turn.
    """
    cue = definition["cue"] if "answer" not in definition else ""

    def user_message(block: str) -> Message:
        return Message("user", block.removesuffix(cue).removesuffix("\n") if cue else block)

    turns = [] if instruction is None else [Message("system", instruction)]
    for block, answer in answered:
        turns += [user_message(block), Message("assistant", cue + answer if cue else answer.lstrip(" "))]
    turns.append(user_message(last))
    return (*turns, Message("assistant", cue)) if cue else tuple(turns)


def _format_continuation(definition: Mapping[str, Any], label: str, option: str) -> str:
    return str(definition["continuation"]).format(label=label, option=option)


def _choose_example_order(example: QuestionText, position: int | None) -> tuple[int, ...]:
    """Return the order of an example's options: its own, or with the right option at `position` if there is one."""
    identity = tuple(range(len(example.options)))
    if position is None or position >= len(identity):
        return identity
    return move_to(identity, example.answer, position)


@dataclass(frozen=True)
class _Labels:
    """The labels of options and answers, by position.

    shown: the labels before the options. answers: the labels in an answer, which differ if options have dashes and a
    protocol counts their positions. option: the template of an option's line; None lists no options.
    """

    shown: tuple[str, ...]
    answers: tuple[str, ...]
    option: str | None

    @property
    def word(self) -> str:
        """Return the word by which an instruction calls the labels."""
        return "letter" if all(_LETTER.fullmatch(label) for label in self.answers) else "label"


_LETTER: Final = re.compile(r"\(?[A-Za-z]\)?")


def _choose_labels(definition: Mapping[str, Any], variant: VariantShown, n_shown: int, external_id: str) -> _Labels:
    """Return the labels of the variant's scheme, or else the protocol's own, and the template of an option."""
    scheme = variant.labels
    what, name = f"question {external_id}", definition["name"]
    if "labels" not in definition:
        if scheme is not None:
            raise ProtocolError(
                f"labels {scheme!r}: {name} does not list the options, so they have no labels; use hybrid"
            )
        if variant.template is not None:
            raise ProtocolError(
                f"wording {variant.template.name!r}: {name} does not list the options that it speaks of; use hybrid"
            )
        return _Labels(("",) * n_shown, ("",) * n_shown, None)
    if n_shown > len(definition["labels"]):
        raise ProtocolError(f"{what} has {n_shown} options but the protocol has {len(definition['labels'])} labels")
    own_labels = tuple(definition["labels"][:n_shown])
    if scheme is None:
        option = definition["option"]
        if variant.template is not None:
            formats = ANSWER_FORMATS if "{label}" in option else UNLABELLED_FORMATS
            option = formats[variant.template.seed] or option
        return _Labels(own_labels, own_labels, option)
    labels, template = scheme_labels(scheme, n_shown, what)
    by_label = "{label}" in definition["continuation"]
    if by_label and "{label}" not in definition["option"]:
        return _Labels(labels, own_labels, template)
    if by_label and LABEL_SCHEMES[scheme].uniform:
        raise ProtocolError(f"labels {scheme!r} are the same for every option; {name} needs distinct labels")
    if definition["format"] == "first-letter" and any(len(re.findall(r"[^\W_]", label)) != 1 for label in labels):
        raise ProtocolError(
            f"labels {scheme!r}: {name} reads one letter or digit, and not all of these have exactly one"
        )
    return _Labels(labels, labels, template)


_TASK: Final = "Answer the multiple choice question."
"""The task in the presets' instructions, which precedes the form of the answer."""


def _apply_wording(
    definition: Mapping[str, Any], template: Template | None, subject: str | None, labelled: _Labels
) -> Mapping[str, Any]:
    """Return the definition with its task in the words of a template; the form of the answer is unchanged."""
    if template is None:
        return definition
    by_label = definition.get("answer") == "label" or "{label}" in definition["continuation"]
    named = by_label and len(set(labelled.answers)) == len(labelled.answers)
    options = f"options {labelled.answers[0]} to {labelled.answers[-1]}" if named else "options"
    if subject is None:
        task = (template.task_without_subject or template.task).format(options=options, subject="")
    else:
        task = template.task.format(options=options, subject=subject.replace("_", " "))
    sentences = [task]
    if "instruction" in definition:
        if template.reasoning and definition["format"] != "first-letter":
            sentences.append(template.reasoning.format())
        answer_form = str(definition["instruction"]).format(label_word=labelled.word).removeprefix(_TASK).strip()
        sentences += [answer_form] if answer_form else []
    words = " ".join(sentences)
    before = template.place == "before"
    return {
        **{key: value for key, value in definition.items() if key not in ("header", "header_without_subject")},
        "instruction": _escape(words) if before else None,
        "closing": None if before else words,
        "question": template.question,
    }


def _escape(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _format_instruction(definition: Mapping[str, Any], subject: str | None, labelled: _Labels) -> str | None:
    """Return the text before the examples and the question; None if there is none."""
    if "instruction" in definition:
        words = definition["instruction"]
        return None if words is None else str(words).format(label_word=labelled.word)
    if "header" not in definition:
        return None
    if subject is None:
        return str(definition["header_without_subject"])
    return str(definition["header"]).format(subject=subject.replace("_", " "))


def _format_question(
    definition: Mapping[str, Any], text: str, context: str | None, options: Sequence[str], labelled: _Labels
) -> str:
    """Return passage, question, options, the closing text of a wording and the cue, each on a line."""
    lines = [] if context is None else [context]
    lines.append(str(definition.get("question", "{question}")).format(question=text))
    if "options_heading" in definition:
        lines.append(definition["options_heading"])
    if labelled.option is not None:
        pairs = zip(labelled.shown, options, strict=True)
        lines += [labelled.option.format(label=label, option=option) for label, option in pairs]
    if definition.get("closing"):
        lines.append(definition["closing"])
    if definition["cue"]:
        lines.append(definition["cue"])
    return "\n".join(lines)

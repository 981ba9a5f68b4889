"""Question + variant + protocol → the exact text a model is shown.

Pure: the same arguments give the same prompt, whose SHA-256 is stored with each prediction.
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
    """The texts of a question or few-shot example. `answer` is an option ordinal."""

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
    """Return the part of a stored question that its variants depend on."""
    return QuestionShape(question.external_id, question.n_options, question.answer)


@dataclass(frozen=True)
class Message:
    """One turn of a conversation; role: `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True)
class Prompt:
    """The prompt (`text`), with the continuations to score after it or the answers to compare a text with.

    continuations: the text for each position, in protocols that score; else empty.
    answers: the label or option text of each position, in protocols that generate; else empty.
    options: the option text of each position as shown, in protocols that generate; else empty.
    messages: with a chat template, the turns for the model's own template; None without. An `assistant` turn at the end
    is left open. `text` is then the turns for people to read.
    """

    text: str
    continuations: tuple[str, ...]
    answers: tuple[str, ...] = ()
    messages: tuple[Message, ...] | None = None
    options: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Return the SHA-256 over the text, or the turns, and the continuations; answers follow from the text.

        How a model's template writes the turns down belongs to the model's identity.
        """
        shown = self.text
        if self.messages is not None:
            shown = json.dumps([[turn.role, turn.content] for turn in self.messages], ensure_ascii=False)
        return sha256_text("\x00".join((shown, *self.continuations)))


def few_shot_examples(pool: Sequence[QuestionText], subject: str | None, shots: int) -> tuple[QuestionText, ...]:
    """Return the first `shots` examples of the question's subject in file order, else of the whole pool.

    Raises ProtocolError if the pool is too small.
    """
    if shots == 0:
        return ()
    of_subject = [example for example in pool if example.subject == subject]
    source = of_subject if len(of_subject) >= shots else pool
    if len(source) < shots:
        raise ProtocolError(
            f"{shots} shots requested, but the benchmark's few-shot pool has {len(pool)} examples; import it with "
            "--fewshot FILE or request fewer"
        )
    return tuple(source[:shots])


class PromptKeys:
    """Numbers the distinct prompts of one question, from 0 in the order of its variants.

    Another order, inserted option, label or wording makes another prompt. Other examples do not, nor does another
    order or choice of options that the protocol does not list.
    """

    def __init__(self, definition: VariantSetDefinition, question: QuestionShape, *, lists_options: bool) -> None:
        self.variants = definition.variants(question) if definition.kind != "imported" else []
        self._by_ordinal = {variant.ordinal: variant for variant in self.variants}
        self._lists_options = lists_options
        self._numbers: dict[Any, int] = {}
        self.first_recorded = 1 + max(map(self.of, self.variants), default=-1)
        """The first number of an order that somebody recorded and that is no variant's."""

    @property
    def distinct(self) -> int:
        """Return the number of different prompts that show the question."""
        return len({self.of(variant) for variant in self.variants if variant.question_shown})

    def of(self, variant: VariantShown) -> int:
        """Return the number of a variant's prompt."""
        order = variant.order if self._lists_options else ()
        prompt = (variant.question_shown, variant.labels, variant.template)
        # Recorded orders can be a million: their common part is not stored with each.
        key = order if prompt == (True, None, None) else (order, prompt)
        return self._numbers.setdefault(key, len(self._numbers))

    def recorded(self, ordinal: int, order: tuple[int, ...]) -> VariantShown:
        """Return the variant of a recorded answer: in its recorded order, with all other changes of its kind."""
        variant = self._by_ordinal.get(ordinal)
        if variant is None:
            return VariantShown(ordinal, "", order)
        # Copying costs as much as parsing a line, and only drawn orders need it.
        return variant if variant.order == order else replace(variant, order=order)


def labels_shown(
    definition: Mapping[str, Any], variant: VariantShown, n_shown: int, external_id: str
) -> tuple[str, ...] | None:
    """Return the labels by which an answer can name the options, by position; None if a protocol's prompts have none.

    The prompts of `recorded` answers are unknown: they are taken to have had letters.
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
    Raises ProtocolError when the protocol has too few labels for the question, when the variant's labels give it
    nothing to answer with, when it does not list the options that the variant's words speak of, or for `recorded`.
    """
    if definition["format"] == "recorded":
        raise ProtocolError(
            f"protocol {definition['name']} makes no prompts: it says that nobody knows how recorded answers were "
            "asked; use another, such as symbols"
        )
    shown = [question.options[option] if option >= 0 else (inserted or {})[option] for option in variant.order]
    labelled = _choose_labels(definition, variant, len(shown), question.external_id)
    definition = _apply_wording(definition, variant.template, question.subject, labelled)
    instruction = _instruction(definition, question.subject, labelled)
    answered: list[tuple[str, str]] = []
    for example in examples:
        order = _example_order(example, variant.examples_position)
        options = [example.options[option] for option in order]
        of_example = _choose_labels(definition, variant, len(options), example.external_id)
        block = _block(definition, example.text, example.context, options, of_example)
        right = order.index(example.answer)
        answered.append((block, _continuation(definition, of_example.answers[right], options[right])))
    text, context = (question.text, question.context) if variant.question_shown else ("", None)
    last = _block(definition, text, context, shown, labelled)
    answers: tuple[str, ...] = ()
    options_shown: tuple[str, ...] = ()
    continuations: tuple[str, ...] = ()
    if "answer" in definition:
        options_shown = tuple(shown)
        answers = labelled.answers if definition["answer"] == "label" else tuple(shown)
    else:
        pairs = zip(labelled.answers, shown, strict=True)
        continuations = tuple(_continuation(definition, label, option) for label, option in pairs)
    if definition["chat_template"]:
        messages = _messages(definition, instruction, answered, last)
        written = "\n\n".join(f"[{turn.role}]\n{turn.content}" for turn in messages)
        return Prompt(written, continuations, answers, messages, options_shown)
    blocks = [*([] if instruction is None else [instruction]), *(block + answer for block, answer in answered), last]
    return Prompt("\n\n".join(blocks), continuations, answers, options=options_shown)


def _messages(
    definition: Mapping[str, Any], instruction: str | None, answered: Sequence[tuple[str, str]], last: str
) -> tuple[Message, ...]:
    """Return the turns of a chat: instruction, then question and answer for each example, then the question.

    Scored text follows the cue, so in protocols that score, the cue opens the assistant's turns. In protocols that
    generate, it ends the user's turn, and the assistant's last turn is left to the model.
    """
    cue = definition["cue"] if "answer" not in definition else ""

    def user_message(block: str) -> Message:
        return Message("user", block.removesuffix(cue).removesuffix("\n") if cue else block)

    turns = [] if instruction is None else [Message("system", instruction)]
    for block, answer in answered:
        turns += [user_message(block), Message("assistant", cue + answer if cue else answer.lstrip(" "))]
    turns.append(user_message(last))
    return (*turns, Message("assistant", cue)) if cue else tuple(turns)


def _continuation(definition: Mapping[str, Any], label: str, option: str) -> str:
    return str(definition["continuation"]).format(label=label, option=option)


def _example_order(example: QuestionText, position: int | None) -> tuple[int, ...]:
    """Return the order of an example's options: its own, or with the right one at `position` if it has that many."""
    identity = tuple(range(len(example.options)))
    if position is None or position >= len(identity):
        return identity
    return move_to(identity, example.answer, position)


@dataclass(frozen=True)
class _Labelled:
    """The labels of options and answers, by position.

    shown: the labels before the options. answers: the labels in an answer, which differ if a protocol counts positions
    under dashes. option: the template of a line; None lists no options.
    """

    shown: tuple[str, ...]
    answers: tuple[str, ...]
    option: str | None

    @property
    def word(self) -> str:
        """Return an instruction's word for the labels."""
        return "letter" if all(_LETTER.fullmatch(label) for label in self.answers) else "label"


_LETTER: Final = re.compile(r"\(?[A-Za-z]\)?")


def _choose_labels(definition: Mapping[str, Any], variant: VariantShown, n_shown: int, external_id: str) -> _Labelled:
    """Return the protocol's own labels, or a scheme's labels in their place, and the template of options."""
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
        return _Labelled(("",) * n_shown, ("",) * n_shown, None)
    if n_shown > len(definition["labels"]):
        raise ProtocolError(f"{what} has {n_shown} options but the protocol has {len(definition['labels'])} labels")
    own = tuple(definition["labels"][:n_shown])
    if scheme is None:
        option = definition["option"]
        if variant.template is not None:
            formats = ANSWER_FORMATS if "{label}" in option else UNLABELLED_FORMATS
            option = formats[variant.template.seed] or option
        return _Labelled(own, own, option)
    labels, template = scheme_labels(scheme, n_shown, what)
    by_label = "{label}" in definition["continuation"]
    if by_label and "{label}" not in definition["option"]:
        return _Labelled(labels, own, template)
    if by_label and LABEL_SCHEMES[scheme].uniform:
        raise ProtocolError(f"labels {scheme!r} are the same for every option; {name} needs distinct labels")
    if definition["format"] == "first-letter" and any(len(re.findall(r"[^\W_]", label)) != 1 for label in labels):
        raise ProtocolError(
            f"labels {scheme!r}: {name} reads one letter or digit, and not all of these have exactly one"
        )
    return _Labelled(labels, labels, template)


_TASK: Final = "Answer the multiple choice question."
"""The task in the presets' instructions, before the form of the answer."""


def _apply_wording(
    definition: Mapping[str, Any], template: Template | None, subject: str | None, labelled: _Labelled
) -> Mapping[str, Any]:
    """Return the definition with its task in a template's words; its form of the answer stays."""
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
        how = str(definition["instruction"]).format(label_word=labelled.word).removeprefix(_TASK).strip()
        sentences += [how] if how else []
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


def _instruction(definition: Mapping[str, Any], subject: str | None, labelled: _Labelled) -> str | None:
    """Return the text before examples and question; None if a protocol has none."""
    if "instruction" in definition:
        words = definition["instruction"]
        return None if words is None else str(words).format(label_word=labelled.word)
    if "header" not in definition:
        return None
    if subject is None:
        return str(definition["header_without_subject"])
    return str(definition["header"]).format(subject=subject.replace("_", " "))


def _block(
    definition: Mapping[str, Any], text: str, context: str | None, options: Sequence[str], labelled: _Labelled
) -> str:
    """Return passage, question, options, a wording's text after them, and the cue, one a line."""
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

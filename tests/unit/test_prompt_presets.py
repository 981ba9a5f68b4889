"""The exact text of every preset: alone, with examples, a passage or other labels, and without the question."""

import pytest

from registry.errors import ProtocolError
from registry.prompting.prompts import Prompt, QuestionText, build_prompt
from registry.prompting.protocols.presets import PRESETS
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.variants import QuestionShape, VariantShown, parse_variants

QUESTION = QuestionText("q1", "high_school_physics", None, "What falls?", ("a stone", "a cloud", "light"), 0)
WITH_PASSAGE = QuestionText("q2", None, "A stone is heavy.", "What falls?", ("a stone", "a cloud", "light"), 0)
EXAMPLES = (
    QuestionText("e1", "high_school_physics", None, "What floats?", ("wood", "iron"), 0),
    QuestionText("e2", "high_school_physics", "Ice is lighter than water.", "What sinks?", ("ice", "iron", "oil"), 1),
)
IDENTITY = VariantShown(0, "original", (0, 1, 2))
HIDDEN = VariantShown(1, "without the question", (0, 1, 2), question_shown=False)

HEADER = "The following are multiple choice questions (with answers) about high school physics."
FIRST_LETTER = (
    "Answer the multiple choice question. Write the letter of the right option alone on the first line, and explain "
    "your choice after it."
)
SELECT_LETTER = (
    "Answer the multiple choice question. Reason briefly, and end with a sentence "
    '"The answer is X", where X is the letter of the option you choose.'
)
SELECT_DASH = (
    "Answer the multiple choice question. Reason briefly, and end with a sentence "
    '"The answer is X", where X is the letter of the position of the option you choose, counted from the top: '
    "A for the first option, B for the second, and so on."
)
MATCH = (
    "Answer the multiple choice question. Reason briefly, and end with a sentence "
    '"The answer is X", where X is the full text of the option you choose. Give that text word for word, as it stands '
    "among the options. Letters and other labels are not accepted."
)


def prompt(
    name: str, question: QuestionText = QUESTION, variant: VariantShown = IDENTITY, shots: int = 0, **inserted: str
) -> Prompt:
    return build_prompt(protocol_definition(name, shots), question, variant, EXAMPLES[:shots])


def prompt_under(name: str, variants: str, ordinal: int, shots: int = 0, question: QuestionText = QUESTION) -> Prompt:
    """Return the prompt of a variant of a kind."""
    definition = parse_variants(variants)
    shape = QuestionShape(question.external_id, len(question.options), question.answer)
    (shown,) = [variant for variant in definition.variants(shape) if variant.ordinal == ordinal]
    return build_prompt(
        protocol_definition(name, shots), question, shown, EXAMPLES[:shots], inserted=definition.inserted()
    )


LETTERED = "What falls?\nA. a stone\nB. a cloud\nC. light\nAnswer:"
QUESTION_LETTERED = "Question: What falls?\nOptions:\nA. a stone\nB. a cloud\nC. light\nAnswer:"
QUESTION_DASHED = "Question: What falls?\nOptions:\n- a stone\n- a cloud\n- light\nAnswer:"

ALONE = {
    "symbols": f"{HEADER}\n\n{LETTERED}",
    "hybrid": f"{HEADER}\n\n{LETTERED}",
    "cloze": "Question: What falls?\nAnswer:",
    "first-letter": f"{FIRST_LETTER}\n\n{LETTERED}",
    "select-letter": f"{SELECT_LETTER}\n\n{QUESTION_LETTERED}",
    "select-dash": f"{SELECT_DASH}\n\n{QUESTION_DASHED}",
    "match-letter": f"{MATCH}\n\n{QUESTION_LETTERED}",
    "match-dash": f"{MATCH}\n\n{QUESTION_DASHED}",
}


TEXT_PRESETS = tuple(name for name, preset in PRESETS.items() if not preset["chat_template"])
"""Presets whose prompt is a text; the others' prompts are conversations."""


@pytest.mark.parametrize("name", TEXT_PRESETS)
def test_without_examples(name: str) -> None:
    assert prompt(name).text == ALONE[name]


# The two examples of each preset; header or instruction comes before, the question after.
LETTERED_EXAMPLES = (
    "What floats?\nA. wood\nB. iron\nAnswer: {first}\n\n"
    "Ice is lighter than water.\nWhat sinks?\nA. ice\nB. iron\nC. oil\nAnswer: {second}\n\n"
)
QUESTION_EXAMPLES = (
    "Question: What floats?\nOptions:\n{a}wood\n{b}iron\nAnswer: The answer is {first}\n\n"
    "Ice is lighter than water.\nQuestion: What sinks?\nOptions:\n{a}ice\n{b}iron\n{c}oil\n"
    "Answer: The answer is {second}\n\n"
)
LETTERS = {"a": "A. ", "b": "B. ", "c": "C. "}
DASHES = {"a": "- ", "b": "- ", "c": "- "}
EXAMPLES_SHOWN = {
    "symbols": LETTERED_EXAMPLES.format(first="A", second="B"),
    "hybrid": LETTERED_EXAMPLES.format(first="wood", second="iron"),
    "cloze": (
        "Question: What floats?\nAnswer: wood\n\nIce is lighter than water.\nQuestion: What sinks?\nAnswer: iron\n\n"
    ),
    "first-letter": LETTERED_EXAMPLES.format(first="A", second="B"),
    "select-letter": QUESTION_EXAMPLES.format(**LETTERS, first="A", second="B"),
    "select-dash": QUESTION_EXAMPLES.format(**DASHES, first="A", second="B"),
    "match-letter": QUESTION_EXAMPLES.format(**LETTERS, first="wood", second="iron"),
    "match-dash": QUESTION_EXAMPLES.format(**DASHES, first="wood", second="iron"),
}


@pytest.mark.parametrize("name", TEXT_PRESETS)
def test_examples_stand_in_the_same_form_and_answer_in_it(name: str) -> None:
    instruction, blank, question = ALONE[name].rpartition("\n\n")
    assert prompt(name, shots=2).text == instruction + blank + EXAMPLES_SHOWN[name] + question


@pytest.mark.parametrize(
    ("name", "end", "marks", "answers"),
    [
        ("final-answer", "the letter of the option you choose.", ("A. ", "B. ", "C. "), ("A", "B")),
        (
            "final-answer-text",
            "the full text of the option you choose, word for word as it stands among the options.",
            ("- ", "- ", "- "),
            ("wood", "iron"),
        ),
    ],
)
def test_final_answers_are_asked_for_in_a_conversation(
    name: str, end: str, marks: tuple[str, str, str], answers: tuple[str, str]
) -> None:
    a, b, c = marks
    assert prompt(name, shots=2).text == (
        f'[system]\nAnswer the multiple choice question. End with a line "Answer: X", where X is {end}\n\n'
        f"[user]\nWhat floats?\nOptions:\n{a}wood\n{b}iron\n\n[assistant]\nAnswer: {answers[0]}\n\n"
        f"[user]\nIce is lighter than water.\nWhat sinks?\nOptions:\n{a}ice\n{b}iron\n{c}oil\n\n"
        f"[assistant]\nAnswer: {answers[1]}\n\n[user]\nWhat falls?\nOptions:\n{a}a stone\n{b}a cloud\n{c}light"
    )


@pytest.mark.parametrize("name", TEXT_PRESETS)
def test_a_passage_stands_on_its_own_line_before_the_question(name: str) -> None:
    block = ALONE[name].rpartition("\n\n")[2]
    assert prompt(name, WITH_PASSAGE).text.rpartition("\n\n")[2] == f"A stone is heavy.\n{block}"


@pytest.mark.parametrize("name", PRESETS)
def test_without_the_question_question_and_passage_are_empty_and_all_else_stays(name: str) -> None:
    shown = prompt(name, WITH_PASSAGE, HIDDEN, shots=2).text
    assert shown == prompt(name, WITH_PASSAGE, shots=2).text.replace("A stone is heavy.\n", "").replace(
        "What falls?", ""
    )


def test_without_the_question_in_full() -> None:
    assert prompt("cloze", variant=HIDDEN).text == "Question: \nAnswer:"
    assert prompt("hybrid", variant=HIDDEN).text == f"{HEADER}\n\n\nA. a stone\nB. a cloud\nC. light\nAnswer:"
    hidden = f"{MATCH}\n\nQuestion: \nOptions:\n- a stone\n- a cloud\n- light\nAnswer:"
    assert prompt("match-dash", variant=HIDDEN).text == hidden


TEXTS = ("a stone", "a cloud", "light")
READ = {
    "symbols": Prompt("", (" A", " B", " C")),
    "hybrid": Prompt("", (" a stone", " a cloud", " light")),
    "cloze": Prompt("", (" a stone", " a cloud", " light")),
    "first-letter": Prompt("", (), ("A", "B", "C")),
    "select-letter": Prompt("", (), ("A", "B", "C")),
    "select-dash": Prompt("", (), ("A", "B", "C")),
    "match-letter": Prompt("", (), TEXTS),
    "match-dash": Prompt("", (), TEXTS),
    "final-answer": Prompt("", (), ("A", "B", "C")),
    "final-answer-text": Prompt("", (), TEXTS),
}


@pytest.mark.parametrize("name", PRESETS)
def test_what_stands_for_each_position(name: str) -> None:
    built = prompt(name)
    assert (built.continuations, built.answers) == (READ[name].continuations, READ[name].answers)
    assert built.options == (TEXTS if built.answers else ())


@pytest.mark.parametrize("name", ["hybrid", "cloze", "match-dash"])
def test_texts_follow_the_order_shown_and_inserted_options(name: str) -> None:
    rotated = prompt_under(name, "cyclic", 1)
    replaced = prompt_under(name, "adversarial", 1)
    # The last distractor by ordinal is replaced at its place.
    assert _options(rotated) == ("a cloud", "light", "a stone")
    assert _options(replaced) == ("a stone", "a cloud", "Hello, everyone.")


def _options(found: Prompt) -> tuple[str, ...]:
    return found.answers or tuple(continuation.removeprefix(" ") for continuation in found.continuations)


def test_a_text_that_goes_on_with_an_option_has_no_fixed_words() -> None:
    beginning = QuestionText("h1", None, None, "A man is on a roof. He", ("sings.", "falls."), 1)
    built = build_prompt(
        protocol_definition("cloze-continuation", 1), beginning, VariantShown(0, "original", (0, 1)), EXAMPLES[:1]
    )
    assert built.text == "What floats? wood\n\nA man is on a roof. He"
    assert built.continuations == (" sings.", " falls.")


# Labels in place of the protocol's


@pytest.mark.parametrize(
    ("scheme", "ordinal", "lines", "answers", "word"),
    [
        ("bracketed", 1, "(A) a stone\n(B) a cloud\n(C) light", ("(A)", "(B)", "(C)"), "letter"),
        ("bracket", 2, "A) a stone\nB) a cloud\nC) light", ("A", "B", "C"), "letter"),
        ("digits", 3, "1. a stone\n2. a cloud\n3. light", ("1", "2", "3"), "label"),
        ("roman", 4, "i. a stone\nii. a cloud\niii. light", ("i", "ii", "iii"), "label"),
        ("signs", 5, "$. a stone\n&. a cloud\n#. light", ("$", "&", "#"), "label"),
        ("emojis", 9, "🍎 a stone\n🚗 a cloud\n🌙 light", ("🍎", "🚗", "🌙"), "label"),
        ("reversed", 10, "C. a stone\nB. a cloud\nA. light", ("C", "B", "A"), "letter"),
    ],
)
def test_other_labels_are_answered_with_and_named_as_what_they_are(
    scheme: str, ordinal: int, lines: str, answers: tuple[str, ...], word: str
) -> None:
    built = prompt_under("select-letter", f"relabel:labels={scheme}", ordinal)
    instruction = SELECT_LETTER.replace("the letter of", f"the {word} of")
    assert built.text == f"{instruction}\n\nQuestion: What falls?\nOptions:\n{lines}\nAnswer:"
    assert built.answers == answers


def test_examples_are_relabelled_too() -> None:
    built = prompt_under("select-letter", "relabel:labels=digits", 3, shots=1)
    assert "Options:\n1. wood\n2. iron\nAnswer: The answer is 1\n\n" in built.text
    built = prompt_under("match-letter", "relabel:labels=digits", 3, shots=1)
    assert "Options:\n1. wood\n2. iron\nAnswer: The answer is wood\n\n" in built.text


@pytest.mark.parametrize(
    ("scheme", "ordinal", "lines"),
    [
        ("dash", 6, "- a stone\n- a cloud\n- light"),
        ("emoji", 7, "🔹 a stone\n🔹 a cloud\n🔹 light"),
        ("x", 8, "X. a stone\nX. a cloud\nX. light"),
    ],
)
@pytest.mark.parametrize("name", ["match-letter", "match-dash", "hybrid"])
def test_one_label_for_all_suffices_if_answers_are_option_texts(
    name: str, scheme: str, ordinal: int, lines: str
) -> None:
    built = prompt_under(name, f"relabel:labels={scheme}", ordinal)
    assert f"{lines}\nAnswer:" in built.text
    assert _options(built) == TEXTS


@pytest.mark.parametrize("name", ["symbols", "first-letter", "select-letter"])
@pytest.mark.parametrize("scheme", ["dash", "emoji", "x"])
def test_one_label_for_all_is_refused_where_a_label_is_the_answer(name: str, scheme: str) -> None:
    ordinal = {"dash": 6, "emoji": 7, "x": 8}[scheme]
    with pytest.raises(
        ProtocolError, match=f"labels '{scheme}' are the same for every option; {name} needs distinct labels"
    ):
        prompt_under(name, f"relabel:labels={scheme}", ordinal)


def test_positions_are_counted_in_letters_whatever_stands_before_the_options() -> None:
    built = prompt_under("select-dash", "relabel:labels=x", 8)
    assert built.text == f"{SELECT_DASH}\n\nQuestion: What falls?\nOptions:\nX. a stone\nX. a cloud\nX. light\nAnswer:"
    assert built.answers == ("A", "B", "C")


@pytest.mark.parametrize(("scheme", "ordinal"), [("roman", 4), ("signs", 5)])
def test_first_letter_refuses_labels_that_one_character_does_not_tell(scheme: str, ordinal: int) -> None:
    with pytest.raises(ProtocolError, match=f"labels '{scheme}': first-letter reads one letter or digit"):
        prompt_under("first-letter", f"relabel:labels={scheme}", ordinal)


def test_options_that_are_not_listed_have_no_labels() -> None:
    with pytest.raises(ProtocolError, match="labels 'digits': cloze does not list the options"):
        prompt_under("cloze", "relabel:labels=digits", 3)


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "cloze"])
def test_more_options_than_labels_are_refused(name: str) -> None:
    many = QuestionText("q1", None, None, "Which?", tuple(str(number) for number in range(27)), 0)
    with pytest.raises(ProtocolError, match="question q1 has 27 options"):
        prompt(name, many, VariantShown(0, "original", tuple(range(27))))


# Answers moved


def test_examples_move_with_the_answer() -> None:
    text = prompt_under("match-dash", "answer-moving", 2, shots=2).text
    assert "- iron\n- wood\nAnswer: The answer is wood\n" in text
    assert "- ice\n- iron\n- oil\nAnswer: The answer is iron\n" in text
    assert text.endswith("- a cloud\n- a stone\n- light\nAnswer:")


def test_an_example_with_too_few_options_stays() -> None:
    text = prompt_under("select-letter", "answer-moving", 3, shots=2).text
    assert "A. wood\nB. iron\nAnswer: The answer is A\n" in text
    assert "A. ice\nB. oil\nC. iron\nAnswer: The answer is C\n" in text


@pytest.mark.parametrize("name", ["select-letter", "select-dash", "match-letter", "match-dash"])
def test_examples_kept_stay_as_they_are_while_the_question_s_answer_moves(name: str) -> None:
    kept = prompt_under(name, "answer-moving:examples=kept", 2, shots=2).text
    moved = prompt_under(name, "answer-moving", 2, shots=2).text
    assert kept.startswith(prompt(name, shots=2).text.rpartition("\n\n")[0])
    assert kept.rpartition("\n\n")[2] == moved.rpartition("\n\n")[2]
    assert kept != moved


# With a chat template


def in_chat(name: str, shots: int = 0) -> Prompt:
    definition = protocol_definition(name, shots) | {"chat_template": True}
    return build_prompt(definition, QUESTION, IDENTITY, EXAMPLES[:shots])


def turns(prompt: Prompt) -> list[tuple[str, str]]:
    assert prompt.messages is not None
    return [(turn.role, turn.content) for turn in prompt.messages]


def test_where_labels_are_scored_the_cue_opens_the_assistant_s_turns() -> None:
    built = in_chat("symbols", 1)
    assert turns(built) == [
        ("system", HEADER),
        ("user", "What floats?\nA. wood\nB. iron"),
        ("assistant", "Answer: A"),
        ("user", LETTERED.removesuffix("\nAnswer:")),
        ("assistant", "Answer:"),
    ]
    assert built.continuations == (" A", " B", " C")


def test_in_generation_the_assistants_turn_is_left_to_the_model() -> None:
    built = in_chat("select-letter", 1)
    assert turns(built) == [
        ("system", SELECT_LETTER),
        ("user", "Question: What floats?\nOptions:\nA. wood\nB. iron\nAnswer:"),
        ("assistant", "The answer is A"),
        ("user", QUESTION_LETTERED),
    ]
    assert built.answers == ("A", "B", "C")


def test_a_protocol_without_an_instruction_has_no_system_turn() -> None:
    assert turns(in_chat("cloze")) == [("user", "Question: What falls?"), ("assistant", "Answer:")]


def test_turns_are_told_apart_in_the_digest() -> None:
    chat = in_chat("symbols")
    plain = build_prompt(protocol_definition("symbols"), QUESTION, IDENTITY)
    moved = Prompt(chat.text, chat.continuations, messages=tuple(reversed(chat.messages or ())))
    assert len({chat.digest, plain.digest, moved.digest}) == 3
    shown = LETTERED.removesuffix("\nAnswer:")
    assert chat.text == f"[system]\n{HEADER}\n\n[user]\n{shown}\n\n[assistant]\nAnswer:"

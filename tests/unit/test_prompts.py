"""The exact text of prompts."""

import hashlib

import pytest

from registry.errors import ProtocolError
from registry.prompting.prompts import Prompt, QuestionText, build_prompt, few_shot_examples
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.variants import VariantShown

SYMBOLS = protocol_definition("symbols")
IDENTITY = VariantShown(0, "original", (0, 1, 2))
QUESTION = QuestionText("q1", "high_school_physics", None, "What falls?", ("a stone", "a cloud", "light"), 0)
EXAMPLES = (
    QuestionText("e1", "high_school_physics", None, "What floats?", ("wood", "iron"), 0),
    QuestionText("e2", "high_school_physics", "Ice is lighter than water.", "What sinks?", ("ice", "iron", "oil"), 1),
)


def text(question: QuestionText = QUESTION, variant: VariantShown = IDENTITY, shots: int = 0) -> str:
    return build_prompt(SYMBOLS, question, variant, EXAMPLES[:shots]).text


def test_examples_keep_their_order_while_the_question_s_options_move() -> None:
    moved = VariantShown(1, "rotation 1", (1, 2, 0))
    assert text(variant=moved, shots=1) == (
        "The following are multiple choice questions (with answers) about high school physics.\n"
        "\n"
        "What floats?\n"
        "A. wood\n"
        "B. iron\n"
        "Answer: A\n"
        "\n"
        "What falls?\n"
        "A. a cloud\n"
        "B. light\n"
        "C. a stone\n"
        "Answer:"
    )


def test_with_a_passage_and_without_a_subject() -> None:
    question = QuestionText("q1", None, "A stone is heavy.", "What falls?", ("a stone", "a cloud", "light"), 0)
    assert text(question) == (
        "The following are multiple choice questions (with answers).\n"
        "\n"
        "A stone is heavy.\n"
        "What falls?\n"
        "A. a stone\n"
        "B. a cloud\n"
        "C. light\n"
        "Answer:"
    )


def test_texts_with_braces_and_line_breaks_are_shown_as_they_are() -> None:
    question = QuestionText("q1", "set_{theory}", None, "{x | x > {label}}\n?", ("{option}", "{0}", "%s"), 0)
    assert text(question) == (
        "The following are multiple choice questions (with answers) about set {theory}.\n"
        "\n"
        "{x | x > {label}}\n"
        "?\n"
        "A. {option}\n"
        "B. {0}\n"
        "C. %s\n"
        "Answer:"
    )


def test_the_digest_covers_text_and_continuations() -> None:
    prompt = Prompt("Why? Answer:", (" A", " B"))
    assert prompt.digest == hashlib.sha256(b"Why? Answer:\0 A\0 B").hexdigest()
    assert Prompt("Why? Answer:", (" A",)).digest != prompt.digest


# Few-shot examples


def example(external_id: str, subject: str | None) -> QuestionText:
    return QuestionText(external_id, subject, None, "?", ("a", "b"), 0)


POOL = [example("p1", "physics"), example("c1", "chemistry"), example("p2", "physics"), example("n1", None)]


@pytest.mark.parametrize(
    ("subject", "shots", "expected"),
    [
        ("physics", 0, []),
        ("physics", 1, ["p1"]),
        ("physics", 2, ["p1", "p2"]),
        # The subject has too few examples, so the whole pool is used in file order.
        ("physics", 3, ["p1", "c1", "p2"]),
        ("chemistry", 2, ["p1", "c1"]),
        ("history", 1, ["p1"]),
        (None, 1, ["n1"]),
    ],
)
def test_examples_are_the_first_of_the_subject_else_of_the_pool(
    subject: str | None, shots: int, expected: list[str]
) -> None:
    assert [chosen.external_id for chosen in few_shot_examples(POOL, subject, shots)] == expected


def test_a_pool_that_is_too_small_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"5 shots requested, but .* pool has 4 examples; .*--fewshot FILE"):
        few_shot_examples(POOL, "physics", 5)


# Protocols


def test_a_protocol_is_its_definition() -> None:
    assert protocol_definition("symbols", 5) == protocol_definition("symbols") | {"shots": 5}


@pytest.mark.parametrize(
    ("name", "shots", "message"),
    [
        ("guess", 0, "unknown protocol 'guess'; known: symbols"),
        ("symbols", -1, "shots -1: give a number from 0 to 100"),
        ("symbols", 101, "shots 101"),
    ],
)
def test_a_protocol_that_is_none_is_refused(name: str, shots: int, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        protocol_definition(name, shots)

"""Answers extracted from outputs: examples by hand, and random texts compared with the printed regular expressions."""

import gzip
import json
import random
import re
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from registry.prompting.extraction import Extracted, extract
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.reading import read
from registry.prompting.thoughts import Output

DATA = Path(__file__).parent.parent / "data"
MATCH = protocol_definition("match-dash")
SELECT = protocol_definition("select-letter")
FIRST_LETTER = protocol_definition("first-letter")
OPTIONS = ("a stone", "a cloud", "light")
LABELS = ("A", "B", "C", "D")


def taking(definition: dict[str, Any], match: str, *rules: str) -> dict[str, Any]:
    """Return the protocol with another choice of match, and with only some of its rules."""
    return definition | {"extraction": {"match": match, "rules": list(rules) or definition["extraction"]["rules"]}}


def find(
    definition: dict[str, Any], output: str, answers: Sequence[str], match: str = "last"
) -> tuple[str, str] | None:
    extracted = extract(taking(definition, match), output, answers)
    return None if extracted is None else (extracted.rule, extracted.text)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Answer: x … the answer is y.", ("answer-is", "y.")),
        ("The answer is a stone", ("answer-is", "a stone")),
        ("The answer is  a stone \nbecause it is heavy.", ("answer-is", "a stone")),
        ("The answer is light. No: the answer is a cloud.", ("answer-is", "a cloud.")),
        ("The answer is light.\nWait.\nThe answer is a cloud.\n", ("answer-is", "a cloud.")),
        # Rule 1 does not match upper case; the line feed ends the match.
        ("Answer is light.\nAnswer: a cloud\nor so", ("answer-colon", "a cloud")),
        ("Answer:\n\n  a cloud", ("answer-colon", "a cloud")),
        ("answer: light Answer: a cloud", ("answer-colon", "a cloud")),
        ("Answer: Answer: a cloud", ("answer-colon", "a cloud")),
        ("I take a cloud, not a stone, falling.", ("option", "a stone")),
        ("I take a cloud", ("option", "a cloud")),
        ("It is heavy. So it falls! Really.", ("last-sentence", "Really.")),
        ("It falls", ("last-sentence", "It falls")),
        ("It falls.\n\n", ("last-sentence", "It falls.")),
        ("It is 3.5", ("last-sentence", "5")),
        # A lead-in without anything after it is none.
        ("a cloud. The answer is ", ("option", "a cloud")),
        ("a cloud. Answer: \n", ("option", "a cloud")),
        ("...", None),
        ("", None),
        (" \n\t", None),
    ],
)
def test_an_answer_in_words(output: str, expected: tuple[str, str] | None) -> None:
    assert find(MATCH, output, OPTIONS) == expected


@pytest.mark.parametrize(
    ("output", "options", "expected"),
    [
        ("it is iron oxide", ("iron", "iron oxide", "oxide"), "iron oxide"),  # both end last; the longer one
        ("iron oxide or iron", ("iron", "iron oxide"), "iron"),
        ("Iron", ("iron", "Iron"), "Iron"),
        ("it is iron", (" iron ", "oil"), "iron"),  # blanks around an option are not part of its words
        ("oil", ("oil", "oil"), "oil"),
        ("aaa", ("aa", "a"), "aa"),
    ],
)
def test_an_option_word_for_word(output: str, options: tuple[str, ...], expected: str) -> None:
    assert find(MATCH, output, options) == ("option", expected)


def test_the_first_option_is_the_one_that_starts_earliest_then_the_longest() -> None:
    assert find(MATCH, "iron oxide or oil", ("oil", "iron", "iron oxide"), "first") == ("option", "iron oxide")


@pytest.mark.parametrize(
    ("output", "last", "first"),
    [
        ("The answer is (B). The answer is (C).", ("answer-is", "C"), ("answer-is", "B")),
        ("The answer is D", ("answer-is", "D"), ("answer-is", "D")),
        ("The answer is E. Answer: B", ("answer-colon", "B"), ("answer-colon", "B")),  # E is not shown
        ("Answer: B\nAnswer:\n C", ("answer-colon", "C"), ("answer-colon", "B")),
        # As printed, the last match of each line counts.
        ("Answer: B, Answer: C\nAnswer: D", ("answer-colon", "D"), ("answer-colon", "C")),
        ("B or C?", ("letter", "C"), ("letter", "B")),
        ("(A)", ("letter", "A"), ("letter", "A")),
        ("BC, b, E", None, None),
        ("", None, None),
    ],
)
def test_an_answer_by_its_label(output: str, last: tuple[str, str] | None, first: tuple[str, str] | None) -> None:
    assert find(SELECT, output, LABELS) == last
    assert find(SELECT, output, LABELS, "first") == first


def test_a_label_names_its_position() -> None:
    assert extract(SELECT, "The answer is C.", LABELS) == Extracted("answer-is", "C", 2)
    assert extract(SELECT, "The answer is C.", ("C", "B", "A")) == Extracted("answer-is", "C", 0)
    assert extract(MATCH, "The answer is light.", OPTIONS) == Extracted("answer-is", "light.", None)


@pytest.mark.parametrize(
    ("output", "labels", "position"),
    [
        ("The answer is iii.", ("i", "ii", "iii"), 2),
        ("The answer is (B)", ("(A)", "(B)"), 1),
        ("It must be & I think", ("$", "&", "#"), 1),
        ("Answer: 🌙", ("🍎", "🚗", "🌙"), 2),
        ("I choose 2", ("1", "2"), 1),
    ],
)
def test_labels_need_not_be_letters(output: str, labels: tuple[str, ...], position: int) -> None:
    extracted = extract(SELECT, output, labels)
    assert extracted is not None
    assert extracted.position == position


@pytest.mark.parametrize(
    ("output", "labels", "position"),
    [
        ("B\nbecause", LABELS, 1),
        (" **C** is right", LABELS, 2),
        ("D. Report", LABELS, 3),
        ("The answer is B", LABELS, None),
        ("b", LABELS, None),
        ("E", LABELS, None),
        ("2", LABELS, None),
        ("2", ("1", "2"), 1),
        ("(B)", ("(A)", "(B)"), 1),
        ("é B", LABELS, None),
        ("", LABELS, None),
        ("…!", LABELS, None),
    ],
)
def test_the_first_letter(output: str, labels: tuple[str, ...], position: int | None) -> None:
    extracted = extract(FIRST_LETTER, output, labels)
    assert (None if extracted is None else extracted.position) == position
    assert extracted is None or extracted.rule == "first-alphanumeric"


def test_rules_may_be_left_out_and_put_in_another_order() -> None:
    output = "I take a cloud. Answer: a stone. The answer is light."
    for rules, expected in (
        (("answer-colon", "answer-is"), ("answer-colon", "a stone. The answer is light.")),
        (("option",), ("option", "light")),
        (("last-sentence", "answer-is"), ("last-sentence", "The answer is light.")),
    ):
        extracted = extract(taking(MATCH, "last", *rules), output, OPTIONS)
        assert extracted is not None
        assert (extracted.rule, extracted.text) == expected


# Against the printed expressions

PRINTED_TEXT = {
    "answer-is": (r"answer is (?!.*answer is ).+", r"answer is "),
    "answer-colon": (r".*[aA]nswer:\s*(?!.*[aA]nswer:\s*).+", r".*[aA]nswer:\s*"),
    "last-sentence": (r"([^.!?]+[.!?]*$)", r""),
}
PRINTED_LABELS = {
    "answer-is": r"answer is \(?([A-D])\)?",
    "answer-colon": r".*[aA]nswer:\s*([A-D])",
    "letter": r"\b([A-D])\b",
}
PIECES = (
    "answer is ",
    "Answer:",
    "answer:",
    "The ",
    "Answer",
    "A",
    "B",
    "E",
    "a",
    "(",
    ")",
    ".",
    "!",
    " ",
    "\n",
    "\n\n",
    " \n",
    "\t",
    "\r",
    "\x85",
    "x",
    "_",
    "é",
)


def random_texts(seed: int, count: int = 20_000) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices(PIECES, k=draw.randint(0, 12))) for _ in range(count)]


def print_text(rule: str, output: str, match: str) -> str | None:
    pattern, lead_in = PRINTED_TEXT[rule]
    texts = [re.sub(rf"\A{lead_in}", "", hit[0]).strip() for hit in re.finditer(pattern, output.strip())]
    texts = [text for text in texts if text]
    return None if not texts else texts[0 if match == "first" else -1]


@pytest.mark.parametrize("match", ["first", "last"])
@pytest.mark.parametrize("rule", PRINTED_TEXT)
def test_words_are_found_as_the_printed_expression_finds_them(rule: str, match: str) -> None:
    definition = taking(MATCH, match, rule)
    seen = set()
    for output in random_texts(seed=1):
        extracted = extract(definition, output, OPTIONS)
        text = None if extracted is None else extracted.text
        assert text == print_text(rule, output, match), repr(output)
        seen.add(text)
    assert len(seen) > 1000


@pytest.mark.parametrize("match", ["first", "last"])
@pytest.mark.parametrize("rule", PRINTED_LABELS)
def test_labels_are_found_as_the_printed_expression_finds_them(rule: str, match: str) -> None:
    definition = taking(SELECT, match, rule)
    seen = set()
    for output in random_texts(seed=2):
        labels = re.findall(PRINTED_LABELS[rule], output.strip())
        expected = None if not labels else labels[0 if match == "first" else -1]
        extracted = extract(definition, output, LABELS)
        assert (None if extracted is None else extracted.text) == expected, repr(output)
        seen.add(expected)
    assert seen == {None, "A", "B"}


@pytest.mark.parametrize(
    "output",
    [
        "x" * 500_000,
        "answer:" * 80_000,
        "Answer: " * 60_000,
        "Answer:\n" * 60_000,
        "answer is " * 50_000,
        "Answer:" + " " * 500_000,
        "a" * 250_000 + "b" * 250_000,
        "!" * 500_000 + "x",
        "\n" * 500_000 + "x",
        "A" * 500_000,
    ],
    ids=lambda output: repr(output[:8] + output[-1:]),
)
def test_time_grows_with_the_length_only(output: str) -> None:
    # With the square of the length, each of these would take minutes to hours.
    options = ("a" * 900 + "b", "b" + "a" * 900, "x")
    for rule in MATCH["extraction"]["rules"]:
        extract(taking(MATCH, "last", rule), output, options)
    for rule in SELECT["extraction"]["rules"]:
        extract(taking(SELECT, "last", rule), output, LABELS)
    extracted = extract(MATCH, output, options)
    assert extracted is None or extracted.text in output


# On models' real texts


@pytest.fixture(scope="module")
def generations() -> list[dict[str, Any]]:
    """Return seven models' answers to questions of MMLU-Pro, with the letters that its authors recorded."""
    with gzip.open(DATA / "mmlu_pro_raw.jsonl.gz", "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def labels_of(row: dict[str, Any]) -> str:
    return string.ascii_uppercase[: len(row["options"])]


def test_the_first_match_is_the_letter_that_was_recorded(generations: list[dict[str, Any]]) -> None:
    """The authors took the first "answer is X"; without one, letters are blank or drawn, and prove nothing.

    Their expression does not match emphasis, "answer is **D**", which ours reads.
    """
    first = taking(SELECT, "first", "answer-is")
    read = [(row, extract(first, row["raw"] or "", labels_of(row))) for row in generations]
    printed = [re.search(rf"answer is \(?[{labels_of(row)}]", row["raw"] or "") is not None for row in generations]
    real = [
        (row["recorded_pred"], one and one.text)
        for (row, one), is_printed in zip(read, printed, strict=True)
        if is_printed
    ]
    assert [text for _, text in real] == [recorded for recorded, _ in real]
    only_ours = [
        row for (row, one), is_printed in zip(read, printed, strict=True) if one is not None and not is_printed
    ]
    assert all("answer is **" in row["raw"] for row in only_ours)
    assert len(real) > 150


def test_base_models_run_on_and_the_last_match_is_another_questions(generations: list[dict[str, Any]]) -> None:
    def right(model: str, match: str) -> int:
        rows = [row for row in generations if row["model"] == model]
        letters = [extract(taking(SELECT, match), row["raw"] or "", labels_of(row)) for row in rows]
        return sum(
            letter is not None and letter.position == int(row["correct"])
            for letter, row in zip(letters, rows, strict=True)
        )

    assert right("Meta-Llama-3-8B", "first") > right("Meta-Llama-3-8B", "last")


def test_most_outputs_are_read_by_what_follows_answer_is(generations: list[dict[str, Any]]) -> None:
    for definition, answers in ((SELECT, labels_of), (MATCH, lambda row: row["options"])):
        extracted = [extract(definition, row["raw"] or "", answers(row)) for row in generations]
        assert len(extracted) == 201
        assert sum(answer is not None and answer.rule == "answer-is" for answer in extracted) > 150


def test_the_first_letter_equals_every_recorded_answer_of_cavalin_et_al() -> None:
    checked = 0
    with gzip.open(DATA / "medqa_mistral7b_cat.jsonl.gz", "rt", encoding="utf-8") as stream:
        for line in stream:
            row = json.loads(line)
            extracted = extract(FIRST_LETTER, row["raw"] or "", labels_of(row))
            assert (None if extracted is None else extracted.position) == row["chosen"], row
            checked += 1
    assert checked == 28_006


def test_no_answer_to_an_invented_question_is_read(generations: list[dict[str, Any]]) -> None:
    """Base models go on to further questions; instruct models correct themselves at most in a `Final Answer:`."""
    definition = protocol_definition("final-answer")
    others = []
    for row in generations:
        printed = re.search(rf"answer is \(?([{labels_of(row)}])", row["raw"] or "")
        if printed is not None and "Final Answer:" not in row["raw"]:
            position = read(definition, Output(row["raw"]), labels_of(row), row["options"]).position
            if position not in (None, labels_of(row).index(printed[1])):
                others.append((row["model"], row["question_id"], printed[1], position))
    assert others == []

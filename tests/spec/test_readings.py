"""What models write, and what is read in it: every style of thought with every form of answer, and their habits.

`readings/corpus.jsonl` has an output a line, as `protocols read` takes them, with `note`, `position` and `state`: what
somebody who reads the text with care would say. None is read as another answer.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.prompting.final_answer import RULES
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.reading import Reading, read
from registry.prompting.thoughts import Output, known_markers

CORPUS = [
    json.loads(line)
    for line in (Path(__file__).parent / "readings" / "corpus.jsonl").read_text(encoding="utf-8").split("\n")
    if line
]
DEFINITION = protocol_definition("final-answer")
OPTIONS = ("Rome", "Paris", "Berlin", "Madrid")


def reading(line: dict[str, Any]) -> Reading:
    output = Output(line["text"], line.get("reasoning"), line.get("finish", "stop"), line.get("opened", False))
    options = line["options"]
    return read(DEFINITION, output, DEFINITION["labels"][: len(options)], options)


def test_the_corpus_holds_every_style_of_thought_with_every_form_of_answer() -> None:
    crossed = {tuple(line["note"].split(", ", 1)) for line in CORPUS if ", " in line["note"]}
    assert len(CORPUS) >= 500
    assert len({style for style, _ in crossed}) >= 12
    assert len({form for _, form in crossed}) >= 15


@pytest.mark.parametrize("note", sorted({line["note"].partition(", ")[0] for line in CORPUS}))
def test_every_output_is_read_as_a_careful_reader_would(note: str) -> None:
    wrong = {
        json.dumps(line, ensure_ascii=False): (found.position, found.state, found.rule)
        for line in CORPUS
        if line["note"].partition(", ")[0] == note
        and ((found := reading(line)).position, found.state) != (line["position"], line["state"])
    }
    assert wrong == {}


def test_every_rule_reads_some_output() -> None:
    assert {found.rule for line in CORPUS if (found := reading(line)).rule is not None} == set(RULES)


WORDS = st.lists(
    st.sampled_from(
        [
            "A",
            "B",
            "C",
            "D",
            "a",
            "b",
            "E",
            "Answer:",
            "answer",
            "is",
            "the",
            "The",
            "not",
            "or",
            "and",
            "\n",
            "\n\n",
            "**",
            "(",
            ")",
            ".",
            ",",
            "?",
            "Rome",
            "Paris",
            "\\boxed{A}",
            "\\boxed{",
            "}",
            "{",
            '"',
            '{"answer":"C"}',
            "<answer>",
            "</answer>",
            "```",
            "`",
            "wait",
            "so",
            "correct",
            "option",
            "A.",
            "B)",
            "I",
            "it",
            "答案：",
        ]
    ),
    max_size=25,
).map(" ".join)


@given(WORDS, WORDS, st.sampled_from(["stop", "length"]))
def test_no_text_in_a_thought_decides(thought: str, other: str, finish: Any) -> None:
    def found(thought: str, answer: str) -> list[Any]:
        outputs = (
            Output(f"<think>{thought}</think>{answer}", finish=finish),
            Output(f"{thought}</think>{answer}", finish=finish, opened=True),
            Output(answer, reasoning=f"x{thought}", finish=finish),
        )
        readings = [read(DEFINITION, output, "ABCD", OPTIONS) for output in outputs]
        return [(one.state, one.rule, one.position, one.divided.answer) for one in readings]

    # Backticks around both would put the marker into code.
    thought = thought.replace("`", "")
    for answer in ("Answer: B", "I cannot say.", other.replace("`", "")):
        assert found(thought, answer) == found("nothing", answer)
    assert read(DEFINITION, Output(f"<think>{thought}", finish=finish), "ABCD", OPTIONS).position is None


@given(st.text(max_size=200) | WORDS, st.booleans(), st.sampled_from(["stop", "length", "refused"]))
def test_whatever_is_written_has_one_state_and_a_position_only_if_it_is_answered(
    text: str, opened: bool, finish: Any
) -> None:
    found = read(DEFINITION, Output(text, finish=finish, opened=opened), "ABCD", OPTIONS)
    assert (found.position is not None) == (found.state == "answered") == (found.rule is not None)
    assert finish != "refused" or found.state == "refused"


@given(WORDS)
def test_the_order_of_options_does_not_change_which_words_are_read(text: str) -> None:
    # Labels and options are renamed together: what is read moves with them.
    swapped = text.translate(str.maketrans("AC", "CA"))
    if "Rome" in text or "Answer" in text or "option A" in text:
        return
    # Labels are read in lower case, too, and the options' texts stay.
    if re.search(r"[ac]", text):
        return
    first = read(DEFINITION, Output(text), "ABCD", ("1x", "2x", "3x", "4x"))
    second = read(DEFINITION, Output(swapped), "ABCD", ("3x", "2x", "1x", "4x"))
    moved = {0: 2, 2: 0}
    assert (None if first.position is None else moved.get(first.position, first.position)) == second.position


@pytest.mark.parametrize(
    "text",
    [
        "Answer: " * 2_000,
        "the answer is " * 2_000,
        "A or " * 4_000,
        "\\boxed{" * 3_000,
        "<answer>" * 2_000,
        '{"answer": "' * 1_500,
        "correct " * 3_000,
        "the final correct right best " * 800,
        "A.\n" * 6_000,
        "Rome\n" * 4_000,
        "**" * 10_000,
        "\\text{" * 3_000,
        "~~" * 10_000 + "x",
        "<b " * 6_000,
        " " * 20_000 + "x",
        "\n" * 20_000,
        "_" * 20_000,
        "# " * 10_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_hostile_answer_is_read_in_time_that_grows_with_its_length(text: str) -> None:
    read(DEFINITION, Output(text), "ABCD", OPTIONS)
    read(DEFINITION, Output(f"<think>{text}</think>{text}"), "ABCD", OPTIONS)
    assert known_markers().find(text)

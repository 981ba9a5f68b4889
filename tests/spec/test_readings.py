"""Texts that models write, and the answers read from them: every style of thought, every form of answer, and habits.

`readings/corpus.jsonl` has an output per line, as `protocols read` takes them, with the `note`, `position` and `state`
of a careful human reader. None is read as another answer. `readings/forms.jsonl` has more forms, in 75 languages.
"""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.prompting.answer_patterns import MAX_READ
from registry.prompting.final_answer import RULES
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.reading import Reading, read
from registry.prompting.thoughts import Output


def lines_of(name: str) -> list[dict[str, Any]]:
    text = (Path(__file__).parent / "readings" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


CORPUS, FORMS = lines_of("corpus.jsonl"), lines_of("forms.jsonl")
DEFINITION = protocol_definition("final-answer")
OPTIONS = ("Rome", "Paris", "Berlin", "Madrid")


def reading(line: dict[str, Any]) -> Reading:
    output = Output(line["text"], line.get("reasoning"), line.get("finish", "stop"), line.get("opened", False))
    options = line["options"]
    return read(DEFINITION, output, line.get("labels", DEFINITION["labels"][: len(options)]), options)


@pytest.fixture(scope="module", autouse=True)
def load_patterns() -> None:
    """Load the patterns and words of all languages, which the first example of a property would be timed with."""
    reading({"text": "I cannot say.", "options": OPTIONS})


def test_the_corpus_holds_every_style_of_thought_with_every_form_of_answer() -> None:
    crossed = {tuple(line["note"].split(", ", 1)) for line in CORPUS if ", " in line["note"]}
    assert len(CORPUS) >= 500
    assert len({style for style, _ in crossed}) >= 12
    assert len({form for _, form in crossed}) >= 15


@pytest.mark.parametrize("note", sorted({line["note"].partition(", ")[0] for line in CORPUS}))
def test_every_output_is_read_as_a_careful_reader_would(note: str) -> None:
    wrong = {
        json.dumps(line, ensure_ascii=False): (result.position, result.state, result.rule)
        for line in CORPUS
        if line["note"].partition(", ")[0] == note
        and ((result := reading(line)).position, result.state) != (line["position"], line["state"])
    }
    assert wrong == {}


@pytest.mark.parametrize("note", sorted({line["note"] for line in FORMS}))
def test_other_forms_and_languages_are_read_as_they_state(note: str) -> None:
    wrong = {
        line["text"]: (result.position, result.remark)
        for line in FORMS
        if line["note"] == note
        and ((result := reading(line)).position, result.state) != (line["position"], line["state"])
    }
    assert wrong == {}
    assert len(FORMS) >= 1_000


def test_an_unread_answer_has_its_reason() -> None:
    remarks = {
        "I cannot say.": "no rule found an answer",
        "Answer: A or B": "the answer names no single option",
        "Answer: A\n\n\\boxed{B}": "its rules find answers that differ",
        "<mull-think>Answer: A": "unknown marker <mull-think>; add it to SHUFFLEBOARD_MARKERS",
    }
    for text, remark in remarks.items():
        assert reading({"text": text, "options": OPTIONS}).remark == remark


def test_an_emphasised_answer_is_read_by_every_preset_that_reads_a_letter() -> None:
    text = "The answer is **B**. (Not A, although a physicist would say A.)"
    for name in ("final-answer", "select-letter", "select-dash"):
        definition = protocol_definition(name)
        if definition["answer"] == "label":
            assert read(definition, Output(text), "ABCD", OPTIONS).position == 1, name


def test_every_rule_reads_some_output() -> None:
    assert {result.rule for line in CORPUS if (result := reading(line)).rule is not None} == set(RULES)


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
    def find(thought: str, answer: str) -> list[Any]:
        outputs = (
            Output(f"<think>{thought}</think>{answer}", finish=finish),
            Output(f"{thought}</think>{answer}", finish=finish, opened=True),
            Output(answer, reasoning=f"x{thought}", finish=finish),
        )
        readings = [read(DEFINITION, output, "ABCD", OPTIONS) for output in outputs]
        return [
            (reading_of_text.state, reading_of_text.rule, reading_of_text.position, reading_of_text.divided.answer)
            for reading_of_text in readings
        ]

    # Backticks around both would put the marker into code.
    thought = thought.replace("`", "")
    for answer in ("Answer: B", "I cannot say.", other.replace("`", "")):
        assert find(thought, answer) == find("nothing", answer)
    assert read(DEFINITION, Output(f"<think>{thought}", finish=finish), "ABCD", OPTIONS).position is None


@given(st.text(max_size=200) | WORDS, st.booleans(), st.sampled_from(["stop", "length", "refused"]))
def test_any_text_has_one_state_and_a_position_only_if_answered(text: str, opened: bool, finish: Any) -> None:
    result = read(DEFINITION, Output(text, finish=finish, opened=opened), "ABCD", OPTIONS)
    assert (result.position is not None) == (result.state == "answered") == (result.rule is not None)
    assert finish != "refused" or result.state == "refused"


@given(WORDS)
def test_the_order_of_options_does_not_change_which_words_are_read(text: str) -> None:
    # Labels and options are renamed together, and the reading moves with them.
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


REPEATED = (
    *(
        "Answer: ",
        "the answer is ",
        "A or ",
        "A, B, ",
        "A/",
        "\\boxed{",
        "<answer>",
        '{"answer": "',
        '"answer":[',
        "correct ",
    ),
    *(
        "the final correct right best ",
        "A.\n",
        "Rome\n",
        "Answer: x\n",
        "the answer is the\n",
        "B is the correct answer. ",
    ),
    *(
        "I think it is ",
        "答案是",
        "选",
        "Ответ ",
        "**",
        "\\text{",
        "\\color{",
        "~~",
        "<b ",
        "<s>",
        "<br>",
        "`",
        "```\n",
        "$",
    ),
    *(
        " ",
        "\t",
        "\n",
        "\r",
        "\u00a0",
        "\u200b",
        "\u0301",
        "\ufdfa",
        "_",
        "# ",
        "- ",
        "&amp;",
        "</s>",
        "<|x|>",
        "<|a|>b",
    ),
    *("`<think>`", "`</think>`", "```\n<think>\n```\n", "<answer>\n", "</s> "),
    *("<think>", "</think>", "<think", "[think", "Here is my response: ", "assistantfinal", "A", "a", "1", "é", "中"),
    *"()[]{}<>\"'&=-—:;,.?!/|~^%#@+*\\",
)


@pytest.mark.long
@pytest.mark.parametrize("repeated", REPEATED)
def test_a_megabyte_of_anything_is_read_in_linear_time(repeated: str) -> None:
    # Each takes less than a second of CPU; with the square of the length it would take minutes to hours.
    text = repeated * (1_000_000 // len(repeated))
    began = time.process_time()
    for output in (text, f"<think>{text}", f"the answer is{text},x", f"Answer: B\n{text}"):
        for name in ("final-answer", "final-answer-text", "select-letter", "match-dash", "first-letter"):
            definition = protocol_definition(name)
            read(definition, Output(output), "ABCD" if definition["answer"] == "label" else OPTIONS, OPTIONS)
    assert time.process_time() - began < 20 * 10


@pytest.mark.parametrize("repeated", ["`<think>`", "`</think>`", "</s>", "<answer>\n"])
def test_a_megabyte_of_markers_is_read_in_seconds(repeated: str) -> None:
    text = repeated * (1_000_000 // len(repeated))
    began = time.process_time()
    read(DEFINITION, Output(text), "ABCD", OPTIONS)
    assert time.process_time() - began < 10  # about half a second; a minute if the rest is read after each marker


@pytest.mark.parametrize("repeated", REPEATED)
def test_a_hostile_answer_is_read_in_time_that_grows_with_its_length(repeated: str) -> None:
    text = repeated * (20_000 // len(repeated))
    read(DEFINITION, Output(text), "ABCD", OPTIONS)
    read(DEFINITION, Output(f"<think>{text}</think>{text}"), "ABCD", OPTIONS)


def test_only_the_end_of_a_very_long_answer_is_read() -> None:
    filler = "x\n" * MAX_READ
    assert reading({"text": f"Answer: B\n{filler}Answer: C", "options": OPTIONS}).position == 2
    assert reading({"text": f"Answer: B\n{filler}", "options": OPTIONS}).position is None

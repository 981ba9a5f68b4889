"""The end of a thought, and a protocol's settings about thoughts."""

from pathlib import Path
from typing import Any

import pytest

from registry.digests import specification_digest
from registry.errors import IngestError
from registry.prompting.protocols.custom import custom_definition
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.reading import read
from registry.prompting.thoughts import (
    Divided,
    Finish,
    Output,
    Thinking,
    divide,
    load_markers,
    markers_of,
    opens_thought,
    thinking_of,
)

SELECT = protocol_definition("select-letter")
LABELS = ("A", "B", "C", "D")
CHANNELS = "<|channel|>analysis<|message|>Perhaps A.<|end|><|start|>assistant<|channel|>final<|message|>B<|return|>"


def divide_text(text: str, **of: Any) -> Divided:
    return divide(Output(text, **of), load_markers())


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("<think>", "</think>"),
        ("<thinking>", "</thinking>"),
        ("<thought>", "</thought>"),
        ("<reasoning>", "</reasoning>"),
        ("[THINK]", "[/THINK]"),
        ("<seed:think>", "</seed:think>"),
        ("◁think▷", "◁/think▷"),
        ("<|begin_of_thought|>", "<|end_of_thought|>\n\n<|begin_of_solution|>"),
        ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
        ("<|inner_prefix|>", "<|inner_suffix|>"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        ("<THINK>", "</Think>"),
        ("<|channel>thought", "<channel|>"),
        ("<longcat_think>", "</longcat_think>"),
        ("Here is my thought process:", "Here is my response:"),
        ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
        ("<think>", "</think><answer>"),
    ],
)
def test_every_style_of_marker_ends_a_thought_at_its_end_marker(begin: str, end: str) -> None:
    parts = divide_text(f"{begin}\nPerhaps A.\n{end}\nB\n")
    assert (parts.thought, parts.answer) == ("Perhaps A.", "B")
    assert divide_text(f"{begin}\nPerhaps A.\n") == Divided("Perhaps A.", None)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>a</think>b</think>c", "c"),
        ("<think>one</think>two<think>three</think>four", "four"),
        ("<think><think>a</think> b", "b"),
        ("no marker opened it </think> b", "b"),
        ("<think>other kinds end it too</thinking> b", "b"),
        ("First. <think>a</think> b<|im_end|>", "b"),
        ("<think>`</think>` is a tag</think> b", "b"),
        ("<think>```\n</think>\n``` is code</think> b", "b"),
        ("<think>\n```\n`x` </think>\n```\nis code</think> b", "b"),
        ("<think>a</think> b\n```\n</think>\n```", "b\n```\n</think>\n```"),
        ("<think>a</think> `<think>` opens", "`<think>` opens"),
        ("<think>a</think>x <answer>b</answer> y", "b"),
        ("<think>a</think><answer>x</answer>\n<answer>b</answer>", "b"),
        ("<think>a</think><answer>x</answer><answer>b</answer>", "x</answer><answer>b"),
        ("<think>a</think><answer>b</answer> <answer> b</answer>", "b"),
        ("<answer>b</answer>", "<answer>b</answer>"),
        ("<|begin_of_thought|>a<|begin_of_solution|>b<|end_of_solution|> c", "b"),
        ("<|channel|>final <|constrain|>json<|message|>{}", "{}"),
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=f<|message|>c", None),
        ("<think>a</think>b<think>c", None),
        ("<think><reasoning>a</reasoning> so b", None),
        ("<think>a <|channel|>fin", None),
        ("analysisWe think: a.assistantfinalb", "b"),
        ("assistantanalysisWe think: a.assistantcommentaryassistantfinal\n\nb", "b"),
        ("We think: a.assistantfinal**b**<|return|>", "**b**"),
        ("analysiswe think: the answer is a.", None),
        ("analysis**a**.assistantfinala.assistantanalysisb", None),
        ("finalAnswer: b", "Answer: b"),
        ("Finally, b", "Finally, b"),
        ("finally, b", "finally, b"),
        ("analysis of all: b", "analysis of all: b"),
        ("analysis: b", "analysis: b"),
        ("Our psychoanalysisB", "Our psychoanalysisB"),
        ("a<channel|>b<turn|>", "b"),
        ("Here's my thought process:\na\n\nHere's my response:\nb", "b"),
        ("b. I said: here is my thought process: a", "b. I said: here is my thought process: a"),
        ("Here are my reasoning steps:\na\n[BEGIN FINAL RESPONSE]\nb\n[END FINAL RESPONSE]\n<|end|>", "b"),
        ("a\n[BEGIN FINAL RESPONSE]b", "b"),
    ],
)
def test_the_text_is_cut_at_the_last_end_marker(text: str, answer: str | None) -> None:
    assert divide_text(text).answer == answer


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("<mythink>Answer: A</mythink>Answer: B", "<mythink>"),
        ("Answer: A</deep_think>Answer: B", "</deep_think>"),
        ("<internal_thought>Answer: A</internal_thought>Answer: B", "<internal_thought>"),
        ('<think effort="high">Answer: A</think>', None),
        ('<think effort="high">Answer: A', '<think effort="high">'),
        ("<|thinking|>Answer: A<|/thinking|>Answer: B", "<|thinking|>"),
        ("<|begin_reasoning|>Answer: A<|end_reasoning|>Answer: B", "<|begin_reasoning|>"),
        ("<|ponder|>Answer: A<|done|>Answer: B", "<|ponder|>"),
        ("[BEGIN THINKING]Answer: A[END THINKING]Answer: B", "[BEGIN THINKING]"),
        ("[thinking]Answer: A[/thinking]Answer: B", "[thinking]"),
        ("◁thinking▷Answer: A◁/thinking▷Answer: B", "◁thinking▷"),
        ("thought\nThe answer is A, since", "thought"),
        ("<|bos|>Answer: B<|eos|>", None),
        ("Answer: B<|im_end|>\n<|im_start|>user\nThanks", None),
        ("Answer: B<|unheard_of|>", None),
        ("Answer: B, as `<mythink>` is no word", None),
        ("Answer: B. [I think it is obvious]", None),
        ("x < think and y > z. Answer: B", None),
        ("<think><mythink>Answer: A</think>Answer: B", None),
        ("[思考]\nB", None),  # a heading
    ],
)
def test_an_unlisted_marker_leaves_the_answer_unread_and_is_named(text: str, unknown: str | None) -> None:
    assert divide_text(text).unknown == unknown
    reading = read(protocol_definition("final-answer"), Output(text), LABELS, ("a", "b", "c", "d"))
    if unknown is not None:
        assert (reading.state, reading.position) == ("unread", None)
        assert reading.remark == f"unknown marker {unknown}; add it to SHUFFLEBOARD_MARKERS"


def test_a_template_may_open_a_thought_in_words() -> None:
    assert opens_thought("<|assistant|>Here are my reasoning steps:\n", load_markers())
    assert opens_thought("<|turn>model\n<|channel>thought\n", load_markers())


def test_a_separate_thought_leaves_the_content_and_its_markers() -> None:
    assert divide_text("B", reasoning=" a ") == Divided("a", "B")
    assert divide_text("B", reasoning="a", opened=True) == Divided("a", "B")
    assert divide_text("<think>b</think>c", reasoning="a") == Divided("a\n\nb", "c")
    assert divide_text("<answer>c</answer>", reasoning="a").answer == "c"
    assert divide_text("", reasoning="a") == Divided("a", "")


def test_what_a_template_opened_is_a_thought_until_its_end_marker() -> None:
    assert divide_text("Answer: A", opened=True) == Divided("Answer: A", None)
    assert divide_text("a</think>b", opened=True) == Divided("a", "b")
    assert divide_text("<think>a</think>b", opened=True) == Divided("a", "b")
    assert divide_text("<thinking>a</thinking>b", opened=True) == Divided("a", "b")
    assert divide_text("<reasoning>a</reasoning>b", opened=True, finish="length").answer == "b"
    assert divide_text("so <reasoning>a</reasoning>b", opened=True, finish="length").answer is None
    assert divide_text("Answer: A", opened=True, reasoning="").answer is None


def test_an_end_marker_in_code_does_not_end_a_thought() -> None:
    assert divide_text("<think>The tag `</think>` and the answer is A", finish="length").answer is None


def test_the_same_parts_come_from_a_field_from_markers_and_from_channels() -> None:
    expected = Divided("Perhaps A.", "B")
    assert divide_text(CHANNELS) == divide_text("<think>\nPerhaps A.\n</think>\n\nB") == expected
    assert divide_text("\n\nB", reasoning="Perhaps A.\n") == expected


@pytest.mark.parametrize(
    ("text", "finish", "state", "position"),
    [
        ("<think>The answer is A.</think>The answer is B.", "stop", "answered", 1),
        ("<think>The answer is A.</think>I cannot say.", "stop", "unread", None),
        ("<think>The answer is A.</think>I can", "length", "unfinished", None),
        ("<think>The answer is A.</think>The answer is B.", "length", "answered", 1),
        ("<think>The answer is A.", "length", "unfinished", None),
        ("<think>The answer is A.", "stop", "unfinished", None),
        ("<think>The answer is A.</think>\n", "stop", "empty", None),
        ("<think>The answer is A.</think>\n", "length", "unfinished", None),
        ("", "stop", "empty", None),
        ("The answer is A.", "refused", "refused", None),
    ],
)
def test_an_output_has_one_of_five_states(text: str, finish: Finish, state: str, position: int | None) -> None:
    reading = read(SELECT, Output(text, finish=finish), LABELS, ("a", "b", "c", "d"))
    assert (reading.state, reading.position) == (state, position)


def test_in_text_reads_the_whole_output_as_papers_did() -> None:
    definition = {**SELECT, "thoughts": "in-text"}
    for output in (Output("<think>The answer is A.</think> B"), Output("B", "The answer is A.")):
        assert read(definition, output, LABELS, LABELS).position == 0
        assert read(SELECT, output, LABELS, LABELS).position == 1


def test_a_protocol_may_name_markers_and_a_file_adds_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = custom_definition({"name": "m", "base": "match-dash", "markers": [{"begin": "((", "end": "))"}]}, "m.json")
    assert divide(Output("((a)) b"), markers_of(own)) == Divided("a", "b")
    assert divide(Output("<think>a</think> b"), markers_of(own)).thought is None
    path = tmp_path / "markers.toml"
    path.write_text('turn_ends = ["<bye>"]\n[[markers]]\nbegin = "<mull>"\nend = "</mull>"\n')
    before = load_markers().digest
    monkeypatch.setenv("SHUFFLEBOARD_MARKERS", str(path))
    assert divide_text("<mull>a</mull> b <bye>") == divide_text("<think>a</think> b") == Divided("a", "b")
    assert load_markers().digest != before
    path = tmp_path / "wrong.toml"
    path.write_text('[[markers]]\nbegin = "<mull>"\nfinish = "</mull>"\n')
    monkeypatch.setenv("SHUFFLEBOARD_MARKERS", str(path))
    with pytest.raises(IngestError, match=r"wrong.toml: markers\[0\]: 'finish' is not a key of markers"):
        load_markers()


@pytest.mark.parametrize("count", [20_000])
def test_a_hostile_output_takes_time_in_proportion_to_its_length(count: int) -> None:
    for text in (
        "<think>" * count,
        "</think>" * count,
        "```x\n" * count,
        "`<think>`\n" * count,
        "<answer>" * count,
        "<mythink>`" * count,
    ):
        divide_text("<think>a</think>" + text)
        divide_text(text, opened=True, finish="length")


# Settings of a protocol


def custom(**changes: Any) -> dict[str, Any]:
    return custom_definition({"name": "mine", "base": "match-dash", **changes}, "p.toml")


def test_settings_that_are_the_default_leave_the_digest_as_it_was() -> None:
    explicit = custom(thoughts="apart", generation={"thinking": "default", "at_limit": "stop"})
    assert specification_digest(explicit) == specification_digest(custom())


def test_what_is_set_about_thoughts_is_part_of_the_definition() -> None:
    generation = {"thinking": "on", "effort": "low", "max_thought_tokens": 400, "at_limit": "answer"}
    definition = custom(thoughts="in-text", generation=generation)
    assert thinking_of(definition["generation"]) == Thinking("on", "low", 400, "answer")
    assert definition["thoughts"] == "in-text"
    assert thinking_of(custom(generation={"effort": 2048})["generation"]).effort == 2048
    assert not thinking_of(custom()["generation"]).asked


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generation": {"thinking": "maybe"}}, "generation.thinking: 'maybe': use one of default, on, off"),
        ({"generation": {"effort": "huge"}}, "use one of low, medium, high, or a number of tokens"),
        ({"generation": {"effort": True}}, "or a number of tokens"),
        ({"generation": {"max_thought_tokens": 512}}, r"max_thought_tokens: 512: give less than max_tokens \(512\)"),
        ({"generation": {"at_limit": "answer"}}, "give max_thought_tokens too"),
        ({"generation": {"thinking": "off", "effort": "low"}}, "without a thought, leave effort"),
        ({"thoughts": "hidden"}, "use one of apart, in-text"),
        ({"markers": []}, "give a list of 1 to 100 tables"),
        ({"markers": [{"end": "</x>"}]}, "give begin and end, or answer_begin"),
        ({"markers": [{"begin": "x", "end": "</x>"}]}, "give 2 to 100 characters"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(IngestError, match=message):
        custom(**changes)


def test_a_protocol_that_scores_has_nothing_to_say_about_thoughts() -> None:
    with pytest.raises(IngestError, match="'thoughts' is not a key that symbols lets you change"):
        custom_definition({"name": "mine", "base": "symbols", "thoughts": "apart"}, "p.toml")

"""The command `protocols read`, which reads outputs in a file before any model runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import shuffleboard, shuffleboard_json

OPTIONS = ["Rome", "Paris"]


def outputs(folder: Path, *lines: Any) -> Path:
    path = folder / "outputs.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_each_line_gives_position_state_rule_thought_and_answer_without_a_database(tmp_path: Path) -> None:
    path = outputs(
        tmp_path,
        {"text": "<think>A? No.</think>\nAnswer: B", "options": OPTIONS, "id": "passed over"},
        {"text": "So B", "options": OPTIONS, "opened": True, "finish": "length"},
        {"text": None, "options": OPTIONS, "reasoning": "A", "finish": None, "opened": None},
    )
    home = tmp_path / "home"
    answered = {"position": 1, "state": "answered", "rule": "answer-line", "thought_characters": 6, "remark": None}
    nothing = {"position": None, "rule": None, "answer": "", "remark": None}
    assert shuffleboard_json("protocols", "read", "final-answer", path, home=home) == {
        "readings": [
            {**answered, "answer": "Answer: B"},
            {**nothing, "state": "unfinished", "thought_characters": 4},
            {**nothing, "state": "empty", "thought_characters": 1},
        ]
    }
    assert not home.exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"text": "A"}, "options null: give a list of 2 to 100 texts"),
        ({"text": "A", "options": "x"}, 'options "x": give a list of 2 to 100 texts'),
        ({"text": "A", "options": ["x"] * 101}, 'options ["x", "x", "x",'),
        ({"text": "A", "options": ["x", 1]}, "option 1 is not text"),
        ({"text": "A", "options": ["x"] * 27}, "27 options, but protocol final-answer has 26 labels"),
        ({"options": OPTIONS}, "text is missing"),
        ({"text": 1, "options": OPTIONS}, "text 1: give text"),
        ({"text": "A", "options": OPTIONS, "finish": "eos"}, 'finish "eos": use one of stop, length, refused'),
        ({"text": "A", "options": OPTIONS, "finish": []}, None),
        ({"text": "A", "options": OPTIONS, "finish": [1]}, "finish [1]: use one of"),
        ({"text": "A", "options": OPTIONS, "opened": "yes"}, 'opened "yes": give true or false'),
        ("{", "not JSON"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_printed(tmp_path: Path, line: Any, message: str | None) -> None:
    path = outputs(tmp_path, {"text": "Answer: B", "options": OPTIONS}, line)
    if message is None:
        shuffleboard("protocols", "read", "final-answer", path)
        return
    failed = shuffleboard("protocols", "read", "final-answer", path, "--json", status=1)
    assert failed.stdout == ""
    assert f"outputs.jsonl line 2: {message}" in failed.stderr


def test_a_line_with_a_single_option_is_skipped_and_others_read(tmp_path: Path) -> None:
    path = outputs(
        tmp_path,
        {"text": "Answer: A", "options": ["Rome"]},
        {"text": "Answer: A", "options": []},
        {"text": "Answer: B", "options": OPTIONS},
        {"text": "<mull-thinking>Answer: B", "options": OPTIONS},
        {"text": "I cannot say.", "options": OPTIONS},
    )
    readings = shuffleboard_json("protocols", "read", "final-answer", path)["readings"]
    assert [(reading["state"], reading["position"], reading["remark"]) for reading in readings] == [
        ("unread", None, 'options ["Rome"]: give 2 to 100 texts, by position'),
        ("unread", None, "options []: give 2 to 100 texts, by position"),
        ("answered", 1, None),
        ("unread", None, "unknown marker <mull-thinking>; add it to SHUFFLEBOARD_MARKERS"),
        ("unread", None, "no rule found an answer"),
    ]
    assert "(unknown marker <mull-thinking>" in shuffleboard("protocols", "read", "final-answer", path).stdout


def test_a_protocol_that_scores_reads_no_text(tmp_path: Path) -> None:
    path = outputs(tmp_path, {"text": "A", "options": OPTIONS})
    failed = shuffleboard("protocols", "read", "symbols", path, status=2)
    assert "symbols scores options, so it has no text to read" in failed.stderr


def test_texts_that_quote_an_option_need_no_embedder(tmp_path: Path) -> None:
    path = outputs(tmp_path, {"text": "Answer: Paris.", "options": OPTIONS}, {"text": "Answer: B", "options": OPTIONS})
    readings = shuffleboard_json("protocols", "read", "final-answer-text", path)["readings"]
    assert [(reading["position"], reading["state"]) for reading in readings] == [(1, "answered"), (None, "unread")]

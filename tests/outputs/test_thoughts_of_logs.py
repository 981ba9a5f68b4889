"""Thoughts that other programs recorded, which are separated from the answers."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from registry.db import read_session
from registry.logs.formats.every_eval_ever import read_every_eval_ever
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.logs.recognition import log_file, read_log
from registry.logs.record import Recorded
from registry.predictions.texts import rebuild_output, thought_of
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.reading import read
from registry.tables import Generation, Prediction
from tests.outputs.conftest import DATA, Registry, four_options, registry
from tests.outputs.logs import helm_copy, inspect_copy, list_known

__all__ = ["registry"]

pytestmark = pytest.mark.one_engine
THOUGHT = "A? No."
FINAL = protocol_definition("final-answer")
[DETAILS] = DATA.glob("lighteval/details/smollm2/*/details_csqa_written|*.parquet")


def _first(path: Path) -> Recorded:
    file = log_file(path)
    assert file is not None
    return read_log(file, list_known()).recorded[0]


def test_reasoning_blocks_of_inspect_are_the_thought(tmp_path: Path) -> None:
    def think(document: dict[str, Any]) -> None:
        sample = document["samples"][0]
        sample["attachments"] = {"one": THOUGHT}
        message = sample["output"]["choices"][0]["message"]
        message["content"] = [
            {"type": "reasoning", "reasoning": "attachment://one"},
            {"type": "reasoning", "reasoning": "secret", "redacted": True, "summary": "So B."},
            {"type": "text", "text": "ANSWER: A"},
        ]

    answer = _first(inspect_copy(tmp_path, "plain.eval", think))
    assert (answer.reasoning, answer.text) == (f"{THOUGHT}\n\nSo B.", "ANSWER: A")


def test_thinking_of_helm_is_the_thought(tmp_path: Path) -> None:
    def think(document: dict[str, Any]) -> None:
        document["request_states"][0]["result"]["completions"][0]["thinking"] = {"text": THOUGHT}

    assert _first(helm_copy(tmp_path, "joint", scenario_state=think)).reasoning == THOUGHT


def test_reasonings_of_lighteval_are_the_thoughts(tmp_path: Path) -> None:
    rows = pq.read_table(DETAILS).to_pylist()
    for row in rows:
        row["model_response"]["reasonings"] = [THOUGHT] * len(row["model_response"]["text"])
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "details.parquet")
    assert _first(tmp_path / "details.parquet").reasoning == THOUGHT


def test_lighteval_is_read_without_the_reasoning_that_it_did_not_score(tmp_path: Path) -> None:
    rows = pq.read_table(DETAILS).to_pylist()
    before = _first(DETAILS)
    for row in rows:
        response = row["model_response"]
        response["text_post_processed"] = response["text"]
        response["text"] = [f"<think>{THOUGHT}</think>{text}" for text in response["text"]]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "details.parquet")
    answer = _first(tmp_path / "details.parquet")
    assert (answer.position, answer.text) == (before.position, f"<think>{THOUGHT}</think>{before.text}")


def test_reasoning_traces_of_every_eval_ever_are_the_thought(tmp_path: Path) -> None:
    lines = (DATA / "every_eval_ever" / "inspect" / "shuffled_dataset_samples.jsonl").read_text().splitlines()
    record = json.loads(lines[0])
    record["output"]["reasoning_trace"] = [THOUGHT]
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(record) + "\n")
    assert next(iter(read_every_eval_ever(path, list_known()))).reasoning == THOUGHT


def test_a_recorded_thought_is_stored_beside_its_answer_even_without_one(registry: Registry) -> None:
    registry.benchmark("b", four_options(2))
    line = {"variant": 0, "order": [0, 1, 2, 3]}
    lines = [
        line | {"question_id": "q0", "position": 0, "text": "Answer: A", "reasoning": THOUGHT},
        line | {"question_id": "q1", "position": None, "text": "", "reasoning": THOUGHT},
    ]
    evaluation_id = import_outputs(
        registry.engine, ImportRequest(registry.file("o.jsonl", lines), "m", "b", "original")
    )
    with read_session(registry.engine) as session:
        rows = session.scalars(
            select(Generation).filter_by(evaluation_id=evaluation_id).order_by(Generation.question_id)
        ).all()
        assert [(row.text, thought_of(row.thought), row.thought_apart) for row in rows] == [
            ("Answer: A", THOUGHT, True),
            ("", THOUGHT, True),
        ]


def test_if_most_texts_end_a_thought_one_without_an_end_is_one(registry: Registry) -> None:
    registry.benchmark("b", four_options(3))
    texts = [f"{THOUGHT}</think>Answer: B", f"{THOUGHT}</think>\nAnswer: B", "Answer: A? Let me"]
    lines = [
        {"question_id": f"q{number}", "variant": 0, "order": [0, 1, 2, 3], "position": 0, "text": text}
        for number, text in enumerate(texts)
    ]
    one = import_outputs(registry.engine, ImportRequest(registry.file("o.jsonl", lines), "m", "b", "original"))
    with read_session(registry.engine) as session:
        rows = session.scalars(select(Generation).filter_by(evaluation_id=one).order_by(Generation.question_id)).all()
        readings = [read(FINAL, rebuild_output(row, "answered"), "ABCD", ("a", "b", "c", "d")) for row in rows]
    assert [(one.state, one.position) for one in readings] == [("answered", 1), ("answered", 1), ("unfinished", None)]


def test_a_harness_filters_extract_is_the_answer_and_thoughts_are_kept(
    registry: Registry,
) -> None:
    questions = four_options(3)
    registry.benchmark("b", questions)
    texts = [f"<think>{THOUGHT}</think>The best is (B).", f"<think>{THOUGHT}</think>none", "<think>Perhaps A"]
    filtered = [["(B)", "[invalid]", "[invalid]"], ["[invalid]", "C", "A"]]
    lines = [
        {
            "doc_id": number,
            "doc": {"question": question["question"], "choices": question["options"]},
            "target": "ABCD"[number],
            "resps": [[text]],
            "filtered_resps": [extracted],
            "filter": name,
        }
        for name, answers in zip(("strict-match", "flexible-extract"), filtered, strict=True)
        for number, (question, text, extracted) in enumerate(zip(questions, texts, answers, strict=True))
    ]
    evaluation_id = import_outputs(
        registry.engine, ImportRequest(registry.file("s.jsonl", lines), "m", "b", "original")
    )
    with read_session(registry.engine) as session:
        positions = (
            select(Prediction.chosen_position).filter_by(evaluation_id=evaluation_id).order_by(Prediction.question_id)
        )
        chosen = session.scalars(positions).all()
        rows = session.scalars(
            select(Generation).filter_by(evaluation_id=evaluation_id).order_by(Generation.question_id)
        ).all()
        assert chosen == [1, None, None]
        assert [(row.text, thought_of(row.thought)) for row in rows] == [
            ("The best is (B).", f"<think>{THOUGHT}</think>"),
            ("none", f"<think>{THOUGHT}</think>"),
            ("", "<think>Perhaps A"),
        ]

"""Single answers in the schema of Every Eval Ever: a file from its own converter, and our exports, imported again."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from registry.db import get_engine, read_session
from registry.errors import ShuffleboardError
from registry.exchange.exports import ExportRequest, export
from registry.logs.formats.every_eval_ever import read_every_eval_ever
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.tables import Generation, Prediction
from tests.exports.conftest import ODD, fill
from tests.outputs.conftest import DATA, Registry
from tests.outputs.logs import IDS, agree, list_known, place

pytestmark = pytest.mark.one_engine
CONVERTED = DATA / "every_eval_ever" / "inspect" / "shuffled_dataset_samples.jsonl"


def _records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CONVERTED.read_text(encoding="utf-8").splitlines()]


def _write(folder: Path, records: list[dict[str, Any]]) -> Path:
    path = folder / "some_samples.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_a_converted_log_has_the_answers_of_its_source() -> None:
    comparison = agree(read_every_eval_ever(CONVERTED, list_known()))
    assert [item.question.external_id for item in comparison] == IDS
    # As `shuffled_dataset.json` of Inspect, whose orders and answers they are.
    assert (comparison[0].order, comparison[1].order) == ((0, 2, 3, 4, 1), (1, 3, 2, 0, 4))
    assert [item.position for item in comparison] == [0, 1, 2, 2, None]
    assert all(item.weights is None and item.logprobs is None for item in comparison)


def test_a_prompt_of_several_results_is_read_once_unless_it_failed(tmp_path: Path) -> None:
    records = _records()
    for record in _records():
        records.append(record | {"evaluation_result_id": "another"})
    records[4]["error"] = records[9]["error"] = "time-out"
    assert len(list(read_every_eval_ever(_write(tmp_path, records), list_known()))) == 4


def test_our_own_export_comes_back_as_it_was(lasting_sqlite: Any, sqlite_database: str, tmp_path: Path) -> None:
    source = fill(lasting_sqlite(), tmp_path)
    manifest = export(source.engine, ExportRequest("every-eval-ever", evaluations=(source.odd,)), tmp_path / "out")
    [samples] = [entry["file"] for entry in manifest["files"] if entry["relation"] == "samples"]
    target = Registry(sqlite_database, tmp_path)
    target.benchmark("odd", ODD)
    target.model("m")
    imported = import_outputs(target.engine, ImportRequest(tmp_path / "out" / samples, "m", "odd", "cyclic"))

    def answers(url: str, evaluation_id: int) -> list[Any]:
        with read_session(get_engine(url)) as session:
            rows = session.scalars(select(Prediction).filter_by(evaluation_id=evaluation_id)).all()
            texts = session.scalars(select(Generation.text).filter_by(evaluation_id=evaluation_id)).all()
            stored = [(row.variant, row.shown, row.chosen_position, row.label_probabilities) for row in rows]
        return [sorted(stored, key=repr), sorted(texts)]

    assert answers(sqlite_database, imported)[0] == answers(source.url, source.odd)[0]


@pytest.mark.parametrize(
    ("number", "where", "value", "problem"),
    [
        (
            0,
            "interaction_type",
            "multi_turn",
            r'line 1: interaction_type "multi_turn": only single_turn can be imported',
        ),
        (0, "input/choices", None, r"line 1: input.choices lists no choices; only multiple-choice questions"),
        (
            0,
            "input/reference",
            ["A"],
            r"not the benchmark's in 1 of 5 answers: 001b0f\w+ \(log A, 'reduced'; benchmark D, 'def",
        ),
        (0, "evaluation/is_correct", True, r"line 1 \(question 001b0f\w+\): answer 'A' read as A, score 1"),
        (
            0,
            "input/raw",
            "What is this?",
            r"line 1: question \"What is this\?\" with the options .* is not among the 5",
        ),
        (0, "metadata/epoch", "first", r'line 1: metadata\.epoch "first" is not a whole number from 1'),
        (1, "evaluation_id", "other", r'line 2: evaluation_id "other" is not that of the first record'),
    ],
)
def test_a_record_that_does_not_hold_is_refused(
    tmp_path: Path, number: int, where: str, value: Any, problem: str
) -> None:
    records = _records()
    place(where, value)(records[number])
    with pytest.raises(ShuffleboardError, match=problem):
        agree(read_every_eval_ever(_write(tmp_path, records), list_known()))

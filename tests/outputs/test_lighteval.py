"""Details that lighteval 0.13.0 wrote for five questions, and changed copies, which are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.errors import ShuffleboardError
from tests.outputs.conftest import DATA
from tests.outputs.logs import IDS, QUESTIONS, place, read
from tests.support.commands import shuffleboard, shuffleboard_json

pytestmark = pytest.mark.one_engine
[FOLDER] = (DATA / "lighteval" / "details" / "smollm2").iterdir()


def _file(task: str) -> Path:
    [path] = FOLDER.glob(f"details_csqa_{task}|*.parquet")
    return path


def _change(folder: Path, task: str, change: Callable[[dict[str, Any]], None]) -> Path:
    rows = pq.read_table(_file(task)).to_pylist()
    change(rows[0])
    path = folder / "details.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize(("task", "score", "shots"), [("letters", 0.4, 2), ("cloze", 0.2, 0), ("written", 0.4, 0)])
def test_answers_and_scores_are_those_that_lighteval_computed(task: str, score: float, shots: int) -> None:
    log = read(_file(task))
    assert sorted(item.question.external_id for item in log.recorded) == sorted(IDS)
    assert [item.order for item in log.recorded] == [(0, 1, 2, 3, 4)] * 5
    assert (log.stated, log.shots, log.about["model"]) == (score, shots, "smollm2")
    right = [item.position == item.question.answer for item in log.recorded]
    assert [item.stated for item in log.recorded] == right
    assert all((item.text is None) == (task != "written") for item in log.recorded)


def test_the_command_compares_them_with_the_stated_score(sqlite_database: str, tmp_path: Path) -> None:
    questions = tmp_path / "csqa.jsonl"
    questions.write_text("".join(f"{json.dumps(item)}\n" for item in QUESTIONS), encoding="utf-8")
    url = {"database_url": sqlite_database}
    shuffleboard("benchmarks", "import", questions, "--name", "csqa", **url)
    shuffleboard("models", "add", "m", "--kind", "external", **url)
    options = ("--model", "m", "--benchmark", "csqa", "--variants", "original", "--shots", 2)
    imported = shuffleboard_json("evaluations", "import", _file("letters"), *options, "--json", **url)
    stated = imported["stated"]
    assert (stated["metric"], stated["stated"], stated["agrees"], stated["compared"]) == ("acc", 0.4, True, 5)


def test_options_that_the_query_moved_are_read_as_shown(tmp_path: Path) -> None:
    def move(row: dict[str, Any]) -> None:
        # In the fourth question, the right option "race track" and "eating food" are swapped.
        query = row["doc"]["query"].replace("A.  eating food", "A.  race track")
        row["doc"]["query"] = query.replace("C.  race track", "C.  eating food")
        row["doc"]["gold_index"] = 0
        row["metric"]["acc"] = 0

    assert read(_change(tmp_path, "letters", move)).recorded[0].order == (2, 1, 0, 3, 4)


UNLISTED = pq.read_table(_file("letters")).to_pylist()[0]["doc"]["query"].replace("A. ", "1. ")


@pytest.mark.parametrize(
    ("where", "value", "problem"),
    [
        ("doc/gold_index", 9, r"row 1: gold_index 9 is not one of its 5 choices"),
        (
            "doc/gold_index",
            0,
            r"not the benchmark's in 1 of 5 answers: 008b7b\w+ \(log A, 'eating food'; benchmark C, 'race track'\)",
        ),
        ("doc/query", UNLISTED, r"row 1: its query does not list the options of question 008b7b\w+ behind labels"),
        (
            "doc/choices",
            ["yes", "no", "perhaps", "never", "always"],
            r"row 1: choices \[\"yes\", .* are neither labels nor the options of question 008b7b",
        ),
        ("doc/query", "What is this?", r'row 1: the prompt "What is this\?" asks none of the 5 questions'),
        ("model_response/logprobs", [], r"row 1: has neither log-probabilities nor a text"),
        ("model_response/logprobs", [-1.0], r"row 1: logprobs: 1 values for 5 positions"),
    ],
)
def test_what_does_not_hold_is_refused(tmp_path: Path, where: str, value: Any, problem: str) -> None:
    with pytest.raises(ShuffleboardError, match=problem):
        read(_change(tmp_path, "letters", place(where, value)))

"""The command `shuffleboard ranks` on public results, which ranks models as a board of the same answers does."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from registry.benchmarks.contract import read_benchmark
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.reading import board_rows, snapshot_as_of
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import read_session, write_session
from registry.logs.imports.importer import import_columns
from registry.prompting.labels import LETTERS
from tests.outputs.conftest import DATA, Registry
from tests.support.commands import shuffleboard_json

pytestmark = [pytest.mark.one_engine, pytest.mark.long]

Answers = dict[str, dict[str, str]]
"""Question → model → letter, empty for none."""

RECORDED = SuiteDefinition.model_validate(
    {"name": "recorded", "protocols": ["recorded"], "variants": ["original"], "tasks": [{"benchmark": "*"}]}
)
COLUMN = "accuracy@original"


def read_mmlu_pro(subject: str) -> Answers:
    """Return the letters that 26 models gave in a subject of MMLU-Pro."""
    table: Answers = {}
    with gzip.open(DATA / "mmlu_pro_predictions.csv.gz", "rt", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row.pop("subject") == subject:
                name, options = row.pop("question_id"), LETTERS[: int(row.pop("n_options"))]
                del row["correct"]
                table[name] = {model: answer if answer in options else "" for model, answer in row.items()}
    return table


def read_medqa() -> Answers:
    """Return the letters that two models gave to MedQA in repeated runs, each run as a model."""
    table: Answers = {}
    for model in ("mistral7b", "medalpaca"):
        with gzip.open(DATA / f"medqa_{model}_cat.jsonl.gz", "rt", encoding="utf-8") as stream:
            for line in map(json.loads, stream):
                if line["variant_type"] == "standard_MC" and line["variant_index"] < 3:
                    answer = "" if line["chosen"] is None else LETTERS[line["chosen"]]
                    table.setdefault(line["question_id"], {})[f"{model}-{line['variant_index']}"] = answer
    return table


TABLES: dict[str, tuple[str, Callable[[], Answers]]] = {
    "MMLU-Pro, history": ("mmlu_pro.jsonl.gz", lambda: read_mmlu_pro("history")),
    "MMLU-Pro, computer science": ("mmlu_pro.jsonl.gz", lambda: read_mmlu_pro("computer science")),
    "MedQA": ("medqa_usmle5.jsonl.gz", read_medqa),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_public_table_has_the_ranks_of_a_board(registry: Registry, name: str) -> None:
    questions, read = TABLES[name]
    answers = read()
    models = list(next(iter(answers.values())))
    keys = {one.external_id: one for one in read_benchmark(_unpacked(registry.folder, questions)).questions}
    registry.benchmark(
        "public",
        [
            {"id": id_, "question": one.text, "options": [*one.options], "answer": one.answer}
            for id_, one in keys.items()
            if id_ in answers
        ],
    )
    letters = [",".join((id_, *(by_model[model] for model in models))) for id_, by_model in answers.items()]
    import_columns(
        registry.engine,
        registry.file("letters.csv", [",".join(("question_id", *models)), *letters]),
        benchmark="public",
    )
    with write_session(registry.engine) as session:
        import_suite(session, RECORDED)
        definition = BoardDefinition(name="public", suite="recorded", benchmarks=("public",), columns=(COLUMN,))
        import_board(session, definition)
    refresh_boards(registry.engine)
    with read_session(registry.engine) as session:
        board = {row["model"]: row["values"][COLUMN] for row in board_rows(snapshot_as_of(session, "public"))}
    scores = [
        ",".join((id_, *(str(int(by_model[model] == LETTERS[keys[id_].answer])) for model in models)))
        for id_, by_model in answers.items()
    ]
    ranked = shuffleboard_json("ranks", registry.file("scores.csv", [",".join(("question", *models)), *scores]))
    assert ranked["questions"] == len(answers)
    assert [row["model"] for row in ranked["models"]] == sorted(models, key=lambda one: (board[one]["rank"], one))
    for row in ranked["models"]:
        on_board = board[row["model"]]
        assert row["mean"] == pytest.approx(on_board["value"], abs=1e-12)
        assert (row["rank"], row["rank_interval"]) == (on_board["rank"], on_board["all_rank_interval"])
        assert row["tier"] == on_board["all_tier"]


def _unpacked(folder: Path, name: str) -> Path:
    path = folder / name.removesuffix(".gz")
    path.write_bytes(gzip.decompress((DATA / name).read_bytes()))
    return path

"""Tables of letters, all of whose columns are imported at once."""

import json

import pytest
from sqlalchemy import func, select

from registry.db import read_session
from registry.errors import ShuffleboardError
from registry.leaderboard.reports import evaluation_metrics
from registry.logs.imports.importer import ImportRequest, import_columns, import_outputs
from registry.sealed.verification import verify_evaluation
from registry.tables import Evaluation, Model, ModelRevision
from tests.outputs.conftest import Registry, four_options
from tests.support.commands import shuffleboard

HEADING = "question_id,correct,m,new.model"
# 40 questions suffice for intervals. m is always right, the new model if its answer is A and A is right.
ROWS = [f"q{q},{'ABCD'[q % 4]},{'abcd'[q % 4]},{'A' if q % 8 else ''}" for q in range(40)]


def test_every_column_is_what_it_is_when_imported_alone(registries: list[Registry]) -> None:
    seals = set()
    for registry in registries:
        registry.model("m")
        registry.benchmark("b", four_options(40))
        table = registry.file("table.csv", [HEADING, *ROWS])
        imported = import_columns(registry.engine, table, benchmark="b")
        assert list(imported) == ["m", "new.model"]
        alone = import_outputs(registry.engine, ImportRequest(table, "new.model", "b", "original", column="new.model"))
        with read_session(registry.engine) as session:
            assert session.scalars(select(ModelRevision.kind).join(Model)).all() == ["external", "external"]
            documents = [evaluation_metrics(session, one)["metrics"] for one in (*imported.values(), alone)]
            assert [document["accuracy"] for document in documents] == [1.0, 5 / 40, 5 / 40]
            for evaluation_id in (*imported.values(), alone):
                assert verify_evaluation(session, evaluation_id)["problems"] == []
            seals.add(tuple(session.get_one(Evaluation, one).seal for one in imported.values()))
    assert len(seals) == 1


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([HEADING, *ROWS[:20], "q20,A,B,?", *ROWS[21:]], 'line 22: column "new.model": answer "?" is neither a letter'),
        ([HEADING, *ROWS[:2], "q2,C,C"], "line 4: 3 cells under 4 headings"),
        ([HEADING, *ROWS, "q0,D,D,D"], "line 42: question q0 variant 0 is already on an earlier line, with another"),
        (["question_id,m,m", "q0,A,B"], 'line 1: column "m" is there twice'),
        (["question_id,m,", "q0,A,B"], "line 1: column 3 has no heading"),
        (["question_id,m,a/b/c", "q0,A,B"], "line 1: column 'a/b/c': model name 'a/b/c': use up to 200"),
        (["question_id,m,M", "q0,A,B"], "line 1: columns 'm' and 'M' are both m"),
        (["question_id,subject", "q0,x"], "has no model's column"),
        ([HEADING, "nowhere,A,A,A"], 'line 2: question "nowhere" is not among the 40 questions'),
    ],
)
def test_one_bad_column_is_named_and_nothing_is_stored(registry: Registry, lines: list[str], problem: str) -> None:
    registry.benchmark("b", four_options(40))
    with pytest.raises(ShuffleboardError) as refused:
        import_columns(registry.engine, registry.file("table.csv", lines), benchmark="b")
    assert problem in str(refused.value)
    with read_session(registry.engine) as session:
        assert session.scalar(select(func.count()).select_from(Evaluation)) == 0
        assert session.scalars(select(Model.name)).all() == ["m"]


@pytest.mark.one_engine
def test_a_column_headed_owner_and_name_is_the_model_of_that_name(registry: Registry) -> None:
    registry.benchmark("b", four_options(40))
    heading = "question_id,correct,m,meta/Llama-3,other/Llama-3,other/M"
    rows = [f"{row.rpartition(',')[0]},A,B,C" for row in ROWS]
    imported = import_columns(registry.engine, registry.file("t.csv", [heading, *rows]), benchmark="b")
    assert list(imported) == ["m", "Llama-3", "other-Llama-3", "other-M"]


@pytest.mark.one_engine
def test_the_command_links_the_import_and_stores_nothing_incomplete(registry: Registry) -> None:
    registry.benchmark("b", four_options(40))
    where = {"database_url": registry.url, "public_url": "https://board.example.org"}
    table = registry.file("t.csv", [HEADING, *ROWS])
    outcome = shuffleboard("evaluations", "import", table, "--all-columns", "--benchmark", "b", **where)
    assert json.loads(outcome.stdout) == {"evaluations": [1, 2], "models": ["m", "new.model"]}
    assert "complete; see https://board.example.org/?benchmark=b" in outcome.stderr
    part = registry.file("part.csv", [HEADING, *ROWS[:-1]])
    command = ("evaluations", "import", part, "--benchmark", "b", "--column", "m")
    refused = shuffleboard(*command, status=1, **where)
    assert "part.csv: is incomplete: 1 of 40 questions lack outputs, the first is q39" in refused.stderr
    assert "exclude each other" in shuffleboard(*command, "--all-columns", status=2, **where).stderr
    several = shuffleboard("evaluations", "import", part, "--benchmark", "b", "--model", "m", status=2, **where)
    assert "part.csv has a column for each of m, new.model; choose one with --column" in several.stderr
    lines = [{"question_id": f"q{q}", "variant": 0, "order": [0, 1, 2, 3], "position": 0} for q in range(40)]
    rotated = ("evaluations", "import", registry.file("o.jsonl", lines), "--benchmark", "b", "--variants", "cyclic")
    assert "this file is none" in shuffleboard(*rotated, "--all-columns", status=2, **where).stderr
    rotations = shuffleboard(*rotated, "--model", "m", status=1, **where)
    assert "is incomplete: 40 of 40 questions lack outputs, the first is q0 (variant 1, " in rotations.stderr
    assert refused.stdout == rotations.stdout == ""
    with read_session(registry.engine) as session:
        assert session.scalars(select(Evaluation.id)).all() == [1, 2]

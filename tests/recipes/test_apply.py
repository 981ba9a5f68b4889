"""Registries that are described in a file, for `shuffleboard apply`."""

import re
from pathlib import Path

import pytest
from sqlalchemy import func, select

from registry.benchmarks.recipes import recipe_named
from registry.db import get_engine, read_session
from registry.tables import Board, Evaluation
from tests.recipes.hub import Hub
from tests.recipes.upstream import files
from tests.support.commands import shuffleboard, shuffleboard_json

MANIFEST = """
[[benchmarks]]
fetch = "sciq"
revision = "main"
[[benchmarks]]
file = "planets.jsonl"
name = "planets"
licence = "CC0-1.0"
[[models]]
name = "recorded"
kind = "external"
family = "Recorded"
[[suites]]
file = "suite.toml"
[[boards]]
file = "board.toml"
"""
SUITE = """
name = "ours"
title = "Ours"
variants = ["cyclic"]
[[tasks]]
benchmark = "planets"
"""
BOARD = """
name = "our-board"
title = "Our board"
suite = "ours"
columns = ["worst_accuracy@cyclic"]
"""
PLANETS = '{"id": "p1", "subject": "planets", "question": "Which is nearest?", "options": ["Mercury", "Venus"], "answer": 0}\n'


@pytest.fixture
def manifest(tmp_path: Path, hub: Hub) -> Path:
    hub.add("allenai/sciq", files(recipe_named("sciq")))
    for name, text in {
        "registry.toml": MANIFEST,
        "suite.toml": SUITE,
        "board.toml": BOARD,
        "planets.jsonl": PLANETS,
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / "registry.toml"


def test_a_file_is_planned_then_applied_and_the_second_time_changes_nothing(
    manifest: Path, sqlite_database: str
) -> None:
    planned = shuffleboard_json("apply", manifest, "--dry-run", database_url=sqlite_database)
    assert {row["name"]: row["plan"] for row in planned["steps"]} == {
        "sciq": "fetch allenai/sciq@main",
        "planets": "import planets.jsonl",
        "recorded": "register external",
        "ours": "loaded",
        "our-board": "depends on the above",
    }
    with read_session(get_engine(sqlite_database)) as session:
        assert session.scalar(select(func.count()).select_from(Board)) == 0
    done = shuffleboard_json("apply", manifest, database_url=sqlite_database)
    assert [row["done"] for row in done["steps"]] == ["fetched", "imported", "registered", "loaded", "loaded"]
    again = shuffleboard_json("apply", manifest, database_url=sqlite_database)
    assert {row["plan"] for row in again["steps"]} == {"is here"}
    assert again["changed"] == 0


def test_what_was_interrupted_goes_on(manifest: Path, sqlite_database: str, hub: Hub) -> None:
    served = hub.files.pop("allenai/sciq")
    assert "no such dataset" in shuffleboard("apply", manifest, status=1, database_url=sqlite_database).stderr
    hub.files["allenai/sciq"] = served
    assert shuffleboard_json("apply", manifest, database_url=sqlite_database)["changed"] == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[benchmarks]]\nfetch = "sciq"\nfile = "x"\n', r"benchmarks\.1: give fetch .* or file"),
        ('[[models]]\nnmae = "x"\n', r"models\.1\.(name|nmae)"),
        ("[[boards]\n", "not valid TOML"),
        ('[[benchmarks]]\nfetch = "sicq"\n', "did you mean sciq"),
        ('[[models]]\nname = "\\u0000"\n', "models contains a NUL character"),
        (f"[[models]]\nparameters = {'9' * 30}\n", "is beyond 64-bit integers"),
        (f"x = {'[' * 100}{']' * 100}\n", "nested too deeply"),
        (f"x = {'[' * 5000}{']' * 5000}\n", "not valid TOML|nested too deeply"),
    ],
)
def test_a_file_that_is_wrong_names_the_place(text: str, message: str, tmp_path: Path, sqlite_database: str) -> None:
    (tmp_path / "registry.toml").write_text(text, encoding="utf-8")
    done = shuffleboard("apply", tmp_path / "registry.toml", status=1, database_url=sqlite_database)
    assert re.search(message, done.stderr)
    with read_session(get_engine(sqlite_database)) as session:
        assert session.scalar(select(func.count()).select_from(Evaluation)) == 0

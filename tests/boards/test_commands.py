"""Suites, boards and statistics on the command line."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pybtex.database import parse_string
from sqlalchemy import Engine

from tests.boards.outputs import HEADLINE, import_all
from tests.conftest import FilledDatabases
from tests.outputs.conftest import Registry, four_options
from tests.support.commands import shuffleboard

pytestmark = pytest.mark.one_engine

QUESTIONS = four_options(50)
BOARD = f"""
name = "main"
title = "One benchmark"
suite = "robustness-core"
benchmarks = ["b"]
columns = {json.dumps(HEADLINE)}
"""


def fill(engine: Engine, folder: Path) -> None:
    registry = Registry(engine.url.render_as_string(hide_password=False), folder)
    registry.model("m")
    registry.benchmark("b", QUESTIONS)
    import_all(registry, "m", "b", QUESTIONS, skill=0.7, liking=0.5, seed=1)
    import_all(registry, "m", "b", QUESTIONS, ["cyclic"], skill=0.7, liking=0.5, seed=2)


@pytest.fixture
def filled(filled_databases: FilledDatabases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """Yield a registry with model "m" under every kind that the headline metrics need, and twice under cyclic."""
    with filled_databases.copy(fill, tmp_path) as (url, _):
        monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", url)
        yield Registry(url, tmp_path)


def run(*arguments: object) -> tuple[int, str, str]:
    """Run the command line in this process; return (status, stdout, stderr)."""
    done = shuffleboard(*arguments, status=None)
    return done.returncode, done.stdout, done.stderr


def test_a_board_from_a_file_to_a_table(filled: Registry, tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text(BOARD)
    status, out, _ = run("boards", "import", file, "--json")
    assert (status, json.loads(out)["new"]) == (0, True)
    assert run("boards", "import", file)[1] == "board main version 1 already exists\n"
    assert [item["name"] for item in json.loads(run("boards", "list", "--json")[1])["boards"]] == ["main"]
    document = json.loads(run("leaderboard", "--board", "main", "--json")[1])
    (row,) = document["rows"]
    assert (row["model"], row["complete"]) == ("m", True)
    assert row["values"]["cora@divergent"]["rank"] == 1
    assert json.loads(run("boards", "show", "main", "--json")[1]) == document
    (from_csv,) = csv.DictReader(io.StringIO(run("leaderboard", "--board", "main", "--csv")[1]))
    assert float(from_csv["worst_accuracy@cyclic"]) == row["values"]["worst_accuracy@cyclic"]["value"]
    assert from_csv["worst_accuracy@cyclic tier"] == "1"
    assert [from_csv[f"worst_accuracy@cyclic all {part}"] for part in ("rank low", "rank high", "tier")] == ["1"] * 3
    for command in (
        ("leaderboard", "--board", "main"),
        ("boards", "show", "main"),
        ("boards", "list"),
        ("boards", "snapshots", "main"),
    ):
        status, out, _ = run(*command)
        assert status == 0
        assert "main" in out or "One" in out or "m" in out
    (snapshot,) = json.loads(run("boards", "snapshots", "main", "--json")[1])["snapshots"]
    assert snapshot["digest"] == document["digest"]


def test_a_board_is_cited_by_its_newest_snapshot(filled: Registry, tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "board.toml"
    file.write_text(BOARD)
    run("boards", "import", file)
    digest = json.loads(run("boards", "show", "main", "--json")[1])["digest"]
    status, out, noted = run("boards", "cite", "main")
    assert (status, list(parse_string(out, "bibtex").entries)) == (0, [f"shuffleboard-main-{digest[:12]}"])
    assert "SHUFFLEBOARD_PUBLIC_URL is not set" in noted
    monkeypatch.setenv("SHUFFLEBOARD_PUBLIC_URL", "https://board.example.org/")
    cited = json.loads(run("boards", "cite", "main", "--json")[1])
    (entry,) = parse_string(cited["bibtex"], "bibtex").entries.values()
    assert entry.fields["url"] == cited["url"] == f"https://board.example.org/snapshots/{digest}"
    assert "no board 'nope'" in run("boards", "cite", "nope")[2]


def test_a_suite_from_a_file(filled: Registry, tmp_path: Path) -> None:
    file = tmp_path / "suite.toml"
    file.write_text('name = "mine"\nvariants = ["cyclic"]\n[[tasks]]\nbenchmark = "b"\n')
    assert json.loads(run("suites", "import", file, "--json")[1])["version"] == 1
    file.write_text('name = "mine"\nvariants = ["full"]\n[[tasks]]\nbenchmark = "b"\noptions = 4\n')
    assert run("suites", "import", file)[1] == "suite mine version 2 loaded\n"
    listed = {item["name"]: item for item in json.loads(run("suites", "list", "--json")[1])["suites"]}
    assert listed["mine"]["variants"] == ["full"]
    assert json.loads(run("suites", "show", "mine@1", "--json")[1])["definition"]["variants"] == ["cyclic"]
    assert "4 options" in run("suites", "show", "mine")[1]
    assert "Goliakova" in run("suites", "list")[1]


@pytest.mark.parametrize("group", ["suites", "boards"])
def test_an_older_file_that_is_loaded_again_does_not_become_the_newest(
    group: str, filled: Registry, tmp_path: Path
) -> None:
    rest = {
        "suites": 'variants = ["cyclic"]\n[[tasks]]\nbenchmark = "b"\n',
        "boards": 'suite = "robustness-core"\nbenchmarks = ["b"]\ncolumns = ["accuracy@cyclic"]\n',
    }
    file = tmp_path / "definition.toml"
    notes = []
    for title in ("First", "Second", "First"):
        file.write_text(f'name = "mine"\ntitle = "{title}"\n{rest[group]}')
        notes.append(run(group, "import", file)[2])
    assert notes == ["", "", "mine still means version 2, this one is mine@1; to go back to it, change its title\n"]


def test_statistics_are_one_json_document_or_text(filled: Registry) -> None:
    for command in (
        ("compare", 1, 4),
        ("noise", 1),
        ("noise", 1, 4),
        ("pride", 1),
        ("pride", 1, "--alpha", 0.2),
        ("cora", 2),
        ("guessing", "--variants", 10, "--options", 5),
        ("clusters", 1),
        ("clusters", 1, "--by-subject"),
        ("power", "--questions", 1000),
        ("power", "--questions", 1000, "--difference", 0.6),
    ):
        status, out, _ = run("statistics", *command, "--json")
        assert status == 0, command
        assert isinstance(json.loads(out), dict)
        status, out, _ = run("statistics", *command)
        assert status == 0
        assert out.strip()


def test_pairs_of_a_board_are_counted_for_each_model(filled: Registry, tmp_path: Path) -> None:
    file = tmp_path / "board.toml"
    file.write_text(BOARD)
    run("boards", "import", file)
    document = json.loads(run("boards", "pairs", "main", "--json")[1])
    assert document["board"] == "main"
    for row in document["models"]:
        if row["rank_interval"] is not None:
            others = row["better_than"] + row["worse_than"] + row["not_distinguished"]
            assert others == len(document["models"]) - 1
    assert "has no column 'x'; use one of" in run("boards", "pairs", "main", "--column", "x")[2]


def test_power_is_printed_for_any_number_of_questions(filled: Registry) -> None:
    (alone,) = json.loads(
        run("statistics", "power", "--questions", 50, "--models", 10, "--differing", 0.3, "--json")[1]
    )["rows"]
    assert alone["one_pair"] < alone["all_pairs"]
    options = ("--differing", 0.3, "--difference", alone["one_pair"] + 1e-4, "--json")
    (row,) = json.loads(run("statistics", "power", "--questions", 50, *options)[1])["rows"]
    assert row["power"] == pytest.approx(0.8, abs=0.01)
    assert row["needed"] <= 50 < row["needed_all"]
    assert "Two models" in run("statistics", "power", "--questions", 50)[1]
    output = run("statistics", "power", "--questions", 50, "--differing", 0.1, "--difference", 0.2)
    assert (output[0], output[1]) == (2, "") or "not below the difference" in output[2]


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        (("leaderboard", "--board", "nothing"), 1, "no board 'nothing'; there is none yet"),
        (("leaderboard", "--board", "x", "--variants", "cyclic"), 2, "leave out --variants"),
        (("leaderboard", "--as-of", "2026-01-01"), 2, "--as-of goes with --board"),
        (("boards", "show", "nothing"), 1, "no board 'nothing'"),
        (("boards", "import", "/nowhere.toml"), 1, "/nowhere.toml: cannot be read"),
        (
            ("suites", "show", "nothing"),
            1,
            "no suite 'nothing'; to add it: shuffleboard suites import FILE; known: belebele-4",
        ),
        (("evaluations", "submit", "--model", "m"), 2, "--benchmark is missing: give one, or --suite"),
        (("evaluations", "submit", "--model", "m", "--suite", "x", "--shots", "5"), 2, "leave out --shots"),
        (("evaluations", "submit", "--model", "m", "--board", "x", "--benchmark", "b"), 2, "leave out --benchmark"),
        (
            ("evaluations", "submit", "--model", "m", "--suite", "robustness-core", "--benchmark", "c"),
            1,
            "no benchmark 'c'",
        ),
        (("statistics", "compare", "1", "2000"), 1, "no evaluation 2000"),
        (("statistics", "pride", "1", "--alpha", "7"), 2, "alpha 7.0: give the share"),
        (("statistics", "guessing", "--variants", "500", "--options", "4"), 2, "up to 200 variants"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_cannot_be_done_is_said(filled: Registry, command: tuple[str, ...], status: int, message: str) -> None:
    exit_status, out, err = run(*command)
    assert (exit_status, out) == (status, "")
    assert message in err
    assert "Traceback" not in err


def test_a_suite_whose_outputs_are_there_queues_nothing(filled: Registry) -> None:
    status, out, err = run("evaluations", "submit", "--model", "m", "--suite", "robustness-core", "--benchmark", "b")
    assert status == 0
    assert json.loads(out)["evaluations"] == [4, 2, 3]
    assert err.count("already has this specification") == 3

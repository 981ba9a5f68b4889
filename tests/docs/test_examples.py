"""What the pages show can be done: files import, queries run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from registry.benchmarks import read_benchmark
from registry.db import get_engine, read_session
from registry.evaluations import find_evaluation
from registry.migrate import upgrade
from registry.reports import evaluation_metrics
from tests.docs.conftest import fill, write_block
from tests.docs.pages import DOCS, ROOT, Block, blocks

SQL = DOCS / "sql.md"


@pytest.mark.parametrize(("info", "name"), [("jsonl benchmark", "example.jsonl"), ("csv benchmark", "example.csv")])
def test_example_benchmarks_are_valid(info: str, name: str, tmp_path: Path) -> None:
    content = read_benchmark(write_block(tmp_path, "benchmark-files.md", info, name))
    assert content.questions


def test_the_readme_shows_a_valid_question(tmp_path: Path) -> None:
    (block,) = blocks(ROOT / "README.md", "json")
    path = tmp_path / "readme.jsonl"
    path.write_text(block.text, encoding="utf-8")
    (question,) = read_benchmark(path).questions
    assert question.options[question.answer] == "newton"


def test_example_outputs_are_imported_and_sealed(database: str, tmp_path: Path) -> None:
    engine = get_engine(database)
    for evaluation_id in fill(engine, tmp_path):
        with read_session(engine) as session:
            assert find_evaluation(session, evaluation_id).seal is not None
            metrics = evaluation_metrics(session, evaluation_id)["metrics"]
        # All three are right in the original order; q1 has no valid answer in its second order.
        assert metrics["accuracy"] == pytest.approx(1)
        assert metrics["worst_accuracy"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("block", blocks(SQL, "sql"), ids=lambda block: block.text.split("\n")[0][:40])
def test_queries_run_on_both_engines(block: Block, filled: str) -> None:
    engine = get_engine(filled)
    with read_session(engine) as session:
        # A colon within a literal would be taken for a parameter.
        session.execute(text(block.text.replace(":", "\\:"))).all()


def test_shell_examples_run(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shuffleboard.db'}"  # where it lies when nothing is set but the data directory
    upgrade(url)
    fill(get_engine(url), tmp_path)
    get_engine(url).dispose()
    path = f"{sqlite_shell(tmp_path)}:{os.environ['PATH']}"
    environment = {**os.environ, "SHUFFLEBOARD_HOME": str(tmp_path), "PATH": path}
    script = "set -eu\n" + "\n".join(block.text for block in blocks(SQL, "sh"))
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "their-model|capitals|cyclic|" in done.stdout


def sqlite_shell(folder: Path) -> Path:
    """A folder with a `sqlite3` command: the system's, else one that does as much of it as the examples need."""
    tools = folder / "bin"
    tools.mkdir()
    found = shutil.which("sqlite3")
    if found is not None:
        (tools / "sqlite3").symlink_to(found)
        return tools
    (tools / "sqlite3").write_text(
        f"#!{sys.executable}\n"
        "import sqlite3, sys\n"
        "file, query = [word for word in sys.argv[1:] if not word.startswith('-')]\n"
        "for row in sqlite3.connect(f'file:{file}?mode=ro', uri=True).execute(query):\n"
        "    print('|'.join('' if value is None else str(value) for value in row))\n",
        encoding="utf-8",
    )
    (tools / "sqlite3").chmod(0o755)
    return tools


@pytest.mark.parametrize("block", blocks(SQL, "python"), ids=["pandas"])
def test_python_examples_run(block: Block, filled: str) -> None:
    environment = {**os.environ, "SHUFFLEBOARD_DATABASE_URL": filled}
    done = subprocess.run(
        [sys.executable, "-c", block.text], capture_output=True, text=True, env=environment, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "their-model" in done.stdout

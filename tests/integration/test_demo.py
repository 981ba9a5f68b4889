"""The parts of `shuffleboard demo` that need no model."""

import gzip
import json
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest
from sqlalchemy import func, select

from registry.benchmarks.contract import read_benchmark
from registry.db import get_engine, read_session
from registry.settings import Settings
from registry.tables import ChainLink
from shuffleboard import recorded
from shuffleboard.cli import demo
from shuffleboard.recorded import BENCHMARKS, FOLDER, TABLE, import_recorded
from tests.docs.pages import DOCS, blocks
from tests.support.commands import shuffleboard
from web import create_app


def check_links(said: str, home: Path) -> None:
    """Check that the printed links lead to pages with the data, and that importing everything again adds nothing."""
    links = re.findall(r"http://127\.0\.0\.1:8000(/\S+)", said)
    assert [re.sub(r"\d+", "N", link).partition("?")[0] for link in links] == [
        "/boards/demo",
        "/evaluations/N/questions/N",
        "/sql",
        "/boards/mmlu-pro-sample:",
    ]
    url = f"sqlite:///{home / 'shuffleboard.db'}"
    client = create_app(Settings(database_url=url, anonymous_sql=True)).test_client()
    for link, shown in zip(links[:3], ("What the order of the options costs", "Right in", "29 rows"), strict=True):
        page = client.get(link)
        assert page.status_code == 200
        assert shown in page.text
    engine = get_engine(url)

    def links_of_the_chain() -> int:
        # Links of folders are added meanwhile, since the SQL page causes folders to be written.
        imported = select(func.count()).select_from(ChainLink).where(ChainLink.kind != "folder")
        with read_session(engine) as session:
            return session.scalar(imported) or 0

    before = links_of_the_chain()
    assert import_recorded(engine).question
    assert links_of_the_chain() == before


FEW = 60


@pytest.fixture
def few_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use only the recorded answers to the first questions, since all of them take 15 seconds."""
    folder = tmp_path / "recorded"
    folder.mkdir()
    kept = set()
    for _, file, *_ in BENCHMARKS:
        lines = gzip.decompress((FOLDER / file).read_bytes()).splitlines(keepends=True)[:FEW]
        (folder / file).write_bytes(gzip.compress(b"".join(lines)))
        kept |= {json.loads(line)["id"] for line in lines}
    for file in {path.name for path in FOLDER.glob("*.gz")} - {path.name for path in folder.iterdir()}:
        lines = gzip.decompress((FOLDER / file).read_bytes()).splitlines(keepends=True)
        if file == TABLE:
            few = [lines[0], *(line for line in lines if line.partition(b",")[0].decode() in kept)]
        else:
            few = list(takewhile(lambda line: json.loads(line)["question_id"] in kept, lines))
        (folder / file).write_bytes(gzip.compress(b"".join(few)))
    monkeypatch.setattr(recorded, "FOLDER", folder)


@pytest.mark.usefixtures("few_questions")
def test_recorded_answers_are_imported_once_and_lead_to_their_pages(tmp_path: Path) -> None:
    output = shuffleboard("demo", "--recorded", "--exit", home=tmp_path / "home").stdout
    words = " ".join(output.split())
    assert "Mistral-7B-Instruct on MedQA: " in words
    assert f"26 more models were asked {FEW} questions of MMLU-Pro once each" in words
    check_links(output, tmp_path / "home")


@pytest.mark.long
def test_recorded_answers_tell_the_story_without_torch(tmp_path: Path) -> None:
    home = tmp_path / "home"
    refused = tmp_path / "without"
    for name in ("torch", "transformers", "gguf"):
        (refused / name).mkdir(parents=True)
        (refused / name / "__init__.py").write_text("raise ModuleNotFoundError('not here', name=__name__)\n")
    command = [sys.executable, "-m", "shuffleboard.cli", "demo", "--recorded", "--exit"]
    environment = {"PYTHONPATH": f"{refused}:{Path(__file__).parents[2]}", "SHUFFLEBOARD_HOME": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=600)
    output = " ".join(done.stdout.split())
    (shown,) = (block.text for block in blocks(DOCS / "installation.md") if block.text.startswith("Mistral-7B"))
    assert " ".join(shown.partition("…")[0].split()) in output
    assert "changing the order costs 7.0 points of that (4.2 to 9.9)." in output
    assert "Right on 30.6 % (28.1 to 33.2 %) of the questions as printed." in output
    assert "Right in every one of 8 to 12 orders: 4.3 % (3.2 to 5.5 %)." in output
    assert "26 more models were asked 502 questions of MMLU-Pro once each: from 66.1 %" in output
    assert "shuffleboard evaluations import answers.csv --benchmark mmlu-pro-sample" in output
    check_links(done.stdout, home)


def test_without_the_workers_packages_it_first_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == "torch" else object())
    outcome = shuffleboard("demo", "--exit", status=2, home=tmp_path / "home")
    assert "torch is not installed" in outcome.stderr
    assert "shuffleboard demo --recorded" in outcome.stderr
    assert not (tmp_path / "home").exists()


def test_the_live_questions_are_the_tutorial_s() -> None:
    (listed,) = (block.text for block in blocks(DOCS / "tutorial.md") if '"id": "q1"' in block.text)
    assert (FOLDER / "everyday.jsonl").read_text(encoding="utf-8") == listed
    assert len(read_benchmark(FOLDER / "everyday.jsonl").questions) == 12

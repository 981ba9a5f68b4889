"""NonsenseQA on the command line: generated, stored once, and shown with what it is made of."""

import json
from typing import Any

import pytest
from sqlalchemy import select

from registry.benchmarks.nonsenseqa import generate_nonsenseqa
from registry.db import get_engine, read_session
from registry.lookups import find_version
from registry.tables import Question
from shuffleboard.cli import main


@pytest.fixture
def run(database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The command line in this process: its JSON document."""
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", database)

    def run(*arguments: object) -> Any:
        monkeypatch.setattr("sys.argv", ["shuffleboard", "benchmarks", *map(str, arguments), "--json"])
        main()
        return json.loads(capsys.readouterr().out)

    return run


def test_what_is_generated_is_stored_as_it_was_drawn(run, database: str) -> None:
    document = run("generate", "nonsenseqa", "--name", "nonsense", "--questions", 12, "--seed", 7)
    content = generate_nonsenseqa(12, 7)
    assert (document["questions"], document["few_shot_examples"], document["licence"]) == (12, 20, "MIT")
    assert (document["content_digest"], document["generated"]) == (content.content_digest, True)
    assert "--seed 7 (generator 1, words of wonderwords " in document["source"]
    with read_session(get_engine(database)) as session:
        version = find_version(session, "nonsense")
        of_version = select(Question).where(Question.benchmark_version_id == version.id, ~Question.few_shot)
        stored = session.scalars(of_version.order_by(Question.ordinal)).all()
        assert [row.text for row in stored] == [record.text for record in content.questions]
        options = [tuple(option.text for option in row.options) for row in stored]
        assert options == [record.options for record in content.questions]
    assert run("show", "nonsense")["answers"] == {"0": 3, "1": 3, "2": 3, "3": 3}


def test_the_same_seed_is_stored_once_and_another_is_another_version(run) -> None:
    first = run("generate", "nonsenseqa", "--name", "nonsense", "--questions", 4)
    assert run("generate", "nonsenseqa", "--name", "nonsense", "--questions", 4)["generated"] is False
    other = run("generate", "nonsenseqa", "--name", "nonsense", "--questions", 4, "--seed", 1)
    assert other["generated"] is True
    assert other["version"] != first["version"]


def test_numbers_out_of_range_store_nothing(
    run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["shuffleboard", "benchmarks", "generate", "nonsenseqa", "--name", "n", "--questions", "0"]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "Error: questions 0: give a number from 1 to 100,000\n"
    assert run("list") == {"benchmarks": []}

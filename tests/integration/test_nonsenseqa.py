"""NonsenseQA on the command line, which generates it, stores it once, and shows it with its parameters."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select

from registry.benchmarks.nonsenseqa import generate_nonsenseqa
from registry.db import get_engine, read_session
from registry.lookups import find_version
from registry.tables import Question
from tests.support.commands import shuffleboard, shuffleboard_json


@pytest.fixture
def run(database: str) -> Callable[..., Any]:
    """Return a function that runs `shuffleboard benchmarks …` and returns its JSON document."""
    return partial(shuffleboard_json, "benchmarks", database_url=database)


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


def test_numbers_out_of_range_store_nothing(run, database: str) -> None:
    command = ("benchmarks", "generate", "nonsenseqa", "--name", "n", "--questions", 0)
    refused = shuffleboard(*command, status=2, database_url=database)
    assert refused.stderr == "Error: questions 0: give a number from 1 to 100,000\n"
    assert run("list") == {"benchmarks": []}

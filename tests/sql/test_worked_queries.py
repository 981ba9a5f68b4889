"""Worked queries, which return the right numbers on both engines and are quoted exactly in the documentation."""

import numpy as np
import pytest
from sqlalchemy import select, text, update

from registry.db import read_session, write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.schema.selectables import Row, rows_of
from registry.sql.examples import EXAMPLES
from registry.tables import Model
from tests.docs.pages import DOCS
from tests.outputs.conftest import Registry, four_options, registry

__all__ = ["registry"]

ITEMS = "How hard is each question, and does it tell strong models from weak ones?"
THOUGHTS = "How does accuracy change with the length of the thought?"
SIZES = "How does a model do against others of its size?"
QUESTIONS = four_options(8)
RIGHT = {"m": "11111110", "second": "11110110", "third": "11100011", "fourth": "10000001"}
"""Model → its outcome on each question."""
PARAMETERS = {"m": 8_000_000_000, "second": 4_000_000_000, "third": 3_999_999_999, "fourth": None}


def answer(registry: Registry, model: str, thoughts: bool = False) -> None:
    """Import the model's answers, with or without thoughts whose length grows with the question's number."""
    lines = []
    for number, question in enumerate(QUESTIONS):
        position = (question["answer"] + (RIGHT[model][number] == "0")) % 4
        line = {"question_id": question["id"], "variant": 0, "order": [0, 1, 2, 3]}
        written = {"text": f"Answer: {'ABCD'[position]}", "reasoning": "x" * (10 + number)} if thoughts else {}
        lines.append(line | {"position": position} | written)
    path = registry.file(f"{model}.jsonl", lines)
    import_outputs(registry.engine, ImportRequest(path, model, "b", "original"))


def ask(registry: Registry, question: str) -> list[Row]:
    with read_session(registry.engine) as session:
        return rows_of(session, text(EXAMPLES[question]))


@pytest.fixture
def answered(registry: Registry) -> Registry:
    registry.benchmark("b", QUESTIONS)
    for model in RIGHT:
        if model != "m":
            registry.model(model)
        answer(registry, model)
    with write_session(registry.engine) as session:
        for model in session.scalars(select(Model)):
            session.execute(update(Model).where(Model.id == model.id).values(parameters=PARAMETERS[model.name]))
    return registry


def test_difficulty_and_discrimination_of_questions_are_right(answered: Registry) -> None:
    scores = np.array([[int(outcome) for outcome in outcomes] for outcomes in RIGHT.values()], float)
    by_question = {row["external_id"]: row for row in ask(answered, ITEMS)}
    assert {row["evaluations"] for row in by_question.values()} == {4}
    for place, question in enumerate(QUESTIONS):
        row, own = by_question[question["id"]], scores[:, place]
        assert row["difficulty"] == pytest.approx(own.mean())
        if own.std() == 0:
            assert row["discrimination"] is None
        else:
            others = scores.sum(axis=1) - own
            assert row["discrimination"] == pytest.approx(np.corrcoef(own, others)[0, 1])
    assert by_question["q7"]["discrimination"] < 0  # weaker models do better


def test_accuracy_is_shown_for_short_and_long_thoughts(registry: Registry) -> None:
    registry.benchmark("b", QUESTIONS)
    answer(registry, "m", thoughts=True)
    assert [
        (row["quarter"], row["questions"], float(row["shortest"]), float(row["longest"]), float(row["mean_accuracy"]))
        for row in ask(registry, THOUGHTS)
    ] == [(1, 2, 10, 11, 1), (2, 2, 12, 13, 1), (3, 2, 14, 15, 1), (4, 2, 16, 17, 0.5)]


def test_evaluations_without_thoughts_have_no_lengths(answered: Registry) -> None:
    assert ask(answered, THOUGHTS) == []


def test_models_of_half_to_twice_the_size_are_compared(answered: Registry) -> None:
    pairs = [(row["model"], row["other_model"], row["difference"]) for row in ask(answered, SIZES)]
    assert pairs == [
        ("m", "second", pytest.approx(1 / 8)),
        ("second", "third", pytest.approx(1 / 8)),
        ("second", "m", pytest.approx(-1 / 8)),
        ("third", "second", pytest.approx(-1 / 8)),
    ]


def test_the_documentation_has_these_queries_word_by_word() -> None:
    page = (DOCS / "sql.md").read_text(encoding="utf-8")
    for question in (ITEMS, THOUGHTS, SIZES):
        assert f"{question}\n\n" in page
        assert f"```sql\n{EXAMPLES[question]}\n```" in page

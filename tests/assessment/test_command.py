"""The command `shuffleboard statistics assess`."""

import json
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.assessment.outputs import MODELS
from tests.support.commands import shuffleboard, shuffleboard_json

SUBSETS = ["original", "original-inverse", "cyclic", "random2", "randomL"]


def make(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


@pytest.fixture(scope="module")
def document(sqlite_assessed: Engine) -> Any:
    return shuffleboard_json("assess", database_url=make(sqlite_assessed))


def test_json_is_one_document_with_every_table(document: Any) -> None:
    assert set(document) == {
        "points",
        "subsets",
        "correlations",
        "stability",
        "tolerance",
        "recommendations",
        "notes",
    }
    assert list(document["subsets"]) == [*SUBSETS, "full"]
    assert document["tolerance"] == 0.02
    assert set(document["points"][0]) == {
        "model",
        "benchmark",
        "protocol",
        "evaluation",
        "questions",
        "options",
        "accuracy",
        "fluctuation_rate",
        "prompts_per_question",
        "values",
        "n",
        "stability",
    }
    assert set(document["correlations"][0]) == {"subset", "metric", "points", "r_squared", "rmse"}
    assert set(document["recommendations"][0]) == {"target", "recommended", "reason", "candidates", "caveats"}
    assert set(document["recommendations"][0]["recommended"]) == {
        "subset",
        "metric",
        "r_squared",
        "r_squared_range",
        "rmse",
        "rmse_without_metric",
        "points",
        "prompts_per_question",
        "prompts_per_question_full",
        "saving",
    }


def test_text_shows_tables_and_recommendations(sqlite_assessed: Engine) -> None:
    command = ("assess", "--tolerance", "0.3")
    document = shuffleboard_json(*command, database_url=make(sqlite_assessed))
    shown = shuffleboard(*command, database_url=make(sqlite_assessed)).stdout
    for model in MODELS:
        assert f"{model}@1" in shown
    worst = next(
        cell for cell in document["correlations"] if (cell["subset"], cell["metric"]) == ("cyclic", "worst_accuracy")
    )
    of_target = shown.split("R² with full fluctuation rate")[1].split("R² with")[0]
    (line,) = (line for line in of_target.splitlines() if line.startswith("Worst accuracy"))
    assert line.split()[4] == f"{worst['r_squared']['fluctuation_rate']:.3f}"  # after its name, two words, two subsets
    assert "Standard deviation over 100 random draws" in shown
    for item in document["recommendations"]:
        assert f" on {item['recommended']['subset']}, R² {item['recommended']['r_squared']:.3f}" in shown
        assert item["caveats"][0] in shown


def test_text_says_why_nothing_is_recommended(sqlite_assessed: Engine) -> None:
    shown = shuffleboard("assess", "--model", "good", database_url=make(sqlite_assessed)).stdout
    assert shown.count("no recommendation (too few points: 3") == 3


def test_an_empty_registry_is_told_what_to_queue(sqlite_database: str) -> None:
    outcome = shuffleboard("assess", status=1, database_url=sqlite_database)
    assert outcome.stdout == ""
    assert "--variants full" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_the_old_name_does_the_same_and_says_the_new_one(sqlite_assessed: Engine, document: Any) -> None:
    outcome = shuffleboard("protocol", "--json", database_url=make(sqlite_assessed))
    assert json.loads(outcome.stdout) == document
    assert outcome.stderr == ""

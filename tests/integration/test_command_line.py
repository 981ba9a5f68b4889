"""The command line: the path through the tutorial with a tiny model, and the modules and time that commands need."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from registry import formats
from registry.db import get_engine, read_session, write_session
from registry.lookups import find_evaluation
from registry.metrics import METRICS
from registry.metrics.catalogue import ALL_NAMES, SHOWN
from registry.predictions.prompts import prompts_of
from registry.queue.evaluations import select_questions
from registry.sealed.manifest import list_sealed_columns
from tests.support.commands import ROOT, shuffleboard, shuffleboard_json, shuffleboard_process
from tests.support.population import MMLU, add_benchmark, add_model, question, queue_evaluation, table_counts

LIMIT = 4


def test_the_whole_path_with_a_worker_of_its_own(
    clean_environment: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = shuffleboard_json("benchmarks", "import", MMLU, "--name", "mmlu", "--licence", "MIT")
    assert (imported["benchmark"], imported["imported"]) == ("mmlu", True)
    assert imported["questions"] + imported["few_shot_examples"] == len(MMLU.read_text("utf-8").splitlines())

    added = shuffleboard_json(
        "models", "add", "Tiny", "--kind", "huggingface", "--location", tiny_folder, "--family", "Random"
    )
    assert (added["state"], added["dtype"], added["added"]) == ("ready", "float32", True)

    with monkeypatch.context() as gpu:
        gpu.setattr("workers.fingerprint.driver_version", lambda: "580.95")
        on_gpus = shuffleboard_json("models", "add", "Tiny-on-GPUs", "--kind", "huggingface", "--location", tiny_folder)
    assert on_gpus["dtype"] == "bfloat16"

    options = ("--model", "Tiny", "--benchmark", "mmlu", "--variants", "cyclic", "--limit", LIMIT)
    estimated = shuffleboard_json("evaluations", "estimate", *options)
    (estimate,) = estimated["estimates"]
    (engine,) = estimated["engines"]
    assert (engine["model"], engine["engine"], engine["because"]) == ("Tiny", "token trie", None)
    assert engine["smallest"] == "gpu-16"
    assert shuffleboard_json("models", "show", "Tiny")["engines"]["cpu"]["engine"] == "token trie"
    assert (estimate["prompts"], estimate["prompts_sampled"], estimate["seconds"]) == (LIMIT * 4, LIMIT * 4, None)
    assert estimate["tokens_shared"] < estimate["tokens_naive"]

    submit = (*options, "--wait")
    submitted = shuffleboard("evaluations", "submit", *submit)
    evaluation_id = json.loads(submitted.stdout)["evaluation"]
    assert "no worker is running: starting one" in submitted.stderr

    again = shuffleboard("evaluations", "submit", *submit)  # complete: nothing to wait for
    assert json.loads(again.stdout) == {"evaluation": evaluation_id}
    assert "already has this specification" in again.stderr

    shown = shuffleboard_json("evaluations", "show", evaluation_id)
    assert (shown["state"], shown["prompts_done"], shown["failures"]) == ("complete", LIMIT * 4, 0)
    assert shown["tokens_naive"] == estimate["tokens_naive"]
    (again_estimated,) = shuffleboard_json("evaluations", "estimate", *options, "--replicate")["estimates"]
    assert again_estimated["seconds"] > 0
    assert shuffleboard_json("evaluations", "list")["evaluations"][0]["evaluation_id"] == evaluation_id

    metrics = shuffleboard_json("metrics", evaluation_id, "--per-question")
    assert metrics | {"metrics": 0, "intervals": 0, "per_question": 0} == {
        "evaluation": evaluation_id,
        "metrics": 0,
        "intervals": 0,
        "questions": LIMIT,
        "scored": LIMIT,
        "complete": True,
        "distinct_prompts": {"min": 4, "max": 4},
        "noise": None,
        "clustered": None,
        "sample": None,
        "undefined": {name: why for name, why in metrics["undefined"].items() if metrics["metrics"][name] is None},
        "asked": "4 orders",
        "chance": 0.25,
        "per_question": 0,
    }
    assert list(metrics["metrics"]) == list(metrics["intervals"]) == list(SHOWN)
    assert len(metrics["per_question"]) == LIMIT
    assert {tuple(values) for values in metrics["per_question"].values()} == {SHOWN}
    assert metrics["metrics"]["average_accuracy"] is not None

    (row,) = shuffleboard_json("leaderboard")["rows"]
    assert (row["model"], row["benchmark"], row["variants"]) == ("Tiny", "mmlu", "cyclic")
    assert (row["scored"], row["questions"], row["complete"]) == (LIMIT, LIMIT, True)
    for name in METRICS.keys() & row.keys():
        assert row[name] == pytest.approx(metrics["metrics"][name], abs=1e-9), name

    (from_csv,) = csv.DictReader(io.StringIO(shuffleboard("leaderboard", "--csv").stdout))
    nested = [key for key, value in row.items() if isinstance(value, dict)]
    assert [
        key for key in row if key not in (*nested, "prompts", "not_ranked", "ranked_by", "missing_answers", "cost")
    ] == [*from_csv]
    assert float(from_csv["average_accuracy"]) == row["average_accuracy"]
    assert "Tiny" in shuffleboard("leaderboard").stdout

    provenance = shuffleboard_json("provenance", evaluation_id)
    assert provenance["model"]["weights_digest"] == added["weights_digest"]
    assert provenance["benchmark"]["content_digest"] == imported["content_digest"]
    (shard,) = provenance["shards"]
    assert shard["engine_fingerprint"]["packages"].keys() >= {"torch", "transformers", "tokenizers"}
    assert (shard["claims"], provenance["mixed_engines"]) == (1, False)

    verified = shuffleboard_json("verify", evaluation_id)
    assert verified == {
        "evaluation": evaluation_id,
        "seal": provenance["seal"],
        "seal_version": formats.SEAL,
        "sealed_columns": list(list_sealed_columns(formats.SEAL)),
        "ok": True,
        "problems": [],
        "questions": [],
    }

    # Somebody changes a stored number: verify names the question.
    engine = get_engine(f"sqlite:///{clean_environment / 'shuffleboard.db'}")
    with write_session(engine) as session:
        connection = session.connection()
        # A user who may write the file can remove its triggers.
        for (trigger,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").all():
            connection.exec_driver_sql(f"DROP TRIGGER {trigger}")
        connection.exec_driver_sql("UPDATE prediction SET chosen_option = (chosen_option + 1) % 4")
    engine.dispose()
    changed = shuffleboard("verify", evaluation_id, "--json", status=1)
    document = json.loads(changed.stdout)
    assert (document["ok"], len(document["questions"])) == (False, LIMIT)
    assert "seal: " in changed.stderr


# Every command that reports writes one JSON document to stdout, and nothing else.


@pytest.fixture
def evaluation_id(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return a queued evaluation that has no scores yet."""
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", database)
    return queue_evaluation(get_engine(database), tmp_path, shards=2)


REPORTS = [
    ("db", "current"),
    ("db", "check"),
    ("db", "upgrade"),
    ("benchmarks", "list"),
    ("benchmarks", "show", "bench"),
    ("models", "list"),
    ("models", "show", "fake"),
    ("evaluations", "list"),
    ("evaluations", "show", "1"),
    ("metrics", "1"),
    ("metrics", "1", "--per-question", "--without-flagged"),
    ("leaderboard",),
    ("leaderboard", "--benchmark", "bench", "--variants", "cyclic"),
    ("provenance", "1"),
    ("evaluations", "pause", "1"),
    ("evaluations", "cancel", "1"),
    ("evaluations", "retry", "1"),
]


@pytest.mark.long_on("postgresql")
@pytest.mark.parametrize("command", REPORTS, ids=" ".join)
def test_reports_are_one_json_document_or_text(
    evaluation_id: int,
    command: tuple[str, ...],
) -> None:
    assert evaluation_id == 1
    assert isinstance(shuffleboard_json(*command), dict)
    assert shuffleboard(*command).stdout.strip()


def test_an_incomplete_evaluation_reports_every_metric_as_null(evaluation_id: int) -> None:
    document = shuffleboard_json("metrics", evaluation_id, "--per-question", "--papers")
    nulls: dict[str, Any] = dict.fromkeys(ALL_NAMES)
    assert document == {
        "evaluation": evaluation_id,
        "metrics": nulls,
        "intervals": nulls,
        "questions": 2,
        "scored": 0,
        "complete": False,
        "distinct_prompts": {"min": None, "max": None},
        "noise": None,
        "clustered": None,
        "sample": None,
        "undefined": dict.fromkeys(ALL_NAMES, "Not scored completely yet"),
        "asked": None,
        "chance": 0.25,
        "per_question": {"q0": nulls, "q1": nulls},
    }


@pytest.mark.one_engine
def test_verifying_an_evaluation_that_is_not_sealed_says_so(evaluation_id: int) -> None:
    assert shuffleboard_json("verify", evaluation_id, status=1)["problems"] == ["not sealed: it is queued"]


def test_importing_and_adding_the_same_again_stores_nothing(database: str, tmp_path: Path) -> None:
    engine = get_engine(database)
    with write_session(engine) as session:
        add_benchmark(session, tmp_path, [question(0)])
        add_model(session)
    before = table_counts(engine)
    again = ("benchmarks", "import", tmp_path / "bench.jsonl", "--name", "bench")
    assert shuffleboard_json(*again, database_url=database)["imported"] is False
    assert table_counts(engine) == before


@pytest.mark.one_engine
def test_cells_that_a_spreadsheet_would_run_are_disarmed(database: str, tmp_path: Path) -> None:
    queue_evaluation(get_engine(database), tmp_path, model="-model")
    (row,) = csv.DictReader(io.StringIO(shuffleboard("leaderboard", "--csv", database_url=database).stdout))
    assert row["model"] == "'-model"


def test_the_prompt_shown_beforehand_is_the_one_that_is_asked(database: str, evaluation_id: int) -> None:
    engine = get_engine(database)
    with read_session(engine) as session:
        evaluation = find_evaluation(session, evaluation_id)
        questions = select_questions(session, evaluation.benchmark_version)
        prompts = {
            (shard_prompt.question.external_id, shard_prompt.variant.ordinal): shard_prompt.prompt
            for shard_prompt in prompts_of(session, evaluation, questions)
        }
    first, last = min(prompts), max(prompts)
    command = ("protocols", "prompt", "symbols", "--benchmark", "bench", "--variants", "cyclic")
    shown = shuffleboard_json(*command, "--question", last[0], "--variant", last[1])
    assert (shown["prompt"], shown["digest"]) == (prompts[last].text, prompts[last].digest)
    assert shown["continuations"] == list(prompts[last].continuations)
    assert shuffleboard(*command).stdout == f"{prompts[first].text}\n"


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--question", "q999"), "has no question 'q999'"),
        (("--variants", "cyclic", "--variant", "9"), "has no variant 9 under cyclic: use 0, 1, 2, 3"),
        (("--shots", "7"), "7 shots requested"),
    ],
)
def test_a_prompt_that_cannot_be_shown_says_why(
    evaluation_id: int,
    options: tuple[str, ...],
    problem: str,
) -> None:
    assert evaluation_id == 1
    refused = shuffleboard("protocols", "prompt", "symbols", "--benchmark", "bench", *options, status=None)
    assert refused.returncode != 0
    assert problem in refused.stderr


@pytest.mark.one_engine
def test_the_table_of_the_leaderboard_says_how_each_row_was_asked(evaluation_id: int) -> None:
    assert evaluation_id == 1
    headings, row = shuffleboard("leaderboard").stdout.splitlines()
    assert headings.split()[3:8] == ["Variants", "Asked", "Protocol", "Shots", "Chance"]
    # Not scored yet, so the number of orders is unknown.
    assert row.split()[3:8] == ["cyclic", "–", "symbols", "0", "–"]


def test_an_empty_leaderboard_is_still_a_document(sqlite_database: str) -> None:
    assert shuffleboard_json("leaderboard", database_url=sqlite_database) == {"rows": []}


def test_a_misspelt_command_is_answered_with_the_likeliest() -> None:
    assert "Did you mean 'models'?" in shuffleboard("modles", status=2).stderr


# Weight


LOADED = """
import json, sys
for statement in json.loads(sys.argv[1]):
    exec(statement)
    print("loaded", *sorted({name.partition(".")[0] for name in sys.modules}), flush=True)
"""


def modules_after(*statements: str) -> list[set[str]]:
    """Run the statements in one process; return the top-level names of the modules imported after each."""
    outcome = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(statements)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    modules = [set(line.split()[1:]) for line in outcome.stdout.splitlines() if line.startswith("loaded ")]
    assert len(modules) == len(statements), outcome.stderr
    return modules


HEAVY = {
    *("alembic", "argon2", "celery", "flask", "httpx2", "numpy", "pandas", "pyarrow", "redis", "scipy"),
    *("structlog", "torch", "transformers"),
}


def modules_of_commands(*commands: str) -> dict[str, set[str]]:
    run = "from shuffleboard.cli import cli\ncli.main({!r}, standalone_mode=False)"
    return dict(zip(commands, modules_after(*(run.format(command.split()) for command in commands)), strict=True))


def test_what_is_said_before_a_command_loads_neither_database_nor_settings() -> None:
    for option, modules in modules_of_commands("--help", "--version").items():
        assert modules & (HEAVY | {"sqlalchemy", "pydantic"}) == set(), option


@pytest.mark.one_engine
def test_a_command_that_shows_rows_loads_nothing_that_computes_or_serves(evaluation_id: int) -> None:
    shown = f"evaluations show {evaluation_id}"
    lists = ("models list", "benchmarks list", "evaluations list", "leaderboard", "db check")
    for command, modules in modules_of_commands(*lists, shown, f"metrics {evaluation_id}").items():
        assert "sqlalchemy" in modules, command
        assert modules & HEAVY == set(), command


def test_all_but_a_worker_that_scores_does_without_torch() -> None:
    commands = ("shuffleboard.cli.evaluations", "shuffleboard.cli.demo", "shuffleboard.cli.beat")
    names = ("web", *commands, "registry.leaderboard.reports", "workers.loop", "workers.celery", "workers.scorer")
    for name, modules in zip(names, modules_after(*(f"import {name}" for name in names)), strict=True):
        assert modules & {"torch", "transformers", "sentence_transformers"} == set(), name


def test_help_answers_within_half_a_second_of_computing() -> None:
    def seconds() -> float:
        before = os.times()
        shuffleboard_process("--help")
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    # Use the least of several times, since other processes slow even the computing down.
    assert any(seconds() < 0.5 for _ in range(5))


@pytest.mark.parametrize(
    "command", [("db",), ("benchmarks",), ("models",), ("evaluations",), ("metrics",), ("worker",)]
)
def test_every_command_has_help(command: tuple[str, ...]) -> None:
    assert "Usage: " in shuffleboard(*command, "--help").stdout

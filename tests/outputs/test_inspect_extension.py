"""A run with our extension of Inspect AI, whose log, audit, and board from the hook must agree."""

import json
import os
import re
import subprocess
import sysconfig
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import func, select

from registry.db import get_engine, read_session
from registry.prompting.variants import QuestionShape, parse_variants
from registry.tables import Evaluation
from tests.support.commands import ROOT, command_process, eventually, shuffleboard, shuffleboard_json
from tests.web.accounts import add_account, token_of

pytestmark = pytest.mark.one_engine


@pytest.fixture(scope="module")
def inspect_python() -> Path:
    """Return a Python with Inspect AI, which finds the project and its dependencies on PYTHONPATH."""
    python = ROOT / ".venv-inspect" / "bin" / "python"
    if not python.exists():
        pytest.fail(f"{python} is missing; run `make peer`")
    return python


def _run(python: Path, folder: Path, variants: str, **environment: str) -> tuple[dict[str, Any], str]:
    """Run the task; return the log's place and numbers, and everything that was printed."""
    path = os.pathsep.join([str(ROOT), sysconfig.get_paths()["purelib"]])
    done = subprocess.run(
        [python, ROOT / "tests" / "peer" / "inspect_run.py", folder, variants],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path, "SHUFFLEBOARD_HOME": str(folder / "home")} | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr


# 1,600 samples of Inspect are a minute of computing.
@pytest.mark.long
def test_log_audit_and_board_of_an_inspect_run_have_the_same_numbers(
    inspect_python: Path, sqlite_database: str, tmp_path: Path
) -> None:
    log, output = _run(inspect_python, tmp_path, "cyclic:repeats=2", SHUFFLEBOARD_DATABASE_URL=sqlite_database)
    assert f"shuffleboard: {log['log']} is evaluation 1" in output
    (audited,) = shuffleboard_json("audit", log["log"], "--fail-on", "never")["logs"]
    assert (audited["questions"], audited["answers"]) == (200, 1600)
    assert audited["orders"]["orders"] == 4
    (row,) = shuffleboard_json("leaderboard", database_url=sqlite_database)["rows"]
    assert (row["model"], row["benchmark"], row["variants"]) == ("mockllm-model", "sums", "cyclic:repeats=2")
    assert log["accuracy"] == audited["stated_accuracy"]
    # The mean over orders and repeats: the board's own accuracy is that of the original order.
    assert log["accuracy"] == pytest.approx(audited["accuracy"], abs=1e-12)
    assert log["accuracy"] == pytest.approx(row["average_accuracy"], abs=1e-12)
    assert row["accuracy"] == pytest.approx(log["first_order"], abs=1e-12)
    metrics = shuffleboard_json("metrics", row["evaluation_id"], database_url=sqlite_database)["metrics"]
    assert _shared(metrics, audited) == pytest.approx(audited["orders"]["metrics"], abs=1e-12)
    assert row["order_loss"] == pytest.approx(metrics["order_loss"], abs=0)
    # By definition of the metrics, from the log's own scores.
    for name in ("right_twice_same_order", "right_twice_across_orders"):
        assert metrics[name] == pytest.approx(log[name], abs=1e-12)
    assert metrics["chance_loss"] == pytest.approx(log["accuracy"] - log["right_twice_same_order"], abs=1e-12)
    lost = log["right_twice_same_order"] - log["right_twice_across_orders"]
    assert metrics["order_loss"] == pytest.approx(lost, abs=1e-12)
    assert len({round(value, 6) for value in audited["orders"]["metrics"].values()} | {row["accuracy"]}) == 10


def _shared(metrics: dict[str, Any], audited: dict[str, Any]) -> dict[str, Any]:
    return {name: metrics[name] for name in audited["orders"]["metrics"]}


def test_an_audit_of_repeated_orders_has_the_numbers_of_their_import(sqlite_database: str) -> None:
    log = ROOT / "tests" / "data" / "inspect" / "permuted.json"
    shuffleboard("benchmarks", "import", log, "--name", "csqa", database_url=sqlite_database)
    shuffleboard("models", "add", "m", "--kind", "external", database_url=sqlite_database)
    options = ("--model", "m", "--benchmark", "csqa", "--variants", "cyclic:repeats=2")
    imported = shuffleboard_json("evaluations", "import", log, *options, database_url=sqlite_database)
    metrics = shuffleboard_json("metrics", imported["evaluation"], database_url=sqlite_database)["metrics"]
    (audited,) = shuffleboard_json("audit", log, "--fail-on", "never")["logs"]
    assert _shared(metrics, audited) == pytest.approx(audited["orders"]["metrics"], abs=1e-12)
    assert metrics["average_accuracy"] == pytest.approx(audited["accuracy"], abs=1e-12)


@pytest.mark.parametrize("variants", ["shuffle:m=3", "shuffle:m=3,repeats=2", "shuffle:m=5,repeats=3,seed=1"])
def test_an_audit_of_orders_drawn_twice_has_their_import_s_numbers(
    sqlite_database: str, tmp_path: Path, variants: str
) -> None:
    random, definition = Random(variants), parse_variants(variants)
    questions, answers = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    lines: list[str] = []
    twice = 0
    with questions.open("w", encoding="utf-8") as file:
        for number in range(30):
            name, right = f"q{number}", random.randrange(3)
            options = [f"option {letter} of {number}" for letter in "abc"]
            file.write(json.dumps({"id": name, "question": name, "options": options, "answer": right}) + "\n")
            shown = definition.variants(QuestionShape(name, 3, right))
            twice += len({variant.order for variant in shown}) * definition.repeats < len(shown)
            for variant in shown:
                position = variant.order.index(right) if random.random() < 0.6 else random.choice((0, 1, 2, None))
                line = {"question_id": name, "variant": variant.ordinal, "order": variant.order, "position": position}
                lines.append(json.dumps(line) + "\n")
    answers.write_text("".join(lines), encoding="utf-8")
    assert twice > 10
    shuffleboard("benchmarks", "import", questions, "--name", "drawn", database_url=sqlite_database)
    shuffleboard("models", "add", "m", "--kind", "external", database_url=sqlite_database)
    arguments = ("--model", "m", "--benchmark", "drawn", "--variants", variants)
    imported = shuffleboard_json("evaluations", "import", answers, *arguments, database_url=sqlite_database)
    metrics = shuffleboard_json("metrics", imported["evaluation"], database_url=sqlite_database)["metrics"]
    audited = shuffleboard_json("audit", answers, questions, "--fail-on", "never")["logs"]
    (numbers,) = [log["orders"]["metrics"] for log in audited if log["answers"]]
    assert _shared(metrics, {"orders": {"metrics": numbers}}) == pytest.approx(numbers, abs=1e-12)


@pytest.mark.long
def test_no_registry_named_means_no_import(inspect_python: Path, sqlite_database: str, tmp_path: Path) -> None:
    environment = {"SHUFFLEBOARD_URL": "", "SHUFFLEBOARD_DATABASE_URL": "", "SHUFFLEBOARD_TEST_QUESTIONS": "2"}
    log, output = _run(inspect_python, tmp_path, "cyclic", **environment)
    assert Path(log["log"]).is_file()
    assert "shuffleboard:" not in output
    with read_session(get_engine(sqlite_database)) as session:
        assert session.scalar(select(func.count()).select_from(Evaluation)) == 0


@pytest.mark.long
def test_a_registry_that_does_not_answer_is_named_and_the_log_stays(inspect_python: Path, tmp_path: Path) -> None:
    environment = {"SHUFFLEBOARD_URL": "http://127.0.0.1:9", "SHUFFLEBOARD_TEST_QUESTIONS": "2"}
    log, output = _run(inspect_python, tmp_path, "cyclic", **environment)
    assert Path(log["log"]).is_file()
    assert f"shuffleboard: {log['log']} was not imported: http://127.0.0.1:9 does not answer" in output


def test_a_log_is_imported_into_a_served_registry_by_token(
    inspect_python: Path, sqlite_database: str, tmp_path: Path
) -> None:
    add_account(get_engine(sqlite_database), "maintainer", "maintainer")
    token = token_of(get_engine(sqlite_database), "maintainer")
    with command_process("serve", "--port", "0", database_url=sqlite_database) as website:
        eventually(lambda: "Shuffleboard is at" in website.log.read_text(), "the website starts")
        address = re.findall(r"http://127\.0\.0\.1:[0-9]+", website.log.read_text())[0]
        variables = {"SHUFFLEBOARD_URL": f"{address}/", "SHUFFLEBOARD_TEST_QUESTIONS": "3", "SHUFFLEBOARD_TOKEN": token}
        log, output = _run(inspect_python, tmp_path, "cyclic:repeats=2", **variables)
        assert f"shuffleboard: {log['log']} is {address}/evaluations/1" in output
        other, output = _run(inspect_python, tmp_path, "cyclic", **variables | {"SHUFFLEBOARD_TOKEN": ""})
        assert f"shuffleboard: {other['log']} was not imported: you are not signed in" in output
    assert token not in output
    (row,) = shuffleboard_json("leaderboard", database_url=sqlite_database)["rows"]
    assert (row["model"], row["benchmark"], row["variants"]) == ("mockllm-model", "sums", "cyclic:repeats=2")
    assert row["average_accuracy"] == pytest.approx(log["accuracy"], abs=1e-12)


def test_a_benchmark_from_a_permuted_log_has_the_original_order(sqlite_database: str, tmp_path: Path) -> None:
    log = ROOT / "tests" / "data" / "inspect" / "permuted.json"
    document = json.loads(log.read_text(encoding="utf-8"))
    # In the log of `backwards` the last rotation of each question comes first.
    document["samples"].sort(key=lambda sample: -sample["metadata"]["shuffleboard"]["variant"])
    backwards = tmp_path / "backwards.json"
    backwards.write_text(json.dumps(document), encoding="utf-8")
    benchmarks = [
        shuffleboard_json("benchmarks", "import", file, "--name", name, database_url=sqlite_database)
        for name, file in (("one", log), ("other", backwards))
    ]
    assert benchmarks[0]["questions"] == 5
    assert benchmarks[0]["content_digest"] == benchmarks[1]["content_digest"]

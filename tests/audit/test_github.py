"""The GitHub action and the pre-commit hook, run by a fake runner."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
LOG = [
    '{"question_id": "q1", "variant": 0, "order": [0, 1, 2], "position": 0, "text": "Answer: A"}',
    '{"question_id": "q2", "variant": 0, "order": [0, 1, 2], "position": null, "text": "I think the answer is B."}',
    '{"question_id": "q3", "variant": 0, "order": [0, 1, 2], "position": null, "text": "The answer is B."}',
]
QUESTIONS = [
    f'{{"id": "q{number}", "question": "Question {number}?", "options": ["a{number}", "b", "c"], "answer": 0}}'
    for number in (1, 2, 3)
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "answers, 50%.jsonl").write_text("\n".join(LOG) + "\n", encoding="utf-8")
    (tmp_path / "logs" / "questions.jsonl").write_text("\n".join(QUESTIONS) + "\n", encoding="utf-8")
    return tmp_path


def _run(workspace: Path, **given: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run all steps of the action except pip as a runner does; return the last step's process and the run's summary."""
    inputs = {name: str(declared.get("default", "")) for name, declared in ACTION["inputs"].items()} | given
    summary = workspace / "summary.md"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = None
    for step in ACTION["runs"]["steps"]:
        if "pip install" in step["run"]:
            continue
        values = {
            name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)
            for name, text in step["env"].items()
        }
        environment = {"PATH": path, "GITHUB_WORKSPACE": str(workspace), "GITHUB_STEP_SUMMARY": str(summary)}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command, cwd=workspace, env=environment | values, capture_output=True, text=True, check=False
        )
    assert done is not None
    return done, summary.read_text(encoding="utf-8") if summary.exists() else ""


def test_the_action_annotates_files_and_lines_and_fails_at_the_level(workspace: Path) -> None:
    done, summary = _run(workspace, paths="logs/")
    assert done.returncode == 1, done.stderr
    lost = [line for line in done.stderr.splitlines() if "SB301" in line]
    assert [line.partition(",title=")[0] for line in lost] == [
        f"::error file=logs/answers%2C 50%25.jsonl,line={number}" for number in (2, 3)
    ]
    assert summary.startswith("## Audit: ")
    assert "| error SB301 answers-lost | " in summary
    assert done.stdout.startswith("2 logs, 3 answers")
    assert _run(workspace, paths="logs/", **{"fail-on": "never"})[0].returncode == 0


def test_paths_of_the_action_are_words_and_no_commands(workspace: Path) -> None:
    done, _ = _run(workspace, paths="logs/ $(touch here) *")
    assert done.returncode == 1
    assert not (workspace / "here").exists()
    assert "$(touch" in done.stderr


def test_a_summary_that_cannot_be_written_is_named(workspace: Path) -> None:
    command = [sys.executable, "-m", "shuffleboard.cli", "audit", "logs/", "--github"]
    environment = os.environ | {"GITHUB_STEP_SUMMARY": str(workspace), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=workspace, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{workspace}: cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_action_has_the_form_that_github_publishes() -> None:
    command = [Path(sys.executable).parent / "check-jsonschema", "--builtin-schema", "vendor.github-actions"]
    done = subprocess.run([*command, ROOT / "action.yml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_pre_commit_hook_takes_samples_and_runs_the_audit(workspace: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    taken = [
        name for name in ("a/samples_mmlu_x.jsonl", "run.eval", "questions.jsonl") if re.search(hook["files"], name)
    ]
    assert taken == ["a/samples_mmlu_x.jsonl", "run.eval"]
    program, *arguments = hook["entry"].split()
    command = [Path(sys.executable).parent / program, *arguments, "logs/answers, 50%.jsonl", "logs/questions.jsonl"]
    done = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=False)
    assert (done.returncode, "SB301" in done.stdout) == (1, True), done.stderr

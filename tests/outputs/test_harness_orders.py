"""Orders in lm-evaluation-harness: the task that `shuffleboard orders` writes, and its samples as one evaluation."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import text

from registry.db import read_session, write_session
from registry.errors import IngestError
from registry.leaderboard.reports import evaluation_metrics
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import RevisionRequest, add_revision
from registry.settings import Settings
from shuffleboard import audit
from tests.outputs.conftest import Registry
from tests.support.commands import ROOT, shuffleboard, shuffleboard_json
from workers.artifacts import inspect_files
from workers.loop import WorkerLoop
from workers.scorer import TransformersScorer

QUESTIONS = [
    {"id": "q1", "question": "What is the capital of France?", "options": ["Paris", "Lyon", "Nice"], "answer": 0},
    {"id": "q2", "question": "What is the capital of Italy?", "options": ["Milan", "Rome"], "answer": 1},
    {"id": "q3", "question": "Which of them is the second?", "options": ["one", "one", "two"], "answer": 1},
    {
        "id": "q4",
        "question": "What is the capital of Peru?",
        "options": ["Lima", "Quito", "Cusco", "Bogota"],
        "answer": 0,
    },
]
COUNT = 3 + 2 + 3 + 4


def orders(registry: Registry, name: str = "rotations", *options: str) -> Path:
    registry.benchmark("capitals", QUESTIONS)
    folder = registry.folder / name
    shuffleboard("orders", "capitals", "--out", folder, *options, database_url=registry.url)
    return folder


def documents(folder: Path) -> list[dict[str, Any]]:
    (data,) = folder.glob("*.jsonl")
    return [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]


def logprobs(number: int, n_shown: int) -> list[float]:
    """Return log-probabilities in which a different option is best in each document."""
    return [-1.0 - (3 * position + number) % 5 for position in range(n_shown)]


def sample(number: int, doc: dict[str, Any]) -> dict[str, Any]:
    """Return a sample as the harness logs it."""
    values = logprobs(number, len(doc["choices"]))
    pairs = [[str(value), "False"] for value in values]
    calls = {
        f"gen_args_{n}": {"arg_0": doc["prompt"], "arg_1": continuation}
        for n, continuation in enumerate(doc["continuations"])
    }
    right = values.index(max(values)) == doc["answer"]
    return {
        "doc_id": number,
        "doc": doc,
        "target": str(doc["answer"]),
        "arguments": calls,
        "resps": [[pair] for pair in pairs],
        "filtered_resps": pairs,
        "filter": "none",
        "metrics": ["acc"],
        "acc": float(right),
    }


def numbers(registry: Registry, evaluation_id: int) -> tuple[dict[str, Any], dict[str, Any]]:
    with read_session(registry.engine) as session:
        document = evaluation_metrics(session, evaluation_id, per_question=True)
    assert document["complete"]
    return document["metrics"], document["per_question"]


def run_audit(log: Path) -> dict[str, float]:
    """Return the metrics that an audit computes."""
    (audited,) = audit.run([log]).logs
    return audited.document()["orders"]["metrics"]


def test_samples_of_written_orders_are_one_evaluation(registry: Registry) -> None:
    docs = documents(orders(registry))
    log = registry.file("samples_capitals-cyclic_now.jsonl", [sample(*item) for item in enumerate(docs)])
    plain = [
        {
            "question_id": doc["shuffleboard"]["question"],
            "variant": doc["shuffleboard"]["variant"],
            "order": doc["shuffleboard"]["order"],
            "logprobs": logprobs(number, len(doc["choices"])),
        }
        for number, doc in enumerate(docs)
    ]
    imported, expected = (
        numbers(registry, import_outputs(registry.engine, ImportRequest(path, "m", "capitals", "cyclic")))
        for path in (log, registry.file("plain.jsonl", plain))
    )
    assert imported == expected
    checked = run_audit(log)
    assert checked == pytest.approx({name: imported[0][name] for name in checked}, abs=1e-12)


@pytest.mark.one_engine
def test_the_task_has_a_document_for_each_order_with_our_prompt(registry: Registry) -> None:
    folder = orders(registry)
    written = (folder / "capitals-cyclic.yaml").read_text(encoding="utf-8")
    assert "custom_dataset: !function documents.load" in written.splitlines()
    task = yaml.safe_load(written.replace("!function ", ""))
    assert task["dataset_kwargs"] == {"documents": "capitals-cyclic.jsonl"}
    assert str(registry.folder) not in "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
    assert (task["target_delimiter"], task["output_type"]) == ("", "multiple_choice")
    docs = documents(folder)
    assert len(docs) == COUNT
    ours = shuffleboard_json(
        *("protocols", "prompt", "symbols", "--benchmark", "capitals", "--question", "q4"),
        *("--variants", "cyclic", "--every"),
        database_url=registry.url,
    )["prompts"]
    assert [(doc["prompt"], doc["continuations"], doc["shuffleboard"]["order"]) for doc in docs[-4:]] == [
        (prompt["prompt"], prompt["continuations"], prompt["order"]) for prompt in ours
    ]
    assert {doc["choices"][doc["answer"]] for doc in docs} == {"Paris", "Rome", "one", "Lima"}


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            ("--protocol", "final-answer"),
            "protocol final-answer: the model writes its answers; give a protocol that scores options",
        ),
        (("--variants", "wording"), "change more than the order; give one of"),
        (("--variants", "cyclic:repeats=2"), "leave out repeats"),
    ],
)
def test_orders_that_the_harness_cannot_score_are_refused(
    registry: Registry, options: tuple[str, ...], reason: str
) -> None:
    registry.benchmark("capitals", QUESTIONS)
    folder = registry.folder / "rotations"
    done = shuffleboard("orders", "capitals", "--out", folder, *options, database_url=registry.url, status=2)
    assert reason in done.stderr
    assert not folder.exists()


@pytest.mark.one_engine
def test_a_damaged_order_in_samples_is_an_error(registry: Registry) -> None:
    lines = [sample(*item) for item in enumerate(documents(orders(registry)))]
    for damaged in ([0, 0, 1], [0, 1], "first", [[0], 1, 2]):
        lines[2]["doc"]["shuffleboard"]["order"] = damaged
        log = registry.file("samples_capitals-cyclic_now.jsonl", lines)
        with pytest.raises(IngestError, match=r"line 3: order .* is no order of its 3 choices"):
            import_outputs(registry.engine, ImportRequest(log, "m", "capitals", "cyclic"))


def probabilities(registry: Registry, evaluation_id: int) -> dict[tuple[int, int, int], float]:
    """Return the probability of each position, by question and variant."""
    query = text("SELECT * FROM option_probability WHERE evaluation_id = :id")
    with read_session(registry.engine) as session:
        rows = session.execute(query, {"id": evaluation_id}).all()
    return {(row.question_id, row.variant, row.position): row.probability for row in rows}


@pytest.mark.long
@pytest.mark.one_engine
def test_orders_asked_by_the_harness_give_the_numbers_of_our_own_evaluation(
    registry: Registry, tiny_folder: Path, harness_python: Path, tmp_path: Path
) -> None:
    # The folder was moved, and the harness runs in another folder.
    (tmp_path / "moved").mkdir()
    orders(registry).rename(tmp_path / "moved" / "here")
    command = [
        *(harness_python, ROOT / ".venv-peer" / "bin" / "lm_eval", "run", "--model", "hf", "--device", "cpu"),
        *("--model_args", f"pretrained={tiny_folder},dtype=float32,prefix_token_id=0", "--tasks", "capitals-cyclic"),
        *("--include_path", "moved/here", "--log_samples", "--output_path", tmp_path / "out"),
    ]
    environment = os.environ | {"HF_HOME": str(tmp_path / "hub")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    (log,) = (tmp_path / "out").rglob("samples_*.jsonl")

    revision = RevisionRequest("huggingface", str(tiny_folder)).checked()
    with write_session(registry.engine) as session:
        add_revision(session, "tiny", revision, files=inspect_files(revision))
        own = submit(session, EvaluationRequest("tiny", "capitals", "cyclic"))[0].id
    settings = Settings(home=tmp_path, poll_seconds=0.05)
    loop = WorkerLoop(registry.engine, settings, TransformersScorer(tmp_path, "cpu"), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    imported = import_outputs(registry.engine, ImportRequest(log, "m", "capitals", "cyclic"))
    (theirs, their_questions), (ours, our_questions) = (numbers(registry, number) for number in (imported, own))
    assert theirs == pytest.approx(ours, abs=1e-5)
    assert probabilities(registry, imported) == pytest.approx(probabilities(registry, own), abs=1e-5)
    assert len(probabilities(registry, own)) == 3 * 3 + 2 * 2 + 3 * 3 + 4 * 4
    for question, values in our_questions.items():
        assert their_questions[question] == pytest.approx(values, abs=1e-5), question
    checked = run_audit(log)
    assert checked == pytest.approx({name: ours[name] for name in checked}, abs=1e-12)

"""Tasks of lm-evaluation-harness as benchmarks, read by the real harness from local data."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import select

from registry.benchmarks.contract import BenchmarkFile, QuestionRecord
from registry.benchmarks.store import import_benchmark
from registry.db import get_engine, read_session, write_session
from registry.errors import IngestError
from registry.exchange.harness_tasks import harness_task
from registry.exchange.harness_tasks.export import UnrepresentableError, question_of
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import RevisionRequest, add_revision
from registry.settings import Settings
from registry.tables import Prediction, Question
from tests.support.commands import ROOT, shuffleboard, shuffleboard_json
from workers.artifacts import inspect_files
from workers.loop import WorkerLoop
from workers.scorer import TransformersScorer

ROWS = [
    {
        "question": f"Which of these is number {number}?",
        "passage": f"There is a number {number}.",
        "choices": {
            "text": [f"{number} {name}" for name in ("apples", "pears", "plums", "figs")],
            "label": list("ABCD"),
        },
        "options": [f"{number} {name}" for name in ("apples", "pears", "plums", "figs")],
        "option_a": f"{number} apples",
        "option_b": f"{number} pears",
        "option_c": f"{number} plums",
        "option_d": f"{number} figs",
        "answerKey": "ABCD"[number % 4],
        "answer": number % 4,
        "right": f"{number} " + ("apples", "pears", "plums", "figs")[number % 4],
    }
    for number in range(6)
]
LISTED = r'"{{question}}\nA. {{options[0]}}\nB. {{options[1]}}\nC. {{options[2]}}\nD. {{options[3]}}\nAnswer:"'
SHAPES = {
    "jinja_list": r'''doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_choice: "{{choices.text}}"
doc_to_target: "{{choices.label.index(answerKey)}}"''',
    "column_list": r"""doc_to_text: question
doc_to_choice: options
doc_to_target: answer""",
    "target_is_the_text": r"""doc_to_text: "{{question}}"
doc_to_choice: "{{options}}"
doc_to_target: right""",
    "labels_and_a_list": f"""doc_to_text: {LISTED}
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer""",
    "labels_and_columns": r'''doc_to_text: "{{question}}\n(A) {{option_a}}\n(B) {{option_b}}\n(C) {{option_c}}\n(D) {{option_d}}\n"
doc_to_choice: ["(A)", "(B)", "(C)", "(D)"]
doc_to_target: "{{'ABCD'.index(answerKey)}}"''',
    "template_of_a_list": r'''doc_to_text: "{{passage}}\nQ: {{question}}\nA:"
doc_to_choice: "{{[option_a, option_b, option_c, option_d]}}"
doc_to_target: "{{answer}}"''',
    "functions": """doc_to_text: !function shapes.text
doc_to_choice: !function shapes.choices
doc_to_target: !function shapes.target""",
    "nested_few_shot": """doc_to_text: "{{question}}"
doc_to_choice: options
doc_to_target: answer
fewshot_config:
  split: train
  process_docs: !function shapes.renamed
  doc_to_text: "{{asked}}"
  doc_to_choice: "{{given}}"
  doc_to_target: "{{right}}\"""",
    "examples_of_a_function": """doc_to_text: "{{question}}"
doc_to_choice: options
doc_to_target: answer
fewshot_config:
  sampler: first_n
  samples: !function shapes.examples""",
    "processed": """process_docs: !function shapes.process
doc_to_text: "{{question}}"
doc_to_choice: options
doc_to_target: answer""",
}
SCORED = {
    "as_symbols": r"""doc_to_text: "The following are multiple choice questions (with answers).\n\n{{question}}\nA. {{options[0]}}\nB. {{options[1]}}\nC. {{options[2]}}\nD. {{options[3]}}\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer""",
    "as_cloze": r"""doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_choice: options
doc_to_target: answer""",
}
"""Tasks with the same prompts as our protocols."""
FUNCTIONS = """
def text(doc):
    return "Q: " + doc["question"] + " A:"

def choices(doc):
    return list(doc["options"])

def target(doc):
    return doc["answer"]

def renamed(dataset):
    return [{"asked": doc["question"], "given": doc["options"], "right": doc["right"]} for doc in dataset]

def examples():
    return EXAMPLES

def process(dataset):
    return dataset.filter(lambda doc: doc["answer"] < 4)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a task of each form, and a generating one, on the same questions.

    The last two rows are examples.
    """
    folder = tmp_path_factory.mktemp("tasks")
    for split, rows in {"test": ROWS[:4], "train": ROWS[4:]}.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    data = f"""dataset_path: json
dataset_kwargs:
  data_files:
    test: {folder / "test.jsonl"}
    train: {folder / "train.jsonl"}
test_split: test
training_split: train
fewshot_split: train
metadata:
  version: 2.0
"""
    metrics = "metric_list:\n  - metric: acc\n    aggregation: mean\n    higher_is_better: true\n"
    for name, shape in (SHAPES | SCORED).items():
        of_task = data + metrics
        if "samples:" in shape:
            of_task = of_task.replace("training_split: train\nfewshot_split: train\n", "")
        text = f"task: {name}\noutput_type: multiple_choice\n{of_task}{shape}\n"
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    written = f"task: written\noutput_type: generate_until\n{data}doc_to_text: question\ndoc_to_target: right\n"
    (folder / "written.yaml").write_text(written, encoding="utf-8")
    group = "group: every_shape\ntask:\n" + "".join(f"  - {name}\n" for name in SHAPES)
    (folder / "every_shape.yaml").write_text(group, encoding="utf-8")
    (folder / "shapes.py").write_text(f"EXAMPLES = {ROWS[4:]!r}\n{FUNCTIONS}", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def every_shape(folder: Path, harness_python: Path) -> tuple[BenchmarkFile, str]:
    """Return the tasks of all shapes as one benchmark, and its source."""
    return harness_task("every_shape", include_path=folder, python=str(harness_python))


def test_tasks_of_every_shape_have_the_harness_s_own_documents(every_shape: tuple[BenchmarkFile, str]) -> None:
    content, source = every_shape
    assert source.startswith("lm-evaluation-harness 0.4")
    assert "task every_shape version 2.0, dataset json, YAML " in source
    assert content.split == "test"
    for name in SHAPES:
        of_task = [one for one in content.questions if one.subject == name]
        assert [plain(one) for one in of_task] == [row_of(row) for row in ROWS[:4]], name
        assert {one.context for one in of_task} == (
            {row["passage"] for row in ROWS[:4]} if name == "template_of_a_list" else {None}
        )
        assert [plain(one) for one in content.pool if one.subject == name] == [row_of(row) for row in ROWS[4:]], name


@pytest.mark.long
@pytest.mark.one_engine
def test_our_prompts_score_as_the_harness_does_on_the_same_prompts(
    folder: Path,
    every_shape: tuple[BenchmarkFile, str],
    smollm2_folder: Path,
    harness_python: Path,
    sqlite_database: str,
    tmp_path: Path,
) -> None:
    command = [harness_python, ROOT / "tests" / "peer" / "harness_task_scores.py", folder, smollm2_folder, *SCORED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    theirs = json.loads(done.stdout)
    content, source = every_shape
    questions, pool = (
        [question for question in part if question.subject == "column_list"]
        for part in (content.questions, content.pool)
    )
    content = replace(content, questions=questions, pool=pool)
    engine = get_engine(sqlite_database)
    revision = RevisionRequest("huggingface", str(smollm2_folder)).checked()
    with write_session(engine) as session:
        import_benchmark(session, content, name="shapes", source=source)
        add_revision(session, "SmolLM2", revision, files=inspect_files(revision))
        ids = {
            f"as_{protocol}": submit(session, EvaluationRequest("SmolLM2", "shapes", "original", protocol=protocol))[
                0
            ].id
            for protocol in ("symbols", "cloze")
        }
    loop = WorkerLoop(engine, Settings(home=tmp_path, poll_seconds=0.05), TransformersScorer(tmp_path, "cpu"), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    for name, evaluation_id in ids.items():
        query = (
            select(Prediction.chosen_option, Prediction.correct)
            .join(Question, Question.id == Prediction.question_id)
            .where(Prediction.evaluation_id == evaluation_id)
        )
        with read_session(engine) as session:
            rows = session.execute(query.order_by(Question.ordinal)).all()
        assert [chosen for chosen, _ in rows] == theirs[name]["chosen"], name
        assert sum(correct for _, correct in rows) / len(rows) == pytest.approx(theirs[name]["acc"]), name


def plain(one: QuestionRecord) -> tuple[str, tuple[str, ...], int]:
    return one.text, one.options, one.answer


def row_of(row: dict[str, Any]) -> tuple[str, tuple[str, ...], int]:
    return row["question"], tuple(row["options"]), row["answer"]


def test_a_task_that_generates_is_refused_and_nothing_is_stored(
    folder: Path, harness_python: Path, sqlite_database: str
) -> None:
    options = ("benchmarks", "import", "--harness-task", "written", "--include-path", folder, "--name", "written")
    done = shuffleboard(*options, status=1, database_url=sqlite_database, harness_python=harness_python)
    assert done.stderr == (
        "Error: task written: cannot be a benchmark: written has output_type generate_until; multiple_choice is needed\n"
    )
    assert shuffleboard_json("benchmarks", "list", database_url=sqlite_database)["benchmarks"] == []


def test_a_python_without_the_harness_is_named(folder: Path) -> None:
    with pytest.raises(Exception, match=r"lm_eval is not installed for .*SHUFFLEBOARD_HARNESS_PYTHON"):
        harness_task("written", include_path=folder)


def task(text: Any, choices: Any, target: Any) -> SimpleNamespace:
    return SimpleNamespace(doc_to_text=lambda _: text, doc_to_choice=lambda _: choices, doc_to_target=lambda _: target)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (task(1, ["He ran.", "She ran."], 0), "beginnings of a text"),
        (task("Q", ["one", "two"], [0, 1]), "2 right answers"),
        (task("Q", ["one", "two"], "three"), "not exactly one of the choices"),
        (task("Q", ["one", "two"], -100), "not the index"),
        (task("Q", ["A", "B"], 0), "what they stand for is found neither"),
        (task("Q", "one", 0), "not a list"),
    ],
)
def test_what_is_no_question_with_options_is_refused_with_the_reason(asked: Any, reason: str) -> None:
    with pytest.raises(UnrepresentableError, match=reason):
        question_of(asked, {"note": "nothing"})


def test_a_damaged_answer_of_the_harness_is_an_error(tmp_path: Path) -> None:
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    silent.chmod(0o755)
    with pytest.raises(IngestError, match="wrote nothing"):
        harness_task("x", python=str(silent))

"""Planted faults in logs of six formats, which audits report, while clean logs have no errors."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.logs.audit.known import Benchmark
from registry.logs.audit.prompts import count_named_labels
from registry.logs.audit.report import Report, audit
from tests.audit.logs import WRITERS, clean, prompt_of


def names(report: Report, severity: str | None = None) -> set[str]:
    return {finding.kind.name for finding in report.findings if severity in (None, finding.severity)}


@pytest.mark.parametrize("format_", WRITERS)
def test_a_clean_log_has_no_errors(tmp_path, format_):
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        report = audit([WRITERS[format_](clean(seed, ("mmlu", "csqa")[seed % 2]), folder)])
        assert names(report, "error") == set(), report.text()
        assert names(report, "warning") <= {"answers-uneven", "keys-uneven", "undeclared-subset"}


def test_lightevals_metrics_that_extract_are_believed(tmp_path):
    log = clean(1)
    few = [replace(item, score=0.0) if item.score and number < 8 else item for number, item in enumerate(log.items)]
    for name, items, wanted in (
        ("fine", log.items, set()),
        ("lost", few, {"answers-lost", "score-contradicts-answer", "thought-read"}),
    ):
        folder = WRITERS["lighteval"](replace(log, items=items), tmp_path / name)
        (path,) = folder.rglob("*.parquet")
        rows = pq.read_table(path).to_pylist()
        for row in rows:
            row["metric"] = {"extractive_match": row["metric"]["em"]}
            row["model_response"]["text_post_processed"] = row["model_response"]["text"]
        pq.write_table(pa.Table.from_pylist(rows), path)
        (results,) = (folder.with_name("results")).rglob("*.json")
        results.write_text(results.read_text().replace('"em"', '"extractive_match"'))
        report = audit([folder])
        assert names(report, "error") == wanted, report.text()
        assert report.logs[0].stated == pytest.approx(replace(log, items=items).accuracy)


def harness(path: Path, docs: Sequence[dict[str, Any]], **line: Any) -> Report:
    path.write_text("".join(json.dumps({"doc_id": n, "doc": doc, **line}) + "\n" for n, doc in enumerate(docs)))
    return audit([path])


def test_tasks_of_the_harness_without_options_are_no_errors(tmp_path):
    call = {"gen_args_0": {"arg_0": "Question: 6 · 7?\nAnswer:", "arg_1": {}}}
    document = {"question": "6 · 7?", "answer": "#### 42"}
    report = harness(tmp_path / "samples_gsm8k_x.jsonl", [document] * 5, target="42", arguments=call, resps=[["42"]])
    assert names(report) == {"not-multiple-choice"}
    assert not report.fails("warning")
    # TruthfulQA's mc2 has several right options.
    report = harness(tmp_path / "samples_truthfulqa_mc2_x.jsonl", [{"mc2_targets": {}}], target=0)
    assert names(report) == {"not-multiple-choice"}


def test_options_in_the_middle_of_a_sentence(tmp_path):
    """Check WinoGrande: the options are in the contexts, their continuation is scored, and answers count from 1."""
    document = {"sentence": "Ann helped Bea because _ was ill.", "option1": "Ann", "option2": "Bea", "answer": "2"}
    calls = {
        str(n): {"arg_0": f"Ann helped Bea because {name}", "arg_1": " was ill."}
        for n, name in ((0, "Ann"), (1, "Bea"))
    }
    report = harness(
        tmp_path / "samples_winogrande_x.jsonl",
        [document],
        target="was ill.",
        arguments=calls,
        resps=[[["-3.0", "False"]], [["-1.0", "False"]]],
        acc=1.0,
    )
    assert (names(report), report.logs[0].accuracy) == ({"few-questions"}, 1.0)


def test_a_question_is_more_than_its_last_words(tmp_path):
    """Check COPA, which requests the `cause` or `effect` of a premise, so that pairs of options repeat."""
    rows = [("The man fell.", "cause", 0), ("The man rose.", "effect", 1), ("The man sat.", "cause", 1)]
    documents = [
        {"premise": premise, "question": question, "choice1": "Ice.", "choice2": "Sun.", "label": key}
        for premise, question, key in rows
    ]
    lines = [
        {
            "doc_id": number,
            "doc": document,
            "target": document["label"],
            "arguments": [
                [f"{document['premise'][:-1]} because", " ice."],
                [f"{document['premise'][:-1]} because", " sun."],
            ],
            "resps": [[[-1.0, False]], [[-2.0, False]]],
        }
        for number, document in enumerate(documents)
    ]
    (tmp_path / "samples_copa_x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert names(audit([tmp_path])) == {"few-questions", "no-scores"}


@pytest.mark.parametrize("format_", WRITERS)
def test_prompts_that_were_cut_at_their_beginning(tmp_path, format_):
    log = clean(3)
    items = [replace(item, prompt=item.prompt[60:]) if number < 4 else item for number, item in enumerate(log.items)]
    report = audit([WRITERS[format_](replace(log, items=items), tmp_path)])
    assert "truncated-prompt" in names(report, "error")


def test_a_task_that_names_a_subject_should_have_all_of_it():
    mmlu = Benchmark("mmlu", 14_042, {"law": 100, "international_law": 121, "anatomy": 135}, 20, ())
    tasks = ("mmlu:subject=anatomy", "mmlu_international-law", "mmlu_law", "mmlu")
    assert [mmlu.count_expected(task) for task in tasks] == [135, 121, 100, 14_042]


def test_questions_about_persons_a_and_b_name_no_labels():
    instruction = "Answer with one letter, A, B, C, D or E.\n\n"
    assert count_named_labels(instruction) == count_named_labels("LETTER is one of ABCDE.") == 5
    assert count_named_labels("Figures A and B show his heart. A or B is a thief. GETEDIT(A, B, C)") == 0


def test_questions_that_end_alike_are_no_examples_of_each_other(tmp_path):
    """Check questions after examples that end with the same sentence about other patients."""
    log = clean(3)
    question_text = "Which of the following is the most appropriate treatment for this patient?"
    items = []
    for at in log.items:
        question = f"A patient has {at.question}.\n\n{question_text}"
        examples = f"Another has a fever. {question_text}\nA. Tea\nB. Rest\nC. Ice\nD. Rum\nAnswer: B\n\n"
        items.append(replace(at, question=question, prompt=prompt_of(question, at.options, examples=examples)))
    for format_ in ("lighteval", "opencompass", "lm-evaluation-harness"):
        report = audit([WRITERS[format_](replace(log, items=items), tmp_path / format_)])
        assert names(report, "error") == set(), report.text()


def test_questions_about_one_passage_and_variants_with_other_options_are_no_faults(tmp_path):
    passage = " ".join(f"word{n}" for n in range(200))
    lines = [
        {
            "id": str(n),
            "passage": passage,
            "question": f"Is {ending} in the end?",
            "options": ["yes", "no"],
            "answer": n % 2,
        }
        for n, ending in enumerate(("his aunt at home", "a ship seen", "the letter ever read", "everybody content"))
    ]
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert names(audit([tmp_path])) == set()
    variants = [
        {"question_id": "1", "variant_type": kind, "variant_index": 0, "options": options, "correct": 0, "chosen": 0}
        for kind, options in (("standard", ["a", "b", "c"]), ("decoupled", ["a", "b"]))
    ]
    (tmp_path / "questions.jsonl").write_text("\n".join(json.dumps({**line, "raw": "A"}) for line in variants))
    assert names(audit([tmp_path])) == {"few-questions"}


def test_an_example_that_is_the_question_under_its_first_label(tmp_path):
    """Check options after hyphens, where the beginning of the example is not the end of the prompt."""
    question = "What is the capital of France, a country?\n- A. Paris\n- B. Rome\nAnswer:"
    prediction = {
        f"label: {name}": {
            "testing input": f"{question} {name}",
            "prompt": f"Choose.\n\n{question} A\n\n{question} {name}",
        }
        for name in "AB"
    }
    (tmp_path / "capitals.json").write_text(json.dumps({"0": {**prediction, "prediction": "A", "gold": "A"}}))
    assert names(audit([tmp_path]), "error") == {"question-among-examples"}

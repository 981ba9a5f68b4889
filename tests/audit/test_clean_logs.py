"""Clean logs in unusual forms, which audits read as their programs meant them and accept."""

import json
import random
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.logs.audit.prompts import label_gap
from registry.logs.audit.readers import sources_of
from registry.logs.audit.report import Report, audit, cut_apart
from registry.logs.record import Seen
from tests.audit.logs import FAULTS, WRITERS, clean
from tests.support.commands import shuffleboard

COUNT = 120


def names(report: Report, severity: str | None = None) -> set[str]:
    return {finding.kind.name for finding in report.findings if severity in (None, finding.severity)}


def write(path: Path, lines: Sequence[dict[str, Any]]) -> Report:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return audit([path])


def answers() -> list[tuple[int, int]]:
    """Return right options and answers, two of three of which are right."""
    return [(n % 4, n % 4 if n % 3 else (n + 1) % 4) for n in range(COUNT)]


def line(number: int, target: Any, said: Any, score: float, **more: Any) -> dict[str, Any]:
    options = [f"town {number}", f"river {number}", f"hill {number}", f"lake {number}"]
    doc = {"question": f"Which place has the number {number} on map {number * 7}?", "choices": options}
    return {"doc_id": number, "doc": doc, "target": target, "resps": [[said]], "acc": score} | more


def test_a_list_of_one_index_is_that_index(tmp_path: Path) -> None:
    lines = [line(n, f"[{key}]", "ABCD"[at], float(key == at)) for n, (key, at) in enumerate(answers())]
    report = write(tmp_path / "samples_agieval_x.jsonl", lines)
    assert (names(report, "error"), report.logs[0].accuracy) == (set(), pytest.approx(2 / 3))


def test_a_list_of_several_indices_is_a_note(tmp_path: Path) -> None:
    lines = [line(n, f"[{key}]", "ABCD"[at], float(key == at)) for n, (key, at) in enumerate(answers())]
    lines[4]["target"] = "[0, 2]"
    report = write(tmp_path / "samples_agieval_x.jsonl", lines)
    assert names(report, "error") == set()
    assert "not-multiple-choice" in names(report, "note")


def test_minus_infinity_is_the_lowest_and_no_number_is_unreadable(tmp_path: Path) -> None:
    lines = []
    for n, (key, at) in enumerate(answers()):
        scored = [[["-inf" if place == (at + 1) % 4 else -2.0 - (place != at), False]] for place in range(4)]
        lines.append(line(n, key, "", float(key == at), resps=scored))
    report = write(tmp_path / "samples_mmlu_x.jsonl", lines)
    assert (names(report, "error"), report.logs[0].accuracy) == (set(), pytest.approx(2 / 3))
    lines[0]["resps"] = [[["nan", False]]] * 4
    assert "unusable-answer" in names(write(tmp_path / "samples_mmlu_x.jsonl", lines), "error")


def test_filters_without_names_are_told_apart_by_their_order(tmp_path: Path) -> None:
    first = [line(n, "ABCD"[key], f"It is {'ABCD'[at]}", 0.0) for n, (key, at) in enumerate(answers())]
    second = [item | {"filtered_resps": ["ABCD"[at]]} for item, (_, at) in zip(first, answers(), strict=True)]
    for item, (key, at) in zip(second, answers(), strict=True):
        item["acc"] = float(key == at)
    first = [item | {"filtered_resps": ["[invalid]"]} for item in first]
    report = write(tmp_path / "samples_mmlu_x.jsonl", [*first, *second])
    assert [log.accuracy for log in report.logs] == [0.0, pytest.approx(2 / 3)]
    assert not names(report) & {"answered-twice", "answered-twice-differently", "repeats-differ"}


@pytest.mark.parametrize("first_digit", [0, 1])
def test_scores_decide_where_digits_begin(tmp_path: Path, first_digit: int) -> None:
    lines = [
        line(n, "ABCD"[key], str(at + first_digit), float(key == at), filtered_resps=[str(at + first_digit)])
        for n, (key, at) in enumerate(answers())
    ]
    report = write(tmp_path / "samples_mmlu_x.jsonl", lines)
    assert (names(report, "error"), report.logs[0].accuracy) == (set(), pytest.approx(2 / 3))


def test_numbers_as_options_are_read_as_scored(tmp_path: Path) -> None:
    lines = []
    for n, (key, at) in enumerate(answers()):
        options = ["3", "1", "2", "4"]
        item = line(n, options[key], options[at], float(key == at), filtered_resps=[options[at]])
        lines.append(item | {"doc": item["doc"] | {"choices": options}})
    report = write(tmp_path / "samples_sums_x.jsonl", lines)
    assert not names(report) & {"score-contradicts-answer", "unusable-answer"}
    assert report.logs[0].accuracy == pytest.approx(2 / 3)


def test_letters_in_one_text_are_the_choices_of_lighteval(tmp_path: Path) -> None:
    folder = WRITERS["lighteval"](clean(1), tmp_path)
    (path,) = folder.rglob("*.parquet")
    rows = pq.read_table(path).to_pylist()
    for row in rows:
        row["doc"]["choices"] = "ABCDEFGHIJ"
    pq.write_table(pa.Table.from_pylist(rows), path)
    report = audit([folder])
    assert names(report, "error") == set(), report.text()
    assert report.logs[0].answers == COUNT


def test_cancelled_samples_and_several_right_choices_are_no_errors(tmp_path: Path) -> None:
    with zipfile.ZipFile(WRITERS["inspect"](clean(1), tmp_path)) as archive:
        documents = {name: json.loads(archive.read(name)) for name in archive.namelist()}
    samples = [document for name, document in documents.items() if name.startswith("samples/")]
    samples[0].pop("scores")
    samples[1]["target"] = ["A", "B"]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({**documents["header.json"], "samples": samples}), encoding="utf-8")
    report = audit([path])
    assert not names(report, "error") - {"stated-accuracy-differs"}, report.text()
    assert "failed-samples" in names(report, "warning")
    assert "not-multiple-choice" in names(report, "note")


@pytest.mark.parametrize("labels", ["1234", "ＡＢＣＤ", ["(A)", "(B)", "(C)", "(D)"]])
@pytest.mark.parametrize("mark", ",;\t")
def test_tables_are_read_whatever_their_labels_and_marks(tmp_path: Path, labels: Sequence[str], mark: str) -> None:
    rows = [["question_id", "correct", "m"]]
    rows += [[f"q{n}", labels[key], labels[at]] for n, (key, at) in enumerate(answers())]
    path = tmp_path / "table.csv"
    path.write_text("".join(mark.join(row) + "\n" for row in rows), encoding="utf-8-sig")
    report = audit([path])
    assert (names(report, "error"), report.logs[0].accuracy) == (set(), pytest.approx(2 / 3))


def test_a_cell_that_is_no_label_is_named(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("question_id,correct,m\nq1,A,TRUE\nq2,B,B\n", encoding="utf-8")
    (finding,) = (reported for reported in audit([path]).findings if reported.kind.name == "unusable-answer")
    assert (finding.places, finding.detail) == (("line 2",), "column m: 'TRUE' is no label")


def test_an_instruction_with_a_gap_names_its_labels() -> None:
    assert label_gap("Answer with one letter: A, B, C, D, E, F, G, H, I, or K.") == "ABCDEFGHI and K"
    assert label_gap("Answer with one letter: A, B, C or D.") is None
    assert label_gap("Figures A, C show the answer.") is None


def test_an_answer_in_the_prompt_is_not_also_a_cut_prompt(tmp_path: Path) -> None:
    report = audit([WRITERS["lm-evaluation-harness"](FAULTS["answer-in-prompt"](clean(1), random.Random(2)), tmp_path)])
    assert "answer-in-prompt" in names(report)
    assert "truncated-prompt" not in names(report)


def test_several_answers_to_a_question_are_compared_by_their_difference(tmp_path: Path) -> None:
    def log(model: str, share: int, write: Callable[[int], dict[str, Any]]) -> None:
        lines = [
            {"question_id": f"q{n}", "variant": k, "order": [0, 1, 2, 3]} | write((n + (k >= share)) % 4)
            for n in range(COUNT)
            for k in range(4)
        ]
        (tmp_path / f"{model}.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in lines), encoding="utf-8")

    questions = [
        {"id": f"q{n}", "question": f"Place {n} of map {7 * n}?", "options": list("wxyz"), "answer": n % 4}
        for n in range(COUNT)
    ]
    (tmp_path / "q.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in questions), encoding="utf-8")
    log("one", 3, lambda option: {"option": option})
    log("two", 1, lambda option: {"probabilities": [0.7 if at == option else 0.1 for at in range(4)]})
    report = audit([tmp_path])
    (pair,) = report.compared[0].pairs
    assert pair.difference == pytest.approx(0.5)
    assert "not-told-apart" not in names(report)


def test_changes_that_repeats_explain_are_not_blamed_on_the_order(tmp_path: Path) -> None:
    lines = [
        {
            "question_id": f"q{n}",
            "variant": 2 * order + k,
            "order": [0, 1, 2, 3] if order == 0 else [3, 2, 1, 0],
            "option": (n + (n + order) % 2 * k) % 4,
        }
        for n in range(COUNT)
        for order in range(2)
        for k in range(2)
    ]
    questions = [
        {"id": f"q{n}", "question": f"Place {n} of map {7 * n}?", "options": list("wxyz"), "answer": n % 4}
        for n in range(COUNT)
    ]
    for name, rows in (("q", questions), ("one", lines)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert names(audit([tmp_path])) & {"order-changes-answers", "repeats-differ"} == {"repeats-differ"}


def test_questions_without_answers_are_said_to_have_none(tmp_path: Path) -> None:
    question = {"id": "q1", "question": "Which place?", "options": ["a", "b"], "answer": 0}
    report = write(tmp_path / "q.jsonl", [question])
    assert "1 question without answers: only the questions were checked" in report.text()


def test_a_page_is_written_and_the_summary_is_printed(tmp_path: Path) -> None:
    path = WRITERS["inspect"](clean(1), tmp_path)
    done = shuffleboard("audit", path, "--html", tmp_path / "page.html", "--fail-on", "never")
    assert "120 answers to 120 questions" in done.stdout


def test_names_are_cut_so_that_they_stay_different() -> None:
    long = [f"a-very-long-name-of-a-model-{n}-with-the-same-ending-for-all-of-them" for n in range(3)]
    cut = cut_apart(long, 30)
    assert len(set(cut)) == 3
    assert max(map(len, cut)) <= 30


def test_a_log_without_scores_says_once_how_it_would_have_them(tmp_path: Path) -> None:
    folder = WRITERS["opencompass"](clean(1), tmp_path)
    for results in tmp_path.rglob("results/model/*.json"):
        results.unlink()
    findings = [finding for finding in audit([folder]).findings if finding.kind.name == "no-scores"]
    assert [finding.detail for finding in findings] == [
        "keep predictions/ and results/ together, written with --dump-eval-details"
    ]


def test_a_question_of_lighteval_is_told_from_its_instruction_and_options(tmp_path: Path) -> None:
    log = clean(1)
    (path,) = WRITERS["lighteval"](log, tmp_path).rglob("*.parquet")
    rows = pq.read_table(path).to_pylist()
    for row, item in zip(rows, log.items, strict=True):
        row["doc"]["instruction"] = item.prompt[: item.prompt.index(item.question)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    seen = [record for record in sources_of(path, {})[0].records if isinstance(record, Seen)]
    assert [record.text for record in seen] == [item.question.strip() for item in log.items]

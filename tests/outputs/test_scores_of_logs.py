"""Imports of logs, which never seal a number that contradicts the log's own scores or right options."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import func, select

from registry.db import read_session
from registry.errors import ContradictionError, IngestError
from registry.leaderboard.reports import evaluation_metrics
from registry.logs.formats.harness import read_harness
from registry.logs.imports.importer import ImportRequest, import_columns, import_outputs
from registry.logs.imports.stated import Comparison
from registry.logs.labels import CONVENTIONS, read_label
from registry.logs.record import KnownQuestion
from registry.tables import EngineFingerprint, Evaluation
from tests.outputs.conftest import Registry
from tests.outputs.logs import agree
from tests.support.commands import shuffleboard
from web import create_app

pytestmark = pytest.mark.one_engine
COUNT: Final = 12
WORDS: Final = ("Oslo", "Rome", "Cairo", "Lima")
QUESTIONS: Final = [
    {"id": f"q{n}", "subject": None, "question": f"Which town, {n}?", "options": [*WORDS], "answer": n % 4}
    for n in range(COUNT)
]
CHOSEN: Final = [n % 4 if n % 3 else (n + 1) % 4 for n in range(COUNT)]
"""Chosen options, two of three of which are right."""
SHARE: Final = 8 / 12

Form = Callable[[int], Any]
FORMS: Final[dict[str, Form]] = {
    "letters": lambda at: "ABCD"[at],
    "small letters": lambda at: "abcd"[at],
    "brackets": lambda at: f"[{'ABCD'[at]}]",
    "round brackets": lambda at: f"({'abcd'[at]})",
    "full width": lambda at: "ＡＢＣＤ"[at],
    "Option": lambda at: f"Option {'ABCD'[at]}",
    "letter and text": lambda at: f"{'ABCD'[at]}. {WORDS[at]}",
    "text": lambda at: WORDS[at],
    "text in other case": lambda at: WORDS[at].upper(),
    "digits from 0": str,
    "digits from 1": lambda at: str(at + 1),
    "boxed": lambda at: f"$\\boxed{{\\text{{{'ABCD'[at]}}}}}$",
    "bold": lambda at: f"**{'ABCD'[at]}**",
}


def sample(number: int, written: Any, score: float, **more: Any) -> dict[str, Any]:
    return {
        "doc_id": number,
        "doc": {"question": f"Which town, {number}?", "choices": [*WORDS], "answer": number % 4},
        "target": "ABCD"[number % 4],
        "resps": [[written]],
        "filtered_resps": [written],
        "exact_match": score,
    } | more


def samples(form: Form) -> list[dict[str, Any]]:
    return [sample(n, form(at), float(at == n % 4)) for n, at in enumerate(CHOSEN)]


def list_known() -> dict[str, KnownQuestion]:
    return {
        str(item["id"]): KnownQuestion(n, str(item["id"]), n, str(item["question"]), WORDS, n % 4)
        for n, item in enumerate(QUESTIONS)
    }


def run_import(registry: Registry, lines: Sequence[Any], **asked: Any) -> int:
    registry.benchmark("b", QUESTIONS)
    request = ImportRequest(registry.file("samples.jsonl", lines), "m", "b", "original", **asked)
    return import_outputs(registry.engine, request)


def evaluations(registry: Registry) -> int | None:
    with read_session(registry.engine) as session:
        return session.scalar(select(func.count()).select_from(Evaluation))


@pytest.mark.parametrize("form", FORMS)
def test_labels_in_every_form_give_the_score_of_the_log(tmp_path: Path, form: str) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in samples(FORMS[form])), encoding="utf-8")
    assert [item.position for item in agree(read_harness(path, list_known()))] == CHOSEN


def test_a_letter_that_is_also_an_option_is_read_as_scored() -> None:
    options = ("B", "A", "D", "C")
    positions = dict(zip(CONVENTIONS, read_label("A", options).positions, strict=True))
    assert {position for convention, position in positions.items() if convention.text_first} == {1}
    assert {position for convention, position in positions.items() if not convention.text_first} == {0}


@pytest.mark.parametrize("label", [r"B - $-48^{\circ} \mathrm{F}$", r"B. $-48^{\circ} \mathrm{F}$"])
def test_a_label_before_its_own_option_in_latex_is_read(label: str) -> None:
    options = (r"$-51^{\circ} \mathrm{F}$", r"$-48^{\circ} \mathrm{F}$")
    assert read_label(label, options).positions[0] == 1


def test_a_strict_filter_leaves_other_forms_unread(registry: Registry) -> None:
    lines = [sample(n, f"{'ABCD'[n % 4]}. yes" if n % 2 else "ABCD"[n % 4], float(n % 2 == 0)) for n in range(COUNT)]
    evaluation = run_import(registry, lines)
    with read_session(registry.engine) as session:
        assert evaluation_metrics(session, evaluation)["metrics"]["accuracy"] == 0.5


def test_scores_that_no_reading_reproduces_are_refused(registry: Registry) -> None:
    lines = [line | {"exact_match": 1.0} for line in samples(FORMS["letters"])]
    with pytest.raises(ContradictionError, match=r"4 of 12 answers .* stated 1\.0000, recomputed 0\.6667\)") as caught:
        run_import(registry, lines)
    assert str(caught.value).count("read as") == 3
    assert "line 1 (question q0): answer 'B' read as B, score 1" in str(caught.value)
    assert caught.value.details is not None
    assert len(caught.value.details["contradictions"]) == 4
    assert evaluations(registry) == 0


def test_an_overall_score_is_compared_if_no_answer_has_a_score(tmp_path: Path) -> None:
    lines = samples(FORMS["letters"])
    for line in lines:
        del line["exact_match"]
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert [item.position for item in agree(read_harness(path, list_known()), SHARE)] == CHOSEN
    with pytest.raises(ContradictionError, match=r"it states 0\.9000, and 12 answers as we read them give 0\.6667"):
        agree(read_harness(path, list_known()), 0.9)


def test_another_key_is_refused_with_both_keys(registry: Registry) -> None:
    lines = samples(FORMS["letters"])
    for line in lines[:2]:
        line["target"] = "D"
        line["doc"] = line["doc"] | {"answer": 3}
    with pytest.raises(ContradictionError, match=r"2 of 12 answers: q0 \(log D, 'Lima'; benchmark A, 'Oslo'\); q1"):
        run_import(registry, lines)
    assert evaluations(registry) == 0


def test_ignored_scores_are_imported_and_recorded(registry: Registry) -> None:
    registry.benchmark("b", QUESTIONS)
    lines = [line | {"exact_match": 1.0} for line in samples(FORMS["letters"])]
    arguments_given = ("import", str(registry.file("s.jsonl", lines)), "--model", "m", "--benchmark", "b")
    arguments = ("evaluations", *arguments_given, "--variants", "original")
    refused = shuffleboard(*arguments, "--json", database_url=registry.url, status=1)
    assert len(json.loads(refused.stdout)["contradictions"]) == 4
    imported = shuffleboard(*arguments, "--stated", "ignore", database_url=registry.url)
    assert "4 of 12 answers contradict the log's own scores and were imported all the same" in imported.stderr
    document = json.loads(imported.stdout)
    assert document["stated"]["contradicted"] == 4
    with read_session(registry.engine) as session:
        [row] = session.scalars(select(EngineFingerprint)).all()
        assert row.document["stated"]["contradicted"] == 4
    page = create_app(database_url=registry.url).test_client().get(f"/evaluations/{document['evaluation']}")
    assert "4 of 12 answers contradict the scores of the imported log" in " ".join(
        page.text.replace("</", " </").split()
    )


def test_minus_infinity_is_the_lowest_likelihood(registry: Registry) -> None:
    registry.benchmark("b", QUESTIONS)
    lines = []
    for number, at in enumerate(CHOSEN):
        scored = [[["-inf" if place == (at + 1) % 4 else -2.0 - (place != at), "False"]] for place in range(4)]
        line = sample(number, "", 0.0, resps=scored, filtered_resps=[item[0] for item in scored])
        lines.append(line | {"acc": float(at == number % 4), "target": number % 4})
    comparisons: list[Comparison] = []
    request = ImportRequest(registry.file("s.jsonl", lines), "m", "b", "original")
    import_outputs(registry.engine, request, compared=comparisons.append)
    assert (comparisons[0].recomputed, comparisons[0].agrees) == (pytest.approx(SHARE), True)


def test_a_table_counts_digits_as_its_key_does(registry: Registry) -> None:
    registry.benchmark("b", QUESTIONS)
    rows = [f"q{n},{n % 4 + 1},{at + 1}" for n, at in enumerate(CHOSEN)]
    imported = import_columns(registry.engine, registry.file("t.csv", ["question_id,correct,m", *rows]), benchmark="b")
    with read_session(registry.engine) as session:
        assert evaluation_metrics(session, imported["m"])["metrics"]["accuracy"] == pytest.approx(SHARE)


def test_digits_that_nothing_explains_are_refused(registry: Registry) -> None:
    registry.benchmark("b", QUESTIONS)
    rows = [f"q{n},{at % 2 + 1}" for n, at in enumerate(CHOSEN)]
    with pytest.raises(IngestError, match="may count options from 0 or from 1"):
        import_columns(registry.engine, registry.file("t.csv", ["question_id,m", *rows]), benchmark="b")
    assert evaluations(registry) == 0


def test_a_table_with_another_key_is_refused(registry: Registry) -> None:
    registry.benchmark("b", QUESTIONS)
    rows = [f"q{n},{'ABCD'[(n + (n == 5)) % 4]},A" for n in range(COUNT)]
    with pytest.raises(ContradictionError, match=r"1 of 12 answers: q5 \(log C, 'Cairo'; benchmark B, 'Rome'\)"):
        import_columns(registry.engine, registry.file("t.csv", ["question_id,correct,m", *rows]), benchmark="b")

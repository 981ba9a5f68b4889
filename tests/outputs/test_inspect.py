"""Logs that inspect_ai 0.3.285 wrote for five questions, and changed copies, which are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from registry.benchmarks.contract import read_benchmark
from registry.db import read_session
from registry.errors import IngestError, ShuffleboardError
from registry.leaderboard.reports import evaluation_metrics
from registry.logs.documents import Log
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.logs.imports.stated import Comparison
from registry.logs.recognition import log_questions
from registry.prompting.variants import QuestionShape, parse_variants
from registry.tables import Generation, Prediction
from tests.outputs.conftest import Registry
from tests.outputs.logs import (
    GONE,
    IDS,
    INSPECT,
    QUESTIONS,
    deflate,
    inspect_copy,
    inspect_document,
    list_known,
    place,
    read,
)
from tests.support.commands import shuffleboard, shuffleboard_json

pytestmark = pytest.mark.one_engine

# The mock model's replies in turn; see tests/data/README.md.
REPLIES = ["ANSWER: A", "ANSWER: B", "I think it is C.\n\nANSWER: C", "ANSWER: C", "no idea"]


def test_a_log_in_the_benchmarks_order() -> None:
    log = read(INSPECT / "plain.eval")
    assert [item.question.external_id for item in log.recorded] == IDS
    assert [item.position for item in log.recorded] == [0, 1, 2, 2, None]
    assert [item.text for item in log.recorded] == REPLIES
    assert [item.stated for item in log.recorded] == [0, 0, 1, 1, 0]
    assert (log.stated, log.about["model"], log.about["inspect_ai"]) == (0.4, "mockllm/model", "0.3.285")


def test_log_probabilities_are_those_of_the_labels_where_the_letter_was_written() -> None:
    log = read(INSPECT / "plain.eval")
    # The mock gives a half to the letter that it writes, and 0.2, 0.15, 0.1 and 0.05 to the others in their order.
    assert log.recorded[2].logprobs == pytest.approx([-1.6094379, -1.8971200, -0.6931472, -2.3025851, -2.9957323])
    assert log.recorded[4].logprobs is None


def test_choices_that_the_dataset_shuffled_stand_as_they_were_shown() -> None:
    log = read(INSPECT / "shuffled_dataset.json")
    assert log.recorded[0].order == (0, 2, 3, 4, 1)
    # Options 0 and 1 of the second question are both "bent"; its target, D, is the position of the right one.
    assert log.recorded[1].order == (1, 3, 2, 0, 4)
    assert [item.position for item in log.recorded] == [0, 1, 2, 2, None]


def test_variants_that_our_extension_asked_are_those_of_the_kind() -> None:
    log = read(INSPECT / "permuted.json")
    kind = parse_variants("cyclic:repeats=2")
    for question in list_known().values():
        shape = QuestionShape(question.external_id, len(question.options), question.answer)
        orders = {
            item.variant: item.order for item in log.recorded if item.question.external_id == question.external_id
        }
        # The second question has two equal options; the log gives the place of each.
        assert orders == {variant.ordinal: variant.order for variant in kind.variants(shape)}


def test_choices_shuffled_by_the_solver_are_read_as_shown() -> None:
    log = read(INSPECT / "two_epochs.eval")
    first, second = log.recorded[:5], log.recorded[5:]
    assert ([item.variant for item in first], [item.variant for item in second]) == ([0] * 5, [1] * 5)
    # "Choices were shuffled …: A) defecating B) reduced C) chewing D) getting full E) becoming full": the answer is A.
    assert (first[0].order, first[0].position, first[0].stated) == ((4, 0, 3, 1, 2), 0, 1.0)
    # The log's messages contain "ANSWER: A" here, in the dataset's order; the model wrote C.
    assert (first[2].order, first[2].position, first[2].text) == ((3, 2, 0, 1, 4), 2, REPLIES[2])
    assert second[0].position is None


@pytest.mark.parametrize("name", ["plain.eval", "two_epochs.eval", "shuffled_dataset.json"])
def test_both_forms_of_a_log_and_both_compressions_hold_the_same(name: str, tmp_path: Path) -> None:
    def answers(log: Log) -> list[Any]:
        return [
            (item.question, item.variant, item.order, item.position, item.logprobs, item.text) for item in log.recorded
        ]

    expected = answers(read(INSPECT / name))
    assert answers(read(deflate(tmp_path, inspect_document(name)))) == expected
    assert answers(read(inspect_copy(tmp_path, name, lambda _: None))) == expected


def test_an_import_recomputes_the_stated_accuracy(registry: Registry) -> None:
    registry.benchmark("csqa", QUESTIONS)
    comparisons: list[Comparison] = []
    request = ImportRequest(INSPECT / "two_epochs.eval", "m", "csqa", "imported")
    evaluation_id = import_outputs(registry.engine, request, compared=comparisons.append)
    assert (comparisons[0].stated, comparisons[0].recomputed, comparisons[0].agrees) == (0.1, 0.1, True)
    with read_session(registry.engine) as session:
        report = evaluation_metrics(session, evaluation_id)
        query = select(Prediction).filter_by(evaluation_id=evaluation_id)
        rows = session.scalars(query.order_by(Prediction.question_id, Prediction.variant)).all()
        texts = session.scalar(select(func.count()).select_from(Generation))
    assert report["complete"]
    assert report["metrics"]["average_accuracy"] == pytest.approx(0.1, abs=1e-12)
    assert (rows[0].shown, rows[0].chosen_position, rows[0].chosen_option) == ([4, 0, 3, 1, 2], 0, 4)
    assert texts == 9  # ten answers, one of them empty


def test_the_command_says_what_the_log_states(sqlite_database: str) -> None:
    log = INSPECT / "plain.eval"
    url = {"database_url": sqlite_database}
    imported = shuffleboard_json("benchmarks", "import", log, "--name", "csqa", **url)
    assert (imported["questions"], imported["split"]) == (5, "test")
    shuffleboard("models", "add", "mock", "--kind", "external", **url)
    options = ("--model", "mock", "--benchmark", "csqa", "--variants", "original")
    outcome = shuffleboard("evaluations", "import", log, *options, "--json", **url)
    assert "accuracy of choice(): the log reports 0.4000, and its 5 answers give the same" in outcome.stderr
    document = json.loads(outcome.stdout)
    assert document.keys() == {"evaluation", "stated"}
    stated = document["stated"]
    assert (stated["stated"], stated["recomputed"], stated["agrees"], stated["differences"]) == (0.4, 0.4, True, [])


def test_the_questions_of_a_log_make_a_benchmark() -> None:
    file = INSPECT / "two_epochs.eval"
    content = read_benchmark(file, documents=log_questions(file))
    expected = [(item["id"], item["question"], tuple(item["options"]), item["answer"]) for item in QUESTIONS]
    assert [(item.external_id, item.text, item.options, item.answer) for item in content.questions] == expected
    assert content.questions[0].subject == "commonsense"


def test_samples_are_found_by_their_text_where_ids_are_only_counted(tmp_path: Path) -> None:
    def count(document: dict[str, Any]) -> None:
        for number, sample in enumerate(reversed(document["samples"]), start=1):
            sample["id"] = number
            sample["input"] = [
                {"role": "system", "content": "Answer."},
                {"role": "user", "content": [{"type": "text", "text": f"Question:\n{sample['input']}"}]},
            ]

    log = read(inspect_copy(tmp_path, "plain.eval", count))
    assert [item.question.external_id for item in log.recorded] == IDS


def test_without_events_a_shuffled_samples_rewritten_text_is_not_taken(tmp_path: Path) -> None:
    def strip(document: dict[str, Any]) -> None:
        for sample in document["samples"]:
            del sample["events"]

    log = read(inspect_copy(tmp_path, "two_epochs.eval", strip))
    assert [item.text for item in log.recorded] == [None] * 10
    assert log.recorded[0].position == 0


def test_samples_that_failed_are_not_answers_and_nothing_is_imported(registry: Registry, tmp_path: Path) -> None:
    def fail(document: dict[str, Any]) -> None:
        document["status"] = "error"
        del document["results"]
        document["samples"][3]["error"] = {"message": "time-out"}

    registry.benchmark("csqa", QUESTIONS)
    request = ImportRequest(inspect_copy(tmp_path, "plain.eval", fail), "m", "csqa", "original")
    with pytest.raises(
        IngestError, match=r"incomplete: .* questions lack outputs, the first is .*; nothing is imported"
    ):
        import_outputs(registry.engine, request)
    registry.benchmark("answered", QUESTIONS[:3] + QUESTIONS[4:])
    comparisons: list[Comparison] = []
    answered = ImportRequest(request.path, "m", "answered", "original")
    evaluation_id = import_outputs(registry.engine, answered, compared=comparisons.append)
    with read_session(registry.engine) as session:
        assert evaluation_metrics(session, evaluation_id)["complete"]
    assert comparisons[0].sentences() == [
        "the log reports no accuracy of choice(); its 4 answers give 0.2500",
        "1 samples ended with an error or were cancelled, and are left out",
        "the run did not succeed: its status is error",
    ]


def _sample(document: dict[str, Any], number: int = 0) -> dict[str, Any]:
    sample: dict[str, Any] = document["samples"][number]
    return sample


def _another_scorer(document: dict[str, Any]) -> None:
    _sample(document)["scores"] = {"match": _sample(document)["scores"]["choice"]}


REFUSED = [
    (place("samples/0/choices", None), r"sample 1: has no choices; only multiple-choice tasks"),
    (place("samples/0/target", ["A", "B"]), r"sample 1: target \[\"A\", \"B\"\]: several options are right; only"),
    (
        place("samples/0/target", "B"),
        r".*not the benchmark's in 1 of 5 answers: 001b0f\w+ \(log B, 'getting full'; benchmark E, 'defec",
    ),
    (place("samples/0/target", "F"), r"sample 1: target \"F\" does not name one of its 5 choices"),
    (_another_scorer, r"sample 1: has no score of choice\(\) \(it has: match\)"),
    (place("samples/0/scores/choice/answer", "G"), r"sample 1: answer \"G\" does not name one of its 5 choices"),
    (
        place("samples/0/scores/choice/value", {"a": 1}),
        r"sample 1: score \{\"a\": 1\} is neither C, I, N, P nor a number",
    ),
    (
        place("samples/0/input", "What is this?"),
        r"sample 1: question \"What is this\?\" .* is not among the 5 questions of the benchmark",
    ),
    (place("samples/1/id", IDS[0]), r"sample 2: id \"001b0f\w*\" is used for two different questions"),
    (place("samples", GONE), r"document: samples null is not a list"),
    (place("samples/0/epoch", "first"), r"sample 1: epoch \"first\" is not a whole number"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_does_not_hold_is_refused_by_name(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    with pytest.raises(ShuffleboardError, match=rf"^log\.json:? {message}"):
        read(inspect_copy(tmp_path, "plain.eval", change))


@pytest.mark.parametrize(
    ("explanation", "message"),
    [
        ("A) one\nB) two\nShuffled answer:\nANSWER: A", "the shuffled choices of its explanation are not those"),
        (None, 'shuffled answer "C" and answer "E" name different choices'),
    ],
)
def test_an_explanation_that_contradicts_its_sample_is_refused(
    tmp_path: Path, explanation: str | None, message: str
) -> None:
    def change(document: dict[str, Any]) -> None:
        score = _sample(document)["scores"]["choice"]
        head, _, rest = score["explanation"].partition(":\n\n")
        score["explanation"] = f"{head}:\n\n{explanation or rest[:-1] + 'C'}"

    with pytest.raises(ShuffleboardError, match=message):
        read(inspect_copy(tmp_path, "two_epochs.eval", change))


@pytest.mark.parametrize("length", [3, 200, 15_000])
def test_a_cut_off_archive_is_named(tmp_path: Path, length: int) -> None:
    path = tmp_path / "cut.eval"
    path.write_bytes((INSPECT / "plain.eval").read_bytes()[:length])
    with pytest.raises(ShuffleboardError, match=r"^cut\.eval: damaged or cut-off archive \(.*\); fetch it again"):
        read(path)


def test_a_damaged_sample_is_named(tmp_path: Path) -> None:
    path = tmp_path / "damaged.eval"
    shutil.copyfile(INSPECT / "plain.eval", path)
    content = bytearray(path.read_bytes())
    start = content.index(b"samples/" + IDS[0].encode())
    content[start + 200 : start + 260] = bytes(60)
    path.write_bytes(content)
    with pytest.raises(ShuffleboardError, match=rf"^damaged\.eval samples/{IDS[0]}_epoch_1\.json: cannot be read"):
        read(path)


def test_other_archives_and_a_cut_off_document_are_refused(tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "other"), "zip", INSPECT)
    with pytest.raises(ShuffleboardError, match=r"other\.zip: is an archive, but not a log of Inspect AI"):
        read(Path(archive))
    path = tmp_path / "cut.json"
    path.write_text(json.dumps(inspect_document("plain.eval"))[:5000], encoding="utf-8")
    with pytest.raises(ShuffleboardError, match=r"^cut\.json: cannot be read as JSON"):
        read(path)

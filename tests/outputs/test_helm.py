"""Run folders that crfm-helm 0.5.16 wrote for five questions, and changed copies, which are refused."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from registry.benchmarks.contract import read_benchmark
from registry.code_identity import code_identity, code_version
from registry.db import read_session
from registry.errors import ShuffleboardError
from registry.leaderboard.reports import evaluation_metrics
from registry.logs.formats.helm import EQUAL_OPTIONS, TIE
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.logs.imports.stated import Comparison
from registry.logs.recognition import log_file, log_questions
from registry.sealed.provenance import provenance_document
from registry.tables import Evaluation, Generation, Prediction
from tests.outputs.conftest import Registry
from tests.outputs.logs import GONE, HELM, IDS, QUESTIONS, helm_copy, place, read

pytestmark = pytest.mark.one_engine


@pytest.mark.parametrize(
    ("run", "positions", "stated"),
    [
        # From HELM's own statistics: `predicted_index`, and the letters in the completions of the joint run.
        ("joint", [2, 2, 2, 0, 0], 0.2),
        ("separate", [1, 3, 0, 0, 3], 0.0),
        ("calibrated", [3, 2, 0, 2, 3], 0.2),
    ],
)
def test_the_answers_of_a_run_are_those_that_helm_scored(run: str, positions: list[int], stated: float) -> None:
    log = read(HELM / run)
    assert [item.question.external_id for item in log.recorded] == IDS
    assert [item.position for item in log.recorded] == positions
    assert [item.order for item in log.recorded] == [(0, 1, 2, 3, 4)] * 5
    assert log.stated == stated
    right = [item.position == item.question.answer for item in log.recorded]
    assert [item.stated for item in log.recorded] == right


def test_an_import_recomputes_the_stated_score_and_keeps_what_the_run_says(registry: Registry) -> None:
    registry.benchmark("csqa", QUESTIONS)
    comparisons: list[Comparison] = []
    request = ImportRequest(HELM / "joint", "m", "csqa", "original", shots=2)
    evaluation_id = import_outputs(registry.engine, request, compared=comparisons.append)
    [comparison] = comparisons
    assert (comparison.stated, comparison.recomputed, comparison.agrees) == (0.2, 0.2, True)
    assert comparison.sentences() == ["exact_match: the log reports 0.2000, and its 5 answers give the same"]
    with read_session(registry.engine) as session:
        assert evaluation_metrics(session, evaluation_id)["metrics"]["accuracy"] == pytest.approx(0.2, abs=1e-12)
        provenance = provenance_document(session, evaluation_id)
        texts = session.scalars(select(Generation.text).order_by(Generation.question_id)).all()
    assert provenance["seal"] is not None
    fingerprint = provenance["shards"][0]["engine_fingerprint"]
    assert fingerprint["code"] == code_identity()
    assert provenance["metrics_computed_by"] == [code_version()]
    assert fingerprint["log"]["model"] == "huggingface/smollm2"
    assert fingerprint["stated"]["stated"] == fingerprint["stated"]["recomputed"] == "0.2"
    assert texts == [" C", " C", " C", " A", " A"]


def test_log_likelihoods_of_separate_options_are_sums_over_the_options_own_tokens(registry: Registry) -> None:
    registry.benchmark("csqa", QUESTIONS)
    request = ImportRequest(HELM / "separate" / "scenario_state.json", "m", "csqa", "original", "cloze")
    evaluation_id = import_outputs(registry.engine, request)
    with read_session(registry.engine) as session:
        query = select(Prediction).filter_by(evaluation_id=evaluation_id).order_by(Prediction.question_id).limit(1)
        row = session.scalars(query).one()
    # " reduced" is one token; " defec" and "ating" are two: −17.4561824798584 − 2.859835147857666.
    assert row.label_logprobs is not None
    assert row.label_logprobs[0] == pytest.approx(-14.638448715209961, abs=1e-12)
    assert row.label_logprobs[4] == pytest.approx(-20.316017627716066, abs=1e-12)
    # Per token −9.19 of "getting full" is the highest, though "chewing" has the highest sum.
    assert row.chosen_position == 1
    assert max(row.label_logprobs) == row.label_logprobs[3]


def test_the_questions_of_a_run_make_a_benchmark() -> None:
    file = HELM / "joint" / "scenario_state.json"
    content = read_benchmark(file, documents=log_questions(file))
    assert [question.text for question in content.questions] == [item["question"] for item in QUESTIONS]
    assert [question.options for question in content.questions] == [tuple(item["options"]) for item in QUESTIONS]
    assert [question.answer for question in content.questions] == [item["answer"] for item in QUESTIONS]
    assert ([question.external_id for question in content.questions][:2], content.split) == (["id0", "id1"], "test")


def _set_exact_match(stats: list[dict[str, Any]], mean: float) -> None:
    for stat in stats:
        if stat["name"]["name"] == "exact_match":
            stat["mean"] = mean


def _requests(document: dict[str, Any]) -> list[Any]:
    requests: list[Any] = document["request_states"]
    return requests


def test_a_letter_of_a_duplicate_option_counts_for_helm_only(tmp_path: Path) -> None:
    def say(document: dict[str, Any]) -> None:
        _requests(document)[1]["result"]["completions"][0]["text"] = " B"  # "bent", as A, the answer

    def score(document: list[Any]) -> None:
        _set_exact_match(document[1]["stats"], 1.0)

    answer = read(helm_copy(tmp_path, "joint", scenario_state=say, per_instance_stats=score)).recorded[1]
    assert (answer.position, answer.stated, answer.excuse) == (1, 1.0, EQUAL_OPTIONS)


def test_a_letter_beyond_the_options_is_no_valid_answer(tmp_path: Path) -> None:
    def say(document: dict[str, Any]) -> None:
        document["adapter_spec"]["output_mapping_pattern"] = r"answer is ([A-Z])"
        for request, text in zip(_requests(document), ["answer is E", "answer is M", "B", "A", "A"], strict=True):
            request["result"]["completions"][0]["text"] = text

    folder = helm_copy(tmp_path, "joint", scenario_state=say)
    (folder / "per_instance_stats.json").unlink()
    log = read(folder)
    assert [item.position for item in log.recorded] == [4, None, None, None, None]
    assert [item.stated for item in log.recorded] == [None] * 5
    assert "no per_instance_stats.json" in log.remarks[0]


def test_equally_likely_options_are_shared_by_helm_and_the_first_counts_here(tmp_path: Path) -> None:
    def even(document: dict[str, Any]) -> None:
        for request in _requests(document)[:5]:
            del request["result"]["completions"][0]["tokens"][1:]
            request["result"]["completions"][0]["tokens"][0] = {
                "text": request["instance"]["references"][request["reference_index"]]["output"]["text"],
                "logprob": -1.0,
            }

    folder = helm_copy(tmp_path, "separate", scenario_state=even)
    (folder / "per_instance_stats.json").unlink()
    assert (read(folder).recorded[0].position, read(folder).recorded[0].excuse) == (0, TIE)


def test_alternatives_of_older_runs_become_log_probabilities_unless_a_label_is_lacking(tmp_path: Path) -> None:
    def add(document: dict[str, Any]) -> None:
        top = {f" {label}": math.log(0.1 * number) for number, label in enumerate("ABCDE", start=1)}
        _requests(document)[0]["result"]["completions"][0]["tokens"][0]["top_logprobs"] = {**top, "C": -0.01}
        del top[" E"]
        _requests(document)[1]["result"]["completions"][0]["tokens"][0]["top_logprobs"] = top

    answers = read(helm_copy(tmp_path, "joint", scenario_state=add)).recorded
    assert answers[0].logprobs == pytest.approx([math.log(0.1 * number) for number in range(1, 6)])
    assert answers[1].logprobs is None


def test_trials_are_variants_and_perturbed_instances_are_left_out(tmp_path: Path) -> None:
    def repeat(document: dict[str, Any]) -> None:
        again = json.loads(json.dumps(_requests(document)))
        perturbed = json.loads(json.dumps(again[0]))
        perturbed["instance"]["perturbation"] = {"name": "misspellings", "robustness": True}
        perturbed["instance"]["input"]["text"] = "Eatnig is part of living?"
        for request in again:
            request["train_trial_index"] = 1
        _requests(document).extend([*again, perturbed])

    log = read(helm_copy(tmp_path, "joint", scenario_state=repeat))
    assert [item.variant for item in log.recorded] == [0] * 5 + [1] * 5
    assert log.remarks == ["1 perturbed instances are left out: their texts differ from the benchmark's"]


def _instance(document: dict[str, Any], number: int = 0) -> dict[str, Any]:
    instance: dict[str, Any] = _requests(document)[number]["instance"]
    return instance


def _another_answer(document: dict[str, Any]) -> None:
    _instance(document)["references"][4]["tags"] = []
    _instance(document)["references"][0]["tags"] = ["correct"]


def _twice(document: dict[str, Any]) -> None:
    again = json.loads(json.dumps(_requests(document)[0]))
    again["instance"]["id"] = "id77"
    _requests(document).append(again)


def _other_option(document: dict[str, Any]) -> None:
    first = _requests(document)[0]
    first["instance"]["references"][0]["output"]["text"] = first["output_mapping"]["A"] = "enlarged"


REFUSED = [
    (
        place("adapter_spec/method", "generation"),
        r"adapter_spec: method \"generation\" cannot be imported; .* multiple_choice_joint",
    ),
    (place("request_states/2/result", GONE), r"request 2: was not executed: it has no result; import a finished run"),
    (
        place("request_states/0/instance/input/text", "What is this?"),
        r"request 0: question \"What is this\?\" with the options .* is not among the 5 questions",
    ),
    (
        _other_option,
        r"request 0: options \[\"enlarged\", .* are not those of question 001b0f\w*: \[\"reduced\"",
    ),
    (
        _another_answer,
        r".*not the benchmark's in 1 of 5 answers: 001b0f\w+ \(log reduced, 'reduced'; benchmark E, 'defecating'\)",
    ),
    (place("request_states/0/instance/references/4/tags", []), r"request 0: 0 of the 5 references are tagged correct"),
    (place("request_states", "none"), r"document: request_states \"none\" is not a list; the log is damaged"),
    (place("request_states/1/instance", "q1"), r"request 1: instance \"q1\" is not an object; the log is damaged"),
    (place("adapter_spec/output_mapping_pattern", "(A+)+$"), r"request 0: output_mapping_pattern .* may take for ever"),
    (
        place("request_states/0/result/completions/0/logprob", math.nan),
        r"request 0: logprob NaN is not a finite number",
    ),
    (
        place("request_states/0/output_mapping/A", "enlarged"),
        r"request 0: output_mapping .* does not name the references in their order",
    ),
    (_twice, r"request 5: question 001b0f\w* is also in the file under another id"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_does_not_hold_is_refused_by_name(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    with pytest.raises(ShuffleboardError, match=rf"^scenario_state\.json:? {message}"):
        read(helm_copy(tmp_path, "joint", scenario_state=change))


def test_a_pattern_that_takes_too_long_in_its_text_is_refused(tmp_path: Path) -> None:
    def say(document: dict[str, Any]) -> None:
        document["adapter_spec"]["output_mapping_pattern"] = "is.*([A-Z])"
        _requests(document)[0]["result"]["completions"][0]["text"] = "is " * 300_000

    with pytest.raises(
        ShuffleboardError, match=r"request 0: output_mapping_pattern .* too long in its text of 899,999"
    ):
        read(helm_copy(tmp_path, "joint", scenario_state=say))


def test_a_reference_that_no_request_scored_is_named(tmp_path: Path) -> None:
    with pytest.raises(ShuffleboardError, match=r"request 0: no original request for reference 3 of instance id0"):
        read(helm_copy(tmp_path, "separate", scenario_state=place("request_states/3", GONE)))


def test_tokens_that_spell_no_reference_leave_helms_predicted_answer(tmp_path: Path) -> None:
    def garble(document: dict[str, Any]) -> None:
        for token in _requests(document)[4]["result"]["completions"][0]["tokens"]:
            token["text"] = "\ufffd"

    folder = helm_copy(tmp_path, "separate", scenario_state=garble)
    answer = read(folder).recorded[0]
    assert (answer.position, answer.logprobs) == (1, None)
    (folder / "per_instance_stats.json").unlink()
    with pytest.raises(ShuffleboardError, match=r"request 0: its tokens do not spell the reference"):
        read(folder)


def test_statistics_of_another_run_are_refused(tmp_path: Path) -> None:
    def shift(document: list[Any]) -> None:
        for stat in document[0]["stats"]:
            if stat["name"]["name"] == "predicted_index":
                stat["mean"] = 4.0

    with pytest.raises(ShuffleboardError, match=r"reference 4 was predicted, its log-likelihoods say 1"):
        read(helm_copy(tmp_path, "separate", per_instance_stats=shift))


def test_a_score_that_contradicts_its_answer_is_refused_and_nothing_is_stored(
    registry: Registry, tmp_path: Path
) -> None:
    def flatter(document: list[Any]) -> None:
        _set_exact_match(document[0]["stats"], 1.0)

    registry.benchmark("csqa", QUESTIONS)
    folder = helm_copy(tmp_path, "joint", per_instance_stats=flatter)
    with pytest.raises(
        ShuffleboardError, match=r"1 of 5 answers contradict the log's own scores .*request 0 \(question 0"
    ):
        import_outputs(registry.engine, ImportRequest(folder, "m", "csqa", "original"))
    with read_session(registry.engine) as session:
        assert session.scalar(select(func.count()).select_from(Evaluation)) == 0


def test_an_overall_score_of_other_answers_is_refused(registry: Registry, tmp_path: Path) -> None:
    def flatter(document: list[Any]) -> None:
        _set_exact_match(document, 0.6)

    registry.benchmark("csqa", QUESTIONS)
    comparisons: list[Comparison] = []
    request = ImportRequest(helm_copy(tmp_path, "joint", stats=flatter), "m", "csqa", "original")
    with pytest.raises(ShuffleboardError, match=r"it states 0\.6000, and 5 answers as we read them give 0\.2000"):
        import_outputs(registry.engine, request)
    import_outputs(registry.engine, replace(request, ignore_stated=True), compared=comparisons.append)
    assert comparisons[0].agrees is False
    assert comparisons[0].sentences() == [
        "warning: exact_match: the log reports 0.6000, but its 5 answers give 0.2000",
        "every answer agrees with its own score, so the reported one covers other answers than those in the file",
        "its prompts contain up to 2 examples, but --shots says 0",
    ]


@pytest.mark.parametrize("length", [0, 1, 4000])
def test_a_cut_off_file_is_named(tmp_path: Path, length: int) -> None:
    folder = helm_copy(tmp_path, "joint")
    path = folder / "scenario_state.json"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(
        ShuffleboardError, match=r"^scenario_state\.json: cannot be read as JSON \(.*\); fetch it again"
    ):
        read(folder)


def test_documents_of_other_programs_and_folders_without_a_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ShuffleboardError, match=r"is a folder without scenario_state\.json, .*; give a file in it"):
        log_file(tmp_path)
    results = tmp_path / "results.json"
    results.write_text('{"results": {}}\n', encoding="utf-8")
    assert log_file(results) is None  # one object on one line: JSON Lines
    results.write_text('{\n"results": {}\n}', encoding="utf-8")
    with pytest.raises(
        ShuffleboardError,
        match=r"results\.json: is neither a scenario state of HELM, a log of Inspect AI nor predictions",
    ):
        read(results)

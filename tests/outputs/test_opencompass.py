"""Predictions that OpenCompass 0.5.4 wrote for five questions, and changed copies, which are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from registry.errors import ShuffleboardError
from registry.logs.formats.opencompass import NO_PROBABILITIES
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.logs.imports.stated import Comparison
from tests.outputs.conftest import DATA, Registry
from tests.outputs.logs import IDS, QUESTIONS, place, read

pytestmark = pytest.mark.one_engine
RUN = DATA / "opencompass"


def _file(name: str, run: Path = RUN) -> Path:
    return run / "predictions" / "smollm2" / f"{name}.json"


def _change(folder: Path, name: str, change: Callable[[dict[str, Any]], None]) -> Path:
    """Return a copy of a run with a changed first prediction."""
    run = folder / "run"
    shutil.copytree(RUN, run)
    path = _file(name, run)
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document["0"])
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["csqa_letters", "csqa_cloze"])
def test_the_label_that_was_chosen_is_its_position(name: str) -> None:
    log = read(_file(name))
    document = json.loads(_file(name).read_text(encoding="utf-8"))
    chosen = ["ABCDE".index(document[str(number)]["prediction"]) for number in range(5)]
    assert [item.question.external_id for item in log.recorded] == IDS
    assert [item.position for item in log.recorded] == chosen
    assert [item.order for item in log.recorded] == [(0, 1, 2, 3, 4)] * 5
    assert all(item.logprobs is None and item.weights is None for item in log.recorded)
    assert log.remarks == [NO_PROBABILITIES]
    # From the summary of the run.
    assert log.stated == {"csqa_letters": 0.6, "csqa_cloze": 0.2}[name]
    assert [item.stated for item in log.recorded] == [item.position == item.question.answer for item in log.recorded]


def test_a_written_answer_is_what_the_evaluator_read_from_it() -> None:
    log = read(_file("csqa_written"))
    assert [item.position for item in log.recorded] == [0, None, None, 0, 0]
    assert [item.text for item in log.recorded][:2] == [" A. reduced\n\nA. reduced", None]
    assert (log.stated, log.remarks) == (0.0, [])


def test_a_model_that_counts_its_tokens_writes_its_text_one_level_down(tmp_path: Path) -> None:
    def nest(first: dict[str, Any]) -> None:
        first["prediction"] = {"prediction": f"A? No.</think>{first['prediction']}", "rollout": {"num_tokens": 9}}

    plain = read(_file("csqa_written")).recorded[0]
    answer = read(_change(tmp_path, "csqa_written", nest)).recorded[0]
    assert (answer.position, answer.text) == (plain.position, f"A? No.</think>{plain.text}")


def test_options_that_the_prompt_moved_are_read_as_shown(tmp_path: Path) -> None:
    def move(prediction: dict[str, Any]) -> None:
        # The right option "defecating" and "reduced" are swapped.
        for label in "ABCDE":
            entry = prediction[f"label: {label}"]
            entry["testing input"] = (
                entry["testing input"].replace("A. reduced", "A. defecating").replace("E. defecating", "E. reduced")
            )
        prediction["gold"] = "A"

    log = read(_change(tmp_path, "csqa_letters", move))
    assert log.recorded[0].order == (4, 1, 2, 3, 0)


def test_log_likelihoods_are_probabilities_by_position(tmp_path: Path) -> None:
    def score(prediction: dict[str, Any]) -> None:
        for number, label in enumerate("ABCDE", start=1):
            entry = prediction[f"label: {label}"]
            del entry["PPL"]
            entry["Loglikelihood"] = -float(number)

    log = read(_change(tmp_path, "csqa_letters", score))
    assert log.recorded[0].logprobs == (-1.0, -2.0, -3.0, -4.0, -5.0)


def test_an_import_is_complete(registry: Registry) -> None:
    registry.benchmark("csqa", QUESTIONS)
    comparisons: list[Comparison] = []
    request = ImportRequest(_file("csqa_letters"), "m", "csqa", "original", shots=2)
    import_outputs(registry.engine, request, compared=comparisons.append)
    assert (comparisons[0].metric, comparisons[0].answers) == ("accuracy", 5)
    assert (comparisons[0].stated, comparisons[0].agrees, comparisons[0].compared) == (0.6, True, 5)


def _star(prediction: dict[str, Any]) -> None:
    for label in "ABCDE":
        entry = prediction[f"label: {label}"]
        for letter in "ABCDE":
            entry["testing input"] = entry["testing input"].replace(f"\n{letter}. ", "\n* ")


def _endless(prediction: dict[str, Any]) -> None:
    for label in "ABCDE":
        prediction[f"label: {label}"]["Loglikelihood"] = float("nan")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            place("label: A/testing input", "What is this?"),
            r'prediction 0: the prompt "What is this\?" asks none of the 5 questions',
        ),
        (_star, r"prediction 0: its prompt does not list the options of question 001b0f\w+ behind labels"),
        (
            place("gold", "A"),
            r"not the benchmark's in 1 of 5 answers: 001b0f\w+ \(log A, 'reduced'; benchmark E, 'defecat",
        ),
        (place("gold", "AB"), r'prediction 0: gold "AB" is none of its labels'),
        (place("prediction", "F"), r'prediction 0: prediction "F" is none of its labels'),
        (place("label: A/testing input", 7), r"prediction 0: prompt 7 is neither a text nor a list of turns"),
        (_endless, r"prediction 0: Loglikelihood: NaN is not a finite number"),
    ],
)
def test_what_does_not_hold_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], None], problem: str) -> None:
    with pytest.raises(ShuffleboardError, match=problem):
        read(_change(tmp_path, "csqa_letters", change))


def test_written_answers_without_the_results_are_refused(tmp_path: Path) -> None:
    path = Path(shutil.copy(_file("csqa_written"), tmp_path))
    with pytest.raises(
        ShuffleboardError, match=r"prediction 0: is a generated text, and no results .* --dump-eval-det"
    ):
        read(path)


def test_a_file_with_a_number_missing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    document = json.loads(_file("csqa_letters").read_text(encoding="utf-8"))
    del document["2"]
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ShuffleboardError, match=r"^cut\.json prediction 2: 2 null is not an object"):
        read(path)

"""Samples of lm-evaluation-harness's SCORE tasks, read as the tasks read them, with the tasks' consistency rates."""

import gzip
import json
import subprocess
from random import Random

import pytest

from bench.prompts import ROOT
from registry.db import read_session
from registry.errors import IngestError
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.prompting.labels import LETTERS
from registry.studies.consistency import consistency_document
from registry.tables import Prediction
from tests.outputs.conftest import four_options, registries, registry

__all__ = ["registries", "registry"]

QUESTIONS = four_options(2)
RECORDED = ROOT / "shuffleboard" / "recorded"
pytestmark = pytest.mark.one_engine


def sample(number, text, *, options=None, **doc):
    question = QUESTIONS[number]
    options = options or question["options"]
    return {
        "doc_id": number,
        "doc": {"question": question["question"], "options": options, "answer_index": 0, **doc},
        "target": "",
        "resps": [[text]],
        "filtered_resps": [text],
    }


def sample_of(number, doc, text):
    """Return a sample as the harness logs it."""
    return {"doc_id": number, "doc": doc, "target": "", "resps": [[text]], "filtered_resps": [text]}


def run_import(registry, lines, variants):
    path = registry.file("samples.jsonl", lines)
    return import_outputs(registry.engine, ImportRequest(path, "m", "b", variants, "select-letter"))


TEXTS = {
    "The best answer is (C).": 2,
    "Thinking… The best answer is A, then. The best answer is b\nand no other": 1,
    "the best answer is **D**.": 3,
    "C": 2,
    "The answer is C.": None,
    "The best answer is E.": None,
    "The best answer is": None,
}


def test_an_answer_is_read_after_the_last_best_answer(registry):
    registry.benchmark("b", QUESTIONS)
    texts = [*TEXTS, "A", "A", "A"]
    lines = [sample(n, text, prompt_id=k) for n in range(2) for k, text in enumerate(texts)]
    evaluation_id = run_import(registry, lines, "wording:templates=1-10")
    with read_session(registry.engine) as session:
        predictions = (
            session.query(Prediction).filter_by(evaluation_id=evaluation_id).order_by(Prediction.variant).all()
        )
    assert [row.chosen_position for row in predictions[::2]] == [*TEXTS.values(), 0, 0, 0]
    assert [row.variant for row in predictions[::2]] == list(range(1, 11))


def test_the_consistency_rate_of_prompts_equals_the_harnesss(registry):
    registry.benchmark("b", QUESTIONS)
    letters = ["AAAAABBBBC", "DDDDDDDDDD"]
    lines = [
        sample(n, f"The best answer is {letter}.", prompt_id=k) for n in range(2) for k, letter in enumerate(letters[n])
    ]
    evaluation_id = run_import(registry, lines, "wording:templates=1-10")
    with read_session(registry.engine) as session:
        document = consistency_document(session, evaluation_id)
    # 10 + 6 of 45 pairs, and all.
    assert document["consistency_rate"] == document["harness"] == pytest.approx((16 / 45 + 1) / 2)


def test_the_harness_takes_the_option_that_changed_places_for_the_right_one(registry):
    registry.benchmark("b", QUESTIONS)
    lines = []
    for number, question in enumerate(QUESTIONS):
        right = question["answer"]
        for place, letter in enumerate(LETTERS[:5]):
            options = list(question["options"])
            if place < 4:
                options[place], options[right] = options[right], options[place]
            # The model always chooses the letter of the right option in the first prompt.
            text = f"The best answer is {LETTERS[right]}."
            lines.append(sample(number, text, options=options, always_same_option=letter, original_answer_index=right))
    evaluation_id = run_import(registry, lines, "imported")
    with read_session(registry.engine) as session:
        rows = session.query(Prediction).filter_by(evaluation_id=evaluation_id).all()
        document = consistency_document(session, evaluation_id)
    # The fifth letter has no option, so its lines are left out. Four answers, four options: none agrees with another.
    assert len(rows) == 8
    assert {
        len({row.chosen_option for row in rows if row.question_id == n}) for n in {row.question_id for row in rows}
    } == {4}
    assert (document["consistency_rate"], document["harness_options"]) == (0.0, 1.0)


REAL = {
    "mmlu_pro": (RECORDED / "mmlu-pro.jsonl.gz", 12),
    "agi_eval": (ROOT / "tests" / "data" / "agieval.jsonl", 12),
}


@pytest.mark.parametrize("tasks", REAL)
def test_rates_of_real_questions_are_those_that_the_harness_computes(registry, harness_python, tasks):
    """Check ten prompts and every position of the right option, answered at random, now and then without a label."""
    source, count = REAL[tasks]
    read = gzip.open if source.suffix == ".gz" else open
    with read(source, "rt", encoding="utf-8") as file:
        # Options with the same text cannot be distinguished in a sample.
        questions = [line for line in map(json.loads, file) if len({*line["options"]}) == len(line["options"])][:count]
    registry.benchmark("b", questions)
    rng = Random(30)
    lines = {"prompts": [], "options": []}
    for number, question in enumerate(questions):
        letters, right = LETTERS[: len(question["options"])], question["answer"]
        about = {"doc_id": number, "question_id": number, "question": question["question"], "category": "any"}
        about |= {"options_format": None, "prompt_format": None}
        for prompt in range(10):
            text = rng.choice([f"So the best answer is ({letter})." for letter in letters[:3]] + ["I cannot say."])
            doc = about | {"options": question["options"], "answer_index": right, "prompt_id": prompt}
            lines["prompts"].append(sample_of(number, doc, text))
        for place, letter in enumerate(letters):
            options = list(question["options"])
            options[place], options[right] = options[right], options[place]
            doc = about | {"options": options, "answer_index": place, "always_same_option": letter}
            text = f"The best answer is {rng.choice(letters[:3])}."
            lines["options"].append(sample_of(number, doc | {"original_answer_index": right}, text))
    rates = {}
    for kind, variants in (("prompts", "wording:templates=1-10"), ("options", "imported")):
        evaluation_id = run_import(registry, lines[kind], variants)
        with read_session(registry.engine) as session:
            rates[kind] = consistency_document(session, evaluation_id)
    done = subprocess.run(
        [harness_python, ROOT / "tests" / "peer" / "score_consistency.py", tasks],
        input="".join(
            json.dumps({"kind": kind, "doc": line["doc"], "text": line["resps"][0][0]}) + "\n"
            for kind, listed in lines.items()
            for line in listed
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = json.loads(done.stdout)
    assert rates["prompts"]["harness"] == pytest.approx(theirs["prompts"], abs=1e-12)
    assert rates["options"]["harness_options"] == pytest.approx(theirs["options"], abs=1e-12)
    # The rate as its paper defines it: an answer without a label agrees with none, and two options are never equal.
    assert rates["prompts"]["consistency_rate"] < theirs["prompts"]
    assert rates["options"]["consistency_rate"] < theirs["options"]


@pytest.mark.parametrize(
    ("doc", "message"),
    [
        ({"prompt_id": -1}, "prompt_id -1 is not a whole number"),
        ({"always_same_option": "AB"}, 'always_same_option "AB" is not a letter'),
        ({"prompt_id": 0, "options": ["x", "y"]}, "are not the options of question"),
    ],
)
def test_what_is_no_sample_of_score_is_refused(registry, doc, message):
    registry.benchmark("b", QUESTIONS)
    with pytest.raises(IngestError, match=message):
        run_import(registry, [sample(0, "A", **doc)], "wording:templates=1-10")

"""Effects of adversarial distractors, computed by hand, compared with the definition and the view on both engines."""

from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from registry.db import read_session
from registry.errors import NotFoundError, UsageError
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.metrics.adversarial import SCORINGS, AdversarialEffect
from registry.prompting.variants import ADVERSARIAL_TEXTS
from registry.schema.selectables import adversarial_effects as effects_view
from registry.schema.selectables import list_rows
from registry.studies.adversarial import adversarial_effects
from tests.outputs.conftest import Registry

# The answer is option 1; the last distractor, option 2, is replaced. Every option has two bytes, "simple" has 16.
QUESTIONS = [
    {"id": f"q{q}", "subject": None, "question": f"Question {q}?", "options": ["aa", "bb", "cc"], "answer": 1}
    for q in (1, 2, 3)
]

Scores = tuple[float, float, float]
# Question → (log P(x|Q,C), log P(x|C)).
ORIGINAL: dict[str, tuple[Scores, Scores]] = {
    "q1": ((-2, -1, -3), (-4, -4, -4)),  # chooses 1; NPSQ .5 .75 .25: 1
    "q2": ((-1, -2, -3), (-2, -4, -6)),  # chooses 0; NPSQ .5 .5 .5: 0, the lowest position
    "q3": ((-3, -1, -3), (-4, -4, -4)),  # chooses 1; NPSQ .25 .75 .25: 1
}
SIMPLE: dict[str, tuple[Scores, Scores]] = {
    "q1": ((-2, -1.5, -1), (-4, -4, -1.25)),  # chooses the inserted one; NPSQ .5 .625 .2: 1 still
    "q2": ((-1, -2, -3), (-2, -4, -6)),  # as before; per byte −.5 −1 −.1875: the inserted one
    "q3": ((-3, -1, -0.5), (-4, -4, 0)),  # no valid answer; NPSQ undefined, since log P(x|C) is 0
}
# The inserted option is chosen by NPSQ alone: .5 .75 .8; by log-probability 1 is.
EXTENDED: dict[str, tuple[Scores, Scores]] = dict.fromkeys(ORIGINAL, ((-2, -1, -4), (-4, -4, -20)))
SILENT = ("q3", "simple")


def line(question: str, variant: int, name: str | None, **more: Any) -> dict[str, Any]:
    return {"question_id": question, "variant": variant, "order": [0, 1, name or 2], **more}


def lines() -> list[dict[str, Any]]:
    """Return log-probabilities for the original, "simple" and "extended", and only letters for the other two."""
    collected = []
    names = [None, *ADVERSARIAL_TEXTS]
    for question in ORIGINAL:
        for variant, (name, scores) in enumerate(zip(names, (ORIGINAL, SIMPLE, EXTENDED, None, None), strict=True)):
            if scores is None:
                # "instructional" gets every answer, "neutral" none.
                position = 2 if name == "instructional" else 1
                collected.append(line(question, variant, name, position=position))
                collected.append(line(question, variant + 5, name, position=0))
                continue
            shown, hidden = scores[question]
            answer = {"position": None} if (question, name) == SILENT else {}
            collected.append(line(question, variant, name, logprobs=shown, **answer))
            collected.append(line(question, variant + 5, name, logprobs=hidden))
    return collected


EXPECTED = {
    # (distractor, scoring): (questions, flipped, original, altered)
    ("simple", "accuracy"): (3, 1 / 3, 2 / 3, 0.0),
    ("simple", "accuracy_normalized"): (3, 1.0, 2 / 3, 0.0),
    ("simple", "npsq_accuracy"): (2, 0.0, 1 / 2, 1 / 2),
    ("extended", "accuracy"): (3, 0.0, 2 / 3, 1.0),
    ("extended", "accuracy_normalized"): (3, 1.0, 2 / 3, 0.0),  # −4 over 282 bytes is the highest
    ("extended", "npsq_accuracy"): (3, 1.0, 2 / 3, 0.0),
    ("instructional", "accuracy"): (3, 1.0, 2 / 3, 0.0),
    ("instructional", "accuracy_normalized"): (0, None, None, None),
    ("instructional", "npsq_accuracy"): (0, None, None, None),
    ("neutral", "accuracy"): (3, 0.0, 2 / 3, 1.0),
    ("neutral", "accuracy_normalized"): (0, None, None, None),
    ("neutral", "npsq_accuracy"): (0, None, None, None),
}


@pytest.fixture
def evaluation(registry: Registry) -> int:
    registry.benchmark("b", QUESTIONS)
    path = registry.file("outputs.jsonl", lines())
    return import_outputs(registry.engine, ImportRequest(path, "m", "b", "adversarial", "cloze"))


def test_each_distractor_under_each_scoring(registry: Registry, evaluation: int) -> None:
    with read_session(registry.engine) as session:
        effects = adversarial_effects(session, evaluation)
    assert [(effect.distractor, effect.scoring) for effect in effects] == list(EXPECTED)
    for effect in effects:
        counts = (effect.questions, effect.flipped, effect.original, effect.altered)
        assert counts == pytest.approx(EXPECTED[effect.distractor, effect.scoring]), effect


def test_a_scoring_that_the_options_decide_loses_answers_where_npsq_keeps_them(
    registry: Registry, evaluation: int
) -> None:
    with read_session(registry.engine) as session:
        simple = {effect.scoring: effect.change for effect in adversarial_effects(session, evaluation)[: len(SCORINGS)]}
    assert simple == pytest.approx({"accuracy": -2 / 3, "accuracy_normalized": -2 / 3, "npsq_accuracy": 0.0})


def test_what_is_undefined_has_no_change() -> None:
    assert AdversarialEffect("simple", "accuracy", 0, None, None, None).change is None


def test_the_view_says_what_the_definition_says(registry: Registry, evaluation: int) -> None:
    with read_session(registry.engine) as session:
        rows = view(session, evaluation)
        effects = {(effect.distractor, effect.scoring): effect for effect in adversarial_effects(session, evaluation)}
    assert [(row["variant"], row["distractor"]) for row in rows] == list(enumerate(ADVERSARIAL_TEXTS, start=1))
    for row in rows:
        plain, per_byte, by_npsq = (effects[row["distractor"], scoring] for scoring in SCORINGS)
        assert row | {"evaluation_id": 0, "variant": 0, "distractor": ""} == pytest.approx(
            {
                "evaluation_id": 0,
                "variant": 0,
                "distractor": "",
                "questions": plain.questions,
                "flipped": plain.flipped,
                "accuracy_original": plain.original,
                "accuracy": plain.altered,
                "accuracy_change": plain.change,
                "accuracy_normalized_original": per_byte.original,
                "accuracy_normalized": per_byte.altered,
                "npsq_questions": by_npsq.questions,
                "npsq_flipped": by_npsq.flipped,
                "npsq_accuracy_original": by_npsq.original,
                "npsq_accuracy": by_npsq.altered,
            }
        )


def view(session: Session, evaluation: int) -> list[dict[str, Any]]:
    c = effects_view.c
    query = select(effects_view).where(c.evaluation_id == evaluation).order_by(c.variant)
    return list_rows(session.execute(query))


def test_shares_per_byte_are_over_all_questions_or_undefined(registry: Registry) -> None:
    registry.benchmark("b", QUESTIONS)
    without = {("q1", 0), ("q2", 1)}  # the original of one question, the distractor of another
    kept = [
        line(item["question_id"], item["variant"], item["order"][2], position=1)
        if (item["question_id"], item["variant"]) in without
        else item
        for item in lines()
    ]
    path = registry.file("outputs.jsonl", kept)
    evaluation_id = import_outputs(registry.engine, ImportRequest(path, "m", "b", "adversarial", "cloze"))
    with read_session(registry.engine) as session:
        simple, extended, *_ = view(session, evaluation_id)
    for row in (simple, extended):
        assert (row["questions"], row["accuracy_normalized_original"], row["accuracy_normalized"]) == (3, None, None)
        assert row["npsq_questions"] < 3


def test_other_variants_have_no_distractors_to_speak_of(registry: Registry) -> None:
    registry.benchmark("b", QUESTIONS)
    path = registry.file("o.jsonl", [line(f"q{q}", 0, None, position=1) for q in (1, 2, 3)])
    evaluation_id = import_outputs(registry.engine, ImportRequest(path, "m", "b", "original"))
    with read_session(registry.engine) as session:
        with pytest.raises(UsageError, match="is under original, not under adversarial variants"):
            adversarial_effects(session, evaluation_id)
        with pytest.raises(NotFoundError, match="no evaluation 99"):
            adversarial_effects(session, 99)
        assert session.execute(text("SELECT * FROM adversarial_effects")).all() == []

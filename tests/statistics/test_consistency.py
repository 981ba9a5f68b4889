"""The consistency of answers over wordings, by SCORE's definition and as its harness computes it."""

import pytest

from registry.db import read_session
from registry.leaderboard.reports import evaluation_metrics
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.prompting.variants import QuestionShape, parse_variants
from registry.studies.consistency import consistency_document
from tests.outputs.conftest import four_options, registries, registry

__all__ = ["registries", "registry"]

QUESTIONS = four_options(40)


def record(registry, variants, answer):
    """Import the evaluation with the answers answer(number of the question, variant) under a set of variants."""
    lines = [
        {"question_id": question["id"], "variant": variant.ordinal, "order": list(variant.order)} | position
        for number, question in enumerate(QUESTIONS)
        for variant in parse_variants(variants).variants(QuestionShape(question["id"], 4, question["answer"]))
        for position in [answer(number, variant)]
    ]
    return import_outputs(registry.engine, ImportRequest(registry.file("outputs.jsonl", lines), "m", "b", variants))


def by_wording(number, variant):
    """Return a wrong answer to the second of three wordings on every second question, in any order."""
    right = QUESTIONS[number]["answer"]
    return {"option": (right + 1) % 4 if variant.ordinal % 3 == 1 and number % 2 else right}


def test_other_words_make_other_prompts_so_that_wordings_are_tested(registry):
    registry.benchmark("b", QUESTIONS)
    evaluation_id = record(registry, "wording:templates=0-2", by_wording)
    with read_session(registry.engine) as session:
        document = evaluation_metrics(session, evaluation_id)
        assert document["distinct_prompts"] == {"min": 3, "max": 3}
        assert document["metrics"]["worst_accuracy"] == 0.5
        assert document["metrics"]["accuracy"] == 1.0


@pytest.mark.one_engine
def test_the_consistency_rate_is_score_and_the_harnesss_is_pooled(registry):
    """Check 40 questions: 20 have 1 equal pair of 3, the others 3.

    Missing answers are never equal, but texts may be.
    """
    registry.benchmark("b", QUESTIONS)

    def silent(number, variant):
        return {"position": None, "text": "I do not know."} if number == 0 else by_wording(number, variant)

    evaluation_id = record(registry, "wording:templates=0-2", silent)
    with read_session(registry.engine) as session:
        document = consistency_document(session, evaluation_id)
    assert document["consistency_rate"] == pytest.approx((0 + 19 * 1 + 20 / 3) / 40)
    assert document["printed"] == pytest.approx(2 * document["consistency_rate"])
    assert document["harness"] == pytest.approx((3 + 19 * 3 + 20) / 120)
    assert document["harness_options"] is None

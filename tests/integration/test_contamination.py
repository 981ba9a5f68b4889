"""The real model before and after it was trained on a benchmark as it was published."""

from pathlib import Path

import pytest

from registry.db import get_engine, read_session
from registry.scores.contamination import contamination_document
from tests.bench.bench_contamination import EPOCHS, QUESTIONS, ask, fine_tune, published_texts, shortest_questions

pytestmark = pytest.mark.long


def test_smollm2_stands_out_after_it_was_trained_on_a_hundred_questions_in_their_published_order(
    smollm2_folder: Path, tmp_path: Path
) -> None:
    lines = shortest_questions(QUESTIONS)
    assert len(lines) == QUESTIONS
    url, evaluation_id = ask(tmp_path / "untouched", smollm2_folder, lines, "cyclic")
    fine_tune(smollm2_folder, published_texts(url, evaluation_id), tmp_path / "tuned", EPOCHS)
    tuned_url, tuned_id = ask(tmp_path / "after", tmp_path / "tuned", lines, "cyclic")
    found = []
    for where, number in ((url, evaluation_id), (tuned_url, tuned_id)):
        with read_session(get_engine(where)) as session:
            found.append(contamination_document(session, number))
    assert [document["questions"] for document in found] == [QUESTIONS, QUESTIONS]
    assert [document["outlier"] for document in found] == [False, True], found

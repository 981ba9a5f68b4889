"""Pages and addresses that need predictions, which name the command that restores archived ones."""

import re

import pytest

from tests.web.conftest import empty_caches
from tests.web.outputs import BOARD


@pytest.fixture
def archived(sqlite_archived, monkeypatch):
    """Return the shared site, in which every evaluation is archived."""
    empty_caches(monkeypatch)
    return sqlite_archived


def test_pages_with_other_content_stay_and_name_the_command(archived):
    evaluations, questions = archived.outputs.evaluations, archived.outputs.questions
    cyclic, adversarial, moving = (
        evaluations["leaning", kind, "symbols"] for kind in ("cyclic", "adversarial", "answer-moving")
    )
    for address, evaluation in (
        *((f"/evaluations/{number}", number) for number in (cyclic, adversarial, moving)),
        (f"/evaluations/{cyclic}?only=flips", cyclic),
        (f"/evaluations/{cyclic}/questions/{questions['m4']}", cyclic),
        (f"/evaluations/{adversarial}/questions/{questions['m4']}", adversarial),
        (f"/questions/{questions['m4']}", cyclic),
        ("/benchmarks/mixed/answer-moving", moving),
    ):
        answer = archived.client.get(address)
        assert answer.status_code == 200, address
        restoring = answer.text.partition("shuffleboard evaluations restore ")[2].partition("</code>")[0]
        assert str(evaluation) in restoring.split(), address


def test_addresses_that_need_predictions_are_in_conflict_and_name_the_command(archived):
    cyclic = archived.outputs.evaluations["leaning", "cyclic", "symbols"]
    question = archived.outputs.questions["m4"]
    for address in (f"/evaluations/{cyclic}/predictions", f"/evaluations/{cyclic}/questions/{question}"):
        answer = archived.client.get(f"/api/v1{address}")
        assert answer.status_code == 409, address
        assert answer.json["detail"] == (
            f"the predictions of evaluation {cyclic} are archived; bring them back with: "
            f"shuffleboard evaluations restore {cyclic}"
        )
    page = archived.client.get(f"/evaluations/{cyclic}?place=A")
    assert page.status_code == 409
    assert f"shuffleboard evaluations restore {cyclic}" in page.text


def test_what_needs_no_predictions_is_what_it_was(sqlite_drawn, archived):
    cyclic = archived.outputs.evaluations["leaning", "cyclic", "symbols"]
    question = archived.outputs.questions["m4"]
    for address in (
        f"/boards/{BOARD}",
        f"/evaluations/{cyclic}/provenance",
        *(f"/api/v1/evaluations/{cyclic}{part}" for part in ("/metrics", "/questions")),
        f"/api/v1/questions/{question}",
        f"/api/v1/boards/{BOARD}",
    ):
        before, after = (drawn.client.get(address) for drawn in (sqlite_drawn, archived))
        assert (before.status_code, before.text) == (200, after.text), address


def test_a_comparison_keeps_its_metrics_and_says_why_causes_are_missing(sqlite_drawn, archived):
    pages = [
        drawn.client.get("/compare?left=leaning&right=steady&benchmark=mixed") for drawn in (sqlite_drawn, archived)
    ]
    assert [page.status_code for page in pages] == [200, 200]
    before, after = (re.sub(r'<p class="notice" id="causes">.*?</p>', "", page.text, flags=re.DOTALL) for page in pages)
    assert before == after
    assert "Why answers differ cannot be counted" in pages[1].text
    assert "shuffleboard evaluations restore" in pages[1].text

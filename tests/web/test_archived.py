"""Pages of archived evaluations are those of stored ones, but for the note that says where the answers are."""

import re
import shutil

from sqlalchemy import select

from registry.db import read_session
from registry.operations.archiving import Shared, archive
from registry.predictions.stored import archive_of
from registry.tables import Evaluation, EvaluationQuestion
from tests.web.conftest import empty_caches
from tests.web.outputs import BOARD

NOTE = re.compile(r'<p class="note">The answers of this evaluation are archived in a file.*?</p>')


def shown(client, address):
    """What a page or the API answers, less what says that answers are archived."""
    answer = client.get(address)
    text, noted = NOTE.subn("", answer.text)
    return answer.status_code, text, noted


def test_every_page_over_prompts_is_what_it_was(sqlite_drawn, sqlite_archived, monkeypatch):
    evaluations, questions = sqlite_drawn.outputs.evaluations, sqlite_drawn.outputs.questions
    monkeypatch.setattr("web.pages.evaluations.READ_UNASKED", 0)
    cyclic, adversarial, moving = (
        evaluations["leaning", kind, "symbols"] for kind in ("cyclic", "adversarial", "answer-moving")
    )
    pages = [
        *(f"/evaluations/{one}?answers=read" for one in (cyclic, adversarial, moving, sqlite_drawn.outputs.parted)),
        f"/evaluations/{cyclic}?answers=read&place=A",
        f"/evaluations/{cyclic}?answers=read&only=flips",
        f"/evaluations/{cyclic}/contamination",
        f"/evaluations/{cyclic}/provenance",
        f"/evaluations/{cyclic}/questions/{questions['m4']}",
        f"/evaluations/{adversarial}/questions/{questions['m4']}",
        f"/questions/{questions['m4']}",
        "/compare?left=leaning&right=steady&benchmark=mixed",
        "/benchmarks/mixed/answer-moving",
        f"/boards/{BOARD}/scrutiny",
    ]
    api = [
        *(f"/evaluations/{cyclic}{part}" for part in ("", "/metrics", "/questions", "/contamination", "/predictions")),
        f"/evaluations/{cyclic}/predictions?limit=7&cursor={questions['m4']}.1",
        f"/evaluations/{cyclic}/questions/{questions['m4']}",
        f"/questions/{questions['m4']}",
    ]
    addresses = [*pages, *(f"/api/v1{one}" for one in api)]
    before = {address: shown(sqlite_drawn.client, address) for address in addresses}
    empty_caches(monkeypatch)
    for address, (status, text, _) in before.items():
        noted = int("answers=read" in address)
        assert status == 200, address
        assert shown(sqlite_archived.client, address) == (200, text, noted), address


def test_a_question_stands_where_an_evaluations_file_is_missing(own, tmp_path, monkeypatch):
    monkeypatch.setenv("SHUFFLEBOARD_ARCHIVES", str(tmp_path / "archives"))
    with read_session(own.engine) as session:
        sealed = session.scalars(
            select(Evaluation.id)
            .join(EvaluationQuestion)
            .where(Evaluation.seal.is_not(None), EvaluationQuestion.question_id == own.seeded.questions["q1"])
        ).all()
    shared = Shared()
    for evaluation_id in sealed[:2]:
        assert archive(own.engine, evaluation_id, str(tmp_path / "archives"), shared)
    address = f"/questions/{own.seeded.questions['q1']}"
    whole = own.client.get(address)
    assert whole.status_code == 200
    assert "left out" not in whole.text
    with read_session(own.engine) as session:
        store, name = archive_of(session, sealed[0])
    shutil.rmtree((store.folder / name).parent)
    # Something is written, so that no kept page is served.
    assert archive(own.engine, sealed[2], str(tmp_path / "archives"), shared)
    without = own.client.get(address)
    assert without.status_code == 200
    assert "The answers of 1 evaluation are archived in a file that is missing" in without.text
    assert without.text.count("<tr role=") == whole.text.count("<tr role=")
    # Of three that are archived one is lost; nothing of the others is.
    assert whole.text.count("heat-") - without.text.count("heat-") == 1
    assert own.client.get(f"/evaluations/{sealed[0]}/questions/{own.seeded.questions['q1']}").status_code == 503

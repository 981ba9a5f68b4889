"""Pages of archived evaluations are those of stored ones, but for the note that says where the answers are."""

import re

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

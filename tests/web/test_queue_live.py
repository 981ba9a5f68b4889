"""The queue and the leaderboard in a browser, which show changes without a reload."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import Engine
from werkzeug.serving import make_server

from registry.db import get_engine, write_session
from registry.queue import claims
from registry.queue.evaluations import move
from registry.sealed.seal import seal
from registry.tables import Worker
from tests.support.fake_scorer import FakeScorer
from tests.support.population import queue_evaluation
from web import create_app

HASTE = "((later) => { window.setTimeout = (act, ms, ...rest) => later(act, ms / 10, ...rest); })(window.setTimeout)"
"""A script that makes the page check for changes ten times as often."""


@pytest.fixture
def own_engine(sqlite_database: str) -> Engine:
    return get_engine(sqlite_database)


@pytest.fixture
def opened(sqlite_database: str, chromium: Browser) -> Iterator[Page]:
    """Yield the queue page of a registry for one test."""
    server = make_server("127.0.0.1", 0, create_app(database_url=sqlite_database), threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    complaints: list[str] = []
    with closing(chromium.new_page()) as page:
        page.add_init_script(HASTE)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"http://127.0.0.1:{server.port}/queue")
        page.evaluate("window.stayed = true")
        yield page
        assert page.evaluate("window.stayed"), "the page was loaded again"
    server.shutdown()
    thread.join()
    server.server_close()
    assert complaints == []


def score_one(engine: Engine) -> None:
    with write_session(engine) as session:
        claim = claims.claim(session, "worker-1", queues=["cpu"], lease_seconds=60)
    assert claim is not None
    result = FakeScorer().score(engine, claim, lambda: False)
    with write_session(engine) as session:
        assert claims.finish(session, claim, result)


def test_the_page_follows_an_evaluation_from_its_submission_to_its_seal(
    opened: Page, own_engine: Engine, tmp_path: Path
) -> None:
    expect(opened.get_by_text("The queue is empty.")).to_be_visible()
    evaluation_id = queue_evaluation(own_engine, tmp_path, shards=2)
    expect(opened.get_by_text("no live worker serves it")).to_be_visible()
    expect(opened.locator(".state")).to_have_text("queued")
    with write_session(own_engine) as session:
        session.add(Worker(id="worker-1", host="bench", pid=1, device="cpu", versions={}, queues=["cpu"]))
    expect(opened.get_by_text("no live worker serves it")).to_have_count(0)
    score_one(own_engine)
    expect(opened.get_by_text("4 of 8 prompts").first).to_be_visible()
    expect(opened.locator(".state")).to_have_text("running")
    score_one(own_engine)
    with write_session(own_engine) as session:
        assert seal(session, evaluation_id)
    expect(opened.get_by_role("heading", name="Recently completed")).to_be_visible()
    expect(opened.get_by_text("The queue is empty.")).to_be_visible()


def test_focus_stays_where_it_is_and_changes_are_announced(opened: Page, own_engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(own_engine, tmp_path)
    link = opened.locator(f"[data-key=evaluation-{evaluation_id}]")
    expect(link).to_be_visible()
    expect(opened.locator("#announcer")).to_have_text("1 evaluation waiting or running, 0 workers alive")
    link.focus()
    with write_session(own_engine) as session:
        move(session, evaluation_id, "pause")
    expect(opened.locator(".state")).to_have_text("paused")
    expect(link).to_be_focused()


def test_the_leaderboard_follows_what_is_scored_up_to_its_row(opened: Page, own_engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(own_engine, tmp_path, shards=2)
    opened.goto(opened.url.replace("/queue", "/"))
    opened.evaluate("window.stayed = true")
    expect(opened.get_by_text("Waiting for a worker:")).to_be_visible()
    with write_session(own_engine) as session:
        session.add(Worker(id="worker-1", host="bench", pid=1, device="cpu", versions={}, queues=["cpu"]))
    score_one(own_engine)
    expect(opened.get_by_text("4 of 8 prompts")).to_be_visible()
    score_one(own_engine)
    with write_session(own_engine) as session:
        assert seal(session, evaluation_id)
    expect(opened.locator(f"table a[href='/evaluations/{evaluation_id}']").first).to_be_visible()
    expect(opened.locator("#announcer")).to_have_text("Scoring is done")

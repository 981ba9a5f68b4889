"""The pages of submissions, used like a browser does."""

import re
from collections.abc import Callable

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine, update

from registry.boards.submissions import approve
from registry.db import write_session
from registry.people.accounts import OPERATOR
from registry.settings import Settings
from registry.tables import BenchmarkVersion
from tests.submissions.conftest import FILES, HUB, ask, work
from tests.web.accounts import csrf_of
from tests.web.seed import HOSTILE

pytestmark = pytest.mark.one_engine

Browser = Callable[[str], FlaskClient]


def post(client: FlaskClient, where: str, page: str, **form: str) -> str:
    """Send a form on a page, and return the page after it."""
    answer = client.post(where, data={"csrf_token": csrf_of(client, page), **form})
    assert answer.status_code == 303, answer.text
    return answer.headers["Location"]


def test_from_the_form_to_the_board(
    browser: Browser, engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitter = browser("submitter")
    form = submitter.get("/submit").text
    assert "core: Core" in form
    assert "bench: cyclic, original; symbols, 0-shot" in form
    assert "<option>local</option>" in form
    where = post(submitter, "/submit", "/submit", hub=HUB, suite="core", note=HOSTILE, revision="", dtype="")
    shown = submitter.get(where).text
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert" in shown
    assert "Decide" not in shown
    assert "Withdraw this submission" in shown
    maintainer = browser("maintainer")
    waiting = maintainer.get("/submissions").text
    assert "small-model" in waiting
    page = maintainer.get(where).text
    assert "30 of 30" not in page
    assert "24 of 24" in page
    assert "Together 30 prompts" in page
    post(maintainer, f"{where}/decide", where, decision="approve", reason="welcome", queue="cpu", priority="2")
    again = maintainer.post(f"{where}/decide", data={"csrf_token": csrf_of(maintainer), "decision": "approve"})
    assert again.status_code == 409
    assert "was approved by maintainer at" in again.text
    assert "A worker fetches and hashes" in submitter.get(where).text
    work(engine, settings, monkeypatch)
    done = submitter.get(where).text
    assert "welcome" in done
    assert 'href="/boards/main"' in done
    assert len(re.findall(r'href="/evaluations/\d+"', done)) == 2
    assert "Finished" in done
    assert "What it" not in done


def test_a_visitor_has_to_sign_in_and_a_reader_is_refused(app: Flask, browser: Browser) -> None:
    anonymous = app.test_client()
    answer = anonymous.get("/submit")
    assert answer.status_code == 401
    assert 'href="/sign-in?next=/submit"' in answer.text
    assert ">Submit</a>" not in answer.text
    assert browser("reader").get("/submit").status_code == 403
    assert ">Submit</a>" in browser("submitter").get("/").text


def test_a_form_that_cannot_be_is_shown_again_with_what_was_typed(browser: Browser) -> None:
    client = browser("submitter")
    token = csrf_of(client, "/submit")
    form = {"csrf_token": token, "hub": "../models", "suite": "core", "note": "kept"}
    answer = client.post("/submit", data=form)
    assert answer.status_code == 400
    assert "is not a model name on the hub" in answer.text
    assert 'value="../models"' in answer.text
    assert ">kept</textarea>" in answer.text
    assert client.post("/submit", data={"csrf_token": token, "hub": HUB}).status_code == 400
    assert client.post("/submit", data={"hub": HUB, "suite": "core"}).status_code == 400


def test_a_submission_is_withdrawn_and_rejected_on_its_page(
    browser: Browser, engine: Engine, settings: Settings
) -> None:
    submitter, maintainer = browser("submitter"), browser("maintainer")
    first, second = ask(engine, settings), ask(engine, settings, dtype="float16")
    post(submitter, f"/submissions/{first}/withdraw", f"/submissions/{first}")
    assert "withdrawn" in submitter.get(f"/submissions/{first}").text
    where = f"/submissions/{second}"
    token = csrf_of(maintainer, where)
    silent = maintainer.post(f"{where}/decide", data={"csrf_token": token, "decision": "reject"})
    assert silent.status_code == 400
    post(maintainer, f"{where}/decide", where, decision="reject", reason="too large")
    assert "too large" in submitter.get(where).text


def test_evaluations_on_hidden_benchmarks_are_counted_and_not_named(
    browser: Browser, engine: Engine, settings: Settings
) -> None:
    number = ask(engine, settings)
    with write_session(engine) as session:
        approve(session, OPERATOR, number, settings, files=FILES)
        session.execute(update(BenchmarkVersion).values(visibility="hidden"))
    shown = browser("submitter").get(f"/submissions/{number}").text
    assert "2 evaluations on benchmarks that you may not see" in shown
    assert "bench<" not in shown
    assert "What it" not in shown
    assert "bench" in browser("maintainer").get(f"/submissions/{number}").text

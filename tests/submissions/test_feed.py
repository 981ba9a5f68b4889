"""The Atom feed, with the events that each reader may see."""

from collections.abc import Callable
from datetime import datetime
from xml.etree import ElementTree as ET

import pytest
from flask import Flask
from sqlalchemy import Engine, select, update

from registry.boards.submissions import approve, reject
from registry.db import write_session
from registry.people.accounts import OPERATOR
from registry.queue.claims import fail_if_over
from registry.queue.evaluations import move
from registry.sealed.withdrawals import withdraw
from registry.settings import Settings
from registry.tables import BenchmarkVersion, Evaluation, Shard
from tests.submissions.conftest import FILES, ask, work

pytestmark = pytest.mark.one_engine

ATOM = "{http://www.w3.org/2005/Atom}"
Headers = Callable[[str], dict[str, str]]


def entries(app: Flask, **given: dict[str, str]) -> list[ET.Element]:
    answer = app.test_client().get("/feed.atom", **given)
    assert (answer.status_code, answer.content_type) == (200, "application/atom+xml; charset=utf-8")
    return ET.fromstring(answer.data).findall(f"{ATOM}entry")


def titles(app: Flask, **given: dict[str, str]) -> list[str]:
    return [str(entry.findtext(f"{ATOM}title")) for entry in entries(app, **given)]


@pytest.fixture
def done(engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return a submission whose evaluations are complete."""
    number = ask(engine, settings)
    with write_session(engine) as session:
        approve(session, OPERATOR, number, settings, files=FILES)
    work(engine, settings, monkeypatch)
    return number


COMPLETE = "small-model on bench is complete"
SNAPSHOT = "Board main has a new snapshot"


def test_each_reads_what_they_may(app: Flask, done: int, engine: Engine, headers: Headers) -> None:
    public = sorted([COMPLETE] * 2 + [SNAPSHOT] * 3)
    assert sorted(titles(app)) == public
    assert sorted(titles(app, headers=headers("reader"))) == public
    own_titles = [f"small-model on suite core@1: {happened}" for happened in ("finished", "approved", "requested")]
    for role in ("submitter", "maintainer"):
        assert sorted(titles(app, headers=headers(role))) == sorted([*public, *own_titles])
    assert titles(app, headers=headers("submitter"))[-1] == own_titles[-1]
    with write_session(engine) as session:
        session.execute(update(BenchmarkVersion).values(visibility="members"))
    assert titles(app) == []
    assert sorted(titles(app, headers=headers("reader"))) == public
    with write_session(engine) as session:
        session.execute(update(BenchmarkVersion).values(visibility="hidden"))
    assert titles(app, headers=headers("reader")) == []
    assert titles(app, headers=headers("submitter")) == own_titles
    assert sorted(titles(app, headers=headers("maintainer"))) == sorted([*public, *own_titles])


def test_submissions_of_others_are_not_in_it(app: Flask, engine: Engine, settings: Settings, headers: Headers) -> None:
    ask(engine, settings, who="maintainer")
    assert titles(app, headers=headers("submitter")) == []
    assert titles(app, headers=headers("maintainer")) == ["small-model on suite core@1: requested"]


def test_a_rejection_is_in_it(app: Flask, engine: Engine, settings: Settings, headers: Headers) -> None:
    number = ask(engine, settings)
    with write_session(engine) as session:
        reject(session, OPERATOR, number, settings, "too large")
    (newest, _) = entries(app, headers=headers("submitter"))
    assert newest.findtext(f"{ATOM}title") == "small-model on suite core@1: rejected"
    (category,) = newest.findall(f"{ATOM}category")
    assert category.get("term") == "submission.rejected"


def test_a_withdrawal_is_in_it(app: Flask, done: int, engine: Engine) -> None:
    with write_session(engine) as session:
        (evaluation_id, _) = session.scalars(select(Evaluation.id).order_by(Evaluation.id))
        withdraw(session, evaluation_id, "wrong answers")
    assert titles(app)[0] == "small-model on bench no longer counts"
    assert titles(app).count(COMPLETE) == 2


def test_a_failed_evaluation_is_in_it_until_it_is_retried(
    app: Flask, engine: Engine, settings: Settings, headers: Headers, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = ask(engine, settings)
    with write_session(engine) as session:
        approve(session, OPERATOR, number, settings, files=FILES)
        failing = session.scalars(select(Evaluation.id).order_by(Evaluation.id)).first()
        session.execute(update(Shard).where(Shard.evaluation_id == failing).values(state="failed", error="broken"))
        fail_if_over(session, failing)
    failed = "small-model on bench has failed"
    assert titles(app) == [failed]
    work(engine, settings, monkeypatch)
    assert failed in titles(app, headers=headers("reader"))
    with write_session(engine) as session:
        move(session, failing, "retry")
    assert failed not in titles(app)


def test_it_is_atom(app: Flask, done: int, headers: Headers) -> None:
    client = app.test_client()
    answer = client.get("/feed.atom", headers=headers("maintainer"))
    feed = ET.fromstring(answer.data)
    assert feed.tag == f"{ATOM}feed"
    assert str(feed.findtext(f"{ATOM}id")).startswith("tag:board.example.org,2026-01-01:")
    links = {link.get("rel"): link.get("href") for link in feed.findall(f"{ATOM}link")}
    assert links["self"] == "https://board.example.org/feed.atom"
    assert feed.findtext(f"{ATOM}author/{ATOM}name")
    ids = set()
    for entry in feed.findall(f"{ATOM}entry"):
        for needed in ("id", "title", "updated", "summary"):
            assert entry.findtext(f"{ATOM}{needed}")
        moment = datetime.fromisoformat(str(entry.findtext(f"{ATOM}updated")))
        assert moment.utcoffset() is not None
        assert f",{moment:%Y-%m-%d}:" in str(entry.findtext(f"{ATOM}id"))
        ids.add(entry.findtext(f"{ATOM}id"))
        (link,) = entry.findall(f"{ATOM}link")
        address = str(link.get("href"))
        assert address.startswith("https://board.example.org/")
        path = address.removeprefix("https://board.example.org")
        assert client.get(path, headers=headers("maintainer")).status_code == 200
    assert len(ids) == 8
    # Entries are the same at the next reading, since readers know them by their ids.
    assert client.get("/feed.atom", headers=headers("maintainer")).data == answer.data
    unchanged = headers("maintainer") | {"If-None-Match": answer.headers["ETag"]}
    assert client.get("/feed.atom", headers=unchanged).status_code == 304


def test_an_empty_feed_is_one_too_and_pages_lead_to_it(app: Flask) -> None:
    client = app.test_client()
    assert entries(app) == []
    assert 'rel="alternate" type="application/atom+xml"' in client.get("/submit").text
    assert client.get("/feed.atom?what=all").status_code == 400

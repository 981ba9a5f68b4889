"""Caches of sealed evaluations, and of pages while the database is unchanged."""

import gzip
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import brotli
import pytest
from sqlalchemy import Engine, event, update

from registry.db import write_session
from registry.tables import BenchmarkVersion
from tests.web.accounts import add_one_of_each_role, signed_in, token_of
from tests.web.conftest import Site
from tests.web.seed import add_model
from web.pages import evaluations
from web.serving import page_cache
from web.serving.cache import OfSealed
from web.serving.memory import ARENAS
from web.serving.page_cache import PAGES as PAGES_KEPT
from web.serving.page_cache import State

pytestmark = pytest.mark.long_on("postgresql")

HEAPS = """
import ctypes, threading
from web.serving.memory import limit_arenas
limit_arenas()
together = threading.Barrier(16)
def allocate():
    kept = [bytes(100_000) for _ in range(10)]
    together.wait()
threads = [threading.Thread(target=allocate) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
ctypes.CDLL(None).malloc_stats()
"""
PAGES = ("/models/alpha", "/models", "/benchmarks", "/compare?a=alpha&b=beta", "/api/v1/models", "/metrics-guide")


def test_a_sealed_evaluation_is_computed_once_and_another_each_time() -> None:
    kept: OfSealed[int] = OfSealed()
    computed = iter(range(10))
    assert [kept.get("seal", lambda: next(computed)) for _ in range(3)] == [0, 0, 0]
    assert [kept.get(None, lambda: next(computed)) for _ in range(2)] == [1, 2]
    assert kept.get("another", lambda: next(computed)) == 3


def test_what_was_not_asked_for_longest_is_dropped() -> None:
    kept: OfSealed[str] = OfSealed(capacity=2)
    for seal in ("a", "b", "a", "c"):
        kept.get(seal, lambda seal=seal: seal)  # type: ignore[misc]
    assert [kept.get(seal, lambda: "computed again") for seal in ("a", "c", "b")] == ["a", "c", "computed again"]


def test_results_count_by_their_rows() -> None:
    kept: OfSealed[list[int]] = OfSealed(10, len)
    for seal in "abcd":
        kept.get(seal, lambda: [0] * 4)
    assert [kept.get(seal, list) for seal in "dcb"] == [[0] * 4, [0] * 4, []]
    for name in ("_positions", "_adversarial", "_written", "_right_in", "_by_subject"):
        assert getattr(evaluations, name)._capacity == evaluations.ROWS_KEPT


@contextmanager
def count() -> Iterator[list[str]]:
    """Yield the list of all statements that are sent to any database."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if statement != "BEGIN":
            seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield seen
    event.remove(Engine, "before_cursor_execute", note)


def test_a_kept_page_costs_one_statement_until_anything_is_written(own: Site) -> None:
    state = State(own.engine)
    for page in PAGES:
        for _ in range(10):  # until nothing else, such as a vacuum, writes at the same time
            before = state.now()
            first = own.client.get(page)
            with count() as seen:
                again = own.client.get(page)
                unchanged = own.client.get(page, headers={"If-None-Match": first.headers["ETag"]})
            if state.now() == before:
                break
        assert (first.status_code, first.headers["Cache-Control"]) == (200, "public, no-cache")
        assert (again.data, again.headers["ETag"]) == (first.data, first.headers["ETag"])
        assert again.headers["Content-Security-Policy"] == first.headers["Content-Security-Policy"]
        assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]
        assert (unchanged.status_code, unchanged.data) == (304, b"")
        # SQLite counts changes and finished transactions in separate statements.
        assert len(seen) == (4 if own.engine.dialect.name == "sqlite" else 2), seen
        assert own.client.head(page).headers["Content-Length"] == str(len(first.data))
    assert "epsilon" not in own.client.get("/models").text
    with write_session(own.engine) as session:
        add_model(session, "epsilon")
    assert "epsilon" in own.client.get("/models").text


def test_a_transaction_changes_the_state_only_when_it_ends(own: Site) -> None:
    state = State(own.engine)
    with write_session(own.engine) as session:
        before = state.now()
        add_model(session, "epsilon")
        session.flush()
        during = state.now()
    assert len({before, during, state.now()}) >= 2
    assert state.now() not in (before, during)
    assert state.now() == state.now()


def test_what_becomes_hidden_is_no_longer_served(own: Site) -> None:
    assert "capitals" in own.client.get("/benchmarks").text
    with write_session(own.engine) as session:
        session.execute(update(BenchmarkVersion).values(visibility="hidden"))
    assert "capitals" not in own.client.get("/benchmarks").text
    assert own.client.get("/benchmarks/capitals").status_code == 404


def test_no_page_crosses_from_one_audience_to_another(own: Site) -> None:
    add_one_of_each_role(own.engine)
    with write_session(own.engine) as session:
        session.execute(update(BenchmarkVersion).values(visibility="members"))
    app = own.client.application
    address = "/benchmarks/capitals"
    for _ in range(2):
        assert own.client.get(address).status_code == 404
        member = signed_in(app, "reader")
        seen = member.get(address)
        assert (seen.status_code, seen.headers["Cache-Control"]) == (200, "private, no-cache")
        assert "capitals" in member.get("/benchmarks").text
        token = {"Authorization": f"Bearer {token_of(own.engine, 'admin')}"}
        assert "capitals" in own.client.get("/api/v1/benchmarks", headers=token).text
        public = own.client.get("/benchmarks")
        assert "capitals" not in public.text
        assert "reader" not in public.text
        assert "capitals" not in own.client.get("/api/v1/benchmarks").text


def test_work_in_progress_and_failures_are_not_kept(site: Site) -> None:
    page = f"/evaluations/{site.seeded.evaluations['slow']}"
    for address, status in ((page, 200), ("/models/nobody", 404)):
        assert "ETag" not in site.client.get(address).headers
        with count() as seen:
            assert site.client.get(address).status_code == status
        assert len(seen) > 1


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Accept", "application/json"),
        ("Accept-Language", "de"),
        ("Forwarded", "for=192.0.2.7;host=evil.example"),
        ("Host", "evil.example"),
        ("Referer", "http://evil.example/"),
        ("Script-Name", "//evil.example"),
        ("Script_Name", "//evil.example"),
        ("Path_Info", "//evil.example"),
        ("Remote_User", "admin"),
        ("True-Client-Ip", "192.0.2.7"),
        ("Via", "1.1 evil.example"),
        ("X-Forwarded-For", "192.0.2.7"),
        ("X-Forwarded-Path", "//evil.example"),
        ("X-Forwarded-Port", "666"),
        ("X-Forwarded-Server", "evil.example"),
        ("X-Forwarded-Ssl", "on"),
        ("X-Forwarded-User", "admin"),
        ("X-Host", "evil.example"),
        ("X-Http-Method-Override", "DELETE"),
        ("X-Real-Ip", "192.0.2.7"),
        ("X-Rewrite-Url", "//evil.example"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Forwarded-Prefix", "//evil.example"),
        ("X-Forwarded-Proto", "https"),
        ("X-Original-Url", "//evil.example"),
        ("X-Script-Name", "//evil.example"),
    ],
)
def test_no_header_of_one_visitor_changes_the_page_of_another(own: Site, header: str, value: str) -> None:
    clean = own.client.get("/models").data
    with write_session(own.engine) as session:
        add_model(session, "epsilon")
    own.client.get("/models", headers={header: value}, environ_overrides={"REMOTE_ADDR": "127.0.0.1"})
    after = own.client.get("/models").data
    assert b"epsilon" in after
    assert b"evil.example" not in clean + after


@pytest.mark.one_engine
@pytest.mark.parametrize("host", ["a" * 300, "a..b", "-" * 64 + ".example"])
def test_a_host_that_is_no_name_is_a_bad_request(own: Site, host: str) -> None:
    for page in ("/models", "/api/v1/models", "/no/such/page"):
        answer = own.client.get(page, headers={"Host": host})
        assert (answer.status_code, b"Traceback" in answer.data) == (400, False)
    assert own.client.get("/models").status_code == 200


@pytest.mark.one_engine
def test_only_so_many_pages_are_kept(own: Site) -> None:
    for number in range(PAGES_KEPT + 10):
        own.client.get(f"/models?x={number}")
    cache = own.client.application.extensions["shuffleboard_pages"]
    assert len(cache._cache) <= PAGES_KEPT + 1
    kept = [body for body, _ in map(cache.get, cache._cache) if body]
    assert sum(map(len, kept)) < len(kept) * len(own.client.get("/models?x=0").data) / 2


@pytest.mark.one_engine
def test_a_page_that_is_too_large_compressed_is_made_each_time(own: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "LARGEST", 100)
    assert own.client.get("/models").data == own.client.get("/models").data
    assert not own.client.application.extensions["shuffleboard_pages"]._cache


@pytest.mark.one_engine
def test_threads_share_two_heaps() -> None:
    shared = subprocess.run([sys.executable, "-c", HEAPS], capture_output=True, text=True, check=True)
    assert shared.stderr.count("Arena") == ARENAS


@pytest.mark.one_engine
def test_pages_are_compressed_unless_they_hold_a_token(site: Site) -> None:
    plain = site.client.get("/models")
    small = site.client.get("/models", headers={"Accept-Encoding": "gzip"})
    assert (small.headers["Content-Encoding"], gzip.decompress(small.data)) == ("gzip", plain.data)
    assert len(small.data) < len(plain.data) / 2
    assert "Accept-Encoding" in small.headers["Vary"]
    again = site.client.get("/models", headers={"Accept-Encoding": "gzip", "If-None-Match": small.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    form = site.client.get("/sign-in", headers={"Accept-Encoding": "gzip"})
    assert "csrf_token" in form.text
    assert "Content-Encoding" not in form.headers


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        *(("", ""), ("gzip", "gzip"), ("br", "br"), ("gzip, br", "br"), ("gzip, br;q=0.5", "gzip"), ("zstd", "")),
        *(("identity", ""), ("br;q=0, gzip", "gzip"), ("*", "br")),
    ],
)
def test_a_kept_page_is_sent_in_an_encoding_that_the_client_accepts(own: Site, accepted: str, encoding: str) -> None:
    unpack: dict[str, Callable[[bytes], bytes]] = {"": bytes, "gzip": gzip.decompress, "br": brotli.decompress}
    plain = own.client.get("/models").data
    own.client.get("/models", headers={"Accept-Encoding": "br"})
    for _ in range(2):
        answer = own.client.get("/models", headers={"Accept-Encoding": accepted})
        assert answer.headers.get("Content-Encoding", "") == encoding
        assert unpack[encoding](answer.data) == plain
        known = {"Accept-Encoding": accepted, "If-None-Match": answer.headers["ETag"]}
        assert own.client.get("/models", headers=known).status_code == 304

"""A hub with false answers: a command always ends soon, with one line that names the falsehood and the remedy."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from huggingface_hub import constants
from sqlalchemy import func, select

from registry.benchmarks.recipes import recipe_named
from registry.db import get_engine, read_session
from registry.files import attended
from registry.tables import BenchmarkVersion
from tests.recipes.hub import Fault, Hub, Refusal
from tests.recipes.upstream import files
from tests.support.commands import shuffleboard

pytestmark = pytest.mark.one_engine

ENDED = Event()
"""Set at the end of the test, to stop handlers that still send or wait."""
API, FILE = "/api/", "/resolve/"


@pytest.fixture
def liar(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Yield a hub with a benchmark, and a client whose time limits are a hundredth of the usual ones."""
    hub.add("allenai/sciq", files(recipe_named("sciq")))
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    sleep = time.sleep
    monkeypatch.setattr("registry.files.hub.time.sleep", lambda seconds: sleep(min(seconds, 0.01)))
    ENDED.clear()
    yield hub
    ENDED.set()
    attended.tell_to(None)


def silence(_: BaseHTTPRequestHandler) -> None:
    ENDED.wait(60)


def drip(text: bytes, at_once: bytes = b"") -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(at_once)
        for byte in text:
            handler.wfile.write(bytes([byte]))
            if ENDED.wait(0.05):
                return

    return answer


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(f"HTTP/1.1 {FOUND}\r\nConnection: close\r\n\r\n".encode())
    with suppress(OSError):  # it is given up
        while handler.command == "GET" and not ENDED.is_set():
            handler.wfile.write(b" " * (1 << 20))


def send(head: str, body: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(f"HTTP/1.1 {head}\r\n\r\n".encode() + (b"" if handler.command == "HEAD" else body))

    return answer


COMMIT = "c0ffee" + "0" * 34
FOUND = f'200 OK\r\nETag: "x"\r\nX-Repo-Commit: {COMMIT}'
LIES: dict[str, tuple[str, Refusal, str]] = {
    "silent": (API, Refusal(instead=silence), r"cannot be downloaded \(.*timed out.*\); check"),
    "a silent file": (
        FILE,
        Refusal(instead=silence),
        r"127\.0\.0\.1:\d+ sent nothing in \d s \(.*\); check the connection",
    ),
    "cut in the middle": (FILE, Refusal(cut=40), r"cannot be downloaded .*try again: it resumes"),
    "a document cut in the middle": (
        API,
        Refusal(instead=send("200 OK\r\nContent-Type: application/json\r\nContent-Length: 900", b'{"id": "a')),
        r"cannot be downloaded .*check the connection",
    ),
    "too long": (
        FILE,
        Refusal(instead=send(f"{FOUND}\r\nContent-Length: 90", b"x" * 90)),
        r"has 90 bytes, and the hub lists \d+; try again later, or check HF_ENDPOINT",
    ),
    "longer than it sends": (
        FILE,
        Refusal(instead=send(f"{FOUND}\r\nContent-Length: 4000", b"x" * 90)),
        r"; check the connection",
    ),
    "redirects in a loop": (
        API,
        Refusal(302, {"Location": "/api/datasets/allenai/sciq/revision/main"}),
        r"redirects without end; check HF_ENDPOINT",
    ),
    "a file that redirects in a loop": (
        FILE,
        Refusal(302, {"Location": "/datasets/allenai/sciq/resolve/main/a"}),
        r"redirects .*without end.*check",
    ),
    "a document without end": (API, Refusal(instead=endless), r"sends without end \(more than 67,108,864 bytes\)"),
    "a file without end": (FILE, Refusal(instead=endless), r"sends without end \(more than \d,\d{3},\d{3} bytes\)"),
    "a packed document": (
        API,
        Refusal(instead=send("200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9", b"\x1f\x8b" * 4 + b"x")),
        r"sends a packed answer, which was not asked for",
    ),
    "a document of a thousand levels": (
        API,
        Refusal(instead=send("200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999", b"[" * 99999)),
        r"sends a document that is refused: the document is nested too deeply",
    ),
    "a page for people": (
        API,
        Refusal(instead=send("200 OK\r\nContent-Type: text/html\r\nContent-Length: 9", b"<p>Log in")),
        r"answers with a web page \(text/html\) instead of JSON; check the connection, the proxy and HF_ENDPOINT",
    ),
    "a page without its type": (
        API,
        Refusal(instead=send("200 OK\r\nContent-Length: 9", b"<p>Log in")),
        r"the answer is not that of a hub \(JSONDecodeError.*check that HF_ENDPOINT",
    ),
    "a list instead of an object": (
        API,
        Refusal(instead=send("200 OK\r\nContent-Type: application/json\r\nContent-Length: 2", b"[]")),
        r"the answer is not that of a hub",
    ),
    "busy for ever": ("", Refusal(429), r"too many requests \(status 429\) .*tried 3 times"),
    "busy for a day": ("", Refusal(429, {"Retry-After": "86400"}), r"asks to wait 86400 s; try again then"),
    "down for ever": ("", Refusal(503), r"answered with status 503; try again later .tried 3 times"),
    "a drip": (
        API,
        Refusal(instead=drip(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX: " + b"x" * 9000)),
        r"127\.0\.0\.1:\d+ sent nothing in \d s \(.*HF_HUB_DOWNLOAD_TIMEOUT.*\); check the connection",
    ),
    "a drip of a body": (
        API,
        Refusal(instead=drip(b"x" * 9000, b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n")),
        r"sent only \d+ bytes in \d s \(.*\); check the connection",
    ),
}


def make(path: str, refusal: Refusal) -> Fault:
    return lambda asked, _: refusal if path in asked else None


@pytest.mark.parametrize(("path", "lie", "message"), LIES.values(), ids=LIES)
def test_a_lying_hub_is_soon_given_up_and_the_next_try_succeeds(
    path: str, lie: Refusal, message: str, liar: Hub, sqlite_database: str
) -> None:
    command = ("benchmarks", "fetch", "sciq", "--revision", "main")
    options: dict[str, Any] = {"database_url": sqlite_database}
    liar.faults.append(make(path, lie))
    done = shuffleboard(*command, status=1, **options)
    *waited, last = done.stderr.splitlines()
    assert re.fullmatch(rf"Error: allenai/sciq@main( \S+)?: .*{message}.*", last), done.stderr
    assert all(re.match(r"allenai/sciq@main( \S+)?: ", line) for line in waited), done.stderr
    with read_session(get_engine(sqlite_database)) as session:
        assert session.scalar(select(func.count()).select_from(BenchmarkVersion)) == 0
    liar.faults.clear()
    ENDED.set()
    shuffleboard(*command, **options)
    assert not Path(constants.AGENT_HARNESSES_PATH).exists()  # a lie would stay there for a day


@pytest.mark.parametrize(
    ("lie", "line"),
    [
        (Refusal(instead=silence), r"waiting for 127\.0\.0\.1:\d+, which has sent nothing for \d s"),
        (Refusal(429, {"Retry-After": "30"}), r"status 429 and asks to wait; try 2 of 3 in 30 s"),
    ],
)
def test_what_is_waited_for_is_said_while_it_is_waited_for(
    lie: Refusal, line: str, liar: Hub, sqlite_database: str
) -> None:
    liar.faults.append(make(API, lie))
    done = shuffleboard("benchmarks", "fetch", "sciq", "--revision", "main", status=1, database_url=sqlite_database)
    assert re.search(rf"^allenai/sciq@main: .*{line}$", done.stderr, re.MULTILINE), done.stderr


def test_a_file_whose_digest_is_git_s_is_checked_too(liar: Hub, sqlite_database: str) -> None:
    liar.git_digests = {"allenai/sciq": "0" * 40}
    done = shuffleboard("benchmarks", "fetch", "sciq", "--revision", "main", status=1, database_url=sqlite_database)
    assert "has not the digest that the hub states; try again later" in done.stderr

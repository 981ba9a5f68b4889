"""The application as a process: health, start, errors of the database, imported modules."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from werkzeug.test import EnvironBuilder

import web
from registry.db import get_engine, write_session
from registry.errors import UsageError
from shuffleboard.cli.serve import MAX_HEADERS, listen
from tests.support.commands import PATIENCE_S
from web import create_app
from web.serving.responses import session


def test_health_needs_no_database():
    app = create_app(database_url="postgresql+psycopg://nobody@127.0.0.1:1/nothing")
    client = app.test_client()
    assert client.get("/healthz").json == {"status": "alive"}
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.content_type == "application/problem+json"
    assert "nobody" not in response.text
    page = client.get("/")
    assert page.status_code == 503
    assert "database" in page.text


def test_a_current_database_is_ready(client):
    assert client.get("/readyz").json == {"status": "ready"}


def test_an_empty_database_is_not_ready(database_url):
    client = create_app(database_url=database_url).test_client()
    assert client.get("/readyz").status_code == 503
    assert client.get("/readyz").headers["Retry-After"] == "10"


def test_a_database_of_another_revision_is_not_ready(database, empty_client):
    with write_session(get_engine(database)) as writer:
        writer.execute(text("UPDATE alembic_version SET version_num = 'of_the_future'"))
    assert empty_client.get("/readyz").status_code == 503


def test_readiness_does_not_wait_for_a_writer(sqlite_database):
    client = create_app(database_url=sqlite_database).test_client()
    with write_session(get_engine(sqlite_database)) as writer:
        writer.execute(text("UPDATE alembic_version SET version_num = version_num"))
        assert client.get("/readyz").status_code == 200


def test_requests_on_postgresql_cannot_write(postgresql_site):
    with postgresql_site.client.application.test_request_context("/"), pytest.raises(DBAPIError, match="read-only"):
        session().execute(text("DELETE FROM worker"))


def test_the_web_lives_without_torch():
    blocked = "torch transformers sentence_transformers numpy pandas workers"
    program = (
        "import sys\n"
        f"for name in {blocked!r}.split(): sys.modules[name] = None\n"
        "import shuffleboard.cli.serve, web\n"
        "assert web.create_app(database_url='sqlite://').test_client().get('/metrics-guide').status_code == 200\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_taken_port_is_refused_in_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port} .*--port") as caught:
            listen("127.0.0.1", port)
        assert "\n" not in str(caught.value)


def test_an_unknown_host_is_refused():
    with pytest.raises(UsageError, match=r"--host nowhere\.invalid"):
        listen("nowhere.invalid", 8000)


REQUEST = "GET /healthz HTTP/1.1\r\nHost: board\r\n"
UNFINISHED = {
    "nothing at all": "",
    "headers": f"{REQUEST}Accept: ",
    "a body": "POST /sign-in HTTP/1.1\r\nHost: board\r\nContent-Length: 1000\r\n\r\nname=",
    "an upload": "POST /api/v1/benchmarks HTTP/1.1\r\nHost: board\r\nContent-Length: 9000000\r\n\r\n{",
    "chunks": "POST /sign-in HTTP/1.1\r\nHost: board\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    "a second request": f"{REQUEST}\r\nGET /",
    "an answer that is not taken": f"{REQUEST}Connection: close\r\n\r\n",
}
"""Bytes that a slow client has sent, by the missing part of the request."""


@contextmanager
def serving(database):
    """Run `serve` as a process and yield its address; the process is stopped at the end."""
    environment = os.environ | {"SHUFFLEBOARD_DATABASE_URL": database}
    command = [sys.executable, "-m", "shuffleboard.cli", "serve", "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        line = server.stderr.readline()
        address = re.search(r"http://([\d.]+):(\d+)/", line)
        assert address, line + server.stderr.read()
        yield address
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0
        with server.stderr:
            assert "leaked" not in server.stderr.read()  # printed by libraries that cannot release their resources


@pytest.mark.one_engine
def test_serve_answers_beside_slow_clients_and_stops_when_told(database):
    with serving(database) as address, ExitStack() as slow:
        for _ in range(60):  # 420 connections, more of each kind than the server has threads
            for sent in UNFINISHED.values():
                slow.enter_context(_connect(address)).sendall(sent.encode())
        with urllib.request.urlopen(address[0], timeout=PATIENCE_S) as response:
            assert b"How much of the score survives a shuffle?" in response.read()
        assert b"431 " in _answer(address, REQUEST + "X-Long: " + "x" * MAX_HEADERS + "\r\n\r\n")
        assert b"100 Continue" in _answer(
            address, UNFINISHED["a body"].replace("\r\n", "\r\nExpect: 100-continue\r\n", 1)
        )


@pytest.mark.one_engine
def test_no_header_from_loopback_changes_an_address_on_a_page(database):
    forged = {"SCRIPT_NAME": "//evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Prefix": "/evil"}
    with serving(database) as address:
        lines = "".join(f"{name}: {value}\r\n" for name, value in forged.items())
        request = f"GET / HTTP/1.1\r\nHost: board\r\nConnection: close\r\n{lines}\r\n"
        assert b"evil" not in _answer(address, request)
        with urllib.request.urlopen(address[0], timeout=PATIENCE_S) as response:
            assert b"evil" not in response.read()


def _connect(address):
    return socket.create_connection((address[1], int(address[2])), timeout=PATIENCE_S)


def _answer(address, sent):
    with _connect(address) as client:
        client.sendall(sent.encode())
        return client.recv(1 << 20)


STATIC = Path(web.__file__).parent / "static"


def open_files() -> set[str]:
    """Return the files that this process has open."""
    paths = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the list's own
            paths.add(str(link.readlink()))
    return paths


@pytest.mark.parametrize("name", sorted(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.*")))
def test_a_static_file_is_whole_and_closed_if_its_reader_leaves(name: str) -> None:
    app = create_app(database_url="sqlite://")
    content, client = (STATIC / name).read_bytes(), app.test_client()
    answer = client.get(f"/static/{name}")
    assert (answer.status_code, answer.data) == (HTTPStatus.OK, content)
    same = client.get(f"/static/{name}", headers={"If-None-Match": answer.headers["ETag"]})
    assert (same.status_code, same.data) == (HTTPStatus.NOT_MODIFIED, b"")
    part = client.get(f"/static/{name}", headers={"Range": "bytes=1-3"})
    assert (part.status_code, part.data) == (HTTPStatus.PARTIAL_CONTENT, content[1:4])
    for method in ("GET", "HEAD"):
        kept = app(EnvironBuilder(f"/static/{name}", method=method).get_environ(), lambda *_: lambda _: None)
        assert str(STATIC / name) not in open_files()
        assert kept is not None
    assert client.get("/static/../pages/health.py").status_code == HTTPStatus.NOT_FOUND

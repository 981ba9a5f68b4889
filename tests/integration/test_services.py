"""The servers on which the other tests depend."""

import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from redis import Redis

from tests.support.commands import eventually
from tests.support.services import PostgresServer, RedisServer, ServiceError

ROOT = Path(__file__).resolve().parents[2]


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def accepts(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError:
        return False
    return True


def test_postgresql_stores_utf_8_and_compares_by_bytes(postgresql_url: str) -> None:
    assert rows(postgresql_url, "SHOW server_encoding") == [("UTF8",)]
    assert rows(postgresql_url, "SELECT 'Z' < 'a', 'é' > 'z'") == [(True, True)]


def test_a_redis_database_with_something_in_it_is_never_handed_out(
    redis_server: RedisServer, request: pytest.FixtureRequest
) -> None:
    with closing(Redis.from_url(redis_server.database_url(0))) as client:
        client.set("somebody", "else's")
        try:
            url = request.getfixturevalue("redis_url")
            assert url != redis_server.database_url(0)
            assert client.get("somebody") == b"else's"
        finally:
            client.delete("somebody")


def test_a_durable_postgresql_keeps_every_commit_when_it_is_killed(private_postgres_server: PostgresServer) -> None:
    url = private_postgres_server.url
    rows(url, "CREATE TABLE kept (id integer)")
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        for number in range(50):
            connection.execute("INSERT INTO kept VALUES (%s)", (number,))
        private_postgres_server.kill()
    assert not accepts("127.0.0.1", private_postgres_server.port)
    private_postgres_server.start()
    assert rows(url, "SELECT count(*) FROM kept") == [(50,)]


def test_nothing_listens_beyond_127_0_0_1(
    private_postgres_server: PostgresServer, private_redis_server: RedisServer
) -> None:
    for server in (private_postgres_server, private_redis_server):
        assert accepts("127.0.0.1", server.port)
        # 127.0.0.2 is this machine as well: a server bound to every address would answer there.
        assert not accepts("127.0.0.2", server.port)
        assert not accepts("::1", server.port)


def test_a_server_that_cannot_start_says_why_and_leaves_nothing_behind() -> None:
    with RedisServer() as first:
        second = RedisServer()
        second.port = first.port  # which answers, but is not this server
        with pytest.raises(ServiceError, match=r"(?s)Redis did not start on port .*in use"):
            second.start()
        assert second.folder is None


def test_servers_and_their_folders_go_when_the_tests_are_killed() -> None:
    script = """
import sys
from tests.support.services import PostgresServer, RedisServer
servers = [PostgresServer(), RedisServer()]
for server in servers:
    server.start()
    print(server.port, server.folder, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        started = [tests.stdout.readline().split() for _ in range(2)]
        assert all(accepts("127.0.0.1", int(port)) and Path(folder).is_dir() for port, folder in started)
        tests.send_signal(signal.SIGKILL)
    for port, folder in started:
        eventually(
            lambda port=port, folder=folder: not (accepts("127.0.0.1", int(port)) or Path(folder).exists()),
            f"{folder} goes",
        )

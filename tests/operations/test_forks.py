"""A forked process, which must share no connection with its parent."""

import multiprocessing
from multiprocessing.connection import Connection

from sqlalchemy import text

from registry.db import get_engine
from registry.schema.audiences import audience_engine


def ask_backends(url: str) -> set[int]:
    """Return the ids of the server's processes that answer the owner's and the public's engine."""
    engines = [get_engine(url), audience_engine(get_engine(url), "public")]
    backends = set()
    for engine in engines:
        with engine.connect() as connection:
            backends.add(int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one()))
    return backends


def send_backends(sending: Connection, url: str) -> None:
    sending.send(ask_backends(url))


def test_a_forked_process_has_connections_of_its_own(postgresql_database: str) -> None:
    ours = ask_backends(postgresql_database)
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=send_backends, args=(sending, postgresql_database))
    child.start()
    sending.close()
    with receiving:
        assert not receiving.recv() & ours
    child.join()
    assert child.exitcode == 0
    assert ask_backends(postgresql_database) == ours

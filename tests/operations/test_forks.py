"""A process that is forked shares no connection with its parent."""

import multiprocessing
from multiprocessing.connection import Connection

from sqlalchemy import text

from registry.db import get_engine


def ask_backend(url: str) -> int:
    """Return the number of the server's process that answers."""
    with get_engine(url).connect() as connection:
        return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def send_backend(sending: Connection, url: str) -> None:
    sending.send(ask_backend(url))


def test_a_forked_process_has_connections_of_its_own(postgresql_database: str) -> None:
    ours = ask_backend(postgresql_database)
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=send_backend, args=(sending, postgresql_database))
    child.start()
    sending.close()
    with receiving:
        assert receiving.recv() != ours
    child.join()
    assert child.exitcode == 0
    assert ask_backend(postgresql_database) == ours

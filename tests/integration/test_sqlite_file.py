"""The SQLite file of the default setup, which only its owner may read, and which is complete when nothing runs."""

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from tests.support.commands import shuffleboard_process


def test_only_its_owner_may_read_it_and_no_log_remains(tmp_path: Path) -> None:
    shuffleboard_process("db", "upgrade", home=tmp_path)
    file = tmp_path / "shuffleboard.db"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchall() == [(1,)]

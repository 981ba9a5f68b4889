"""Measures upgrades of a registry with many predictions: `python -m bench.bench_upgrade [OPTIONS]`.

A temporary database is filled with made-up answers. Then it is upgraded by one revision after the other, each with
another kind of change to `prediction`, its largest table. The output is the seconds of each upgrade, and the bytes of
the database per second: the slowest is the basis for the estimates in `db check` and messages
(`registry.schema.history.UPGRADE_BYTES_PER_S`).

Options: --predictions 10000000  --sqlite (a file, in place of a PostgreSQL server)
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, text

from bench.bench_db import BenchServer
from bench.generate_predictions import Source, store
from registry.db import get_engine, write_session
from registry.operations import migrate
from registry.operations.sizes import sizes
from registry.predictions.bulk import renew_statistics
from registry.schema import history
from registry.tables import Prediction
from tests.support.services import postgres_execute

NO_CHANGE: Final = "pass"
CHANGES: Final = {
    "views and triggers alone": NO_CHANGE,
    "a nullable column": "op.add_column('prediction', sa.Column('first', sa.Text()))",
    "a column with a default": (
        "op.add_column('prediction', sa.Column('second', sa.SmallInteger(), nullable=False, server_default='0'))"
    ),
    "an index": "op.create_index('third', 'prediction', ['prompt_digest'])",
    "a check": (
        "with op.batch_alter_table('prediction') as batch:\n"
        "        batch.create_check_constraint('fourth', 'variant >= 0')"
    ),
    "a column filled in every row": "op.execute('UPDATE prediction SET second = variant')",
}
"""Kind of change → the body of its revision. On SQLite a check is added by copying the table."""
REVISION: Final = '''"""{title}."""
import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"


def upgrade():
    {body}
'''


def fill(engine: Engine, folder: Path, predictions: int) -> int:
    """Store one evaluation's predictions, and copy them by SQL for other models until there are enough."""
    with write_session(engine) as session:
        source = Source(session, folder)
        kind = next(kind for kind in source.kinds if kind.variants == "full")
        first = source.add(session, 0, kind)
        store(session, source.rows(0, kind, first))
    names = [column.name for column in Prediction.__table__.columns if column.name != "evaluation_id"]
    listed = ", ".join(names)
    copying = text(
        f"INSERT INTO prediction (evaluation_id, {listed}) SELECT :copy, {listed} FROM prediction "
        "WHERE evaluation_id = :first"
    )
    stored = kind.predictions
    while stored < predictions:
        with write_session(engine) as session:
            copy = source.add(session, stored, kind)
            session.execute(copying, {"copy": copy, "first": first})
            renew_statistics(session, kind.predictions)
        stored += kind.predictions
    return stored


def add_revision(folder: Path, place: int, title: str, body: str) -> None:
    """Write a revision that follows the newest one."""
    revision = f"2999010100{place:02}"
    written = REVISION.format(title=title, revision=revision, before=history.head(), body=body)
    (folder / f"{revision}.py").write_text(written, encoding="utf-8")
    history._read.cache_clear()


def run(url: str, folder: Path, predictions: int, report: Callable[[str], None]) -> None:
    """Fill the database, then measure the upgrades."""
    migrate.upgrade(url)
    engine = get_engine(url)
    began = time.perf_counter()
    stored = fill(engine, folder, predictions)
    size = sizes(engine, 0).database
    report(f"{stored:,} predictions, {size / 1e9:.2f} GB, stored in {time.perf_counter() - began:,.0f} s")
    versions = folder / "versions"
    versions.mkdir()
    folders = (*history.version_folders(), versions)
    history.version_folders = lambda: folders
    for place, (title, body) in enumerate(CHANGES.items()):
        add_revision(versions, place, title, body)
        began = time.perf_counter()
        migrate.upgrade(url)
        seconds = time.perf_counter() - began
        load = f"load of the machine {os.getloadavg()[0]:.1f}"
        report(f"{title}: {seconds:,.1f} s, {size / seconds / 1e6:,.0f} MB/s; {load}")
    engine.dispose()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", type=int, default=10_000_000)
    parser.add_argument("--sqlite", action="store_true")
    options = parser.parse_args(arguments)

    def report(line: str) -> None:
        print(line, flush=True)

    # On the disk: a small database fits in memory, like the tests' databases, and a large one does not.
    os.environ.setdefault("TMPDIR", tempfile.gettempdir())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if options.sqlite:
            url = f"sqlite:///{folder / 'registry.db'}"
        else:
            server = stack.enter_context(BenchServer(watched=False))
            postgres_execute(server.url, "CREATE DATABASE bench TEMPLATE template0")
            url = server.database_url("bench")
        run(url, folder, options.predictions, report)


if __name__ == "__main__":
    main()

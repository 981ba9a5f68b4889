"""A program that reads a registry of a release whose predictions lack a column.

`python -m tests.proof.newer_column KIND URL EVALUATION FOLDER`. KIND is the kind of the column, see COLUMNS. EVALUATION
is archived. FOLDER is for the output. This is a separate program, since the column must exist before the modules that
list the columns of predictions are loaded.
"""

import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
from sqlalchemy import Engine, SmallInteger, String, select
from sqlalchemy.orm import mapped_column

from migrations import draft
from registry import formats
from registry.db import get_engine, read_session
from registry.schema import history
from registry.settings import get_settings
from registry.tables import Archive, Evaluation, Prediction

COLUMN = "added_since"
NUMBER = formats.SEAL + 1
SINCE = {formats.SEALED_SINCE: NUMBER}
COLUMNS = {
    "nullable": mapped_column(String, nullable=True, info=SINCE),
    "with a default": mapped_column(SmallInteger, nullable=False, default=7, server_default="7", info=SINCE),
}
BEFORE = {"nullable": None, "with a default": 7}
"""The column's value in predictions that are older than the column."""


def release(kind: str, folder: Path) -> None:
    """Give this process the code of a release that has the column, with the revision that adds it."""
    formats.SEAL = NUMBER
    setattr(Prediction, COLUMN, COLUMNS[kind])
    shutil.copytree(draft.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    draft.draft("Add a column", datetime(2999, 1, 1, tzinfo=UTC), folder)
    history.migrations_folder = lambda: folder


def read_folder(kind: str, url: str, evaluation_id: int, folder: Path) -> None:
    """Read the folder with every command that reads folders."""
    from registry.operations.migrate import upgrade
    from registry.predictions import archive_files
    from registry.predictions.archived import archive_of
    from registry.sealed.archiving import archive, restore
    from registry.sealed.exporting import export_evaluation
    from registry.sealed.importing import import_evaluation
    from registry.sealed.manifest import list_sealed_columns
    from registry.sealed.verification import verify_evaluation
    from web.publishing.queries import answers_of, make_queries

    before = BEFORE[kind]
    assert COLUMN in archive_files.SCHEMA.names
    assert {*list_sealed_columns(NUMBER)} - {*list_sealed_columns(NUMBER - 1)} == {COLUMN}
    engine = get_engine(url)
    upgrade(url)

    def require_sealed(of: Engine, number: int) -> None:
        with read_session(of) as session:
            report = verify_evaluation(session, number)
        assert report["problems"] == []
        assert (report["seal_version"], COLUMN in report["sealed_columns"]) == (NUMBER - 1, False)

    require_sealed(engine, evaluation_id)
    with read_session(engine) as session:
        place = archive_of(session, evaluation_id)
        seal = session.get_one(Evaluation, evaluation_id).seal
        predictions = session.get_one(Archive, evaluation_id).predictions
    assert place is not None
    file = (place[0].folder or folder) / place[1]
    assert COLUMN not in duckdb.read_parquet(str(file)).columns

    value = 0 if before is None else predictions
    assert on_the_sql_page(engine, evaluation_id) == (predictions, value, before)
    with duckdb.connect() as site:
        site.execute(f"CREATE VIEW {answers_of(evaluation_id)} AS SELECT * FROM read_parquet('{file}')")
        for name in ("prediction_file", "prediction"):
            site.execute(f"CREATE VIEW {name} AS {make_queries([evaluation_id])[name]['sql']}")
        counted = site.execute(f"SELECT count(*), count({COLUMN}), max({COLUMN}) FROM prediction").fetchone()
        assert counted == (predictions, value, before)

    export_evaluation(engine, get_settings(), evaluation_id, folder / "exported")
    upgrade(f"sqlite:///{folder / 'other.db'}")
    other = get_engine(f"sqlite:///{folder / 'other.db'}")
    imported, _ = import_evaluation(other, folder / "exported")
    require_sealed(other, imported)
    with read_session(other) as session:
        assert session.get_one(Evaluation, imported).seal == seal

    assert restore(engine, evaluation_id) is not None
    require_sealed(engine, evaluation_id)
    with read_session(engine) as session:
        values = session.scalars(select(getattr(Prediction, COLUMN)).filter_by(evaluation_id=evaluation_id)).all()
    assert values == [before] * predictions
    assert archive(engine, evaluation_id) is not None
    require_sealed(engine, evaluation_id)


def on_the_sql_page(engine: Engine, evaluation_id: int) -> tuple[Any, ...]:
    """Return the numbers of predictions and of values of the column that the SQL page finds, and the largest value."""
    from registry.sql.files import Files
    from tests.sql.conftest import run_query

    url = engine.url.render_as_string(hide_password=False)
    settings = get_settings().model_copy(update={"database_url": url, "sql_seconds": 60.0})
    Files(engine, settings).write("all")
    query = f"SELECT count(*), count({COLUMN}), max({COLUMN}) FROM prediction WHERE evaluation_id = {evaluation_id}"
    return run_query(settings, "all", query).rows[0]


if __name__ == "__main__":
    kind, url, number, place = sys.argv[1:]
    release(kind, Path(place) / "migrations")
    read_folder(kind, url, int(number), Path(place))

"""Reads a folder of a release whose predictions lack a column: `python -m tests.proof.newer_column FOLDER EVALUATION`.

FOLDER has `proof/test.db`, in which EVALUATION is archived. A program of its own, since the column must be there before the modules that list
the columns of predictions are loaded.
"""

import sys
from pathlib import Path
from typing import Any

import duckdb
from sqlalchemy import Engine, String, select, text
from sqlalchemy.orm import mapped_column

from registry.db import get_engine, read_session, write_session
from registry.operations.migrate import upgrade
from registry.settings import get_settings
from registry.tables import Archive, Evaluation, Prediction

COLUMN = "added_since"
Prediction.added_since = mapped_column(String, nullable=True)  # type: ignore[attr-defined]


def widened(url: str) -> Engine:
    """Return the database with the column, as a release that adds it would leave it."""
    engine = get_engine(url)
    with write_session(engine) as session:
        session.execute(text(f"ALTER TABLE prediction ADD COLUMN {COLUMN} VARCHAR"))
    return engine


def read_folder(folder: Path, evaluation_id: int) -> None:
    """Read the folder by everything that reads folders."""
    from registry.operations.archiving import archive, restore
    from registry.predictions import archive_files
    from registry.predictions.archived import archive_of
    from registry.sealed.exporting import export_evaluation
    from registry.sealed.importing import import_evaluation
    from registry.verification import verify_evaluation
    from web.publishing.queries import answers_of, made

    assert COLUMN in archive_files.SCHEMA.names
    engine = widened(f"sqlite:///{folder / 'proof' / 'test.db'}")

    def require_sealed(of: Engine, number: int) -> None:
        with read_session(of) as session:
            assert verify_evaluation(session, number)["problems"] == []

    require_sealed(engine, evaluation_id)
    with read_session(engine) as session:
        place = archive_of(session, evaluation_id)
        seal = session.get_one(Evaluation, evaluation_id).seal
        predictions = session.get_one(Archive, evaluation_id).predictions
    assert place is not None
    file = (place[0].folder or folder) / place[1]
    assert COLUMN not in duckdb.read_parquet(str(file)).columns

    assert on_the_sql_page(engine, evaluation_id) == (predictions, 0)
    with duckdb.connect() as site:
        site.execute(f"CREATE VIEW {answers_of(evaluation_id)} AS SELECT * FROM read_parquet('{file}')")
        for name in ("prediction_file", "prediction"):
            site.execute(f"CREATE VIEW {name} AS {made([evaluation_id])[name]['sql']}")
        assert site.execute(f"SELECT count(*), count({COLUMN}) FROM prediction").fetchone() == (predictions, 0)

    export_evaluation(engine, get_settings(), evaluation_id, folder / "exported")
    upgrade(f"sqlite:///{folder / 'other.db'}")
    other = widened(f"sqlite:///{folder / 'other.db'}")
    imported, _ = import_evaluation(other, folder / "exported")
    require_sealed(other, imported)
    with read_session(other) as session:
        assert session.get_one(Evaluation, imported).seal == seal

    assert restore(engine, evaluation_id) is not None
    require_sealed(engine, evaluation_id)
    with read_session(engine) as session:
        values = session.scalars(select(getattr(Prediction, COLUMN)).filter_by(evaluation_id=evaluation_id)).all()
    assert values == [None] * predictions
    assert archive(engine, evaluation_id) is not None
    require_sealed(engine, evaluation_id)


def on_the_sql_page(engine: Engine, evaluation_id: int) -> tuple[Any, ...]:
    """Return how many predictions of an evaluation the page finds, and how many have a value of the column."""
    from registry.sql.files import Files
    from tests.sql.conftest import run_query

    settings = get_settings().model_copy(update={"database_url": engine.url.render_as_string(), "sql_seconds": 60.0})
    Files(engine, settings).write("all")
    query = f"SELECT count(*), count({COLUMN}) FROM prediction WHERE evaluation_id = {evaluation_id}"
    return run_query(settings, "all", query).rows[0]


if __name__ == "__main__":
    read_folder(Path(sys.argv[1]), int(sys.argv[2]))

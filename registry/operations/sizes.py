"""Bytes of each table, and of each evaluation's predictions and texts, in the database or archived."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Engine, Table, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from registry.db import Base, read_session
from registry.tables import Archive, Evaluation

_POSTGRESQL: Final = text(
    "SELECT relname AS name, pg_table_size(oid) AS rows, pg_indexes_size(oid) AS indexes FROM pg_class "
    "WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace"
)
# Counted in pages (pageno), since pgsize, their bytes, overflows from 2 GiB on.
_SQLITE: Final = text(
    "SELECT tbl_name AS name, page_size * sum(CASE WHEN type = 'table' THEN pageno ELSE 0 END) AS rows, "
    "page_size * sum(CASE WHEN type = 'index' THEN pageno ELSE 0 END) AS indexes "
    "FROM sqlite_master JOIN dbstat ON dbstat.name = sqlite_master.name, pragma_page_size "
    "WHERE dbstat.aggregate = 1 GROUP BY tbl_name"
)
_SAMPLE: Final = 1000
_ARCHIVED: Final = select(Archive.evaluation_id, Archive.size).where(Archive.state == "archived")
PER_PREDICTION: Final = ("prediction", "generation")
"""Tables with a row for each prompt."""


@dataclass(frozen=True)
class TableSize:
    """Bytes of a table's rows and of its indexes.

    indexes: None if SQLite was built without its page statistics; bytes of rows are then estimated from a sample.
    """

    table: str
    rows: int
    indexes: int | None

    @property
    def total(self) -> int:
        """Return the bytes of rows and indexes together."""
        return self.rows + (self.indexes or 0)


@dataclass(frozen=True)
class EvaluationSize:
    """Bytes of an evaluation's predictions and texts.

    hot: bytes in the database, estimated by the evaluation's share of all prompts. archived: bytes of its file.
    """

    evaluation_id: int
    model: str
    benchmark: str
    prompts: int
    hot: int
    archived: int


@dataclass(frozen=True)
class Sizes:
    """Bytes of the database, its tables and its evaluations, the largest first."""

    database: int
    tables: list[TableSize]
    evaluations: list[EvaluationSize]


def sizes(engine: Engine, limit: int) -> Sizes:
    """Return the sizes of the database, its tables and its evaluations.

    limit: most evaluations in the list.
    """
    with read_session(engine) as session:
        return Sizes(_database(session), tables := _tables(session), _evaluations(session, tables)[:limit])


def _database(session: Session) -> int:
    if session.get_bind().dialect.name == "postgresql":
        query = "SELECT pg_database_size(current_database())"
    else:
        query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    return int(session.scalar(text(query)) or 0)


def _tables(session: Session) -> list[TableSize]:
    try:
        counted = session.execute(_POSTGRESQL if session.get_bind().dialect.name == "postgresql" else _SQLITE).all()
    except OperationalError:  # SQLite without dbstat
        return sorted((_estimate_size(session, table) for table in Base.metadata.sorted_tables), key=_largest_first)
    sizes = [TableSize(row.name, row.rows, row.indexes) for row in counted if row.name in Base.metadata.tables]
    return sorted(sizes, key=_largest_first)


def _largest_first(size: TableSize) -> tuple[int, str]:
    return -size.total, size.table


def _estimate_size(session: Session, table: Table) -> TableSize:
    """Estimate a table's bytes as its rows times the mean bytes of a sample."""
    bytes_of = " + ".join(f"coalesce(length(CAST({column.name} AS BLOB)), 0) + 1" for column in table.columns)
    query = (
        f"SELECT (SELECT count(*) FROM {table.name}) * "  # noqa: S608 - names of ours
        f"coalesce((SELECT avg({bytes_of}) FROM (SELECT * FROM {table.name} LIMIT {_SAMPLE})), 0)"
    )
    return TableSize(table.name, round(session.scalar(text(query)) or 0), None)


def _evaluations(session: Session, tables: list[TableSize]) -> list[EvaluationSize]:
    archived = {row.evaluation_id: row.size for row in session.execute(_ARCHIVED)}
    evaluations = session.scalars(select(Evaluation)).all()
    hot = sum(evaluation.total for evaluation in tables if evaluation.table in PER_PREDICTION)
    prompts = sum(
        evaluation.prompts
        for evaluation in evaluations
        if evaluation.id not in archived and evaluation.seal is not None
    )
    sizes = [
        EvaluationSize(
            evaluation.id,
            evaluation.model_revision.model.name,
            evaluation.benchmark_version.benchmark.name,
            evaluation.prompts,
            0 if evaluation.id in archived or evaluation.seal is None else round(hot * evaluation.prompts / prompts),
            archived.get(evaluation.id, 0),
        )
        for evaluation in evaluations
    ]
    return sorted(sizes, key=lambda evaluation: (-evaluation.hot - evaluation.archived, evaluation.evaluation_id))

"""Damaged registries, for which `verify` always exits with status 1 and a finding with the place, never a traceback."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import Column, Connection, Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from registry.db import get_engine
from registry.sealed.verification import Findings, verify_evaluation
from registry.sealed.verification.stored import check_stored
from registry.tables import Base
from tests.proof.population import Population
from tests.proof.test_columns import PARTS, ROWS, open_unguarded
from tests.support import services
from tests.support.commands import shuffleboard
from tests.support.marks import long_but

pytestmark = pytest.mark.long_on("postgresql")

TABLES: Final = Base.metadata.tables
BROKEN_TEXT: Final = "CAST(x'ff' AS TEXT)"
IN_POSTGRESQL: Final = {
    "JSONB": ("'[[1, \"a\"], {}]'",),
    "DOUBLE PRECISION": ("'NaN'",),
    "DOUBLE PRECISION[]": ("'{NULL}'",),
    "SMALLINT[]": ("'{NULL}'",),
    "TEXT": ("''",),
    "BYTEA": ("''",),
    "TIMESTAMP WITH TIME ZONE": ("'infinity'",),
}
"""Type of a column → values that the type permits, but that the registry never writes."""


def problems_of(connection: Connection, evaluation: int) -> str:
    """Return the findings about an evaluation and about all stored rows."""
    findings = Findings()
    with Session(connection, join_transaction_mode="create_savepoint") as session:
        report = verify_evaluation(session, evaluation)
        check_stored(session, None, findings)
    return "\n".join([*report["problems"], *findings.problems])


def columns() -> list[tuple[str, Column[Any]]]:
    """Return every column of the tables of an evaluation, except withdrawals, of which there are none here."""
    return [(table, column) for table in ROWS if table != "withdrawal" for column in TABLES[table].columns]


def change(connection: Connection, table: str, column: str, value: str, evaluation: int) -> bool | None:
    """Store a value in a row of an evaluation; return whether its type changed, None if the value was refused."""
    row = "rowid" if connection.dialect.name == "sqlite" else "ctid"
    scope = ROWS[table][0].replace(":evaluation", str(evaluation))
    kind = f'typeof("{column}")' if row == "rowid" else f'"{column}"::text'
    listed = f'SELECT {row}, {kind} FROM {table} WHERE {scope} ORDER BY "{column}" IS NULL LIMIT 1'
    place, before = connection.execute(text(listed)).one()
    try:
        connection.execute(text(f"UPDATE {table} SET \"{column}\" = {value} WHERE {row} = '{place}'"))
    except DBAPIError:
        return None
    if row == "ctid":
        return True
    after = connection.scalar(text(f"SELECT {kind} FROM {table} WHERE rowid = {place}"))
    return before not in ("null", after)


def leads_to_others(table: str, column: Column[Any]) -> bool:
    """Return whether the column identifies its row or other rows."""
    return column.primary_key or bool(column.foreign_keys) or column.name in ROWS[table][0]


def values_of_another_type() -> list[list[tuple[str, str, str]]]:
    """Return (table, column, value) in groups whose findings do not hide each other."""
    together: dict[str, list[tuple[str, str, str]]] = {}
    alone = []
    for table, column in columns():
        is_text = str(column.type) == "TEXT" and not column.nullable
        damage = (table, column.name, "x'ff00'" if is_text else "'x'")
        if leads_to_others(table, column):
            alone.append([damage])
        else:
            together.setdefault(table, []).append(damage)
        if is_text:
            alone.append([(table, column.name, BROKEN_TEXT)])
    return [*together.values(), *alone]


@pytest.mark.one_engine
@pytest.mark.parametrize("part", long_but([0], range(PARTS)))
def test_a_value_of_another_type_in_any_column_is_found_and_named(proof: tuple[Engine, Population], part: int) -> None:
    engine, population = proof
    missed, changes = [], 0
    with open_unguarded(engine) as connection:
        for damages in values_of_another_type()[part::PARTS]:
            savepoint = connection.begin_nested()
            outcomes = [(*damage, change(connection, *damage, population.evaluation)) for damage in damages]
            done = [
                outcome for outcome in outcomes if outcome[3] or (outcome[2] == BROKEN_TEXT and outcome[3] is not None)
            ]
            report = problems_of(connection, population.evaluation) if done else ""
            for table, column, value, another in done:
                changes += 1
                if not report or (another and f"{table}.{column} does not hold" not in report):
                    missed.append(f"{table}.{column} = {value}: {report[:200]}")
            savepoint.rollback()
    assert not missed, "\n".join(missed)
    assert changes > 20


@pytest.mark.filterwarnings("ignore:Did not recognize type")
@pytest.mark.parametrize("part", long_but([0], range(PARTS)))
def test_values_that_postgresql_allows_and_nothing_writes_raise_nothing(
    postgresql_proof: tuple[Engine, Population], part: int
) -> None:
    engine, population = postgresql_proof
    texts: dict[str, list[tuple[str, str, str]]] = {}
    alone, changes = [], 0
    for table, column in columns():
        kind = str(column.type.compile(engine.dialect))
        for value in IN_POSTGRESQL.get(kind, ()):
            # An empty value is read like any other, and hides nothing.
            if kind in ("TEXT", "BYTEA") and not leads_to_others(table, column):
                texts.setdefault(table, []).append((table, column.name, value))
            else:
                alone.append([(table, column.name, value)])
    with open_unguarded(engine) as connection:
        for damages in [*texts.values(), *alone][part::PARTS]:
            savepoint = connection.begin_nested()
            done = []
            for damage in damages:
                with connection.begin_nested() as point:
                    done.append(change(connection, *damage, population.evaluation))
                    if done[-1] is None:
                        point.rollback()
            changes += done.count(True)
            if True in done:
                with Session(connection, join_transaction_mode="create_savepoint") as session:
                    verify_evaluation(session, population.evaluation)
                assert connection.scalar(text("SELECT 1")) == 1, damages
            savepoint.rollback()
    assert changes > 8


def test_a_missing_table_is_named(proof: tuple[Engine, Population]) -> None:
    engine, population = proof
    cascade = "" if engine.dialect.name == "sqlite" else "CASCADE"
    with open_unguarded(engine) as connection:
        for table in ROWS:
            savepoint = connection.begin_nested()
            connection.execute(text(f"DROP TABLE {table} {cascade}"))
            report = problems_of(connection, population.evaluation)
            savepoint.rollback()
            assert f"{table}: cannot be checked" in report


# Files and pages


def verify(url: str, *arguments: object) -> str:
    """Run `verify` on a damaged registry and return its output, after checking status and output."""
    outcome = shuffleboard("verify", *arguments, status=1, database_url=url)
    assert "Traceback" not in outcome.stderr
    assert outcome.stderr
    return outcome.stderr


@pytest.mark.one_engine
def test_whichever_page_is_torn_verify_says_so(proof: tuple[Engine, Population], tmp_path: Path) -> None:
    engine, population = proof
    engine.dispose()
    intact = Path(str(engine.url.database))
    with closing(sqlite3.connect(intact)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"))
    torn = tmp_path / "torn.db"
    for name, page in (*((name, roots[name]) for name in ("prediction", "question", "chain_link")), ("file", 1)):
        shutil.copyfile(intact, torn)
        with torn.open("r+b") as stream:
            stream.seek((page - 1) * size + (100 if page == 1 else 0))
            stream.write(os.urandom(size // 2))
        for arguments in ((population.evaluation,), ("--all",)):
            report = verify(f"sqlite:///{torn}", *arguments)
            assert page == 1 or (arguments == ("--all",) and name in report) or "malformed" in report, report
        get_engine(f"sqlite:///{torn}").dispose()


@pytest.mark.one_engine
def test_however_much_of_a_file_is_left_verify_says_so(proof: tuple[Engine, Population], tmp_path: Path) -> None:
    engine, population = proof
    engine.dispose()
    intact = Path(str(engine.url.database))
    with closing(sqlite3.connect(intact)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for number, share in enumerate((0, 0.01, 0.3, 0.6, 0.95)):
        cut = tmp_path / f"{number}.db"
        cut.write_bytes(intact.read_bytes()[: int(share * intact.stat().st_size)])
        for arguments in ((population.evaluation,), ("--all",)):
            verify(f"sqlite:///{cut}", *arguments)
        assert cut.stat().st_size < intact.stat().st_size  # and nothing was set up in its place


@pytest.mark.parametrize("content", ["00", "ff"])
def test_a_lost_block_of_a_table_is_a_finding(
    postgresql_proof: tuple[Engine, Population],
    postgres_server: services.PostgresServer | services.OutsidePostgres,
    content: str,
) -> None:
    engine, population = postgresql_proof
    engine.dispose()
    name = f"{engine.url.database}_lost"
    services.copy_database(postgres_server.url, name, str(engine.url.database))  # nothing of a copy is in memory yet
    url = postgres_server.database_url(name)
    copy = get_engine(url)
    with copy.begin() as connection:
        path = connection.scalar(text("SELECT pg_relation_filepath('prediction')"))
        block = connection.scalar(text("SELECT lo_from_bytea(0, decode(repeat(:two, 8192), 'hex'))"), {"two": content})
        connection.execute(text("SELECT lo_export(:block, :path)"), {"block": block, "path": path})
    report = verify(url, population.evaluation) + verify(url, "--all")
    copy.dispose()
    services.postgres_execute(postgres_server.url, f"DROP DATABASE {name} WITH (FORCE)")
    assert ("invalid page" if content == "ff" else "question q0") in report

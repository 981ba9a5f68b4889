"""A change of any column of any sealed row, which `verify` reports with the evaluation and question."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from sqlalchemy import Column, Connection, Engine, Table, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from registry.db import write_session
from registry.formats import SEALED_SINCE
from registry.schema.triggers import trigger_names
from registry.sealed.verification import OUTSIDE, verify_evaluation
from registry.sealed.withdrawals import withdraw
from registry.tables import Base
from tests.proof.population import Population
from tests.support.marks import long_but

pytestmark = pytest.mark.one_engine

TABLES: Final = Base.metadata.tables

OF_EVALUATION: Final = "evaluation_id = :evaluation"
ROWS: Final[dict[str, tuple[str, str | None]]] = {
    "evaluation": ("id = :evaluation", None),
    "evaluation_question": (OF_EVALUATION, "question_id"),
    "shard": (OF_EVALUATION, None),
    "engine_fingerprint": (
        "id IN (SELECT engine_fingerprint_id FROM shard WHERE evaluation_id = :evaluation)",
        None,
    ),
    "prediction": (f"{OF_EVALUATION} AND reused_from_variant IS NOT NULL", "question_id"),
    "generation": (OF_EVALUATION, "question_id"),
    "question_score": (OF_EVALUATION, "question_id"),
    "question_pride": (OF_EVALUATION, "question_id"),
    "question_seal": (OF_EVALUATION, "question_id"),
    "evaluation_metric": (OF_EVALUATION, None),
    "analysis": (f"{OF_EVALUATION} AND kind = 'pride'", None),
    "evaluation_source": (OF_EVALUATION, None),
    "withdrawal": (OF_EVALUATION, None),
    "question": ("id IN (SELECT question_id FROM question_seal WHERE evaluation_id = :evaluation)", "id"),
    "question_option": (
        "question_id IN (SELECT question_id FROM question_seal WHERE evaluation_id = :evaluation)",
        "question_id",
    ),
    "benchmark_version": ("id = (SELECT benchmark_version_id FROM evaluation WHERE id = :evaluation)", None),
    "model_revision": ("id = (SELECT model_revision_id FROM evaluation WHERE id = :evaluation)", None),
    "protocol": ("id = (SELECT protocol_id FROM evaluation WHERE id = :evaluation)", None),
    "variant_set": ("id = (SELECT variant_set_id FROM evaluation WHERE id = :evaluation)", None),
    "variant": ("variant_set_id = (SELECT variant_set_id FROM evaluation WHERE id = :evaluation)", None),
    "board_snapshot": ("true", None),
    "board_standing": ("true", None),
    "chain_link": ("subject = (SELECT seal FROM evaluation WHERE id = :evaluation)", None),
}
"""Table → condition of the rows that belong to an evaluation, and the column with their question's id."""


def columns() -> list[tuple[str, str]]:
    """Return every column of those tables that `verify` must cover, according to the models."""
    return [
        (table, column.name)
        for table in ROWS
        for column in TABLES[table].columns
        if column.name not in OUTSIDE.get(table, {})
    ]


NOT_SEALED: Final = {
    "account", "account_identity", "api_token", "audit_event", "browser_session", "role", "saved_query", "submission", "submission_evaluation",  # people
    "benchmark", "model",  # names, which are in the specification, and descriptions
    "budget", "rate_limit",  # limits of future spending and requests
    "draft", "provider_batch", "provider_call",  # how answers were got, which may cost; the answers themselves are sealed
    "registry_generation",  # the database generation of claims, and no result
    "exclusion",  # rights to claim the unscored rest
    "worker",  # lives on; its id, host and device are in the seal
    "suite", "board", "board_entry",  # named by their digests, which are in snapshots
    "published_result", "subject_category",  # come with the code
    "chain_signature",  # is checked by its key
    "archive",  # the place of predictions, which are compared with their leaves
}  # fmt: skip


def test_every_table_is_sealed_or_said_not_to_be() -> None:
    assert TABLES.keys() == ROWS.keys() | NOT_SEALED


def test_every_column_outside_exists_and_says_why() -> None:
    for table, listed in OUTSIDE.items():
        assert listed.keys() <= {column.name for column in TABLES[table].columns}, table
        assert all(listed.values())
    assert OUTSIDE.keys() <= ROWS.keys()


def test_of_predictions_texts_and_leaves_nothing_is_outside() -> None:
    assert not OUTSIDE.keys() & {"prediction", "generation", "question_score", "question_seal", "question_option"}


def change(column: Column[Any], value: Any) -> Any:
    """Return another value of the column's type, which no row has as its key."""
    if value is None:
        by_type = {
            int: 100,
            float: 0.25,
            str: "changed",
            bool: True,
            bytes: b"changed",
            datetime: datetime.fromisoformat("2000-01-01T00:00Z"),
        }
        kind = type(column.type).__name__
        if kind == "Digest":
            return "ab" * 32
        if kind in ("SmallIntArray", "DoubleArray"):
            return [-1.0, -2.0] if kind == "DoubleArray" else [1, 0]
        if kind == "UtcDateTime":
            return by_type[datetime]
        if kind == "JsonDocument":
            return {"changed": True}
        return by_type[column.type.python_type]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 100
    if isinstance(value, float):
        return value + 0.001
    if isinstance(value, datetime):
        return value + timedelta(seconds=1)
    if isinstance(value, bytes):
        return value + b"changed"
    if isinstance(value, list):
        return [value[0] + 1, *value[1:]] if isinstance(value[0], int) else [value[0] - 0.001, *value[1:]]
    if isinstance(value, dict):
        return value | {"changed": True}
    return "ab" * 32 if type(column.type).__name__ == "Digest" else f"{value}x"


@contextmanager
def open_unguarded(engine: Engine) -> Iterator[Connection]:
    """Yield a transaction without triggers, keys and checks, which is rolled back."""
    with engine.connect() as connection, connection.begin() as transaction:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
            connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
            for name in trigger_names("sqlite"):
                connection.exec_driver_sql(f"DROP TRIGGER {name}")
        else:
            connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
            checks = connection.execute(
                text(
                    "SELECT conrelid::regclass::text, conname FROM pg_constraint "
                    "WHERE contype = 'c' AND connamespace = 'public'::regnamespace"
                )
            )
            for table, check in checks.all():
                connection.exec_driver_sql(f"ALTER TABLE {table} DROP CONSTRAINT {check}")
        yield connection
        transaction.rollback()


def rows_behind(connection: Connection, table: Table, evaluation: int) -> list[Any]:
    condition = text(ROWS[table.name][0]).bindparams(
        **{"evaluation": evaluation} if ":evaluation" in ROWS[table.name][0] else {}
    )
    return list(connection.execute(select(table).where(condition).order_by(*table.primary_key.columns)).mappings())


def question_of(connection: Connection, table: Table, row: Any) -> str | None:
    """Return the external id of a row's question."""
    key = ROWS[table.name][1]
    if key is None:
        return None
    return str(connection.scalar(text("SELECT external_id FROM question WHERE id = :id").bindparams(id=row[key])))


def candidates(listed: list[Any], table: str, column: str) -> list[Any]:
    """Return the rows to change: one with a value; of questions, the last scored one and an example."""
    if table == "question":
        return [next(row for row in reversed(listed) if row["few_shot"] is few_shot) for few_shot in (False, True)]
    if table == "question_option":
        return [listed[0], listed[-1]]
    return [next((row for row in listed if row[column] is not None), listed[0])]


PARTS: Final = 4


def columns_of_part(part: int) -> list[tuple[str, str]]:
    """Return the columns of one part of the tests; those that older seals do not cover are in the first, quick part."""
    newer = [(table, name) for table, name in columns() if SEALED_SINCE in TABLES[table].columns[name].info]
    others = [column for column in columns() if column not in newer]
    return [*(newer if part == 0 else ()), *others[part::PARTS]]


@pytest.mark.parametrize("part", long_but([0], range(PARTS)))
def test_a_change_to_any_column_is_found_and_named(proof: tuple[Engine, Population], part: int) -> None:
    engine, population = proof
    with write_session(engine) as session:
        withdraw(session, population.evaluation, "to have a withdrawal as well")
    missed = []
    with open_unguarded(engine) as connection:
        with Session(connection) as session:
            before = verify_evaluation(session, population.evaluation)
        assert before["problems"] == []
        for name, column_name in columns_of_part(part):
            table = TABLES[name]
            column = table.columns[column_name]
            listed = rows_behind(connection, table, population.evaluation)
            assert listed, f"{name}: the evaluation has no row there"
            changes = 0
            for row in candidates(listed, name, column_name):
                expected = question_of(connection, table, row)
                if column_name == "external_id":
                    expected = f"{expected}x"  # the name that it has now
                savepoint = connection.begin_nested()
                try:
                    done = connection.execute(
                        update(table)
                        .where(*(key == row[key.name] for key in table.primary_key.columns))
                        .values({column_name: change(column, row[column_name])})
                    )
                except IntegrityError:  # a key that is taken: the database needs no trigger to refuse it
                    savepoint.rollback()
                    continue
                assert done.rowcount == 1
                changes += 1
                with Session(connection, join_transaction_mode="create_savepoint") as session:
                    report = verify_evaluation(session, population.evaluation)
                savepoint.rollback()
                if report["ok"] or report["evaluation"] != population.evaluation:
                    missed.append(f"{name}.{column_name}: nothing was found")
                elif expected is not None and expected not in report["questions"]:
                    missed.append(f"{name}.{column_name}: question {expected} is not named: {report['problems']}")
            assert changes, f"{name}.{column_name} was not changed"
        with Session(connection) as session:
            assert verify_evaluation(session, population.evaluation)["problems"] == []
    assert not missed, "\n".join(missed)
    assert len(columns()) > 200

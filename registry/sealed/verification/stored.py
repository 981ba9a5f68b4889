"""Check that stored data can be read at all: its tables, its pages, and the types of its values."""

import re
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from sqlalchemy import Boolean, Column, Double, Integer, LargeBinary, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from registry.db import Base, Digest, DoubleArray, JsonDocument, SmallIntArray, UtcDateTime
from registry.errors import ShuffleboardError
from registry.sealed.verification.findings import LISTED, Findings

Outcome = TypeVar("Outcome")

_OF_EVALUATION: Final = "evaluation_id = :evaluation"
_ASKED: Final = "SELECT question_id FROM evaluation_question WHERE evaluation_id = :evaluation"
_VERSION: Final = "(SELECT benchmark_version_id FROM evaluation WHERE id = :evaluation)"
_MODEL: Final = "(SELECT model_revision_id FROM evaluation WHERE id = :evaluation)"
_VARIANTS: Final = "(SELECT variant_set_id FROM evaluation WHERE id = :evaluation)"
_SCOPES: Final[dict[str, str]] = {
    "evaluation": "id = :evaluation",
    "evaluation_question": _OF_EVALUATION,
    "shard": _OF_EVALUATION,
    "worker": f"id IN (SELECT worker_id FROM shard WHERE {_OF_EVALUATION})",  # noqa: S608
    "engine_fingerprint": f"id IN (SELECT engine_fingerprint_id FROM shard WHERE {_OF_EVALUATION})",  # noqa: S608
    "prediction": _OF_EVALUATION,
    "generation": _OF_EVALUATION,
    "archive": _OF_EVALUATION,
    "question_score": _OF_EVALUATION,
    "question_pride": _OF_EVALUATION,
    "question_seal": _OF_EVALUATION,
    "evaluation_metric": _OF_EVALUATION,
    "analysis": _OF_EVALUATION,
    "evaluation_source": _OF_EVALUATION,
    "withdrawal": _OF_EVALUATION,
    "question": f"id IN ({_ASKED}) OR benchmark_version_id = {_VERSION}",
    "question_option": f"question_id IN ({_ASKED})",
    "benchmark_version": f"id = {_VERSION}",
    "benchmark": f"id = (SELECT benchmark_id FROM benchmark_version WHERE id = {_VERSION})",  # noqa: S608
    "model_revision": f"id = {_MODEL}",
    "model": f"id = (SELECT model_id FROM model_revision WHERE id = {_MODEL})",  # noqa: S608
    "protocol": "id = (SELECT protocol_id FROM evaluation WHERE id = :evaluation)",
    "variant_set": f"id = {_VARIANTS}",
    "variant": f"variant_set_id = {_VARIANTS}",
}
"""Map each table to the condition for the rows that an evaluation depends on."""
_SHARED: Final = (
    "board",
    "board_entry",
    "board_snapshot",
    "board_standing",
    "chain_link",
    "chain_signature",
)
"""Tables whose rows belong to no single evaluation."""

_TIME: Final = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9]*Z"
_JSON: Final = "CASE WHEN typeof({0}) = 'text' THEN json_valid({0}) ELSE 0 END"
_TYPE_CHECKS: Final[tuple[tuple[type[Any] | tuple[type[Any], ...], str, str], ...]] = (
    (Digest, "a digest", "typeof({0}) = 'blob' AND length({0}) = 32"),
    (
        UtcDateTime,
        "a time",
        f"typeof({{0}}) = 'text' AND {{0}} GLOB '{_TIME}' AND julianday({{0}}) IS NOT NULL",
    ),
    (
        (DoubleArray, SmallIntArray),
        "a list of numbers",
        f"CASE WHEN {_JSON} THEN json_type({{0}}) = 'array' ELSE 0 END",
    ),
    (JsonDocument, "a JSON document", _JSON),
    (Boolean, "true or false", "typeof({0}) = 'integer' AND {0} IN (0, 1)"),
    (Double, "a number", "typeof({0}) IN ('real', 'integer')"),
    (Integer, "a whole number", "typeof({0}) = 'integer'"),
    (LargeBinary, "bytes", "typeof({0}) = 'blob'"),
)
"""For each column type: its Python types, its name in messages, and SQLite's condition for a valid value, since SQLite
stores any type in any column.
"""
_TEXT: Final = ("text", "typeof({0}) = 'text'")

DAMAGE: Final = (
    SQLAlchemyError,
    ShuffleboardError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    struct.error,
)
"""Errors that checks raise on values that our code never writes: of another type, missing, or out of range."""


def attempt(
    session: Session, findings: Findings, what: str, check: Callable[..., Outcome], *arguments: Any
) -> Outcome | None:
    """Run a check and return its result. If damaged data makes it fail, report `what` as unreadable and return None.

    Raises DBAPIError if the connection was lost, which is not damage.
    """
    try:
        # After an error PostgreSQL refuses every statement until the transaction returns to a savepoint.
        with session.begin_nested():
            return check(*arguments)
    except DAMAGE as error:
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            raise
        findings.add(f"{what}: cannot be checked ({_reason(error)})")
        return None


def _reason(error: Exception) -> str:
    """Return an error as one line, without the value that a database quotes."""
    if isinstance(error, DBAPIError):
        message = str(error.orig).splitlines()[0].partition(" with text ")[0]
    else:
        message = f"{type(error).__name__}: {error}"
    return " ".join(message.split())[:200]


def check_stored(session: Session, evaluation_id: int | None, findings: Findings) -> None:
    """Report each table of an evaluation that cannot be read, and each column with values of the wrong type.

    evaluation_id: None checks all rows of all tables, including rows that belong to no evaluation.
    """
    scopes = _SCOPES if evaluation_id is not None else dict.fromkeys((*_SCOPES, *_SHARED), "1 = 1")
    for table, scope in scopes.items():
        attempt(session, findings, table, _check_table, session, table, scope, evaluation_id, findings)


def _check_table(session: Session, table: str, scope: str, evaluation_id: int | None, findings: Findings) -> None:
    columns = list(Base.metadata.tables[table].columns)
    sqlite = session.get_bind().dialect.name == "sqlite"
    wrong = [_is_wrong(column, sqlite=sqlite) for column in columns]
    parameters = {} if evaluation_id is None else {"evaluation": evaluation_id}
    counts = ", ".join(f"count(CASE WHEN {condition} THEN 1 END)" for condition in wrong)
    counted = session.execute(text(f"SELECT {counts} FROM {table} WHERE {scope}"), parameters).one()  # noqa: S608 - ours
    for column, condition, count in zip(columns, wrong, counted, strict=True):
        if not count:
            continue
        problem = f"{table}.{column.name} does not hold {_expect(column)[0]}"
        names = _list_questions(session, table, f"({scope}) AND ({condition})", parameters)
        if names:
            findings.add_questions(names, problem)
        else:
            findings.add(f"{problem} in {count} {'row' if count == 1 else 'rows'}")


def _expect(column: Column[Any]) -> tuple[str, str]:
    """Return the valid content of a column, in words and as a condition of SQLite."""
    for kind, words, condition in _TYPE_CHECKS:
        if isinstance(column.type, kind):
            return words, condition
    return _TEXT


def _is_wrong(column: Column[Any], *, sqlite: bool) -> str:
    name = f'"{column.name}"'
    if not sqlite:  # PostgreSQL enforces the types of columns
        return "1 = 0" if column.nullable else f"{name} IS NULL"
    right = _expect(column)[1].format(name)
    return f"{name} IS NOT NULL AND NOT ({right})" if column.nullable else f"{name} IS NULL OR NOT ({right})"


def _list_questions(session: Session, table: str, condition: str, parameters: dict[str, Any]) -> Iterable[str]:
    """Return the external ids of the questions of the matching rows, at most one more than is listed."""
    key = {"question": "id"}.get(table, "question_id")
    if key not in Base.metadata.tables[table].columns:
        return []
    rows = f"SELECT {key} FROM {table} WHERE {condition}"  # noqa: S608 - ours
    sqlite = session.get_bind().dialect.name == "sqlite"
    name = "iif(typeof(external_id) = 'text', external_id, quote(external_id))" if sqlite else "external_id"
    query = f"SELECT {name} FROM question WHERE id IN ({rows}) LIMIT {LISTED + 1}"  # noqa: S608
    return [str(name) for name in session.scalars(text(query), parameters)]


def check_pages(session: Session, findings: Findings) -> None:
    """Check the pages of an SQLite file, and name the table or index of each problem.

    PostgreSQL checks its pages whenever it reads them.
    """
    if session.get_bind().dialect.name != "sqlite":
        return
    listed = session.execute(text("SELECT rootpage, name FROM sqlite_master WHERE rootpage > 0"))
    trees: dict[int, str] = {row.rootpage: row.name for row in listed}
    for problem in session.scalars(text(f"PRAGMA quick_check({LISTED})")):
        for line in str(problem).splitlines():
            if line != "ok" and not line.startswith("***"):
                tree = re.match(r"Tree (\d+)", line)
                name = trees.get(int(tree[1])) if tree else None
                findings.add(f"database file: {f'{name}: ' if name else ''}{line}")

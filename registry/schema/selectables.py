"""The SQL views as SQLAlchemy selectables, with the Python type of each column."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Double, Executable, FromClause, Result, Text, column, table
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeEngine

from registry.db import Digest, DoubleArray, JsonDocument, SmallIntArray, UtcDateTime
from registry.schema.documented import columns_of

Row = dict[str, Any]


_TYPES: Final[Mapping[str, TypeEngine[Any]]] = {
    "integer": BigInteger(),
    "double": Double(),
    "boolean": Boolean(),
    "text": Text(),
    "time": UtcDateTime(),
    "digest": Digest(),
    "json": JsonDocument(),
    "integer[]": SmallIntArray(),
    "double[]": DoubleArray(),
}


def view_of(name: str, *, whole: bool = True) -> FromClause:
    """Return a SQL view to select from. whole: include the columns that the API's answers leave out."""
    return relation_of(name, {item.name: item.type for item in columns_of(name).values() if whole or item.answers})


def relation_of(name: str, types: Mapping[str, str]) -> FromClause:
    """Return a view or table to select from. types: column to documented type."""
    return table(name, *(column(column_name, _TYPES[kind]) for column_name, kind in types.items()))


def _view(name: str) -> FromClause:
    return view_of(name, whole=False)


leaderboard: Final = _view("leaderboard")
evaluation_metrics: Final = _view("evaluation_metrics")
evaluation_sources: Final = _view("evaluation_sources")
withdrawals: Final = _view("withdrawals")
chain_links: Final = _view("chain_links")
evaluation_provenance: Final = _view("evaluation_provenance")
question_metrics: Final = _view("question_metrics")
prediction_detail: Final = _view("prediction_detail")
adversarial_effects: Final = _view("adversarial_effects")
evaluation_seconds: Final = _view("evaluation_seconds")
evaluation_costs: Final = _view("evaluation_costs")
extraction_counts: Final = _view("extraction_counts")
run_accuracy: Final = _view("run_accuracy")
measured_and_published: Final = _view("measured_and_published")
option_probability: Final = _view("option_probability")


def rows_of(session: Session, query: Executable) -> list[Row]:
    """Return a query's rows by column name, numbers as plain Python numbers."""
    return list_rows(session.execute(query))


def list_rows(result: Result[Any]) -> list[Row]:
    """Return a result's rows in the form of `rows_of`."""
    names = tuple(result.keys())
    return [dict(zip(names, map(_number, row), strict=True)) for row in result]


def _number(value: Any) -> Any:
    """Convert a decimal of PostgreSQL: to int without fraction digits, as in sums of integers, else to float."""
    if not isinstance(value, Decimal):
        return value
    exponent = value.as_tuple().exponent
    return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)

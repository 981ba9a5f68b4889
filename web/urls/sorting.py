"""Tables that a URL sorts: `sort` names a column, `order` is `asc` or `desc`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from flask import request

from registry.schema.selectables import Row
from web.urls import parameters

Order = Literal["asc", "desc"]


@dataclass(frozen=True)
class Sorting:
    """The sorting of a table. natural: column → the direction in which it is sorted first."""

    sort: str
    order: str
    natural: Mapping[str, Order]

    def next_order(self, column: str) -> str:
        """Return the order for the link in a column's heading: natural, or reversed if the column is sorted already."""
        if column == self.sort:
            return "asc" if self.order == "desc" else "desc"
        return self.natural[column]


def read_sorting(natural: Mapping[str, Order], default: str) -> Sorting:
    """Return the order in the query string. Raises UsageError for a column that the table does not have."""
    sort = parameters.choice(request.args, "sort", natural, default)
    return Sorting(sort, parameters.choice(request.args, "order", ("asc", "desc"), natural[sort]), natural)


def in_order(rows: Sequence[Row], sorting: Sorting, value: Callable[[Row], Any] | None = None) -> list[Row]:
    """Return rows by the sorting column, ignoring case, rows without a value last.

    value: returns a row's value in that column; by default the value under the column's name. Rows with equal values
    stay in the given order.
    """
    of_row = value or (lambda row: row[sorting.sort])
    with_value = [row for row in rows if of_row(row) is not None]
    unknown = [row for row in rows if of_row(row) is None]
    return sorted(with_value, key=lambda row: _plain(of_row(row)), reverse=sorting.order == "desc") + unknown


def _plain(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value

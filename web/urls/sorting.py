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
    """How a table is sorted. natural: column to the direction in which it is sorted first."""

    sort: str
    order: str
    natural: Mapping[str, Order]

    def next_order(self, column: str) -> str:
        """The direction that a column's heading leads to: its natural one or, where it sorts already, the other."""
        if column == self.sort:
            return "asc" if self.order == "desc" else "desc"
        return self.natural[column]


def read_sorting(natural: Mapping[str, Order], default: str) -> Sorting:
    """The order in the query string. Raises UsageError for a column that the table does not have."""
    sort = parameters.choice(request.args, "sort", natural, default)
    return Sorting(sort, parameters.choice(request.args, "order", ("asc", "desc"), natural[sort]), natural)


def in_order(rows: Sequence[Row], sorting: Sorting, value: Callable[[Row], Any] | None = None) -> list[Row]:
    """Rows by the column that sorts, texts without regard to letter case, those without a value last.

    value: of a row in that column; without it, what the row has under the column's name. Rows with equal values stay in
    the order given.
    """
    of_row = value or (lambda row: row[sorting.sort])
    known = [row for row in rows if of_row(row) is not None]
    unknown = [row for row in rows if of_row(row) is None]
    return sorted(known, key=lambda row: _plain(of_row(row)), reverse=sorting.order == "desc") + unknown


def _plain(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value

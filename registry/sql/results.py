"""The result of a query, and its forms to download: JSON, CSV and Parquet."""

import json
import math
from dataclasses import dataclass
from typing import Any

from registry.exchange.tabular import csv_text, parquet_bytes, spreadsheet_cell

Cell = Any
"""None, bool, int, float, str, or a list or object of them."""


@dataclass(frozen=True)
class QueryResult:
    """The rows of a query, or the first of them.

    columns: names as in the query; they may repeat. types: DuckDB's type of each column. rows: shape (n_rows,
    n_columns). truncated: whether there are more rows. notes: sentences on omissions, for people. elapsed_s: seconds
    that the query took. Times are UTC text (2026-05-01T12:00:00.000000Z), bytes are hexadecimal digits, NULL is None,
    floats may be NaN or infinite.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    truncated: bool
    elapsed_s: float
    notes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


def as_json(result: QueryResult) -> str:
    """Return one JSON document: `columns`, `types`, `rows` as lists in their order, `truncated`, `notes`, `elapsed_s`.

    JSON has no NaN and no infinities: they become the texts "NaN", "Infinity" and "-Infinity", as in PostgreSQL's JSON.
    """
    document = {
        "columns": list(result.columns),
        "types": list(result.types),
        "rows": [[_replace_non_finite(cell) for cell in row] for row in result.rows],
        "truncated": result.truncated,
        "notes": list(result.notes),
        "elapsed_s": result.elapsed_s,
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def as_csv(result: QueryResult) -> str:
    """Return CSV (lines end in a line feed alone) with one line of headings; NULL is an empty cell, lists are JSON.

    A text that a spreadsheet would run as a formula gets an apostrophe before it, as in the leaderboard's CSV; numbers
    are unchanged, also negative ones. JSON has every text unchanged.
    """
    names = list(map(spreadsheet_cell, _names(result)))
    return csv_text((dict(zip(names, map(_flatten, row), strict=True)) for row in result.rows), names)


def as_parquet(result: QueryResult) -> bytes:
    """Return a Parquet file. A column with values of several types becomes text."""
    names = _names(result)
    return parquet_bytes([dict(zip(names, row, strict=True)) for row in result.rows], names, "a query")


def _names(result: QueryResult) -> list[str]:
    """Return the names of the columns; repeated ones are numbered."""
    names: list[str] = []
    for name in result.columns:
        unique, number = name, 1
        while unique in names:
            number += 1
            unique = f"{name}_{number}"
        names.append(unique)
    return names


def _replace_non_finite(cell: Cell) -> Cell:
    if isinstance(cell, float) and not math.isfinite(cell):
        return "NaN" if math.isnan(cell) else "Infinity" if cell > 0 else "-Infinity"
    if isinstance(cell, list):
        return [_replace_non_finite(item) for item in cell]
    if isinstance(cell, dict):
        return {key: _replace_non_finite(item) for key, item in cell.items()}
    return cell


def _flatten(cell: Cell) -> Cell:
    return json.dumps(_replace_non_finite(cell), ensure_ascii=False) if isinstance(cell, (list, dict)) else cell

"""The documented views and their columns, as the schema browser shows them and the guard knows them.

`views.json` is written from docs/views.md by docs/generate.py: the page is the one place where a column is described.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class ColumnDocument:
    """A column: what it means, its unit or type (`id`, `count`, `flag`, `time`, `list`, …), and when it is NULL."""

    name: str
    meaning: str
    unit: str
    null: str


@dataclass(frozen=True)
class ViewDocument:
    """A view: what it has one row for, what it is for, and its columns in the order of the page."""

    name: str
    one_row_per: str
    use_it_for: str
    columns: tuple[ColumnDocument, ...]


@lru_cache(maxsize=1)
def documented_views() -> tuple[ViewDocument, ...]:
    """Every documented view, those that people ask for most first."""
    views = json.loads((Path(__file__).parent / "views.json").read_text(encoding="utf-8"))
    return tuple(
        ViewDocument(
            view["name"],
            view["one_row_per"],
            view["use_it_for"],
            tuple(ColumnDocument(**column) for column in view["columns"]),
        )
        for view in views
    )


@lru_cache(maxsize=1)
def documented_columns() -> frozenset[str]:
    """The names of the columns of all views."""
    return frozenset(column.name for view in documented_views() for column in view.columns)

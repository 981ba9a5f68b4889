"""The documented views and their columns: columns.toml, with the metrics filled in from METRICS.

columns.toml is the only description of columns. It is read once, on first use.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from registry.metrics import METRICS, Metric
from registry.metrics.catalogue import QUESTION_METRICS

_UNITS: Final[Mapping[str, str]] = {
    "integer": "count",
    "double": "fraction",
    "boolean": "flag",
    "text": "text",
    "time": "time",
    "digest": "digest",
    "json": "JSON document",
    "integer[]": "list",
    "double[]": "list of fractions",
}
"""Type of a column → its unit, if columns.toml gives none."""


@dataclass(frozen=True)
class ColumnDocument:
    """A column: its meaning, its unit or kind (`id`, `count`, `flag`, `time`, `list`, …), and when it is NULL.

    answers: whether the API's answers include it. summary: a sentence about a metric, whose `meaning` is only its name.
    """

    name: str
    type: str
    meaning: str
    unit: str
    null: str
    answers: bool
    summary: str = ""

    @property
    def nullable(self) -> bool:
        """Return whether the column may be NULL."""
        return self.null != "never"

    @property
    def sentence(self) -> str:
        """Return meaning, unit and NULL as one text, for other programs."""
        meaning = f"{self.meaning}: {self.summary}" if self.summary else f"{self.meaning}."
        return f"{meaning} {self.unit.capitalize()}; NULL: {self.null}."


@dataclass(frozen=True)
class ViewDocument:
    """A documented view: the meaning of a row, the view's use, a description, and its columns."""

    name: str
    one_row_per: str
    use_it_for: str
    text: str
    columns: tuple[ColumnDocument, ...]


@cache
def load_documented_views(*, markdown: bool = False) -> tuple[ViewDocument, ...]:
    """Return every documented view, the most used first; as plain text, or with Markdown's links and code."""
    if not markdown:
        return tuple(_strip_markdown(view) for view in load_documented_views(markdown=True))
    views = tomllib.loads((Path(__file__).parent / "columns.toml").read_text(encoding="utf-8"))  # noqa: TID251 - our own
    return tuple(
        ViewDocument(
            name, view["one_row_per"], view["use_it_for"], view["text"], tuple(_columns(name, view["columns"]))
        )
        for name, view in views.items()
    )


@cache
def columns_of(view: str) -> Mapping[str, ColumnDocument]:
    """Map the column names of a documented view to its columns."""
    (view_document,) = (document for document in load_documented_views() if document.name == view)
    return {column.name: column for column in view_document.columns}


def metrics_of(view: str) -> tuple[str, ...]:
    """Return the metrics with a column in a view, for `<metric>` in columns.toml."""
    if view == "question_metrics":
        return QUESTION_METRICS
    return tuple(name for name, metric in METRICS.items() if view in ("leaderboard", metric.view))


def _columns(view: str, columns: Mapping[str, Mapping[str, Any]]) -> Iterator[ColumnDocument]:
    repeated = {name: entry for name, entry in columns.items() if name.startswith("<metric>")}
    for name, entry in columns.items():
        if name == "<metric>":
            for metric in metrics_of(view):
                for pattern, pattern_entry in repeated.items():
                    yield _column(view, pattern, pattern_entry, METRICS[metric])
        elif name not in repeated:
            yield _column(view, name, entry, None if "meaning" in entry else METRICS[name])


def _column(view: str, pattern: str, entry: Mapping[str, Any], metric: Metric | None) -> ColumnDocument:
    answers = entry.get("answers", True)
    if metric is None:
        type_ = entry["type"]
        unit = entry.get("unit", _UNITS[type_])
        return ColumnDocument(pattern, type_, entry["meaning"], unit, entry.get("null", "never"), answers)
    name = pattern.replace("<metric>", metric.name)
    if "meaning" in entry:
        described = _column(view, name, entry, None)
        return replace(described, meaning=described.meaning.replace("<metric>", metric.name))
    # In its own view, a function of two means is NULL for the metric's own reason.
    null = metric.undefined if metric.of_two_means and view == metric.view else entry.get("null", metric.undefined)
    label = f"[{metric.label}](metrics.md#{metric.name})"
    return ColumnDocument(name, "double", label, metric.unit, null, answers, metric.summary)


def _strip_markdown(view: ViewDocument) -> ViewDocument:
    return ViewDocument(
        view.name,
        _strip_marks(view.one_row_per),
        _strip_marks(view.use_it_for),
        _strip_marks(view.text),
        tuple(
            replace(
                column,
                meaning=_strip_marks(column.meaning),
                unit=_strip_marks(column.unit),
                null=_strip_marks(column.null),
            )
            for column in view.columns
        ),
    )


def _strip_marks(text: str) -> str:
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "")


def datasette_metadata(database: str) -> dict[str, Any]:
    """Return the documented views as Datasette's metadata. database: the name under which Datasette serves it."""
    tables = {
        view.name: {
            "title": view.use_it_for.capitalize(),
            "description": f"One row per {view.one_row_per}.",
            "columns": {column.name: column.sentence for column in view.columns},
        }
        for view in load_documented_views()
    }
    return {"databases": {database: {"tables": tables}}}

"""Answers that `.frame()` turns into pandas data frames; pandas is imported when it is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from registry.packages import missing_package

if TYPE_CHECKING:
    import pandas as pd

Document = dict[str, Any]
"""A server's answer; `/api` on a website lists the keys of each."""


class Rows(list[Document]):
    """Rows of a table, as documents."""

    def frame(self) -> pd.DataFrame:
        """Return a data frame with a column for each key; nested documents and lists stay as they are."""
        return _frame(list(self))


class LazyRows(Iterator[Document]):
    """Rows of a table that are fetched page by page."""

    def __init__(self, rows: Iterator[Document]) -> None:
        self._rows = rows

    def __next__(self) -> Document:
        return next(self._rows)

    def frame(self) -> pd.DataFrame:
        """Fetch the remaining rows, and return a data frame with a column for each key."""
        return _frame(list(self._rows))


class Values(dict[str, float | None]):
    """Metrics by name; None if undefined."""

    def frame(self) -> pd.DataFrame:
        """Return a data frame with the metrics as index and the column `value`, NaN if undefined."""
        return _values(self)


class Metrics(Document):
    """The metrics of an evaluation, as the API returns them."""

    def frame(self) -> pd.DataFrame:
        """Return a data frame with a row per question, if their metrics were requested; else with a row per metric."""
        by_question = self.get("per_question")
        if by_question is None:
            return _values(self["metrics"])
        rows = [{"question_id": question, **values} for question, values in by_question.items()]
        return _frame(rows, columns=None if rows else ["question_id"]).set_index("question_id")


def _frame(rows: list[Document], columns: list[str] | None = None) -> pd.DataFrame:
    return _pandas().DataFrame(rows, columns=columns)  # type: ignore[no-any-return]


def _values(values: dict[str, float | None]) -> pd.DataFrame:
    pandas = _pandas()
    index = pandas.Index(list(values), name="metric", dtype="str")
    return pandas.DataFrame({"value": list(values.values())}, index=index, dtype="float64")  # type: ignore[no-any-return]


def _pandas() -> Any:
    """Return the module pandas. Raises UsageError if it is not installed."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise missing_package(error) or error from None
    return pd

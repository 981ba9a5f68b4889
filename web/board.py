"""The leaderboard's order: filters, groups, ranks. Pure functions over rows of `queries.board`.

They are the definition. Over thousands of evaluations `web.standings` has the database do the same.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, cast

from registry.metrics import METRICS
from registry.statistics.competition_ranks import ranks
from web import parameters
from web.parameters import Arguments
from web.views import Row

TEXT_COLUMNS: Final = ("model", "benchmark", "variants", "protocol")
SORTS: Final = (*TEXT_COLUMNS, "shots", "scored", "sealed_at", *METRICS)
FILTERS: Final = ("benchmark", "variants", "protocol", "shots", "model", "q")
GROUP_COLUMNS: Final = ("benchmark", "variants", "protocol", "shots")
"""What the members of a group have in common."""
ARGUMENTS: Final = (*FILTERS, "sort", "order", "metrics", "group", "page", "per_page")


@dataclass(frozen=True)
class BoardRequest:
    """What a leaderboard URL asks for.

    rank_metric: what rows are ranked by: the metric that sorts, or worst accuracy when something else sorts.
    """

    filters: Mapping[str, str]
    metrics: tuple[str, ...]
    sort: str
    order: str
    grouped: bool

    @property
    def rank_metric(self) -> str:
        """The metric behind the rank column."""
        if self.sort in METRICS:
            return self.sort
        return default_sort(self.metrics)


def default_sort(metrics: Sequence[str]) -> str:
    """Worst accuracy where it is shown, else the first metric shown."""
    return "worst_accuracy" if "worst_accuracy" in metrics else metrics[0]


def natural_order(sort: str) -> str:
    """The direction that puts the best, or the alphabet's start, on top."""
    if sort in METRICS:
        return "asc" if METRICS[sort].better == "lower" else "desc"
    return "asc" if sort in TEXT_COLUMNS else "desc"


def read(arguments: Arguments) -> BoardRequest:
    """The request in a query string. Raises UsageError for an invalid value."""
    chosen = parameters.metrics(arguments)
    sort = parameters.choice(arguments, "sort", SORTS, default_sort(chosen))
    filters = {key: value for key in FILTERS if (value := parameters.text(arguments, key)) is not None}
    if "shots" in filters:
        filters["shots"] = str(parameters.whole(arguments, "shots", 0, 0, 1000))
    return BoardRequest(
        filters,
        chosen,
        sort,
        parameters.choice(arguments, "order", ("asc", "desc"), natural_order(sort)),
        parameters.choice(arguments, "group", ("yes", "no"), "yes") == "yes",
    )


def group_key(row: Row) -> tuple[Any, ...]:
    """Rows with this in common were asked the same questions in the same way; only they are ranked together."""
    return (
        row["benchmark"],
        row["benchmark_version"],
        row["variants"],
        row["variant_set_id"],
        row["protocol"],
        row["shots"],
        row["protocol_id"],
        json.dumps(_part(row), sort_keys=True),
    )


def _part(row: Row) -> Row | None:
    """The question filter where it leaves questions out; None for the whole benchmark, which stands first."""
    if "part" in row:
        return cast("Row | None", row["part"])
    question_filter: Row = row["question_filter"]
    return question_filter if any(value is not None for value in question_filter.values()) else None


def ranked(rows: Sequence[Row], metric: str) -> list[Row]:
    """The rows with `rank` added: within their group, complete ones only."""
    result = []
    for _, group in groupby(sorted(rows, key=group_key), key=group_key):
        members = list(group)
        values = [row[metric] if row["complete"] else None for row in members]
        result += [
            row | {"rank": rank} for row, rank in zip(members, ranks(values, METRICS[metric].better), strict=True)
        ]
    return result


def matching(rows: Sequence[Row], filters: Mapping[str, str]) -> list[Row]:
    """The rows that all filters keep; `q` is part of a model's name, the others are exact."""
    exact = {key: value for key, value in filters.items() if key != "q"}
    part = filters.get("q", "").casefold()
    return [
        row
        for row in rows
        if all(str(row[key]) == value for key, value in exact.items()) and part in row["model"].casefold()
    ]


def ordered(rows: Sequence[Row], sort: str, order: str) -> list[Row]:
    """The rows by one column, NULL last whatever the direction; equal ones by model, then evaluation."""
    settled = sorted(rows, key=lambda row: (row["model"].casefold(), row["evaluation_id"]))
    known = [row for row in settled if row[sort] is not None]
    known.sort(key=lambda row: comparable(row[sort]), reverse=order == "desc")
    return known + [row for row in settled if row[sort] is None]


def comparable(value: Any) -> Any:
    """A value to sort by: letter case does not count."""
    return value.casefold() if isinstance(value, str) else value


@dataclass(frozen=True)
class Board:
    """A leaderboard, ready to show: `complete` rows are ranked, `incomplete` ones stand apart."""

    complete: list[Row]
    incomplete: list[Row]

    @property
    def rows(self) -> list[Row]:
        """All rows, the incomplete ones last."""
        return self.complete + self.incomplete


def make(rows: Sequence[Row], request: BoardRequest) -> Board:
    """Ranks over all rows first, so that a filter never changes a rank; then filters, then sorts."""
    kept = matching(ranked(rows, request.rank_metric), request.filters)
    complete = ordered([row for row in kept if row["complete"]], request.sort, request.order)
    if request.grouped:
        # Stable: within a group the chosen order stays. Sorting by what a group has in common moves whole groups.
        complete.sort(key=group_key)
        if request.sort in GROUP_COLUMNS:
            complete.sort(key=lambda row: comparable(row[request.sort]), reverse=request.order == "desc")
    incomplete = [row for row in kept if not row["complete"]]
    incomplete.sort(key=lambda row: -row["evaluation_id"])
    return Board(complete, incomplete)


def groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Neighbouring rows of one group together."""
    return [list(group) for _, group in groupby(rows, key=group_key)]


def moves_answers(row: Row) -> bool:
    """Whether a row is under answer-moving variants, whatever their parameters."""
    return bool(row["variants"].partition(":")[0] == "answer-moving")

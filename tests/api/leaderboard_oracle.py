"""An oracle for the database's leaderboard: its definition in Python, applied to all rows of the view.

It is slow and needs no index: filters, groups, ranks and order are pure functions of rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import JSON, select, type_coerce
from sqlalchemy.orm import Session

from registry.leaderboard.rows import GROUP_COLUMNS, Ordering, group_key
from registry.leaderboard.selection import Selection
from registry.metrics import METRICS
from registry.schema.selectables import Row, leaderboard, rows_of
from registry.scores.asked import one_order
from registry.statistics.competition_ranks import ranks
from registry.tables import BenchmarkVersion, Evaluation


def rows_of_the_view(session: Session) -> list[Row]:
    """Return every row of the view `leaderboard`, with the columns that identify rows under the same conditions."""
    query = (
        select(
            leaderboard,
            Evaluation.protocol_id,
            Evaluation.variant_set_id,
            Evaluation.prompts,
            type_coerce(Evaluation.specification, JSON())["questions"].label("question_filter"),
        )
        .select_from(leaderboard)
        .join(Evaluation, Evaluation.id == leaderboard.c.evaluation_id)
        .join(BenchmarkVersion, BenchmarkVersion.id == Evaluation.benchmark_version_id)
        .order_by(leaderboard.c.evaluation_id)
    )
    # The rows contain all inputs of the digest.
    return [
        row
        | {"part": part(row["question_filter"]), "asked_digest": ""}
        | {"repeated": int((row["variants_max"] or 0) > (row["distinct_prompts_max"] or 0))}
        for row in rows_of(session, query)
    ]


def part(question_filter: Row) -> Row | None:
    """Return the question filter if it excludes questions, None if it selects the whole benchmark."""
    return question_filter if any(value is not None for value in question_filter.values()) else None


@dataclass(frozen=True)
class Board:
    """A leaderboard: `complete` rows are ranked, and `incomplete` rows follow them."""

    complete: list[Row]
    incomplete: list[Row]

    @property
    def rows(self) -> list[Row]:
        """Return all rows, the incomplete ones last."""
        return self.complete + self.incomplete


def make(rows: Sequence[Row], selection: Selection, ordering: Ordering) -> Board:
    """Rank all rows before they are filtered, so that a filter never changes a rank; then filter and sort them."""
    kept = _matching(_rank(rows, ordering.rank_metric), selection)
    complete = order_by([row for row in kept if row["complete"]], ordering.sort, ordering.order)
    if ordering.grouped:
        # The sort is stable: rows of a group keep the chosen order, and sorting by a column that a group shares moves
        # whole groups.
        complete.sort(key=group_key)
        complete = _largest_first(complete)
        if ordering.sort in GROUP_COLUMNS:
            complete.sort(key=lambda row: _comparable(row[ordering.sort]), reverse=ordering.order == "desc")
    incomplete = [row for row in kept if not row["complete"]]
    incomplete.sort(key=lambda row: -row["evaluation_id"])
    return Board(complete, incomplete)


def _largest_first(complete: Sequence[Row]) -> list[Row]:
    """Sort groups by the number of questions that all evaluations answer, and benchmarks by their largest group."""
    groups = [list(group) for _, group in groupby(complete, key=group_key)]
    benchmarks: dict[str, list[list[Row]]] = {}
    for group in sorted(groups, key=_answers, reverse=True):
        benchmarks.setdefault(group[0]["benchmark"], []).append(group)
    of_size = sorted(benchmarks.items(), key=lambda item: (-_answers(item[1][0]), item[0]))
    return [row for _, ways in of_size for group in ways for row in group]


def _answers(group: Sequence[Row]) -> int:
    return sum(row["questions"] for row in group)


def _rank(rows: Sequence[Row], metric: str) -> list[Row]:
    """Return the rows with `rank` added for the complete rows of each group that has several models.

    A group whose questions were asked in one order is ranked by accuracy if the metric needs two orders.
    """
    ranked = []
    for _, group in groupby(sorted(rows, key=group_key), key=group_key):
        members = list(group)
        by = metric
        if METRICS[metric].needs_two_prompts and all(row[metric] is None for row in members if row["complete"]):
            by = "accuracy"
        values = [row[by] if row["complete"] and (by == metric or one_order(row)) else None for row in members]
        models = {row["model"] for row, value in zip(members, values, strict=True) if value is not None}
        if len(models) < 2:
            values = [None] * len(members)
        ranked += [row | {"rank": rank} for row, rank in zip(members, ranks(values, METRICS[by].better), strict=True)]
    return ranked


def _matching(rows: Sequence[Row], selection: Selection) -> list[Row]:
    """Return the rows that match the selected benchmark, variants, protocol, shots, model and part of the name."""
    exact = {key: getattr(selection, key) for key in ("benchmark", "variants", "protocol", "shots", "model")}
    name = (selection.q or "").casefold()
    return [
        row
        for row in rows
        if all(value in (None, row[key]) for key, value in exact.items()) and name in row["model"].casefold()
    ]


def order_by(rows: Sequence[Row], sort: str, order: str) -> list[Row]:
    """Return the rows sorted by a column, NULL last in both directions; equal rows by model, then by evaluation.

    If a metric needs two orders, equal rows are sorted by accuracy first.
    """
    settled = sorted(rows, key=lambda row: (row["model"].casefold(), row["evaluation_id"]))
    if sort in METRICS and METRICS[sort].needs_two_prompts:
        settled.sort(key=lambda row: (row["accuracy"] is None, -(row["accuracy"] or 0.0)))
    defined = [row for row in settled if row[sort] is not None]
    defined.sort(key=lambda row: _comparable(row[sort]), reverse=order == "desc")
    return defined + [row for row in settled if row[sort] is None]


def _comparable(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value

"""Every model on every benchmark, asked in one way: a table with darker cells for higher numbers."""

from collections import Counter
from typing import Any, Final

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from registry.errors import UsageError
from registry.metrics import METRICS
from registry.results.leaderboard import Ordering, complete_rows, count_groups, group_key, natural_order, split_by_group
from registry.results.selectables import Row
from registry.results.selection import Selection
from web import parameters
from web.formats import chosen_questions
from web.responses import session

blueprint = Blueprint("overview", __name__)

WAY: Final = ("variants", "protocol", "shots")
STEPS: Final = 10
MOST: Final = 2000
"""Evaluations on the page at most: fifty models on forty benchmarks."""


@blueprint.get("/overview")
def overview() -> ResponseReturnValue:
    """Models by benchmarks under one way of asking; by default the one with the most evaluations."""
    metric = parameters.choice(request.args, "metric", METRICS, "worst_accuracy")
    groups = count_groups(session(), Selection())
    way = _way(groups)
    choices = {key: sorted({str(group[key]) for group in groups}) for key in WAY}
    if way is None:
        return render_template("overview.html", metric=metric, way=None, choices=choices, rows=[], benchmarks=[])
    selection = Selection(**way)
    asked = Ordering((metric,), metric, natural_order(metric))
    found, total = complete_rows(session(), selection, asked, limit=MOST, offset=0, metrics=(metric,))
    benchmarks = [members[0] for members in split_by_group(found)]
    return render_template(
        "overview.html",
        metric=metric,
        way=way,
        choices=choices,
        benchmarks=[row | {"part": chosen_questions(row["question_filter"])} for row in benchmarks],
        rows=_by_model(found, benchmarks, metric),
        left_out=total - len(found),
    )


def _way(groups: list[Row]) -> dict[str, Any] | None:
    """The way of asking that is shown: of those the URL allows, the most common one; None if there is none.

    Raises UsageError where the URL allows none of the existing ones.
    """
    wanted = {key: value for key in WAY if (value := parameters.text(request.args, key)) is not None}
    counted: Counter[tuple[Any, ...]] = Counter()
    for group in groups:
        counted[tuple(group[key] for key in WAY)] += group["evaluations"]
    kept = [
        found
        for found in counted
        if all(str(value) == wanted.get(key, str(value)) for key, value in zip(WAY, found, strict=True))
    ]
    if kept:
        best = min(kept, key=lambda found: (-counted[found], *map(str, found)))
        return dict(zip(WAY, best, strict=True))
    if counted:
        given = ", ".join(f"{key}={parameters.shorten(value)}" for key, value in wanted.items())
        listed = "; ".join(", ".join(map(str, found)) for found in sorted(counted, key=str)[:20])
        raise UsageError(f"{given}: no evaluation was asked this way; variants, protocol and shots in use: {listed}")
    return None


def _by_model(found: list[Row], benchmarks: list[Row], metric: str) -> list[Row]:
    """One row per model revision with a cell per benchmark, None where it was not asked; best mean first.

    mean: unweighted, None unless every benchmark has a value.
    """
    keys = [group_key(row) for row in benchmarks]
    cells: dict[tuple[str, int], dict[Any, Row]] = {}
    for row in found:
        cells.setdefault((row["model"], row["revision"]), {})[group_key(row)] = row
    values = [row[metric] for row in found if row[metric] is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if METRICS[metric].unit == "fraction":
        low, high = 0.0, 1.0
    rows = []
    for (model, revision), of_model in cells.items():
        shown = [of_model.get(key) for key in keys]
        numbers = [row[metric] for row in shown if row is not None and row[metric] is not None]
        whole = len(numbers) == len(keys)
        rows.append(
            {
                "model": model,
                "revision": revision,
                "mean": sum(numbers) / len(numbers) if whole else None,
                "cells": [None if row is None else _cell(row, metric, low, high) for row in shown],
            }
        )
    sign = 1 if METRICS[metric].better == "lower" else -1
    return sorted(rows, key=lambda row: (row["mean"] is None, sign * (row["mean"] or 0), row["model"].casefold()))


def _cell(row: Row, metric: str, low: float, high: float) -> Row:
    """A cell: its number, the row behind it, and a step of darkness from 0 to STEPS."""
    value = row[metric]
    share = 0.0 if value is None or high <= low else (value - low) / (high - low)
    return {"row": row, "value": value, "step": round(STEPS * min(1.0, max(0.0, share)))}

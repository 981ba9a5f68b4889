"""The overview of every model on every benchmark under one way of prompting; higher numbers have darker cells."""

from collections import Counter
from typing import Any, Final

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy import select

from registry.errors import UsageError
from registry.leaderboard.rows import (
    FALLBACK,
    Ordering,
    complete_rows,
    count_groups,
    filter_measured_groups,
    group_key,
    natural_order,
    split_by_group,
)
from registry.leaderboard.selection import Selection
from registry.lookups import not_withdrawn
from registry.metrics import METRICS
from registry.metrics.catalogue import HEADLINES
from registry.schema.selectables import Row
from registry.tables import Evaluation, Model, ModelRevision
from web.formats import chosen_questions
from web.serving.responses import session
from web.urls import parameters
from web.urls.paging import ROWS_PER_PAGE, find_page
from web.urls.sorting import Order, in_order, read_sorting

blueprint = Blueprint("overview", __name__)

WAY: Final = ("variants", "protocol", "shots")
STEPS: Final = 10
MOST_WAYS: Final = 8
"""Number of other ways of prompting to list."""
MOST: Final = 20_000
"""The most evaluations to read: five hundred models on forty benchmarks."""


@blueprint.get("/overview")
def overview() -> ResponseReturnValue:
    """Show models by benchmarks under the most common way of prompting that has values for the metric.

    The default metric is accuracy in two orders, or plain accuracy if that way of prompting has one order.
    """
    metric = parameters.choice(request.args, "metric", METRICS, HEADLINES[0])
    groups = count_groups(session(), Selection())
    measured = filter_measured_groups(session(), groups, metric)
    way = _way(groups, measured if "metric" in request.args else [])
    if "metric" not in request.args and not any(_way_of(group) == way for group in measured):
        metric = FALLBACK
    choices = {key: sorted({str(group[key]) for group in groups}) for key in WAY}
    if way is None:
        return render_template("overview.html", metric=metric, way=None, choices=choices)
    ordering = Ordering((metric,), metric, natural_order(metric))
    complete, total = complete_rows(
        session(), Selection(**way), ordering, limit=MOST, offset=0, metrics=(metric,), ranked=False
    )
    if total > len(complete):
        # The limit cut off the last benchmark: drop it rather than show models as not run.
        complete = [row for row in complete if group_key(row) != group_key(complete[-1])] or complete
    columns = _columns(complete, metric)
    natural: Order = "asc" if METRICS[metric].better == "lower" else "desc"
    keys = [column["key"] for column in columns]
    sorting = read_sorting(
        {"mean": natural, "model": "asc", **dict.fromkeys(keys, natural)}, "mean" if len(keys) > 1 else keys[0]
    )
    rows, without_mean = _by_model(complete, columns, metric), []
    if sorting.sort == "mean":
        # Rows without a mean cannot be compared: they are listed separately, the most complete first.
        without_mean = sorted((row for row in rows if row["mean"] is None), key=lambda row: len(row["lacking"]))
        rows = [row for row in rows if row["mean"] is not None]
    rows = in_order(rows, sorting, lambda row: row["numbers"].get(sorting.sort, row.get(sorting.sort)))
    paging = find_page(len(rows) + len(without_mean), ROWS_PER_PAGE)
    end = paging.offset + paging.per_page
    return render_template(
        "overview.html",
        metric=metric,
        way=way,
        choices=choices,
        columns=columns,
        averaged=[column["label"] for column in columns if column["averaged"]],
        sorting=sorting,
        rows=rows[paging.offset : end],
        apart=without_mean[max(0, paging.offset - len(rows)) : max(0, end - len(rows))],
        paging=paging,
        left_out=total - len(complete),
        elsewhere=_elsewhere(groups, way, {row["model"] for row in complete}),
    )


def _way(groups: list[Row], measured: list[Row]) -> dict[str, Any] | None:
    """Return the way of prompting to show: the most common one that the URL allows; None if there is none.

    measured: the groups with numbers to show, which are preferred. Raises UsageError if the URL allows no existing way.
    """
    wanted = {key: value for key in WAY if (value := parameters.text(request.args, key)) is not None}
    counted: Counter[tuple[Any, ...]] = Counter()
    for group in groups:
        counted[tuple(group[key] for key in WAY)] += group["evaluations"]
    kept = [
        values
        for values in counted
        if all(str(value) == wanted.get(key, str(value)) for key, value in zip(WAY, values, strict=True))
    ]
    if kept:
        shown = {tuple(group[key] for key in WAY) for group in measured}
        best = min(kept, key=lambda found: (found not in shown, -counted[found], *map(str, found)))
        return dict(zip(WAY, best, strict=True))
    if counted:
        filters = ", ".join(f"{key}={parameters.shorten(value)}" for key, value in wanted.items())
        listed = "; ".join(", ".join(map(str, values)) for values in sorted(counted, key=str)[:20])
        raise UsageError(f"{filters}: no evaluation was asked this way; variants, protocol and shots in use: {listed}")
    return None


def _way_of(group: Row) -> dict[str, Any]:
    return {key: group[key] for key in WAY}


def _elsewhere(groups: list[Row], way: dict[str, Any], shown: set[str]) -> dict[str, Any]:
    """Return the part that the page omits: `models` prompted only in other ways, and these `ways`, most common first.

    Each way has its number of `evaluations`.
    """
    sealed = (
        select(Model.name)
        .join(ModelRevision, ModelRevision.model_id == Model.id)
        .join(Evaluation, Evaluation.model_revision_id == ModelRevision.id)
        .where(Evaluation.seal.is_not(None), not_withdrawn())
        .distinct()
    )
    counted: Counter[tuple[Any, ...]] = Counter()
    for group in groups:
        if _way_of(group) != way:
            counted[tuple(group[key] for key in WAY)] += group["evaluations"]
    ways = sorted(counted.items(), key=lambda item: (-item[1], *map(str, item[0])))
    return {
        "models": len(set(session().scalars(sealed)) - shown),
        "ways": [dict(zip(WAY, values, strict=True)) | {"evaluations": count} for values, count in ways[:MOST_WAYS]],
        "more": max(0, len(ways) - MOST_WAYS),
    }


def _columns(found: list[Row], metric: str) -> list[Row]:
    """Return the benchmarks by name: `key` for sorting, `label` for display, and whether the mean includes it.

    The mean covers benchmarks on which at least half of the models have a value; else a rarely used benchmark would
    leave most models without a mean.
    """
    groups = split_by_group(found)
    names = Counter(members[0]["benchmark"] for members in groups)
    versions = Counter((members[0]["benchmark"], members[0]["benchmark_version"]) for members in groups)
    models = {_revision(row) for row in found if row[metric] is not None}
    columns: list[Row] = []
    for members in groups:
        first = members[0]
        name, version = first["benchmark"], first["benchmark_version"]
        part = chosen_questions(first["question_filter"])
        label = name if names[name] == 1 and name not in ("mean", "model") else f"{name}@{version}"
        if versions[name, version] > 1 and part is not None:
            label = f"{label} ({part})"
        valued = {_revision(row) for row in members if row[metric] is not None}
        # Filters that differ only in their wording can give two parts of a version the same label.
        key = label if label not in {column["key"] for column in columns} else f"{label} {len(columns)}"
        columns.append(
            first
            | {
                "key": key,
                "label": label,
                "part": part,
                "models": len(valued),
                "averaged": bool(valued) and 2 * len(valued) >= len(models),
            }
        )
    return columns


def _revision(row: Row) -> tuple[str, int]:
    return row["model"], row["revision"]


def _by_model(found: list[Row], columns: list[Row], metric: str) -> list[Row]:
    """Return a row per model revision, by name, with a cell per benchmark, None if it was not run.

    numbers: values by column key. mean: unweighted over the averaged columns, None unless each has a value. covered:
    number of columns with a value. lacking: names of the other columns.
    """
    cells: dict[tuple[str, int], dict[Any, Row]] = {}
    for row in found:
        cells.setdefault(_revision(row), {})[group_key(row)] = row
    values = [row[metric] for row in found if row[metric] is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    averaged = [column["key"] for column in columns if column["averaged"]]
    revisions = Counter(model for model, _ in cells)
    rows = []
    for (model, revision), of_model in cells.items():
        shown = [of_model.get(group_key(column)) for column in columns]
        numbers = {
            column["key"]: None if row is None else row[metric] for column, row in zip(columns, shown, strict=True)
        }
        measured = [value for key in averaged if (value := numbers[key]) is not None]
        rows.append(
            {
                "model": model,
                "revision": revision,
                "several_revisions": revisions[model] > 1,
                "mean": sum(measured) / len(measured) if measured and len(measured) == len(averaged) else None,
                "covered": len(measured),
                "lacking": [
                    column["label"] for column in columns if column["averaged"] and numbers[column["key"]] is None
                ],
                "numbers": numbers,
                "cells": [None if row is None else _cell(row, metric, low, high) for row in shown],
            }
        )
    return sorted(rows, key=lambda row: (row["model"].casefold(), row["revision"]))


def _cell(row: Row, metric: str, low: float, high: float) -> Row:
    """Return a cell: its number, its row, and its darkness from 0 to STEPS."""
    value = row[metric]
    share = 0.0 if value is None or high <= low else (value - low) / (high - low)
    return {"row": row, "value": value, "step": round(STEPS * min(1.0, max(0.0, share)))}

"""Pages that compare evaluations: with moved answers, and two of them question by question."""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from registry.errors import NotFoundError, UsageError
from registry.metrics import METRICS
from registry.results.selectables import Row
from web import chart_data, charts, listings, parameters, queries
from web.cache import OfSealed
from web.pages import leaderboard
from web.paging import QUESTIONS_PER_PAGE, paged
from web.responses import session

blueprint = Blueprint("comparing", __name__)

SPREAD_METRICS: Final = (
    "accuracy",
    "accuracy_mean_all",
    "accuracy_mean_moved",
    "accuracy_median_moved",
    "accuracy_variance",
    "accuracy_min",
    "accuracy_max",
    "accuracy_range",
    "accuracy_abs_diff",
    "score",
)
"""The columns of the table of moved answers, in its order."""

EVALUATIONS_PER_PAGE: Final = 40


@blueprint.get("/benchmarks/<benchmark>/answer-moving")
def answer_moving(benchmark: str) -> ResponseReturnValue:
    """How much accuracy on a benchmark depends on the position of the right option, by model and protocol."""
    versions = listings.benchmarks(session(), parameters.name("benchmark", benchmark))
    name = versions[0]["benchmark"]
    kept = leaderboard.part_of_leaderboard(benchmark=name, metrics=SPREAD_METRICS)
    rows = sorted((row for row in kept.complete if chart_data.moves_answers(row)), key=_in_order)
    paging = paged(len(rows), EVALUATIONS_PER_PAGE)
    shown = rows[paging.offset : paging.offset + paging.per_page]
    runs = chart_data.runs(session(), [row["evaluation_id"] for row in shown])
    groups = [_spread_group(list(group), runs) for _, group in groupby(shown, key=_asked)]
    return render_template(
        "answer_moving.html",
        benchmark=name,
        groups=groups,
        paging=paging,
        metrics=SPREAD_METRICS,
        incomplete=[row for row in kept.incomplete if chart_data.moves_answers(row)],
    )


def _asked(row: Row) -> tuple[Any, ...]:
    """Evaluations with this in common were asked the same questions with the same variants, under any protocol."""
    return (
        row["benchmark_version"],
        row["variants"],
        row["variant_set_id"],
        json.dumps(row["question_filter"], sort_keys=True),
    )


def _in_order(row: Row) -> tuple[Any, ...]:
    return (_asked(row), row["model"].casefold(), row["revision"], row["protocol"], row["shots"], row["evaluation_id"])


def _spread_group(rows: Sequence[Row], runs: dict[int, list[Row]]) -> Row:
    """Evaluations of one chart with their runs; guessing is the same for all: they were asked the same questions."""
    # Labels stay short for narrow screens: only what tells the lines apart.
    revisions = len({(row["model"], row["revision"]) for row in rows}) > len({row["model"] for row in rows})
    shots = len({row["shots"] for row in rows}) > 1
    spreads = []
    for row in rows:
        model = f"{row['model']} rev. {row['revision']}" if revisions else row["model"]
        label = f"{model} · {row['protocol']}" + (f", {row['shots']}-shot" if shots else "")
        of_row = runs.get(row["evaluation_id"], [])
        spreads.append({"row": row, "label": label, "runs": of_row, **charts.spread(of_row)})
    originals = [run["guessing"] for item in spreads for run in item["runs"] if run["variant"] == 0]
    guessing = originals[0] if originals else None
    drawn = [{key: item[key] for key in charts.SPREAD_COLUMNS} for item in spreads]
    return {
        "first": rows[0],
        "spreads": spreads,
        "places": max((run["variant"] for item in spreads for run in item["runs"]), default=0),
        "guessing": guessing,
        "chart": charts.answer_moving(drawn, guessing),
    }


# Two evaluations

COMPARED: Final = (
    "accuracy",
    "average_accuracy",
    "worst_accuracy",
    "retest_accuracy",
    "fluctuation_rate",
    "choice_only_accuracy",
    "npsq_accuracy",
)
RIGHT_OR_WRONG: Final = {
    "worst_accuracy": ("right in every order", "not in every order"),
    "accuracy": ("right", "wrong"),
    "npsq_accuracy": ("right", "wrong"),
}
"""The compared metrics by which questions can be listed, those that are 0 or 1 for each question: what 1 and 0 say."""

LISTED: Final = 200
"""Evaluations offered to compare with, newest first."""


@blueprint.get("/compare")
def compare() -> ResponseReturnValue:
    """Two evaluations of one benchmark: paired differences, and the questions on which they differ."""
    sides = [parameters.text(request.args, side) for side in ("left", "right")]
    if None in sides:
        return _choose(next((side for side in sides if side is not None), None))
    left, right, others = _sides(*(side or "" for side in sides))
    document = _document(left, right)
    differences = {name: row for name in COMPARED if (row := document["metrics"][name])["n"]}
    countable = [name for name in RIGHT_OR_WRONG if differences.get(name, {}).get("mcnemar")]
    by = parameters.choice(request.args, "by", countable, countable[0]) if countable else "accuracy"
    only = parameters.choice(request.args, "only", chart_data.DIFFERING, "all")
    test = differences[by]["mcnemar"] if countable else {"only_first": 0, "only_second": 0}
    counts = {"left": test["only_first"], "right": test["only_second"]}
    counts["all"] = sum(counts.values())
    paging = paged(counts[only], QUESTIONS_PER_PAGE)
    return render_template(
        "compare.html",
        left=left,
        right=right,
        others=others,
        questions=document["questions"],
        resamples=document["resamples"],
        differences=differences,
        chart=charts.differences([_drawn(name, row) for name, row in differences.items()]),
        by=by,
        outcomes=RIGHT_OR_WRONG,
        countable=countable,
        only=only,
        counts=counts,
        paging=paging,
        listed=chart_data.differing(
            session(),
            left["evaluation_id"],
            right["evaluation_id"],
            metric=by,
            only=only,
            limit=paging.per_page,
            offset=paging.offset,
        ),
    )


def _drawn(name: str, row: Row) -> Row:
    low, high = row["interval"] or (None, None)
    return {"label": METRICS[name].label, "difference": row["difference"], "low": low, "high": high}


def _choose(side: str | None) -> ResponseReturnValue:
    """What can be compared: any two evaluations or, given the id of one, the others of its benchmark."""
    if side is None or not side.isdecimal():
        benchmarks = list(dict.fromkeys(row["benchmark"] for row in listings.benchmarks(session())))
        models = [row["model"] for row in listings.models(session()) if row["evaluations"]]
        return render_template("compare_choice.html", given=None, benchmarks=benchmarks, models=models)
    given = queries.evaluation(session(), parameters.identifier("evaluation", side))
    found, _ = queries.evaluations(session(), states=("complete",), benchmark=given["benchmark"], limit=LISTED)
    offered = [
        row
        for row in found
        if row["evaluation_id"] != given["evaluation_id"] and row["benchmark_version"] == given["benchmark_version"]
    ]
    # Those asked in the same way first: only then is the model the only difference.
    offered.sort(key=lambda row: _way(row) != _way(given))
    return render_template("compare_choice.html", given=given, offered=offered, way=_way)


def _way(row: Row) -> tuple[Any, ...]:
    """How a benchmark was asked."""
    return (row["benchmark_version"], row["variants"], row["protocol"], row["shots"])


def _sides(left: str, right: str) -> tuple[Row, Row, list[tuple[Row, Row]]]:
    """Two evaluations by their ids, or by their models; then also the other pairs that these models have in common."""
    if left.isdecimal() and right.isdecimal():
        pair = [queries.evaluation(session(), parameters.identifier("evaluation", side)) for side in (left, right)]
        others = []
    else:
        benchmark = parameters.text(request.args, "benchmark")
        if benchmark is None:
            raise UsageError(
                "left and right are models: give a benchmark to compare them on, such as &benchmark=mmlu; or give the "
                "ids of two evaluations"
            )
        others = _pairs(left, right, parameters.name("benchmark", benchmark))
        if not others:
            raise NotFoundError(
                f"no complete evaluations of {parameters.shorten(left)} and {parameters.shorten(right)} on "
                f"{parameters.shorten(benchmark)} that were asked in the same way; submit what is missing"
            )
        pair = [queries.evaluation(session(), row["evaluation_id"]) for row in others[0]]
    for row in pair:
        if not row["complete"]:
            raise UsageError(f"evaluation {row['evaluation_id']} is {row['state']}; wait until it is complete")
    return pair[0], pair[1], others


def _pairs(left: str, right: str, benchmark: str) -> list[tuple[Row, Row]]:
    """Complete evaluations of two models on a benchmark that were asked in the same way, the newest of each way."""
    wanted = {key: parameters.text(request.args, key) for key in ("variants", "protocol")}
    by_way: list[dict[tuple[Any, ...], Row]] = []
    for model in (left, right):
        rows, _ = queries.evaluations(
            session(),
            states=("complete",),
            model=parameters.name("model", model),
            benchmark=benchmark,
            limit=LISTED,
        )
        kept = [row for row in rows if all(value in (None, row[key]) for key, value in wanted.items())]
        by_way.append({_way(row): row for row in reversed(kept)})
    return [(row, by_way[1][way]) for way, row in reversed(by_way[0].items()) if way in by_way[1]]


_compared: OfSealed[Row] = OfSealed(64)


def _document(left: Row, right: Row) -> Row:
    """What `shuffleboard statistics compare` says of two sealed evaluations; the draws may take a second or two."""
    # Here rather than above: the website starts without numpy, and most of its pages never need it.
    from registry.studies.comparing import compare_evaluations

    seals = f"{left['seal']} {right['seal']}"
    return _compared.get(seals, lambda: compare_evaluations(session(), left["evaluation_id"], right["evaluation_id"]))

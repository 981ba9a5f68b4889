"""Pages that compare evaluations: with moved answers, two of them question by question, and several models at once."""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from flask import Blueprint, render_template, request, url_for
from flask.typing import ResponseReturnValue

from registry.errors import NotFoundError, UsageError
from registry.leaderboard.facts import facts_of
from registry.leaderboard.rows import Ordering, complete_rows, count_groups
from registry.leaderboard.selection import Selection
from registry.metrics import METRICS
from registry.predictions.stored import filter_archived
from registry.prompting.protocols.replayed import asking_name
from registry.schema.selectables import Row
from registry.studies.causes import describe_causes
from registry.verdicts.facts import Facts, Number
from registry.verdicts.subjects import Pair, Several
from registry.verdicts.table import Said, conclude, say
from registry.verdicts.wording import lowered, value_text
from web import charts
from web.charts.differences import reach
from web.formats import telling_names
from web.pages import leaderboard
from web.serving.cache import OfSealed
from web.serving.responses import session
from web.shown import chart_data, listings, queries
from web.shown.comparisons import comparison_of
from web.shown.shared_ways import WAY, asking_the_others, group_sealed_by_way
from web.urls import parameters
from web.urls.paging import QUESTIONS_PER_PAGE, find_page

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
    """Show how much accuracy on a benchmark depends on the position of the right option, by model and protocol."""
    versions = listings.benchmarks(session(), parameters.name("benchmark", benchmark))
    name = versions[0]["benchmark"]
    kept = leaderboard.part_of_leaderboard(benchmark=name, metrics=SPREAD_METRICS)
    rows = sorted((row for row in kept.complete if chart_data.moves_answers(row)), key=_in_order)
    paging = find_page(len(rows), EVALUATIONS_PER_PAGE)
    shown = rows[paging.offset : paging.offset + paging.per_page]
    archived = filter_archived(session(), [row["evaluation_id"] for row in shown])
    runs = chart_data.runs(session(), [row["evaluation_id"] for row in shown if row["evaluation_id"] not in archived])
    groups = [_spread_group(list(group), runs) for _, group in groupby(shown, key=_prompting_key)]
    return render_template(
        "answer_moving.html",
        benchmark=name,
        groups=groups,
        archived=archived,
        paging=paging,
        metrics=SPREAD_METRICS,
        incomplete=[row for row in kept.incomplete if chart_data.moves_answers(row)],
    )


def _prompting_key(row: Row) -> tuple[Any, ...]:
    """Return a key for evaluations with the same questions and variants, under any protocol."""
    return (
        row["benchmark_version"],
        row["variants"],
        row["variant_set_id"],
        json.dumps(row["question_filter"], sort_keys=True),
    )


def _in_order(row: Row) -> tuple[Any, ...]:
    return (
        _prompting_key(row),
        row["model"].casefold(),
        row["revision"],
        row["protocol"],
        row["shots"],
        row["evaluation_id"],
    )


def _spread_group(rows: Sequence[Row], runs: dict[int, list[Row]]) -> Row:
    """Return the evaluations of one chart with their runs.

    The evaluations share their questions, so guessing is the same for all.
    """
    # Labels stay short for narrow screens: they contain only the facts that differ between the lines.
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


# Evaluations against each other

COMPARED: Final = (
    "right_twice_across_orders",
    "order_loss",
    "average_accuracy",
    "accuracy",
    "worst_accuracy",
    "fluctuation_rate",
    "choice_only_accuracy",
    "npsq_accuracy",
)
RIGHT_OR_WRONG: Final = {
    "worst_accuracy": ("right in every order", "not in every order"),
    "accuracy": ("right as printed", "wrong as printed"),
    "npsq_accuracy": ("right by NPSQ", "wrong by NPSQ"),
}
"""Metrics that are 0 or 1 for each question, so that questions can be listed by them; with the meanings of 1 and 0."""

LISTED: Final = 200
"""Most evaluations to offer for a comparison, newest first."""
MOST_MODELS: Final = 20
"""Most models in a comparison; a matrix cannot show more."""
STATED: Final = ("right_twice_across_orders", "accuracy")
"""Metrics for the verdict, in order of preference; it uses the first that both evaluations have."""


@blueprint.get("/compare")
def compare() -> ResponseReturnValue:
    """Compare evaluations of one benchmark: a verdict, paired differences, and the questions on which two differ.

    The URL names two ids, `left` and `right`, or models; for models, evaluations with the same questions and way of
    prompting are chosen.
    """
    models = parameters.names(request.args, "model", MOST_MODELS)
    left, right = (parameters.text(request.args, side) for side in ("left", "right"))
    if not models and left is not None and right is not None:
        if left.isdecimal() and right.isdecimal():
            sides = [queries.evaluation(session(), parameters.identifier("evaluation", side)) for side in (left, right)]
            for row in sides:
                if not row["complete"]:
                    raise UsageError(f"evaluation {row['evaluation_id']} is {row['state']}; wait until it is complete")
            return _two(sides[0], sides[1], [])
        models = [parameters.name("model", side) for side in (left, right)]
    if not models and (left or right or "").isdecimal():
        return _choose_other(left or right or "")
    wanted = _read_way()
    if len(models) < 2 or parameters.choice(request.args, "choose", ("yes", "no"), "no") == "yes":
        return _choose(models or [side for side in (left, right) if side], wanted)
    ways = group_sealed_by_way(session(), models, wanted)
    shared = [[way[model] for model in models] for way in ways if len(way) == len(models)]
    if not shared:
        commands = asking_the_others(session(), models, ways[0]) if ways else []
        return render_template("compare_nothing.html", models=models, ways=ways, wanted=wanted, commands=commands), 404
    if len(models) > 2:
        return _several(shared[0], shared)
    pair = [queries.evaluation(session(), row["evaluation_id"]) for row in shared[0]]
    return _two(pair[0], pair[1], shared)


def _read_way() -> dict[str, str]:
    """Return the way of prompting in the URL. Raises NotFoundError for a benchmark that the viewer may not see."""
    named = {key: "version" if key == "benchmark_version" else key for key in WAY}
    wanted = {key: value for key, name in named.items() if (value := parameters.text(request.args, name)) is not None}
    if "benchmark" in wanted:
        listings.benchmarks(session(), parameters.name("benchmark", wanted["benchmark"]))
    return wanted


# Two


def _two(left: Row, right: Row, shared: list[list[Row]]) -> ResponseReturnValue:
    """Compare two evaluations.

    shared: all ways in which both models were prompted, this one first; empty if the URL gives ids.
    """
    from registry.studies.comparing import describe_relation  # it imports numpy, which the website starts without

    document = comparison_of(left, right)
    differences = {name: row for name in COMPARED if (row := document["metrics"][name])["n"]}
    facts = facts_of(session(), (left["evaluation_id"], right["evaluation_id"]))
    countable = [name for name in RIGHT_OR_WRONG if differences.get(name, {}).get("mcnemar")]
    by = parameters.choice(request.args, "by", countable, countable[0]) if countable else "accuracy"
    only = parameters.choice(request.args, "only", chart_data.DIFFERING, "all")
    test = differences[by]["mcnemar"] if countable else {"only_first": 0, "only_second": 0}
    counts = {"left": test["only_first"], "right": test["only_second"]}
    counts["all"] = sum(counts.values())
    paging = find_page(counts[only], QUESTIONS_PER_PAGE)
    return render_template(
        "compare.html",
        left=left,
        right=right,
        names=telling_names(left, right),
        facts=facts,
        sentences=_sentences(left, right, differences, facts),
        relation=describe_relation(document),
        causes=describe_causes(document["causes"]),
        asked_differently=_prompting(left) != _prompting(right),
        others=shared[1:],
        questions=document["questions"],
        resamples=document["resamples"],
        differences=differences,
        edge=reach(differences.values()),
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


def _prompting(row: Row) -> tuple[Any, ...]:
    """Return the facts that determine an evaluation's prompts; the reading of its answers is not among them."""
    return row["variants"], asking_name(row["protocol"]), row["shots"]


def _sentences(left: Row, right: Row, differences: dict[str, Row], known: dict[int, Facts]) -> tuple[Said, ...]:
    """Return the sentences about two evaluations, by the first metric of STATED with a value; none if there is none."""
    metric = next((name for name in _filter_stated(differences) if differences[name]["difference"] is not None), None)
    if metric is None:
        return ()
    row = differences[metric]
    sides = [known[side["evaluation_id"]] for side in (left, right)]
    lower, ends = METRICS[metric].better == "lower", row["interval"]
    if row["difference"] < 0 and ends is not None:
        ends = [-ends[1], -ends[0]]
    low, high = ends or (None, None)
    named = telling_names(left, right)
    return say(
        "pair",
        Pair(
            names=(named[0], named[1]),
            label=lowered(METRICS[metric].label),
            values=(value_text(metric, row["first"]), value_text(metric, row["second"])),
            better=None if row["difference"] == 0 else int((row["difference"] < 0) != lower),
            difference=Number(abs(row["difference"]), row["n"], low, high),
            facts=(sides[0], sides[1]),
        ),
    )


def _filter_stated(differences: dict[str, Row]) -> list[str]:
    return [name for name in STATED if name in differences]


# Several


def _several(rows: list[Row], shared: list[list[Row]]) -> ResponseReturnValue:
    """Show a matrix of differences between models that were prompted in one way.

    shared: all ways in which these models were prompted, this one first.
    """
    document = _several_document(rows, STATED[0])
    measured = [name for name in COMPARED if document["values"][name]["n"]]
    if not measured:
        raise NotFoundError("these models have no question with a value in common; choose others or another benchmark")
    by = parameters.choice(
        request.args, "by", measured, next(name for name in (*STATED, *measured) if name in measured)
    )
    if by != document["metric"]:
        document = _several_document(rows, by)
    values = document["values"][by]["values"]
    lower = METRICS[by].better == "lower"
    order = sorted(range(len(rows)), key=lambda place: values[place] if lower else -values[place])
    shown: list[Row] = [
        {
            "row": rows[place],
            "metrics": {name: document["values"][name]["values"][place] for name in measured},
            "cells": [_cell(document["differences"][place][opponent], lower=lower) for opponent in order],
        }
        for place in order
    ]
    best = shown[0]["cells"][1:]
    level = [item["row"] for item, cell in zip(shown[1:], best, strict=True) if cell["side"] != "ahead"]
    known_facts = facts_of(session(), [row["evaluation_id"] for row in rows])
    return render_template(
        "compare_several.html",
        first=rows[0],
        shown=shown,
        others=shared[1:],
        known={name: document["values"][name]["n"] for name in measured},
        by=by,
        n=document["values"][by]["n"],
        resamples=document["resamples"],
        links={
            row["model"]: url_for(
                "comparing.compare", left=shown[0]["row"]["evaluation_id"], right=row["evaluation_id"]
            )
            for row in level[:5]
        },
        verdict=conclude(
            "several",
            Several(
                best=shown[0]["row"]["model"],
                label=lowered(METRICS[by].label),
                value=value_text(by, shown[0]["metrics"][by]),
                others=len(best),
                level=tuple(row["model"] for row in level),
                stated=any(cell["interval"] for cell in best),
                n=document["values"][by]["n"],
                unread=tuple(facts.model for facts in known_facts.values() if facts.unreadable),
            ),
        ),
    )


def _cell(difference: Row | None, *, lower: bool) -> Row | None:
    """Return a difference with its side: `ahead` or `behind` if the two models are distinguished, else `level`."""
    if difference is None:
        return None
    if not difference["distinguished"]:
        return difference | {"side": "level"}
    return difference | {"side": "ahead" if (difference["difference"] > 0) != lower else "behind"}


# Choosing evaluations


def _choose_other(side: str) -> ResponseReturnValue:
    """Show the other evaluations of the benchmark to compare a given evaluation with."""
    chosen = queries.evaluation(session(), parameters.identifier("evaluation", side))
    candidates, _ = queries.evaluations(session(), states=("complete",), benchmark=chosen["benchmark"], limit=LISTED)
    offered = [
        row
        for row in candidates
        if row["evaluation_id"] != chosen["evaluation_id"] and row["benchmark_version"] == chosen["benchmark_version"]
    ]
    # Evaluations run in the same way come first: only for them is the model the only difference.
    offered.sort(key=lambda row: _way(row) != _way(chosen))
    return render_template("compare_with.html", given=chosen, offered=offered, way=_way)


def _way(row: Row) -> tuple[Any, ...]:
    """Return the way in which an evaluation was run."""
    return tuple(row[key] for key in WAY)


def _choose(picked: list[str], wanted: dict[str, str]) -> ResponseReturnValue:
    """Show the ways in which two or more models were prompted, and the models of one way to choose from.

    picked: models that are already chosen; then only ways in which all of them were prompted are offered.
    """
    groups = [group for group in count_groups(session(), Selection()) if group["evaluations"] > 1]
    if picked:
        digests = {
            next(iter(way.values()))["asked_digest"]
            for way in group_sealed_by_way(session(), picked, {})
            if len(way) == len(picked)
        }
        groups = [group for group in groups if group["asked_digest"] in digests]
    groups.sort(key=lambda group: (-group["evaluations"], group["benchmark"].casefold(), group["variants"]))
    fitting = [group for group in groups if all(str(group[key]) == value for key, value in wanted.items())]
    chosen = next(iter(fitting or groups), None)
    return render_template(
        "compare_choice.html",
        groups=groups,
        chosen=chosen,
        metric=STATED[0],
        models=[] if chosen is None else _models_of(chosen),
        picked=picked,
        most=MOST_MODELS,
    )


def _models_of(group: Row) -> list[Row]:
    """Return the models prompted in one way, by name, with the metrics in STATED from their newest evaluation."""
    selection = Selection(**{key: group[key] for key in ("benchmark", "variants", "protocol", "shots")})
    rows, _ = complete_rows(
        session(),
        selection,
        Ordering(STATED, "model", "asc"),
        limit=parameters.MAX_PER_PAGE,
        offset=0,
        metrics=STATED,
        ranked=False,
    )
    kept = {key: group[key] for key in ("benchmark_version", "part")}
    newest: dict[str, Row] = {}
    for row in rows:
        if all(row[key] == value for key, value in kept.items()):
            before = newest.get(row["model"])
            if before is None or before["evaluation_id"] < row["evaluation_id"]:
                newest[row["model"]] = row
    return list(newest.values())


_several_compared: OfSealed[Row] = OfSealed(64)


def _several_document(rows: list[Row], metric: str) -> Row:
    """Return the result of `compare_several` for sealed evaluations; its draws may take a few seconds."""
    from registry.studies.comparing import compare_several

    key = " ".join([metric, *(row["seal"] for row in rows)])
    return _several_compared.get(
        key, lambda: compare_several(session(), [row["evaluation_id"] for row in rows], metric)
    )

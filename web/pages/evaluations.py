"""An evaluation: progress, metrics by scope, charts, questions, provenance."""

from collections.abc import Sequence
from itertools import groupby
from string import ascii_uppercase
from typing import Any, Final

from flask import render_template, request
from flask.typing import ResponseReturnValue

from registry.metrics import METRICS
from registry.results.asked import one_order
from registry.results.selectables import Row
from web import chart_data, charts, formats, parameters, queries
from web.cache import OfSealed
from web.noise import repeat_noise
from web.pages.blueprint import blueprint
from web.paging import MAX_PER_PAGE, QUESTIONS_PER_PAGE, paged
from web.provenance import provenance_of
from web.responses import session

PLACES: Final = tuple(ascii_uppercase)
"""Positions as a URL names them."""


@blueprint.get("/evaluations/<evaluation_id>")
def evaluation(evaluation_id: str) -> ResponseReturnValue:
    """An evaluation: progress, metrics by scope, questions, provenance."""
    only = parameters.choice(request.args, "only", queries.QUESTION_FILTERS, "all")
    asked = parameters.paging(request.args, per_page=QUESTIONS_PER_PAGE, most=MAX_PER_PAGE)
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    place = parameters.choice(request.args, "place", PLACES, "")
    among = chart_data.fails_at(row["evaluation_id"], PLACES.index(place)) if place else None
    scopes = queries.scopes(session(), row["evaluation_id"], sealed=row["complete"])
    counts = queries.question_counts(session(), row["evaluation_id"])
    kept = counts if among is None else queries.question_counts(session(), row["evaluation_id"], among)
    paging = paged(kept[only], QUESTIONS_PER_PAGE, asked=asked)
    provenance = provenance_of(row)
    by_scope: dict[str, dict[str, Row]] = {}
    for item in scopes:
        by_scope.setdefault(item["scope"], {})[item["metric"]] = item
    parts_chart = _parts_chart(by_scope)
    named = parameters.text(request.args, "noise_from")
    noise_from = None if named is None else parameters.identifier("evaluation", named)
    noise = repeat_noise(row["evaluation_id"], noise_from)
    return render_template(
        "evaluation.html",
        evaluation=row,
        subject_metrics=_part_metrics(by_scope, charts.PART_METRICS if parts_chart else ()),
        noise=noise,
        noise_chart=None if noise is None else charts.noise(noise),
        bmca_chart=charts.bmca_curve(by_scope.get("all", {})),
        shares=charts.SHARES,
        all_questions={name: item["value"] for name, item in by_scope.get("all", {}).items()}
        | {"chance": row["chance"]},
        progress=queries.progress_of(session(), row["evaluation_id"]),
        by_scope=by_scope,
        filters={key: (label, counts[key]) for key, label in _filters(row).items()},
        only=only,
        place=place,
        paging=paging,
        questions=queries.questions(
            session(), row["evaluation_id"], only=only, limit=paging.per_page, offset=paging.offset, among=among
        ),
        parts_chart=parts_chart,
        **(_effects(row) if row["complete"] else {}),
        provenance=provenance,
        scorers=_scorers(provenance["shards"]),
    )


def _filters(row: Row) -> dict[str, str]:
    """What questions can be filtered by. Where they were asked in one order, nothing holds everywhere or flips."""
    labels = {key: label for key, (label, _) in queries.QUESTION_FILTERS.items()}
    if not one_order(row):
        return labels
    if row["variants_max"] == 1:
        return labels | {"right": "Right", "wrong": "Wrong"}
    return labels | {"right": "Right each time", "flips": "Answers differ", "wrong": "Wrong each time"}


def _part_metrics(by_scope: dict[str, dict[str, Row]], drawn: Sequence[str]) -> list[str]:
    """The columns of the table of parts: those requested by name; otherwise the usual ones that have a value."""
    parts = [metrics for scope, metrics in by_scope.items() if scope not in ("all", "unflagged")]
    by_name = any(request.args.getlist("metrics"))
    return [
        name
        for name in METRICS
        if name in {*parameters.metrics(request.args), *drawn}
        and (by_name or any(metrics.get(name, {}).get("value") is not None for metrics in parts))
    ]


def _parts_chart(by_scope: dict[str, dict[str, Row]]) -> charts.Chart | None:
    """Accuracy and worst accuracy of subjects and categories; None for fewer than two, or under a single order."""
    if by_scope.get("all", {}).get("fluctuation_rate", {}).get("value") is None:
        return None
    rows = []
    for scope, metrics in by_scope.items():
        values = {name: metrics.get(name, {}).get("value") for name in charts.PART_METRICS}
        name, kind = formats.scope_name(scope)
        if kind and values["accuracy"] is not None and values["worst_accuracy"] is not None:
            rows.append({"name": name, **values})
    return charts.parts(rows) if len(rows) > 1 else None


_positions: OfSealed[tuple[list[Row], Row]] = OfSealed()


def _effects(row: Row) -> dict[str, Any]:
    """The effect of moving options, or of inserting adversarial ones, on the answers of a complete evaluation."""
    positions, over_all = _positions.get(row["seal"], lambda: chart_data.positions(session(), row["evaluation_id"]))
    adversarial = (
        chart_data.adversarial(session(), row["evaluation_id"]) if row["variant_kind"] == "adversarial" else []
    )
    rules = row["specification"]["protocol"].get("extraction", {}).get("rules", [])
    return {
        **_shuffles(row),
        "written": chart_data.written(session(), row["evaluation_id"], rules) if rules else [],
        "seconds": chart_data.seconds(session(), row["evaluation_id"]) if rules else None,
        "positions": positions,
        "over_all_positions": over_all,
        "positions_chart": charts.positions(positions, over_all["prompts"]) if over_all["prompts"] else None,
        "adversarial": adversarial,
        "adversarial_chart": charts.adversarial(adversarial) if adversarial else None,
    }


def _shuffles(row: Row) -> dict[str, Any]:
    """How accuracy varies over subjects in the original order and in each shuffle, where there are several of both."""
    if row["variant_kind"] != "shuffle":
        return {}
    found = _by_subject.get(row["seal"], lambda: chart_data.by_subject(session(), row["evaluation_id"]))
    rows = [item | {"name": f"Shuffle {item['run']}" if item["run"] else "Original order"} for item in found]
    by_subject: dict[str, dict[int, Row]] = {}
    for item in rows:
        by_subject.setdefault(item["subject"], {})[item["run"]] = item
    return {
        "shuffles_chart": charts.shuffles(rows),
        "shuffled_runs": dict(sorted({item["run"]: item["name"] for item in rows}.items())),
        "by_subject": by_subject,
    }


_by_subject: OfSealed[list[Row]] = OfSealed()


def _scorers(shards: Sequence[Row]) -> list[Row]:
    """Shards summed by who scored them and on what: an evaluation may have a thousand."""

    def scorer(shard: Row) -> tuple[str, str, str]:
        return (shard["host"] or "", shard["device"] or "", shard["engine_fingerprint_digest"] or "")

    summed = []
    for (host, device, digest), group in groupby(sorted(shards, key=scorer), key=scorer):
        members = list(group)
        finished = [shard["finished_at"] for shard in members if shard["finished_at"] is not None]
        claimed = [shard["claimed_at"] for shard in members if shard["claimed_at"] is not None]
        summed.append(
            {
                "host": host or None,
                "device": device or None,
                "fingerprint": digest or None,
                "shards": len(members),
                **{
                    key: sum(shard[key] or 0 for shard in members)
                    for key in ("prompts", "claims", "failures", "crashes", "elapsed_s", "tokens_computed")
                },
                "from": min(claimed, default=None),
                "to": max(finished, default=None),
            }
        )
    return summed

"""An evaluation: progress, metrics by scope, charts, questions, provenance."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from string import ascii_uppercase
from typing import Any, Final

from flask import render_template, request
from flask.typing import ResponseReturnValue

from registry.leaderboard.costs import cost_document
from registry.leaderboard.facts import facts_of, noise_facts
from registry.lookups import find_evaluation
from registry.metrics import METRICS
from registry.metrics.catalogue import FAMILIES, SHOWN, Family
from registry.predictions.stored import filter_archived
from registry.schema.selectables import Row
from registry.scores.asked import describe_orders, one_order
from registry.scores.written import lost_answers
from registry.verdicts.facts import Facts
from registry.verdicts.subjects import Position
from registry.verdicts.table import Said, conclude, say
from registry.verdicts.wording import several_levels
from web import charts, formats
from web.formats import chosen_questions, count, plural
from web.pages.blueprint import blueprint
from web.pages.replaying import replay_choices
from web.serving.cache import OfSealed
from web.serving.responses import session
from web.shown import chart_data, listings, queries
from web.shown.provenance import provenance_of
from web.shown.studies import cluster_intervals, repeat_noise
from web.urls import parameters
from web.urls.paging import MAX_PER_PAGE, QUESTIONS_PER_PAGE, find_page
from web.who.identity import settings_of

PLACES: Final = tuple(ascii_uppercase)
"""Names of positions in URLs."""
HEADLINES: Final = 5
STAND_INS: Final = ("score", "best_accuracy")
"""Metrics that replace an undefined headline metric."""


@blueprint.get("/evaluations/<evaluation_id>")
def evaluation(evaluation_id: str) -> ResponseReturnValue:
    """Show an evaluation: progress, metrics by scope, questions, provenance."""
    only = parameters.choice(request.args, "only", queries.QUESTION_FILTERS, "all")
    requested = parameters.paging(request.args, per_page=QUESTIONS_PER_PAGE, most=MAX_PER_PAGE)
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    place = parameters.choice(request.args, "place", PLACES, "")
    archived = bool(filter_archived(session(), [row["evaluation_id"]]))
    facets = listings.Facets.asked_for(request.args)
    if facets.q is not None and not archived:
        answered = queries.questions_answered_with(session(), row["evaluation_id"], facets.q)
        facets = replace(facets, answered=answered)
    version = find_evaluation(session(), row["evaluation_id"]).benchmark_version_id
    filtered = among = facets.within(version)
    if place:
        among = facets.within(version, chart_data.fails_at(session(), row["evaluation_id"], PLACES.index(place)))
    scopes = queries.scopes(session(), row["evaluation_id"], sealed=row["complete"])
    counts = queries.question_counts(session(), row["evaluation_id"], filtered)
    kept = counts if among is filtered else queries.question_counts(session(), row["evaluation_id"], among)
    paging = find_page(kept[only], QUESTIONS_PER_PAGE, asked=requested)
    provenance = provenance_of(row)
    by_scope: dict[str, dict[str, Row]] = {}
    for item in scopes:
        by_scope.setdefault(item["scope"], {})[item["metric"]] = item
    parts_chart = _parts_chart(by_scope)
    named = parameters.text(request.args, "noise_from")
    noise_from = None if named is None else parameters.identifier("evaluation", named)
    noise = repeat_noise(row["evaluation_id"], noise_from) if not archived else None
    over_all = by_scope.get("all", {})
    stated = facts_of(session(), [row["evaluation_id"]]).get(row["evaluation_id"])
    facts = None if stated is None else replace(stated, noise=noise_facts(noise))
    return render_template(
        "evaluation.html",
        evaluation=row,
        subject_metrics=_part_metrics(by_scope, charts.PART_METRICS if parts_chart else ()),
        noise=noise,
        archived=archived,
        clustered=cluster_intervals(row["evaluation_id"], row["seal"]),
        noise_chart=None if noise is None else charts.noise(noise),
        bmca_chart=charts.bmca_curve(over_all),
        shares=charts.SHARES,
        all_questions={name: item["value"] for name, item in over_all.items()}
        | {"chance": row["chance"], "facts": facts},
        sentences=() if facts is None else say("evaluation", facts),
        facts=facts,
        asked=_describe_prompting(row),
        headlines=_headlines(over_all),
        lost_answers=lost_answers(session(), [row["evaluation_id"]]),
        families=_families(by_scope),
        opened=parameters.choice(request.args, "open", ("all", *(family.key for family in FAMILIES)), ""),
        sample=find_evaluation(session(), row["evaluation_id"]).specification["questions"].get("sample"),
        progress=queries.progress_of(session(), row["evaluation_id"]),
        cost=cost_document(session(), row["evaluation_id"], settings_of()),
        by_scope=by_scope,
        filters={key: (label, counts[key]) for key, label in _filters(row).items()},
        only=only,
        place=place,
        facets=facets,
        subjects=listings.subjects(session(), row["benchmark"]),
        paging=paging,
        questions=queries.questions(
            session(), row["evaluation_id"], only=only, limit=paging.per_page, offset=paging.offset, among=among
        ),
        parts_chart=parts_chart,
        **(_effects(row, facts) if facts is not None and not archived else {}),
        provenance=provenance,
        replay_choices=replay_choices(row) if not archived else None,
        scorers=_scorers(provenance["shards"]),
    )


def _headlines(over_all: Mapping[str, Row]) -> list[str]:
    """Return the metrics at the top of the page: the defined headline metrics, or else substitutes."""
    defined = [name for name, item in over_all.items() if item["value"] is not None]
    first: list[str] = [name for name in parameters.DEFAULT_METRICS if name in defined]
    chosen = [*first, *(name for name in STAND_INS if name in defined)][:HEADLINES]
    undefined = [name for name in parameters.DEFAULT_METRICS if name not in defined]
    chosen += undefined[: HEADLINES - len(chosen)]
    return sorted(chosen, key=[*parameters.DEFAULT_METRICS, *METRICS].index)


def _families(by_scope: Mapping[str, Mapping[str, Row]]) -> list[Row]:
    """Return every family of metrics: `key`, `title`, and its `defined` and `undefined` metrics in either scope."""
    scopes = [by_scope.get(scope, {}) for scope in ("all", "unflagged")]
    with_values = {name for metrics in scopes for name, item in metrics.items() if item["value"] is not None}
    return [
        {
            "key": family.key,
            "title": family.title,
            "defined": [name for name in _list_shown(family) if name in with_values],
            "undefined": [name for name in _list_shown(family) if name not in with_values],
        }
        for family in FAMILIES
    ]


def _list_shown(family: Family) -> list[str]:
    return [metric.name for metric in family.metrics if metric.name in SHOWN]


def _filters(row: Row) -> dict[str, str]:
    """Return the filters for questions. With a single order no question can flip, so some filters do not apply."""
    labels = {key: label for key, (label, _) in queries.QUESTION_FILTERS.items()}
    if not one_order(row):
        return labels
    if row["variants_max"] == 1:
        return labels | {"right": "Right", "wrong": "Wrong"}
    return labels | {"right": "Right each time", "flips": "Answers differ", "wrong": "Wrong each time"}


def _part_metrics(by_scope: dict[str, dict[str, Row]], drawn: Sequence[str]) -> list[str]:
    """Return the columns of the table of parts: the requested metrics, or else the usual ones with a value."""
    parts = [metrics for scope, metrics in by_scope.items() if scope not in ("all", "unflagged")]
    by_name = any(request.args.getlist("metrics"))
    return [
        name
        for name in METRICS
        if name in {*parameters.metrics(request.args), *drawn}
        and (by_name or any(metrics.get(name, {}).get("value") is not None for metrics in parts))
    ]


def _parts_chart(by_scope: dict[str, dict[str, Row]]) -> charts.Chart | None:
    """Draw accuracy and worst accuracy of subjects and categories; None for fewer than two, or a single order."""
    if by_scope.get("all", {}).get("fluctuation_rate", {}).get("value") is None:
        return None
    rows = []
    for scope, metrics in by_scope.items():
        values = {name: metrics.get(name, {}).get("value") for name in charts.PART_METRICS}
        name, kind = formats.scope_name(scope)
        if kind and values["accuracy"] is not None and values["worst_accuracy"] is not None:
            rows.append({"name": name, **values})
    return charts.parts(rows) if len(rows) > 1 else None


ROWS_KEPT: Final = 25_000
"""Most cached rows of one kind, about 10 MB: an evaluation in all orders has over a thousand rows for subjects."""
_positions: OfSealed[tuple[list[Row], Row]] = OfSealed(ROWS_KEPT, lambda found: 1 + len(found[0]))
_adversarial: OfSealed[list[Row]] = OfSealed(ROWS_KEPT, lambda found: 1 + len(found))
_written: OfSealed[list[Row]] = OfSealed(ROWS_KEPT, lambda found: 1 + len(found))
_right_in: OfSealed[list[Row]] = OfSealed(ROWS_KEPT, lambda found: 1 + len(found))


def _effects(row: Row, facts: Facts) -> dict[str, Any]:
    """Return how moving options, or inserting adversarial ones, affects the answers of a complete evaluation."""
    positions, over_all = _positions.get(row["seal"], lambda: chart_data.positions(session(), row["evaluation_id"]))
    adversarial = (
        _adversarial.get(row["seal"], lambda: chart_data.adversarial(session(), row["evaluation_id"]))
        if row["variant_kind"] == "adversarial"
        else []
    )
    rules = row["specification"]["protocol"].get("extraction", {}).get("rules", [])
    right_in = _right_in.get(row["seal"], lambda: chart_data.right_in(session(), row["evaluation_id"]))
    bins = charts.flip_bins(right_in)
    orders = "repeats" if one_order(row) else "answers" if facts.asked.mixed else several_levels(facts.asked)
    return {
        **_shuffles(row),
        "flip_bins": bins,
        "orders": orders,
        "flips_chart": charts.flips(bins, orders) if right_in and not facts.unreadable else None,
        "preferred": _describe_preferred(positions, over_all["prompts"], facts),
        "written": _written.get(row["seal"], lambda: chart_data.written(session(), row["evaluation_id"], rules))
        if rules
        else [],
        "seconds": chart_data.seconds(session(), row["evaluation_id"]) if rules else None,
        "positions": positions,
        "over_all_positions": over_all,
        "positions_chart": charts.positions(positions, over_all["prompts"])
        if over_all["prompts"] and not facts.unreadable
        else None,
        "adversarial": adversarial,
        "adversarial_chart": charts.adversarial(adversarial) if adversarial else None,
    }


def _describe_preferred(positions: Sequence[Row], prompts: int, facts: Facts) -> Said | None:
    """Describe the position that the model chooses most above its share of right answers."""
    if not prompts:
        return None
    most = max(positions, key=lambda row: row["answered"] - row["right_here"])
    position = Position(most["position"], most["answered"], most["right_here"], prompts, facts.questions, facts)
    return conclude("position", position)


def _describe_prompting(row: Row) -> str:
    """Describe how many questions were used, and in which orders."""
    part = chosen_questions(row["specification"]["questions"])
    questions = f"{plural(row['questions'], 'question')} of {row['benchmark']}{f' ({part})' if part else ''}"
    how = describe_orders(row) or plural(row["prompts"], "prompt")
    how = how if how.startswith("asked") or "repeats" in how else f"each in {how}"
    protocol = f"{row['protocol']}, {row['shots']}-shot"
    return f"{questions}, {how} ({row['variants']}); {protocol}; {count(row['prompts'])} prompts."


def _shuffles(row: Row) -> dict[str, Any]:
    """Return accuracy by subject in the original order and in each shuffle; empty unless there are several of both."""
    if row["variant_kind"] != "shuffle":
        return {}
    measured = _by_subject.get(row["seal"], lambda: chart_data.by_subject(session(), row["evaluation_id"]))
    rows = [item | {"name": f"Shuffle {item['run']}" if item["run"] else "Original order"} for item in measured]
    by_subject: dict[str, dict[int, Row]] = {}
    for item in rows:
        by_subject.setdefault(item["subject"], {})[item["run"]] = item
    return {
        "shuffles_chart": charts.shuffles(rows),
        "shuffled_runs": dict(sorted({item["run"]: item["name"] for item in rows}.items())),
        "by_subject": by_subject,
    }


_by_subject: OfSealed[list[Row]] = OfSealed(ROWS_KEPT, lambda found: 1 + len(found))


def _scorers(shards: Sequence[Row]) -> list[Row]:
    """Sum the shards of each host, device and engine, since an evaluation may have a thousand."""

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

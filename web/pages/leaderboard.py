"""The leaderboard as a page and as CSV, and its parts for other pages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import chain, count, groupby
from typing import Any, Final

from flask import Response, render_template, request, stream_with_context
from flask.typing import ResponseReturnValue

from registry.errors import UsageError
from registry.exchange.tabular import csv_text
from registry.leaderboard.chance import CORRECTED
from registry.leaderboard.costs import costs_of
from registry.leaderboard.rows import (
    FALLBACK,
    Ordering,
    all_rows,
    complete_rows,
    count_groups,
    filter_choices,
    group_key,
    incomplete_rows,
    natural_order,
    split_by_group,
)
from registry.leaderboard.selection import Selection
from registry.schema.selectables import Row
from registry.scores.asked import describe_orders
from registry.scores.written import SAID, lost_answers
from registry.verdicts.spans import Span, span_of
from web.charts.scatter import PLOTS, draw_leaderboard
from web.charts.spans import column_of_dots, mean_right
from web.formats import scale
from web.pages.blueprint import blueprint
from web.serving.responses import session
from web.shown import listings, queries
from web.shown.known import make_sentences, with_facts
from web.urls import links, parameters
from web.urls.paging import MAX_PER_PAGE, ROWS_PER_PAGE, find_page

SIZES: Final = tuple(int(number * 10**9) for number in (0.1, 0.5, 1, 3, 7, 13, 30, 70, 400))
"""Numbers of parameters that the leaderboard offers as limits; a URL may have any."""
MOST_PRINTED: Final = 200


@blueprint.get("/")
def leaderboard() -> ResponseReturnValue:
    """Show the leaderboard: complete evaluations ranked within their group, then incomplete ones."""
    ordering, selection = links.read_ordering(request.args), Selection(**parameters.filters(request.args))
    page, size = parameters.paging(request.args, per_page=ROWS_PER_PAGE, most=MAX_PER_PAGE)
    published = parameters.choice(request.args, "published", ("yes", "no"), "no") == "yes"
    density = parameters.choice(request.args, "density", ("compact", "details"), "compact")
    drawn = parameters.choice(request.args, "chart", (*PLOTS, "none"), next(iter(PLOTS)))
    pins = parameters.read_pinned(request.args)
    choices = _choices(selection)
    shown, total = complete_rows(
        session(), selection, ordering, limit=size, offset=(page - 1) * size, metrics=_on_the_board(ordering)
    )
    shown = with_facts(shown, selection.scope)
    groups = count_groups(session(), selection)
    by_default = "sort" not in request.args and ordering.rank_metric != FALLBACK
    in_one_order = by_default and bool(shown) and all(row["ranked_by"] == FALLBACK for row in shown)
    if in_one_order:
        ordering = replace(ordering, sort=FALLBACK, order=natural_order(FALLBACK))
    costs = costs_of(session(), [row["evaluation_id"] for row in shown])
    incomplete, _ = incomplete_rows(session(), selection, limit=MAX_PER_PAGE, metrics=ordering.metrics)
    printed = (
        listings.list_printed(
            session(), ordering.metrics, benchmark=selection.benchmark, q=selection.model or selection.q
        )
        if published
        else []
    )
    metrics = metrics_with_values(ordering, shown)
    pinned = tuple(name for name in pins if name in metrics)
    metrics = (*pinned, *(name for name in metrics if name not in pinned))
    return render_template(
        "leaderboard.html",
        asked=ordering,
        in_one_order=in_one_order,
        selection=selection,
        choices=choices,
        sizes=SIZES,
        asked_labels=ASKED_LABELS,
        paging=find_page(total, ROWS_PER_PAGE, asked=(page, size)),
        shown=shown,
        told=make_sentences(shown),
        published=published,
        printed=printed,
        most_printed=MOST_PRINTED,
        empty_registry=not choices["benchmark"],
        density=density,
        pinned=pinned,
        columns=_columns(metrics, pinned, ordering.sort),
        kept=_in_force(selection),
        drawn=drawn,
        scatter=draw_leaderboard(PLOTS[drawn], [row | {"cost": costs.get(row["evaluation_id"])} for row in shown])
        if shown and drawn in PLOTS
        else None,
        priced=bool(costs),
        **table_context(
            shown,
            incomplete,
            metrics,
            grouped=ordering.grouped,
            members={(group["asked_digest"], group["repeated"]): group["evaluations"] for group in groups},
            folded=not any(getattr(selection, key) is not None for key in _OF_ONE_WAY),
        ),
    )


_OF_ONE_WAY: Final = ("variants", "protocol", "shots", "asked", "model", "q")
"""Filters that unfold every way of prompting a benchmark, since the visitor looks for one of them."""


def _columns(metrics: Sequence[str], pinned: Sequence[str], sort: str) -> list[dict[str, Any]]:
    """Return the shown columns with the URLs that move, pin or remove each; None for an impossible action.

    Pinned columns move among the pinned ones, the others after them.
    """

    def address(names: Sequence[str], pins: Sequence[str], **more: Any) -> str:
        return links.here(metrics=",".join(names), pin=",".join(pins) or None, **more)

    def move_column(place: int, by: int) -> str | None:
        neighbour = place + by
        if not 0 <= neighbour < len(metrics) or (metrics[place] in pinned) != (metrics[neighbour] in pinned):
            return None
        order = list(metrics)
        order[place], order[neighbour] = order[neighbour], order[place]
        return address(order, [name for name in order if name in pinned])

    columns = []
    for place, name in enumerate(metrics):
        others = [pin for pin in pinned if pin != name]
        rest = [kept for kept in metrics if kept != name]
        room = name in pinned or len(pinned) < parameters.MOST_PINNED
        unsorted = {"sort": None, "order": None} if name == sort else {}
        columns.append(
            {
                "name": name,
                "pinned": name in pinned,
                "earlier": move_column(place, -1),
                "later": move_column(place, 1),
                "pin": address(metrics, others if name in pinned else (*pinned, name)) if room else None,
                "remove": address(rest, others, **unsorted) if rest else None,
            }
        )
    return columns


_FILTER_LABELS: Final = {
    "min_parameters": "Parameters from",
    "max_parameters": "Parameters to",
    "openness": "Weights",
    "released_from": "Released from",
    "released_to": "Released to",
    "sealed_from": "Sealed from",
    "sealed_to": "Sealed to",
    "q": "Name contains",
}
ASKED_LABELS: Final = {
    "one-order": "One order",
    "repeats": "Repeats of one prompt",
    "several-orders": "Several orders or variants",
}


def _in_force(selection: Selection) -> list[tuple[str, str, str]]:
    """Return the active filters: label, value, and the URL without the filter."""
    active = []
    for key, value in asdict(selection).items():
        if value is None:
            continue
        if isinstance(value, datetime):
            text = f"{value:%Y-%m-%d}"
        else:
            text = scale(value) if key.endswith("_parameters") else ASKED_LABELS.get(str(value), str(value))
        active.append((_FILTER_LABELS.get(key, key.capitalize()), text, links.here(**{key: None})))
    return active


def _choices(selection: Selection) -> dict[str, list[str]]:
    """Return the options of each filter. Raises UsageError for a filter that matches nothing."""
    options = filter_choices(session()) | listings.model_choices(session()) | {"subject": []}
    if not options["benchmark"]:
        return options
    for key in ("benchmark", "variants", "protocol", "shots", "family", "licence"):
        _require(key, getattr(selection, key), options[key])
    if selection.model is not None:
        listings.model(session(), parameters.name("model", selection.model))
    if selection.benchmark is not None:
        options["subject"] = listings.subjects(session(), selection.benchmark)
        _require("subject", selection.subject, options["subject"])
    elif selection.subject is not None:
        options["subject"] = [selection.subject]
    return options


def _require(key: str, value: object, choices: Sequence[str]) -> None:
    if value is not None and str(value) not in choices:
        listed = ", ".join(choices[:20]) + (", …" if len(choices) > 20 else "")
        raise UsageError(f"{key}={parameters.shorten(str(value))}: use one of {listed or 'none: there is no such'}")


@blueprint.get("/leaderboard.csv")
def leaderboard_csv() -> ResponseReturnValue:
    """Return all rows that match the filters as CSV, complete ones first.

    A long table is sent in pieces, so that memory does not grow with the registry.
    """
    ordering, selection = links.read_ordering(request.args), Selection(**parameters.filters(request.args))
    pieces = export_rows(ordering, selection)
    first, second = next(pieces, []), next(pieces, None)
    head = csv_text(*export_table(first, ordering, selection))

    def rest() -> Iterator[str]:
        yield head
        for rows in chain(() if second is None else (second,), pieces):
            yield csv_text(*export_table(rows, ordering, selection), heading=False)

    return Response(
        head if second is None else stream_with_context(rest()),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="leaderboard.csv"'},
    )


def export_rows(asked: Ordering, selection: Selection) -> Iterator[list[Row]]:
    """Yield all rows that match the filters in pieces, complete ones first."""
    _choices(selection)
    return all_rows(session(), selection, asked, tuple(dict.fromkeys((*asked.metrics, asked.rank_metric))))


def export_table(rows: Sequence[Row], asked: Ordering, selection: Selection) -> tuple[list[Row], list[str]]:
    """Return (rows, columns) for other programs: the row's identity, then value, interval and n of each metric."""
    scaled = CORRECTED if asked.above_chance else ()
    flat = [
        {
            **{name: row[name] for name in CSV_COLUMNS},
            "asked": describe_orders(row),
            "scope": selection.scope,
            **{f"{name}{end}": value for name in asked.metrics for end, value in _export_cells(row, name)},
            **{f"{name}_above_chance": row.get("above_chance", {}).get(name, {}).get("value") for name in scaled},
        }
        for row in rows
    ]
    of_metrics = [f"{name}{end}" for name in asked.metrics for end in ("", "_low", "_high", "_n")]
    return flat, [*CSV_COLUMNS, "asked", "scope", *of_metrics, *(f"{name}_above_chance" for name in scaled)]


CSV_COLUMNS: Final = (
    "rank",
    "model",
    "revision",
    "kind",
    "parameters",
    "benchmark",
    "benchmark_version",
    "variants",
    "protocol",
    "shots",
    "replicate",
    "evaluation_id",
    "state",
    "scored",
    "questions",
    "sealed_at",
    "chance",
)
"""Columns that identify a row. Free texts are omitted, since a spreadsheet might read them as formulas."""


def _export_cells(row: Row, metric: str) -> list[tuple[str, float | None]]:
    count = row["counts"].get(metric, {})
    bounds = [("_low", count.get("interval_low")), ("_high", count.get("interval_high"))]
    return [("", row[metric]), *bounds, ("_n", count.get("n"))]


def metrics_with_values(asked: Ordering, shown: Sequence[Row]) -> tuple[str, ...]:
    """Return the metrics to show: the requested ones, or else the usual ones with a value in some row."""
    if any(request.args.getlist("metrics")):
        return asked.metrics
    sorting = asked.sort if "sort" in request.args else None
    defined = _list_defined(asked.metrics, shown)
    return tuple(name for name in asked.metrics if name == sorting or name in defined) or asked.metrics


def _on_the_board(asked: Ordering) -> tuple[str, ...]:
    """Return the metrics that a row shows: the requested ones and the three in its bar."""
    return (*asked.metrics, "accuracy", "average_accuracy", "worst_accuracy")


def table_context(
    complete: list[Row],
    incomplete: list[Row],
    metrics: Sequence[str],
    *,
    grouped: bool,
    members: Mapping[tuple[str, int], int] | None = None,
    folded: bool = False,
) -> dict[str, Any]:
    """Return the variables of the leaderboard's tables other than their rows.

    members: asked digest and `repeated` of a group → number of its evaluations on all pages. folded: whether only the
    most common way of prompting each benchmark is unfolded.
    """
    spans = _list_spans(complete)
    groups = split_by_group(complete) if grouped else [complete] if complete else []
    return {
        "groups": groups,
        "tables_of_groups": _split_tables(groups, metrics),
        "grouped": grouped,
        "members": members or {},
        "folded": folded,
        "unread": any((row["missing_answers"] or 0.0) > SAID for row in complete),
        "tokens": any(row["tokens_per_answer"] is not None for row in complete),
        "lost_answers": lost_answers(session(), [row["evaluation_id"] for row in complete]),
        "incomplete": incomplete,
        "unranked": _group_unranked(complete),
        "row_spans": spans,
        "mean_right": mean_right(spans),
        "metrics": metrics,
        "counts": {row["evaluation_id"]: row["counts"] for row in complete},
        "progress": queries.progress(session(), [row["evaluation_id"] for row in incomplete]) if incomplete else {},
    }


def _split_tables(groups: Sequence[list[Row]], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Split groups into tables: numbered `groups`, and the `metrics` and the `right_column` of the columns.

    Neighbouring benchmarks that have nothing but accuracy, since their models were asked in one order, have a table of
    their own: next to benchmarks with several orders, most of their columns would be empty.
    """
    if any(request.args.getlist(key) for key in ("metrics", "pin")):
        split = [(False, groups)]
    else:
        of_benchmarks = [list(same) for _, same in groupby(groups, key=lambda group: group[0]["benchmark"])]
        neighbours = groupby(of_benchmarks, key=lambda of_one: _list_defined(metrics, chain(*of_one)) == ["accuracy"])
        split = [(bare, list(chain(*of_tables))) for bare, of_tables in neighbours]
    numbers = count(1)
    return [
        {
            "groups": [(next(numbers), group) for group in groups_of_table],
            "metrics": ["accuracy"] if bare and len(split) > 1 else list(metrics),
            "right_column": None if bare else column_of_dots(_list_spans(chain(*groups_of_table)), metrics),
        }
        for bare, groups_of_table in split
    ]


def _list_defined(metrics: Sequence[str], rows: Iterable[Row]) -> list[str]:
    rows = list(rows)
    return [name for name in metrics if any(row[name] is not None for row in rows)]


def _list_spans(rows: Iterable[Row]) -> list[Span]:
    return [span for row in rows if row["facts"] and (span := span_of(row["facts"])) is not None]


def _group_unranked(rows: Sequence[Row]) -> list[list[Row]]:
    """Group rows without a rank by questions, number of prompts and reason."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["not_ranked"]:
            groups.setdefault((*group_key(row), describe_orders(row), row["not_ranked"]["reason"]), []).append(row)
    return list(groups.values())


@dataclass(frozen=True)
class Part:
    """The leaderboard rows of one model or benchmark, ranked among all."""

    asked: Ordering
    complete: list[Row]
    incomplete: list[Row]


def part_of_leaderboard(*, metrics: Sequence[str] = (), **of: str) -> Part:
    """Return the leaderboard rows of a model or a benchmark. metrics: further metrics for the rows."""
    ordering, selection = links.read_ordering(request.args), links.read_filters(request.args, **of)
    shown = (*_on_the_board(ordering), *metrics)
    complete, _ = complete_rows(session(), selection, ordering, limit=None, offset=0, metrics=shown)
    incomplete, _ = incomplete_rows(session(), selection, limit=MAX_PER_PAGE, metrics=shown)
    return Part(ordering, with_facts(complete, selection.scope), incomplete)

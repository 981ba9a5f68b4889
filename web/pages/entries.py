"""Pages of the registered models and benchmarks, each with its part of the leaderboard."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from flask import render_template, request
from flask.typing import ResponseReturnValue

from registry.schema.selectables import Row
from web.pages.blueprint import blueprint
from web.pages.leaderboard import metrics_with_values, part_of_leaderboard, table_context
from web.serving.responses import session
from web.shown import chart_data, listings
from web.urls import parameters
from web.urls.paging import QUESTIONS_PER_PAGE, find_page
from web.urls.sorting import Order, in_order, read_sorting

MODELS: Final[Mapping[str, Order]] = {
    **dict.fromkeys(("model", "family", "developer"), "asc"),
    "parameters": "desc",
    "licence": "asc",
    "released": "desc",
    **dict.fromkeys(("revisions", "evaluations"), "desc"),
}
"""The columns of the list of models, and the direction in which each is sorted first."""
FACETS: Final = ("family", "developer", "licence")
"""Columns by which the list of models can be filtered."""
BENCHMARKS: Final[Mapping[str, Order]] = {
    **dict.fromkeys(("benchmark", "version", "language", "split", "licence"), "asc"),
    **dict.fromkeys(("questions", "few_shot_examples", "evaluations"), "desc"),
}


def _matching(rows: Sequence[Row], q: str | None, columns: Sequence[str]) -> list[Row]:
    """Return the rows that contain `q` in one of the columns, ignoring case."""
    wanted = (q or "").casefold()
    return [row for row in rows if any(wanted in (row[name] or "").casefold() for name in columns)]


@blueprint.get("/models")
def models() -> ResponseReturnValue:
    """List models, filtered by facets and by `q`, a part of their name, family, developer or licence."""
    rows, q, sorting = listings.models(session()), parameters.text(request.args, "q"), read_sorting(MODELS, "model")
    chosen = {facet: parameters.text(request.args, facet) for facet in FACETS}
    matching = [
        row
        for row in _matching(rows, q, ("model", *FACETS))
        if all(wanted in (None, row[facet]) for facet, wanted in chosen.items())
    ]
    counted = {facet: Counter(row[facet] for row in rows if row[facet]) for facet in FACETS}
    return render_template(
        "models.html",
        models=in_order(matching, sorting),
        known=len(rows),
        q=q,
        sorting=sorting,
        chosen=chosen,
        facets={
            facet: sorted(values.items(), key=lambda item: item[0].casefold()) for facet, values in counted.items()
        },
    )


@blueprint.get("/benchmarks")
def benchmarks() -> ResponseReturnValue:
    """List benchmarks, all or only those whose name contains `q`, with their versions, newest first.

    Benchmarks are sorted by their newest version.
    """
    rows, q, sorting = (
        listings.benchmarks(session()),
        parameters.text(request.args, "q"),
        read_sorting(BENCHMARKS, "benchmark"),
    )
    by_name = {name: list(versions) for name, versions in groupby(rows, key=lambda row: row["benchmark"])}
    newest = in_order(_matching([versions[0] for versions in by_name.values()], q, ("benchmark",)), sorting)
    shown = {row["benchmark"]: by_name[row["benchmark"]] for row in newest}
    return render_template("benchmarks.html", benchmarks=shown, known=len(by_name), q=q, sorting=sorting)


@blueprint.get("/benchmarks/<benchmark>")
def benchmark(benchmark: str) -> ResponseReturnValue:
    """Show a benchmark: its versions, its part of the leaderboard, and the questions of one version."""
    versions, chosen = listings.version_of(
        session(), parameters.name("benchmark", benchmark), parameters.text(request.args, "version")
    )
    facets = listings.Facets.asked_for(request.args)
    total = listings.questions_counted(session(), chosen["benchmark_version_id"], facets)
    paging = find_page(total, QUESTIONS_PER_PAGE)
    kept = part_of_leaderboard(benchmark=chosen["benchmark"])
    return render_template(
        "benchmark.html",
        versions=versions,
        chosen=chosen,
        shape=listings.shape(session(), chosen["benchmark_version_id"]),
        questions=listings.benchmark_questions(
            session(), chosen["benchmark_version_id"], facets, limit=paging.per_page, offset=paging.offset
        ),
        facets=facets,
        subjects=listings.subjects(session(), chosen["benchmark"]),
        paging=paging,
        asked=kept.asked,
        shown=kept.complete,
        moved=sum(map(chart_data.moves_answers, kept.complete)),
        **table_context(kept.complete, kept.incomplete, metrics_with_values(kept.asked, kept.complete), grouped=True),
    )

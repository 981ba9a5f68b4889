"""What is registered: models, and benchmarks with their parts of the leaderboard."""

from itertools import groupby

from flask import render_template, request
from flask.typing import ResponseReturnValue

from registry.errors import NotFoundError
from web import chart_data, listings, parameters
from web.pages.blueprint import blueprint
from web.pages.leaderboard import metrics_with_values, part_of_leaderboard, table_context
from web.paging import QUESTIONS_PER_PAGE, paged
from web.responses import session


@blueprint.get("/models")
def models() -> ResponseReturnValue:
    """Every model."""
    return render_template("models.html", models=listings.models(session()))


@blueprint.get("/benchmarks")
def benchmarks() -> ResponseReturnValue:
    """Every benchmark version."""
    rows = listings.benchmarks(session())
    by_name = {name: list(versions) for name, versions in groupby(rows, key=lambda row: row["benchmark"])}
    return render_template("benchmarks.html", benchmarks=by_name)


@blueprint.get("/benchmarks/<benchmark>")
def benchmark(benchmark: str) -> ResponseReturnValue:
    """A benchmark: its versions, its part of the board, the questions of one version."""
    versions = listings.benchmarks(session(), parameters.name("benchmark", benchmark))
    wanted = parameters.text(request.args, "version") or versions[0]["version"]
    chosen = next((row for row in versions if row["version"] == wanted), None)
    if chosen is None:
        listed = ", ".join(row["version"] for row in versions)
        raise NotFoundError(f"benchmark {benchmark} has no version {parameters.shorten(wanted)}; it has: {listed}")
    paging = paged(chosen["questions"], QUESTIONS_PER_PAGE)
    kept = part_of_leaderboard(benchmark=chosen["benchmark"])
    return render_template(
        "benchmark.html",
        versions=versions,
        chosen=chosen,
        shape=listings.shape(session(), chosen["benchmark_version_id"]),
        questions=listings.benchmark_questions(
            session(), chosen["benchmark_version_id"], limit=paging.per_page, offset=paging.offset
        ),
        paging=paging,
        asked=kept.asked,
        shown=kept.complete,
        moved=sum(map(chart_data.moves_answers, kept.complete)),
        **table_context(kept.complete, kept.incomplete, metrics_with_values(kept.asked, kept.complete), grouped=True),
    )

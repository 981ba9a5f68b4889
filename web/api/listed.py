"""Registered things as JSON: models, benchmarks, protocols, metrics, printed results, and the queue."""

from typing import Final

from flask import Response, url_for
from pydantic import Field
from sqlalchemy import select

from registry.db import pick
from registry.errors import NotFoundError
from registry.leaderboard.rows import UNFINISHED
from registry.leaderboard.selection import Selection
from registry.metrics import METRICS
from registry.studies.published import list_published
from registry.tables import Protocol
from web.api import answers
from web.api.operations import answer, get, page
from web.api.paths import BenchmarkName, ModelName
from web.api.results import rows_of_board
from web.serving.responses import session
from web.shown import listings, queries
from web.urls.parameters import Paged, Text


@get("/models", answers.ModelList, tag="registry")
def models() -> Response:
    """List every model."""
    return answer({"items": listings.models(session())})


@get("/models/<model>", answers.ModelDocument, tag="registry")
def model(model: ModelName) -> Response:
    """Return a model's revisions and its rows of the leaderboard."""
    row = listings.model(session(), model)
    return answer(row | {"evaluations": rows_of_board(Selection(model=row["model"]))})


@get("/benchmarks", answers.BenchmarkList, tag="registry")
def benchmarks() -> Response:
    """List every public benchmark version."""
    return answer({"items": listings.benchmarks(session())})


@get("/benchmarks/<benchmark>", answers.BenchmarkDocument, tag="registry")
def benchmark(benchmark: BenchmarkName) -> Response:
    """Return a benchmark's public versions and its rows of the leaderboard."""
    versions = listings.benchmarks(session(), benchmark)
    name = versions[0]["benchmark"]
    return answer({"benchmark": name, "versions": versions, "evaluations": rows_of_board(Selection(benchmark=name))})


@get("/protocols", answers.ProtocolList, tag="registry")
def protocols() -> Response:
    """List every used or imported protocol."""
    rows = session().scalars(select(Protocol).order_by(Protocol.name, Protocol.shots, Protocol.id))
    return answer(
        {"items": [{"protocol": row.name} | pick(row, ("shots", "digest", "definition", "created_at")) for row in rows]}
    )


METRIC: Final = ("label", "better", "unit", "low", "high", "definition_version", "view", "summary", "source")


@get("/metrics", answers.MetricList, tag="registry")
def metrics() -> Response:
    """List every metric: name, direction, range, source, and the version of its definition."""
    return answer(
        {
            "items": [
                {"metric": name, "guide": url_for("pages.metrics_guide", _anchor=name)} | pick(metric, METRIC)
                for name, metric in METRICS.items()
            ]
        }
    )


class PublishedQuery(Paged):
    """Filters for printed numbers."""

    paper: Text | None = Field(None, description="Only this paper: part of its label, such as cavalin.")
    metric: Text | None = Field(None, description="Only this metric: the paper's name for it, or this registry's.")


@get("/published-results", answers.PublishedList, tag="registry")
def published_results(query: PublishedQuery) -> Response:
    """Return numbers that papers print, as printed. None of them was measured here."""
    try:
        rows = list_published(session(), paper=query.paper, metric=query.metric)
    except NotFoundError:  # filters without a match give an empty list, as in every list
        rows = []
    return page(rows[query.offset :][: query.per_page], len(rows), query)


@get("/queue", answers.Queue, tag="registry")
def queue(query: Paged) -> Response:
    """Return unfinished evaluations with their progress, the total progress, and the live workers."""
    items, total = queries.evaluations(session(), states=UNFINISHED, limit=query.per_page, offset=query.offset)
    return page(items, total, query, **listings.queue(session()))

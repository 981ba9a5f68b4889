"""The same rows as JSON, under /api/v1/. Numbers are as stored; null means undefined or not known yet."""

from collections.abc import Sequence
from typing import Any

from flask import Blueprint, jsonify, request, url_for
from flask.typing import ResponseReturnValue

from registry.metrics import METRICS
from registry.metrics.catalogue import ALL_NAMES
from registry.models import EVALUATION_STATES
from web import board, listings, parameters, queries
from web.responses import session
from web.views import Row

blueprint = Blueprint("api", __name__, url_prefix="/api/v1")

MAX_PER_PAGE = 1000
PAGING = ("page", "per_page")


def _page(items: Sequence[Row], total: int, page: int, per_page: int, **more: Any) -> ResponseReturnValue:
    """A list with its place in the whole; `next` is null on the last page."""
    following = None
    if page * per_page < total:
        query = {key: value for key, value in request.args.items() if key not in PAGING}
        path = dict(request.view_args or {})
        assert request.endpoint is not None
        following = url_for(request.endpoint, **{**query, **path, "page": page + 1, "per_page": per_page})
    return jsonify({**more, "items": items, "total": total, "page": page, "per_page": per_page, "next": following})


def leaderboard_row(row: Row, counts: dict[int, dict[str, Row]], progress: dict[int, Row]) -> Row:
    """A row of the view with its rank, how many questions each metric is over, and progress while incomplete."""
    of_metrics = counts.get(row["evaluation_id"], {})
    document = {key: value for key, value in row.items() if key not in ("protocol_id", "variant_set_id")}
    document["n"] = {name: of_metrics[name]["n"] if name in of_metrics else None for name in METRICS}
    document["progress"] = progress.get(row["evaluation_id"])
    return document


@blueprint.get("/leaderboard")
def leaderboard() -> ResponseReturnValue:
    """Every evaluation that the filters keep, complete ones first, in the order asked for."""
    parameters.only(request.args, board.ARGUMENTS)
    asked = board.read(request.args)
    made = board.make(queries.board(session()), asked)
    counts = queries.board_counts(session(), tuple(METRICS))
    progress = queries.progress(session(), [row["evaluation_id"] for row in made.incomplete])
    rows = made.rows
    if "per_page" in request.args or "page" in request.args:
        page, per_page = parameters.paging(request.args, per_page=100, most=MAX_PER_PAGE)
        rows = rows[(page - 1) * per_page : page * per_page]
    return jsonify(
        {
            "rows": [leaderboard_row(row, counts, progress) for row in rows],
            "total": len(made.rows),
            "ranked_by": asked.rank_metric,
            "sort": asked.sort,
            "order": asked.order,
        }
    )


@blueprint.get("/evaluations")
def evaluations() -> ResponseReturnValue:
    """Evaluations with their progress, newest first; `state`, `model` and `benchmark` filter."""
    parameters.only(request.args, ("state", "model", "benchmark", *PAGING))
    page, per_page = parameters.paging(request.args, per_page=100, most=MAX_PER_PAGE)
    state = parameters.choice(request.args, "state", EVALUATION_STATES, "")
    items, total = queries.evaluations(
        session(),
        states=(state,) if state else None,
        model=parameters.text(request.args, "model"),
        benchmark=parameters.text(request.args, "benchmark"),
        limit=per_page,
        offset=(page - 1) * per_page,
    )
    return _page(items, total, page, per_page)


def evaluation_progress(evaluation: Row) -> Row:
    """The progress document of one evaluation."""
    return queries.progress(session(), [evaluation["evaluation_id"]])[evaluation["evaluation_id"]]


def provenance(evaluation: Row) -> Row:
    """Where an evaluation's numbers come from. Engine fingerprints stand once, under their digest."""
    shards = queries.shards(session(), evaluation["evaluation_id"])
    fingerprints = {
        row["engine_fingerprint_digest"]: row["engine_fingerprint"]
        for row in shards
        if row["engine_fingerprint_digest"] is not None
    }
    return {
        "specification": evaluation["specification"],
        "specification_digest": evaluation["specification_digest"],
        "model": {
            key: evaluation[key]
            for key in ("kind", "location", "commit", "dtype", "quantisation", "weights_digest", "tokenizer_digest")
        },
        "benchmark": {key: evaluation[key] for key in ("content_digest", "file_digest", "licence", "source")},
        "protocol_digest": evaluation["protocol_digest"],
        "variant_set_digest": evaluation["variant_set_digest"],
        "requester": evaluation["requester"],
        "seal": evaluation["seal"],
        "mixed_engines": len(fingerprints) > 1,
        "engine_fingerprints": fingerprints,
        "shards": [
            {key: value for key, value in row.items() if key not in ("evaluation_id", "engine_fingerprint")}
            for row in shards
        ],
    }


_HEADER = (
    "evaluation_id",
    "model",
    "revision",
    "benchmark",
    "benchmark_version",
    "protocol",
    "shots",
    "variants",
    "replicate",
    "state",
    "complete",
    "questions",
    "prompts",
    "created_at",
    "started_at",
    "sealed_at",
)


@blueprint.get("/evaluations/<evaluation_id>")
def evaluation(evaluation_id: str) -> ResponseReturnValue:
    """One evaluation with progress, metrics (every metric name, null where undefined) and provenance."""
    parameters.only(request.args, ())
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    scopes = queries.scopes(session(), row["evaluation_id"], sealed=row["complete"])
    of_all = {item["metric"]: item["value"] for item in scopes if item["scope"] == "all"}
    return jsonify(
        {
            **{key: row[key] for key in _HEADER},
            "progress": evaluation_progress(row),
            "metrics": {name: of_all.get(name) for name in ALL_NAMES},
            "scopes": [{key: value for key, value in item.items() if key != "evaluation_id"} for item in scopes],
            "provenance": provenance(row),
        }
    )


@blueprint.get("/evaluations/<evaluation_id>/progress")
def progress(evaluation_id: str) -> ResponseReturnValue:
    """Progress alone: what pages poll."""
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    return jsonify(evaluation_progress(row))


@blueprint.get("/evaluations/<evaluation_id>/questions")
def evaluation_questions(evaluation_id: str) -> ResponseReturnValue:
    """An evaluation's questions in the benchmark's order; `only` keeps some."""
    parameters.only(request.args, ("only", *PAGING))
    page, per_page = parameters.paging(request.args, per_page=100, most=MAX_PER_PAGE)
    only = parameters.choice(request.args, "only", queries.QUESTION_FILTERS, "all")
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    counts = queries.question_counts(session(), row["evaluation_id"])
    items = queries.questions(session(), row["evaluation_id"], only=only, limit=per_page, offset=(page - 1) * per_page)
    return _page(items, counts[only], page, per_page, counts=counts)


@blueprint.get("/evaluations/<evaluation_id>/questions/<question_id>")
def evaluation_question(evaluation_id: str, question_id: str) -> ResponseReturnValue:
    """One question of an evaluation with its predictions; arrays run by position."""
    parameters.only(request.args, ())
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    question, expected = queries.asked_question(
        session(), row["evaluation_id"], parameters.identifier("question", question_id)
    )
    predictions = queries.predictions(session(), row["evaluation_id"], question["question_id"])
    return jsonify(
        {
            "evaluation_id": row["evaluation_id"],
            "question": question,
            "expected": expected,
            "inserted": row["inserted"],
            "predictions": predictions,
        }
    )


@blueprint.get("/models")
def models() -> ResponseReturnValue:
    """Every model."""
    parameters.only(request.args, ())
    return jsonify({"items": listings.models(session())})


@blueprint.get("/models/<model>")
def model(model: str) -> ResponseReturnValue:
    """A model's revisions and its rows of the leaderboard."""
    parameters.only(request.args, ())
    row = listings.model(session(), parameters.name("model", model))
    return jsonify(row | {"evaluations": _board_rows({"model": row["model"]})})


@blueprint.get("/benchmarks")
def benchmarks() -> ResponseReturnValue:
    """Every public benchmark version."""
    parameters.only(request.args, ())
    return jsonify({"items": listings.benchmarks(session())})


@blueprint.get("/benchmarks/<benchmark>")
def benchmark(benchmark: str) -> ResponseReturnValue:
    """A benchmark's public versions and its rows of the leaderboard."""
    parameters.only(request.args, ())
    versions = listings.benchmarks(session(), parameters.name("benchmark", benchmark))
    name = versions[0]["benchmark"]
    return jsonify({"benchmark": name, "versions": versions, "evaluations": _board_rows({"benchmark": name})})


def _board_rows(filters: dict[str, str]) -> list[Row]:
    asked = board.BoardRequest(filters, parameters.metrics(parameters.Arguments()), "worst_accuracy", "desc", True)
    made = board.make(queries.board(session()), asked)
    counts = queries.board_counts(session(), tuple(METRICS))
    progress = queries.progress(session(), [row["evaluation_id"] for row in made.incomplete])
    return [leaderboard_row(row, counts, progress) for row in made.rows]


@blueprint.get("/queue")
def queue() -> ResponseReturnValue:
    """Unfinished evaluations with their progress, all of them together, and the workers alive."""
    parameters.only(request.args, PAGING)
    page, per_page = parameters.paging(request.args, per_page=100, most=MAX_PER_PAGE)
    items, total = queries.evaluations(
        session(), states=queries.UNFINISHED, limit=per_page, offset=(page - 1) * per_page
    )
    return _page(items, total, page, per_page, **listings.queue(session()))

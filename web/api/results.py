"""Results as JSON: the leaderboard, evaluations, their questions and predictions, provenance."""

import re
from typing import Any, Final

from flask import Response, request

from registry.api import documents
from registry.errors import UsageError
from registry.metrics import METRICS
from registry.metrics.catalogue import ALL_NAMES
from registry.proof.provenance import more_provenance
from registry.tables import Evaluation
from web import board, parameters, queries, standings
from web.api import arguments
from web.api.operations import answer, get, linked, next_address, page
from web.responses import session
from web.views import Row

FILTERS: Final = (
    arguments.BENCHMARK,
    arguments.SUBJECT,
    arguments.PROTOCOL,
    arguments.SHOTS,
    arguments.VARIANTS,
    arguments.MODEL,
    arguments.PART_OF_NAME,
    arguments.FAMILY,
    arguments.KIND,
    arguments.MIN_PARAMETERS,
    arguments.MAX_PARAMETERS,
    arguments.SEALED_FROM,
    arguments.SEALED_TO,
)
"""What both the leaderboard and the list of evaluations can be narrowed by."""

_CURSOR: Final = re.compile(r"(\d{1,18})\.(\d{1,5})")


def read_selection() -> standings.Selection:
    """Which evaluations a request is about."""
    given: dict[str, Any] = {argument.name: argument.read(request.args) for argument in FILTERS}
    return standings.Selection(**{name: value for name, value in given.items() if value not in (None, "")})


# The leaderboard


@get(
    "/leaderboard",
    documents.Leaderboard,
    tag="results",
    query=(
        *FILTERS,
        arguments.METRIC_NAMES,
        arguments.SORT,
        arguments.ORDER,
        arguments.GROUP,
        arguments.PAGE,
        arguments.ROWS_PER_PAGE,
    ),
    paged=True,
)
def leaderboard() -> Response:
    """Every evaluation that the filters keep, complete ones first, in the order asked for.

    Ranks are among all evaluations that were asked the same questions in the same way: a filter never changes a rank.
    """
    asked = board.read(request.args)
    number, size = arguments.PAGE.read(request.args), arguments.ROWS_PER_PAGE.read(request.args)
    selection = read_selection()
    made = standings.page(session(), selection, asked, limit=size, offset=(number - 1) * size)
    following = next_address(page=number + 1, per_page=size) if number * size < made.total else None
    document = {
        "rows": board_documents(made.rows),
        "total": made.total,
        "page": number,
        "per_page": size,
        "next": following,
        "scope": selection.scope,
        "ranked_by": asked.rank_metric,
        "sort": asked.sort,
        "order": asked.order,
    }
    return linked(answer(document), number, max(1, -(-made.total // size)), size)


def board_documents(rows: list[Row]) -> list[Row]:
    """Rows of the leaderboard with counts and intervals of every metric, and progress where they are incomplete."""
    progress = queries.progress(session(), [row["evaluation_id"] for row in rows if not row["complete"]])
    return [_leaderboard_row(row, row["counts"], progress) for row in rows]


_INTERNAL: Final = ("benchmark_version_id", "protocol_id", "variant_set_id", "part", "counts")


def _leaderboard_row(row: Row, counts: dict[str, Row], progress: dict[int, Row]) -> Row:
    document = {key: value for key, value in row.items() if key not in _INTERNAL}
    document["n"] = {name: counts[name]["n"] if name in counts else None for name in METRICS}
    document["intervals"] = {name: _interval(counts.get(name)) for name in METRICS}
    document["progress"] = progress.get(row["evaluation_id"])
    return document


def _interval(counts: Row | None) -> list[float] | None:
    if counts is None or counts["interval_low"] is None:
        return None
    return [counts["interval_low"], counts["interval_high"]]


def rows_of_board(selection: standings.Selection) -> list[Row]:
    """A model's or a benchmark's rows of the leaderboard, by worst accuracy within each group."""
    asked = board.BoardRequest({}, parameters.metrics(parameters.Arguments()), "worst_accuracy", "desc", True)
    made = standings.page(session(), selection, asked, limit=None, offset=0)
    return board_documents(made.rows)


# Evaluations


@get(
    "/evaluations",
    documents.EvaluationList,
    tag="results",
    query=(*FILTERS, arguments.STATE, *arguments.PAGING),
    paged=True,
)
def evaluations() -> Response:
    """Evaluations with their progress, newest first."""
    number, size = arguments.PAGE.read(request.args), arguments.PER_PAGE.read(request.args)
    state = arguments.STATE.read(request.args)
    items, total = queries.evaluations(
        session(),
        states=(state,) if state else None,
        conditions=standings.conditions(read_selection()),
        limit=size,
        offset=(number - 1) * size,
    )
    return page(items, total, number, size)


_HEADER: Final = tuple(documents.EvaluationHeader.__annotations__)


def evaluation_progress(evaluation: Row) -> Row:
    """The progress document of one evaluation."""
    return queries.progress(session(), [evaluation["evaluation_id"]])[evaluation["evaluation_id"]]


def provenance_of(evaluation: Row) -> Row:
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
        "model": {key: evaluation[key] for key in documents.ModelIdentity.__annotations__},
        "benchmark": {key: evaluation[key] for key in documents.BenchmarkIdentity.__annotations__},
        "protocol_digest": evaluation["protocol_digest"],
        "variant_set_digest": evaluation["variant_set_digest"],
        **more_provenance(session(), session().get_one(Evaluation, evaluation["evaluation_id"]), shards),
        "requester": evaluation["requester"],
        "seal": evaluation["seal"],
        "mixed_engines": len(fingerprints) > 1,
        "engine_fingerprints": fingerprints,
        "shards": [
            {key: value for key, value in row.items() if key not in ("evaluation_id", "engine_fingerprint")}
            for row in shards
        ],
    }


def _found(evaluation_id: str) -> Row:
    return queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))


@get("/evaluations/<evaluation_id>", documents.EvaluationDocument, tag="results")
def evaluation(evaluation_id: str) -> Response:
    """One evaluation with progress, metrics (every metric name, null where undefined) and provenance."""
    row = _found(evaluation_id)
    scopes = queries.scopes(session(), row["evaluation_id"], sealed=row["complete"])
    of_all = {item["metric"]: item["value"] for item in scopes if item["scope"] == "all"}
    return answer(
        {
            **{key: row[key] for key in _HEADER},
            "progress": evaluation_progress(row),
            "metrics": {name: of_all.get(name) for name in ALL_NAMES},
            "scopes": [{key: value for key, value in item.items() if key != "evaluation_id"} for item in scopes],
            "provenance": provenance_of(row),
        }
    )


@get("/evaluations/<evaluation_id>/progress", documents.Progress, tag="results")
def progress(evaluation_id: str) -> Response:
    """Progress alone: what pages poll."""
    return answer(evaluation_progress(_found(evaluation_id)))


@get("/evaluations/<evaluation_id>/provenance", documents.Provenance, tag="results")
def provenance(evaluation_id: str) -> Response:
    """Where an evaluation's numbers come from: specification, files, workers, engine, seal."""
    # What is said of a sealed evaluation may grow: that it was withdrawn, or who copied from it.
    return answer(provenance_of(_found(evaluation_id)))


@get(
    "/evaluations/<evaluation_id>/questions",
    documents.EvaluationQuestions,
    tag="results",
    query=(arguments.ONLY, *arguments.PAGING),
    paged=True,
)
def evaluation_questions(evaluation_id: str) -> Response:
    """An evaluation's questions in the benchmark's order; `only` keeps some."""
    number, size = arguments.PAGE.read(request.args), arguments.PER_PAGE.read(request.args)
    only = arguments.ONLY.read(request.args)
    row = _found(evaluation_id)
    counts = queries.question_counts(session(), row["evaluation_id"])
    items = queries.questions(session(), row["evaluation_id"], only=only, limit=size, offset=(number - 1) * size)
    return page(items, counts[only], number, size, counts=counts, unchanging=row["complete"])


@get("/evaluations/<evaluation_id>/questions/<question_id>", documents.EvaluationQuestionDocument, tag="results")
def evaluation_question(evaluation_id: str, question_id: str) -> Response:
    """One question of an evaluation with its predictions; arrays run by position."""
    row = _found(evaluation_id)
    question, expected = queries.asked_question(
        session(), row["evaluation_id"], parameters.identifier("question", question_id)
    )
    predictions = queries.predictions(session(), row["evaluation_id"], question["question_id"])
    return answer(
        {
            "evaluation_id": row["evaluation_id"],
            "question": question,
            "expected": expected,
            "inserted": row["inserted"],
            "predictions": predictions,
        },
        unchanging=row["complete"],
    )


def read_cursor(given: parameters.Arguments) -> tuple[int, int] | None:
    """(question, variant) that a page of predictions begins behind; None for the first page."""
    value = parameters.text(given, "cursor")
    if value is None:
        return None
    found = _CURSOR.fullmatch(value)
    if found is None or int(found[2]) > 32_767:
        raise UsageError(f"cursor={parameters.shorten(value)}: give next_cursor of the page before, or none to begin")
    return int(found[1]), int(found[2])


CURSOR: Final = arguments.Argument(
    "cursor",
    "`next_cursor` of the page before; absent for the first.",
    {"type": "string", "pattern": r"^[0-9]{1,18}\.[0-9]{1,4}$"},
    read_cursor,
)


@get(
    "/evaluations/<evaluation_id>/predictions",
    documents.PredictionPage,
    tag="results",
    query=(arguments.LIMIT, CURSOR),
    paged=True,
)
def predictions(evaluation_id: str) -> Response:
    """Every stored prediction of an evaluation, by question and variant; arrays run by position.

    Follow `next` to the end: each page begins behind the last prediction of the one before, so that pages stay whole
    and quick however many there are.
    """
    limit, cursor = arguments.LIMIT.read(request.args), CURSOR.read(request.args)
    row = _found(evaluation_id)
    # One more than asked for tells whether another page follows.
    rows = queries.predictions_after(session(), row["evaluation_id"], cursor, limit=limit + 1)
    items = rows[:limit]
    last: dict[str, Any] = items[-1] if items else {}
    following = f"{last['question_id']}.{last['variant']}" if len(rows) > limit else None
    address = None if following is None else next_address(cursor=following, limit=limit)
    document = {"items": items, "limit": limit, "next_cursor": following, "next": address}
    response = answer(document, unchanging=row["complete"])
    if address is not None:
        response.headers["Link"] = f'<{address}>; rel="next"'
    return response


@get(
    "/questions/<question_id>",
    documents.QuestionDocument,
    tag="results",
    query=arguments.PAGING,
    paged=True,
)
def question(question_id: str) -> Response:
    """A benchmark's question, and its outcome in every evaluation that asks it, newest first."""
    number, size = arguments.PAGE.read(request.args), arguments.PER_PAGE.read(request.args)
    row = queries.question(session(), parameters.identifier("question", question_id))
    outcomes, total = queries.question_everywhere(session(), row["question_id"], limit=size, offset=(number - 1) * size)
    return page(outcomes, total, number, size, question=row)

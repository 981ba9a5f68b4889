"""Results as JSON: the leaderboard, evaluations, their questions and predictions, provenance."""

import re
from collections.abc import Collection
from typing import Annotated, Any, Final

from flask import Response
from pydantic import BeforeValidator, Field, WithJsonSchema

from registry.fields import Between, OneOf
from registry.leaderboard.costs import cost_document
from registry.leaderboard.rows import SORTS, Ordering, Page, default_sort, leaderboard_page, natural_order
from registry.leaderboard.selection import Selection, evaluation_conditions
from registry.metrics.catalogue import ALL_NAMES, SHOWN
from registry.schema.selectables import Row
from registry.tables import EVALUATION_STATES
from web.api import answers
from web.api.operations import address_with, answer, get, page
from web.api.paths import EvaluationId, QuestionId
from web.serving.responses import session
from web.shown import queries
from web.shown.comparisons import comparison_of
from web.shown.provenance import provenance_of
from web.shown.studies import cluster_intervals, repeat_noise
from web.urls.parameters import (
    DEFAULT_METRICS,
    MAX_PER_PAGE,
    Filters,
    Id,
    MetricNames,
    NoiseFrom,
    Paged,
    Papers,
    Query,
    YesOrNo,
)
from web.who.identity import settings_of

# The leaderboard


class LeaderboardQuery(Paged, Filters):
    """The part of the leaderboard to return, and its order."""

    metrics: Annotated[
        MetricNames,
        Field(description="Metrics to rank and sort by; rows have more. Repeated, or separated by commas."),
    ] = DEFAULT_METRICS
    sort: Annotated[str, OneOf(SORTS)] | None = Field(
        None, description="Column to sort by; right in two orders, or else the first metric asked for."
    )
    order: Annotated[str, OneOf(("asc", "desc"))] | None = Field(
        None, description="Direction; by default, what puts the best on top."
    )
    group: Annotated[YesOrNo, Field(description="Whether evaluations that were asked the same stand together.")] = "yes"
    above_chance: Annotated[
        YesOrNo,
        Field(description="Whether rows also have accuracy from guessing, 0, to perfect, 1."),
    ] = "no"
    per_page: Annotated[int, Between(1, MAX_PER_PAGE), Field(description="Rows on a page.")] = MAX_PER_PAGE


@get("/leaderboard", answers.Leaderboard, tag="results")
def leaderboard(query: LeaderboardQuery) -> Response:
    """List every evaluation that the filters keep, complete ones first, in the requested order.

    Ranks are among all evaluations of the same questions in the same variants and protocol: a filter never changes a
    rank.
    """
    sort = query.sort or default_sort(query.metrics)
    order = query.order or natural_order(sort)
    ordering = Ordering(query.metrics, sort, order, query.group == "yes", query.above_chance == "yes")
    selection = _selection(query)
    rows = leaderboard_page(session(), selection, ordering, limit=query.per_page, offset=query.offset)
    return page(
        with_progress(rows, query.metrics),
        rows.total,
        query,
        key="rows",
        scope=selection.scope,
        ranked_by=ordering.rank_metric,
        sort=sort,
        order=order,
    )


def _selection(query: Filters) -> Selection:
    """Return the selection that the filters describe."""
    return Selection(**{name: getattr(query, name) for name in Filters.model_fields})


def with_progress(found: Page, metrics: Collection[str] = ()) -> list[Row]:
    """Return a page's rows as documents, with the progress of incomplete ones and the cost of answers.

    metrics: metrics that the request names.
    """
    progress = queries.progress(session(), [row["evaluation_id"] for row in found.rows if not row["complete"]])
    return [document | {"progress": progress.get(document["evaluation_id"])} for document in found.documents(metrics)]


def rows_of_board(selection: Selection) -> list[Row]:
    """Return the leaderboard rows of a selection, sorted within each group by accuracy in two orders."""
    return with_progress(leaderboard_page(session(), selection))


# Evaluations


class EvaluationsQuery(Paged, Filters):
    """Filters for the list of evaluations."""

    state: Annotated[str, OneOf(EVALUATION_STATES)] | None = Field(None, description="Only evaluations in this state.")


@get("/evaluations", answers.EvaluationList, tag="results")
def evaluations(query: EvaluationsQuery) -> Response:
    """Return evaluations with their progress, newest first."""
    items, total = queries.evaluations(
        session(),
        states=(query.state,) if query.state else None,
        conditions=evaluation_conditions(session(), _selection(query)),
        limit=query.per_page,
        offset=query.offset,
    )
    return page(items, total, query)


_HEADER: Final = tuple(key for key in queries.EVALUATIONS.selected_columns.keys() if key != "priority")  # noqa: SIM118 - not a dict


def _find(evaluation_id: int) -> Row:
    return queries.evaluation(session(), evaluation_id)


class EvaluationQuery(Query):
    """The source of an evaluation's repeat noise, and the metrics to return."""

    noise_from: NoiseFrom = None
    papers: Papers = "no"


@get("/evaluations/<evaluation_id>", answers.EvaluationDocument, tag="results")
def evaluation(evaluation_id: EvaluationId, query: EvaluationQuery) -> Response:
    """Return one evaluation: progress, metrics (null if undefined), repeat noise, provenance."""
    row = _find(evaluation_id)
    scopes = queries.scopes(session(), row["evaluation_id"], sealed=row["complete"])
    of_all = {item["metric"]: item["value"] for item in scopes if item["scope"] == "all"}
    shown = ALL_NAMES if query.papers == "yes" else SHOWN
    return answer(
        {
            **{key: row[key] for key in _HEADER},
            "progress": queries.progress_of(session(), evaluation_id),
            "cost": cost_document(session(), row["evaluation_id"], settings_of()),
            "metrics": {name: of_all.get(name) for name in shown},
            "noise": repeat_noise(row["evaluation_id"], query.noise_from),
            "clustered": cluster_intervals(row["evaluation_id"], row["seal"]),
            "scopes": [
                {key: value for key, value in item.items() if key != "evaluation_id"}
                for item in scopes
                if item["metric"] in shown
            ],
            "provenance": provenance_of(row),
        }
    )


@get("/evaluations/<evaluation_id>/progress", answers.Progress, tag="results")
def progress(evaluation_id: EvaluationId) -> Response:
    """Return the progress alone, for pages that poll."""
    return answer(queries.progress_of(session(), _find(evaluation_id)["evaluation_id"]))


@get("/evaluations/<evaluation_id>/provenance", answers.Provenance, tag="results")
def provenance(evaluation_id: EvaluationId) -> Response:
    """Return the origin of an evaluation's numbers: specification, files, workers, engine, seal."""
    # Facts about a sealed evaluation may be added: its withdrawal, or evaluations that copied from it.
    return answer(provenance_of(_find(evaluation_id)))


class QuestionsQuery(Paged):
    """Filters for an evaluation's questions."""

    only: Annotated[str, OneOf(tuple(queries.QUESTION_FILTERS)), Field(description="Which questions to keep.")] = "all"


@get("/evaluations/<evaluation_id>/questions", answers.EvaluationQuestions, tag="results")
def evaluation_questions(evaluation_id: EvaluationId, query: QuestionsQuery) -> Response:
    """List an evaluation's questions in the benchmark's order; `only` filters them."""
    row = _find(evaluation_id)
    counts = queries.question_counts(session(), evaluation_id)
    items = queries.questions(session(), evaluation_id, only=query.only, limit=query.per_page, offset=query.offset)
    return page(items, counts[query.only], query, counts=counts, unchanging=row["complete"])


@get("/evaluations/<evaluation_id>/questions/<question_id>", answers.EvaluationQuestionDocument, tag="results")
def evaluation_question(evaluation_id: EvaluationId, question_id: QuestionId) -> Response:
    """Return one question of an evaluation with its predictions; arrays run by position."""
    row = _find(evaluation_id)
    question, expected = queries.find_question(session(), evaluation_id, question_id)
    predictions = queries.predictions(session(), evaluation_id, question_id)
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


class CompareQuery(Query):
    """Two evaluations of one benchmark version."""

    a: Annotated[Id, Field(description="The first evaluation's number.")]
    b: Annotated[Id, Field(description="The second evaluation's number.")]


@get("/compare", answers.Comparison, tag="results", conflicts=True)
def compare(query: CompareQuery) -> Response:
    """Compare two evaluations of one benchmark: every metric of `a` minus `b`, and whether both are of one model."""
    return answer(comparison_of(_find(query.a), _find(query.b)))


def _read_cursor(value: str) -> tuple[int, int]:
    """Return the (question, variant) after which a page of predictions begins."""
    question, _, variant = value.partition(".")
    if re.fullmatch(r"[0-9]{1,18}", question) is None or re.fullmatch(r"[0-9]{1,4}", variant) is None:
        raise ValueError("give next_cursor of the page before, or none to begin")
    return int(question), int(variant)


Cursor = Annotated[
    tuple[int, int],
    BeforeValidator(_read_cursor),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]{1,18}\.[0-9]{1,4}$"}),
]


class PredictionsQuery(Query):
    """A page of predictions."""

    limit: Annotated[int, Between(1, MAX_PER_PAGE), Field(description="Predictions on a page.")] = MAX_PER_PAGE
    cursor: Cursor | None = Field(None, description="`next_cursor` of the page before; absent for the first.")


@get("/evaluations/<evaluation_id>/predictions", answers.PredictionPage, tag="results")
def predictions(evaluation_id: EvaluationId, query: PredictionsQuery) -> Response:
    """List every stored prediction of an evaluation, by question and variant; arrays run by position.

    Follow `next` to the end: each page begins after the last prediction of the previous one, so that no page misses a
    prediction and all are fast.
    """
    row = _find(evaluation_id)
    # One more than requested, to find out whether another page follows.
    rows = queries.predictions_after(session(), evaluation_id, query.cursor, limit=query.limit + 1)
    items = rows[: query.limit]
    last: dict[str, Any] = items[-1] if items else {}
    following = f"{last['question_id']}.{last['variant']}" if len(rows) > query.limit else None
    address = None if following is None else address_with(cursor=following, limit=query.limit)
    document = {"items": items, "limit": query.limit, "next_cursor": following, "next": address}
    response = answer(document, unchanging=row["complete"])
    if address is not None:
        response.headers["Link"] = f'<{address}>; rel="next"'
    return response


@get("/questions/<question_id>", answers.QuestionDocument, tag="results")
def question(question_id: QuestionId, query: Paged) -> Response:
    """Return a benchmark's question, and its outcome in every evaluation that includes it, newest first."""
    row = queries.question(session(), question_id)
    outcomes, total = queries.question_everywhere(session(), question_id, limit=query.per_page, offset=query.offset)
    return page(outcomes, total, query, question=row)

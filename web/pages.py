"""The same rows as pages. Every page reads and sorts without scripts; a script saves reloads."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from string import ascii_uppercase
from typing import Any, Final

from flask import Blueprint, Response, render_template, request
from flask.typing import ResponseReturnValue

from registry.errors import NotFoundError, UsageError
from registry.metrics import METRICS
from registry.operations.migrate import require_current
from web import api, board, charts, effects, formats, guide, listings, parameters, queries, standings, story
from web.formats import letter
from web.responses import engine, session
from web.sealed import OfSealed
from web.views import Row

blueprint = Blueprint("pages", __name__)

ROWS_PER_PAGE: Final = 100
QUESTIONS_PER_PAGE: Final = 25
VARIANTS_PER_PAGE: Final = 24
MAX_PER_PAGE: Final = 500

SELECTION: Final = tuple(argument.name for argument in api.results.FILTERS)
"""What the leaderboard can be narrowed by: the same as in the API."""
PARAMETERS: Final = frozenset(
    {*SELECTION, *board.ARGUMENTS, "published", "only", "place", "version", "left", "right", "by", "against"}
)
"""Every query parameter of a page; links keep these and drop unknown ones."""


PLACES: Final = tuple(ascii_uppercase)
"""Positions as a URL names them."""


@dataclass(frozen=True)
class Paging:
    """Where a page stands in its list."""

    page: int
    per_page: int
    total: int

    @property
    def pages(self) -> int:
        """Number of pages, at least one."""
        return max(1, -(-self.total // self.per_page))

    @property
    def offset(self) -> int:
        """Rows before this page."""
        return (self.page - 1) * self.per_page

    @property
    def first(self) -> int:
        """1-based number of the first row."""
        return min(self.total, self.offset + 1)

    @property
    def last(self) -> int:
        """1-based number of the last row."""
        return min(self.total, self.offset + self.per_page)


def paged(total: int, per_page: int, *, asked: tuple[int, int] | None = None) -> Paging:
    """Where the asked page stands in a list of `total`; NotFoundError beyond its end."""
    page, size = asked or parameters.paging(request.args, per_page=per_page, most=MAX_PER_PAGE)
    paging = Paging(page, size, total)
    if page > paging.pages:
        raise NotFoundError(f"page {page}: there are {paging.pages}; go back to page 1")
    return paging


# The leaderboard


SIZES: Final = tuple(int(number * 10**9) for number in (0.1, 0.5, 1, 3, 7, 13, 30, 70, 400))
"""Numbers of parameters that the leaderboard offers as limits; a URL may have any."""
MOST_PRINTED: Final = 200


@blueprint.get("/")
def leaderboard() -> ResponseReturnValue:
    """The board: complete evaluations ranked within their group, incomplete ones apart."""
    asked, selection = board.read(request.args), api.results.read_selection()
    page, size = parameters.paging(request.args, per_page=ROWS_PER_PAGE, most=MAX_PER_PAGE)
    published = parameters.choice(request.args, "published", ("yes", "no"), "no") == "yes"
    choices = _choices(selection)
    shown, total = standings.complete(
        session(), selection, asked, limit=size, offset=(page - 1) * size, metrics=_on_the_board(asked)
    )
    incomplete, _ = standings.incomplete(session(), selection, limit=MAX_PER_PAGE, metrics=asked.metrics)
    printed = (
        listings.printed(session(), asked.metrics, benchmark=selection.benchmark, q=selection.model or selection.q)
        if published
        else []
    )
    return render_template(
        "leaderboard.html",
        asked=asked,
        selection=selection,
        choices=choices,
        sizes=SIZES,
        paging=paged(total, ROWS_PER_PAGE, asked=(page, size)),
        shown=shown,
        lucky=story.of_evaluations(shown),
        published=published,
        printed=printed,
        most_printed=MOST_PRINTED,
        empty_registry=not choices["benchmark"],
        **_board_context(shown, incomplete, _metrics_with_values(asked, shown), grouped=asked.grouped),
    )


def _choices(selection: standings.Selection) -> dict[str, list[str]]:
    """What each filter offers. Raises UsageError for a filter that matches nothing."""
    found = standings.choices(session()) | listings.model_choices(session()) | {"subject": []}
    if not found["benchmark"]:
        return found
    for key in ("benchmark", "variants", "protocol", "shots", "family"):
        _require(key, getattr(selection, key), found[key])
    if selection.model is not None:
        listings.model(session(), parameters.name("model", selection.model))
    if selection.benchmark is not None:
        found["subject"] = listings.subjects(session(), selection.benchmark)
        _require("subject", selection.subject, found["subject"])
    elif selection.subject is not None:
        found["subject"] = [selection.subject]
    return found


def _require(key: str, value: object, choices: Sequence[str]) -> None:
    if value is not None and str(value) not in choices:
        listed = ", ".join(choices[:20]) + (", …" if len(choices) > 20 else "")
        raise UsageError(
            f"{key}={parameters.shorten(str(value))}: use one of {listed or 'none: there are no values yet'}"
        )


@blueprint.get("/leaderboard.csv")
def leaderboard_csv() -> ResponseReturnValue:
    """The same rows as a table for other programs: those that the filters keep, all of them, complete ones first."""
    asked, selection = board.read(request.args), api.results.read_selection()
    _choices(selection)
    names = tuple(dict.fromkeys((*asked.metrics, asked.rank_metric)))
    complete, _ = standings.complete(session(), selection, asked, limit=None, offset=0, metrics=names)
    incomplete, _ = standings.incomplete(session(), selection, limit=None, metrics=names)
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    of_metrics = [f"{name}{end}" for name in asked.metrics for end in ("", "_low", "_high", "_n")]
    writer.writerow([*CSV_COLUMNS, "scope", *of_metrics])
    for row in complete + incomplete:
        cells = [row[name] for name in CSV_COLUMNS]
        cells = [cell.isoformat() if isinstance(cell, datetime) else cell for cell in cells]
        writer.writerow([*cells, selection.scope, *(cell for name in asked.metrics for cell in _csv_cells(row, name))])
    return Response(
        lines.getvalue(),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="leaderboard.csv"'},
    )


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
)
"""What identifies a row; free texts, which a spreadsheet might take for formulas, are not among them."""


def _csv_cells(row: Row, metric: str) -> list[float | None]:
    found = row["counts"].get(metric, {})
    return [row[metric], found.get("interval_low"), found.get("interval_high"), found.get("n")]


def _metrics_with_values(asked: board.BoardRequest, shown: Sequence[Row]) -> tuple[str, ...]:
    """The columns: those requested by name; otherwise the usual ones that have a value in some row."""
    if any(request.args.getlist("metrics")):
        return asked.metrics
    known = [name for name in asked.metrics if name == asked.sort or any(row[name] is not None for row in shown)]
    return tuple(known) or asked.metrics


def _on_the_board(asked: board.BoardRequest) -> tuple[str, ...]:
    """The metrics that a row shows: the requested ones, and those of its bar."""
    return (*asked.metrics, "accuracy", "average_accuracy", "worst_accuracy")


def _board_context(
    complete: list[Row], incomplete: list[Row], metrics: Sequence[str], *, grouped: bool
) -> dict[str, Any]:
    """What the board's tables need besides their rows."""
    return {
        "groups": board.groups(complete) if grouped else [complete] if complete else [],
        "grouped": grouped,
        "incomplete": incomplete,
        "metrics": metrics,
        "counts": {row["evaluation_id"]: row["counts"] for row in complete},
        "progress": queries.progress(session(), [row["evaluation_id"] for row in incomplete]) if incomplete else {},
    }


def board_of(key: str, value: str, *, metrics: Sequence[str] = ()) -> tuple[board.BoardRequest, board.Board]:
    """One model's or one benchmark's part of the board, ranked among all; metrics: additional ones that rows hold."""
    asked = board.read(request.args)
    selection = standings.selection({**asked.filters, key: value})
    shown = (*_on_the_board(asked), *metrics)
    complete, _ = standings.complete(session(), selection, asked, limit=None, offset=0, metrics=shown)
    incomplete, _ = standings.incomplete(session(), selection, limit=MAX_PER_PAGE, metrics=shown)
    return asked, board.Board(complete, incomplete)


@blueprint.get("/models")
def models() -> ResponseReturnValue:
    """Every model."""
    return render_template("models.html", models=listings.models(session()))


@blueprint.get("/models/<model>")
def model(model: str) -> ResponseReturnValue:
    """A model: its revisions and evaluations."""
    row = listings.model(session(), parameters.name("model", model))
    asked, kept = board_of("model", row["model"])
    return render_template(
        "model.html",
        model=row,
        asked=asked,
        shown=kept.complete,
        **_board_context(kept.complete, kept.incomplete, _metrics_with_values(asked, kept.complete), grouped=False),
    )


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
    asked, kept = board_of("benchmark", chosen["benchmark"])
    return render_template(
        "benchmark.html",
        versions=versions,
        chosen=chosen,
        shape=listings.shape(session(), chosen["benchmark_version_id"]),
        questions=listings.benchmark_questions(
            session(), chosen["benchmark_version_id"], limit=paging.per_page, offset=paging.offset
        ),
        paging=paging,
        asked=asked,
        shown=kept.complete,
        moved=sum(map(board.moves_answers, kept.complete)),
        **_board_context(kept.complete, kept.incomplete, _metrics_with_values(asked, kept.complete), grouped=True),
    )


# Evaluations


@blueprint.get("/evaluations/<evaluation_id>")
def evaluation(evaluation_id: str) -> ResponseReturnValue:
    """An evaluation: progress, metrics by scope, questions, provenance."""
    only = parameters.choice(request.args, "only", queries.QUESTION_FILTERS, "all")
    asked = parameters.paging(request.args, per_page=QUESTIONS_PER_PAGE, most=MAX_PER_PAGE)
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    place = parameters.choice(request.args, "place", PLACES, "")
    among = effects.fails_at(row["evaluation_id"], PLACES.index(place)) if place else None
    scopes = queries.scopes(session(), row["evaluation_id"], sealed=row["complete"])
    counts = queries.question_counts(session(), row["evaluation_id"])
    kept = counts if among is None else queries.question_counts(session(), row["evaluation_id"], among)
    paging = paged(kept[only], QUESTIONS_PER_PAGE, asked=asked)
    provenance = api.provenance(row)
    by_scope: dict[str, dict[str, Row]] = {}
    for item in scopes:
        by_scope.setdefault(item["scope"], {})[item["metric"]] = item
    parts_chart = _parts_chart(by_scope)
    return render_template(
        "evaluation.html",
        evaluation=row,
        subject_metrics=_part_metrics(by_scope, charts.PART_METRICS if parts_chart else ()),
        bmca_chart=charts.bmca_curve(by_scope.get("all", {})),
        shares=charts.SHARES,
        all_questions={name: item["value"] for name, item in by_scope.get("all", {}).items()},
        progress=api.evaluation_progress(row),
        by_scope=by_scope,
        filters={key: (label, counts[key]) for key, (label, _) in queries.QUESTION_FILTERS.items()},
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
    positions, over_all = _positions.get(row["seal"], lambda: effects.positions(session(), row["evaluation_id"]))
    adversarial = effects.adversarial(session(), row["evaluation_id"]) if row["variant_kind"] == "adversarial" else []
    rules = row["specification"]["protocol"].get("extraction", {}).get("rules", [])
    return {
        **_shuffles(row),
        "written": effects.written(session(), row["evaluation_id"], rules) if rules else [],
        "seconds": effects.seconds(session(), row["evaluation_id"]) if rules else None,
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
    found = _by_subject.get(row["seal"], lambda: effects.by_subject(session(), row["evaluation_id"]))
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


@blueprint.get("/evaluations/<evaluation_id>/questions/<question_id>")
def evaluation_question(evaluation_id: str, question_id: str) -> ResponseReturnValue:
    """A question as one evaluation showed it: every variant with choice and probabilities."""
    asked = parameters.paging(request.args, per_page=VARIANTS_PER_PAGE, most=MAX_PER_PAGE)
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    question, expected = queries.asked_question(
        session(), row["evaluation_id"], parameters.identifier("question", question_id)
    )
    predictions = queries.predictions(session(), row["evaluation_id"], question["question_id"])
    paging = paged(len(predictions), VARIANTS_PER_PAGE, asked=asked)
    page = predictions[paging.offset : paging.offset + paging.per_page]
    own = [prediction for prediction in predictions if prediction["own_options"] and prediction["question_shown"]]
    return render_template(
        "evaluation_question.html",
        evaluation=row,
        question=question,
        expected=expected,
        predictions=predictions,
        shown=[_as_shown(prediction, question["options"], row["inserted"]) for prediction in page],
        own=own,
        probabilities_chart=charts.probabilities(own, question["options"], question["answer"]),
        paging=paging,
        prompts=queries.exact_prompts(session(), row, question["question_id"], page),
        answer_label=letter(question["answer"]),
    )


def _as_shown(prediction: Row, options: Sequence[str], inserted: dict[str, str]) -> Row:
    """A prediction with its lines in the order in which the model saw them."""
    probabilities = prediction["label_probabilities"]
    return prediction | {
        "lines": [
            {
                "label": letter(position),
                "option": option,
                "text": options[option] if option >= 0 else inserted.get(str(option), "an inserted option"),
                "chosen": position == prediction["chosen_position"],
                "right": option == prediction["answer"],
                "probability": None if probabilities is None else probabilities[position],
            }
            for position, option in enumerate(prediction["shown"])
        ]
    }


@blueprint.get("/questions/<question_id>")
def question(question_id: str) -> ResponseReturnValue:
    """A benchmark's question over all evaluations."""
    page, per_page = parameters.paging(request.args, per_page=100, most=MAX_PER_PAGE)
    row = queries.question(session(), parameters.identifier("question", question_id))
    outcomes, total = queries.question_everywhere(
        session(), row["question_id"], limit=per_page, offset=(page - 1) * per_page
    )
    return render_template(
        "question.html",
        question=row,
        outcomes=outcomes,
        paging=paged(total, per_page, asked=(page, per_page)),
        answer_label=letter(row["answer"]),
    )


# Queue, guide, health


@blueprint.get("/queue")
def queue() -> ResponseReturnValue:
    """What is being scored, what is waiting, and the live workers."""
    page, per_page = parameters.paging(request.args, per_page=50, most=MAX_PER_PAGE)
    items, total = queries.evaluations(
        session(), states=queries.UNFINISHED, limit=per_page, offset=(page - 1) * per_page
    )
    finished, _ = queries.evaluations(session(), states=("complete",), limit=10)
    return render_template(
        "queue.html",
        evaluations=items,
        paging=paged(total, per_page, asked=(page, per_page)),
        finished=finished,
        **listings.queue(session()),
    )


@blueprint.get("/metrics-guide")
def metrics_guide() -> ResponseReturnValue:
    """Every metric: its formula, range, source and needs, a worked example, and where others compute it differently."""
    return render_template("metrics_guide.html", **guide.CONTEXT)


@blueprint.get("/healthz")
def healthz() -> ResponseReturnValue:
    """The process answers."""
    return {"status": "alive"}


@blueprint.get("/readyz")
def readyz() -> ResponseReturnValue:
    """The database answers and its schema is this code's; 503 otherwise."""
    # Read-only, or on SQLite the probe would wait for writers.
    require_current(engine().execution_options(read_only=True))
    return {"status": "ready"}

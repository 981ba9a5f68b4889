"""The same rows as pages. Every page reads and sorts without scripts; a script saves reloads."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from string import ascii_uppercase
from typing import Any, Final

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from registry.errors import NotFoundError
from registry.migrate import require_current
from web import api, board, guide, listings, parameters, queries
from web.responses import engine, session
from web.views import Row

blueprint = Blueprint("pages", __name__)

QUESTIONS_PER_PAGE: Final = 25
VARIANTS_PER_PAGE: Final = 24
MAX_PER_PAGE: Final = 500

PARAMETERS: Final = frozenset({*board.ARGUMENTS, "only", "version"})
"""Every query parameter of a page; links keep these and drop strangers."""


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


def _paging(total: int, per_page: int, *, asked: tuple[int, int] | None = None) -> Paging:
    page, size = asked or parameters.paging(request.args, per_page=per_page, most=MAX_PER_PAGE)
    paging = Paging(page, size, total)
    if page > paging.pages:
        raise NotFoundError(f"page {page}: there are {paging.pages}; go back to page 1")
    return paging


# The leaderboard


@blueprint.get("/")
def leaderboard() -> ResponseReturnValue:
    """The board: complete evaluations ranked within their group, incomplete ones apart."""
    asked = board.read(request.args)
    everything = queries.board(session())
    made = board.make(everything, asked)
    paging = _paging(len(made.complete), 200)
    shown = made.complete[paging.offset : paging.offset + paging.per_page]
    choices = {
        key: sorted({str(row[key]) for row in everything}) for key in ("benchmark", "variants", "protocol", "shots")
    }
    return render_template(
        "leaderboard.html",
        asked=asked,
        choices=choices,
        paging=paging,
        shown=shown,
        empty_registry=not everything,
        **_board_context(shown, made.incomplete, asked.metrics, grouped=asked.grouped),
    )


def _board_context(
    complete: list[Row], incomplete: list[Row], metrics: Sequence[str], *, grouped: bool
) -> dict[str, Any]:
    """What the board's tables need besides their rows."""
    return {
        "groups": board.groups(complete) if grouped else [complete] if complete else [],
        "grouped": grouped,
        "incomplete": incomplete,
        "metrics": metrics,
        "counts": queries.board_counts(session(), metrics) if complete else {},
        "progress": queries.progress(session(), [row["evaluation_id"] for row in incomplete]) if incomplete else {},
    }


def _board_of(key: str, value: str) -> tuple[board.BoardRequest, board.Board]:
    """The part of the board that is one model's or one benchmark's, ranked among all."""
    asked = board.read(request.args)
    made = board.make(queries.board(session()), asked)
    kept = board.Board(
        [row for row in made.complete if row[key] == value], [row for row in made.incomplete if row[key] == value]
    )
    return asked, kept


@blueprint.get("/models")
def models() -> ResponseReturnValue:
    """Every model."""
    return render_template("models.html", models=listings.models(session()))


@blueprint.get("/models/<model>")
def model(model: str) -> ResponseReturnValue:
    """A model: its revisions and evaluations."""
    row = listings.model(session(), parameters.name("model", model))
    asked, kept = _board_of("model", row["model"])
    return render_template(
        "model.html",
        model=row,
        asked=asked,
        shown=kept.complete,
        **_board_context(kept.complete, kept.incomplete, asked.metrics, grouped=False),
    )


@blueprint.get("/benchmarks")
def benchmarks() -> ResponseReturnValue:
    """Every public benchmark version."""
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
    paging = _paging(chosen["questions"], QUESTIONS_PER_PAGE)
    asked, kept = _board_of("benchmark", chosen["benchmark"])
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
        **_board_context(kept.complete, kept.incomplete, asked.metrics, grouped=True),
    )


# Evaluations


@blueprint.get("/evaluations/<evaluation_id>")
def evaluation(evaluation_id: str) -> ResponseReturnValue:
    """An evaluation: progress, metrics by scope, questions, provenance."""
    only = parameters.choice(request.args, "only", queries.QUESTION_FILTERS, "all")
    asked = parameters.paging(request.args, per_page=QUESTIONS_PER_PAGE, most=MAX_PER_PAGE)
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    scopes = queries.scopes(session(), row["evaluation_id"], sealed=row["complete"])
    counts = queries.question_counts(session(), row["evaluation_id"])
    paging = _paging(counts[only], QUESTIONS_PER_PAGE, asked=asked)
    provenance = api.provenance(row)
    by_scope: dict[str, dict[str, Row]] = {}
    for item in scopes:
        by_scope.setdefault(item["scope"], {})[item["metric"]] = item
    return render_template(
        "evaluation.html",
        evaluation=row,
        subject_metrics=parameters.metrics(request.args),
        all_questions={name: item["value"] for name, item in by_scope.get("all", {}).items()},
        progress=api.evaluation_progress(row),
        by_scope=by_scope,
        filters={key: (label, counts[key]) for key, (label, _) in queries.QUESTION_FILTERS.items()},
        only=only,
        paging=paging,
        questions=queries.questions(
            session(), row["evaluation_id"], only=only, limit=paging.per_page, offset=paging.offset
        ),
        provenance=provenance,
        scorers=_scorers(provenance["shards"]),
    )


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
    paging = _paging(len(predictions), VARIANTS_PER_PAGE, asked=asked)
    page = predictions[paging.offset : paging.offset + paging.per_page]
    return render_template(
        "evaluation_question.html",
        evaluation=row,
        question=question,
        expected=expected,
        predictions=predictions,
        shown=[_as_shown(prediction, question["options"], row["inserted"]) for prediction in page],
        own=[prediction for prediction in predictions if prediction["own_options"] and prediction["question_shown"]],
        paging=paging,
        prompts=queries.exact_prompts(session(), row, question["question_id"], page),
        answer_label=_letter(question["answer"]),
    )


def _letter(position: int) -> str:
    """How pages name a position, whatever labels the model was shown: those stand in the exact prompt."""
    return ascii_uppercase[position] if position < len(ascii_uppercase) else str(position + 1)


def _as_shown(prediction: Row, options: Sequence[str], inserted: dict[str, str]) -> Row:
    """A prediction with its lines in the order in which the model saw them."""
    probabilities = prediction["label_probabilities"]
    return prediction | {
        "lines": [
            {
                "label": _letter(position),
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
        paging=_paging(total, per_page, asked=(page, per_page)),
        answer_label=_letter(row["answer"]),
        letter=_letter,
    )


# Queue, guide, health


@blueprint.get("/queue")
def queue() -> ResponseReturnValue:
    """What is being scored, what waits, who works."""
    page, per_page = parameters.paging(request.args, per_page=50, most=MAX_PER_PAGE)
    items, total = queries.evaluations(
        session(), states=queries.UNFINISHED, limit=per_page, offset=(page - 1) * per_page
    )
    finished, _ = queries.evaluations(session(), states=("complete",), limit=10)
    return render_template(
        "queue.html",
        evaluations=items,
        paging=_paging(total, per_page, asked=(page, per_page)),
        finished=finished,
        **listings.queue(session()),
    )


@blueprint.get("/metrics-guide")
def metrics_guide() -> ResponseReturnValue:
    """Every metric: its formula, range, source and needs, a worked example, and where others compute it otherwise."""
    return render_template("metrics_guide.html", **guide.CONTEXT)


@blueprint.get("/healthz")
def healthz() -> ResponseReturnValue:
    """The process answers."""
    return {"status": "alive"}


@blueprint.get("/readyz")
def readyz() -> ResponseReturnValue:
    """The database answers and its schema is this code's; 503 otherwise."""
    # Read-only, or on SQLite the probe would wait for whoever writes.
    require_current(engine().execution_options(read_only=True))
    return {"status": "ready"}

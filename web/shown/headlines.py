"""What a board, an evaluation or a model comes to in a few words: for previews of links, pictures of them, and badges.

A value that is undefined is named with its reason, never given as a number. Functions take the session first; it
decides what they may tell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.errors import NotFoundError
from registry.leaderboard.facts import facts_of
from registry.leaderboard.rows import Ordering, complete_rows, incomplete_rows
from registry.leaderboard.selection import Selection
from registry.metrics import METRICS
from registry.schema.selectables import Row, evaluation_metrics, rows_of
from registry.scores.asked import asked_how, one_order
from registry.tables import Withdrawal
from registry.verdicts.comparisons import First, of_first
from registry.verdicts.facts import Facts
from registry.verdicts.spans import Span, span_of
from web.formats import metric_text, plural, scale
from web.urls.parameters import DEFAULT_METRICS

MOST_LINES: Final = 5
"""Lines of a card."""


@dataclass(frozen=True)
class Line:
    """A line of a card. text: says it in words; span: is drawn between the two."""

    label: str
    text: str
    span: Span | None = None


@dataclass(frozen=True)
class Card:
    """A subject with its headline numbers. description: the same in a sentence or two."""

    title: str
    subtitle: str
    lines: Sequence[Line]
    description: str


def with_interval(metric: str, value: float | None, low: float | None, high: float | None) -> str:
    """A value with its 95 % interval where there is one, as pages show it."""
    if value is None or low is None or high is None:
        return metric_text(metric, value)
    return f"{metric_text(metric, value)} [{metric_text(metric, low)}, {metric_text(metric, high)}]"


def plus_minus(metric: str, value: float, low: float | None, high: float | None) -> str:
    """A value with half the width of its 95 % interval, such as 43.1 % ± 2.0."""
    if low is None or high is None:
        return metric_text(metric, value)
    half = (high - low) / 2
    unit = METRICS[metric].unit
    shown = f"{100 * half:.1f}" if unit == "fraction" else f"{half:.1f}" if unit == "percent" else f"{half:.3f}"
    return f"{metric_text(metric, value)} ± {shown}"


def board_card(document: Row, spans: Mapping[tuple[str, int], Span] | None = None) -> Card:
    """A board's best models by the column that sorts, from a snapshot as it is shown.

    spans: (model, revision) to what is drawn of it, where the card is drawn.
    """
    column = next(column for column in document["columns"] if column["name"] == document["sort"])
    metric, complete = column["metric"], [row for row in document["rows"] if row["complete"]]
    label = METRICS[metric].label
    shown = [(row, row["values"][column["name"]]) for row in complete]
    ranked = [(row["model"], found) for row, found in shown if found["value"] is not None]
    lines = [
        Line(
            row["model"],
            plus_minus(metric, found["value"], *(found["interval"] or (None, None))),
            (spans or {}).get((row["model"], row["revision"])),
        )
        for row, found in shown
        if found["value"] is not None
    ][:MOST_LINES]
    how = column["variants"] if not column.get("protocol") else f"{column['variants']}, {column['protocol']}"
    day = f"{document['as_of']:%Y-%m-%d}"
    if not ranked:
        said = f"No model has a value of {label.lower()} yet."
    else:
        first, found = ranked[0]
        value = plus_minus(metric, found["value"], *(found["interval"] or (None, None)))
        alone = found["rank"] == 1 and sum(other["rank"] == 1 for _, other in ranked) == 1
        said = of_first(First(first, f"{label.lower()} ({how})", value, len(complete), alone)).text
    return Card(
        document["title"] or document["board"],
        f"{label} ({how}), {plural(len(complete), 'model')}, as of {day}",
        lines,
        f"{said} As of {day}.",
    )


def evaluation_metrics_of(session: Session, evaluation_id: int, names: Sequence[str]) -> dict[str, Row]:
    """Metric to its value, n and interval over all questions of a sealed evaluation."""
    c = evaluation_metrics.c
    query = select(evaluation_metrics).where(c.evaluation_id == evaluation_id, c.scope == "all", c.metric.in_(names))
    return {row["metric"]: row for row in rows_of(session, query)}


def is_withdrawn(session: Session, evaluation_id: int) -> bool:
    """Whether an evaluation no longer counts."""
    return session.scalar(select(Withdrawal.evaluation_id).filter_by(evaluation_id=evaluation_id)) is not None


def evaluation_card(session: Session, row: Row) -> Card:
    """An evaluation's headline metrics. row: as `queries.evaluation` has it."""
    how = f"{row['variants']}, {row['protocol']}, {row['shots']}-shot"
    asked = asked_how(row)
    title = f"{row['model']} on {row['benchmark']}"
    size = f"{plural(row['questions'], 'question')}{f', {asked}' if asked else ''}"
    if not row["complete"]:
        return Card(title, f"{how}; {size}", [Line("Not complete", row["state"])], f"Not complete yet. {how}; {size}.")
    found = evaluation_metrics_of(session, row["evaluation_id"], DEFAULT_METRICS)
    known = [(name, found[name]) for name in DEFAULT_METRICS if name in found and found[name]["value"] is not None]
    facts = facts_of(session, [row["evaluation_id"]]).get(row["evaluation_id"])
    # The whole drawing stands beside the first number.
    drawn = iter([None if facts is None else span_of(facts)])
    lines = [
        Line(
            METRICS[name].label,
            plus_minus(name, one["value"], one["interval_low"], one["interval_high"]),
            next(drawn, None),
        )
        for name, one in known
    ]
    parts = [f"{line.label.lower()} {line.text}" for line in lines]
    if one_order(row) and asked:
        lines.append(Line("Worst accuracy", asked))
    said = f"{', '.join(parts)}. " if parts else ""
    state = f"sealed {row['sealed_at']:%Y-%m-%d}"
    if is_withdrawn(session, row["evaluation_id"]):
        state, lines = "withdrawn", [Line("Withdrawn", "no longer counts")]
        said = "Withdrawn: it no longer counts. "
    return Card(
        title, f"{how}; {size}; {state}", lines[:MOST_LINES], f"{said[:1].upper()}{said[1:]}{how}; {size}; {state}."
    )


def model_card(session: Session, model: Row) -> Card:
    """A model's evaluations by worst accuracy, the highest first. model: as `listings.model` has it."""
    wanted = ("accuracy", "worst_accuracy")
    ordering = Ordering(wanted, "worst_accuracy", "desc", grouped=False)
    rows, total = complete_rows(
        session, Selection(model=model["model"]), ordering, limit=MOST_LINES, offset=0, metrics=wanted, ranked=False
    )
    known = facts_of(session, [row["evaluation_id"] for row in rows])
    lines = [_of_model(row, known.get(row["evaluation_id"])) for row in rows]
    facts = [scale(model["parameters"]) + " parameters"] if model["parameters"] else []
    size = "; ".join([*facts, plural(total, "complete evaluation")])
    said = "; ".join(f"{line.label} {line.text}" for line in lines[:3])
    return Card(
        model["model"],
        f"Worst accuracy; {size}" if lines else size,
        lines,
        f"Worst accuracy: {said}. {size}." if said else f"{size}.",
    )


def _of_model(row: Row, facts: Facts | None) -> Line:
    label = f"{row['benchmark']} ({row['variants']})"
    metric = "worst_accuracy" if row["worst_accuracy"] is not None else "accuracy"
    if row[metric] is None:
        return Line(label, "undefined")
    bounds = row["counts"].get(metric, {})
    text = plus_minus(metric, row[metric], bounds.get("interval_low"), bounds.get("interval_high"))
    drawn = None if facts is None else span_of(facts)
    return Line(label, text if metric == "worst_accuracy" else f"accuracy {text}, {asked_how(row)}", drawn)


# Badges


@dataclass(frozen=True)
class Badge:
    """A badge: what it is about, what it says, and both with more in a sentence. stated: whether it is a number."""

    label: str
    text: str
    title: str
    stated: bool


def evaluation_badge(session: Session, row: Row, metric: str) -> Badge:
    """A metric of an evaluation, or why there is none. row: as `queries.evaluation` and the leaderboard have it."""
    label = METRICS[metric].label.lower()
    of = f"{row['model']} on {row['benchmark']}, {row['variants']}"

    def without(reason: str) -> Badge:
        return Badge(label, reason, f"{of}: {label}: {reason}", stated=False)

    if not row["complete"]:
        return without("not complete")
    if is_withdrawn(session, row["evaluation_id"]):
        return without("withdrawn")
    found: dict[str, Any] = evaluation_metrics_of(session, row["evaluation_id"], [metric]).get(metric, {})
    value = found.get("value")
    if value is None:
        asked = asked_how(row)
        return without(asked if asked and METRICS[metric].needs_two_prompts and one_order(row) else "undefined")
    low, high = found["interval_low"], found["interval_high"]
    text = f"{plus_minus(metric, value, low, high)}, sealed"
    return Badge(label, text, f"{of}: {label} {with_interval(metric, value, low, high)}, sealed", stated=True)


def model_badge(session: Session, selection: Selection, metric: str) -> Badge:
    """A metric of a model on a benchmark: of its newest sealed evaluation that has a value, asked in the most prompts.

    selection: with `model` and `benchmark`. Raises NotFoundError where the session sees no evaluation of it.
    """
    ordering = Ordering((metric,), "sealed_at", "desc", grouped=False)
    rows, _ = complete_rows(session, selection, ordering, limit=None, offset=0, metrics=(metric,), ranked=False)
    if not rows:
        rows, _ = incomplete_rows(session, selection, limit=1, metrics=(metric,))
    if not rows:
        raise NotFoundError(
            f"no evaluation of {selection.model} on {selection.benchmark}; /api/v1/evaluations lists the existing ones"
        )
    # A stable order: the newest of the best comes first.
    best = min(
        rows, key=lambda row: (row["part"] is not None, row[metric] is None, -(row["distinct_prompts_max"] or 0))
    )
    return evaluation_badge(session, best, metric)

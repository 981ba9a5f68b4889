"""The page of a model: a summary of its robustness, the questions on which it flips, its evaluations."""

from collections.abc import Sequence
from typing import Any, Final

from flask import render_template
from flask.typing import ResponseReturnValue

from registry.schema.selectables import Row
from registry.scores.asked import one_order
from registry.verdicts.table import judge_model, no_point
from web import charts
from web.formats import chosen_questions
from web.pages.blueprint import blueprint
from web.pages.leaderboard import metrics_with_values, part_of_leaderboard, table_context
from web.serving.responses import session
from web.shown import listings, queries
from web.urls import parameters

PROFILE: Final = ("accuracy", "worst_accuracy", "score", "fluctuation_rate", "retest_accuracy")
"""Metrics in the card and its chart."""
MOST_FLIPPING: Final = 8
"""Number of parts and of questions to list, most flips first."""
HISTORY: Final = 20


@blueprint.get("/models/<model>")
def model(model: str) -> ResponseReturnValue:
    """Show a model: its card, its evaluations and its revisions."""
    row = listings.model(session(), parameters.name("model", model))
    part = part_of_leaderboard(model=row["model"], metrics=PROFILE)
    profile = sorted((item for item in part.complete if _robust(item)), key=lambda item: -item["facts"].lost)
    history, evaluations = queries.evaluations(session(), model=row["model"], limit=HISTORY)
    values = {item["evaluation_id"]: item for item in part.complete}
    return render_template(
        "model.html",
        model=row,
        asked=part.asked,
        shown=part.complete,
        verdict=judge_model([item["facts"] for item in part.complete]),
        profile=profile,
        label=_label,
        **_flipping(profile),
        history=[item | {"values": values.get(item["evaluation_id"])} for item in history],
        history_chart=charts.history([item | {"label": _label(item)} for item in profile]),
        evaluations=evaluations,
        **table_context(part.complete, part.incomplete, metrics_with_values(part.asked, part.complete), grouped=False),
    )


def _robust(row: Row) -> bool:
    """Return whether only the order can cause the difference between accuracy and worst accuracy."""
    facts = row["facts"]
    return not one_order(row) and not facts.guesses and facts.lost is not None and no_point(facts) is None


def _label(row: Row) -> str:
    how = f"{row['protocol']}, {row['shots']}-shot"
    return " · ".join(filter(None, (row["benchmark"], row["variants"], how, chosen_questions(row["question_filter"]))))


def _flipping(profile: Sequence[Row]) -> dict[str, Any]:
    """Return the subjects and questions with the most flips, from the evaluation with the most orders."""
    if not profile:
        return {"flipping_parts": [], "flipping_questions": [], "searched": None}
    by_id = {row["evaluation_id"]: row for row in profile}
    searched = max(
        profile, key=lambda row: (row["orders_only"], row["distinct_prompts_max"], row["fluctuation_rate"] or 0)
    )
    return {
        "flipping_parts": [
            item | {"of": by_id[item["evaluation_id"]]}
            for item in queries.flipping_parts(session(), list(by_id), limit=MOST_FLIPPING)
        ],
        "flipping_questions": queries.flipping_questions(session(), searched["evaluation_id"], limit=MOST_FLIPPING),
        "searched": searched,
    }

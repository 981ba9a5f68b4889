"""The facts behind sentences about the evaluations of a page."""

from collections.abc import Sequence

from flask import url_for

from registry.leaderboard.facts import facts_of
from registry.schema.selectables import Row
from registry.verdicts.table import Said, judge_listed
from web.serving.responses import session

Told = tuple[str, str, Said]
"""A model, the URL of its evaluation, and the sentence."""


def with_facts(rows: Sequence[Row], scope: str = "all") -> list[Row]:
    """Return the rows with `facts`: each evaluation's facts over a scope; None if it is not sealed."""
    by_evaluation = facts_of(session(), [row["evaluation_id"] for row in rows], scope)
    return [row | {"facts": by_evaluation.get(row["evaluation_id"])} for row in rows]


def make_sentences(rows: Sequence[Row]) -> list[Told]:
    """Return the sentences to show above these rows, which have `facts`."""
    judged = judge_listed([row["facts"] for row in rows if row["facts"] is not None])
    return [
        (facts.model, url_for("pages.evaluation", evaluation_id=facts.evaluation), sentence)
        for facts, sentence in judged
    ]

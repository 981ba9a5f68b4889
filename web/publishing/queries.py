"""The documented views on a published site's SQL page, made of its tables, and the worked queries that they answer."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from registry.predictions.archive_files import relation
from registry.schema.views import view_sql
from registry.sql.examples import EXAMPLES

_OF_TABLES: Final = {
    "prediction_detail": "SELECT * FROM predictions",
    "evaluation_provenance": "SELECT * FROM provenance",
    # What the views below read of the registry's tables.
    "prediction": "SELECT * FROM prediction_detail",
    "generation": "SELECT evaluation_id, question_id, variant, generation AS text, extracted FROM prediction_detail "
    "WHERE generation IS NOT NULL",
    "question": "SELECT DISTINCT question_id AS id, external_id, subject, refers_to_options, sorted_numeric "
    "FROM question_metrics",
    "question_score": "SELECT evaluation_id, question_id, expected, stored, distinct_prompts FROM question_metrics",
    "evaluation_question": "SELECT evaluation_id, question_id, expected AS n_variants FROM question_metrics",
    "evaluation": "SELECT evaluation_id AS id, hash(model, revision) AS model_revision_id, "
    "hash(content_digest) AS benchmark_version_id, hash(protocol_digest) AS protocol_id, "
    "hash(variants) AS variant_set_id, seal, sampled_for, stopped_for, CASE WHEN contains(variants, 'repeat') THEN "
    "coalesce(try_cast(regexp_extract(variants, 'repeat:k=([0-9]+)', 1) AS INTEGER), 2) ELSE 1 END AS repeats "
    "FROM evaluations LEFT JOIN (SELECT evaluation_id, sampled_for, stopped_for FROM leaderboard) "
    "USING (evaluation_id)",
    "model_revision": "SELECT DISTINCT hash(model, revision) AS id, model AS model_id FROM evaluations",
    "subject_category": "SELECT NULL::VARCHAR AS subject, NULL::VARCHAR AS category WHERE false",
}
_STATED_ONCE: Final = (
    "option_probability",
    "evaluation_question_scope",
    "run_accuracy",
    "run_metrics",
    "prediction_drift",
    "extraction_counts",
)
"""Documented views whose text is read as it is."""


def answers_of(evaluation_id: int) -> str:
    """The table of an evaluation's file of predictions."""
    return f"answers_{evaluation_id}"


def views(tables: Iterable[str], evaluations: Sequence[int]) -> dict[str, dict[str, Any]]:
    """View → its SELECT, and the tables and views that this names; only views whose tables are all there."""
    answers = list(map(answers_of, evaluations))
    files = [f"SELECT {number} AS evaluation_id, * FROM {of}" for number, of in zip(evaluations, answers, strict=True)]  # noqa: S608
    # Columns of it are named like views, so what it needs is not told from its text.
    predictions = {"sql": relation("prediction_detail", f"({' UNION ALL '.join(files)})"), "needs": answers}
    texts = _OF_TABLES | {name: view_sql(name, "postgresql") for name in _STATED_ONCE}
    there = {*tables, *answers}
    known = {*there, "predictions", *texts}
    made = {name: {"sql": text, "needs": _named(text, known - {name})} for name, text in texts.items()}
    made["predictions"] = predictions
    while more := {name for name, view in made.items() if name not in there and set(view["needs"]) <= there}:
        there |= more
    return {name: view for name, view in made.items() if name in there}


def _named(text: str, known: Iterable[str]) -> list[str]:
    words = set(re.findall(r"\w+", re.sub(r"--[^\n]*|'[^']*'", "", text)))
    return sorted(words & set(known))


def examples(tables: Iterable[str], made: Mapping[str, Any]) -> dict[str, str]:
    """The worked queries over what the site has."""
    there = {*tables, *made}
    return {label: text for label, text in EXAMPLES.items() if set(re.findall(r"(?:FROM|JOIN) (\w+)", text)) <= there}

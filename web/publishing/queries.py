"""The documented views on a published site's SQL page, made of its tables, and the worked queries that they answer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from registry.predictions.archive_files import relation
from registry.schema.views import read_by, view_sql
from registry.sql.examples import EXAMPLES
from registry.sql.relations import COMPUTED, OF_FILES, OF_QUESTIONS

_OF_TABLES: Final = {
    "predictions": "SELECT * FROM prediction_detail",
    "evaluation_provenance": "SELECT * FROM provenance",
    # What the views below read of the registry's tables.
    "question": "SELECT DISTINCT question_id AS id, external_id, subject, refers_to_options, sorted_numeric "
    "FROM question_metrics",
    **OF_QUESTIONS,
    "evaluation": "SELECT evaluation_id AS id, hash(model, revision) AS model_revision_id, "
    "hash(content_digest) AS benchmark_version_id, hash(protocol_digest) AS protocol_id, "
    "hash(variants) AS variant_set_id, seal, sampled_for, stopped_for, CASE WHEN contains(variants, 'repeat') THEN "
    "coalesce(try_cast(regexp_extract(variants, 'repeat:k=([0-9]+)', 1) AS INTEGER), 2) ELSE 1 END AS repeats "
    "FROM evaluations LEFT JOIN (SELECT evaluation_id, sampled_for, stopped_for FROM leaderboard) "
    "USING (evaluation_id)",
    "model_revision": "SELECT DISTINCT hash(model, revision) AS id, model AS model_id FROM evaluations",
    "subject_category": "SELECT NULL::VARCHAR AS subject, NULL::VARCHAR AS category WHERE false",
}
_STATED_ONCE: Final = tuple(name for name in COMPUTED if name != "adversarial_effects")
"""Documented views whose text is read as it is; a site has no names of variants apart from its predictions."""


def answers_of(evaluation_id: int) -> str:
    """The table of an evaluation's file of predictions."""
    return f"answers_{evaluation_id}"


def views(tables: Iterable[str], evaluations: Sequence[int]) -> dict[str, dict[str, Any]]:
    """View → its SELECT, and the tables and views that this names; only views whose tables are all there."""
    answers = list(map(answers_of, evaluations))
    files = [f"SELECT {number} AS evaluation_id, * FROM {of}" for number, of in zip(evaluations, answers, strict=True)]  # noqa: S608
    texts = _OF_TABLES | {name: view_sql(name, "postgresql") for name in _STATED_ONCE}
    there = {*tables, *answers}
    known = {*there, *OF_FILES, *texts}
    needs = {name: sorted(known.intersection(read_by(text)) - {name}) for name, text in texts.items()}
    made = {name: {"sql": text, "needs": needs[name]} for name, text in texts.items()}
    source = f"({' UNION ALL '.join(files)})"
    made |= {name: {"sql": relation(name, source), "needs": answers} for name in OF_FILES}
    while more := {name for name, view in made.items() if name not in there and set(view["needs"]) <= there}:
        there |= more
    return {name: view for name, view in made.items() if name in there}


def examples(tables: Iterable[str], made: Mapping[str, Any]) -> dict[str, str]:
    """The worked queries over what the site has."""
    there = {*tables, *made}
    return {label: text for label, text in EXAMPLES.items() if there.issuperset(read_by(text))}

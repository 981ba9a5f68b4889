"""Statistics for PostgreSQL's planner."""

from collections.abc import Collection
from typing import Final

_ALWAYS: Final = "public.evaluation, public.benchmark_version, public.question"
"""Autovacuum passes by tables of fewer than fifty rows, so a registry of a few large evaluations has nobody else to
count them: PostgreSQL takes two benchmark versions for some hundred."""

BY_EVALUATION: Final = {
    "evaluation_question": "",
    "prediction": " (evaluation_id, question_id, variant)",
    "question_score": " (evaluation_id, question_id)",
    "question_seal": " (evaluation_id, question_id)",
}
"""The tables with rows of each evaluation, and the columns that joins meet: of a prediction the arrays take five times
as long, and no plan rests on them."""


def analyze(tables: Collection[str]) -> str:
    """Return the statement that analyses small tables, and these of BY_EVALUATION."""
    counted = (f"public.{table}{columns}" for table, columns in BY_EVALUATION.items() if table in tables)
    return f"ANALYZE {', '.join([_ALWAYS, *counted])}"

"""Statistics for PostgreSQL's planner."""

from collections.abc import Collection
from typing import Final

_ALWAYS: Final = "public.evaluation, public.benchmark_version, public.question"
"""Tables that are always analysed: autovacuum skips tables of fewer than fifty rows.

Nothing else counts the rows of a registry with a few large evaluations, and PostgreSQL then expects some hundred
benchmark versions instead of two.
"""

BY_EVALUATION: Final = {
    "evaluation_question": "",
    "prediction": " (evaluation_id, question_id, variant)",
    "question_score": " (evaluation_id, question_id)",
    "question_seal": " (evaluation_id, question_id)",
}
"""Tables with rows for each evaluation, and the columns to analyse: those that joins use.

Analysing the arrays of predictions takes five times as long, and no query plan depends on them.
"""


def analyze(tables: Collection[str]) -> str:
    """Return the statement that analyses the small tables, and those of BY_EVALUATION that `tables` names."""
    counted = (f"public.{table}{columns}" for table, columns in BY_EVALUATION.items() if table in tables)
    return f"ANALYZE {', '.join([_ALWAYS, *counted])}"

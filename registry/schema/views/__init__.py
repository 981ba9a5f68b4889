"""The SQL views: one file each, in the order of their dependencies.

`name.sql` serves both engines; `name.sqlite.sql` and `name.postgresql.sql` exist only if they must differ. A view's
file is one SELECT, with a comment on top that states its grain and the meaning of NULL. `{{ place }}` is replaced by
columns (metric_columns.py).
"""

import re
from functools import cache
from pathlib import Path
from typing import Final

VIEWS: Final = (
    "question_statistics",
    "question_metrics",
    "evaluation_question_scope",
    "scope_metrics",
    "run_accuracy",
    "run_metrics",
    "evaluation_progress",
    "evaluation_metrics",
    "withdrawals",
    "evaluation_sources",
    "leaderboard",
    "metrics_over_benchmarks",
    "prediction_detail",
    "option_probability",
    "adversarial_effects",
    "evaluation_provenance",
    "chain_links",
    "evaluation_seconds",
    "evaluation_costs",
    "extraction_counts",
    "board_standings",
    "board_headlines",
    "published_results",
    "measured_and_published",
)
"""In creation order: a view may select from those before it."""

_FOLDER = Path(__file__).parent


@cache
def view_sql(name: str, dialect: str) -> str:
    """Return the SELECT of a view on `sqlite` or `postgresql`."""
    special = _FOLDER / f"{name}.{dialect}.sql"
    path = special if special.exists() else _FOLDER / f"{name}.sql"
    return _fill(name, path.read_text(encoding="utf-8").strip().removesuffix(";"))


def read_by(sql: str) -> list[str]:
    """Return the tables, views and common table expressions that a query selects from."""
    return sorted(set(re.findall(r"\b(?:from|join)\s+(\w+)", re.sub(r"--[^\n]*", "", sql), re.IGNORECASE)))


def _fill(name: str, sql: str) -> str:
    if "{{" not in sql:
        return sql
    from registry.schema.views.metric_columns import FILLED  # it imports the metrics, which most callers do not need

    return re.sub(r"\{\{ (\w+) \}\}", lambda place: FILLED[name][place[1]](), sql)

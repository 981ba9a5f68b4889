"""The SQL views: one file each, in the order in which they depend on each other.

`name.sql` serves both engines; `name.sqlite.sql` and `name.postgresql.sql` stand only where they must differ. A view
file holds the SELECT alone, with a comment on top that states its grain and what NULL means.
"""

from collections.abc import Iterator
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
    "prediction_drift",
    "evaluation_provenance",
    "chain_links",
    "evaluation_seconds",
    "extraction_counts",
    "board_standings",
    "board_headlines",
    "published_results",
    "measured_and_published",
)
"""In creation order: a view may select from those before it."""

_FOLDER = Path(__file__).parent


def view_sql(name: str, dialect: str, folder: Path = _FOLDER) -> str:
    """The SELECT of a view on `sqlite` or `postgresql`."""
    special = folder / f"{name}.{dialect}.sql"
    path = special if special.exists() else folder / f"{name}.sql"
    return path.read_text(encoding="utf-8").strip().removesuffix(";")


def create_statements(dialect: str, folder: Path = _FOLDER) -> Iterator[str]:
    """CREATE VIEW for every view, in creation order."""
    for name in VIEWS:
        yield f"CREATE VIEW {name} AS\n{view_sql(name, dialect, folder)}"


def drop_statements() -> Iterator[str]:
    """DROP VIEW for every view, dependants first."""
    for name in reversed(VIEWS):
        yield f"DROP VIEW IF EXISTS {name}"

"""What is under embargo now, as SQL: the one condition that audiences and what is made for everyone share."""

from typing import Final

NOW: Final = {"sqlite": "(strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z')", "postgresql": "now()"}
"""The time as each engine's views may ask for it."""

EMBARGOED_REVISIONS: Final = (
    "SELECT embargo.model_revision_id FROM {base}.embargo AS embargo "
    "WHERE embargo.until > {now} AND embargo.model_revision_id IS NOT NULL"
)
"""The query for ids of model revisions under embargo. base: the schema of the tables; now: one of NOW."""

EMBARGOED_EVALUATIONS: Final = (
    "SELECT embargo.evaluation_id FROM {base}.embargo AS embargo "
    "WHERE embargo.until > {now} AND embargo.evaluation_id IS NOT NULL "
    "UNION ALL SELECT held.id FROM {base}.embargo AS embargo "
    "JOIN {base}.evaluation AS held ON held.model_revision_id = embargo.model_revision_id "
    "WHERE embargo.until > {now}"
)
"""The query for ids of evaluations under embargo, their own or their model revision's."""


def embargoed_evaluations(dialect: str) -> str:
    """The same for all of the registry, whatever an audience's connection sees. dialect: sqlite or postgresql."""
    return EMBARGOED_EVALUATIONS.format(base="main" if dialect == "sqlite" else "public", now=NOW[dialect])

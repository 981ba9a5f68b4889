"""What the SQL page's queries read: which relations lie in files, and the statements that give DuckDB their names.

The documented views are stated once, as the PostgreSQL text of `registry/schema/views/`, which DuckDB reads as it is.
Three kinds of them:

- of a sealed evaluation (`OF_EVALUATION`): what grows with prompts, questions or shards lies in files of its own, which
  never change;
- small ones (`small_views`): the rows as the database gives them to the audience, written again when something changed;
- the others are computed by DuckDB from these, and from a few columns of tables (`TABLES`).
"""

# Names of columns and paths of files, which are ours and quoted.
# ruff: noqa: S608

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import Select, select

from registry.exchange.exports.relations import BOOLEAN, DIGEST, INTEGER, TEXT
from registry.predictions.archive_files import SCHEMA, relation
from registry.schema.documented import columns_of, documented_views
from registry.schema.selectables import relation_of
from registry.schema.views import VIEWS, view_sql
from registry.sql.process import SCHEME

OF_EVALUATION: Final = ("evaluation_metrics", "evaluation_provenance", "question_metrics", "question_statistics")
"""Views of which a file is written for each sealed evaluation."""
PREDICTIONS: Final = "prediction_file"
"""The relation of sealed evaluations' own files."""
OF_FILES: Final = ("prediction", "generation", "prediction_detail")
"""What is made of these files alone."""
COMPUTED: Final = (
    "evaluation_question_scope",
    "scope_metrics",
    "run_accuracy",
    "run_metrics",
    "option_probability",
    "adversarial_effects",
    "prediction_drift",
    "extraction_counts",
)
"""Views that DuckDB computes."""
TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "evaluation": {
        **dict.fromkeys(("id", "model_revision_id", "benchmark_version_id", "protocol_id", "variant_set_id"), INTEGER),
        "seal": DIGEST,
        "sampled_for": TEXT,
        "stopped_for": TEXT,
        "repeats": INTEGER,
    },
    "model_revision": {"id": INTEGER, "model_id": INTEGER},
    "variant_set": {"id": INTEGER, "kind": TEXT},
    "variant": {"variant_set_id": INTEGER, "n_options": INTEGER, "ordinal": INTEGER, "name": TEXT},
    "question": {
        "id": INTEGER,
        "external_id": TEXT,
        "subject": TEXT,
        "n_options": INTEGER,
        **dict.fromkeys(("refers_to_options", "sorted_numeric"), BOOLEAN),
    },
    "subject_category": {"subject": TEXT, "category": TEXT},
}
"""Table → its columns that computed views read, of the rows that the audience may see, with their types."""
OF_QUESTIONS: Final[Mapping[str, str]] = {
    "question_score": "SELECT evaluation_id, question_id, expected, stored, distinct_prompts FROM question_metrics",
    "evaluation_question": "SELECT evaluation_id, question_id, expected AS n_variants FROM question_metrics",
}
"""What computed views read of the registry's tables of questions → its SELECT."""


@cache
def small_views() -> tuple[str, ...]:
    """The documented views that are written as the database answers them."""
    return tuple(
        view.name for view in documented_views() if view.name not in (*OF_EVALUATION, *COMPUTED, "prediction_detail")
    )


@cache
def types_of(name: str) -> Mapping[str, str]:
    """The columns of a relation's file, with their types. An evaluation's own has no number: its folder is named so."""
    columns = TABLES.get(name) or {column.name: column.type for column in columns_of(name).values()}
    return {column: kind for column, kind in columns.items() if name not in OF_EVALUATION or column != "evaluation_id"}


def query_of(name: str, evaluation_id: int | None = None) -> Select[Any]:
    """The rows of a relation: of one evaluation, or of all that the session may see."""
    types = types_of(name)
    # Statistics are those that were stored: predictions may be archived, so that no view computes any of them.
    table = "question_score" if name == "question_statistics" else name
    rows = relation_of(table, types if evaluation_id is None else {"evaluation_id": INTEGER, **types})
    query = select(*(rows.c[column] for column in types))
    return query if evaluation_id is None else query.where(rows.c.evaluation_id == evaluation_id)


@cache
def shape() -> str:
    """A digest of all that decides how files are made and read: those of another shape are not read."""
    parts = [
        SCHEME,
        str(SCHEMA),
        *(f"{name} {types_of(name)}" for name in (*OF_EVALUATION, *small_views(), *TABLES)),
        *(view_sql(name, "postgresql") for name in (*OF_EVALUATION, *COMPUTED)),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def statements(of_evaluations: Mapping[str, Sequence[str]], others: Mapping[str, str]) -> list[str]:
    """CREATE VIEW for every documented view, and for what they are made of.

    of_evaluations: relation → its files, in folders named `evaluation_id=N`. others: relation → its file.
    """
    made = {name: f"SELECT * FROM read_parquet('{path}')" for name, path in others.items()}
    for name, paths in of_evaluations.items():
        listed = ", ".join(f"'{path}'" for path in paths)
        columns = "*" if name == PREDICTIONS else ", ".join(columns_of(name))  # in the documented order
        by_folder = "hive_partitioning = true, hive_types = {'evaluation_id': BIGINT}"
        made[name] = f"SELECT {columns} FROM read_parquet([{listed}], {by_folder})"
    made |= OF_QUESTIONS
    made |= {name: relation(name, PREDICTIONS) for name in OF_FILES}
    made |= {name: view_sql(name, "postgresql") for name in VIEWS if name in COMPUTED}
    return [f"CREATE VIEW {name} AS {text}" for name, text in made.items()]

"""The relations for queries over files, on the SQL page and on published sites: their files and their views.

The documented views are stated once, as the PostgreSQL text of `registry/schema/views/`, which DuckDB reads unchanged.
There are three kinds:

- of a sealed evaluation (`OF_EVALUATION`): those that grow with questions or shards. The SQL page has one file for each
  evaluation, which never changes;
- small ones (`small_views`): the rows that the database gives the audience, written again after each change;
- the others are computed by DuckDB from these, from a few columns of tables (`TABLES`), and from the predictions in
  folders of sealed evaluations (`views`).
"""

# Names of columns and paths of files, which are ours and quoted.
# ruff: noqa: S608

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, false, select, true

from registry.db import is_in
from registry.exchange.exports.relations import BOOLEAN, DIGEST, DOUBLES, INTEGER, INTEGERS, JSON, TEXT, TIME
from registry.predictions.archive_files import SCHEMA, relation
from registry.schema.documented import columns_of, load_documented_views
from registry.schema.selectables import relation_of
from registry.schema.views import VIEWS, view_sql
from registry.sql.process import SCHEME
from registry.tables import BenchmarkVersion, Evaluation, ModelRevision, Question

OF_EVALUATION: Final = ("evaluation_metrics", "evaluation_provenance", "question_metrics", "question_statistics")
"""Views with a file for each sealed evaluation."""
PREDICTIONS: Final = "prediction_file"
"""The relation that is read from the files of sealed evaluations' predictions."""
OF_FILES: Final = ("prediction", "generation", "prediction_detail")
"""Relations computed from the files of predictions alone."""
COMPUTED: Final = (
    "evaluation_question_scope",
    "scope_metrics",
    "run_accuracy",
    "run_metrics",
    "option_probability",
    "adversarial_effects",
    "extraction_counts",
)
"""Views that DuckDB computes."""
ACROSS: Final = ("metrics_over_benchmarks",)
"""Small views whose rows are over several evaluations; for a part of a registry DuckDB computes them too."""
TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "evaluation": {
        **dict.fromkeys(("id", "model_revision_id", "benchmark_version_id", "protocol_id", "variant_set_id"), INTEGER),
        "seal": DIGEST,
        "repeats": INTEGER,
    },
    "model": {"id": INTEGER, "name": TEXT},
    "model_revision": {"id": INTEGER, "model_id": INTEGER, "number": INTEGER},
    "benchmark": {"id": INTEGER, "name": TEXT},
    "benchmark_version": {"id": INTEGER, "benchmark_id": INTEGER},
    "protocol": {"id": INTEGER, "name": TEXT, "shots": INTEGER},
    "variant_set": {"id": INTEGER, "name": TEXT, "kind": TEXT},
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
"""Table → the columns that computed views read, with their types; its file has the rows that the audience may see."""
OF_VIEWS: Final[Mapping[str, str]] = {
    "question_score": "SELECT evaluation_id, question_id, expected, stored, distinct_prompts FROM question_metrics",
    "evaluation_question": "SELECT evaluation_id, question_id, expected AS n_variants FROM question_metrics",
    "withdrawal": "SELECT evaluation_id FROM withdrawals",
}
"""Table that computed views read → SELECT of its columns from documented views."""
_UNORDERED: Final = frozenset({JSON, INTEGERS, DOUBLES})
"""Types that PostgreSQL cannot sort by."""


@dataclass(frozen=True)
class Part:
    """A part of a registry: evaluations with their models and benchmarks, and a board."""

    evaluations: tuple[int, ...]
    board: str | None = None


@cache
def small_views() -> tuple[str, ...]:
    """Return the documented views whose files contain the database's rows."""
    return tuple(
        view.name
        for view in load_documented_views()
        if view.name not in (*OF_EVALUATION, *COMPUTED, "prediction_detail")
    )


@cache
def types_of(name: str) -> Mapping[str, str]:
    """Map the columns of a relation in files to their types."""
    return TABLES.get(name) or {column.name: column.type for column in columns_of(name).values()}


def query_of(name: str, part: Part | None = None) -> Select[Any]:
    """Return the query for the rows of a relation that the session may see, in a fixed order. part: limits the rows."""
    types = types_of(name)
    # Stored statistics are used: predictions may be archived, so no view can compute them.
    rows = relation_of("question_score" if name == "question_statistics" else name, types)
    query = select(rows).order_by(*(rows.c[column] for column, kind in types.items() if kind not in _UNORDERED))
    return query if part is None else query.where(_match_part(name, rows.c, part))


def _match_part(name: str, columns: Any, part: Part) -> ColumnElement[bool]:
    """Return the condition that a row belongs to a part. Raises KeyError for a relation without a rule."""
    if "evaluation_id" in columns:
        printed = columns.evaluation_id.is_(None) if name == "measured_and_published" else false()
        return is_in(columns.evaluation_id, part.evaluations) | printed
    if "board" in columns:
        return columns.board == part.board  # type: ignore[no-any-return]
    if name in ("chain_links", "published_results", "subject_category"):  # about no evaluation, and open to all
        return true()
    column, kind = {
        "evaluation": ("id", Evaluation.id),
        "model": ("id", ModelRevision.model_id),
        "model_revision": ("id", ModelRevision.id),
        "benchmark": ("id", BenchmarkVersion.benchmark_id),
        "benchmark_version": ("id", BenchmarkVersion.id),
        "question": ("id", Question.id),
        "protocol": ("id", Evaluation.protocol_id),
        "variant_set": ("id", Evaluation.variant_set_id),
        "variant": ("variant_set_id", Evaluation.variant_set_id),
    }[name]
    ids = (
        select(kind)
        .select_from(Evaluation)
        .join(ModelRevision, ModelRevision.id == Evaluation.model_revision_id)
        .join(BenchmarkVersion, BenchmarkVersion.id == Evaluation.benchmark_version_id)
        .where(is_in(Evaluation.id, part.evaluations))
    )
    if kind is Question.id:
        ids = ids.join(Question, Question.benchmark_version_id == BenchmarkVersion.id)
    return columns[column].in_(ids)  # type: ignore[no-any-return]


@cache
def views() -> Mapping[str, str]:
    """Return the SELECTs of relations that DuckDB computes from files: views without files, and their sources."""
    return {
        **OF_VIEWS,
        **{name: relation(name, PREDICTIONS) for name in OF_FILES},
        **{name: view_sql(name, "postgresql") for name in VIEWS if name in COMPUTED},
    }


@cache
def shape() -> str:
    """Return a digest of everything that determines how files are written; files of another shape are not read."""
    parts = [
        SCHEME,
        str(SCHEMA),
        *(f"{name} {types_of(name)}" for name in (*OF_EVALUATION, *small_views(), *TABLES)),
        *(view_sql(name, "postgresql") for name in OF_EVALUATION),
        *views().values(),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def statements(of_evaluations: Mapping[str, Sequence[str]], others: Mapping[str, str]) -> list[str]:
    """Return the CREATE VIEW statements for every documented view and its sources.

    of_evaluations: relation → its files, in folders named `evaluation_id=N`. others: relation → its file.
    """
    selects = {name: f"SELECT {_columns(name)} FROM read_parquet('{path}')" for name, path in others.items()}
    for name, paths in of_evaluations.items():
        listed = ", ".join(f"'{path}'" for path in paths)
        by_folder = "hive_partitioning = true, hive_types = {'evaluation_id': BIGINT}"
        selects[name] = f"SELECT {_columns(name)} FROM read_parquet([{listed}], {by_folder})"
    return [f"CREATE VIEW {name} AS {text}" for name, text in (selects | dict(views())).items()]


def _columns(name: str) -> str:
    """Return a relation's columns in the documented order. Times are in UTC without a zone, as on published sites."""
    if name == PREDICTIONS:
        return "*"
    return ", ".join(
        f'"{one}"::TIMESTAMP AS "{one}"' if kind == TIME else f'"{one}"' for one, kind in types_of(name).items()
    )

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
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, Select, SmallInteger, select

from registry.db import Digest, DoubleArray, JsonDocument, SmallIntArray, UtcDateTime
from registry.predictions.archive_files import SCHEMA
from registry.predictions.archive_files import relation as selected
from registry.schema.documented import columns_of, documented_views
from registry.schema.selectables import view_of
from registry.schema.views import VIEWS, view_sql
from registry.sql.process import SCHEME
from registry.tables import (
    Evaluation,
    EvaluationQuestion,
    ModelRevision,
    Question,
    QuestionPride,
    QuestionScore,
    SubjectCategory,
    Variant,
    VariantSet,
)

OF_EVALUATION: Final = ("evaluation_metrics", "evaluation_provenance")
"""Views of which a file is written for each sealed evaluation."""
PREDICTIONS: Final = "prediction_file"
"""The relation of sealed evaluations' own files."""
QUESTIONS: Final = "question_score"
"""The relation of an evaluation's questions, of which also `evaluation_question` is made."""
COMPUTED: Final = (
    "question_statistics",
    "question_metrics",
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
TABLES: Final[Mapping[str, tuple[Any, ...]]] = {
    "evaluation": (
        *(Evaluation.id, Evaluation.model_revision_id, Evaluation.benchmark_version_id, Evaluation.protocol_id),
        *(Evaluation.variant_set_id, Evaluation.seal, Evaluation.sampled_for, Evaluation.stopped_for),
        Evaluation.repeats,
    ),
    "model_revision": (ModelRevision.id, ModelRevision.model_id),
    "variant_set": (VariantSet.id, VariantSet.kind),
    "variant": (Variant.variant_set_id, Variant.n_options, Variant.ordinal, Variant.name),
    "question": (
        *(Question.id, Question.external_id, Question.subject, Question.n_options, Question.answer),
        *(Question.refers_to_options, Question.sorted_numeric),
    ),
    "subject_category": (SubjectCategory.subject, SubjectCategory.category),
}
"""Table → its columns that computed views read, of the rows that the audience may see."""

_ARROW: Final[tuple[tuple[type[Any], pa.DataType], ...]] = (
    (Digest, pa.string()),
    (SmallIntArray, pa.list_(pa.int64())),
    (DoubleArray, pa.list_(pa.float64())),
    (JsonDocument, pa.string()),
    (UtcDateTime, pa.timestamp("us")),
    (Boolean, pa.bool_()),
    (Double, pa.float64()),
    (SmallInteger, pa.int64()),
    (BigInteger, pa.int64()),
    (Integer, pa.int64()),
)
"""Type of a column → that of its values in a file; all others are texts. Times are in UTC."""


@cache
def small_views() -> tuple[str, ...]:
    """The documented views that are written as the database answers them."""
    return tuple(
        view.name for view in documented_views() if view.name not in (*OF_EVALUATION, *COMPUTED, "prediction_detail")
    )


def query_of(relation: str, evaluation_id: int | None = None) -> Select[Any]:
    """The rows of a relation: of one evaluation, without its number, or of all that the session may see."""
    if relation in TABLES:
        return select(*TABLES[relation])
    if relation == QUESTIONS:
        score, pride, asked = QuestionScore.__table__, QuestionPride.__table__, EvaluationQuestion.__table__
        ours = [column for column in score.columns if column.name not in ("evaluation_id", "question_id")]
        return (
            select(asked.c.question_id, asked.c.n_variants, *ours, *(pride.c[old].label(new) for old, new in _PRIDE))
            .select_from(
                asked.outerjoin(
                    score,
                    (score.c.evaluation_id == asked.c.evaluation_id) & (score.c.question_id == asked.c.question_id),
                ).outerjoin(
                    pride,
                    (pride.c.evaluation_id == asked.c.evaluation_id) & (pride.c.question_id == asked.c.question_id),
                )
            )
            .where(asked.c.evaluation_id == evaluation_id)
            .order_by(asked.c.question_id)
        )
    view = view_of(relation)
    if evaluation_id is None:
        return select(view)
    columns = [column for column in view.columns if column.name != "evaluation_id"]
    return select(*columns).where(view.c.evaluation_id == evaluation_id)


_PRIDE: Final = (("estimation", "pride_estimation"), ("correct", "pride_correct"))


@cache
def schema_of(relation: str, *, of_evaluation: bool) -> pa.Schema:
    """The columns of a relation's file."""
    if relation == PREDICTIONS:
        return SCHEMA
    query = query_of(relation, 0 if of_evaluation else None)
    return pa.schema([pa.field(column.name, _arrow(column)) for column in query.selected_columns])


def _arrow(column: Column[Any] | Any) -> pa.DataType:
    return next((arrow for kind, arrow in _ARROW if isinstance(column.type, kind)), pa.string())


def table_of(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Rows as the registry's types give them."""
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [_array(values, field.type) for field, values in zip(schema, columns, strict=True)], schema=schema
    )


def _array(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    # PostgreSQL sums integers to decimals, and averages them to decimals with a fraction.
    if kind == pa.int64():
        return pa.array([None if value is None else int(value) for value in values], kind)
    if kind == pa.float64():
        return pa.array([None if value is None else float(value) for value in values], kind)
    if pa.types.is_timestamp(kind):
        return pa.array([None if value is None else value.replace(tzinfo=None) for value in values], kind)
    if kind == pa.string():
        return pa.array(
            [
                value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)
                for value in values
            ],
            kind,
        )
    return pa.array(values, kind)


@cache
def shape() -> str:
    """A digest of all that decides how files are made and read: those of another shape are not read."""
    parts = [
        SCHEME,
        *(f"{name} {schema_of(name, of_evaluation=True)}" for name in (*OF_EVALUATION, QUESTIONS, PREDICTIONS)),
        *(f"{name} {schema_of(name, of_evaluation=False)}" for name in (*small_views(), *TABLES)),
        *(_computed(name) for name in COMPUTED),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def statements(of_evaluations: Mapping[str, Sequence[str]], others: Mapping[str, str]) -> list[str]:
    """CREATE VIEW for every documented view, and for what they are made of.

    of_evaluations: relation → its files, in folders named `evaluation_id=N`. others: relation → its file.
    """
    made = [f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')" for name, path in others.items()]
    for name, paths in of_evaluations.items():
        listed = ", ".join(f"'{path}'" for path in paths)
        by_folder = "hive_partitioning = true, hive_types = {'evaluation_id': BIGINT}"
        whole = f"SELECT * FROM read_parquet([{listed}], {by_folder})"
        if name in (QUESTIONS, PREDICTIONS):
            made.append(f"CREATE VIEW {_FILED if name == QUESTIONS else name} AS {whole}")
        else:
            columns = ", ".join(f'"{column}"' for column in columns_of(name))  # in the documented order
            made.append(f"CREATE VIEW {name} AS SELECT {columns} FROM ({whole})")
    return [
        *made,
        *_MADE,
        *(
            f"CREATE VIEW {name} AS {selected(name, PREDICTIONS)}"
            for name in ("prediction", "generation", "prediction_detail")
        ),
        *(f"CREATE VIEW {name} AS {_computed(name)}" for name in VIEWS if name in COMPUTED),
    ]


def _computed(name: str) -> str:
    """The text of a view as DuckDB computes it: what an evaluation's file of questions has is not computed again."""
    if name == "question_statistics":
        return f"SELECT {', '.join(columns_of(name))} FROM {QUESTIONS}"
    text = view_sql(name, "postgresql")
    if name != "question_metrics":
        return text
    rows, _, _ = text.partition("left join question_score")
    rows = rows.replace("from evaluation_question\n", f"from {_FILED} as evaluation_question\n")
    return rows.replace("question_score.", "evaluation_question.").replace(
        "question_pride.", "evaluation_question.pride_"
    )


_FILED: Final = "question_file"
_MADE: Final = (
    f"""CREATE VIEW question_score AS
    SELECT * EXCLUDE (n_variants, pride_estimation, pride_correct) FROM {_FILED} WHERE stored IS NOT NULL""",
    f"CREATE VIEW evaluation_question AS SELECT evaluation_id, question_id, n_variants FROM {_FILED}",
)

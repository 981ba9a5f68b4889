"""Answers queries over archived predictions: DuckDB reads their files, and what else a query names from the database.

The views over predictions are stated once, as the text that PostgreSQL has, which DuckDB reads as it is.
"""

# Names of tables and columns, which are ours.

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any, Final

import duckdb
import pyarrow as pa
from sqlalchemy import ColumnElement, Select, TableClause, and_, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session
from sqlalchemy.sql import visitors

from registry.db import is_in
from registry.errors import ArchiveError
from registry.files.stores import Store, store_at
from registry.predictions import archive_files
from registry.predictions.archive_files import EVALUATION, PREDICTIONS, SCHEMA, TEXT
from registry.schema.views import VIEWS, read_by, view_sql
from registry.tables import (
    Archive,
    Evaluation,
    EvaluationQuestion,
    Question,
    QuestionScore,
    SubjectCategory,
    Variant,
    VariantSet,
)

_DETAIL: Final = "prediction_detail"
_FETCHED: Final = 5000
"""Rows of an answer that are made Python's at once."""
_OTHERS: Final[Mapping[str, tuple[Any, ...]]] = {
    "evaluation": (
        *(Evaluation.id, Evaluation.variant_set_id, Evaluation.sampled_for, Evaluation.stopped_for, Evaluation.repeats),
    ),
    "evaluation_question": (
        *(EvaluationQuestion.evaluation_id, EvaluationQuestion.question_id, EvaluationQuestion.n_variants),
    ),
    "question": (
        *(Question.id, Question.external_id, Question.subject, Question.ordinal, Question.answer),
        *(Question.n_options, Question.refers_to_options, Question.sorted_numeric),
    ),
    "question_score": tuple(QuestionScore.__table__.columns),
    "variant": (Variant.variant_set_id, Variant.n_options, Variant.ordinal, Variant.name),
    "variant_set": (VariantSet.id, VariantSet.kind),
    "subject_category": (SubjectCategory.subject, SubjectCategory.category),
}
"""What else queries name: table to the columns that are given of it."""


def folder_name(seal: str, digest: str) -> str:
    """The name of the folder of the evaluation with this seal. digest: of its JSON, which no other folder has."""
    return f"{seal}-{digest[:12]}"


def place_of(archive: Archive, seal: str) -> tuple[Store, str]:
    """The store and the name of an evaluation's folder: where it was written, else where settings have archives.

    Raises ArchiveError where it is in neither.
    """
    name = folder_name(seal, archive.digest)
    written, configured = store_at(archive.location), store_at()
    for store in (written, configured):
        if store.has(f"{name}/{EVALUATION}") and store.has(f"{name}/{PREDICTIONS}"):
            return store, name
    elsewhere = "" if configured.url == written.url else f", nor is it in {configured.url}"
    raise ArchiveError(
        f"evaluation {archive.evaluation_id} is archived, but {written.url_of(name)} is missing or not "
        f"whole{elsewhere}; bring the folder back, or set SHUFFLEBOARD_ARCHIVES to where it is"
    )


def predictions_of(archive: Archive, seal: str) -> tuple[Store, str]:
    """The store and the name of the file that an evaluation's predictions and texts are in. Raises as `place_of`."""
    store, name = place_of(archive, seal)
    return store, f"{name}/{PREDICTIONS}"


def answers(
    session: Session,
    archives: Sequence[Any],
    query: Select[*tuple[Any, ...]],
    question_ids: Collection[int] | None = None,
) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """Names and rows of what a query finds in archives. archives: rows (Archive, seal); question_ids: None: all."""
    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    written = str(query.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    relations = _relations(query)
    if _DETAIL in relations:
        columns = archive_files.detail_columns()
    else:
        texts = [written, *(view_sql(name, "postgresql") for name in relations if name in VIEWS)]
        mentioned = [name for name in SCHEMA.names if any(name.removeprefix(TEXT) in text for text in texts)]
        columns = list(dict.fromkeys(["question_id", "variant", f"{TEXT}text", *mentioned]))
    rows = pa.concat_tables([_rows(row.Archive, row.seal, columns, question_ids) for row in archives])
    cursor = _database(os.getpid()).cursor()  # what is made by it is seen by no other
    try:
        cursor.register("archived", rows)
        for name in relations:
            if name in _OTHERS:
                cursor.register(
                    name, _table(session, name, [row.Archive.evaluation_id for row in archives], question_ids)
                )
            else:
                cursor.execute(f"CREATE TEMP VIEW {name} AS {_of_files(name, columns)}")
        result = cursor.execute(written)
        return [column[0] for column in result.description], _fetched(cursor)
    except BaseException:
        cursor.close()
        raise


@lru_cache(maxsize=1)
def _database(_process: int) -> duckdb.DuckDBPyConnection:
    """An empty database of this process; opening one takes longer than most queries."""
    return duckdb.connect(config={"threads": 1, "temp_directory": "", "autoload_known_extensions": False})


def _fetched(cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    with closing(cursor):
        while rows := cursor.fetchmany(_FETCHED):
            yield from rows


def reads_predictions(query: Select[*tuple[Any, ...]]) -> bool:
    """Whether a query is over predictions or texts, or a view of them."""
    return not {"prediction", "generation", _DETAIL}.isdisjoint(_relations(query))


def _relations(query: Select[*tuple[Any, ...]]) -> list[str]:
    """What a query reads, itself or through views, in an order in which each follows those that it selects from."""
    return _with_behind(sorted({one.name for one in visitors.iterate(query) if isinstance(one, TableClause)}))


def _with_behind(names: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in names:
        behind = read_by(view_sql(name, "postgresql")) if name in VIEWS and name != _DETAIL else []
        known = [one for one in behind if one in VIEWS or one in _OTHERS or one in ("prediction", "generation")]
        found |= dict.fromkeys(_with_behind(known)) | {name: None}
    return list(found)


def _of_files(name: str, columns: Collection[str]) -> str:
    """The SELECT of a table or a view over these columns of files."""
    of_files = name in ("prediction", "generation", _DETAIL)
    return archive_files.relation(name, "archived", columns) if of_files else view_sql(name, "postgresql")


def _rows(archive: Archive, seal: str, columns: Sequence[str], question_ids: Collection[int] | None) -> pa.Table:
    """Columns of an archive's rows, of these questions or of all."""
    store, name = predictions_of(archive, seal)
    if question_ids is None:
        found = pa.concat_tables(list(archive_files.groups(store, name, columns)))
    else:
        found = archive_files.of_questions(store, name, question_ids, columns)
    return found.append_column("evaluation_id", pa.repeat(pa.scalar(archive.evaluation_id, pa.int64()), len(found)))


def _asked(ids: Collection[int], question_ids: Collection[int] | None) -> ColumnElement[bool]:
    """Which questions evaluations ask, of these."""
    of = select(EvaluationQuestion.question_id).where(is_in(EvaluationQuestion.evaluation_id, ids))
    asked = Question.id.in_(of)
    return asked if question_ids is None else and_(asked, is_in(Question.id, question_ids))


def _table(session: Session, name: str, ids: Collection[int], question_ids: Collection[int] | None) -> pa.Table:
    """The rows of another table that are about these evaluations and questions."""
    columns = _OTHERS[name]
    query = select(*columns)
    if name == "evaluation":
        query = query.where(is_in(Evaluation.id, ids))
    elif name == "question":
        query = query.where(_asked(ids, question_ids))
    elif name in ("evaluation_question", "question_score"):
        query = query.where(is_in(columns[0], ids))
        query = query if question_ids is None else query.where(is_in(columns[1], question_ids))
    elif name == "variant":
        query = query.where(
            Variant.variant_set_id.in_(select(Evaluation.variant_set_id).where(is_in(Evaluation.id, ids)))
        )
    schema = pa.schema([(column.name, archive_files.arrow_type(column.type)) for column in columns])
    rows = session.execute(query).all()
    arrays = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema) if rows else schema.empty_table()

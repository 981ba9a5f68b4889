"""Untrusted SQL over archived predictions: DuckDB reads the files as the views that the SQL page has over predictions.

`prediction_detail` and `option_probability` have the rows of the evaluations that are asked of, less `prompt_digest`.
Values that archives leave out are computed by DuckDB, and may differ from the stored ones in their last bits. Any other
documented view that is not over predictions holds what the database answers the same visitor, of these evaluations
where it names any.
"""

# Names of columns and paths of files, which are quoted.
# ruff: noqa: S608

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.db import among
from registry.errors import ArchiveError, QueryRefusedError
from registry.files.stores import Store
from registry.results import archive_files
from registry.results.archived import place_of, reads_predictions
from registry.results.archived_values import computed_in
from registry.results.predictions import MASS_SLACK
from registry.schema.audiences import Audience
from registry.schema.documented import columns_of
from registry.schema.public_sql import QueryResult, checked
from registry.schema.public_sql.guard import named_views
from registry.schema.public_sql.runner import ask, ask_files
from registry.settings import Settings
from registry.tables import Archive, Evaluation, Question, QuestionOption, Variant

MOST_ARCHIVES: Final = 20
MOST_BYTES: Final = 256 * 2**20
MOST_QUESTIONS: Final = 100_000
"""Evaluations that a query may ask of, the bytes of their files, and the questions of their benchmarks."""
OVER_PREDICTIONS: Final = ("prediction_detail", "option_probability")
"""The views that are made of archives."""

_CHUNK: Final = 1 << 20
_ARROW: Final[Mapping[str, pa.DataType]] = {
    "integer": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "integer[]": pa.list_(pa.int64()),
    "double[]": pa.list_(pa.float64()),
}
"""Type of a documented column to Arrow's; all others are texts."""

_COMPUTED: Final = {
    "label_probabilities": "probabilities",
    "label_mass": f"CASE WHEN mass <= {MASS_SLACK!r} THEN least(1, mass) END",
    "entropy": "CASE WHEN len(probabilities) >= 2 THEN least(1, greatest(0, -list_sum(list_transform(probabilities, "
    "lambda p: CASE WHEN p > 0 THEN p * log2(p) ELSE 0 END)) / log2(len(probabilities)))) END",
    "answer_probability": "probabilities[right_place]",
    "brier_score": "CASE WHEN right_place IS NOT NULL THEN least(2, list_sum(list_transform(probabilities, "
    "lambda p, place: pow(CASE WHEN place = right_place THEN 1 - p ELSE p END, 2)))) END",
    "logprobs_without_question": "CASE WHEN question_shown AND label_logprobs IS NOT NULL THEN logprobs_alone END",
    "npsq_correct": "CASE WHEN gap <> 0 AND isfinite((label_logprobs[right_place] - gap) / -gap) "
    "THEN (label_logprobs[right_place] - gap) / -gap END",
}
"""Columns that archives leave out, as they follow from others; `registry/results/archived_values.py` defines them."""
_NAMED: Final = {
    "evaluation_id": "{evaluation_id}::BIGINT",
    "external_id": "question",
    "variant_name": "named.name",
    "chosen_option_text": "CASE WHEN chosen_option >= 0 THEN options[chosen_option + 1] END",
    "generation": "generation_text",
    "extracted": "generation_extracted",
}
"""Columns of `prediction_detail` that are called otherwise in what it is made of."""

_DETAIL: Final = """
SELECT {columns}
FROM (
    SELECT
        archive.*, asked.question_id, asked.subject, asked.answer, asked.n_options, asked.options,
        alone.logprobs AS logprobs_alone,
        list_position(archive.shown, asked.answer) AS right_place,
        list_sum(list_transform(label_logprobs, lambda one: exp(one))) AS mass,
        list_transform(label_logprobs, lambda one: exp(one - list_max(label_logprobs))) AS weights,
        coalesce(label_probabilities, list_transform(weights, lambda one: one / list_sum(weights))) AS probabilities,
        alone.logprobs[right_place] AS gap
    FROM read_parquet({path}) AS archive
    JOIN question AS asked ON asked.benchmark_version_id = {version} AND asked.external_id = archive.question
    LEFT JOIN (
        SELECT question, shown, any_value(label_logprobs) AS logprobs
        FROM read_parquet({path}) WHERE NOT question_shown GROUP BY question, shown
    ) AS alone ON alone.question = archive.question AND alone.shown = archive.shown
) AS stored
LEFT JOIN variant AS named
    ON named.variant_set_id = {variants} AND named.n_options = stored.n_options AND named.ordinal = stored.variant
"""

_OPTIONS: Final = """
CREATE VIEW option_probability AS
SELECT
    evaluation_id, question_id, variant, place - 1 AS position, shown[place] AS option,
    label_logprobs[place] AS logprob_nats, label_probabilities[place] AS probability,
    logprobs_without_question[place] AS logprob_without_question_nats
FROM (SELECT *, unnest(range(1, len(shown) + 1)) AS place FROM prediction_detail)
"""


def ask_archives(
    session: Session, settings: Settings, audience: Audience, sql: str, evaluation_ids: Collection[int]
) -> QueryResult:
    """Asks one query of the archived predictions of some evaluations.

    session: reads as `audience`, so that no archive of another evaluation is opened. Raises QueryRefusedError for a
    query that is not allowed, or for evaluations that are not archived; ArchiveError where a file is missing or
    damaged.
    """
    text = checked(sql, "duckdb")
    archives = _archives(session, evaluation_ids)
    with TemporaryDirectory(prefix="shuffleboard-archives-") as folder:
        place = Path(folder)
        # Who may not write here may not read here either.
        files, statements = [], []
        for name in named_views(text, "duckdb"):
            if name in OVER_PREDICTIONS:
                continue
            files.append(_answered(settings, audience, name, [archive.evaluation_id for archive, _ in archives], place))
            statements.append(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({_quoted(files[-1])})")
        over = _over_predictions(session, archives, place, files)
        return ask_files(settings, text, files, [*statements, *over])


def _archives(session: Session, evaluation_ids: Collection[int]) -> Sequence[tuple[Archive, Evaluation]]:
    wanted = sorted(set(evaluation_ids))
    if not 1 <= len(wanted) <= MOST_ARCHIVES:
        raise QueryRefusedError(f"{len(wanted)} archived evaluations; ask of 1 to {MOST_ARCHIVES} at a time")
    query = (
        select(Archive, Evaluation)
        .join(Evaluation, Evaluation.id == Archive.evaluation_id)
        .where(among(Archive.evaluation_id, wanted), Archive.state == "archived")
        .order_by(Archive.evaluation_id)
    )
    found = [(archive, evaluation) for archive, evaluation in session.execute(query)]
    missing = sorted(set(wanted) - {evaluation.id for _, evaluation in found})
    if missing:
        raise QueryRefusedError(
            f"evaluation {missing[0]} is not among those that are archived; list them with: "
            "SELECT evaluation_id FROM evaluation_progress WHERE archived"
        )
    size = sum(archive.size for archive, _ in found)
    if size > MOST_BYTES:
        raise QueryRefusedError(
            f"the archives of these evaluations have {size:,} bytes; ask of fewer, up to {MOST_BYTES:,} bytes"
        )
    return found


def _answered(settings: Settings, audience: Audience, view: str, evaluation_ids: Sequence[int], folder: Path) -> Path:
    """A file with the rows of a documented view as the database gives them to the same visitor, within its limits."""
    if reads_predictions(f"SELECT 1 FROM {view}"):
        raise QueryRefusedError(f"view {view} has no rows of archived predictions; query prediction_detail")
    columns = columns_of(view)
    listed = ", ".join(map(str, evaluation_ids))
    condition = f" WHERE evaluation_id IN ({listed})" if "evaluation_id" in columns else ""
    found = ask(settings, audience, f"SELECT {', '.join(columns)} FROM {view}{condition}")
    if found.truncated:
        raise QueryRefusedError(
            f"view {view} has more than {len(found.rows):,} rows here; ask of fewer evaluations, or without it"
        )
    values = list(zip(*found.rows, strict=True)) or [()] * len(columns)
    arrays = {
        name: pa.array([_as(column.type, value) for value in given], _ARROW.get(column.type, pa.string()))
        for (name, column), given in zip(columns.items(), values, strict=True)
    }
    path = folder / f"{view}.parquet"
    pq.write_table(pa.table(arrays), path)
    return path


def _as(kind: str, value: Any) -> Any:
    """A value of the SQL page as one of its documented type: SQLite has integers for booleans, and texts for lists."""
    if value is None:
        return None
    if kind in ("integer", "double"):
        return int(value) if kind == "integer" else float(value)
    if kind == "boolean":
        return bool(value)
    if kind.endswith("[]"):
        return json.loads(value) if isinstance(value, str) else value
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _over_predictions(
    session: Session, archives: Sequence[tuple[Archive, Evaluation]], folder: Path, files: list[Path]
) -> list[str]:
    """The statements that make the views over predictions; adds what they read to `files`."""
    statements = []
    tables = {
        "question": _questions(session, {evaluation.benchmark_version_id for _, evaluation in archives}),
        "variant": _variants(session, {evaluation.variant_set_id for _, evaluation in archives}),
    }
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        pq.write_table(table, path)
        files.append(path)
        statements.append(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({_quoted(path)})")
    parts = []
    for archive, evaluation in archives:
        assert evaluation.seal is not None
        store, name = place_of(archive, evaluation.seal)
        path = _local(archive, store, name, folder)
        files.append(path)
        with archive_files.opened(store, name) as file:
            left_out = computed_in(file.schema_arrow.empty_table())
        part = _DETAIL.format(
            columns=", ".join(_columns(left_out)).format(evaluation_id=evaluation.id),
            version=evaluation.benchmark_version_id,
            variants=evaluation.variant_set_id,
            path=_quoted(path),
        )
        parts.append(part)
    return [*statements, f"CREATE VIEW prediction_detail AS {' UNION ALL '.join(parts)}", _OPTIONS]


def _columns(left_out: Collection[str]) -> Iterator[str]:
    """The columns of `prediction_detail`. left_out: where a row has no value of these, it is computed."""
    for name in columns_of("prediction_detail"):
        if name in left_out and name in _COMPUTED:
            yield f"coalesce({name}, {_COMPUTED[name]}) AS {name}"
        elif name != "prompt_digest":
            yield f"{_NAMED.get(name, name)} AS {name}"


def _local(archive: Archive, store: Store, name: str, folder: Path) -> Path:
    """An archive's file on this host's disk, copied there if need be; it is what was archived."""
    digest, size = hashlib.sha256(), 0
    path = folder / name if store.folder is None else store.folder / name
    copy = path.open("wb") if store.folder is None else None
    try:
        with store.reading(name) as stream:
            while size <= archive.size and (chunk := stream.read(_CHUNK)):
                digest.update(chunk)
                size += len(chunk)
                if copy is not None:
                    copy.write(chunk)
    finally:
        if copy is not None:
            copy.close()
    if (digest.hexdigest(), size) != (archive.digest, archive.size):
        raise ArchiveError(f"{store.url_of(name)}: is not the file that was archived; bring that back from a backup")
    return path


def _questions(session: Session, versions: Collection[int]) -> pa.Table:
    """The questions of benchmark versions, each with the texts of its options by ordinal."""
    asked = (among(Question.benchmark_version_id, versions), Question.few_shot.is_(False))
    columns = (Question.benchmark_version_id, Question.id, Question.external_id)
    query = select(*columns, Question.subject, Question.answer, Question.n_options).where(*asked)
    rows = session.execute(query.limit(MOST_QUESTIONS + 1)).all()
    if len(rows) > MOST_QUESTIONS:
        raise QueryRefusedError(
            f"the benchmarks of these evaluations have more than {MOST_QUESTIONS:,} questions; ask of fewer"
        )
    texts: dict[int, list[str]] = defaultdict(list)
    options = select(QuestionOption.question_id, QuestionOption.text).join(
        Question, Question.id == QuestionOption.question_id
    )
    for question_id, text in session.execute(
        options.where(*asked).order_by(None).order_by(QuestionOption.question_id, QuestionOption.ordinal)
    ):
        texts[question_id].append(text)
    names = ("benchmark_version_id", "question_id", "external_id", "subject", "answer", "n_options")
    kinds = (pa.int64(), pa.int64(), pa.string(), pa.string(), pa.int16(), pa.int16())
    values = list(zip(*rows, strict=True)) or [()] * len(names)
    table = {name: pa.array(given, kind) for name, kind, given in zip(names, kinds, values, strict=True)}
    table["options"] = pa.array([texts[row[1]] for row in rows], pa.list_(pa.string()))
    return pa.table(table)


def _variants(session: Session, sets: Collection[int]) -> pa.Table:
    query = select(Variant.variant_set_id, Variant.n_options, Variant.ordinal, Variant.name)
    rows = session.execute(query.where(among(Variant.variant_set_id, sets))).all()
    names = ("variant_set_id", "n_options", "ordinal", "name")
    kinds = (pa.int64(), pa.int16(), pa.int16(), pa.string())
    values = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table({name: pa.array(given, kind) for name, kind, given in zip(names, kinds, values, strict=True)})


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"

"""The relations of an export: their columns with types, and their rows, read in batches on either engine."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Result, Row, bindparam, or_, select, text
from sqlalchemy.orm import Session

from registry.benchmarks.canary import canary
from registry.exchange.exports.selection import Selection
from registry.schema import documented
from registry.schema.selectables import view_of

BATCH: Final = 10_000
"""Rows in memory at once, and in one row group of a Parquet file."""

INTEGER, DOUBLE, BOOLEAN, TEXT, TIME, DIGEST, JSON = "integer", "double", "boolean", "text", "time", "digest", "json"
INTEGERS, DOUBLES, TEXTS = "integer[]", "double[]", "text[]"

_EVALUATIONS: Final = """
    SELECT
        evaluation.id AS evaluation_id, model.name AS model, model_revision.number AS revision, model.family,
        model.parameters, model_revision.kind, model_revision.location, model_revision.revision AS "commit",
        model_revision.dtype, model_revision.quantisation, model_revision.weights_digest,
        model_revision.tokenizer_digest, benchmark.name AS benchmark, benchmark_version.version AS benchmark_version,
        benchmark_version.content_digest, benchmark_version.language, benchmark_version.split,
        benchmark_version.licence, benchmark_version.source, protocol.name AS protocol, protocol.shots,
        protocol.digest AS protocol_digest, protocol.definition AS protocol_definition, variant_set.name AS variants,
        evaluation.replicate, evaluation.state, (evaluation.seal IS NOT NULL) AS complete, evaluation.questions,
        evaluation.prompts, evaluation.created_at, evaluation.started_at, evaluation.sealed_at, evaluation.seal,
        evaluation.seal_version, evaluation.specification_digest, evaluation.specification
    FROM evaluation
    JOIN model_revision ON model_revision.id = evaluation.model_revision_id
    JOIN model ON model.id = model_revision.model_id
    JOIN benchmark_version ON benchmark_version.id = evaluation.benchmark_version_id
    JOIN benchmark ON benchmark.id = benchmark_version.benchmark_id
    JOIN protocol ON protocol.id = evaluation.protocol_id
    JOIN variant_set ON variant_set.id = evaluation.variant_set_id
"""
_QUESTIONS: Final = """
    SELECT
        question.id AS question_id, benchmark.name AS benchmark, benchmark_version.version AS benchmark_version,
        question.external_id, question.few_shot, question.ordinal, question.subject, question.context, question.text,
        question_option.text AS options, question.answer, question.n_options, question.refers_to_options,
        question.sorted_numeric, question.extra, benchmark_version.content_digest AS canary
    FROM question
    JOIN benchmark_version ON benchmark_version.id = question.benchmark_version_id
    JOIN benchmark ON benchmark.id = benchmark_version.benchmark_id
    JOIN question_option ON question_option.question_id = question.id
    WHERE question.benchmark_version_id = :id
    ORDER BY question.few_shot, question.ordinal, question_option.ordinal
"""


@dataclass(frozen=True)
class Relation:
    """A relation of an export.

    name: of its file, without the ending. per: the unit by which rows are read: `evaluation`, `version` (of a
    benchmark), `selection` (all evaluations at once), or `nothing` for rows that belong to no evaluation. query: SQL,
    with `:id` or `:ids` for the unit. view: the view's name if the relation is a plain view. order: the columns by
    which rows of a view are sorted. types: column to type, without texts, if it is not a view. whole_only: whether only
    exports without filters have it. valued: columns of a view; a row without a value in any of them is left out.
    """

    name: str
    summary: str
    per: str
    query: str
    view: str | None = None
    order: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
    whole_only: bool = False
    valued: Sequence[str] = ()

    def type_of(self, column: str) -> str:
        """Return the type of a column."""
        if self.view is not None:
            return documented.columns_of(self.view)[column].type
        return self.types.get(column, TEXT)


def _view(name: str, view: str, summary: str, order: str, valued: Sequence[str] = ()) -> Relation:
    query = f"SELECT * FROM {view} WHERE evaluation_id = :id ORDER BY {order}"  # noqa: S608 - our own names
    return Relation(name, summary, "evaluation", query, view, order, valued=valued)


RELATIONS: Final[Mapping[str, Relation]] = {
    relation.name: relation
    for relation in (
        Relation(
            "evaluations",
            "One row per evaluation: what was asked of which model, how, when, and its seal.",
            "selection",
            f"{_EVALUATIONS} WHERE evaluation.id IN :ids ORDER BY evaluation.id",
            types={
                **dict.fromkeys(("evaluation_id", "revision", "parameters", "shots", "replicate"), INTEGER),
                **dict.fromkeys(("questions", "prompts", "seal_version"), INTEGER),
                **dict.fromkeys(("content_digest", "protocol_digest", "specification_digest", "seal"), DIGEST),
                **dict.fromkeys(("weights_digest", "tokenizer_digest"), DIGEST),
                **dict.fromkeys(("protocol_definition", "specification"), JSON),
                **dict.fromkeys(("created_at", "started_at", "sealed_at"), TIME),
                "complete": BOOLEAN,
            },
        ),
        _view(
            "provenance",
            "evaluation_provenance",
            "One row per shard: who computed it, on what, with which versions.",
            "shard",
        ),
        _view(
            "withdrawals",
            "withdrawals",
            "One row each time that an evaluation was withdrawn or superseded.",
            "withdrawal",
        ),
        Relation(
            "leaderboard",
            "One row per evaluation specification, with its metrics over the whole benchmark.",
            "selection",
            "SELECT * FROM leaderboard WHERE evaluation_id IN :ids ORDER BY evaluation_id",
            "leaderboard",
        ),
        _view(
            "evaluation_metrics",
            "evaluation_metrics",
            "One row per sealed evaluation, scope and metric, with its interval.",
            "scope, metric",
        ),
        _view(
            "question_metrics",
            "question_metrics",
            "One row per question of an evaluation, with its metrics.",
            "question_id",
        ),
        _view(
            "predictions",
            "prediction_detail",
            "One row per prompt: what was shown, answered and written.",
            "question_id, variant",
        ),
        _view(
            "option_probability",
            "option_probability",
            "One row per prompt and position shown that has a probability.",
            "question_id, variant, position",
            ("logprob_nats", "probability", "logprob_without_question_nats"),
        ),
        Relation(
            "questions",
            "One row per question, with its options in the benchmark's order.",
            "version",
            _QUESTIONS,
            types={
                **dict.fromkeys(("question_id", "ordinal", "answer", "n_options"), INTEGER),
                **dict.fromkeys(("few_shot", "refers_to_options", "sorted_numeric"), BOOLEAN),
                "options": TEXTS,
                "extra": JSON,
            },
        ),
        Relation(
            "published_results",
            "One row per number that a paper prints.",
            "nothing",
            "SELECT * FROM published_results ORDER BY paper, paper_table, coalesce(section, ''), coalesce(model, ''), "
            "coalesce(benchmark, ''), coalesce(protocol, ''), coalesce(target, ''), metric, printed",
            "published_results",
            whole_only=True,
        ),
    )
}


def choose_relations(selection: Selection) -> list[Relation]:
    """Return the relations of an export. Numbers of papers belong to no evaluation, so filters leave them out."""
    relations = [one for one in RELATIONS.values() if one.name not in selection.request.without]
    return [one for one in relations if selection.whole or not one.whole_only]


def columns_of(session: Session, relation: Relation) -> list[str]:
    """Return the names of a relation's columns, even if it has no rows."""
    query = text(relation.query)
    parameters: dict[str, Any] = {}
    if ":ids" in relation.query:
        query = query.bindparams(bindparam("ids", expanding=True))
        parameters = {"ids": [-1]}
    elif ":id" in relation.query:
        parameters = {"id": -1}
    return list(session.execute(query, parameters).keys())


def batches(session: Session, relation: Relation, selection: Selection) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a relation as column name to value, at most BATCH at a time; both engines give the same values.

    Times are timezone-aware, digests hexadecimal texts, arrays lists, and JSON documents texts with sorted keys.
    """
    batch: list[dict[str, Any]] = []
    for row in _rows(session, relation, selection):
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _rows(session: Session, relation: Relation, selection: Selection) -> Iterator[dict[str, Any]]:
    if relation.per == "version":
        for version_id in selection.version_ids:
            yield from _questions(_stream(session, relation, {"id": version_id}))
    elif relation.per == "evaluation":
        assert relation.view is not None
        for evaluation_id in selection.evaluations_of(relation.name):
            view = view_of(relation.view)
            query = select(view).where(view.c.evaluation_id == evaluation_id)
            if relation.valued:
                query = query.where(or_(*(view.c[name].is_not(None) for name in relation.valued)))
            ordered = query.order_by(*(view.c[name] for name in relation.order.split(", ")))
            yield from _convert_rows(relation, session.execute(ordered.execution_options(yield_per=BATCH)))
    elif relation.per == "selection":
        # Neither engine accepts more than some ten thousand parameters.
        for start in range(0, len(selection.evaluation_ids), BATCH):
            yield from _stream(session, relation, {"ids": selection.evaluation_ids[start : start + BATCH]})
    else:
        yield from _stream(session, relation, {})


def _stream(session: Session, relation: Relation, parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    query = text(relation.query)
    if "ids" in parameters:
        query = query.bindparams(bindparam("ids", expanding=True))
    result = session.execute(query, parameters, execution_options={"yield_per": BATCH})
    return _convert_rows(relation, result)


def _convert_rows(relation: Relation, result: Result[Any]) -> Iterator[dict[str, Any]]:
    types = {column: relation.type_of(column) for column in result.keys()}  # noqa: SIM118 - not a dictionary
    if relation.name == "questions":
        # Here each row is still one option, and `canary` the content digest.
        types |= {"options": TEXT, "canary": DIGEST}
    return as_written(result, types)


def as_written(rows: Iterable[Row[Any]], types: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Convert rows of either engine to the values that files contain.

    types: column to type, in the order of the rows.
    """
    readers = [(column, _READERS[kind]) for column, kind in types.items()]
    for row in rows:
        yield {
            column: None if value is None else reader(value)
            for (column, reader), value in zip(readers, row, strict=True)
        }


def _questions(options: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Group rows of options into rows of questions with lists of options."""
    current: dict[str, Any] | None = None
    for row in options:
        if current is not None and row["question_id"] == current["question_id"]:
            current["options"].append(row["options"])
            continue
        if current is not None:
            yield current
        current = {**row, "options": [row["options"]], "canary": canary(row["canary"])}
    if current is not None:
        yield current


def _digest(value: Any) -> str:
    return value if isinstance(value, str) else bytes(value).hex()


def _time(value: Any) -> datetime:
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    aware: datetime = value.astimezone(UTC)
    return aware


def _list(value: Any) -> Sequence[Any]:
    return list(json.loads(value) if isinstance(value, str) else value)  # noqa: TID251 - our own column


def _doubles(value: Any) -> Sequence[float]:
    return [float(item) for item in _list(value)]


def _document(value: Any) -> str:
    document = json.loads(value) if isinstance(value, str) else value  # noqa: TID251 - our own column
    return json.dumps(document, ensure_ascii=False, sort_keys=True, allow_nan=False)


_READERS: Final[Mapping[str, Any]] = {
    INTEGER: int,
    DOUBLE: float,
    BOOLEAN: bool,
    TEXT: str,
    TIME: _time,
    DIGEST: _digest,
    JSON: _document,
    INTEGERS: _list,
    DOUBLES: _doubles,
    TEXTS: _list,
}

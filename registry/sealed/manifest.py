"""The content of a seal: the specification, the provenance of shards, and one leaf digest for each question.

Rows are keyed by external question id and variant ordinal and contain no database ids, so the same evaluation has the
same seal in every registry, and the question of a changed row can be named. Names that only this registry uses (the
requester, the number of the model's revision, the version name of the benchmark) are in the chain: see `local_labels`.
"""

import hashlib
import json
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from registry import formats
from registry.db import Base
from registry.digests import specification_digest
from registry.tables import (
    BenchmarkVersion,
    EngineFingerprint,
    Evaluation,
    EvaluationQuestion,
    Generation,
    Model,
    ModelRevision,
    Prediction,
    Protocol,
    Question,
    QuestionOption,
    Shard,
    Variant,
    VariantSet,
    Worker,
)

if TYPE_CHECKING:
    import pyarrow as pa

POINTERS: Final = frozenset({"evaluation_id", "question_id", "reused_from_evaluation_id"})
"""Database ids, which differ between registries. A copied result names its source by the source's seal."""

UNSEALED: Final = POINTERS | {"prompt_key"}
"""Columns of a prediction that no seal covers: database ids, and columns that can be computed from sealed ones."""

LEAF_COLUMNS: Final = tuple(sorted(set(Prediction.__table__.columns.keys()) - UNSEALED))
"""Columns of a prediction that the leaf digest covers in the newest format, sorted by name."""

GENERATION_COLUMNS: Final = tuple(
    sorted(set(Generation.__table__.columns.keys()) - {"evaluation_id", "question_id", "variant", "thought"})
)
"""Columns of a text that the leaf digest covers, there named `generation.<column>`.

A thought is covered only through its digest, so that thoughts can be deleted.
"""

QUESTION_COLUMNS: Final = tuple(sorted(set(Question.__table__.columns.keys()) - {"id", "benchmark_version_id"}))
"""Columns of a question that the leaf digest covers, with the question's options."""

EVALUATION_COLUMNS: Final = ("prompts", "questions", "recorded", "replicate")
"""Columns of an evaluation in the manifest in the newest format, in addition to its specification."""

SHARD_COLUMNS: Final = tuple(
    sorted(set(Shard.__table__.columns.keys()) - {"id", "evaluation_id", "worker_id", "engine_fingerprint_id"})
)
"""Columns of a shard in the manifest, in addition to its worker and its engine."""

_EXACT: Final = Context(prec=2000)
_DOUBLE: Final[Callable[[float], bytes]] = struct.Struct(">d").pack
_INTEGER: Final[Callable[[int], bytes]] = struct.Struct(">q").pack
_LENGTH: Final[Callable[[int], bytes]] = struct.Struct(">I").pack


def encode(value: Any) -> bytes:
    """Encode a value as the same bytes on every machine: a type letter, then big-endian content.

    Floats are float64, with −0 written as 0. Texts and lists are preceded by their length, so that the encodings of
    different values always differ.
    """
    # Tested by exact type, the most frequent first, since a large evaluation has millions of values.
    kind = type(value)
    if kind is float:
        return b"D" + _DOUBLE(value + 0.0)
    if kind is bool:
        return b"T" if value else b"F"
    if kind is int:
        return b"I" + _INTEGER(value)
    if kind is str:
        raw: bytes = value.encode()
        return b"S" + _LENGTH(len(raw)) + raw
    if kind is list or kind is tuple:
        return b"L" + _LENGTH(len(value)) + b"".join([encode(item) for item in value])
    message = f"{type(value).__name__} cannot be part of a seal"
    raise TypeError(message)


_NAMES: Final = tuple(encode(name) for name in (*LEAF_COLUMNS, *(f"generation.{name}" for name in GENERATION_COLUMNS)))


def _record(letter: bytes, names: Iterable[bytes], values: Iterable[Any]) -> bytes:
    """Encode the values that are not NULL, each after its name, so that new NULL columns leave old seals unchanged."""
    parts = [name + encode(value) for name, value in zip(names, values, strict=False) if value is not None]
    return letter + _LENGTH(len(parts)) + b"".join(parts)


def leaf_digest(rows: Iterable[Sequence[Any]], header: bytes = b"") -> str:
    """Return the SHA-256 over one question's predictions, by variant ordinal.

    rows: the values of LEAF_COLUMNS and of GENERATION_COLUMNS. header: the question, as `encode_header` returns it.
    """
    digest = hashlib.sha256(header)
    for row in rows:
        digest.update(_record(b"R", _NAMES, row))
    return digest.hexdigest()


def plain_json(document: Any) -> str:
    """Return a JSON document as text, the same from either database: 1, 1.0 and 1e0 are one number."""
    return json.dumps(_numbers(document), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _numbers(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        number = Decimal(repr(value) if isinstance(value, float) else value)
        # A list, so that a number differs from a text with the same characters.
        return ["number", str(_EXACT.normalize(number)) if number else "0"]
    if isinstance(value, Mapping):
        return {str(key): _numbers(item) for key, item in value.items()}
    return ["list", [_numbers(item) for item in value]]


_QUESTION_NAMES: Final = tuple(encode(f"question.{name}") for name in (*QUESTION_COLUMNS, "options"))
_ASKED_NAMES: Final = tuple(encode(f"evaluation_question.{name}") for name in ("n_variants", "shard"))


def _question_record(row: Any, options: Sequence[tuple[int, str]]) -> bytes:
    values = [getattr(row, name) for name in QUESTION_COLUMNS]
    extra = QUESTION_COLUMNS.index("extra")
    values[extra] = None if values[extra] is None else plain_json(values[extra])
    return _record(b"Q", _QUESTION_NAMES, [*values, options])


def question_hash(row: Any, options: Sequence[tuple[int, str]]) -> Any:
    """Return an unfinished SHA-256 over a question and its options. row: has QUESTION_COLUMNS as attributes."""
    return hashlib.sha256(_question_record(row, options))


def encode_header(question: Any, n_variants: int, shard: int | None) -> bytes:
    """Return the first bytes of a leaf. question: from `question_hash`."""
    header = question.copy()
    header.update(_record(b"A", _ASKED_NAMES, (n_variants, shard)))
    # The digest, because the texts of ten thousand questions take much memory.
    digest: bytes = header.digest()
    return digest


@dataclass(frozen=True)
class Leaf:
    """The sealed digests of one question. prompts: SHA-256 over its prompts' digests; None if one is unknown."""

    question_id: int
    external_id: str
    leaf: str
    prompts: str | None
    few_shot: bool = False


QuestionRecords = dict[int, tuple[str, Any]]
"""Maps question id to external id and an unfinished SHA-256 over the question with its options."""


def question_leaves(
    session: Session,
    evaluation_id: int,
    records: QuestionRecords | None = None,
    tables: "Iterable[pa.Table] | None" = None,
) -> Iterator[Leaf]:
    """Yield the leaf of every question, after the leaves of the few-shot examples.

    records: questions that were read before; the questions read here are added. tables: the predictions in the format
    of archives (`archive_files.SCHEMA`), never splitting a question; None reads them from the database or the folder.
    """
    yield from _few_shot_leaves(session, evaluation_id)
    hashed_questions = _hash_questions(session, evaluation_id, {} if records is None else records)
    if tables is None:
        from registry.predictions import archive_files
        from registry.predictions.archived import archive_of

        archive, rows = archive_of(session, evaluation_id), archive_files.tables(session, evaluation_id)
        tables = rows if archive is None else archive_files.salvage(*archive)
    number = session.get_one(Evaluation, evaluation_id).seal_version
    yield from leaves_of_tables(hashed_questions, tables, formats.SEAL if number is None else number)


AskedQuestions = Mapping[str, tuple[int, bytes]]
"""Maps external id to the question's number and the digest with which its leaf begins."""


def leaves_of_tables(asked: AskedQuestions, tables: "Iterable[pa.Table]", number: int) -> Iterator[Leaf]:
    """Yield the leaf of every question; questions without predictions come last.

    tables: predictions, never splitting a question. number: of the seal's format, which determines the columns that a
    leaf covers.
    """
    from registry.sealed import leaf_tables  # this imports Arrow

    unanswered = dict(asked)
    for table in tables:
        rows = leaf_tables.leaves(table, _columns_of(number), lambda name: asked.get(name, _UNKNOWN_QUESTION)[1])
        for external_id, leaf, prompts in rows:
            if external_id in asked:
                unanswered.pop(external_id, None)
                yield Leaf(asked[external_id][0], external_id, leaf, prompts)
    for external_id, (question_id, header) in unanswered.items():
        yield Leaf(question_id, external_id, hashlib.sha256(header).hexdigest(), None)


_UNKNOWN_QUESTION: Final = (0, b"")


def _list_covered(table: type[Base], names: Iterable[str], number: int) -> list[str]:
    """Return those of a table's columns that a seal of this format covers."""
    columns = table.__table__.columns
    return [name for name in names if columns[name].info.get(formats.SEALED_SINCE, 1) <= number]


@cache
def list_sealed_columns(number: int) -> tuple[str, ...]:
    """Return the columns of predictions and texts that a seal of this format covers, under their names in files."""
    texts = (f"generation_{name}" for name in _list_covered(Generation, GENERATION_COLUMNS, number))
    return (*_list_covered(Prediction, LEAF_COLUMNS, number), *texts)


@cache
def _columns_of(number: int) -> list[tuple[bytes, str]]:
    """Return (encoded name in a record, name in a file) of each column that a leaf of this format covers."""
    return [(encode(name.replace("generation_", "generation.", 1)), name) for name in list_sealed_columns(number)]


if list_sealed_columns(formats.SEAL) != list_sealed_columns(sys.maxsize):
    raise LookupError("a column of predictions is sealed since a number above formats.SEAL; raise that")


def leaves(session: Session, evaluation_id: int) -> Iterator[tuple[str, str]]:
    """Yield (external question id, leaf digest) of every question."""
    for leaf in question_leaves(session, evaluation_id):
        if not leaf.few_shot:
            yield leaf.external_id, leaf.leaf


def _hash_questions(session: Session, evaluation_id: int, records: QuestionRecords) -> dict[str, tuple[int, bytes]]:
    """Map external id to question id and the digest with which the question's leaf begins."""
    query = (
        select(EvaluationQuestion.question_id, EvaluationQuestion.n_variants, Shard.ordinal.label("shard"))
        .join(Question, Question.id == EvaluationQuestion.question_id)
        .outerjoin(Shard, and_(Shard.id == EvaluationQuestion.shard_id, Shard.evaluation_id == evaluation_id))
        .where(EvaluationQuestion.evaluation_id == evaluation_id)
        .order_by(EvaluationQuestion.question_id)
    )
    rows = session.execute(query).all()
    if any(row.question_id not in records for row in rows):
        records |= _records(session, evaluation_id)
    hashed = {}
    for row in rows:
        external_id, record = records[row.question_id]
        hashed[external_id] = (row.question_id, encode_header(record, row.n_variants, row.shard))
    return hashed


def _records(session: Session, evaluation_id: int) -> QuestionRecords:
    return _questions(
        session, Question.id.in_(select(EvaluationQuestion.question_id).filter_by(evaluation_id=evaluation_id))
    )


def _few_shot_leaves(session: Session, evaluation_id: int) -> Iterator[Leaf]:
    evaluation = session.get_one(Evaluation, evaluation_id)
    if not evaluation.protocol.shots:
        return
    version = Question.benchmark_version_id == evaluation.benchmark_version_id
    for question_id, (external_id, record) in _questions(session, version & Question.few_shot).items():
        yield Leaf(question_id, external_id, record.hexdigest(), None, few_shot=True)


def question_hashes(session: Session, benchmark_version_id: int) -> dict[tuple[bool, str], Any]:
    """Map (few-shot, external id) of each question of a benchmark version to an unfinished SHA-256 over it."""
    hashes: dict[tuple[bool, str], Any] = {}
    for few_shot in (False, True):
        condition = (Question.benchmark_version_id == benchmark_version_id) & (Question.few_shot == few_shot)
        hashes |= {(few_shot, name): record for name, record in _questions(session, condition).values()}
    return hashes


def _questions(session: Session, condition: ColumnElement[bool]) -> QuestionRecords:
    """Return the records of the questions that fulfil a condition, in the benchmark's order."""
    options: dict[int, list[tuple[int, str]]] = {}
    listed = select(QuestionOption.question_id, QuestionOption.ordinal, QuestionOption.text).join(Question)
    for question_id, ordinal, text in session.execute(
        listed.where(condition).order_by(*QuestionOption.__table__.primary_key)
    ):
        options.setdefault(question_id, []).append((ordinal, text))
    query = select(Question.id, *(getattr(Question, name) for name in QUESTION_COLUMNS)).where(condition)
    rows = session.execute(query.order_by(Question.ordinal, Question.id))
    return {row.id: (row.external_id, question_hash(row, options.get(row.id, ()))) for row in rows}


def _shards(session: Session, evaluation_id: int) -> Iterator[Any]:
    query = (
        select(Shard, Worker, EngineFingerprint)
        .outerjoin(Worker, Worker.id == Shard.worker_id)
        .outerjoin(EngineFingerprint, EngineFingerprint.id == Shard.engine_fingerprint_id)
        .where(Shard.evaluation_id == evaluation_id)
        .order_by(Shard.ordinal, Shard.id)
    )
    return iter(session.execute(query))


def shard_provenance(session: Session, evaluation_id: int) -> list[dict[str, Any]]:
    """Return the worker, times, engine and attempts of each shard, with floats as text and without database ids."""
    return [
        {
            "shard": shard.ordinal,
            "state": shard.state,
            "prompts": shard.prompts,
            "claims": shard.fence,
            "failures": shard.failures,
            "crashes": shard.crashes,
            "host": worker.host if worker else None,
            "device": worker.device if worker else None,
            "worker": worker.id if worker else None,
            "claimed_at": shard.claimed_at.isoformat() if shard.claimed_at else None,
            "finished_at": shard.finished_at.isoformat() if shard.finished_at else None,
            "elapsed_s": repr(shard.elapsed_s) if shard.elapsed_s is not None else None,
            **({"matching_s": repr(shard.matching_s)} if shard.matching_s is not None else {}),
            "tokens_naive": shard.tokens_naive,
            "tokens_computed": shard.tokens_computed,
            "engine_fingerprint": fingerprint.document if fingerprint else None,
        }
        for shard, worker, fingerprint in _shards(session, evaluation_id)
    ]


def evaluation_document(session: Session, evaluation: Evaluation) -> dict[str, Any]:
    """Return the columns of an evaluation and of its model, benchmark, variants and shards, without database ids."""
    revision, version, variants = evaluation.model_revision, evaluation.benchmark_version, evaluation.variant_set
    names = select(Variant.n_options, Variant.ordinal, Variant.name).filter_by(variant_set_id=variants.id)
    return {
        formats.NUMBER: formats.FOLDER,
        "seal": evaluation.seal,
        "specification": evaluation.specification,
        "evaluation": row_document(evaluation, "id", "specification", "seal", "state"),
        "model": row_document(revision.model, "id"),
        "model_revision": row_document(revision, "id", "model_id", "state", "error"),
        "benchmark_version": row_document(version, "id", "benchmark_id"),
        "variant_set": {
            **row_document(variants, "id", "digest"),
            "variants": [
                {"n_options": row.n_options, "ordinal": row.ordinal, "name": row.name}
                for row in session.execute(names.order_by(Variant.n_options, Variant.ordinal))
            ],
        },
        "shards": [
            {
                **row_document(shard, "id", "evaluation_id", "worker_id", "engine_fingerprint_id"),
                "worker": None if worker is None else row_document(worker, "loaded_model_revision_id", "token_budgets"),
                "engine_fingerprint": None if fingerprint is None else fingerprint.document,
            }
            for shard, worker, fingerprint in _shards(session, evaluation.id)
        ],
    }


def row_document(
    row: Evaluation | Model | ModelRevision | BenchmarkVersion | VariantSet | Shard | Worker | Any, *without: str
) -> dict[str, Any]:
    """Return a row's columns as JSON values, except those in `without` and references to other tables."""
    left_out = {*without, "model_revision_id", "benchmark_version_id", "protocol_id", "variant_set_id", "asked_digest"}
    values = {name: getattr(row, name) for name in row.__table__.columns.keys() if name not in left_out}  # noqa: SIM118
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in values.items()}


# The manifest


def manifest(session: Session, evaluation: Evaluation, leaves_of: Iterable[Leaf]) -> dict[str, Any]:
    """Return the document over which the seal is computed. leaves_of: from `question_leaves`."""
    leaves: tuple[dict[str, str], dict[str, str]] = {}, {}
    for leaf in leaves_of:
        leaves[leaf.few_shot][leaf.external_id] = leaf.leaf
    return manifest_of(evaluation_document(session, evaluation), *leaves)


def manifest_of(
    document: Mapping[str, Any], questions: Mapping[str, str], few_shot: Mapping[str, str]
) -> dict[str, Any]:
    """Return the manifest from an `evaluation_document` and leaves. questions, few_shot: external id to leaf."""
    facts = document["evaluation"]
    return {
        "seal_version": facts["seal_version"],
        "specification": document["specification"],
        "questions": dict(questions),
        "evaluation": _facts(facts, _list_covered(Evaluation, EVALUATION_COLUMNS, facts["seal_version"])),
        "shards": [
            {
                **_facts(shard, SHARD_COLUMNS),
                "worker": None if shard["worker"] is None else _facts(shard["worker"], ("id", "host", "device")),
                "engine_fingerprint": shard["engine_fingerprint"],
            }
            for shard in document["shards"]
        ],
        "few_shot": dict(few_shot),
    }


def _facts(values: Mapping[str, Any], columns: Iterable[str]) -> dict[str, Any]:
    """Return the columns that are not NULL, in the form of a specification: floats as text."""
    present = {name: values[name] for name in columns if values.get(name) is not None}
    return {name: repr(value) if isinstance(value, float) else value for name, value in present.items()}


def list_unsealed_values(facts: Mapping[str, Any]) -> list[str]:
    """Return the evaluation's columns that are newer than its seal's format but differ from their default.

    No older program stored them, and the seal cannot say whether they were changed. facts: the evaluation's columns.
    """
    covered = _list_covered(Evaluation, EVALUATION_COLUMNS, facts["seal_version"])
    return [name for name in EVALUATION_COLUMNS if name not in covered and facts.get(name)]


def compute_seal(session: Session, evaluation: Evaluation) -> str:
    """Compute the seal of an evaluation from the rows that are in the database now."""
    leaves_of = question_leaves(session, evaluation.id)
    return specification_digest(manifest(session, evaluation, leaves_of))


# Names and times that only this registry gives an evaluation

LABELS: Final[dict[str, tuple[str, ...]]] = {
    "evaluation": ("created_at", "max_workers", "priority", "requester", "sealed_at", "started_at"),
    "benchmark_version": (
        "created_at",
        "file_digest",
        "language",
        "licence",
        "shuffle_seed",
        "source",
        "split",
        "version",
    ),
    "model_revision": (
        "adapter",
        "adapter_commit",
        "created_at",
        "location",
        "number",
        "requested_revision",
        "revision",
    ),
    "protocol": ("created_at",),
    "variant_set": ("created_at",),
}
"""Maps each table to its columns with this registry's names and times.

Another registry may use other names for the same thing, so these are in each registry's chain, but not in the seal.
"""


def local_labels(evaluation: Evaluation) -> str:
    """Return the digest of the requester and of this registry's names for model, benchmark and protocol."""
    rows: dict[str, Evaluation | BenchmarkVersion | ModelRevision | Protocol | VariantSet] = {
        "evaluation": evaluation,
        "benchmark_version": evaluation.benchmark_version,
        "model_revision": evaluation.model_revision,
        "protocol": evaluation.protocol,
        "variant_set": evaluation.variant_set,
    }
    return specification_digest({name: _facts(row_document(rows[name]), columns) for name, columns in LABELS.items()})

"""The content of a seal: the specification, the provenance of shards, and one leaf digest for each question.

Rows are keyed by external question id and variant ordinal and contain no database ids, so the same evaluation has the
same seal in every registry, and a changed row is named by its question. A registry's own names (the requester, the
number of the model's revision, the version name of the benchmark) are left to the chain: see `local_labels`.
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
"""Database ids: another registry has others. A copied result names its source by the source's seal."""

UNSEALED: Final = POINTERS | {"prompt_key"}
"""The columns of a prediction that no seal covers: pointers, and columns that follow from sealed ones."""

LEAF_COLUMNS: Final = tuple(sorted(set(Prediction.__table__.columns.keys()) - UNSEALED))
"""The columns of a prediction that its question's leaf digest covers in the newest format, by name."""

GENERATION_COLUMNS: Final = tuple(
    sorted(set(Generation.__table__.columns.keys()) - {"evaluation_id", "question_id", "variant", "thought"})
)
"""Columns of a text, with the digest in place of a thought, so that thoughts can be deleted; in a leaf digest named
`generation.<column>`.
"""

QUESTION_COLUMNS: Final = tuple(sorted(set(Question.__table__.columns.keys()) - {"id", "benchmark_version_id"}))
"""Columns of a question, in a leaf digest with its options."""

EVALUATION_COLUMNS: Final = ("prompts", "questions", "replicate")
"""Columns of an evaluation in the manifest, besides its specification."""

SHARD_COLUMNS: Final = tuple(
    sorted(set(Shard.__table__.columns.keys()) - {"id", "evaluation_id", "worker_id", "engine_fingerprint_id"})
)
"""Columns of a shard in the manifest, besides its worker and its engine."""

_EXACT: Final = Context(prec=2000)
_DOUBLE: Final[Callable[[float], bytes]] = struct.Struct(">d").pack
_INTEGER: Final[Callable[[int], bytes]] = struct.Struct(">q").pack
_LENGTH: Final[Callable[[int], bytes]] = struct.Struct(">I").pack


def encode(value: Any) -> bytes:
    """Encode a value as bytes, the same on every machine: a type letter, then big-endian content.

    Floats are float64 with −0 written as 0. Texts and lists are preceded by their length, so that no two values run
    together.
    """
    # By exact type, the commonest first: a large evaluation has millions of values.
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
    """Encode the values that are not NULL, each after its name: columns of a later schema leave old seals unchanged."""
    parts = [name + encode(value) for name, value in zip(names, values, strict=False) if value is not None]
    return letter + _LENGTH(len(parts)) + b"".join(parts)


def leaf_digest(rows: Iterable[Sequence[Any]], header: bytes = b"") -> str:
    """Return the SHA-256 over one question's predictions, by variant ordinal.

    Each row has the values of LEAF_COLUMNS and of GENERATION_COLUMNS. header: the question itself.
    """
    digest = hashlib.sha256(header)
    for row in rows:
        digest.update(_record(b"R", _NAMES, row))
    return digest.hexdigest()


def plain_json(document: Any) -> str:
    """Return one text for one JSON document, from either database: 1, 1.0 and 1e0 are one number."""
    return json.dumps(_numbers(document), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _numbers(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        number = Decimal(repr(value) if isinstance(value, float) else value)
        # A list, so that no number is taken for the text that spells it.
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
    """Return a SHA-256 over a question, with QUESTION_COLUMNS as attributes, and its options."""
    return hashlib.sha256(_question_record(row, options))


def encode_header(question: Any, n_variants: int, shard: int | None) -> bytes:
    """Return the bytes with which a leaf begins. question: of `question_hash`."""
    header = question.copy()
    header.update(_record(b"A", _ASKED_NAMES, (n_variants, shard)))
    # Its digest, since texts of ten thousand questions together are large.
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
"""Question id to external id and a SHA-256 over the question with its options, to be continued."""


def question_leaves(
    session: Session,
    evaluation_id: int,
    records: QuestionRecords | None = None,
    tables: "Iterable[pa.Table] | None" = None,
) -> Iterator[Leaf]:
    """Yield the leaf of every question, after the leaves of the few-shot examples.

    records: questions that were read before, to which new ones are added. tables: the predictions in the form of
    archives (`archive_files.SCHEMA`), in whole questions; None reads them from the database or the folder.
    """
    yield from _few_shot_leaves(session, evaluation_id)
    asked = _hash_questions(session, evaluation_id, {} if records is None else records)
    if tables is None:
        from registry.predictions import archive_files
        from registry.predictions.archived import archive_of

        archive, rows = archive_of(session, evaluation_id), archive_files.tables(session, evaluation_id)
        tables = rows if archive is None else archive_files.salvage(*archive)
    number = session.get_one(Evaluation, evaluation_id).seal_version
    yield from leaves_of_tables(asked, tables, formats.SEAL if number is None else number)


Asked = Mapping[str, tuple[int, bytes]]
"""External id to the question's number and the digest with which its leaf begins."""


def leaves_of_tables(asked: Asked, tables: "Iterable[pa.Table]", number: int) -> Iterator[Leaf]:
    """Yield the leaf of every question, from predictions in whole questions; those without a row come last.

    number: of the seal's format, which determines the columns that a leaf covers.
    """
    from registry.sealed import leaf_tables  # and Arrow

    unanswered = dict(asked)
    for table in tables:
        rows = leaf_tables.leaves(table, _columns_of(number), lambda name: asked.get(name, _NONE)[1])
        for external_id, leaf, prompts in rows:
            if external_id in asked:
                unanswered.pop(external_id, None)
                yield Leaf(asked[external_id][0], external_id, leaf, prompts)
    for external_id, (question_id, header) in unanswered.items():
        yield Leaf(question_id, external_id, hashlib.sha256(header).hexdigest(), None)


_NONE: Final = (0, b"")


@cache
def list_sealed_columns(number: int) -> tuple[str, ...]:
    """Return the columns of a prediction and of its text that a seal of this format covers, as files name them."""
    found = []
    for table, names, prefix in ((Prediction, LEAF_COLUMNS, ""), (Generation, GENERATION_COLUMNS, "generation_")):
        columns = table.__table__.columns
        found += [f"{prefix}{name}" for name in names if columns[name].info.get(formats.SEALED_SINCE, 1) <= number]
    return tuple(found)


@cache
def _columns_of(number: int) -> list[tuple[bytes, str]]:
    """Return the encoded name in a record, and the name in a file, of the columns of a leaf in this format."""
    return [(encode(name.replace("generation_", "generation.", 1)), name) for name in list_sealed_columns(number)]


if list_sealed_columns(formats.SEAL) != list_sealed_columns(sys.maxsize):
    raise LookupError("a column of predictions is sealed since a number above formats.SEAL; raise that")


def leaves(session: Session, evaluation_id: int) -> Iterator[tuple[str, str]]:
    """Yield (external question id, leaf digest) of every question."""
    for leaf in question_leaves(session, evaluation_id):
        if not leaf.few_shot:
            yield leaf.external_id, leaf.leaf


def _hash_questions(session: Session, evaluation_id: int, records: QuestionRecords) -> dict[str, tuple[int, bytes]]:
    """Map external ids to question id and digest of the question."""
    query = (
        select(EvaluationQuestion.question_id, EvaluationQuestion.n_variants, Shard.ordinal.label("shard"))
        .join(Question, Question.id == EvaluationQuestion.question_id)
        .outerjoin(Shard, and_(Shard.id == EvaluationQuestion.shard_id, Shard.evaluation_id == evaluation_id))
        .where(EvaluationQuestion.evaluation_id == evaluation_id)
        .order_by(EvaluationQuestion.question_id)
    )
    asked = session.execute(query).all()
    if any(row.question_id not in records for row in asked):
        records |= _records(session, evaluation_id)
    found = {}
    for row in asked:
        external_id, record = records[row.question_id]
        found[external_id] = (row.question_id, encode_header(record, row.n_variants, row.shard))
    return found


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
    """Return a SHA-256 over each question of a benchmark version, to be continued, by few-shot and external id."""
    found: dict[tuple[bool, str], Any] = {}
    for few_shot in (False, True):
        which = (Question.benchmark_version_id == benchmark_version_id) & (Question.few_shot == few_shot)
        found |= {(few_shot, name): record for name, record in _questions(session, which).values()}
    return found


def _questions(session: Session, which: ColumnElement[bool]) -> QuestionRecords:
    """Return these questions, in the benchmark's order."""
    options: dict[int, list[tuple[int, str]]] = {}
    listed = select(QuestionOption.question_id, QuestionOption.ordinal, QuestionOption.text).join(Question)
    for question_id, ordinal, text in session.execute(
        listed.where(which).order_by(*QuestionOption.__table__.primary_key)
    ):
        options.setdefault(question_id, []).append((ordinal, text))
    query = select(Question.id, *(getattr(Question, name) for name in QUESTION_COLUMNS)).where(which)
    found = session.execute(query.order_by(Question.ordinal, Question.id))
    return {row.id: (row.external_id, question_hash(row, options.get(row.id, ()))) for row in found}


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
    """Return worker, time, engine and attempt of each shard; floats as text, no database ids."""
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
    """Return the stored columns of an evaluation at its seal, without its rows and without database ids."""
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
    """Return a row's columns as JSON values, without these and without pointers to other tables."""
    left_out = {*without, "model_revision_id", "benchmark_version_id", "protocol_id", "variant_set_id", "asked_digest"}
    values = {name: getattr(row, name) for name in row.__table__.columns.keys() if name not in left_out}  # noqa: SIM118
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in values.items()}


# The manifest


def manifest(session: Session, evaluation: Evaluation, leaves_of: Iterable[Leaf]) -> dict[str, Any]:
    """Return the document that the seal is computed over. leaves_of: of `question_leaves`."""
    leaves: tuple[dict[str, str], dict[str, str]] = {}, {}
    for leaf in leaves_of:
        leaves[leaf.few_shot][leaf.external_id] = leaf.leaf
    return manifest_of(evaluation_document(session, evaluation), *leaves)


def manifest_of(
    document: Mapping[str, Any], questions: Mapping[str, str], few_shot: Mapping[str, str]
) -> dict[str, Any]:
    """Return the manifest of `evaluation_document` and of leaves. questions, few_shot: external id to leaf."""
    facts = document["evaluation"]
    return {
        "seal_version": facts["seal_version"],
        "specification": document["specification"],
        "questions": dict(questions),
        "evaluation": _facts(facts, EVALUATION_COLUMNS),
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
    """Return the columns that are not NULL in the form of a specification: floats as text."""
    found = {name: values[name] for name in columns if values.get(name) is not None}
    return {name: repr(value) if isinstance(value, float) else value for name, value in found.items()}


def compute_seal(session: Session, evaluation: Evaluation) -> str:
    """Compute the seal of the rows that the database has now."""
    leaves_of = question_leaves(session, evaluation.id)
    return specification_digest(manifest(session, evaluation, leaves_of))


# What a registry says of an evaluation besides

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
"""Table to its columns that say what this registry calls a thing, and since when. The same thing may be called
otherwise elsewhere, so they stand in the chain of each registry and not in the seal."""


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

"""Writing a crate: one evaluation with everything that its seal covers."""

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from rocrate.model.contextentity import ContextEntity  # type: ignore[import-untyped]
from rocrate.rocrate import ROCrate  # type: ignore[import-untyped]
from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from registry import __version__
from registry.digests import sha256_file
from registry.errors import SealError, UsageError
from registry.exchange.crates import layout
from registry.files.storage import writing
from registry.lookups import find_evaluation, is_published
from registry.operations.archiving import copy
from registry.proof.manifest import compute_seal
from registry.proof.provenance import link_document
from registry.proof.signing import covering, signed_chain
from registry.proof.withdrawals import withdrawals_of
from registry.schema.audiences import SEES, Audience
from registry.scores.corrections import is_of_errata
from registry.tables import (
    Analysis,
    BenchmarkVersion,
    EngineFingerprint,
    Evaluation,
    EvaluationMetric,
    EvaluationQuestion,
    Model,
    ModelRevision,
    Question,
    QuestionOption,
    QuestionSeal,
    Shard,
    Variant,
    VariantSet,
    Worker,
)

BATCH: Final = 20_000

_CONTENT_TYPES: Final = {".json": "application/json", ".parquet": "application/vnd.apache.parquet"}


ASKED_SCHEMA: Final = pa.schema(
    [
        ("question", pa.string()),
        ("few_shot", pa.bool_()),
        ("leaf", pa.string()),
        ("n_variants", pa.int64()),
        ("shard", pa.int64()),
    ]
)


def export_crate(session: Session, evaluation_id: int, out: Path, audience: Audience = "public") -> dict[str, Any]:
    """Writes a sealed evaluation as a new folder, and returns its seal and the files with their digests.

    The folder appears when it is complete. Raises UsageError for a folder that is there already or a benchmark that the
    audience does not see, SealError for one that is not sealed or does not match its seal.
    """
    evaluation = find_evaluation(session, evaluation_id)
    if out.exists():
        raise UsageError(f"{out} already exists; give a new folder: --out DIR")
    if evaluation.seal is None:
        raise SealError(f"evaluation {evaluation_id} is {evaluation.state}, and only sealed ones are archived")
    visibility = evaluation.benchmark_version.visibility
    if visibility not in SEES[audience]:
        raise UsageError(
            f"evaluation {evaluation_id} is on a benchmark that is {visibility}: its questions would be included; give "
            "an "
            "--audience that may see it"
        )
    if audience != "all" and not is_published(session, evaluation_id):
        raise UsageError(f"evaluation {evaluation_id} is under embargo; wait for its end, or give --audience all")
    if compute_seal(session, evaluation) != evaluation.seal:
        raise SealError(f"evaluation {evaluation_id} does not match its seal; see: shuffleboard verify {evaluation_id}")
    with writing(out), _scratch(out) as folder:
        place = Path(folder) / out.name
        place.mkdir()
        _write_files(session, evaluation, place)
        described = dict(layout.FILES)
        link = link_document(session, evaluation.seal)
        if link is not None and covering(session, link["position"]) is not None:
            text = json.dumps(signed_chain(session), ensure_ascii=False, sort_keys=True)
            (place / layout.PROOF).write_text(text + "\n", encoding="utf-8")
            described[layout.PROOF] = "The chain of the registry's seals, with signatures of its head"
        files = _write_metadata(evaluation, place, described)
        shutil.move(place, out)
    return {"evaluation": evaluation_id, "seal": evaluation.seal, "folder": str(out), "files": files}


@contextmanager
def _scratch(out: Path) -> Iterator[str]:
    """A folder beside `out`, removed in the end. Raises UsageError where none can be made."""
    try:
        with writing(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            scratch = tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-")
    except OSError as error:
        raise UsageError(f"{out}: cannot be written ({error.strerror}); give another folder with --out") from error
    with scratch as folder:
        yield folder


def _write_files(session: Session, evaluation: Evaluation, folder: Path) -> None:
    document = json.dumps(evaluation_document(session, evaluation), ensure_ascii=False, indent=2, sort_keys=True)
    (folder / layout.EVALUATION).write_text(document + "\n", encoding="utf-8")
    _write_questions(session, evaluation, folder / layout.QUESTIONS)
    _write_table(folder / layout.ASKED, ASKED_SCHEMA, asked_rows(session, evaluation.id))
    copy(session, evaluation, folder / layout.PREDICTIONS)
    metrics = select(EvaluationMetric).filter_by(evaluation_id=evaluation.id)
    ordered = metrics.order_by(EvaluationMetric.scope, EvaluationMetric.metric, EvaluationMetric.definition_version)
    _write_table(
        folder / layout.METRICS,
        layout.schema_of(EvaluationMetric, layout.METRIC_COLUMNS),
        # Errata are the registry's, not the evaluation's: they travel in files of their own.
        (
            _values(EvaluationMetric, row, layout.METRIC_COLUMNS)
            for row in session.scalars(ordered)
            if not is_of_errata(row.scope)
        ),
    )


def asked_rows(session: Session, evaluation_id: int) -> Iterator[dict[str, Any]]:
    """What was asked: each question, and each few-shot example, with the leaf that the seal covers of it."""
    asked = and_(
        EvaluationQuestion.evaluation_id == evaluation_id, EvaluationQuestion.question_id == QuestionSeal.question_id
    )
    query = (
        select(
            Question.external_id,
            Question.few_shot,
            QuestionSeal.leaf,
            EvaluationQuestion.n_variants,
            Shard.ordinal.label("shard"),
        )
        .join(Question, Question.id == QuestionSeal.question_id)
        .outerjoin(EvaluationQuestion, asked)
        .outerjoin(Shard, Shard.id == EvaluationQuestion.shard_id)
        .where(QuestionSeal.evaluation_id == evaluation_id)
        .order_by(Question.few_shot, Question.ordinal)
    )
    for row in session.execute(query):
        yield {
            "question": row.external_id,
            "few_shot": row.few_shot,
            "leaf": row.leaf,
            "n_variants": row.n_variants,
            "shard": row.shard,
        }


def _write_table(path: Path, schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        batch: list[Mapping[str, Any]] = []
        for row in rows:
            batch.append(row)
            if len(batch) == BATCH:
                writer.write_table(pa.Table.from_pylist(batch, schema))
                batch = []
        writer.write_table(pa.Table.from_pylist(batch, schema))


def _values(table: Any, row: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: layout.to_file(table, name, getattr(row, name)) for name in names}


def _write_questions(session: Session, evaluation: Evaluation, path: Path) -> None:
    options: dict[int, list[str]] = {}
    of_version = Question.benchmark_version_id == evaluation.benchmark_version_id
    query = (
        select(QuestionOption.question_id, QuestionOption.text)
        .join(Question, Question.id == QuestionOption.question_id)
        .where(of_version)
        .order_by(QuestionOption.question_id, QuestionOption.ordinal)
    )
    for question_id, text in session.execute(query):
        options.setdefault(question_id, []).append(text)
    columns = [getattr(Question, name) for name in layout.QUESTION_COLUMNS]
    questions = select(Question.id, *columns).where(of_version).order_by(Question.few_shot, Question.ordinal)
    _write_table(
        path,
        layout.schema_of(Question, layout.QUESTION_COLUMNS, options=pa.list_(pa.string())),
        (
            {"options": options[row.id], **_values(Question, row, layout.QUESTION_COLUMNS)}
            for row in session.execute(questions)
        ),
    )


def evaluation_document(session: Session, evaluation: Evaluation) -> dict[str, Any]:
    """All of an evaluation but its rows, without database ids."""
    revision, version, variants = evaluation.model_revision, evaluation.benchmark_version, evaluation.variant_set
    shards = session.execute(
        select(Shard, Worker, EngineFingerprint)
        .outerjoin(Worker, Worker.id == Shard.worker_id)
        .outerjoin(EngineFingerprint, EngineFingerprint.id == Shard.engine_fingerprint_id)
        .where(Shard.evaluation_id == evaluation.id)
        .order_by(Shard.ordinal)
    )
    names = select(Variant.n_options, Variant.ordinal, Variant.name).filter_by(variant_set_id=variants.id)
    link = link_document(session, evaluation.seal)
    return {
        "crate_version": layout.CRATE_VERSION,
        "seal": evaluation.seal,
        "specification": evaluation.specification,
        "evaluation": _row(evaluation, "id", "specification", "seal", "state"),
        "model": _row(revision.model, "id"),
        "model_revision": _row(revision, "id", "model_id", "state", "error"),
        "benchmark_version": _row(version, "id", "benchmark_id"),
        "variant_set": {
            **_row(variants, "id", "digest"),
            "variants": [
                {"n_options": row.n_options, "ordinal": row.ordinal, "name": row.name}
                for row in session.execute(names.order_by(Variant.n_options, Variant.ordinal))
            ],
        },
        "shards": [
            {
                **_row(shard, "id", "evaluation_id", "worker_id", "engine_fingerprint_id"),
                "worker": None if worker is None else _row(worker, "loaded_model_revision_id", "token_budgets"),
                "engine_fingerprint": None if fingerprint is None else fingerprint.document,
            }
            for shard, worker, fingerprint in shards
        ],
        "analyses": [
            {"kind": row.kind, "parameters": row.parameters, "result": row.result}
            for row in session.scalars(select(Analysis).filter_by(evaluation_id=evaluation.id).order_by(Analysis.id))
        ],
        "withdrawals": [_row(row, "id", "evaluation_id") for row in withdrawals_of(session, evaluation.id)],
        "chain": None if link is None else link | {"at": link["at"].isoformat()},
    }


def _row(
    row: Evaluation | Model | ModelRevision | BenchmarkVersion | VariantSet | Shard | Worker | Any, *without: str
) -> dict[str, Any]:
    """A row's columns as JSON has them, less these and pointers to other tables."""
    left_out = {*without, "model_revision_id", "benchmark_version_id", "protocol_id", "variant_set_id", "asked_digest"}
    values = {name: getattr(row, name) for name in row.__table__.columns.keys() if name not in left_out}  # noqa: SIM118
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in values.items()}


def _write_metadata(evaluation: Evaluation, folder: Path, described_files: Mapping[str, str]) -> list[dict[str, Any]]:
    """The crate's description: every file with its size and SHA-256; returns them."""
    crate = ROCrate(version="1.1")
    crate.metadata.extra_terms.update({"sha256": "https://schema.org/sha256", "seal": "https://schema.org/identifier"})
    version = evaluation.benchmark_version
    described = f"{evaluation.model_revision.model.name} on {version.benchmark.name}"
    crate.name = f"Evaluation of {described}"
    crate.description = (
        f"A sealed Shuffleboard evaluation of {described}: protocol {evaluation.protocol.name}, "
        f"{evaluation.protocol.shots}-shot, variants {evaluation.variant_set.name}. Import it into another registry, "
        "which recomputes the seal: shuffleboard evaluations import DIR"
    )
    assert evaluation.sealed_at is not None
    crate.datePublished = evaluation.sealed_at
    crate.license = version.licence or "The licence of the benchmark is not stated; ask its source."
    crate.root_dataset["seal"] = evaluation.seal
    program = crate.add(
        ContextEntity(
            crate,
            "#shuffleboard",
            {"@type": "SoftwareApplication", "name": "Shuffleboard", "softwareVersion": __version__},
        )
    )
    files, entities = [], {}
    for name, description in described_files.items():
        digest, size = sha256_file(folder / name), (folder / name).stat().st_size
        properties = {
            "name": name,
            "description": description,
            "encodingFormat": _CONTENT_TYPES[Path(name).suffix],
            "contentSize": str(size),
            "sha256": digest,
        }
        entities[name] = crate.add_file(dest_path=name, properties=properties)
        files.append({"name": name, "bytes": size, "sha256": digest})
    action = {
        "@type": "CreateAction",
        "name": f"Evaluation of {described}",
        "endTime": evaluation.sealed_at.isoformat(),
        "instrument": {"@id": program.id},
        "object": [{"@id": entities[layout.QUESTIONS].id}],
        "result": [{"@id": entities[name].id} for name in (layout.PREDICTIONS, layout.METRICS)],
    }
    crate.add(ContextEntity(crate, "#evaluation", action))
    document = crate.metadata.generate()
    text = json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True)
    (folder / layout.METADATA).write_text(text + "\n", encoding="utf-8")
    return files

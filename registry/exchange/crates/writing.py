"""Writing a crate: one evaluation with everything that its seal covers."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rocrate.model.contextentity import ContextEntity  # type: ignore[import-untyped]
from rocrate.rocrate import ROCrate  # type: ignore[import-untyped]
from sqlalchemy import select
from sqlalchemy.orm import Session

from registry import __version__
from registry.digests import sha256_file
from registry.errors import SealError, UsageError
from registry.exchange.crates import layout
from registry.files.storage import writing
from registry.lookups import find_evaluation, is_published
from registry.operations.archiving import copy
from registry.predictions.archive_files import PREDICTIONS
from registry.proof.folder import METRICS, schema_of, stored_values, write_table
from registry.proof.manifest import compute_seal, row_document
from registry.proof.provenance import link_document
from registry.proof.signing import covering, signed_chain
from registry.proof.withdrawals import withdrawals_of
from registry.schema.audiences import SEES, Audience
from registry.tables import (
    Analysis,
    Evaluation,
    Question,
    QuestionOption,
)

_CONTENT_TYPES: Final = {".json": "application/json", ".parquet": "application/vnd.apache.parquet"}


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
        copy(session, evaluation, place)
        _write_questions(session, evaluation, place / layout.QUESTIONS)
        _write_json(place / layout.SAID, _said(session, evaluation))
        described = dict(layout.FILES)
        link = link_document(session, evaluation.seal)
        if link is not None and covering(session, link["position"]) is not None:
            _write_json(place / layout.PROOF, signed_chain(session))
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


def _said(session: Session, evaluation: Evaluation) -> dict[str, Any]:
    link = link_document(session, evaluation.seal)
    return {
        "analyses": [
            {"kind": row.kind, "parameters": row.parameters, "result": row.result}
            for row in session.scalars(select(Analysis).filter_by(evaluation_id=evaluation.id).order_by(Analysis.id))
        ],
        "withdrawals": [row_document(row, "id", "evaluation_id") for row in withdrawals_of(session, evaluation.id)],
        "chain": None if link is None else link | {"at": link["at"].isoformat()},
    }


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    text = json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


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
    write_table(
        path,
        schema_of(Question, layout.QUESTION_COLUMNS, options=pa.list_(pa.string())),
        (
            {"options": options[row.id], **stored_values(Question, row, layout.QUESTION_COLUMNS)}
            for row in session.execute(questions)
        ),
    )


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
        "result": [{"@id": entities[name].id} for name in (PREDICTIONS, METRICS)],
    }
    crate.add(ContextEntity(crate, "#evaluation", action))
    _write_json(folder / layout.METADATA, crate.metadata.generate())
    return files

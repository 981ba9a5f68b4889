"""Write a sealed evaluation as a folder that another registry can import and that can be checked with a public key."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from registry.db import read_session, write_session
from registry.errors import SealError, UsageError
from registry.files.manifests import MANIFEST
from registry.files.new_folder import new_folder, require_free
from registry.lookups import find_evaluation
from registry.proposals import propose
from registry.schema.audiences import Audience, visible_to
from registry.sealed.archiving import copy, record
from registry.sealed.files import (
    CHAIN,
    QUESTION_COLUMNS,
    QUESTIONS,
    RECORDED,
    manifest_of,
    write_json,
)
from registry.sealed.folder import convert_values, schema_of, write_table
from registry.sealed.manifest import compute_seal, row_document
from registry.sealed.signing import sign_if_possible, signed_chain
from registry.sealed.withdrawals import withdrawals_of
from registry.settings import Settings
from registry.tables import Analysis, BenchmarkVersion, Evaluation, Question, QuestionOption


def export_evaluation(
    engine: Engine, settings: Settings, evaluation_id: int, out: Path, audience: Audience = "public"
) -> dict[str, Any]:
    """Write a sealed evaluation into the new folder `out`; return its manifest, with its number and the path.

    The evaluation's folder in the registry is written first unless it exists, and the head of the chain is signed if
    there is a key. Raises UsageError if `out` contains files or the audience may not see the benchmark, SealError if
    the evaluation is not sealed or does not match its seal.
    """
    require_free(out)
    with read_session(engine) as session:
        _require_exportable(session, find_evaluation(session, evaluation_id), audience)
    record(engine, [evaluation_id])
    with write_session(engine) as session:
        sign_if_possible(session, settings)
    with read_session(engine) as session:
        evaluation = find_evaluation(session, evaluation_id)
        if compute_seal(session, evaluation) != evaluation.seal:
            raise SealError(
                f"evaluation {evaluation_id} does not match its seal; see: {propose('verify', evaluation_id)}"
            )
        assert evaluation.seal is not None
        with new_folder(out) as folder:
            copy(session, evaluation, folder)
            _write_questions(session, evaluation, folder / QUESTIONS)
            write_json(folder / RECORDED, _read_records(session, evaluation))
            write_json(folder / CHAIN, signed_chain(session))
            manifest = manifest_of(folder, evaluation.seal)
            write_json(folder / MANIFEST, manifest)
    return {"evaluation": evaluation_id, "folder": str(out), **manifest}


def _require_exportable(session: Session, evaluation: Evaluation, audience: Audience) -> None:
    if evaluation.seal is None:
        raise SealError(f"evaluation {evaluation.id} is {evaluation.state}, and only sealed ones can be exported")
    version = evaluation.benchmark_version
    seen = select(BenchmarkVersion.id).where(BenchmarkVersion.id == version.id, visible_to(audience))
    if session.scalar(seen) is None:
        raise UsageError(
            f"evaluation {evaluation.id} is on a benchmark that is {version.visibility}: its questions would be "
            "included; give an --audience that may see it"
        )


def _read_records(session: Session, evaluation: Evaluation) -> dict[str, Any]:
    """Return the records that the registry made after sealing: analyses and withdrawals."""
    return {
        "analyses": [
            {"kind": row.kind, "parameters": row.parameters, "result": row.result}
            for row in session.scalars(select(Analysis).filter_by(evaluation_id=evaluation.id).order_by(Analysis.id))
        ],
        "withdrawals": [row_document(row, "id", "evaluation_id") for row in withdrawals_of(session, evaluation.id)],
    }


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
    columns = [getattr(Question, name) for name in QUESTION_COLUMNS]
    questions = select(Question.id, *columns).where(of_version).order_by(Question.few_shot, Question.ordinal)
    write_table(
        path,
        schema_of(Question, QUESTION_COLUMNS, options=pa.list_(pa.string())),
        (
            {"options": options[row.id], **convert_values(Question, row, QUESTION_COLUMNS)}
            for row in session.execute(questions)
        ),
    )

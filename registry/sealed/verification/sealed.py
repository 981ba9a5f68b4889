"""Check that rows, shards and copies match the seal."""

from typing import Any

from sqlalchemy import null, or_, select
from sqlalchemy.orm import Session

from registry import chain, formats
from registry.db import is_in
from registry.digests import specification_digest
from registry.errors import ArchiveError
from registry.predictions.archive_files import EVALUATION
from registry.predictions.archived import place_of
from registry.predictions.texts import digest_of
from registry.sealed import folder
from registry.sealed.folder_check import check_folder
from registry.sealed.manifest import (
    Leaf,
    list_unsealed_values,
    manifest,
    question_hashes,
    question_leaves,
    row_document,
)
from registry.sealed.seal import list_copied_from
from registry.sealed.verification.findings import Findings, alike, names_of
from registry.tables import Archive, Evaluation, EvaluationSource, Generation, Prediction, Question, QuestionSeal


def check_archive(session: Session, evaluation: Evaluation, findings: Findings) -> bool:
    """Report archive files that are missing or changed; return whether the evaluation's predictions can be checked.

    A missing file whose rows are in the database can be written again, so it is not reported.
    """
    row = session.get(Archive, evaluation.id)
    if row is None:
        return True
    archived = row.state == "archived"
    if archived and session.scalar(select(Prediction.question_id).filter_by(evaluation_id=row.evaluation_id).limit(1)):
        findings.add("archive: its predictions are archived, and there are others in their table")
    assert evaluation.seal is not None
    if not chain.is_linked(session, "folder", row.digest, evaluation.seal)[1]:
        findings.add("chain: it does not contain the digest of this evaluation's folder; the folder was replaced")
    try:
        store, name = place_of(row, evaluation.seal)
        changed = folder.find_changed_files(store, name, row.digest)
        for file in changed:
            url = store.url_of(f"{name}/{file}")
            findings.add(f"archive: {url} is not the file that was written; bring that back from a backup")
        if changed and not archived:
            hashes = question_hashes(session, evaluation.benchmark_version_id)
            report = check_folder(store, name, row.digest, hashes)
            findings.add_questions(report.questions, "its predictions in the file are not what was sealed")
    except ArchiveError as error:
        if archived:
            findings.add(f"archive: {error}; nothing else was recomputed")
            return False
    return True


def check_archived_metrics(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    """Compare the metrics of an archived evaluation with those in its folder, whose digest is in the chain."""
    row = session.get_one(Archive, evaluation.id)
    assert evaluation.seal is not None
    store, name = place_of(row, evaluation.seal)
    if {folder.METRICS, EVALUATION}.intersection(folder.find_changed_files(store, name, row.digest)):
        return  # check_archive has reported it
    sealed = {_metric_key(metric): metric for metric in folder.read_folder_metrics(store, name)}
    stored = {_metric_key(metric): metric for metric in folder.metrics(session, evaluation.id)}
    for key in sorted(sealed.keys() | stored.keys()):
        scope, metric, version = key
        if key not in stored:
            findings.add(f"metric {metric} ({scope}), definition {version}: missing")
        elif key in sealed and not alike(sealed[key], stored[key]):
            findings.add(f"metric {metric} ({scope}), definition {version}: it is not what its folder has")


def _metric_key(metric: dict[str, Any]) -> tuple[str, str, int]:
    return metric["scope"], metric["metric"], metric["definition_version"]


def check_thoughts(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    """Report questions with a thought whose digest is not the sealed one; deleted thoughts are not reported."""
    query = (
        select(Question.external_id, Generation.thought, Generation.thought_digest)
        .join(Question, Question.id == Generation.question_id)
        .where(Generation.evaluation_id == evaluation.id, Generation.thought.is_not(None))
        .execution_options(yield_per=500)
    )
    changed = [
        row.external_id
        for row in session.execute(query)
        if row.thought_digest is None or digest_of(row.thought) != row.thought_digest
    ]
    findings.add_questions(changed, "a thought is not what was sealed")


def check_leaves(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    """Report the questions whose rows have changed, and check the seal over all of them."""
    formats.require_known(f"evaluation {evaluation.id}", "seal", evaluation.seal_version, formats.SEAL)
    for name in list_unsealed_values(row_document(evaluation)):
        findings.add(f"evaluation: {name} has a value, which a seal of format {evaluation.seal_version} does not cover")
    listed = list(question_leaves(session, evaluation.id))
    computed: dict[int, Leaf] = {leaf.question_id: leaf for leaf in listed}
    seal = specification_digest(manifest(session, evaluation, listed))
    stored: dict[int, tuple[str, str | None, str]] = {
        row.question_id: (row.leaf, row.prompts, row.external_id or f"number {row.question_id}")
        for row in session.execute(
            select(QuestionSeal.question_id, QuestionSeal.leaf, QuestionSeal.prompts, Question.external_id)
            .outerjoin(Question, Question.id == QuestionSeal.question_id)
            .where(QuestionSeal.evaluation_id == evaluation.id)
        )
    }
    findings.add_questions(
        (stored[key][2] for key in stored.keys() - computed.keys()), "was sealed, but is no longer among those asked"
    )
    findings.add_questions(
        (computed[key].external_id for key in computed.keys() - stored.keys()), "the digest that was sealed is missing"
    )
    both = stored.keys() & computed.keys()
    findings.add_questions(
        (computed[key].external_id for key in both if stored[key][0] != computed[key].leaf),
        "its text, options, predictions or generated texts are not what was sealed"
        if seal != evaluation.seal
        else "the digest stored with the seal is not the one that was sealed",
    )
    findings.add_questions(
        (
            computed[key].external_id
            for key in both
            if stored[key][0] == computed[key].leaf and stored[key][1] != computed[key].prompts
        ),
        "the digest of its prompts does not match its predictions",
    )
    if seal != evaluation.seal:
        findings.add(
            "seal: "
            + ("the questions named here" if findings.questions else "its specification, its own columns or its shards")
            + " are not as they were sealed"
        )


def check_copies(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    """Check that each copied result names an existing evaluation, with its number and its seal."""
    pairs = (
        select(Prediction.question_id, Prediction.reused_from_evaluation_id, Prediction.reused_from_seal)
        .where(
            Prediction.evaluation_id == evaluation.id,
            or_(
                Prediction.reused_from_evaluation_id.is_not(null()),
                Prediction.reused_from_seal.is_not(null()),
                Prediction.reused_from_variant.is_not(null()),
            ),
        )
        .distinct()
    )
    copies = session.execute(pairs).all()
    numbers = {row.reused_from_evaluation_id for row in copies} - {None}
    seals = select(Evaluation.id, Evaluation.seal).where(is_in(Evaluation.id, numbers))
    by_number: dict[int, str | None] = dict(session.execute(seals).all())
    wrong = {
        row.question_id
        for row in copies
        if (row.reused_from_evaluation_id is not None and by_number.get(row.reused_from_evaluation_id) is None)
        or row.reused_from_seal is None
        or (
            row.reused_from_evaluation_id is not None
            and row.reused_from_seal is not None
            and row.reused_from_seal != by_number[row.reused_from_evaluation_id]
        )
    }
    findings.add_questions(names_of(session, wrong), "is not copied from the evaluation that it points to")
    sources = select(EvaluationSource.seal, EvaluationSource.predictions).filter_by(evaluation_id=evaluation.id)
    stored = {row.seal: row.predictions for row in session.execute(sources)}
    if stored != list_copied_from(session, evaluation.id):
        findings.add("copies: the list of evaluations that results were copied from does not match its predictions")

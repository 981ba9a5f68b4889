"""Verification: recompute everything stored about a sealed evaluation, and compare it with the stored values."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from registry import chain
from registry.db import MAX_ROW_ID
from registry.lookups import find_evaluation
from registry.predictions.stored import filter_archived
from registry.sealed.manifest import list_sealed_columns
from registry.sealed.verification.derived import (
    check_analyses,
    check_asked,
    check_metrics,
    check_pride,
    check_prompts,
    check_sample,
    check_scores,
)
from registry.sealed.verification.findings import OUTSIDE, TOLERANCE, Findings, alike
from registry.sealed.verification.inputs import (
    check_content,
    check_fingerprints,
    check_references,
    check_specification,
    check_variants,
)
from registry.sealed.verification.place import (
    check_link,
    check_withdrawals,
    find_misplaced_snapshots,
    find_unmatched_links,
    newest_snapshots,
    snapshot_problems,
)
from registry.sealed.verification.sealed import (
    check_archive,
    check_archived_metrics,
    check_copies,
    check_leaves,
    check_thoughts,
)
from registry.sealed.verification.stored import attempt, check_pages, check_stored
from registry.tables import BoardSnapshot, Evaluation

__all__ = ["OUTSIDE", "TOLERANCE", "Findings", "alike", "verify_all", "verify_evaluation"]


def verify_evaluation(session: Session, evaluation_id: int, *, head: str | None = None) -> dict[str, Any]:
    """Recompute the stored values of a sealed evaluation, and report everything that differs or cannot be read.

    This covers prompts, leaves, the seal, question scores, PriDe, metrics with their intervals, analyses, copies, the
    newest snapshots of its boards, and its place in the chain. For an archived evaluation, leaves and seal are
    recomputed from its folder, and metrics are compared with the folder's; the rest can be checked only after its rows
    are restored.
    head: a published head of the chain.
    Raises NotFoundError for an unknown evaluation.
    """
    findings = Findings()
    exists = attempt(session, findings, "evaluation", _exists, session, evaluation_id)
    if exists is False:
        find_evaluation(session, evaluation_id)
    check_stored(session, evaluation_id, findings)
    evaluation = None
    if findings.problems:
        findings.add("nothing else was recomputed: it depends on what cannot be read")
    else:
        evaluation = attempt(session, findings, "evaluation", find_evaluation, session, evaluation_id)
    if evaluation is not None:
        if evaluation.seal is None:
            findings.add(f"not sealed: it is {evaluation.state}")
        else:
            _check_sealed(session, evaluation, findings)
            attempt(session, findings, "chain", _check_chain, session, head, findings)
    seal = None if evaluation is None else evaluation.seal
    number = None if evaluation is None else evaluation.seal_version
    return {
        "evaluation": evaluation_id,
        "seal": seal,
        "seal_version": number,
        "sealed_columns": [] if number is None else list(list_sealed_columns(number)),
        "ok": not findings.problems,
        "problems": findings.problems,
        "questions": sorted(findings.questions),
    }


def _exists(session: Session, evaluation_id: int) -> bool:
    return (
        evaluation_id <= MAX_ROW_ID
        and session.scalar(select(Evaluation.id).where(Evaluation.id == evaluation_id)) is not None
    )


def _check_chain(session: Session, head: str | None, findings: Findings) -> None:
    findings.problems += chain.check_chain(session, head).problems


def _check_sealed(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    def attempt_check(what: str, check: Callable[..., Any], *arguments: Any) -> Any:
        return attempt(session, findings, what, check, *arguments)

    if evaluation.state != "complete":
        findings.add(f"state: it is sealed, yet {evaluation.state}")
    if not attempt_check("what it refers to", check_references, session, evaluation, findings):
        return
    if not attempt_check("archive", check_archive, session, evaluation, findings):
        return
    as_specified = attempt_check("specification", check_specification, evaluation, findings)
    attempt_check("benchmark", check_content, session, evaluation, findings)
    attempt_check("engine", check_fingerprints, session, evaluation, findings)
    attempt_check("seal", check_leaves, session, evaluation, findings)
    if filter_archived(session, [evaluation.id]):
        attempt_check("evaluation_metric", check_archived_metrics, session, evaluation, findings)
    else:
        _check_derived(attempt_check, session, evaluation, findings, as_specified=bool(as_specified))
    attempt_check("chain", check_link, session, evaluation, findings)
    attempt_check("withdrawal", check_withdrawals, session, evaluation, findings)
    attempt_check("board_snapshot", _check_newest_snapshots, session, evaluation, findings)
    attempt_check("board_snapshot", _check_places, session, findings)


def _check_derived(
    check: Callable[..., Any], session: Session, evaluation: Evaluation, findings: Findings, *, as_specified: bool
) -> None:
    """Recompute everything that follows from the rows of an evaluation."""
    check("thoughts", check_thoughts, session, evaluation, findings)
    check("copies", check_copies, session, evaluation, findings)
    check("question_score", check_scores, session, evaluation.id, findings)
    if findings.questions:
        findings.add("prompts, PriDe, metrics and analyses were not recomputed: they depend on what has changed")
    elif as_specified:
        check("variants", check_variants, session, evaluation, findings)
        check("prompts", check_prompts, session, evaluation, findings)
        check("sample", check_sample, session, evaluation, findings)
        check("question_pride", check_pride, session, evaluation.id, findings)
        check("how it was asked", check_asked, session, evaluation, findings)
        check("evaluation_metric", check_metrics, session, evaluation.id, findings)
        check("analysis", check_analyses, session, evaluation.id, findings)


def _check_newest_snapshots(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    for snapshot in newest_snapshots(session, evaluation):
        findings.problems += snapshot_problems(session, snapshot)


def _check_places(session: Session, findings: Findings) -> None:
    findings.problems += find_misplaced_snapshots(session)


def _check_snapshot(session: Session, snapshot_id: int, findings: Findings) -> None:
    findings.problems += snapshot_problems(session, session.get_one(BoardSnapshot, snapshot_id))


def _check_unmatched_links(session: Session, findings: Findings) -> None:
    findings.problems += find_unmatched_links(session)


def verify_all(session: Session, *, head: str | None = None) -> dict[str, Any]:
    """Verify every sealed evaluation, every snapshot and the chain, and check that no link has lost its row."""
    findings = Findings()
    attempt(session, findings, "database file", check_pages, session, findings)
    sealed = select(Evaluation.id).where(Evaluation.seal.is_not(None)).order_by(Evaluation.id)
    reports = []
    for evaluation_id in attempt(session, findings, "evaluation", _ids, session, sealed) or ():
        reports.append(verify_evaluation(session, evaluation_id))
        session.expunge_all()
    check_stored(session, None, findings)
    attempt(session, findings, "chain", _check_chain, session, head, findings)
    snapshots = select(BoardSnapshot.id).order_by(BoardSnapshot.id)
    for snapshot_id in attempt(session, findings, "board_snapshot", _ids, session, snapshots) or ():
        attempt(session, findings, f"board_snapshot {snapshot_id}", _check_snapshot, session, snapshot_id, findings)
        session.expunge_all()
    attempt(session, findings, "board_snapshot", _check_places, session, findings)
    attempt(session, findings, "chain", _check_unmatched_links, session, findings)
    return {
        "ok": not findings.problems and all(report["ok"] for report in reports),
        "evaluations": reports,
        "problems": list(dict.fromkeys(findings.problems)),
    }


def _ids(session: Session, query: Select[tuple[int]]) -> list[int]:
    return list(session.scalars(query))

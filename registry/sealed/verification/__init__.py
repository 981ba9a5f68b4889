"""Verification: everything that is stored of a sealed evaluation is recomputed and compared."""

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
    find_gone,
    find_misplaced_snapshots,
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
    """Recompute the stored values of a sealed evaluation, and list everything that differs or cannot be read.

    Prompts, leaves, seal, question scores, PriDe, metrics with their intervals, analyses, copies, the newest snapshots
    of its boards, and its place in the chain. For an archived evaluation leaves and seal are recomputed from its
    folder, and metrics compared with those in it; everything else needs its rows restored.
    head: a head of the chain that was published.
    Raises NotFoundError for an unknown evaluation.
    """
    found = Findings()
    known = attempt(session, found, "evaluation", _is_there, session, evaluation_id)
    if known is False:
        find_evaluation(session, evaluation_id)
    check_stored(session, evaluation_id, found)
    evaluation = None
    if found.problems:
        found.add("nothing else was recomputed: it depends on what cannot be read")
    else:
        evaluation = attempt(session, found, "evaluation", find_evaluation, session, evaluation_id)
    if evaluation is not None:
        if evaluation.seal is None:
            found.add(f"not sealed: it is {evaluation.state}")
        else:
            _check_sealed(session, evaluation, found)
            attempt(session, found, "chain", _check_chain, session, head, found)
    seal = None if evaluation is None else evaluation.seal
    number = None if evaluation is None else evaluation.seal_version
    return {
        "evaluation": evaluation_id,
        "seal": seal,
        "seal_version": number,
        "sealed_columns": [] if number is None else list(list_sealed_columns(number)),
        "ok": not found.problems,
        "problems": found.problems,
        "questions": sorted(found.questions),
    }


def _is_there(session: Session, evaluation_id: int) -> bool:
    return (
        evaluation_id <= MAX_ROW_ID
        and session.scalar(select(Evaluation.id).where(Evaluation.id == evaluation_id)) is not None
    )


def _check_chain(session: Session, head: str | None, found: Findings) -> None:
    found.problems += chain.check_chain(session, head).problems


def _check_sealed(session: Session, evaluation: Evaluation, found: Findings) -> None:
    def attempt_check(what: str, check: Callable[..., Any], *arguments: Any) -> Any:
        return attempt(session, found, what, check, *arguments)

    if evaluation.state != "complete":
        found.add(f"state: it is sealed, yet {evaluation.state}")
    if not attempt_check("what it refers to", check_references, session, evaluation, found):
        return
    if not attempt_check("archive", check_archive, session, evaluation, found):
        return
    as_specified = attempt_check("specification", check_specification, evaluation, found)
    attempt_check("benchmark", check_content, session, evaluation, found)
    attempt_check("engine", check_fingerprints, session, evaluation, found)
    attempt_check("seal", check_leaves, session, evaluation, found)
    if filter_archived(session, [evaluation.id]):
        attempt_check("evaluation_metric", check_archived_metrics, session, evaluation, found)
    else:
        _check_derived(attempt_check, session, evaluation, found, as_specified=bool(as_specified))
    attempt_check("chain", check_link, session, evaluation, found)
    attempt_check("withdrawal", check_withdrawals, session, evaluation, found)
    attempt_check("board_snapshot", _check_newest_snapshots, session, evaluation, found)
    attempt_check("board_snapshot", _check_places, session, found)


def _check_derived(
    checked: Callable[..., Any], session: Session, evaluation: Evaluation, found: Findings, *, as_specified: bool
) -> None:
    """Recompute everything that follows from the rows of an evaluation."""
    checked("thoughts", check_thoughts, session, evaluation, found)
    checked("copies", check_copies, session, evaluation, found)
    checked("question_score", check_scores, session, evaluation.id, found)
    if found.questions:
        found.add("prompts, PriDe, metrics and analyses were not recomputed: they depend on what has changed")
    elif as_specified:
        checked("variants", check_variants, session, evaluation, found)
        checked("prompts", check_prompts, session, evaluation, found)
        checked("sample", check_sample, session, evaluation, found)
        checked("question_pride", check_pride, session, evaluation.id, found)
        checked("how it was asked", check_asked, session, evaluation, found)
        checked("evaluation_metric", check_metrics, session, evaluation.id, found)
        checked("analysis", check_analyses, session, evaluation.id, found)


def _check_newest_snapshots(session: Session, evaluation: Evaluation, found: Findings) -> None:
    for snapshot in newest_snapshots(session, evaluation):
        found.problems += snapshot_problems(session, snapshot)


def _check_places(session: Session, found: Findings) -> None:
    found.problems += find_misplaced_snapshots(session)


def _check_snapshot(session: Session, snapshot_id: int, found: Findings) -> None:
    found.problems += snapshot_problems(session, session.get_one(BoardSnapshot, snapshot_id))


def _check_gone(session: Session, found: Findings) -> None:
    found.problems += find_gone(session)


def verify_all(session: Session, *, head: str | None = None) -> dict[str, Any]:
    """Verify every sealed evaluation, every snapshot and the chain, and that nothing in the chain is missing."""
    found = Findings()
    attempt(session, found, "database file", check_pages, session, found)
    sealed = select(Evaluation.id).where(Evaluation.seal.is_not(None)).order_by(Evaluation.id)
    reports = []
    for evaluation_id in attempt(session, found, "evaluation", _ids, session, sealed) or ():
        reports.append(verify_evaluation(session, evaluation_id))
        session.expunge_all()
    check_stored(session, None, found)
    attempt(session, found, "chain", _check_chain, session, head, found)
    snapshots = select(BoardSnapshot.id).order_by(BoardSnapshot.id)
    for snapshot_id in attempt(session, found, "board_snapshot", _ids, session, snapshots) or ():
        attempt(session, found, f"board_snapshot {snapshot_id}", _check_snapshot, session, snapshot_id, found)
        session.expunge_all()
    attempt(session, found, "board_snapshot", _check_places, session, found)
    attempt(session, found, "chain", _check_gone, session, found)
    return {
        "ok": not found.problems and all(report["ok"] for report in reports),
        "evaluations": reports,
        "problems": list(dict.fromkeys(found.problems)),
    }


def _ids(session: Session, query: Select[tuple[int]]) -> list[int]:
    return list(session.scalars(query))

"""Verification: everything that is stored of a sealed evaluation is recomputed and compared."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.lookups import find_evaluation
from registry.proof import chain
from registry.tables import BoardSnapshot, Evaluation
from registry.verification.derived import (
    check_analyses,
    check_asked,
    check_metrics,
    check_pride,
    check_prompts,
    check_scores,
)
from registry.verification.findings import OUTSIDE, TOLERANCE, Findings, alike
from registry.verification.inputs import (
    check_content,
    check_fingerprints,
    check_references,
    check_specification,
    check_variants,
)
from registry.verification.place import (
    check_link,
    check_withdrawals,
    gone,
    misplaced_snapshots,
    newest_snapshots,
    snapshot_problems,
)
from registry.verification.sealed import check_copies, check_leaves

__all__ = ["OUTSIDE", "TOLERANCE", "Findings", "alike", "verify_all", "verify_evaluation"]


def verify_evaluation(session: Session, evaluation_id: int, *, head: str | None = None) -> dict[str, Any]:
    """Recomputes what is stored of a sealed evaluation, and lists what does not match.

    Prompts, leaves, seal, question scores, PriDe, metrics with their intervals, analyses, copies, the newest snapshots
    of boards that it is on, and its place in the chain. head: a head of the chain that was published.
    """
    evaluation = find_evaluation(session, evaluation_id)
    found = Findings()
    if evaluation.seal is None:
        found.add(f"not sealed: it is {evaluation.state}")
    else:
        _check_sealed(session, evaluation, found)
        found.problems += chain.check_chain(session, head).problems
    return {
        "evaluation": evaluation_id,
        "seal": evaluation.seal,
        "seal_version": evaluation.seal_version if evaluation.seal else None,
        "ok": not found.problems,
        "problems": found.problems,
        "questions": sorted(found.questions),
    }


def _check_sealed(session: Session, evaluation: Evaluation, found: Findings) -> None:
    if evaluation.state != "complete":
        found.add(f"state: it is sealed, yet {evaluation.state}")
    if not check_references(session, evaluation, found):
        return
    as_specified = check_specification(evaluation, found)
    check_content(session, evaluation, found)
    check_fingerprints(session, evaluation, found)
    check_leaves(session, evaluation, found)
    check_copies(session, evaluation, found)
    check_scores(session, evaluation.id, found)
    if found.questions:
        found.add("prompts, PriDe, metrics and analyses were not recomputed: they depend on what has changed")
    elif as_specified:
        check_variants(session, evaluation, found)
        check_prompts(session, evaluation, found)
        check_pride(session, evaluation.id, found)
        check_asked(session, evaluation, found)
        check_metrics(session, evaluation.id, found)
        check_analyses(session, evaluation.id, found)
    check_link(session, evaluation, found)
    check_withdrawals(session, evaluation, found)
    for snapshot in newest_snapshots(session, evaluation):
        found.problems += snapshot_problems(session, snapshot)
    found.problems += misplaced_snapshots(session)


def verify_all(session: Session, *, head: str | None = None) -> dict[str, Any]:
    """Verifies every sealed evaluation, every snapshot and the chain; and that nothing the chain holds is gone."""
    sealed = session.scalars(select(Evaluation.id).where(Evaluation.seal.is_not(None)).order_by(Evaluation.id)).all()
    reports = []
    for evaluation_id in sealed:
        reports.append(verify_evaluation(session, evaluation_id))
        session.expunge_all()
    problems = chain.check_chain(session, head).problems
    for snapshot_id in session.scalars(select(BoardSnapshot.id).order_by(BoardSnapshot.id)).all():
        problems += snapshot_problems(session, session.get_one(BoardSnapshot, snapshot_id))
        session.expunge_all()
    problems += [*misplaced_snapshots(session), *gone(session)]
    return {
        "ok": not problems and all(report["ok"] for report in reports),
        "evaluations": reports,
        "problems": list(dict.fromkeys(problems)),
    }

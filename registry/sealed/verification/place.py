"""Check an evaluation's place in its registry: the chain, withdrawals, snapshots."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry import chain
from registry.boards.snapshots import snapshot_digest, snapshot_labels, standing_rows
from registry.boards.store import compute_asked_digests
from registry.errors import ShuffleboardError
from registry.sealed.manifest import local_labels
from registry.sealed.verification.findings import Findings, alike
from registry.sealed.withdrawals import withdrawal_digest
from registry.tables import Board, BoardEntry, BoardSnapshot, BoardStanding, ChainLink, Evaluation, Withdrawal


def check_link(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    """Check that the chain contains the seal, with the names and the request of the evaluation."""
    assert evaluation.seal is not None
    linked, same = chain.is_linked(session, "seal", evaluation.seal, local_labels(evaluation))
    if not linked:
        findings.add("chain: it does not contain this seal; the seal was replaced")
    elif not same:
        findings.add(
            "chain: its requester, time of request, or the names of its model, benchmark or protocol are not as they "
            "were when it was sealed"
        )


def check_withdrawals(session: Session, evaluation: Evaluation, findings: Findings) -> None:
    """Check the withdrawals of this evaluation, and that no withdrawal of any evaluation is missing."""
    linked = set(session.scalars(select(ChainLink.subject).filter_by(kind="withdrawal")))
    query = select(Evaluation, Withdrawal).join(Withdrawal, Withdrawal.evaluation_id == Evaluation.id)
    for other, row in session.execute(query):
        digest = withdrawal_digest(other, row)
        if digest not in linked and other.id == evaluation.id:
            findings.add(f"withdrawal: that it was {row.kind}, or why, is not what the chain says")
        linked.discard(digest)
    for digest in sorted(linked):
        findings.add(f"chain: withdrawal {digest} is no longer in the registry, or has changed")


def newest_snapshots(session: Session, evaluation: Evaluation) -> Iterator[BoardSnapshot]:
    """Yield the newest snapshot of each board that may show the evaluation."""
    entries = session.scalars(
        select(BoardEntry).where(
            BoardEntry.benchmark_version_id == evaluation.benchmark_version_id,
            BoardEntry.protocol_id == evaluation.protocol_id,
            BoardEntry.variant_set_id == evaluation.variant_set_id,
        )
    ).all()
    showing = {entry.board_id for entry in entries if evaluation.asked_digest in compute_asked_digests(entry)}
    for board_id in sorted(showing):
        newest = select(BoardSnapshot).filter_by(board_id=board_id).order_by(BoardSnapshot.id.desc()).limit(1)
        yield from session.scalars(newest)


def find_misplaced_snapshots(session: Session) -> Iterator[str]:
    """Yield a problem for each snapshot that the chain does not contain with its board and its time."""
    links = select(ChainLink.subject, ChainLink.labels).filter_by(kind="snapshot")
    linked = {(row.subject, row.labels) for row in session.execute(links)}
    stored = select(BoardSnapshot.digest, BoardSnapshot.as_of, Board.digest.label("board")).outerjoin(
        Board, Board.id == BoardSnapshot.board_id
    )
    for row in session.execute(stored.order_by(BoardSnapshot.id)):
        if (row.digest, snapshot_labels(row.board, row.as_of)) not in linked:
            yield f"chain: it does not contain snapshot {row.digest} of this board and this time"


def snapshot_problems(session: Session, snapshot: BoardSnapshot) -> list[str]:
    """Check the digest, the board and the standings of a snapshot, and return the problems."""
    document = snapshot.document
    name = f"board {document['board']}, snapshot {snapshot.digest[:12]}…"
    problems = []
    if snapshot_digest(document) != snapshot.digest:
        return [f"{name}: it does not match its digest"]
    if document["board_digest"] != snapshot.board.digest:
        problems.append(f"{name}: it does not belong to this version of the board")
    columns = [column for column in BoardStanding.__table__.columns if column.key != "board_snapshot_id"]
    stored = {
        (row["model_revision_id"], row["column_name"]): dict(row)
        for row in session.execute(
            select(*columns).where(BoardStanding.__table__.c.board_snapshot_id == snapshot.id)
        ).mappings()
    }
    try:
        rows = standing_rows(session, snapshot)
    except ShuffleboardError as error:
        return [*problems, f"{name}: its standings cannot be recomputed ({error})"]
    computed = {
        (row["model_revision_id"], row["column_name"]): {
            key: value for key, value in row.items() if key != "board_snapshot_id"
        }
        for row in rows
    }
    if not alike(stored, computed):
        problems.append(f"{name}: its standings in SQL differ from its document")
    return problems


def find_unmatched_links(session: Session) -> Iterator[str]:
    """Yield a problem for each link whose row is gone, and for each seal or snapshot without a link."""
    stored: dict[str, Counter[Any]] = {
        "seal": Counter(session.scalars(select(Evaluation.seal).where(Evaluation.seal.is_not(None)))),
        "snapshot": Counter(session.scalars(select(BoardSnapshot.digest))),
    }
    for kind, counted in stored.items():
        linked = Counter(session.scalars(select(ChainLink.subject).filter_by(kind=kind)))
        for subject in linked - counted:
            yield f"chain: {kind} {subject} is no longer in the registry"
        for subject in counted - linked:
            yield f"chain: {kind} {subject} is in the registry but has no link"

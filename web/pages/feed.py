"""The Atom feed (RFC 4287) of the events that the reader may see."""

from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from flask import Blueprint, make_response, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import select

from registry.db import read_session
from registry.schema.selectables import Row
from registry.sealed.signing import signatures
from registry.tables import Board, BoardSnapshot, Evaluation, Withdrawal
from registry.tables.accounts import Submission
from web.serving.responses import session
from web.shown import queries
from web.urls.parameters import Query, read
from web.who import addresses
from web.who.identity import engine, viewer

blueprint = Blueprint("feed", __name__)

ENTRIES: Final = 100
ATOM: Final = "http://www.w3.org/2005/Atom"
_BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
_HAS_FAILED: Final = Evaluation.state == "failed"


@blueprint.get("/feed.atom")
def feed() -> ResponseReturnValue:
    """Return the newest events: evaluations and snapshots that the viewer may see, their own submissions, signatures.

    Maintainers see all submissions. Programs that read more than public data send a token.
    """
    read(Query, request.args)
    entries = [*_evaluations(), *_snapshots(), *_submissions(), *_signatures()]
    entries.sort(key=lambda entry: (entry["at"], entry["number"]), reverse=True)
    return _answer(entries[:ENTRIES])


def _answer(entries: list[Row]) -> ResponseReturnValue:
    response = make_response(_document(entries))
    response.content_type = "application/atom+xml; charset=utf-8"
    response.add_etag()
    return response.make_conditional(request)


def _evaluations() -> list[Row]:
    """Return the newest seals, failures and withdrawals of evaluations that the viewer may see."""
    entries = []
    for kind, happened, events in (
        ("complete", "is complete", select(Evaluation.id, Evaluation.sealed_at.label("at"))),
        ("failed", "has failed", select(Evaluation.id, Evaluation.failed_at.label("at")).where(_HAS_FAILED)),
        ("withdrawn", "no longer counts", select(Withdrawal.evaluation_id, Withdrawal.at)),
    ):
        at = events.selected_columns.at
        newest = session().execute(events.where(at.is_not(None)).order_by(at.desc()).limit(ENTRIES)).all()
        ids = {number for number, _ in newest}
        rows, _ = queries.evaluations(session(), conditions=[Evaluation.id.in_(ids)], limit=ENTRIES)
        by_id = {row["evaluation_id"]: row for row in rows}
        entries += [_evaluation(by_id[number], at, kind, happened) for number, at in newest if number in by_id and at]
    return entries


def _evaluation(row: Row, at: datetime, kind: str, happened: str) -> Row:
    number = row["evaluation_id"]
    return {
        "id": f"evaluation/{number}/{kind}",
        "number": number,
        "at": at,
        "kind": f"evaluation.{kind}",
        "title": f"{row['model']} on {row['benchmark']} {happened}",
        "summary": f"Evaluation {number}: revision {row['revision']}, {row['variants']}, {row['protocol']}, "
        f"{row['shots']} shots, {row['questions']} questions, {row['prompts']} prompts.",
        "address": url_for("pages.evaluation", evaluation_id=number),
    }


def _snapshots() -> list[Row]:
    """Return the newest snapshots of boards that the viewer may see."""
    newest = (
        select(BoardSnapshot.id, BoardSnapshot.as_of, BoardSnapshot.digest, Board.name)
        .join(Board)
        .order_by(BoardSnapshot.id.desc())
        .limit(ENTRIES)
    )
    return [
        {
            "id": f"snapshot/{row.id}",
            "number": row.id,
            "at": row.as_of,
            "kind": "board.snapshot",
            "title": f"Board {row.name} has a new snapshot",
            "summary": f"Snapshot {row.digest}.",
            "address": url_for("boards.snapshot", digest=row.digest),
        }
        for row in session().execute(newest)
    ]


def _submissions() -> list[Row]:
    """Return the newest requests, decisions and outcomes of submissions that the viewer may open."""
    asking = viewer()
    if not asking.may("submit"):
        return []
    entries = []
    with read_session(engine()) as database:
        for at, happened in (
            (Submission.created_at, "requested"),
            (Submission.decided_at, None),
            (Submission.finished_at, "finished"),
        ):
            query = select(Submission).where(at.is_not(None)).order_by(at.desc()).limit(ENTRIES)
            if not asking.may("maintain"):
                query = query.where(Submission.account_id == asking.account_id)
            rows = database.scalars(query)
            entries += [_submission(row, getattr(row, at.key), happened or row.state) for row in rows]
    return entries


def _submission(row: Submission, at: datetime, happened: str) -> Row:
    return {
        "id": f"submission/{row.id}/{happened}",
        "number": row.id,
        "at": at,
        "kind": f"submission.{happened}",
        "title": f"{row.model['name']} on suite {row.suite}: {happened}",
        "summary": f"Submission {row.id}.",
        "address": url_for("submitting.submission", submission_id=row.id),
    }


def _signatures() -> list[Row]:
    """Return the newest signatures of the chain's head, with the statement and its signature."""
    return [
        {
            "id": f"signature/{row.id}",
            "number": row.id,
            "at": row.at,
            "kind": "chain.signed",
            "title": f"The chain of seals was signed at link {row.position}",
            "summary": f"Statement: {row.statement} Signature (Ed25519, base64): {row.signature}",
            "address": url_for("proof.chain"),
        }
        for row in signatures(session(), limit=ENTRIES)
    ]


def _document(entries: list[Row]) -> bytes:
    base = addresses.base()
    host = urlsplit(base).hostname or "localhost"
    ET.register_namespace("", ATOM)
    root = ET.Element(f"{{{ATOM}}}feed")
    _add(root, "id", f"tag:{host},{_BEGINNING:%Y-%m-%d}:feed")
    _add(root, "title", "Shuffleboard")
    _add(root, "updated", _time(entries[0]["at"] if entries else _BEGINNING))
    _link(root, "self", base + url_for("feed.feed"), "application/atom+xml")
    _link(root, "alternate", base + url_for("pages.leaderboard"), "text/html")
    _add(_add(root, "author"), "name", f"Shuffleboard at {host}")
    for entry in entries:
        item = _add(root, "entry")
        _add(item, "id", f"tag:{host},{entry['at']:%Y-%m-%d}:{entry['id']}")
        _add(item, "title", entry["title"])
        _add(item, "updated", _time(entry["at"]))
        _add(item, "summary", entry["summary"])
        _link(item, "alternate", base + entry["address"], "text/html")
        ET.SubElement(item, f"{{{ATOM}}}category", term=entry["kind"])
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _add(parent: ET.Element, name: str, text: str | None = None) -> ET.Element:
    child = ET.SubElement(parent, f"{{{ATOM}}}{name}")
    child.text = text
    return child


def _link(parent: ET.Element, relation: str, address: str, kind: str) -> None:
    ET.SubElement(parent, f"{{{ATOM}}}link", rel=relation, href=address, type=kind)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

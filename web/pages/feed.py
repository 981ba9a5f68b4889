"""Atom feeds (RFC 4287): the events that the reader may see, and what happened to a board."""

from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from flask import Blueprint, make_response, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import or_, select

from registry.boards.changelog import changelog
from registry.boards.deprecation import DEPRECATED, REINSTATED
from registry.boards.store import board_definition
from registry.db import read_session
from registry.proof.signing import signatures
from registry.schema.selectables import Row
from registry.studies.schedules import MOVED
from registry.tables import Board, BoardDeprecation, Evaluation
from registry.tables.accounts import Notice, Submission
from web.pages.boards import shown_board
from web.serving.responses import session
from web.shown import queries
from web.urls.parameters import Query, read
from web.who import addresses
from web.who.identity import engine, viewer

blueprint = Blueprint("feed", __name__)

ENTRIES: Final = 100
ATOM: Final = "http://www.w3.org/2005/Atom"
_BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)
_OF_EVALUATIONS: Final = {
    "evaluation.complete": "is complete",
    "evaluation.failed": "has failed",
    "evaluation.withdrawn": "no longer counts",
    MOVED: "no longer answers as it did",
}
_OF_BOARDS: Final = {DEPRECATED: "was deprecated", REINSTATED: "is no longer deprecated"}


@blueprint.get("/feed.atom")
def feed() -> ResponseReturnValue:
    """The newest events: signatures of the chain, evaluations that the viewer may see, and their own submissions.

    Maintainers see all submissions. Programs that read more than public data send a token.
    """
    read(Query, request.args)
    entries = [*_evaluations(), *_boards(), *_submissions(), *_signatures()]
    entries.sort(key=lambda entry: (entry["at"], entry["number"]), reverse=True)
    return _answer(entries[:ENTRIES], "Shuffleboard", "feed", url_for("feed.feed"), url_for("pages.leaderboard"))


@blueprint.get("/boards/<name>/changelog.atom")
def board_feed(name: str) -> ResponseReturnValue:
    """What happened to a board."""
    read(Query, request.args)
    board = shown_board(name)
    page = url_for("boards.board_changelog", name=board.name)
    entries = [
        {
            "id": f"board/{board.name}/{change.snapshot or f'link/{change.link}'}",
            "at": change.at,
            "kind": change.events[0].kind,
            "title": change.events[0].text,
            "summary": " ".join(event.text for event in change.events),
            "address": page if change.snapshot is None else url_for("boards.snapshot", digest=change.snapshot),
        }
        for change in changelog(session(), board.name)[:ENTRIES]
    ]
    title = f"Changes of {board_definition(board).title}"
    return _answer(entries, title, f"board/{board.name}", url_for("feed.board_feed", name=board.name), page)


def _answer(entries: list[Row], title: str, name: str, own: str, page: str) -> ResponseReturnValue:
    response = make_response(_document(entries, title, name, own, page))
    response.content_type = "application/atom+xml; charset=utf-8"
    response.add_etag()
    return response.make_conditional(request)


def _evaluations() -> list[Row]:
    """The newest notices of evaluations that the session sees, with only the details it sees."""
    # Notices have no audience of their own: whether one is shown depends on its evaluation, which the session filters.
    seen = (
        select(Notice.id, Notice.at, Notice.kind, Notice.evaluation_id)
        .join(Evaluation, Evaluation.id == Notice.evaluation_id)
        .where(Notice.kind.in_(_OF_EVALUATIONS))
        .order_by(Notice.id.desc())
        .limit(ENTRIES)
    )
    notices = session().execute(seen).all()
    ids = {notice.evaluation_id for notice in notices}
    rows, _ = queries.evaluations(session(), conditions=[Evaluation.id.in_(ids)], limit=ENTRIES)
    by_id = {row["evaluation_id"]: row for row in rows}
    return [
        _entry(
            notice,
            f"{row['model']} on {row['benchmark']} {_OF_EVALUATIONS[notice.kind]}",
            f"Evaluation {row['evaluation_id']}: revision {row['revision']}, {row['variants']}, {row['protocol']}, "
            f"{row['shots']} shots, {row['questions']} questions, {row['prompts']} prompts.",
            url_for("pages.evaluation", evaluation_id=row["evaluation_id"]),
        )
        for notice in notices
        if (row := by_id.get(notice.evaluation_id)) is not None
    ]


def _boards() -> list[Row]:
    """The newest notices of boards that the session sees."""
    query = select(BoardDeprecation, Board.name).join(Board).order_by(BoardDeprecation.id.desc()).limit(ENTRIES)
    seen = {str(row.BoardDeprecation.id): row for row in session().execute(query)}
    notices = session().scalars(select(Notice).where(Notice.kind.in_(_OF_BOARDS), Notice.key.in_(seen)))
    entries = []
    for notice in notices:
        name, why = seen[notice.key].name, seen[notice.key].BoardDeprecation.reason
        summary = why if notice.kind == DEPRECATED else "Submissions are taken again."
        address = url_for("boards.board", name=name)
        entries.append(_entry(notice, f"Board {name} {_OF_BOARDS[notice.kind]}", summary, address))
    return entries


def _submissions() -> list[Row]:
    """The newest notices of submissions, for those who may open them."""
    asking = viewer()
    if not asking.may("submit"):
        return []
    with read_session(engine()) as database:
        own = Submission.account_id == asking.account_id
        found = database.execute(
            select(Notice.id, Notice.at, Notice.kind, Submission)
            .join(Submission, Submission.id == Notice.submission_id)
            .where(or_(own, asking.may("maintain")))  # type: ignore[arg-type]
            .order_by(Notice.id.desc())
            .limit(ENTRIES)
        ).all()
    return [
        _entry(
            row,
            f"{row.Submission.model['name']} on suite {row.Submission.suite}: {row.kind.partition('.')[2]}",
            f"Submission {row.Submission.id}.",
            url_for("submitting.submission", submission_id=row.Submission.id),
        )
        for row in found
    ]


def _signatures() -> list[Row]:
    """The newest signatures of the chain's head, with the statement and its signature."""
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


def _entry(notice: Any, title: str, summary: str, address: str) -> Row:
    return {
        "id": f"notice/{notice.id}",
        "number": notice.id,
        "at": notice.at,
        "kind": notice.kind,
        "title": title,
        "summary": summary,
        "address": address,
    }


def _document(entries: list[Row], title: str, name: str, own: str, page: str) -> bytes:
    """The feed of that name. own: its address; page: that of what it is about."""
    base = addresses.base()
    host = urlsplit(base).hostname or "localhost"
    ET.register_namespace("", ATOM)
    root = ET.Element(f"{{{ATOM}}}feed")
    _add(root, "id", f"tag:{host},{_BEGINNING:%Y-%m-%d}:{name}")
    _add(root, "title", title)
    _add(root, "updated", _time(entries[0]["at"] if entries else _BEGINNING))
    _link(root, "self", base + own, "application/atom+xml")
    _link(root, "alternate", base + page, "text/html")
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

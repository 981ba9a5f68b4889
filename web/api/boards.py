"""Suites, boards and snapshots as JSON."""

from typing import Any

from flask import Response, url_for
from pydantic import Field
from sqlalchemy import func, select

from registry.boards.reading import snapshot_as_of, snapshots_of
from registry.boards.store import board_definition, current_boards, suite_definition
from registry.db import pick
from registry.lookups import find_suite
from registry.schema.selectables import Row
from registry.sealed.provenance import link_document
from registry.sealed.signing import covering
from registry.tables import Board, Suite
from web.api import answers
from web.api.operations import answer, get
from web.api.paths import BoardName, SnapshotDigest, SuiteName
from web.api.proof import signature_document
from web.pages.boards import find_shown_board, find_shown_snapshot, snapshot_document
from web.pages.own import Chosen, build_selected
from web.serving.responses import session
from web.urls.parameters import Query, TimeTo


@get("/suites", answers.SuiteList, tag="boards")
def suites() -> Response:
    """List the newest version of every suite."""
    newest = select(Suite.name, func.max(Suite.version).label("version")).group_by(Suite.name).subquery()
    query = select(Suite).join(newest, (newest.c.name == Suite.name) & (newest.c.version == Suite.version))
    return answer({"items": [_suite(row) for row in session().scalars(query.order_by(Suite.name))]})


def _suite(suite: Suite) -> Row:
    return pick(suite, ("name", "version", "digest", "created_at")) | {"title": suite_definition(suite).title}


@get("/suites/<suite>", answers.SuiteDocument, tag="boards")
def suite(suite: SuiteName) -> Response:
    """Return a suite with its definition."""
    row = find_suite(session(), suite)
    return answer(_suite(row) | {"definition": row.definition})


@get("/boards", answers.BoardList, tag="boards")
def boards() -> Response:
    """List every board."""
    return answer({"items": [_describe(item) for item in current_boards(session())]})


def _describe(board: Board) -> Row:
    definition = board_definition(board)
    return {
        "board": board.name,
        "version": board.version,
        "digest": board.digest,
        "title": definition.title,
        "suite": {"name": board.suite.name, "version": board.suite.version},
        "columns": list(definition.columns),
        "url": url_for("boards.board", name=board.name),
    }


class BoardQuery(Query):
    """The time of a board; now by default."""

    as_of: TimeTo | None = Field(
        None, description="As it stood at this date (its end) or time, UTC where no zone is given."
    )


@get("/boards/<board>", answers.Board, tag="boards")
def board(board: BoardName, query: BoardQuery) -> Response:
    """Return a board, now or as of a date, with its definition, rows and digest."""
    shown_board = find_shown_board(board)
    return answer(snapshot_document(snapshot_as_of(session(), shown_board.name, query.as_of)))


@get("/boards/<board>/selection", answers.SelectedBoard, tag="boards")
def board_selection(board: BoardName, query: Chosen) -> Response:
    """Compute a board from chosen tasks, weights, columns and models, with ranks, intervals and tiers."""
    return answer(build_selected(find_shown_board(board), query)[0])


@get("/boards/<board>/snapshots", answers.SnapshotList, tag="boards")
def snapshots(board: BoardName) -> Response:
    """List every snapshot of a board, newest first."""
    items = [
        {
            "as_of": item.as_of,
            "digest": item.digest,
            "board_version": item.board.version,
            "url": url_for("boards.snapshot", digest=item.digest),
            "signature": signature_of(item.digest),
        }
        for item in snapshots_of(session(), find_shown_board(board).name)
    ]
    return answer({"items": items})


def signature_of(digest: str) -> dict[str, Any] | None:
    """Return the first signature that covers a snapshot, as JSON; None if there is none yet."""
    link = link_document(session(), digest, kind="snapshot")
    signature = None if link is None else covering(session(), link["position"])
    return None if signature is None else signature_document(signature)


@get("/snapshots/<digest>", answers.Board, tag="boards")
def snapshot(digest: SnapshotDigest) -> Response:
    """Return a snapshot of a board."""
    return answer(snapshot_document(find_shown_snapshot(digest)), unchanging=True)

"""Publishing: a board with all its pages, as files that any web server can serve.

Every page is the website's page for an anonymous visitor. Parts that need a server are left out, links lead to files,
and links to unpublished pages become text.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from flask import Flask
from sqlalchemy import Engine

from registry.boards.reading import find_snapshot
from registry.db import get_engine, read_session, write_session
from registry.errors import DatabaseError, NotFoundError, ShuffleboardError, UsageError
from registry.exchange.exports import ExportRequest, export
from registry.exchange.exports.relations import RELATIONS
from registry.lookups import find_sealed
from registry.names import suggest_names
from registry.schema.audiences import audience_engine
from registry.sealed.archiving import copy, record
from registry.sealed.signing import sign_if_possible
from registry.sealed.sites import DATA, OF_EVALUATION, proof_files
from registry.settings import Settings
from registry.sql.files import save
from registry.sql.relations import Part
from web import create_app
from web.publishing.expected import Expected, estimate_site
from web.publishing.files import Folder
from web.publishing.pages import Frame, install
from web.publishing.places import BOARD, Places, Scope, file_of, relative
from web.publishing.queries import FILES, MORE
from web.publishing.rewriting import rewrite

_HTML: Final = "text/html"
Report = Callable[[int], None]
"""Receives the number of files so far."""
Announce = Callable[[Expected], None]
"""Receives the estimate, before anything is written."""


@dataclass(frozen=True)
class Published:
    """The result of a run. changed: files written again; removed: files that no page links to any more.

    key: fingerprint of the key that signed the chain's head; None without a key.
    """

    files: int
    bytes: int
    changed: int
    removed: int
    key: str | None = None


def publish(
    settings: Settings, board: str, to: Path, report: Report | None = None, announce: Announce | None = None
) -> Published:
    """Write the board's site into a folder. The same board gives the same bytes.

    Only data that anonymous visitors may see is written. A run that is killed leaves complete files, and the next run
    writes the rest. Raises NotFoundError for a board that is not public, UsageError for a folder with other files.
    """
    settings = _open_to_all(settings)
    document = board_document(settings, board)
    scope = Scope.of(document)
    folder = Folder(to)
    ids = tuple(sorted(map(int, scope.evaluations)))
    engine = get_engine(settings.resolve_database_url())
    with tempfile.TemporaryDirectory(prefix="shuffleboard-publish-") as scratch:
        data = Path(scratch) / DATA
        title = document.get("title") or scope.board
        app = create_app(settings, keep_pages=False)
        install(app, Frame(scope.board, title, document.get("text") or "", ids), data)
        if announce is not None:
            with read_session(engine) as session:
                announce(estimate_site(app, session, scope, ids))
        record(engine, ids)
        key = _sign(engine, settings)
        write_tables(engine, Part(ids, scope.board), data)
        with read_session(engine) as session:
            for evaluation_id in ids:
                copy(session, find_sealed(session, evaluation_id), data / f"{OF_EVALUATION}{evaluation_id}")
            proof = proof_files(session, find_snapshot(session, document["digest"]))
            done = _Site(app, scope, folder, report or (lambda _: None)).write(proof)
    return replace(done, key=key)


def _open_to_all(settings: Settings) -> Settings:
    """Return settings under which anonymous visitors may read: the publisher of a board decides who reads it."""
    return settings.model_copy(update={"anonymous_reading": True})


def board_document(settings: Settings, board: str) -> dict[str, Any]:
    """Return a board as the API returns it to anonymous visitors.

    Raises NotFoundError for a board that is not public, UsageError for one without a complete evaluation, DatabaseError
    if it cannot be read.
    """
    app = create_app(_open_to_all(settings), keep_pages=False)
    app.config["PROPAGATE_EXCEPTIONS"] = True  # a bug must not look like a missing board
    client = app.test_client()
    answer = client.get(f"/api/v1/boards/{board}")
    if answer.status_code != HTTPStatus.OK or answer.json is None:
        if answer.status_code != HTTPStatus.NOT_FOUND:
            raise DatabaseError(
                f"the board {board!r} cannot be read: {(answer.json or {}).get('detail', answer.status)}"
            )
        listed = client.get("/api/v1/boards").json or {}
        boards = [row["board"] for row in listed.get("items", [])]
        raise NotFoundError(f"there is no public board {board!r}{suggest_names(board, boards)}")
    document: dict[str, Any] = answer.json
    if not Scope.of(document).evaluations:
        raise UsageError(f"the board {board!r} has no complete evaluation yet, so there is nothing to publish")
    return document


def write_tables(engine: Engine, part: Part, folder: Path) -> None:
    """Write the public rows of a part, for the site's queries, into a new folder; predictions are not among them."""
    left_out = frozenset(RELATIONS).difference(MORE)
    export(engine, ExportRequest("parquet", evaluations=part.evaluations, without=left_out), folder)
    with read_session(audience_engine(engine, "public")) as session:
        for name in FILES:
            save(session, name, folder / f"{name}.parquet", part)


def _sign(engine: Engine, settings: Settings) -> str | None:
    """Sign the chain's head, if there is a key; return the key's fingerprint."""
    with write_session(engine) as session:
        signed = sign_if_possible(session, settings)
    return None if signed is None else signed.statement.key


class _Site:
    """Follows the links from the board, depth first, so that few pages are in memory at once."""

    def __init__(self, app: Flask, scope: Scope, folder: Folder, report: Report) -> None:
        self._client = app.test_client()
        self._places = Places(app.url_map.bind("localhost"), scope)
        self._scope = scope
        self._folder = folder
        self._report = report
        self._files: dict[str, str | None] = {}
        """Canonical address → file; None if anonymous visitors may not see the page."""
        self._waiting: list[tuple[str, str, bytes]] = []
        """File, media type and body of responses that are not written yet."""

    def write(self, proof: Mapping[str, bytes]) -> Published:
        """Write every file. proof: files from `proof_files`."""
        start = f"/boards/{self._scope.board}"
        self._file(start)
        written = 0
        while self._waiting:
            file, media_type, body = self._waiting.pop()
            if media_type == _HTML:
                page = body.decode()
                self._folder.write(file, self._page(page, file))
                if file == file_of(start, _HTML):
                    self._folder.write(BOARD, self._page(page, BOARD))
            else:
                self._folder.write(file, body)
            written += 1
            self._report(written)
        for name, content in proof.items():
            self._folder.write(name, content)
            written += 1
        removed = self._folder.finish()
        return Published(written + 1, self._folder.bytes, self._folder.changed, removed)

    def _page(self, page: str, file: str) -> bytes:
        def target(address: str) -> str | None:
            address, hash_, fragment = address.partition("#")
            if not address.startswith("/"):
                return address + hash_ + fragment
            linked_file = self._file(self._places.canonical(address))
            return None if linked_file is None else relative(linked_file, file) + hash_ + fragment

        return rewrite(page, target).encode()

    def _file(self, address: str | None) -> str | None:
        """Return the file of a canonical address, requesting its page on first use."""
        if address is None or address in self._files:
            return self._files.get(address or "")
        with self._client.get(address) as response:
            if response.status_code == HTTPStatus.OK:
                media_type = response.mimetype or ""
                file = file_of(address, media_type)
                self._files[address] = file
                self._waiting.append((file, media_type, response.get_data()))
            elif response.status_code in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT}:
                self._files[address] = None
            else:
                raise ShuffleboardError(f"the page {address} cannot be published: it answers {response.status}")
        return self._files[address]

"""The addresses of the website that belong to a published board, and the file of each."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter, RequestRedirect

BOARD: Final = "index.html"
"""First page of a published site."""

_ALWAYS: Final = frozenset(
    {
        "api.board",
        "api.snapshot",
        "boards.snapshot",
        "pages.metrics_guide",
        "pages.question",
        "proof.explained",
        "proof.newest_key",
        "sharing.board_as_table",
        "sharing.snapshot_as_table",
        "sharing.snapshot_bibtex",
        "site.data",
        "site.query",
        "site.static",
        "static",
    }
)
"""Endpoints whose pages are published whenever a page of the site links to them."""
_BY_EVALUATION: Final = frozenset(
    {
        "pages.evaluation",
        "proof.provenance",
        "sharing.evaluation_bibtex",
        "site.sealed",
    }
)
_BY_BENCHMARK: Final = frozenset({"api.benchmark", "pages.benchmark"})
_BY_MODEL: Final = frozenset({"api.model", "pages.model"})


@dataclass(frozen=True)
class Scope:
    """The subjects of a board. benchmarks: name → version."""

    board: str
    models: frozenset[str]
    evaluations: frozenset[str]
    benchmarks: Mapping[str, str]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Scope":
        """Return the scope of a board's report."""
        return cls(
            document["board"],
            frozenset(row["model"] for row in document["rows"]),
            frozenset(str(item["evaluation"]) for row in document["rows"] for item in row["evaluations"] if item),
            {entry["benchmark"]: entry["version"] for entry in document["entries"]},
        )


class Places:
    """Maps addresses of the website to files of the site."""

    def __init__(self, urls: MapAdapter, scope: Scope) -> None:
        self._urls = urls
        self._scope = scope

    def canonical(self, address: str) -> str | None:
        """Return the canonical address of a page of the website; None if it is not published.

        Only the page of a list is kept from a query string: another order of the same rows is the same page.
        """
        parts = urlsplit(address)
        try:
            endpoint, values = self._urls.match(unquote(parts.path) or "/", method="GET")
        except (HTTPException, RequestRedirect):
            return None
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        if endpoint == "pages.evaluation_question":
            return f"/questions/{values['question_id']}"
        if endpoint == "static":
            query.pop("v", None)
        if endpoint in _BY_BENCHMARK and query.get("version") == self._scope.benchmarks.get(values["benchmark"]):
            query.pop("version", None)
        page = query.pop("page", None) if endpoint == "pages.benchmark" else None
        if query.keys() - {"column"} or not self._belongs(str(endpoint), values):
            return None
        return unquote(parts.path) + (f"?page={page}" if page not in {None, "1"} else "")

    def _belongs(self, endpoint: str, values: Mapping[str, Any]) -> bool:
        scope = self._scope
        if endpoint in {
            "api.board",
            "boards.board",
            "pairs.pairs",
            "tradeoffs.tradeoffs",
            "sharing.board_as_table",
        }:
            return bool(values.get("name", values.get("board")) == scope.board)
        if endpoint in _BY_EVALUATION:
            return str(values["evaluation_id"]) in scope.evaluations
        if endpoint in _BY_BENCHMARK:
            return values["benchmark"] in scope.benchmarks
        if endpoint in _BY_MODEL:
            return values["model"] in scope.models
        return endpoint in _ALWAYS


def file_of(address: str, media_type: str) -> str:
    """Return the path of a canonical address below the site's folder: pages as `…/index.html`."""
    parts = urlsplit(address)
    path = parts.path.strip("/")
    if media_type == "text/html":
        return posixpath.join(path, f"{parts.query.replace('=', '-')}.html" if parts.query else "index.html")
    if media_type == "application/json":
        return f"{path.removesuffix('.json')}.json"
    return path


def relative(file: str, page: str) -> str:
    """Return the relative link from a page of the site to a file, which works at any address of the site."""
    target = posixpath.relpath(file, PurePosixPath(page).parent.as_posix())
    # A web server also serves a folder's index.html; from a disk only the link to the file itself works.
    return quote(target)

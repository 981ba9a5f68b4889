"""A fake hub: its routes for datasets and models, from files in memory, with faults on request.

Real clients run their real code against it. A fault is a function of the request that answers in place of the hub, or
returns None to let the hub answer; each fault is used until it returns None.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet

COMMIT: Final = "c0ffee" + "0" * 34
_INFO: Final = re.compile(r"/api/(?:datasets|models)/([^/]+/[^/]+)(?:/revision/(.+))?")
_TREE: Final = re.compile(r"/api/(?:datasets|models)/([^/]+/[^/]+)/tree/([^/]+)")
_FILE: Final = re.compile(r"/(?:datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


@dataclass
class Refusal:
    """The answer of a fault: a status with headers or, with `cut`, the beginning of a file after which nothing is sent.

    instead: writes the whole answer, or nothing; the connection is closed when it returns.
    """

    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    instead: Callable[[BaseHTTPRequestHandler], None] | None = None


Fault = Callable[[str, dict[str, str]], Refusal | None]


@dataclass
class Hub:
    """A fake hub.

    url: the value of HF_ENDPOINT.
    files: contents by dataset and path.
    commits: revisions of a dataset, by name; a dataset without an entry has every revision, and a commit's revision is
    its own name.
    asked: method and path of each request.
    git_digests: digests of a repository's files in place of their SHA-256.
    """

    url: str = ""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    commits: dict[str, dict[str, str]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    git_digests: dict[str, str] = field(default_factory=dict)

    def add(self, repository: str, files: dict[str, bytes]) -> None:
        self.files.setdefault(repository, {}).update(files)

    def commit(self, repository: str, revision: str) -> str | None:
        commits = self.commits.get(repository)
        if commits is not None:
            return commits.get(revision) or (revision if revision in commits.values() else None)
        return revision if re.fullmatch("[0-9a-f]{40}", revision) else COMMIT


def parquet(rows: list[dict[str, Any]], schema: pa.Schema | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return sink.getvalue().to_pybytes()


def arrow(rows: list[dict[str, Any]], compression: str | None = None) -> bytes:
    table = pa.Table.from_pylist(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


@lru_cache(maxsize=100)
def sha256(content: bytes) -> str:
    """Return the digest of a file, cached, since a model's digest takes a second."""
    return hashlib.sha256(content).hexdigest()


@contextmanager
def stand_in() -> Iterator[Hub]:
    """Yield a fake hub on a free port of 127.0.0.1."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # otherwise each answer's body waits 40 ms until its headers are acknowledged

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            path = unquote(self.path.partition("?")[0])
            hub.asked.append((self.command, path))
            headers = {name.lower(): value for name, value in self.headers.items()}
            for fault in list(hub.faults):
                refusal = fault(path, headers)
                if refusal is not None and refusal.instead is not None:
                    self.close_connection = True
                    with suppress(OSError):  # the client may have disconnected
                        refusal.instead(self)
                    return
                if refusal is not None and refusal.cut is None:
                    self._send(refusal.status, b"", refusal.headers, body=body)
                    return
            cut = next((matched.cut for fault in hub.faults if (matched := fault(path, headers))), None)
            if matched := _TREE.fullmatch(path):
                self._tree(matched[1], body=body)
            elif matched := _INFO.fullmatch(path):
                self._info(matched[1], matched[2] or "main", body=body)
            elif matched := _FILE.fullmatch(path):
                self._file(matched[1], matched[2], matched[3], headers, cut, body=body)
            else:
                self._send(404, b"", {}, body=body)

        def _info(self, repository: str, revision: str, *, body: bool) -> None:
            commit = hub.commit(repository, revision)
            if repository not in hub.files:
                self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body=body)
            elif commit is None:
                self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"}, body=body)
            else:
                siblings = [
                    {
                        "rfilename": name,
                        "size": len(content),
                        **(
                            {"blobId": hub.git_digests[repository]}
                            if repository in hub.git_digests
                            else {"lfs": {"sha256": sha256(content), "size": len(content), "pointerSize": 134}}
                        ),
                    }
                    for name, content in hub.files[repository].items()
                ]
                document = {"id": repository, "sha": commit, "siblings": siblings, "private": False, "tags": []}
                document["createdAt"] = "2024-11-05T08:30:00.000Z"
                self._send(200, json.dumps(document).encode(), {"Content-Type": "application/json"}, body=body)

        def _tree(self, repository: str, *, body: bool) -> None:
            listed = [
                {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for name, content in hub.files.get(repository, {}).items()
            ]
            self._send(200, json.dumps(listed).encode(), {"Content-Type": "application/json"}, body=body)

        def _file(
            self, repository: str, revision: str, name: str, headers: dict[str, str], cut: int | None, *, body: bool
        ) -> None:
            commit = hub.commit(repository, revision)
            content = hub.files.get(repository, {}).get(name)
            if content is None or commit is None:
                self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, body=body)
                return
            fields = {
                "ETag": f'"{sha256(content)}"',
                "X-Repo-Commit": commit,
                "Accept-Ranges": "bytes",
            }
            start = 0
            if matched := re.fullmatch(r"bytes=(\d+)-", headers.get("range", "")):
                start = int(matched[1])
                fields["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self._send(206 if start else 200, content[start:] if start else content, fields, body=body, cut=cut)

        def _send(
            self, status: int, content: bytes, fields: dict[str, str], *, body: bool, cut: int | None = None
        ) -> None:
            self.send_response(status)
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(memoryview(content)[:cut])
                self.close_connection = cut is not None

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

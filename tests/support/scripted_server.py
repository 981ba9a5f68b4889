"""An HTTP server in this process that sends the answers that a test defines, and records the requests."""

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request: its path, headers in lower case, and its body as a JSON document or a form."""

    path: str
    headers: Mapping[str, str]
    document: Any


@dataclass(frozen=True)
class Answer:
    """An answer of the server.

    body: a JSON document, bytes, or pieces of the body to send; an error among the pieces closes the connection.
    """

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class CutOffError(Exception):
    """An error among the pieces of a body, at which the server closes the connection."""


def events(*documents: Any, end: bool = True) -> list[bytes]:
    """Return the documents as the events of a stream.

    end: whether the server sends the end mark.
    """
    sent = [f"data: {json.dumps(document)}\n\n".encode() for document in documents]
    return [*sent, b"data: [DONE]\n\n"] if end else sent


def stream(pieces: Iterable[bytes]) -> Answer:
    """Return a stream of events that are sent as they are produced."""
    return Answer(iter(pieces), headers={"Content-Type": "text/event-stream; charset=utf-8"})


@dataclass
class ScriptedServer:
    """A running server.

    url: with the path /v1. asked: every request, in order. answer: returns the answer to a request.
    """

    url: str
    answer: Callable[[Asked], Answer]
    asked: list[Asked] = field(default_factory=list)
    most_at_once: int = 0

    def paths(self) -> list[str]:
        return [request.path for request in self.asked]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # the client has disconnected
            super().handle_error(request, client_address)


@contextmanager
def serve_scripted_server(answer: Callable[[Asked], Answer]) -> Iterator[ScriptedServer]:
    """Start a server on a free port of 127.0.0.1; stop it at the end."""
    lock = threading.Lock()
    at_once = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # otherwise each answer's body waits 40 ms until its headers are acknowledged

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            nonlocal at_once
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            form = self.headers.get("content-type", "").startswith("multipart/")
            request = Asked(
                self.path,
                {key.lower(): value for key, value in self.headers.items()},
                body if form else json.loads(body) if body else None,
            )
            with lock:
                script.asked.append(request)
                at_once += 1
                script.most_at_once = max(script.most_at_once, at_once)
            answered = script.answer(request)
            with lock:
                at_once -= 1
            if isinstance(answered.body, Iterator):
                self._send_pieces(answered, answered.body)
                return
            content = answered.body if isinstance(answered.body, bytes) else json.dumps(answered.body).encode()
            try:
                self.send_response_only(answered.status)
                for name, value in {"Content-Length": str(len(content)), **answered.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)
            except OSError:  # the client has disconnected
                self.close_connection = True

        def _send_pieces(self, answered: Answer, pieces: Iterator[bytes]) -> None:
            self.close_connection = True
            with suppress(OSError, CutOffError):
                self.send_response_only(answered.status)
                for name, value in {"Connection": "close", **answered.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                for piece in pieces:
                    self.wfile.write(piece)
                    self.wfile.flush()

        def log_message(self, *_arguments: object) -> None:
            pass

    with _Server(("127.0.0.1", 0), Handler) as server:
        script = ScriptedServer(f"http://127.0.0.1:{server.server_port}/v1", answer)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()


def in_turn(*answers: Answer) -> Callable[[Asked], Answer]:
    """Return a function that returns the answers one after the other, and then repeats the last."""
    left = list(answers)
    return lambda _asked: left.pop(0) if len(left) > 1 else left[0]

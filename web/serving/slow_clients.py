"""A worker process of the web server whose threads never wait for a client to finish sending.

Gunicorn's own hands a connection to a thread as soon as it says anything, and the thread waits for the rest: as many
slow clients as there are threads stop the website. Here the main loop receives requests, for as many clients as there
are, and a thread is given one when it is whole. A request has a time to arrive in; where too many are on their way, the
one that has been for longest is given up.
"""

import contextlib
import errno
import re
import selectors
import socket
import time
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from gunicorn.http.unreader import Unreader  # type: ignore[import-untyped]
from gunicorn.workers.gthread import TConn, ThreadWorker  # type: ignore[import-untyped]

from web.who.identity import MAX_BODY

ARRIVAL_S: Final = 10.0
"""How long a request may take to arrive, headers and body."""
UPLOAD_S: Final = 300.0
"""The same for a body beyond `MAX_BODY`, which only routes of maintainers read."""
ANSWER_S: Final = 30.0
"""How long a client may take to receive a piece of an answer."""
MOST_ARRIVING: Final = 400
"""Requests on their way to a process at once."""
MOST_BYTES: Final = 128 * 1024 * 1024
"""What they may hold together."""
MOST_IDLE: Final = 200
"""Connections that a process keeps for their next request."""
LINGER_S: Final = 2.0
"""How long a client may take to close a connection after the last answer on it."""
MAX_HEADERS: Final = 64 * 1024
"""Bytes of a request's headers."""

_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_EXPECTS: Final = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LENGTH_REQUIRED: Final = (
    b"HTTP/1.1 411 Length Required\r\nContent-Type: text/plain\r\nContent-Length: 28\r\nConnection: close\r\n\r\n"
    b"send a Content-Length header"
)
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class _Received(Unreader):  # type: ignore[misc]
    """A request as it arrived, for gunicorn's parser. Only what is left of an upload is read from the client."""

    def __init__(self, received: bytes, client: socket.socket | None) -> None:
        super().__init__()
        self.buf.write(received)
        self.client = client
        self.until = time.monotonic() + UPLOAD_S

    def chunk(self, size_hint: int | None = None) -> bytes:
        """What comes next of an upload; nothing where the request is whole."""
        left = self.until - time.monotonic()
        if self.client is None or left <= 0:
            return b""
        self.client.settimeout(left)
        return self.client.recv(max(8192, min(size_hint or 0, 1 << 20)))


class _Arriving:
    """A connection whose next request is on its way, or which only waits for its client to close it."""

    def __init__(self, conn: TConn, seconds: float, *, closing: bool = False) -> None:
        self.conn = conn
        self.received = bytearray()
        self.until = time.monotonic() + seconds
        self.closing = closing
        self.whole: int | None = None
        """Bytes of the request, once its headers are there; for an upload those of the headers."""
        self.upload = False


class Worker(ThreadWorker):  # type: ignore[misc]
    """Gunicorn's worker with threads, but for how requests get to them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.arriving: dict[socket.socket, _Arriving] = {}
        """By socket, in the order in which they began to arrive."""
        self.held = 0
        """Bytes that they hold."""
        self.max_keepalived = MOST_IDLE

    def accept(self, listener: socket.socket) -> None:
        """Takes a connection, and begins to receive its request."""
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._drop_oldest()
            elif error.errno not in (errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED):
                raise
            return
        self.nr_conns += 1
        self._await(TConn(self.cfg, client, address, listener.getsockname()))

    def on_client_socket_readable(self, conn: TConn, client: socket.socket) -> None:
        """Begins to receive the next request of a connection that was kept."""
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        self._await(conn)

    def finish_request(self, conn: TConn, future: "Future[Any]") -> None:
        """After an answer: waits for the next request, or for the client to close the connection."""
        kept = not future.cancelled() and future.exception() is None and future.result() is True
        if not kept:
            self._linger(conn)
        elif self.alive and (ahead := conn.parser.unreader.take_buffered()):
            # What came behind the request is the beginning of the next, which waits like any other.
            self._await(conn, ahead)
        else:
            super().finish_request(conn, future)

    def murder_pending(self) -> None:
        """Gives up requests that took too long; a worker that stops waits for none that has not begun."""
        super().murder_pending()
        now = time.monotonic()
        for one in list(self.arriving.values()):
            if one.until <= now or not (self.alive or one.received or one.closing):
                self._drop(one)

    def handle_request(self, req: Any, conn: TConn) -> bool:
        """Answers a request, to a client that takes the answer in time."""
        conn.sock.settimeout(ANSWER_S)
        kept = bool(super().handle_request(req, conn))
        # The rest of an upload that nobody read is not waited for.
        return kept and conn.parser.unreader.client is None

    def _await(self, conn: TConn, received: bytes = b"") -> None:
        one = self._watch(_Arriving(conn, ARRIVAL_S))
        if received:
            self._take(one, received)

    def _linger(self, conn: TConn) -> None:
        """Closes a connection once its client has read the answer: closed at once, unread data would cut it off."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.nr_conns -= 1
            conn.close()
            return
        self._watch(_Arriving(conn, LINGER_S, closing=True))

    def _watch(self, one: _Arriving) -> _Arriving:
        if len(self.arriving) >= MOST_ARRIVING:
            self._drop_oldest()
        one.conn.sock.setblocking(False)
        self.arriving[one.conn.sock] = one
        self.poller.register(one.conn.sock, selectors.EVENT_READ, partial(self._receive, one))
        return one

    def _receive(self, one: _Arriving, client: socket.socket) -> None:
        if client not in self.arriving:  # dropped for another that was read in the same round
            return
        try:
            data = client.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(one)
        elif not one.closing:
            self._take(one, data)

    def _take(self, one: _Arriving, data: bytes) -> None:
        one.received += data
        self.held += len(data)
        self._hand_over(one)
        while self.held > MOST_BYTES:
            self._drop_oldest()

    def _hand_over(self, one: _Arriving) -> None:
        """Hands a request to the threads when it is whole."""
        if one.whole is None:
            end = one.received.find(_END)
            if end < 0:
                if len(one.received) > MAX_HEADERS:
                    self._refuse(one, _TOO_LARGE)
                return
            headers = bytes(one.received[: end + len(_END)])
            if _CHUNKED.search(headers):
                self._refuse(one, _LENGTH_REQUIRED)
                return
            length = _LENGTH.search(headers)
            body = 0 if length is None else int(length[1])
            one.upload = body > MAX_BODY
            one.whole = len(headers) + (0 if one.upload else body)
            if len(one.received) < one.whole and _EXPECTS.search(headers):
                with contextlib.suppress(OSError):
                    one.conn.sock.send(_CONTINUE)
        if len(one.received) < one.whole:
            return
        self._forget(one)
        conn = one.conn
        conn.data_ready = True
        conn.sock.setblocking(True)
        conn.init()
        conn.parser.unreader = _Received(bytes(one.received), conn.sock if one.upload else None)
        self.enqueue_req(conn)

    def _refuse(self, one: _Arriving, answer: bytes) -> None:
        with contextlib.suppress(OSError):
            one.conn.sock.send(answer)
        self._drop(one)

    def _drop(self, one: _Arriving) -> None:
        self._forget(one)
        self.nr_conns -= 1
        one.conn.close()

    def _drop_oldest(self) -> None:
        if self.arriving:
            self._drop(next(iter(self.arriving.values())))

    def _forget(self, one: _Arriving) -> None:
        del self.arriving[one.conn.sock]
        self.held -= len(one.received)
        self.poller.unregister(one.conn.sock)

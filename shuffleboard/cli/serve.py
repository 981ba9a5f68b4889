"""`shuffleboard serve`."""

import logging
import os
import signal
import socket
from types import FrameType
from typing import Final

import click
import waitress

from registry.errors import UsageError
from registry.operations.opening import engine_when_reachable
from shuffleboard.cli.address import PORT, announce
from shuffleboard.cli.common import note, settings_of
from web import create_app
from web.api.uploads import MAX_UPLOAD, MULTIPART_ROOM
from web.who import openid

THREADS: Final = 16
"""Requests answered at the same time; queries and uploads together never use all of the threads."""
CONNECTIONS: Final = 1000
"""Most open connections. A thread gets a request only once it is complete, so slow clients occupy no thread."""
IDLE_SECONDS: Final = 30
"""Seconds without a byte after which a connection is closed."""
MAX_HEADERS: Final = 64 * 1024
"""Longest headers of a request, in bytes."""
MAX_REQUEST: Final = MAX_UPLOAD + MULTIPART_ROOM
"""Longest body of a request, in bytes; the routes have lower limits of their own."""
MAX_ANSWER: Final = 256 * 1024 * 1024
"""Bytes of an answer that are buffered in a temporary file for a slow reader before its thread waits."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port to listen on; 0: any free one."
)
def serve(host: str, port: int) -> None:
    """Serve the leaderboard on the web until stopped."""
    # Requests already run in parallel: several threads for one matrix would wait for each other at twice the CPU time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    settings = settings_of()
    # Read here, so that a wrong setting causes one line of error instead of a server that does not start.
    openid.provider_of(settings)
    engine_when_reachable(settings)
    listener = listen(host, port)
    address = listener.getsockname()
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]
    server = waitress.create_server(
        create_app(settings),
        sockets=[listener],
        threads=THREADS,
        connection_limit=CONNECTIONS,
        asyncore_use_poll=True,  # select() fails with more than 1,024 open files
        channel_timeout=IDLE_SECONDS,
        cleanup_interval=5,
        max_request_header_size=MAX_HEADERS,
        max_request_body_size=MAX_REQUEST,
        outbuf_high_watermark=MAX_ANSWER,
        # The application itself trusts these headers, from as many proxies as the settings state.
        clear_untrusted_proxy_headers=not settings.trusted_proxies,
        ident=None,
    )
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a request that waits a moment needs no warning
    signal.signal(signal.SIGTERM, _stop)
    base = f"http://{shown}:{address[1]}"
    note(f"Shuffleboard is at {base}/ (Ctrl-C stops it)")
    with announce(settings, base):
        server.run()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises UsageError if the address is not available."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise UsageError(f"--host {host}: {error.strerror}; give an address of this machine") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {host} port {port} ({reason}); stop what uses it, or choose another with --port"
        ) from None
    return listener


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit

"""`shuffleboard serve`."""

import os
import socket
from typing import Any

import click
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

from registry.errors import UsageError
from registry.operations.opening import engine_when_reachable
from registry.settings import Settings
from shuffleboard.cli.common import note, settings_of
from web import create_app
from web.serving.slow_clients import Worker
from web.who import openid

THREADS = 8


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port to listen on; 0: any free one."
)
def serve(host: str, port: int) -> None:
    """Serve the leaderboard on the web until stopped."""
    # Requests are served side by side already: several threads of one matrix wait for each other at twice the CPU.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    settings = settings_of()
    openid.provider_of(settings)  # here, where a wrong setting is one line and not a server that does not start
    engine = engine_when_reachable(settings)
    dialect = engine.dialect.name
    # No connection may cross the fork: two processes would talk over one socket.
    engine.dispose()
    listener = listen(host, port)
    address = listener.getsockname()
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]
    note(f"Shuffleboard is at http://{shown}:{address[1]}/ (Ctrl-C stops it)")
    # Gunicorn closes the descriptor when it ends, so the socket object must not.
    _Server(settings, listener.detach(), processes=1 if dialect == "sqlite" else 2).run()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises UsageError when the address is not available.

    Opened here rather than by gunicorn, which would retry a port in use five times and then report little.
    """
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


class _Server(BaseApplication):  # type: ignore[misc]
    """Gunicorn with our settings instead of its files and arguments."""

    def __init__(self, settings: Settings, descriptor: int, processes: int) -> None:
        self._settings = settings
        self._options: dict[str, Any] = {
            "bind": f"fd://{descriptor}",
            "worker_class": Worker,
            "workers": processes,
            "threads": THREADS,
            "loglevel": "warning",
            # Its control socket would be in the user's home, shared by every server there.
            "control_socket_disable": True,
        }
        super().__init__()

    def load_config(self) -> None:
        for key, value in self._options.items():
            self.cfg.set(key, value)

    def load(self) -> Any:
        return create_app(self._settings)

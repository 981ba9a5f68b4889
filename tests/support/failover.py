"""Redis with a replica and Sentinels that promote it, and an address that always leads to the primary."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from tests.support.services import Command, RedisServer

GROUP = "board"
"""The Sentinels' name for the primary and its replica."""


class Replica(RedisServer):
    """A replica of another Redis, until it is promoted: then its primary is None."""

    def __init__(self, primary: RedisServer) -> None:
        super().__init__()
        self.primary: RedisServer | None = primary

    def _command(self, folder: Path) -> Command:
        following = ["--replicaof", "127.0.0.1", str(self.primary.port)] if self.primary else []
        return [*super()._command(folder), *following]

    @property
    def follows(self) -> bool:
        """Return whether it has a copy of its primary."""
        with closing(Redis(port=self.port)) as client:
            return client.info("replication").get("master_link_status") == "up"


class SentinelServer(RedisServer):
    """A Sentinel; `votes` of them must agree that the primary is down."""

    name = "Sentinel"

    def __init__(self, primary: RedisServer, votes: int = 1) -> None:
        super().__init__()
        self.primary = primary
        self.votes = votes

    def _prepare(self, folder: Path) -> None:
        lines = (
            f"port {self.port}",
            "bind 127.0.0.1",
            f"sentinel monitor {GROUP} 127.0.0.1 {self.primary.port} {self.votes}",
            f"sentinel down-after-milliseconds {GROUP} 500",
            f"sentinel failover-timeout {GROUP} 3000",
        )
        (folder / "sentinel.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _command(self, folder: Path) -> Command:
        return [self.program, folder / "sentinel.conf", "--sentinel"]

    def primary_port(self) -> int:
        """Return the port of the primary."""
        with closing(Redis(port=self.port)) as client:
            return int(client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", GROUP)[1])

    def knows(self, *, sentinels: int = 0) -> bool:
        """Return whether it knows the replica and this number of other Sentinels."""
        with closing(Redis(port=self.port)) as client:
            replicas = client.execute_command("SENTINEL", "REPLICAS", GROUP)
            others = client.execute_command("SENTINEL", "SENTINELS", GROUP)
        return len(replicas) == 1 and len(others) == sentinels

    def fail_over(self) -> None:
        """Begin a failover, unless one is in progress or no replica can be promoted yet."""
        with closing(Redis(port=self.port)) as client, suppress(ResponseError):
            client.execute_command("SENTINEL", "FAILOVER", GROUP)


@contextmanager
def relay(port_now: Callable[[], int]) -> Iterator[str]:
    """Yield a URL whose connections lead to the port at the time of the connection, as with HAProxy."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def copy(source: socket.socket, target: socket.socket) -> None:
            with suppress(OSError):
                while data := source.recv(65536):
                    target.sendall(data)
            for connection in (source, target):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)  # the other direction ends, too

        def lead(client: socket.socket) -> None:
            with client, suppress(OSError, RedisError), socket.create_connection(("127.0.0.1", port_now())) as server:
                back = threading.Thread(target=copy, args=(server, client))
                back.start()
                copy(client, server)
                back.join()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    leading.append(threading.Thread(target=lead, args=(listening.accept()[0],)))
                    leading[-1].start()

        leading: list[threading.Thread] = []
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"redis://127.0.0.1:{listening.getsockname()[1]}/0"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *leading):
                thread.join()

"""PostgreSQL and Redis as docker/compose.yaml starts them, with the passwords that docker/make-secrets wrote."""

import socket
from pathlib import Path

from tests.support import services


class Postgres(services.PostgresServer):
    """A PostgreSQL that refuses connections without a password (SCRAM)."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: Path | None = None

    def _prepare(self, folder: Path) -> None:
        super()._prepare(folder)
        assert self.secrets is not None
        password = (self.secrets / "postgres_password").read_text(encoding="utf-8").strip()
        cluster = folder / "cluster"
        # Runs a server of one session, to which nobody can connect.
        outcome = services._output(
            [self.programs / "postgres", "--single", "-D", cluster, "postgres"],
            input=f"ALTER ROLE postgres PASSWORD '{password}'\nCREATE DATABASE shuffleboard\n",
            cwd=folder,
            env=services._plain_environment(),
            **services._as_user(self._user()),
        )
        assert outcome.returncode == 0, outcome.stdout
        (cluster / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")


class Redis(services.RedisServer):
    """A Redis that refuses commands without the password."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: Path | None = None

    def _command(self, folder: Path) -> services.Command:
        assert self.secrets is not None
        program, *options = super()._command(folder)
        return [program, self.secrets / "redis_conf", *options, "--maxmemory-policy", "noeviction"]

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"PING\r\n")
                return b"NOAUTH" in connection.recv(1000)
        except OSError:
            return False

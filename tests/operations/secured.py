"""PostgreSQL and Redis as several hosts reach them: with TLS and a password, and in no other way."""

import os
import pwd
import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from urllib.parse import quote

from tests.support import services

PASSWORD = "correct horse: 100%"
"""A password that must be quoted in a URL."""


class Authority:
    """A certificate authority that nobody trusts, and a certificate for this machine."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.certificate, self.key = folder / "server.pem", folder / "server.key"
        self.ca = folder / "ca.pem"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                 "-subj", f"/CN={folder.name}", "-keyout", folder / "ca.key", "-out", self.ca)  # fmt: skip
        request, names = folder / "request.pem", folder / "names"
        names.write_text("subjectAltName=IP:127.0.0.1\n")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-subj", "/CN=127.0.0.1", "-keyout", self.key, "-out", request)  # fmt: skip
        _openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", folder / "ca.key", "-CAcreateserial",
                 "-days", "2", "-extfile", names, "-out", self.certificate)  # fmt: skip


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class SecuredPostgres(services.PostgresServer):
    """A PostgreSQL that accepts only connections by TLS with a password (SCRAM)."""

    def __init__(self, authority: Authority) -> None:
        super().__init__()
        self.authority = authority

    def database_url(self, database: str) -> str:
        return self.url_with(self.authority.ca, database=database)

    def url_with(
        self, ca: Path, password: str = PASSWORD, database: str = "postgres", mode: str = "verify-full"
    ) -> str:
        place = f"postgres:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"
        return f"postgresql+psycopg://{place}?sslmode={mode}&sslrootcert={quote(str(ca), safe='')}"

    def _prepare(self, folder: Path) -> None:
        super()._prepare(folder)
        cluster = folder / "cluster"
        user = self._user() or pwd.getpwuid(os.geteuid()).pw_name
        for source, name in ((self.authority.certificate, "server.crt"), (self.authority.key, "server.key")):
            shutil.copyfile(source, cluster / name)
            (cluster / name).chmod(0o600)
            shutil.chown(cluster / name, user)
        # Runs a server of one session, to which nobody can connect.
        statement = f"ALTER ROLE postgres PASSWORD '{PASSWORD}'\n"
        command = [self.programs / "postgres", "--single", "-D", cluster, "postgres"]
        options = services._as_user(self._user())
        outcome = services._output(command, input=statement, cwd=folder, env=services._plain_environment(), **options)
        assert outcome.returncode == 0, outcome.stdout
        (cluster / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")

    def _command(self, folder: Path) -> services.Command:
        return [*super()._command(folder), "-c", "ssl=on"]


class SecuredRedis(services.RedisServer):
    """A Redis that accepts only connections by TLS with a password."""

    def __init__(self, authority: Authority) -> None:
        super().__init__()
        self.authority = authority

    def database_url(self, number: int) -> str:
        return self.url_with(self.authority.ca, number=number)

    def url_with(self, ca: Path | None, password: str = PASSWORD, number: int = 0) -> str:
        trust = "" if ca is None else f"?ssl_cert_reqs=required&ssl_ca_certs={quote(str(ca), safe='')}"
        return f"rediss://:{quote(password, safe='')}@127.0.0.1:{self.port}/{number}{trust}"

    def _command(self, folder: Path) -> services.Command:
        plain = super()._command(folder)
        files = {"cert": self.authority.certificate, "key": self.authority.key, "ca-cert": self.authority.ca}
        tls = [part for name, path in files.items() for part in (f"--tls-{name}-file", str(path))]
        secured = ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no", "--requirepass", PASSWORD]
        return [*plain, *tls, *secured]

    def _answers(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        try:
            plain = socket.create_connection(("127.0.0.1", self.port), timeout=2)
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                connection.sendall(b"INFO server\r\n")
                return b"NOAUTH" in connection.recv(1000)
        except OSError:
            return False

"""Timestamps of signatures, by an authority of our own: openssl behind a small HTTP server."""

import http.server
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from registry.errors import RemoteError, UsageError
from registry.proof.statements import Signed, sign
from registry.proof.timestamps import read_authority, stamped_at, timestamped

CONFIGURATION = """
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[root]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign
[tsa]
basicConstraints = critical,CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
[tsa_config]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
"""
OPENSSL = "openssl"


class Authority:
    """An authority of timestamps, with a certificate of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.requests = 0
        folder.mkdir()
        (folder / "conf").write_text(CONFIGURATION.format(folder=folder, name=f"{name} root"))
        (folder / "tsa.conf").write_text(CONFIGURATION.format(folder=folder, name=name))
        (folder / "serial").write_text("01\n")
        curve = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc"
        self._run(f"req -x509 {curve} -keyout root.key -out root.pem -days 3650 -config conf -extensions root")
        self._run(f"req {curve} -keyout tsa.key -out tsa.csr -config tsa.conf")
        self._run(
            "x509 -req -in tsa.csr -CA root.pem -CAkey root.key -out tsa.pem -days 3650 -extfile conf -extensions tsa"
        )
        self.pem = (folder / "root.pem").read_bytes()

    def _run(self, arguments: str) -> None:
        subprocess.run([OPENSSL, *arguments.split()], cwd=self.folder, check=True, capture_output=True)

    def answer(self, query: bytes) -> bytes:
        (self.folder / "query").write_bytes(query)
        self._run("ts -reply -queryfile query -config conf -section tsa_config -out reply")
        return (self.folder / "reply").read_bytes()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("timestamps") / "one", "Authority one")


@pytest.fixture(scope="module")
def address(authority: Authority) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = self.rfile.read(int(self.headers["Content-Length"]))
            answers = {
                "/": lambda: authority.answer(query),
                "/nonsense": lambda: b"no",
                "/long": lambda: b"x" * 200_000,
            }
            answers["/replayed"] = (authority.folder / "reply").read_bytes
            self.send_response(200 if self.path in answers else 503)
            self.end_headers()
            if self.path in answers:
                self.wfile.write(answers[self.path]())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def signed() -> Signed:
    return sign(Ed25519PrivateKey.generate(), "a" * 64, 3, datetime(2026, 11, 22, tzinfo=UTC), "")


def test_an_authority_says_when_it_saw_a_signature(
    authority: Authority, address: str, signed: Signed, tmp_path: Path
) -> None:
    stamped = timestamped(signed, f"{address}/")
    trusted = read_authority(authority.pem, "root.pem")
    assert abs((datetime.now(UTC) - stamped_at(stamped, trusted)).total_seconds()) < 86400
    other = read_authority(Authority(tmp_path / "other", "Authority two").pem, "other.pem")
    with pytest.raises(ValueError, match="certificate"):
        stamped_at(stamped, other)
    with pytest.raises(ValueError, match="Mismatch between messages"):
        stamped_at(replace(stamped, signature=b"another"), trusted)
    with pytest.raises(ValueError, match=r"."):
        stamped_at(replace(stamped, timestamp=b"nonsense"), trusted)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/nonsense", "its answer is not a timestamp"),
        ("/long", "is larger than 100000 bytes"),
        ("/replayed", "its timestamp is of something else"),
        ("/broken", "no timestamp"),
    ],
)
def test_what_is_no_timestamp_of_this_signature_is_refused(address: str, signed: Signed, path: str, said: str) -> None:
    timestamped(signed, f"{address}/")
    with pytest.raises(RemoteError, match=said):
        timestamped(signed, f"{address}{path}")


def test_an_authority_that_does_not_answer_and_a_file_without_certificates_are_named(signed: Signed) -> None:
    with pytest.raises(RemoteError, match="check SHUFFLEBOARD_TIMESTAMP_URL"):
        timestamped(signed, "http://127.0.0.1:1/")
    with pytest.raises(UsageError, match=r"root\.pem: has no certificate"):
        read_authority(b"nothing", "root.pem")

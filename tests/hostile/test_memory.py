"""The command line on 60 MB of tiny values, which it reads within half a gigabyte and refuses in one line."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from registry.db import get_engine
from registry.sealed.statements import public_pem
from tests.conftest import FilledDatabases
from tests.hostile import bulk
from tests.hostile.doors import BENCHMARK, MODEL, fill
from tests.support.commands import ROOT

pytestmark = [pytest.mark.long, pytest.mark.one_engine]

MOST_MEBIBYTES = 500


# A small process starts the command: Linux counts a process's memory before exec as the new program's, and by now the
# tests' own may be a gigabyte.
_MEASURED = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w") as peak:
    peak.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)
"""


def run(url: str, home: Path, *arguments: object) -> tuple[int, str, int]:
    """Return (exit status, output, peak of memory in MiB) of a command."""
    environment = {**os.environ, "SHUFFLEBOARD_DATABASE_URL": url, "SHUFFLEBOARD_HOME": str(home)}
    command = [sys.executable, "-m", "shuffleboard.cli", *map(str, arguments)]
    with (home / "printed").open("wb") as printed:
        status = subprocess.call(
            [sys.executable, "-S", "-c", _MEASURED, home / "peak", *command],
            cwd=ROOT,
            env=environment,
            stdout=printed,
            stderr=printed,
        )
    return status, (home / "printed").read_text(encoding="utf-8"), int((home / "peak").read_text()) >> 10


@pytest.mark.parametrize(
    ("door", "name"), [*(("benchmark", name) for name in bulk.BENCHMARKS), *(("log", name) for name in bulk.LOGS)]
)
def test_a_large_file_of_tiny_values_is_refused(
    filled_databases: FilledDatabases, tmp_path: Path, door: str, name: str
) -> None:
    path = (bulk.BENCHMARKS if door == "benchmark" else bulk.LOGS)[name](tmp_path, bulk.MEGABYTES << 20)
    with filled_databases.copy(fill, tmp_path) as (url, _):
        get_engine(url).dispose()
        if door == "benchmark":
            status, printed, peak = run(url, tmp_path, "benchmarks", "import", path, "--name", "hostile")
        else:
            options = ("--model", MODEL, "--benchmark", BENCHMARK, "--variants", "imported")
            status, printed, peak = run(url, tmp_path, "evaluations", "import", path, *options)
    assert (status, peak < MOST_MEBIBYTES) == (1, True), (status, peak, printed[-500:])
    assert "Traceback" not in printed
    assert printed.splitlines()[-1].startswith("Error: ")


LINK = (
    '{{"position":1,"kind":"seal","subject":"{0}","previous":"{0}","digest":"{0}","labels":null,'
    '"at":"2026-01-01T00:00:00+00:00"}}'
).format("a" * 64)
CHAINS = {
    **{
        f"a list of {name}": lambda piece=piece: bulk.list_items(piece, 60 << 20) for name, piece in bulk.PIECES.items()
    },
    "links": lambda: '{"format_version":1,"signatures":[],"links":' + bulk.list_items(LINK, 30 << 20) + "}",
    "100,000 levels": lambda: "[" * 100_000,
    "5,000 digits": lambda: "9" * 5000,
    "half a surrogate pair": lambda: '{"\\ud800":1}',
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_site_with_a_hostile_chain_is_checked_within_half_a_gigabyte(tmp_path: Path, name: str) -> None:
    proof = tmp_path / "site" / "proof"
    proof.mkdir(parents=True)
    (proof / "chain.json").write_text(CHAINS[name](), encoding="utf-8")
    digest = hashlib.sha256((proof / "chain.json").read_bytes()).hexdigest()
    (proof.parent / "SHA256SUMS").write_text(f"{digest}  proof/chain.json\n", encoding="utf-8")
    key = tmp_path / "key.pem"
    key.write_text(public_pem(Ed25519PrivateKey.generate().public_key()), encoding="utf-8")
    status, printed, peak = run("sqlite://", tmp_path, "verify", proof.parent, "--public", key)
    assert (status, peak < MOST_MEBIBYTES) == (1, True), (status, peak, printed[-500:])
    assert "Traceback" not in printed

"""Checks of the locks: the audit, and the SBOM of each image."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.images import ROOT
from tests.deploy.test_containers import read_lock

LOCK = "one==1.0 \\\n    --hash=sha256:00\ntorch==2.13.0+cpu \\\n    --hash=sha256:00\n"
FOUND = [{"name": "one", "version": "1.0", "vulns": []}, {"name": "torch", "version": "2.13.0", "vulns": []}]
KNOWN = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["1.1"], "description": ""}
SKIPPED = {"name": "torch", "skip_reason": "Dependency not found on PyPI"}
LOST = "Traceback (most recent call last):\nConnectionError: Failed to resolve"


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (FOUND, 0, "2 packages looked up, 0 known vulnerabilities"),
        ([FOUND[0] | {"vulns": [KNOWN]}, FOUND[1]], 1, "one 1.0: PYSEC-1, CVE-1; fixed in 1.1"),
        ([FOUND[0], SKIPPED], 2, "not audited: 1 of 2 packages could not be looked up (torch"),
        (None, 2, "not audited: pip-audit did not finish: ConnectionError: Failed to resolve"),
    ],
    ids=["nothing", "something", "skipped", "unreachable"],
)
def test_an_audit_passes_only_when_everything_was_looked_up(
    tmp_path: Path, answer: list[dict[str, Any]] | None, status: int, said: str
) -> None:
    (tmp_path / "web.txt").write_text(LOCK)
    program = tmp_path / "pip-audit"
    output = "" if answer is None else json.dumps({"dependencies": answer, "fixes": []})
    program.write_text(f"#!/bin/sh\ncp $2 {tmp_path}/asked\ncat <<'END'\n{output}\nEND\ncat >&2 <<'END'\n{LOST}\nEND\n")
    program.chmod(0o755)
    command = [sys.executable, ROOT / "docker/audit.py", "--program", program, "--locks", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert said in (done.stderr if status == 2 else done.stdout)
    assert "Traceback" not in done.stderr
    # A build of torch has the advisories of its version.
    assert (tmp_path / "asked").read_text().split() == ["one==1.0", "torch==2.13.0"]


@pytest.mark.long
def test_an_sbom_lists_locked_and_vendored_parts_reproducibly(tmp_path: Path) -> None:
    subprocess.run(["make", "build/supply/.installed"], cwd=ROOT, check=True, capture_output=True)
    for folder in ("once", "again"):
        python = ROOT / "build" / "supply" / "bin" / "python"
        command = [python, ROOT / "docker/sbom.py", "--licences", Path(sys.prefix), "--out", tmp_path / folder]
        subprocess.run(command, check=True, capture_output=True)  # each is validated by CycloneDX's own schema
    others = tomllib.loads((ROOT / "docs/third-party.toml").read_text(encoding="utf-8"))["part"]
    for image, locks in {"web": ["web"], "worker-cpu": ["web", "worker-cpu"]}.items():
        written = [(tmp_path / folder / f"{image}.cdx.json").read_bytes() for folder in ("once", "again")]
        assert written[0] == written[1]
        components = {component["name"]: component for component in json.loads(written[0])["components"]}
        for name, version in {package: at for lock in locks for package, at in read_lock(lock).items()}.items():
            assert components[name]["version"] == version
            assert components[name]["hashes"]
        assert {part["name"] for part in others} - components.keys() == {"mermaid", "axe-core"}  # not in the wheel
        licensed = [component for component in components.values() if "licenses" in component]
        assert len(licensed) > 0.9 * len(components)

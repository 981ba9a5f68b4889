"""Checks all packages in docker/locks for known vulnerabilities: `python docker/audit.py [OPTION OF PIP-AUDIT ...]`.

`make audit` runs it. Status 0: every package was looked up, and none has a known vulnerability. 1: one has. 2: the
source of advisories could not be reached. pip-audit itself skips packages that the source does not know, and calls that
a pass.
"""

# ruff: noqa: INP001 - a script next to the Dockerfile, no package

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

LOCKS: Final = Path(__file__).resolve().parent / "locks"


def main() -> int:
    """Print a line for each vulnerability, and the number of packages that were looked up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(Path(sys.executable).parent / "pip-audit"), help="pip-audit")
    parser.add_argument("--locks", type=Path, default=LOCKS, help="folder of the locks")
    arguments, options = parser.parse_known_args()
    wanted = packages(arguments.locks)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text("".join(f"{name}=={version}\n" for name, version in wanted), encoding="utf-8")
        command = [arguments.program, "--requirement", str(file), "--no-deps", "--disable-pip", "--format", "json"]
        done = subprocess.run(  # noqa: S603 - our own command
            [*command, "--progress-spinner", "off", *options], capture_output=True, text=True, check=False
        )
    try:
        reports = json.loads(done.stdout)["dependencies"]
    except ValueError:
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return _refuse(f"pip-audit did not finish: {reason}")
    unknown = sorted(report["name"] for report in reports if "vulns" not in report)
    if unknown or len(reports) < len(wanted):
        missing = len(wanted) - len(reports) + len(unknown)
        return _refuse(f"{missing} of {len(wanted)} packages could not be looked up ({', '.join(unknown[:5])} …)")
    bad = [(report, vulnerability) for report in reports for vulnerability in report["vulns"]]
    for package, flaw in bad:
        fixed = ", ".join(flaw["fix_versions"]) or "no version yet"
        names = ", ".join([flaw["id"], *flaw.get("aliases", ())])
        sys.stdout.write(f"{package['name']} {package['version']}: {names}; fixed in {fixed}\n")
    sys.stdout.write(f"{len(wanted)} packages looked up, {len(bad)} known vulnerabilities\n")
    return 1 if bad else 0


def packages(locks: Path) -> list[tuple[str, str]]:
    """Return name and version of each package in any lock, sorted by name.

    A build, such as +cpu, has the advisories of its version.
    """
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(locks.glob("*.txt")))
    return sorted(set(re.findall(r"^([A-Za-z0-9._-]+)(?:\[.*\])?==([^\s+]+)", text, flags=re.MULTILINE)))


def _refuse(why: str) -> int:
    sys.stderr.write(
        f"not audited: {why}. Run it where the source of advisories can be reached, or name another: "
        'make audit ARGS="--vulnerability-service osv"\n'
    )
    return 2


if __name__ == "__main__":
    sys.exit(main())

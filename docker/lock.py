"""Writes docker/locks: the packages in the images, each with its version and the digests of its files.

    python docker/lock.py [--uv PROGRAM] [OPTION OF UV ...]

`make lock` runs it; the versions come from constraints.txt. The images are for Python 3.11 on Linux and x86-64. PyPI
lacks the build of torch for CPUs: `--find-links` or `--extra-index-url` gives its location.
"""

# ruff: noqa: INP001 - a script next to the Dockerfile, no package

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOCKS: Final = ROOT / "docker" / "locks"
PYTHON: Final = "3.11"
PLATFORM: Final = "x86_64-manylinux_2_36"
WORKER: Final = ("worker", "providers")
TORCH: Final = "+cpu"


def main() -> int:
    """Write all locks, or none if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uv", default="uv", help="the program")
    arguments, options = parser.parse_known_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    wanted = project["project"]["dependencies"]
    more = wanted + [line for extra in WORKER for line in extras[extra]]
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    cpu = re.sub(r"^(torch==\S+)$", rf"\1{TORCH}", constraints, flags=re.MULTILINE)
    try:
        web = _read_lock(arguments.uv, wanted, constraints, options)
        locks = {
            "build": _read_lock(arguments.uv, project["build-system"]["requires"], constraints, options),
            "web": web,
            # The packages that a worker needs beyond the website's image.
            "worker-cpu": _subtract(_read_lock(arguments.uv, more, cpu, options), web),
            "worker-cuda": _subtract(_read_lock(arguments.uv, more, constraints, []), web),
        }
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"nothing was written: {error.stderr}")
        return 1
    LOCKS.mkdir(exist_ok=True)
    for name, entries in locks.items():
        text = "# Written by docker/lock.py: `make lock` writes it again.\n"
        (LOCKS / f"{name}.txt").write_text(text + "".join(entries.values()), encoding="utf-8")
        sys.stdout.write(f"docker/locks/{name}.txt: {len(entries)} packages\n")
    return 0


def _read_lock(uv: str, wanted: list[str], constraints: str, options: list[str]) -> dict[str, str]:
    """Map the name of each package to its entry in the lock."""
    command = [uv, "pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-annotate"]
    command += ["--python-version", PYTHON, "--python-platform", PLATFORM, "--only-binary", ":all:"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "constraints.txt"
        file.write_text(constraints, encoding="utf-8")
        done = subprocess.run(  # noqa: S603 - our own command
            [*command, "-", "--constraint", str(file), *options],
            input="\n".join(wanted),
            capture_output=True,
            text=True,
            check=True,
        )
    return {entry.split("==")[0]: entry for entry in re.findall(r"^\S.*(?:\n .*)*\n", done.stdout, re.MULTILINE)}


def _subtract(lock: dict[str, str], base: dict[str, str]) -> dict[str, str]:
    """Return a lock without the packages of another. Packages in both must be the same."""
    differ = [name for name in lock.keys() & base.keys() if lock[name] != base[name]]
    if differ:
        raise SystemExit(f"{', '.join(sorted(differ))}: locked twice, differently; constrain them in constraints.txt")
    return {name: entry for name, entry in lock.items() if name not in base}


if __name__ == "__main__":
    sys.exit(main())

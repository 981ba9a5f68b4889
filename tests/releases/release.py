"""Check a release, build it and tag it: `python -m tests.releases.release VERSION`. It publishes nothing.

The tree must be clean, and the version the one of pyproject.toml, with its part of CHANGELOG.md, its fixture in
`tests/releases/`, and the digests of the fixture and of all revisions in `tests/releases/SHA256SUMS`
(`make release-fixture` writes both). The wheel and the source archive go into `dist/`.
"""

import hashlib
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Final

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.metadata import Metadata
from packaging.version import InvalidVersion, Version

from tests.releases.fixture import CONTENTS, DIGESTS, ROOT, frozen_files

PARTS: Final = ("New", "Changed meaning", "What to do")
"""Headings of a release in the changelog."""
LARGEST_FILE: Final = 10_000_000
"""Largest size of a file in a wheel, in bytes."""


def problems_of_tree(root: Path, version: str) -> Iterator[str]:
    """Yield everything in a checkout that prevents a release of this version."""
    if _git(root, "status", "--porcelain"):
        yield "the tree is not clean; commit or remove the changes"
    if _git(root, "tag", "--list", f"v{version}"):
        yield f"the tag v{version} exists; give the next version"
    stated = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if stated != version:
        yield f"pyproject.toml has the version {stated}; change it to {version}, and run docs/generate.py"
    yield from problems_of_changelog((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    if not (root / "tests" / "releases" / version / CONTENTS).is_file():
        yield f"tests/releases/{version} is missing; run: make release-fixture"
    listed = dict(reversed(line.split("  ", 1)) for line in (root / DIGESTS).read_text(encoding="utf-8").splitlines())
    for path in frozen_files(root):
        name = str(path.relative_to(root))
        if name not in listed:
            yield f"{name} is not in {DIGESTS}; run: make release-fixture"
        elif listed[name] != hashlib.sha256(path.read_bytes()).hexdigest():
            yield f"{name} is not the file that was released; restore it"


def problems_of_changelog(text: str, version: str) -> Iterator[str]:
    """Yield the headings of a release that the changelog lacks."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    releases = dict(zip(parts[::2], parts[1::2], strict=True))
    headings = [
        heading for heading in releases if re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading)
    ]
    if not headings:
        yield f"CHANGELOG.md has no heading `## {version} ({date.today()})`; rename `## Unreleased`"  # noqa: DTZ011
        return
    for part in PARTS:
        written = re.search(rf"^### {part}\n\n(\S)", releases[headings[0]], re.MULTILINE)
        if written is None:
            yield f"CHANGELOG.md: {version} has no part `### {part}`, or it is empty"


def build(root: Path, folder: Path) -> tuple[Path, Path]:
    """Build the wheel and the source archive into a folder."""
    (wheel,) = WheelBuilder(str(root)).build(directory=str(folder), versions=["standard"])
    (archive,) = SdistBuilder(str(root)).build(directory=str(folder), versions=["standard"])
    return Path(wheel), Path(archive)


def problems_of_wheel(wheel: Path, version: str) -> Iterator[str]:
    """Yield everything in a wheel that an index would refuse, or that does not belong in it."""
    with zipfile.ZipFile(wheel) as file:
        sizes = {each.filename: each.file_size for each in file.infolist()}
        described = next(name for name in sizes if name.endswith(".dist-info/METADATA"))
        metadata = Metadata.from_email(file.read(described), validate=True)
    yield from _problems_of_metadata(metadata, version)
    folder = described.rpartition("/")[0]
    if f"{folder}/licenses/LICENSE" not in sizes:
        yield f"{wheel.name}: the licence is missing"
    for name, size in sizes.items():
        if not name.startswith(("shuffleboard/", f"{folder}/")):
            yield f"{wheel.name}: {name} is outside the package"
        if "__pycache__" in name or "/tests/" in name:
            yield f"{wheel.name}: {name} should not be shipped"
        if size > LARGEST_FILE:
            yield f"{wheel.name}: {name} has {size:,} bytes"
    for vendored in _list_vendored_licences():
        if not any(name.endswith(vendored) for name in sizes):
            yield f"{wheel.name}: {vendored}, the licence of what is shipped, is missing"


def problems_of_archive(archive: Path) -> Iterator[str]:
    """Yield files that a source archive lacks, and files that do not belong in it."""
    with tarfile.open(archive) as file:
        names = [name.partition("/")[2] for name in file.getnames()]
    for needed in ("PKG-INFO", "LICENSE", "README.md", "pyproject.toml", "hatch_build.py", "registry/build.json"):
        if needed not in names:
            yield f"{archive.name}: {needed} is missing"
    for name in names:
        if re.search(r"(^|/)(__pycache__|\.venv[^/]*|build|dist)/", name):
            yield f"{archive.name}: {name} should not be shipped"


def _problems_of_metadata(metadata: Metadata, version: str) -> Iterator[str]:
    if metadata.version != Version(version):
        yield f"the wheel has the version {metadata.version}"
    if metadata.license_expression != "Apache-2.0":
        yield f"the wheel has the licence {metadata.license_expression}"
    if metadata.description_content_type != "text/markdown" or not (metadata.description or "").strip():
        yield "the wheel has no description in Markdown"


def _list_vendored_licences() -> Iterator[str]:
    """Yield the licences of vendored packages that docs/third-party.toml names."""
    listed = tomllib.loads((ROOT / "docs" / "third-party.toml").read_text(encoding="utf-8"))
    shipped = ("web/", "registry/", "shuffleboard/")
    yield from {part["text"] for part in listed["part"] if part["text"].startswith(shipped)}


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    version = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        Version(version)
    except InvalidVersion:
        raise SystemExit(f"VERSION={version!r}: give one such as 1.0.0") from None
    _stop_at(problems_of_tree(ROOT, version))
    folder = ROOT / "dist" / version
    if folder.exists():
        raise SystemExit(f"{folder}: exists; move it away")
    wheel, archive = build(ROOT, folder)
    _stop_at([*problems_of_wheel(wheel, version), *problems_of_archive(archive)])
    _git(ROOT, "tag", "--annotate", f"v{version}", "--message", f"Shuffleboard {version}")
    for path in (wheel, archive):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(ROOT)}")
    print(f"tagged v{version}; nothing was published: push the tag, and upload the two files")


def _stop_at(problems: Iterator[str] | list[str]) -> None:
    """Raise SystemExit with all problems, if there are any."""
    listed = list(problems)
    if listed:
        raise SystemExit("\n".join(listed))


if __name__ == "__main__":
    main()

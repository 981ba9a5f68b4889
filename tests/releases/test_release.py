"""The command `make release`: unready checkouts are refused, and an index accepts its wheel and archive."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from registry import __version__
from tests.releases import release
from tests.releases.fixture import CONTENTS, DIGESTS, ROOT

CHANGELOG = """# Changelog

## 1.2.0 (2027-01-31)

### New

Colours.

### Changed meaning

Nothing.

### What to do

Run `shuffleboard db upgrade`.

## 1.1.0 (2026-12-31)

### New
"""


def test_a_whole_part_of_the_changelog_is_accepted() -> None:
    assert list(release.problems_of_changelog(CHANGELOG, "1.2.0")) == []


@pytest.mark.parametrize(
    ("version", "problem"),
    [("1.3.0", "has no heading `## 1.3.0 ("), ("1.1.0", "1.1.0 has no part `### New`, or it is empty")],
)
def test_a_missing_part_of_the_changelog_is_named(version: str, problem: str) -> None:
    assert problem in next(release.problems_of_changelog(CHANGELOG, version))


def test_the_changelog_has_the_parts_that_a_release_needs() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("## Unreleased", "## 9.9.9 (2027-01-31)")
    released = text if "## 9.9.9" in text else text.replace(f"## {__version__}", "## 9.9.9", 1)
    assert list(release.problems_of_changelog(released, "9.9.9")) == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a checkout that is ready for 1.2.0."""
    for name, text in {
        "pyproject.toml": '[project]\nname = "x"\nversion = "1.2.0"\n',
        "CHANGELOG.md": CHANGELOG,
        "migrations/versions/1_first.py": "revision = '1'\n",
        f"tests/releases/1.2.0/{CONTENTS}": "packed",
        DIGESTS: "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    frozen = release.frozen_files(tmp_path)
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(tmp_path)}\n" for path in frozen)
    (tmp_path / DIGESTS).write_text("".join(lines), encoding="utf-8")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Change.")


def test_a_tree_that_is_ready_has_no_problems(tree: Path) -> None:
    assert list(release.problems_of_tree(tree, "1.2.0")) == []


def test_each_problem_of_a_tree_is_named(tree: Path) -> None:
    git(tree, "tag", "v1.2.0")
    (tree / "migrations/versions/1_first.py").write_text("revision = '2'\n", encoding="utf-8")
    (tree / "migrations/versions/2_second.py").write_text("revision = '3'\n", encoding="utf-8")
    problems = list(release.problems_of_tree(tree, "1.2.0"))
    assert problems == [
        "the tree is not clean; commit or remove the changes",
        "the tag v1.2.0 exists; give the next version",
        "migrations/versions/1_first.py is not the file that was released; restore it",
        f"migrations/versions/2_second.py is not in {DIGESTS}; run: make release-fixture",
    ]
    commit(tree)
    problems = list(release.problems_of_tree(tree, "1.3.0"))
    assert problems[0] == "pyproject.toml has the version 1.2.0; change it to 1.3.0, and run docs/generate.py"
    assert "tests/releases/1.3.0 is missing; run: make release-fixture" in problems


def test_wheel_and_source_archive_are_what_an_index_takes(tmp_path: Path) -> None:
    wheel, archive = release.build(ROOT, tmp_path)
    assert list(release.problems_of_wheel(wheel, __version__)) == []
    assert list(release.problems_of_archive(archive)) == []
    with zipfile.ZipFile(wheel, "a") as file:
        file.writestr("tests/test_nothing.py", "")
    assert any("is outside the package" in problem for problem in release.problems_of_wheel(wheel, "9.9.9"))

"""Weights, which are read in full once, and again only if they have changed."""

import os
from pathlib import Path

import pytest

from registry.digests import sha256_file
from registry.files import remembered
from registry.files.remembered import remember_sha256


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the list of files that are read in full; new files count as settled at once."""
    monkeypatch.setenv("SHUFFLEBOARD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(remembered, "SETTLED_SECONDS", -1.0)
    read: list[Path] = []

    def count(path: Path) -> str:
        read.append(path)
        return sha256_file(path)

    monkeypatch.setattr(remembered, "sha256_file", count)
    return read


def test_a_file_is_read_once(reads: list[Path], tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    (tmp_path / "link").symlink_to(weights)
    digests = {remember_sha256(path) for path in (weights, weights, tmp_path / "link")}
    assert digests == {sha256_file(weights)}
    assert len(reads) == 1


def test_other_content_under_the_same_size_and_date_is_noticed(reads: list[Path], tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    status = weights.stat()
    remember_sha256(weights)
    weights.write_bytes(b"changed")
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert remember_sha256(weights) == sha256_file(weights)
    assert len(reads) == 2


def test_a_file_that_has_just_changed_is_not_remembered(
    reads: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "SETTLED_SECONDS", 60.0)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    assert remember_sha256(weights) == remember_sha256(weights)
    assert len(reads) == 2


def test_a_memory_that_cannot_be_written_or_read_costs_only_time(reads: list[Path], tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    home = tmp_path / "home"
    home.write_text("not a folder")
    assert remember_sha256(weights) == sha256_file(weights)
    home.unlink()
    remember_sha256(weights)
    (memory,) = (home / "digests").iterdir()
    memory.write_text("{")
    assert remember_sha256(weights) == sha256_file(weights)
    assert len(reads) == 3

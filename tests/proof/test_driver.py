"""The driver of a GPU is part of what scored a shard."""

from pathlib import Path

from workers.fingerprint import driver_version


def test_the_driver_is_what_the_kernel_says(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("550.54.15\n")
    assert driver_version(tmp_path / "version") == "550.54.15"
    assert driver_version(tmp_path / "none") is None

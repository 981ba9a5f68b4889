"""The engine fingerprint of a shard: everything outside the specification that could change a number."""

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

MOVES_NO_BIT: Final = frozenset({"code", "threads"})
"""Entries without effect in the canonical mode: threads, and the commit, whose effect `arithmetic` records."""

DRIVER: Final = Path("/sys/module/nvidia/version")
"""File with the version of the loaded NVIDIA driver on Linux."""

PACKAGES: Final = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "torchao", "vllm")


def package_versions() -> dict[str, str]:
    """Return versions of Python and of the packages that compute; packages that are not installed are left out."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def driver_version(path: Path = DRIVER) -> str | None:
    """Return the version of the loaded NVIDIA driver; None without one."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None


def promises_same_bits(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two fingerprints promise the same bits for a prompt of one model revision.

    True for two fingerprints of the canonical mode that differ in the commit and the number of threads at most.
    """
    if one.get("canonical") is not True:
        return False
    return _drop_harmless(one) == _drop_harmless(other)


def _drop_harmless(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fingerprint.items() if name not in MOVES_NO_BIT}

"""The version and commit of the running code, which are stored with every result."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

from registry import __version__

_FOLDER: Final = Path(__file__).parent
_BUILD: Final = _FOLDER / "build.json"
"""The file that hatch_build.py writes into wheels and images; a checkout has none and runs git instead."""


@cache
def code_identity() -> dict[str, Any]:
    """Return `version`, `commit` and `dirty` (whether there are uncommitted changes); None for an unknown value."""
    identity: dict[str, Any] = {"version": __version__, "commit": None, "dirty": None}
    root = _FOLDER.parent
    if _BUILD.is_file():
        identity |= json.loads(_BUILD.read_text(encoding="utf-8"))  # noqa: TID251 - our own
    elif (root / ".git").exists():
        commit = _git(root, "rev-parse", "HEAD")
        if commit:
            identity["commit"] = commit
            identity["dirty"] = bool(_git(root, "status", "--porcelain", "--untracked-files=no"))
    return identity


def code_version() -> str:
    """Return the running code as one string: version, commit, and `.changed` if it has uncommitted changes."""
    identity = code_identity()
    commit = f"+{identity['commit'][:12]}" if identity["commit"] else ""
    return f"{identity['version']}{commit}{'.changed' if identity['dirty'] else ''}"


def _git(root: Path, *arguments: str) -> str:
    try:
        result = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607 - fixed arguments
    except FileNotFoundError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""

"""The identity of this code, which every stored result contains."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

from registry import __version__

_FOLDER: Final = Path(__file__).parent
_BUILD: Final = _FOLDER / "build.json"
"""Written into wheels and images by hatch_build.py; a checkout has none and runs git."""


@cache
def code_identity() -> dict[str, Any]:
    """Return the version and commit of the running code, and whether it was changed since; None if unknown."""
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
    """Return the running code as one string: version, commit, and whether it was changed since."""
    identity = code_identity()
    commit = f"+{identity['commit'][:12]}" if identity["commit"] else ""
    return f"{identity['version']}{commit}{'.changed' if identity['dirty'] else ''}"


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607 - fixed arguments
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""

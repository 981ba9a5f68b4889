"""Builds the wheel: one top-level name, and the commit that it was built from.

Others use names such as `registry`, `workers`, `web` and `migrations` too. In the wheel these packages lie within
`shuffleboard`, and import one another there: `from registry.db` becomes `from shuffleboard.registry.db`.
"""

import ast
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES: Final = ("registry", "workers", "web", "migrations")
HOME: Final = "shuffleboard"
BUILD_FILE: Final = "registry/build.json"
"""Read by registry/__init__.py and registry/code_identity.py."""

REVISION: Final = "SHUFFLEBOARD_BUILD_REVISION"
"""The commit where the build has no checkout: what `git describe --always --abbrev=40 --exclude "*" --dirty` says."""


class Hook(BuildHookInterface[Any]):
    """What hatchling calls before and after it builds."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Lays out what goes into the wheel or the source archive. An editable installation is the checkout itself."""
        if version == "editable":
            return
        root, self.made = Path(self.root), Path(tempfile.mkdtemp())
        built = json.dumps({"version": self.metadata.version, **build_of(root)})
        if self.target_name == "sdist":
            (self.made / "build.json").write_text(built, encoding="utf-8")
            build_data["force_include"][str(self.made / "build.json")] = BUILD_FILE
            return
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / HOME, self.made / HOME, ignore=ignored)
        for package in PACKAGES:
            shutil.copytree(root / package, self.made / HOME / package, ignore=ignored)
        for path in self.made.rglob("*.py"):
            path.write_text(within_home(path.read_text(encoding="utf-8")), encoding="utf-8")
        (self.made / HOME / BUILD_FILE).write_text(built, encoding="utf-8")
        build_data["force_include"][str(self.made / HOME)] = HOME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Removes what was laid out."""
        if version != "editable":
            shutil.rmtree(self.made)


def within_home(source: str) -> str:
    """A module's source with its imports of our packages as they are called in the wheel; lines keep their numbers."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module or ""):
            _replace(lines, node, f"from {node.module}", f"from {HOME}.{node.module}")
        elif isinstance(node, ast.Import) and any(_is_ours(alias.name) for alias in node.names):
            (alias,) = node.names
            written = f"import {HOME}.{alias.name}"
            if alias.asname is None:  # it binds the first part of the name
                written += f"; from {HOME} import {alias.name.partition('.')[0]}"
            _replace(lines, node, f"import {alias.name}", written)
    return "".join(lines)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def _replace(lines: list[str], node: ast.stmt, old: str, new: str) -> None:
    line = lines[node.lineno - 1]
    assert line[node.col_offset :].startswith(old), line
    lines[node.lineno - 1] = line[: node.col_offset] + new + line[node.col_offset + len(old) :]


def build_of(root: Path) -> dict[str, Any]:
    """The commit that is built, and whether it was changed since; both None where nobody says.

    A source archive has it in a file; else the builder says it, or the checkout.
    """
    if (root / BUILD_FILE).is_file():
        found = json.loads((root / BUILD_FILE).read_text(encoding="utf-8"))
        return {key: found[key] for key in ("commit", "dirty")}
    said = os.environ.get(REVISION, "")
    if not said and (root / ".git").exists():
        command = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--exclude", "*", "--dirty"]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603 - fixed
    if said in ("", "unknown"):
        return {"commit": None, "dirty": None}
    return {"commit": said.removesuffix("-dirty"), "dirty": said.endswith("-dirty")}

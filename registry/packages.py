"""Errors about missing packages, with the command that installs them from the source of this installation."""

import json
import re
import shlex
import shutil
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from registry.errors import UsageError

NAME: Final = "shuffleboard"
_ROOT: Final = Path(__file__).parents[1]
_OURS: Final = frozenset(("registry", "workers", "web", "migrations", "shuffleboard"))

COMES_WITH: Final = {
    "argon2": "argon2-cffi",
    "kombu": "celery",
    "limits": "flask-limiter",
    "markupsafe": "flask",
    "pydantic": "pydantic-settings",
    "pydantic_core": "pydantic-settings",
    "tokenizers": "transformers",
    "werkzeug": "flask",
}
"""Module → the declared dependency that installs it, if their names differ."""


def missing_package(error: ModuleNotFoundError) -> UsageError | None:
    """Return an error that says how to install a missing package; None for a module of this project or of Python."""
    module = str(error.name).partition(".")[0]
    if module in _OURS or module in sys.stdlib_module_names:
        return None
    return UsageError(f"the package {module} is not installed here, and this needs it; {install_command(module)}")


def install_command(module: str) -> str:
    """Return the command that installs a module's package, with the other packages of its extra.

    It installs this project again from its original source, or only the packages if that source is gone.
    """
    extra = _extra_of(module)
    options, place = _origin()
    if place is None:
        packages = _list_declared(extra) if extra else [_requirement_of(module)]
    elif place == NAME:
        packages = [f"{NAME}{_bracket(extra)}=={metadata.version(NAME)}"]
    elif "://" in place:
        packages = [f"{NAME}{_bracket(extra)} @ {place}"]
    else:
        packages = [f"{place}{_bracket(extra)}"]
    return " ".join([_installer_command(), *options, *map(shlex.quote, packages)])


def _bracket(extra: str | None) -> str:
    return f"[{extra}]" if extra else ""


def _origin() -> tuple[list[str], str | None]:
    """Return pip's options, and the folder, file, URL or name that this code was installed from."""
    try:
        installed = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        return [], str(_ROOT) if (_ROOT / "pyproject.toml").is_file() else None
    written = installed.read_text("direct_url.json")
    if written is None:  # from an index
        return [], NAME
    origin = json.loads(written)  # noqa: TID251 - pip wrote it
    url = str(origin["url"])
    if "vcs_info" in origin:
        return [], f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    if urlsplit(url).scheme != "file":
        return [], url
    place = Path(unquote(urlsplit(url).path))
    editable = ["-e"] if origin.get("dir_info", {}).get("editable") else []
    return editable, str(place) if place.exists() else None


def _requirements() -> list[tuple[str, str, str | None]]:
    """Return (name, requirement, extra) for each declared dependency; extra is None if every installation has it."""
    try:
        lines = metadata.requires(NAME) or []
    except metadata.PackageNotFoundError:
        return []
    requirements = []
    for line in lines:
        requirement, _, marker = line.partition(";")
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        if name is not None:
            requirements.append((_normalise(name[0]), requirement.strip(), extra[1] if extra else None))
    return requirements


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _package_of(module: str) -> str:
    return COMES_WITH.get(module, _normalise(module))


def _extra_of(module: str) -> str | None:
    """Return the extra that declares a module's package; None if every installation has it."""
    package = _package_of(module)
    return next((extra for name, _, extra in _requirements() if name == package), None)


def _list_declared(extra: str) -> list[str]:
    return [requirement for _, requirement, needed_by in _requirements() if needed_by == extra]


def _requirement_of(module: str) -> str:
    package = _package_of(module)
    return next((requirement for name, requirement, _ in _requirements() if name == package), package)


def _installer_command() -> str:
    """Return the installer command for this Python's environment, which may not be the active one."""
    pip = shutil.which("pip")
    if pip is not None and Path(pip).parent == Path(sys.executable).parent:
        return "pip install"
    if find_spec("pip") is not None:
        return f"{shlex.quote(sys.executable)} -m pip install"
    return f"uv pip install --python {shlex.quote(sys.executable)}"

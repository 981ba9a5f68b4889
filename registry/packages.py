"""Missing packages: the extra of each, and the command that installs it where this code came from."""

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
"""Modules to the declared package that brings them, if their names differ."""


def missing_package(error: ModuleNotFoundError) -> UsageError | None:
    """Return the error that names a missing package and how to install it; None if the missing module is ours."""
    module = str(error.name).partition(".")[0]
    if module in _OURS or module in sys.stdlib_module_names:
        return None
    return UsageError(f"the package {module} is not installed here, and this needs it; {install_command(module)}")


def install_command(module: str) -> str:
    """Return the command that installs a module's package, with everything else of its extra.

    It names the place that this code was installed from. If that is gone, it names the packages themselves.
    """
    extra = _extra_of(module)
    options, place = _origin()
    if place is None:
        wanted = _list_declared(extra) if extra else [_requirement_of(module)]
    elif place == NAME:
        wanted = [f"{NAME}{_bracket(extra)}=={metadata.version(NAME)}"]
    elif "://" in place:
        wanted = [f"{NAME}{_bracket(extra)} @ {place}"]
    else:
        wanted = [f"{place}{_bracket(extra)}"]
    return " ".join([_program(), *options, *map(shlex.quote, wanted)])


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
    """Return name, requirement and extra of each declared dependency."""
    try:
        lines = metadata.requires(NAME) or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for line in lines:
        requirement, _, marker = line.partition(";")
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        if name is not None:
            found.append((_normalise(name[0]), requirement.strip(), extra[1] if extra else None))
    return found


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


def _program() -> str:
    """Return the command that starts this environment's installer, since another may be active."""
    found = shutil.which("pip")
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return "pip install"
    if find_spec("pip") is not None:
        return f"{shlex.quote(sys.executable)} -m pip install"
    return f"uv pip install --python {shlex.quote(sys.executable)}"

"""Reads docker/compose.yaml as plain values with its defaults, without a container engine."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

from tests.deploy.images import ROOT

COMPOSE = ROOT / "docker" / "compose.yaml"
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


@lru_cache(maxsize=1)
def text() -> str:
    return COMPOSE.read_text(encoding="utf-8")


def variables() -> dict[str, str]:
    """Return every variable in the file with its default. Check that a variable has the same default everywhere."""
    names: dict[str, str] = {}
    for name, default in VARIABLE.findall(text()):
        assert names.setdefault(name, default) == default, f"{name} has two defaults"
    return names


@lru_cache(maxsize=1)
def document() -> Mapping[str, Any]:
    """Return the file with every variable at its default."""
    plain: Mapping[str, Any] = yaml.safe_load(VARIABLE.sub(lambda match: match[2] or "", text()))
    return plain


def services() -> Mapping[str, Mapping[str, Any]]:
    """Return the file's services by name."""
    services_of_file: Mapping[str, Mapping[str, Any]] = document()["services"]
    return services_of_file


def words(value: Any) -> list[str]:
    """Return the words of a command or entrypoint; `$$` is Compose's way to write `$`."""
    assert isinstance(value, list), value
    return [str(word).replace("$$", "$") for word in value]


def environment(name: str) -> dict[str, str]:
    """Return the environment of a service, as its containers get it."""
    return {key: "" if value is None else str(value) for key, value in services()[name].get("environment", {}).items()}


def list_mounted(name: str) -> tuple[dict[str, bool], list[str]]:
    """Return a service's volumes by path, with whether it may write there, and its paths in memory."""
    places = {}
    for volume in services()[name].get("volumes", ()):
        if isinstance(volume, str):
            places[volume.split(":")[1]] = True
        else:
            places[volume["target"]] = not volume.get("read_only", False)
    return places, list(services()[name].get("tmpfs", ()))

"""In a checkout `registry`, `workers`, `web` and `migrations` are next to this package, in a wheel within it.

Users import them by the names in the wheel, `shuffleboard.registry.…`. Here those names lead to the packages of the
checkout: the same modules, under a second name.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Final

PACKAGES: Final = ("registry", "workers", "web", "migrations")


class _Second(Loader):
    """Gives a module of the checkout a second name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002
        module = import_module(self._name)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec: it has already been run under its own name."""
        module.__spec__ = self._own


class _Finder(MetaPathFinder):
    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        home, _, own = name.partition(".")
        if home != "shuffleboard" or own.partition(".")[0] not in PACKAGES:
            return None
        found = find_spec(own)
        if found is None:
            return None
        return spec_from_loader(name, _Second(own), is_package=found.submodule_search_locations is not None)


def install() -> None:
    """Make the second names known, in a checkout."""
    if not (Path(__file__).parent / PACKAGES[0]).is_dir():
        # Before the others: a submodule would be found by its parent's path, and be loaded a second time.
        sys.meta_path.insert(0, _Finder())

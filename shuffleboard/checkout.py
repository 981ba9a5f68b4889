"""Makes the imports of a wheel work in a checkout.

In a wheel `registry`, `workers`, `web` and `migrations` are within this package, and users import them as
`shuffleboard.registry.…`. In a checkout they are next to it, and these names lead to the same modules under a second
name.
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
    """An import loader that gives a module of the checkout a second name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002
        module = import_module(self._name)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec, since the module has already run under its own name."""
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
        spec = find_spec(own)
        if spec is None:
            return None
        return spec_from_loader(name, _Second(own), is_package=spec.submodule_search_locations is not None)


def install() -> None:
    """Register the second names if this is a checkout."""
    if not (Path(__file__).parent / PACKAGES[0]).is_dir():
        # First: otherwise a submodule would be found by its parent's path, and loaded a second time.
        sys.meta_path.insert(0, _Finder())

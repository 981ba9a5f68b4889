"""Registries to fill with boards."""

from tests.outputs.conftest import registries, registry

__all__ = ["registries", "registry"]

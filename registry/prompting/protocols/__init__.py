"""Protocols: how a model is asked and how its answer is read.

A protocol is its definition, a JSON document; its digest names it for good. Presets are definitions that ship; custom
protocols are presets with some keys changed, by file. A definition holds decimals as text, so that its digest does not
depend on how a float is written.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from registry.prompting.protocols.custom import SHIPPED, read_protocol_file
    from registry.prompting.protocols.presets import PRESETS, RECORDED
    from registry.prompting.protocols.store import (
        find_definition,
        import_protocol,
        protocol_definition,
        store_protocol,
        with_room,
    )

__all__ = [
    "PRESETS",
    "RECORDED",
    "SHIPPED",
    "find_definition",
    "import_protocol",
    "protocol_definition",
    "read_protocol_file",
    "store_protocol",
    "with_room",
]

_MODULES: Final = {
    "SHIPPED": "custom",
    "read_protocol_file": "custom",
    "PRESETS": "presets",
    "RECORDED": "presets",
    "find_definition": "store",
    "import_protocol": "store",
    "protocol_definition": "store",
    "store_protocol": "store",
    "with_room": "store",
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for: presets are read without a database."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Protocols: how a model is asked and how its answer is read.

A protocol is its definition, a JSON document; its digest names it for good. Presets are definitions that ship; custom
protocols are presets with some keys changed, by file. A definition holds decimals as text, so that its digest does not
depend on how a float is written.
"""

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

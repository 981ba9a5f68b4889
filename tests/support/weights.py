"""Files of weights that hold no tensor but are whole, for tests in which nothing is scored."""

import json


def whole_weights(note: str = "weights") -> bytes:
    """Return a safetensors file without tensors; files with other notes differ."""
    header = json.dumps({"__metadata__": {"note": note}}).encode()
    return len(header).to_bytes(8, "little") + header

"""Valid weight files without tensors, for tests that score nothing."""

import json


def whole_weights(note: str = "weights") -> bytes:
    """Return a safetensors file without tensors; files with different notes differ."""
    header = json.dumps({"__metadata__": {"note": note}}).encode()
    return len(header).to_bytes(8, "little") + header

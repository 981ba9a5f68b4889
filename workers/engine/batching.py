"""Rules for sharing a batch, so that a prompt gets the same numbers as alone.

Shorter prompts are padded on the left, and attention masks the padding. That is correct if only attention looks at
other tokens, and a token's rotation depends on its own position only. A recurrent state includes the padding, and if
the rotation depends on the longest text of a batch, prompts of other lengths change it. Prompts of the same length are
always correct: there is no padding, and the longest text is as long as each of them.
"""

from collections.abc import Iterator
from typing import Any, Final

import torch

from workers.model_types import TRIE_TYPES

PADDED_TYPES: Final = frozenset({*TRIE_TYPES})
"""Types of models whose padded batches the tests compare with single prompts."""

ALONE_TYPES: Final = frozenset({"hrm_text"})
"""Types whose many iterations amplify the last bits of a product, which differ between batch sizes."""


def length_dependent(model: Any) -> bool:
    """Return whether the rotation of a token depends on the length of the text, as in longrope and dynamic NTK."""
    return bool(_rope_types(model) & {"longrope", "dynamic"})


def why_equal_lengths(model: Any) -> str | None:
    """Return why only prompts of the same length may share a batch; None if prompts may be padded."""
    if length_dependent(model):
        return "its rotary embedding depends on the length of the text"
    kind = model.config.get_text_config().model_type
    if kind not in PADDED_TYPES:
        return f"models of type {kind!r} have not been shown to be unmoved by padding"
    return None


def is_alone(model: Any) -> bool:
    """Return whether each prompt needs a separate batch."""
    return model.config.get_text_config().model_type in ALONE_TYPES


def begin_text(model: Any) -> None:
    """Reset the rotation that dynamic NTK keeps from the longest text so far."""
    for module in model.modules():
        if hasattr(module, "max_seq_len_cached") and "dynamic" in _kinds(getattr(module, "rope_type", None)):
            for prefix in _prefixes(module):
                original: torch.Tensor = getattr(module, f"{prefix}original_inv_freq")
                current: torch.Tensor = getattr(module, f"{prefix}inv_freq")
                module.register_buffer(f"{prefix}inv_freq", original.to(current.device), persistent=False)
                setattr(module, f"{prefix}max_seq_len_cached", module.original_max_seq_len)


def _rope_types(model: Any) -> set[str]:
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    return {str(parameters.get("rope_type")) for parameters in (rope, *rope.values()) if isinstance(parameters, dict)}


def _kinds(rope_type: Any) -> set[str]:
    return set(rope_type.values()) if isinstance(rope_type, dict) else {rope_type}


def _prefixes(module: Any) -> Iterator[str]:
    kinds = module.rope_type
    yield from ([f"{layer}_" for layer in kinds if kinds[layer] == "dynamic"] if isinstance(kinds, dict) else [""])

"""Attention on the CPU: chooses the implementation for a layer."""

import torch

from workers.engine import canonical
from workers.engine.attention import Pass, attend_in_blocks
from workers.engine.tiles import attend_in_tiles


def attend_on_cpu(
    current: Pass,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    scaling: float,
    window: int | None,
    softcap: float | None,
) -> torch.Tensor:
    """Compute the attention of a pass on the CPU.

    query: (key heads, rows, heads per key head, head size), not yet scaled. keys, values: (key heads, K, head size).
    window: number of positions that a token sees; None for all. softcap: limit of the scores; None for none. Returns
    (rows, key heads, heads per key head, head size), in the memory layout in which it was computed.
    """
    if query.dtype == torch.bfloat16 and softcap is None:
        output = attend_in_tiles(current, query, keys, values, scaling=scaling)
        if window is None or current.effective(window) is None:
            return output
        # The choice for a token may depend on its own depth only, not on the pass.
        deep = torch.tensor(current.positions) >= window
        by_window = _attend_wide(current, query, keys, values, scaling, window, softcap)
        return torch.where(deep[:, None, None, None], by_window, output)
    return _attend_wide(current, query, keys, values, scaling, window, softcap)


def _attend_wide(
    current: Pass,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    scaling: float,
    window: int | None,
    softcap: float | None,
) -> torch.Tensor:
    """Compute attention in float32 or wider."""
    wide = torch.promote_types(query.dtype, torch.float32)
    attend = attend_in_blocks
    if current.canonical:
        attend = canonical.attend
        scaling *= canonical.LOG2_E if softcap is None else 1
    scaled = query.to(wide).mul(scaling).flatten(1, 2)
    output = attend(current, scaled, keys.to(wide), values.to(wide), window=window, softcap=softcap)
    return output.to(query.dtype).unflatten(1, (len(keys), -1, values.shape[-1]))

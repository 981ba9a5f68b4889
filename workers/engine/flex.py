"""Attention over a token trie on a GPU: flex attention with the trie's visibility as its block mask."""

from functools import lru_cache
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from workers.engine.attention import BLOCK, Pass


@lru_cache(maxsize=1)
def _compiled() -> Any:
    return torch.compile(flex_attention)


def attend_by_flex(
    current: Pass,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    scaling: float,
    window: int | None,
    softcap: float | None,
) -> torch.Tensor:
    """Attention on a GPU.

    query: (heads, queries, head size). keys, values: (key heads, K, head size). Returns (queries, heads × head size).
    Not compiled on the CPU, where it serves the tests: torch's plain form then holds all scores.
    """
    mask = block_mask(current, window, query.device)
    queries = query.shape[1]
    attend = _compiled() if query.device.type == "cuda" else flex_attention

    def capped(score: torch.Tensor, *_where: torch.Tensor) -> torch.Tensor:
        assert softcap is not None
        return (score / softcap).tanh() * softcap

    output = attend(
        _padded(query)[None],
        _padded(keys)[None],
        _padded(values)[None],
        score_mod=None if softcap is None else capped,
        block_mask=mask,
        scale=scaling,
        enable_gqa=query.shape[0] != keys.shape[0],
    )[0, :, :queries]  # (heads, queries, head size)
    return output.transpose(0, 1).reshape(queries, -1)


def _padded(rows: torch.Tensor) -> torch.Tensor:
    """With the second dimension a multiple of the block."""
    return torch.nn.functional.pad(rows, (0, 0, 0, -rows.shape[1] % BLOCK))


def block_mask(current: Pass, window: int | None, device: torch.device) -> BlockMask:
    """Which blocks of 128 queries by 128 keys are seen in full, in part, or not at all; made once for each window."""
    window = current.effective(window)
    return current.layout(("flex", window, str(device)), lambda: _block_mask(current, window, device))


def _block_mask(current: Pass, window: int | None, device: torch.device) -> BlockMask:
    def padded(values: torch.Tensor, fill: int) -> torch.Tensor:
        return torch.nn.functional.pad(values, (0, -len(values) % BLOCK), value=fill).to(device)

    # Padding ends before it begins: as a key nobody sees it, as a query it sees nothing.
    none = -1
    key_nodes, key_ends = padded(current.key_nodes, len(current.trie)), padded(current.key_ends, none)
    key_depths = padded(current.key_depths, 0)
    above = len(current.path)
    query_nodes, query_depths = padded(current.key_nodes[above:], none), padded(current.key_depths[above:], 0)

    def visible(_batch: Any, _head: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        node = query_nodes[query]
        seen = (key_nodes[key] <= node) & (node < key_ends[key])
        if window is not None:
            seen = seen & (query_depths[query] - key_depths[key] < window)
        return seen

    # Bounds of each block of queries decide for each key: seen by all of them, or by none of them.
    lowest, highest = (bound.values[:, None] for bound in (_blocks(query_nodes).min(1), _blocks(query_nodes).max(1)))
    some = (key_nodes <= highest) & (key_ends > lowest)  # (query blocks, keys)
    every = (key_nodes <= lowest) & (key_ends > highest)
    if window is not None:
        shallow, deep = (
            bound.values[:, None] for bound in (_blocks(query_depths).min(1), _blocks(query_depths).max(1))
        )
        some &= shallow - key_depths < window
        every &= deep - key_depths < window
    full = _blocks(every).all(2)
    partial = _blocks(some).any(2) & ~full
    return BlockMask.from_kv_blocks(*_listed(partial), *_listed(full), BLOCK_SIZE=BLOCK, mask_mod=visible)


def _blocks(rows: torch.Tensor) -> torch.Tensor:
    """The last dimension cut into blocks."""
    return rows.unflatten(-1, (-1, BLOCK))


def _listed(blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of (query blocks, key blocks): how many are set in each row, and which, these first; with batch and head."""
    order = blocks.int().argsort(dim=1, descending=True, stable=True)
    return blocks.sum(1)[None, None].int(), order[None, None].int()

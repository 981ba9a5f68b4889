"""Attention over a token trie on a GPU: flex attention with the trie's visibility as its block mask."""

from functools import lru_cache
from importlib import import_module
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from workers.engine.attention import BLOCK, Pass

MIN_HEAD_SIZE = 16
"""The kernel takes no smaller heads; they are filled up with zeros, which add nothing to a score."""

MIN_LENGTH = 2 * BLOCK
"""Queries and keys are padded to two blocks at least: torch compiles anew for a dimension of one."""

COMPILED_FORMS = 64
"""How often attention may be compiled in a process: a few times for each model."""


@lru_cache(maxsize=1)
def _compiled() -> Any:
    # Beyond its limit of 8 torch would go on with the plain form, which holds the scores of all pairs, and not say so.
    config: Any = import_module("torch._dynamo.config")
    config.recompile_limit = max(config.recompile_limit, COMPILED_FORMS)
    return torch.compile(flex_attention, fullgraph=True)


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
    _, queries, size = query.shape
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
    )[0, :, :queries, :size]  # (heads, queries, head size)
    return output.transpose(0, 1).reshape(queries, -1)


def _padded(rows: torch.Tensor) -> torch.Tensor:
    """Rows (heads, n, head size) with n a multiple of the block, always in one layout: another is compiled anew."""
    _, length, size = rows.shape
    missing = (0, max(0, MIN_HEAD_SIZE - size), 0, _missing(length))
    return torch.nn.functional.pad(rows, missing).contiguous()


def _missing(length: int) -> int:
    return max(MIN_LENGTH - length, -length % BLOCK)


def block_mask(current: Pass, window: int | None, device: torch.device) -> BlockMask:
    """Which blocks of 128 queries by 128 keys are seen in full, in part, or not at all; made once for each window."""
    window = current.effective(window)
    return current.layout(("flex", window, str(device)), lambda: _block_mask(current, window, device))


def _block_mask(current: Pass, window: int | None, device: torch.device) -> BlockMask:
    def padded(values: torch.Tensor, fill: int) -> torch.Tensor:
        return torch.nn.functional.pad(values, (0, _missing(len(values))), value=fill).to(device)

    # Padding ends before it begins: as a key nobody sees it, as a query it sees nothing.
    none = -1
    key_nodes, key_ends = padded(current.key_nodes, len(current.trie)), padded(current.key_ends, none)
    key_depths = padded(current.key_depths, 0)
    above = len(current.path)
    query_nodes = padded(current.key_nodes[above:], none)
    # A query sees the keys deeper than its floor. Without a window that is all: one form serves every layer.
    depths = current.key_depths[above:]
    floors = padded(torch.full_like(depths, -1) if window is None else depths - window, none)

    def visible(_batch: Any, _head: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        node = query_nodes[query]
        return (key_nodes[key] <= node) & (node < key_ends[key]) & (key_depths[key] > floors[query])

    # Bounds of each block of queries decide for each key: seen by all of them, or by none of them.
    lowest, highest = _bounds(query_nodes)
    low_floor, high_floor = _bounds(floors)
    some = (key_nodes <= highest) & (key_ends > lowest) & (key_depths > low_floor)  # (query blocks, keys)
    every = (key_nodes <= lowest) & (key_ends > highest) & (key_depths > high_floor)
    full = _blocks(every).all(2)
    partial = _blocks(some).any(2) & ~full
    return BlockMask.from_kv_blocks(*_listed(partial), *_listed(full), BLOCK_SIZE=BLOCK, mask_mod=visible)


def _bounds(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The smallest and the largest of each block, both (blocks, 1)."""
    return _blocks(rows).min(1).values[:, None], _blocks(rows).max(1).values[:, None]


def _blocks(rows: torch.Tensor) -> torch.Tensor:
    """The last dimension cut into blocks."""
    return rows.unflatten(-1, (-1, BLOCK))


def _listed(blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of (query blocks, key blocks): how many are set in each row, and which, these first; with batch and head."""
    order = blocks.int().argsort(dim=1, descending=True, stable=True)
    return blocks.sum(1)[None, None].int(), order[None, None].int()

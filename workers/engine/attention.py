"""Attention over a token trie: every token attends to the tokens on its own path.

A *pass* is a range of nodes that the model computes at once. Its keys are the path to its first node, computed by
earlier passes, and then its own nodes. Query i attends to key j if node j is node i or one of its ancestors: `j <= i <
end[j]`, with depths as positions.

The queries are divided into blocks of 128 nodes. A block attends to the path of its first node and to itself, which is
some hundreds of keys instead of the thousands of a pass. The mask covers only the keys that are hidden from some of its
queries.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from workers.engine.products import onednn_serves, product
from workers.engine.states import PathStates, Segment
from workers.engine.trie import TokenTrie

BLOCK = 128
"""Queries in a block. Blocks start at multiples of this, so that a node's keys do not depend on the passes."""

KEY_MULTIPLE = 32
"""Keys of a block are padded to a multiple of this: oneDNN builds a kernel for each new shape."""

ROW_MULTIPLE = 32
"""Rows of a canonical pass are padded to a multiple of this, so that they fill vector instructions exactly."""


@dataclass(frozen=True)
class Block:
    """Queries `first` to `last - 1` of a pass and the keys that they share.

    keys: rows of the pass's keys, shape (K,). All queries see the first `masked_from` keys. The mask is added to the
    scores of the other keys: 0 or minus infinity, shape (last - first, K - masked_from).
    """

    first: int
    last: int
    keys: torch.Tensor
    masked_from: int
    mask: torch.Tensor


class Pass:
    """Nodes `first` to `last - 1` of a trie, computed at once.

    states: states of the path to the first node. keep: nodes whose paths' states are needed afterwards. tokens,
    positions: rows that the model computes: the nodes and, if rows are padded, copies of the last node. No node attends
    to the padding.
    """

    def __init__(
        self,
        trie: TokenTrie,
        first: int,
        last: int,
        states: PathStates,
        keep: Sequence[int] = (),
        *,
        row_multiple: int | None = None,
    ) -> None:
        """Prepare a pass. row_multiple: the multiple to which `canonical` pads rows; None in another mode."""
        self.trie = trie
        self.canonical = row_multiple is not None
        self.first = first
        self.last = last
        self.path = trie.path(trie.parent[first])
        assert len(self.path) == states.nodes
        padding = [last - 1] * (-(last - first) % (row_multiple or 1))
        self.tokens = [trie.tokens[node] for node in (*range(first, last), *padding)]
        self.positions = [trie.depth[node] for node in (*range(first, last), *padding)]
        self.key_nodes = torch.tensor([*self.path, *range(first, last)])
        self.key_ends = torch.tensor([trie.end[node] for node in self.path] + trie.end[first:last])
        self.key_depths = torch.tensor([*range(len(self.path)), *trie.depth[first:last]])
        self._states = states
        self._layouts: dict[tuple[Any, ...], Any] = {}
        self._keep: dict[int, tuple[int, torch.Tensor, Segment]] = {}
        for node in keep:
            path = trie.path(node)
            own = [step - first for step in path if step >= first]
            self._keep[node] = (len(path) - len(own), torch.tensor(own, dtype=torch.long), Segment(len(own)))

    def kept(self) -> dict[int, PathStates]:
        """Return the states of the paths to the nodes in `keep`; call it after the pass."""
        return {node: self._states.shorten(above).append(segment) for node, (above, _, segment) in self._keep.items()}

    def extend(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a layer's keys and values of path and nodes, each (key heads, K, head size), storing the needed ones.

        keys, values: of the rows, (key heads, rows, head size).
        """
        nodes = self.last - self.first
        keys, values = keys[:, :nodes], values[:, :nodes]
        for _, rows, segment in self._keep.values():
            kept_rows = rows.to(keys.device)
            segment.keys.append(keys.index_select(1, kept_rows))
            segment.values.append(values.index_select(1, kept_rows))
        above_keys, above_values = self._states.layer(layer)
        return torch.cat([*above_keys, keys], dim=1), torch.cat([*above_values, values], dim=1)

    def key_rows(self, nodes: Sequence[int]) -> list[int]:
        """Return the rows of keys for nodes of the path or of the pass."""
        return [self.trie.depth[n] if n < self.first else len(self.path) + n - self.first for n in nodes]

    def blocks(self, window: int | None, dtype: torch.dtype) -> list[Block]:
        """Return the pass divided into blocks of queries, computed once for each window."""
        window = self.effective(window)
        cuts = [self.first, *range(self.first - self.first % BLOCK + BLOCK, self.last, BLOCK), self.last]

        def make_blocks() -> list[Block]:
            return [self._block(first, last, window, dtype) for first, last in pairwise(cuts)]

        return self.layout(("blocks", window, dtype), make_blocks)

    def layout(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return the layout under a key, calling `make` once for all layers."""
        if key not in self._layouts:
            self._layouts[key] = make()
        return self._layouts[key]

    def effective(self, window: int | None) -> int | None:
        """Return the window; None if it covers every token."""
        return window if window is not None and max(self.positions) >= window else None

    def _block(self, first: int, last: int, window: int | None, dtype: torch.dtype) -> Block:
        trie = self.trie
        ancestors = trie.path(trie.parent[first])
        if window is not None:
            shallowest = min(trie.depth[first:last])
            ancestors = [node for node in ancestors if trie.depth[node] > shallowest - window]
        nodes = [*ancestors, *range(first, last)]
        masked_from = 0
        if window is None:
            while masked_from < len(ancestors) and trie.end[ancestors[masked_from]] >= last:
                masked_from += 1
        padding = -len(nodes) % KEY_MULTIPLE
        rows = torch.tensor(self.key_rows(nodes) + [0] * padding)
        visible = self.visible(torch.arange(first, last)[:, None], rows[None, masked_from:], window)
        visible[:, visible.shape[1] - padding :] = False
        mask = torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible, -torch.inf)
        return Block(first - self.first, last - self.first, rows, masked_from, mask)

    def visible(self, queries: torch.Tensor, rows: torch.Tensor, window: int | None) -> torch.Tensor:
        """Return whether each query node sees each key in `rows`; the two are broadcast."""
        nodes, ends = self.key_nodes[rows], self.key_ends[rows]
        seen = (nodes <= queries) & (queries < ends)
        if window is not None:
            depths = self.key_depths[len(self.path) + queries - self.first]
            seen &= depths - self.key_depths[rows] < window
        return seen


def attend_in_blocks(
    current: Pass,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    window: int | None,
    softcap: float | None,
) -> torch.Tensor:
    """Compute attention on the CPU, block by block.

    query: (key heads, queries × heads per key head, head size), scaled; the rows of one query are adjacent. keys,
    values: (key heads, K, head size). Returns (queries, heads × head size).
    """
    key_heads, rows, _ = query.shape
    queries = len(current.tokens)
    group = rows // queries
    output = query.new_empty(queries, key_heads, group * values.shape[-1])
    weigh = _weigh_by_onednn if onednn_serves(query.device, query.dtype) else _weigh
    for block in current.blocks(window, query.dtype):
        block_keys = keys.index_select(1, block.keys)
        block_values = values.index_select(1, block.keys)
        block_query = query[:, block.first * group : block.last * group]
        weigh(block, block_query, block_keys, block_values, softcap, output[block.first : block.last])
    return output.view(queries, -1)


def _weigh(
    block: Block,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    softcap: float | None,
    output: torch.Tensor,
) -> None:
    """Compute all heads at once. output: (queries, key heads, heads per key head × head size)."""
    weights = _softmax(torch.bmm(query, keys.transpose(1, 2)), block, softcap)
    weighted = torch.bmm(weights, values)  # (key heads, rows, head size)
    output.copy_(weighted.view(output.shape[1], output.shape[0], output.shape[2]).transpose(0, 1))


def _weigh_by_onednn(
    block: Block,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    softcap: float | None,
    output: torch.Tensor,
) -> None:
    """Compute the heads one by one: twice as fast as `_weigh` if MKL is slow, since the scores stay in the cache."""
    for head in range(len(keys)):
        weights = _softmax(product(query[head], keys[head])[None], block, softcap)[0]
        output[:, head] = product(weights, values[head].t()).view(len(output), -1)


def _softmax(scores: torch.Tensor, block: Block, softcap: float | None) -> torch.Tensor:
    """Return the weights of the keys, overwriting the scores, (key heads, rows, K)."""
    if softcap is not None:
        scores.div_(softcap).tanh_().mul_(softcap)
    heads, rows, keys = scores.shape
    queries = block.last - block.first
    masked = scores.view(heads, queries, rows // queries, keys)[..., block.masked_from :]
    masked += block.mask[:, None]
    return scores.softmax(dim=-1)

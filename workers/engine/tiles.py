"""Attention over a token trie by torch's flash kernel, with sums in an order that only the prompt decides.

The kernel computes scores and sums in float32, and never writes the scores to memory. The columns of the keys decide
where the sum over keys adds them, so a key's column must not depend on other prompts:

- The keys of a query are divided at a depth that depends on the query's own depth, a multiple of 128 that lies 128 to
  255 positions above it, and the two parts are joined by their normalisers.
- The *far* keys, above the division, are ordered by position. All queries below the same node share them, above all a
  few-shot prefix: they are one product without a mask.
- The *near* keys are in tiles of 32 positions. Within a tile processors add the terms in an order of their own; a tile
  whose weights are all 0 adds exactly 0. So paths that separate within a tile each have a copy of it, from its first
  position on, and a query sees the copies of its own path. There are at most 512 columns, which the kernel computes in
  one run.
- Queries are padded to a multiple of 32 rows, since the kernel computes a single remaining row differently.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from workers.engine.attention import Pass

CUT: Final = 128
"""Depths at which keys may be divided into far and near ones are multiples of this."""

QUERIES: Final = 64
"""Most nodes in a block: with more nodes, each would pass more tiles that it does not see."""

MOST_QUERIES: Final = 512
"""Most nodes in a group: the nodes of a pass."""

TILE: Final = 32
"""Columns that processors may add in an order of their own: AMX takes 32 at once, AVX-512 pairs."""

MOST_TILES: Final = 16
"""Most tiles in one call for near keys. The kernel takes keys in runs of 512."""

ROWS: Final = 32
"""Queries times heads per key head are padded to a multiple of this.

The kernel takes 32, 64 or 256 rows at a time; another routine multiplies a single remaining row, and gives other bits.
"""


@dataclass(frozen=True)
class Block:
    """Rows `first` to `last - 1` in the layout's order, and their near keys, a part of the layout's.

    mask: 0 or minus infinity, shape (1, 1, rows × heads per key head, padded, last_key - first_key).
    """

    first: int
    last: int
    first_key: int
    last_key: int
    mask: torch.Tensor


@dataclass(frozen=True)
class Group:
    """Rows `first` to `last - 1` in the layout's order that share their far keys; None without far keys."""

    first: int
    last: int
    keys: slice | torch.Tensor | None


@dataclass(frozen=True)
class Layout:
    """The arrangement of a pass's rows and keys.

    order: the pass's rows in the order of the groups, and the place of each row in that order; None if the order is
    unchanged. groups and blocks each cover the nodes; padding follows and sees nothing. near: rows of the pass's keys.
    """

    order: tuple[torch.Tensor, torch.Tensor] | None
    groups: list[Group]
    blocks: list[Block]
    near: torch.Tensor


def cut_above(depth: int) -> int:
    """Return the depth that divides the keys of a query: nodes of its path at this depth and deeper are near."""
    return CUT * max(0, depth // CUT - 1)


def attend_in_tiles(
    current: Pass, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, *, scaling: float
) -> torch.Tensor:
    """Compute attention of a pass without a window.

    query: (key heads, rows, heads per key head, head size), best as a view of memory whose third dimension is the key
    heads. keys, values: (key heads, K, head size). Returns (rows, key heads, heads per key head, head size), as a view
    of the same kind.
    """
    key_heads, rows, group, size = query.shape
    layout = current.layout(("tiles", query.dtype, group), lambda: _layout(current, query.dtype, group))
    query = query.permute(1, 2, 0, 3)
    if layout.order is not None:
        query = query.index_select(0, layout.order[0])
    query = query.flatten(0, 1).transpose(0, 1)  # (key heads, rows × heads per key head, head size)
    nodes = layout.groups[-1].last

    def gather(parts: list[tuple[torch.Tensor, torch.Tensor]], rest: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return attention and normalisers of all rows, from consecutive parts. rest: normaliser of padding."""
        padding = rows - nodes
        outputs = [part.transpose(0, 1) for part, _ in parts] + [query.new_zeros(padding * group, key_heads, size)]
        normalisers = [part.t() for _, part in parts] + [torch.full((padding * group, key_heads), rest)]
        return torch.cat(outputs), torch.cat(normalisers)

    near_keys, near_values = keys.index_select(1, layout.near), values.index_select(1, layout.near)
    # (rows × heads per key head, key heads, head size), and the same without the last dimension
    output, normaliser = gather(
        [
            _flash(
                query[:, block.first * group : block.last * group],
                near_keys[:, block.first_key : block.last_key],
                near_values[:, block.first_key : block.last_key],
                block.mask,
                scaling,
            )
            for block in layout.blocks
        ],
        0.0,
    )
    if any(part.keys is not None for part in layout.groups):
        far = []
        for part in layout.groups:
            some = query[:, part.first * group : part.last * group]
            if part.keys is None:
                far.append((torch.zeros_like(some), torch.full(some.shape[:2], -torch.inf)))
            elif isinstance(part.keys, slice):
                far.append(_flash(some, keys[:, part.keys], values[:, part.keys], None, scaling))
            else:
                own_keys, own_values = keys.index_select(1, part.keys), values.index_select(1, part.keys)
                far.append(_flash(some, own_keys, own_values, None, scaling))
        above, normaliser_above = gather(far, -torch.inf)
        shares = normaliser_above.sub_(normaliser).sigmoid_()
        output = torch.lerp(output, above, shares[..., None].to(output.dtype))
    output = output.view(rows, group, key_heads, size)
    if layout.order is not None:
        output = output.index_select(0, layout.order[1])
    return output.transpose(1, 2)


def _flash(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None, scaling: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention (key heads, queries, head size) and the logarithms of its normalisers (key heads, queries).

    mask: for the queries padded to a multiple of `ROWS`.
    """
    rows = query.shape[1]
    output, normaliser = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001
        _pad_rows(query)[None], keys[None], values[None], attn_mask=mask, scale=scaling
    )
    return output[0, :, :rows], normaliser[0, :, :rows]


def _pad_rows(rows: torch.Tensor) -> torch.Tensor:
    """Return (…, rows, columns) with rows of zeros appended, up to a multiple of `ROWS`."""
    padding = -rows.shape[-2] % ROWS
    return torch.nn.functional.pad(rows, (0, 0, 0, padding)) if padding else rows


def _layout(current: Pass, dtype: torch.dtype, heads: int) -> Layout:
    """Arrange a pass in tiles. heads: query heads per key head."""
    trie = current.trie
    above_cut: dict[int, int] = {}
    below: dict[int, list[int]] = {}
    for node in range(current.first, current.last):
        cut, parent = cut_above(trie.depth[node]), trie.parent[node]
        if cut == 0:
            above = -1
        elif parent in above_cut and cut == cut_above(trie.depth[parent]):
            above = above_cut[parent]
        else:
            above = trie.path(node)[cut - 1]
        above_cut[node] = above
        below.setdefault(above, []).append(node)
    groups: list[Group] = []
    blocks: list[Block] = []
    near: list[torch.Tensor] = []
    first, first_key = 0, 0
    for above, nodes in below.items():
        keys = None if above < 0 else _slice_if_consecutive(current.key_rows(trie.path(above)))
        groups.append(Group(first, first + len(nodes), keys))
        for some, columns, visible in _in_tiles(current, nodes, trie.depth[above] + 1 if above >= 0 else 0):
            mask = torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible, -torch.inf)
            last, last_key = first + len(some), first_key + len(columns)
            mask = _pad_rows(mask.repeat_interleave(heads, dim=0))[None, None]
            blocks.append(Block(first, last, first_key, last_key, mask))
            near.append(columns)
            first, first_key = last, last_key
    order = [node - current.first for nodes in below.values() for node in nodes]
    order += range(len(order), len(current.tokens))
    return Layout(
        None if order == sorted(order) else (torch.tensor(order), torch.tensor(order).argsort()),
        groups,
        blocks,
        torch.cat(near),
    )


def _in_tiles(
    current: Pass, nodes: Sequence[int], cut: int
) -> Iterator[tuple[Sequence[int], torch.Tensor, torch.Tensor]]:
    """Yield parts of nodes that share their far keys, each with the rows of its near keys and their mask."""
    start = 0
    while start < len(nodes):
        tiles = _Tiles(current, cut)
        stop = start
        while stop < min(start + QUERIES, len(nodes)) and tiles.add(nodes[stop]):
            stop += 1
        yield nodes[start:stop], *tiles.columns(nodes[start:stop])
        start = stop


class _Tiles:
    """Copies of tiles, each with nodes of one path at consecutive depths, from the tile's first depth on."""

    def __init__(self, current: Pass, cut: int) -> None:
        self._trie = current.trie
        self._current = current
        self._cut = cut
        self._copies: list[list[int]] = []
        self._seen: dict[int, tuple[int, ...]] = {}
        """For each node, the copies whose path contains it, from the cut on."""

    def add(self, node: int) -> bool:
        """Add the tiles that a node sees; return whether there was space for them."""
        before = len(self._copies)
        missing = []
        while node not in self._seen and self._trie.depth[node] >= self._cut:
            missing.append(node)
            node = self._trie.parent[node]
            if node < 0:
                break
        seen = self._seen.get(node, ())
        for step in reversed(missing):
            slot = self._trie.depth[step] % TILE
            if slot == 0:
                self._copies.append([step])
                seen = (*seen, len(self._copies) - 1)
            elif len(self._copies[seen[-1]]) == slot:
                self._copies[seen[-1]].append(step)
            else:
                self._copies.append([*self._copies[seen[-1]][:slot], step])
                seen = (*seen[:-1], len(self._copies) - 1)
            self._seen[step] = seen
        if before and len(self._copies) > MOST_TILES:
            del self._copies[before:]
            return False
        return True

    def columns(self, nodes: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows of the pass's keys, tiles ordered by position, and the keys that each node sees."""
        depth = self._trie.depth
        places = [(depth[copy[0]] - self._cut) // TILE for copy in self._copies]
        order = sorted(range(len(places)), key=places.__getitem__)
        keys = torch.tensor(
            [row for number in order for row in self._pad(self._current.key_rows(self._copies[number]))]
        )
        most = max(places) + 1
        seen = torch.tensor([[*self._seen[node], *[-1] * (most - len(self._seen[node]))] for node in nodes])
        own = torch.tensor([depth[node] - self._cut for node in nodes])
        place, slots = torch.tensor([places[number] for number in order]), torch.arange(TILE)
        is_own = seen[:, place] == torch.tensor(order)  # (nodes, tiles)
        above = place[:, None] * TILE + slots <= own[:, None, None]  # (nodes, tiles, slots)
        return keys, (is_own[..., None] & above).flatten(1)

    @staticmethod
    def _pad(rows: list[int]) -> list[int]:
        return rows + rows[:1] * (TILE - len(rows))


def _slice_if_consecutive(rows: list[int]) -> slice | torch.Tensor:
    """Return the rows as a slice, which needs no copy, if they are consecutive; else as a tensor."""
    if rows == list(range(rows[0], rows[0] + len(rows))):
        return slice(rows[0], rows[-1] + 1)
    return torch.tensor(rows)


def check_tiles(
    key_heads: int, heads: int, size: int, random: Callable[..., torch.Tensor], dtype: torch.dtype
) -> str | None:
    """Return the first property of this host's kernel that rules out the canonical mode; None if there is none.

    heads: query heads per key head. size: head size. random: returns random numbers of a shape.
    """
    most = MOST_TILES * TILE
    query = random(key_heads, heads * MOST_QUERIES, size).to(dtype)
    keys, values = (random(key_heads, 2 * most, size).to(dtype) for _ in range(2))
    for length in (CUT, 3 * CUT, 2 * most):
        complete = _flash(query, keys[:, :length], values[:, :length], None)
        for rows in (*range(1, 2 * QUERIES), heads * MOST_QUERIES // 2):
            some = slice(heads, heads + rows)
            few = _flash(query[:, some], keys[:, :length], values[:, :length], None)
            if not all(
                torch.equal(expected[:, some], computed) for expected, computed in zip(complete, few, strict=True)
            ):
                return f"attention to {length} keys depends on how many queries there are"
    query, keys, values = query[:, : heads * TILE], keys[:, :most], values[:, :most]
    for length in range(1, 2 * CUT, 21):
        tiles = -(-length // TILE)
        alone = _spread(query, keys[:, :length], values[:, :length], range(tiles), tiles)
        places = sorted(random(MOST_TILES).argsort()[:tiles].tolist())
        among = _spread(query, keys[:, :length], values[:, :length], places, MOST_TILES)
        if not all(map(torch.equal, alone, among)):
            return f"attention to {length} keys depends on the tiles between them"
    return None


def _spread(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, places: Sequence[int], tiles: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute attention to keys placed in some of these tiles, with the other tiles masked."""
    columns = torch.tensor([place * TILE + slot for place in places for slot in range(TILE)])[: keys.shape[1]]
    mask = torch.full((query.shape[1], tiles * TILE), -torch.inf, dtype=query.dtype)
    mask[:, columns] = 0
    spread_keys, spread_values = (query.new_ones(len(query), tiles * TILE, query.shape[2]) for _ in range(2))
    spread_keys[:, columns], spread_values[:, columns] = keys, values
    return _flash(query, spread_keys, spread_values, mask[None, None])

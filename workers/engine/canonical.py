"""The canonical mode: a prompt's numbers have the same bits whatever it is scored with.

Floating-point sums depend on the order of their terms, so every sum behind a number gets an order that only the prompt
decides:

- Products. oneDNN adds the terms of an element one after the other, in runs whose length depends on the product's inner
  dimension. From two rows on, neither the other rows nor the number or the order of rows change an element.
- Attention. The sum over a query's keys is taken in chunks of 384 positions, so that no product has an inner dimension
  above 512, up to which it is one run. Keys of other paths, between or after the query's own keys, have the weight 0
  exactly. Weights are relative to the row's highest score, which is the same in any order; the sum of the weights is
  one more column of the same product.
- Everything else works on single rows. The remainder of a row that does not fill a vector is computed by other
  instructions, whose exponentials and similar functions may differ in the last bit: rows are padded to a multiple of
  32, so that there is no remainder.
- In bfloat16 oneDNN's runs also depend on the number of rows: all passes have 512 rows, and the rows read from the last
  layer are padded to 64. Attention is computed in tiles (`tiles`), since processors add 32 products of bfloat16 in an
  order of their own.
- Each thread computes passes alone; no product is shared between threads.

oneDNN happens to behave this way but does not guarantee it, so an engine checks when it is opened: products with the
model's weights, products of attention (`check_products`), and its own numbers for some test prompts, alone and
together.
"""

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from typing import Any, Final

import torch

from workers.engine.attention import BLOCK, KEY_MULTIPLE, ROW_MULTIPLE, Pass
from workers.engine.products import bfloat16_by, is_plain, onednn_serves, product
from workers.engine.tiles import check_tiles
from workers.tokens import TokenisedPrompt

CHUNK_POSITIONS: Final = 384
"""Positions whose keys are added in one run; with the nodes of a block, at most 512 keys."""

LOG2_E: Final = math.log2(math.e)
"""Factor of scores whose power of 2 is a weight: torch's exp2 is four times as fast as its exp."""

PASS_ROWS: Final = 512
"""Rows of every product in bfloat16: with another number of rows oneDNN adds in different runs."""

LAST_ROWS: Final = 64
"""Rows of products in the last layer, which reads few rows."""

CHECKED_ROWS: Final = (ROW_MULTIPLE, 7 * ROW_MULTIPLE, 16 * ROW_MULTIPLE)
"""Numbers of rows for which each shape of weights is checked."""


def row_multiple(dtype: torch.dtype) -> int:
    """Return the multiple to which the rows of a pass are padded."""
    return PASS_ROWS if dtype == torch.bfloat16 else ROW_MULTIPLE


def refusal(model: Any) -> str | None:
    """Return the reason why a model has no canonical mode; None if no reason is known."""
    if model.device.type == "cpu" and model.dtype == torch.bfloat16 and bfloat16_by() == "emulated":
        return "this processor emulates bfloat16"
    if not onednn_serves(model.device, model.dtype):
        return f"its products are of {str(model.dtype).removeprefix('torch.')} on {model.device.type}, not oneDNN's"
    if not all(is_plain(weight) for weight in model.parameters()):
        return "its weights are quantised"
    config = model.config.get_text_config()
    if getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None):
        return "its experts multiply as many rows as are sent to them"
    return None


Random = Callable[..., torch.Tensor]
"""Returns random numbers of a shape."""


@torch.no_grad()
def check_products(weights: Sequence[torch.Tensor], key_heads: int, heads: int, size: int) -> str | None:
    """Return the first property of this host's products that rules out the canonical mode; None if there is none.

    weights: one of each shape, (outputs, inputs). heads: query heads per key head. size: head size.
    """
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    if weights[0].dtype != torch.bfloat16:
        return _check_numbers_of_rows(weights, random) or _check_attention(heads, size, random)
    return (
        _check_places(weights, random)
        or check_tiles(key_heads, heads, size, random, torch.bfloat16)
        or _check_attention(heads, size, random)
    )


def _check_numbers_of_rows(weights: Sequence[torch.Tensor], random: Random) -> str | None:
    for weight in weights:
        outputs, inner = weight.shape
        rows = random(max(CHECKED_ROWS), inner)
        full_product = product(rows, weight)
        for number in CHECKED_ROWS[:-1]:
            # The same rows, in another place and among other rows.
            if not torch.equal(product(rows[7 : 7 + number].contiguous(), weight), full_product[7 : 7 + number]):
                return f"a row of a product of {inner} by {outputs} depends on how many rows there are"
    return None


def _check_places(weights: Sequence[torch.Tensor], random: Random) -> str | None:
    """Return the problem if a row depends on its place in a product with a fixed number of rows, else None."""
    for weight in weights:
        outputs, inner = weight.shape
        for number in (LAST_ROWS, PASS_ROWS):
            rows = random(number, inner).to(weight.dtype)
            elsewhere = rows.roll(7, dims=0)
            elsewhere[:7] = 1
            if not torch.equal(product(elsewhere, weight)[7:], product(rows, weight)[:-7]):
                return f"a row of a product of {inner} by {outputs} depends on where it stands"
    return None


def _check_attention(heads: int, size: int, random: Random) -> str | None:
    """Return the problem if the place of keys with weight 0 changes attention in chunks, else None."""
    keys = CHUNK_POSITIONS + BLOCK
    query, key, value = random(BLOCK * heads, size), random(keys, size), random(keys, size + 1)
    scores, shares = product(query, key), random(BLOCK * heads, keys)
    few = ROW_MULTIPLE * heads
    for number in range(KEY_MULTIPLE, keys + 1, KEY_MULTIPLE):
        if not torch.equal(product(query[:few], key[:number]), scores[:few, :number]):
            return f"scores of attention depend on the number of keys, {number}"
        own = random(number).argsort()[: KEY_MULTIPLE - 1].sort().values
        spread = torch.zeros(len(shares), number)
        spread[:, own] = shares[:, : len(own)]
        alone = torch.zeros(few, KEY_MULTIPLE)
        alone[:, : len(own)] = shares[:few, : len(own)]
        own_values = torch.zeros(KEY_MULTIPLE, size + 1)
        own_values[: len(own)] = value[own]
        if not torch.equal(product(spread, value[:number].t())[:few], product(alone, own_values.t())):
            return f"a sum over {number} keys is not one run"
    return None


def make_prompts(vocabulary: int, longest: int | None, dtype: torch.dtype) -> list[TokenisedPrompt]:
    """Return the prompts of an engine's self-check: two with a common beginning, and a different one.

    vocabulary: number of tokens. longest: maximal number of tokens in a prompt; None for no limit. A model with a small
    limit may get fewer prompts. In bfloat16 they are longer, so that the first two also share distant keys; its passes
    are long anyway.
    """
    shared = 340 if dtype == torch.bfloat16 else 40
    length = min(shared + 120, longest or shared + 120)
    tokens = [place * place * 7919 % vocabulary for place in range(1, 1 + length)]
    contexts = [tokens[: shared + 60], tokens[:shared] + tokens[shared + 60 :], tokens[60:90]]
    return [TokenisedPrompt(context, [0, 1]) for context in contexts if context]


def digest(logprobs: Sequence[Sequence[float]]) -> str:
    """Return a digest of the numbers' bits: the first 16 hexadecimal digits of their SHA-256."""
    numbers = [number for row in logprobs for number in row]
    return sha256(struct.pack(f"<{len(numbers)}d", *numbers)).hexdigest()[:16]


@dataclass(frozen=True)
class Chunk:
    """Keys `first` to `last - 1` of a block, in one chunk of CHUNK_POSITIONS positions.

    All queries see the keys before `masked_from`. The mask is added to the scores of the other keys: 0 or minus
    infinity, shape (queries, last - masked_from).
    """

    first: int
    last: int
    masked_from: int
    mask: torch.Tensor


@dataclass(frozen=True)
class Block:
    """Queries `first` to `last - 1` of a pass's rows; keys: rows of the pass's keys, shape (K,), chunk after chunk."""

    first: int
    last: int
    keys: torch.Tensor
    chunks: list[Chunk]


def attend(
    current: Pass,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    window: int | None,
    softcap: float | None,
) -> torch.Tensor:
    """Compute attention of a canonical pass.

    query: (key heads, queries × heads per key head, head size), scaled, and without a softcap also multiplied by
    LOG2_E; the rows of one query are adjacent. keys, values: (key heads, K, head size). Returns (queries, heads × head
    size).
    """
    key_heads, rows, _ = query.shape
    queries = len(current.tokens)
    group, size = rows // queries, values.shape[-1]
    values = torch.nn.functional.pad(values, (0, 1), value=1.0)  # the last column sums the weights
    output = query.new_zeros(queries, key_heads, group * size)  # rows that are only padding are in no block
    window = current.effective(window)
    for block in current.layout(("canonical", window), lambda: list(_blocks(current, window))):
        block_keys, block_values = keys.index_select(1, block.keys), values.index_select(1, block.keys)
        queried = query[:, block.first * group : block.last * group]
        for head in range(key_heads):
            weighted = _weigh(block, queried[head], block_keys[head], block_values[head], softcap)
            shares = weighted[:, :-1] / weighted[:, -1:]
            output[block.first : block.last, head] = shares.view(block.last - block.first, -1)
    return output.view(queries, -1)


def _weigh(
    block: Block, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, softcap: float | None
) -> torch.Tensor:
    """Return the weighted sum of the values, not yet divided, and the sum of the weights, (rows, head size + 1)."""
    scores = []
    for chunk in block.chunks:
        part = product(query, keys[chunk.first : chunk.last])
        if softcap is not None:
            part.div_(softcap).tanh_().mul_(softcap * LOG2_E)
        if chunk.masked_from < chunk.last:
            masked = part.view(len(chunk.mask), -1, chunk.last - chunk.first)[..., chunk.masked_from - chunk.first :]
            masked += chunk.mask[:, None]
        scores.append(part)
    highest = reduce(torch.maximum, [part.amax(dim=-1, keepdim=True) for part in scores])
    # A query without a key in a chunk adds 0 exactly.
    return reduce(
        torch.Tensor.add_,
        [
            product(part.sub_(highest).exp2_(), values[chunk.first : chunk.last].t())
            for chunk, part in zip(block.chunks, scores, strict=True)
        ],
    )


def _blocks(current: Pass, window: int | None) -> Iterator[Block]:
    nodes, rows = current.last - current.first, len(current.tokens)
    for first in range(0, nodes, BLOCK):
        yield _block(current, first, min(first + BLOCK, rows), min(first + BLOCK, nodes), window)


def _block(current: Pass, first: int, last: int, last_node: int, window: int | None) -> Block:
    """Make a block. Rows from `last_node` on are padding: they see every key, so that their numbers are finite."""
    trie = current.trie
    own = range(current.first + first, current.first + last_node)
    ancestors = trie.path(trie.parent[own[0]])
    if window is not None:
        shallowest = min(trie.depth[own.start : own.stop])
        ancestors = [node for node in ancestors if trie.depth[node] > shallowest - window]
    by_chunk: dict[int, list[int]] = {}
    for node in (*ancestors, *own):
        by_chunk.setdefault(trie.depth[node] // CHUNK_POSITIONS, []).append(node)
    keys: list[int] = []
    chunks: list[Chunk] = []
    for _, nodes in sorted(by_chunk.items()):
        padding = -len(nodes) % KEY_MULTIPLE
        rows = current.key_rows(nodes) + [0] * padding
        visible = torch.ones(last - first, len(rows), dtype=torch.bool)
        seen = visible[: len(own)]
        seen[:] = current.visible(torch.arange(own.start, own.stop)[:, None], torch.tensor(rows)[None], window)
        seen[:, len(nodes) :] = False
        hidden = (~visible).any(dim=0).nonzero()
        masked_from = int(hidden[0]) if len(hidden) else len(rows)
        mask = torch.zeros(last - first, len(rows) - masked_from).masked_fill_(~visible[:, masked_from:], -torch.inf)
        chunks.append(Chunk(len(keys), len(keys) + len(rows), len(keys) + masked_from, mask))
        keys += rows
    return Block(first, last, torch.tensor(keys), chunks)

"""Figures for the benches of scoring: operations and differences. Imports nothing of the registry."""

import math
from collections.abc import Sequence
from typing import Any

from workers.engine.trie import TokenTrie

NEAR_TIE = 1e-4
"""If the first choice leads by less than this, rounding may change it."""


class Work:
    """Counts the operations of a Llama-shaped model: two for each weight and token.

    config: the model's configuration.
    """

    def __init__(self, config: Any) -> None:
        hidden, heads, key_heads = config.hidden_size, config.num_attention_heads, config.num_key_value_heads
        size = config.head_dim or hidden // heads
        projections = hidden * size * (2 * heads + 2 * key_heads) + 3 * hidden * config.intermediate_size
        self.layer_weights = config.num_hidden_layers * projections
        self._per_pair = 4 * config.num_hidden_layers * heads * size
        self._per_read = 2 * hidden * config.vocab_size

    def of_trie(self, trie: TokenTrie) -> tuple[float, float]:
        """Return the operations of the weights, and of weights and attention; every token attends to its own path."""
        return self._count(len(trie), len(set(trie.last)), sum(depth + 1 for depth in trie.depth))

    def _count(self, tokens: int, read: int, pairs: int) -> tuple[float, float]:
        weights = 2 * self.layer_weights * tokens + self._per_read * read
        return weights, weights + self._per_pair * pairs


def probabilities(logprobs: Sequence[float]) -> list[float]:
    """Return probabilities, renormalised over the labels."""
    highest = max(logprobs)
    weights = [math.exp(value - highest) for value in logprobs]
    return [weight / math.fsum(weights) for weight in weights]


def compare(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the largest difference of a probability, and the number of prompts with another first choice.

    Near ties do not count as another choice.
    """
    largest, changed = 0.0, 0
    for left, right in zip(map(probabilities, one), map(probabilities, other), strict=True):
        largest = max(largest, *(abs(a - b) for a, b in zip(left, right, strict=True)))
        first, second = sorted(right, reverse=True)[:2]
        changed += left.index(max(left)) != right.index(first) and first - second > NEAR_TIE
    return largest, changed

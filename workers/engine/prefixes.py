"""Keys and values of beginnings that later calls share: the instruction and the few-shot examples."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from workers.engine.states import PathStates
from workers.engine.trie import TokenTrie

MIN_TOKENS = 16
"""Beginnings shorter than this are computed again, which is faster than looking them up."""


class KeptPrefixes:
    """States of token sequences up to `limit_bytes`; the least recently used are dropped first."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._kept: OrderedDict[tuple[int, ...], PathStates] = OrderedDict()

    @property
    def bytes(self) -> int:
        """Return the bytes of all stored states."""
        return sum(states.bytes for states in self._kept.values())

    def find(self, trie: TokenTrie, stops: set[int]) -> dict[int, PathStates]:
        """Return the states of stored sequences by the nodes of their paths, up to the first node in `stops`."""
        states: dict[int, PathStates] = {}
        for tokens in list(self._kept):
            nodes = trie.follow(tokens)
            stop = next((place for place, node in enumerate(nodes) if node in stops), len(nodes))
            if stop >= MIN_TOKENS:
                self._kept.move_to_end(tokens)
                states.update((node, self._kept[tokens]) for node in nodes[:stop] if node not in states)
        return states

    def clear(self) -> None:
        """Delete everything."""
        self._kept.clear()

    def covers(self, tokens: Sequence[int]) -> bool:
        """Return whether a stored sequence begins with `tokens`."""
        wanted = tuple(tokens)
        return any(kept[: len(wanted)] == wanted for kept in self._kept)

    def add(self, tokens: Sequence[int], states: PathStates) -> None:
        """Store the states of a sequence, replacing the states of its beginnings."""
        if len(tokens) < MIN_TOKENS or states.bytes > self.limit_bytes or self.covers(tokens):
            return
        added = tuple(tokens)
        for shorter in [kept for kept in self._kept if kept == added[: len(kept)]]:
            del self._kept[shorter]
        self._kept[added] = states
        while self.bytes > self.limit_bytes:
            self._kept.popitem(last=False)


def shared_ends(trie: TokenTrie, groups: Sequence[Hashable]) -> list[int]:
    """Return the last nodes of the paths worth keeping: beginnings that several groups share.

    groups: by sequence. A path of d tokens that g groups share saves d·(g−1) tokens; among all sets of paths in which
    none continues another, the result saves the most. With only one group, it is the common beginning of all sequences,
    since the next group's sequences begin the same way.
    """
    below: list[set[Hashable]] = [set() for _ in range(len(trie))]
    for node, group in zip(trie.last, groups, strict=True):
        below[node].add(group)
    saved = [0] * len(trie)
    ends: list[list[int]] = [[] for _ in range(len(trie))]
    for node in range(len(trie) - 1, -1, -1):
        own = (trie.depth[node] + 1) * (len(below[node]) - 1)
        if own > saved[node]:
            saved[node], ends[node] = own, [node]
        parent = trie.parent[node]
        if parent >= 0:
            below[parent] = below[node] | below[parent] if below[parent] else below[node]
            saved[parent] += saved[node]
            ends[parent] = ends[node] + ends[parent] if ends[parent] else ends[node]
    if len(set(groups)) == 1:
        return _common_end(trie)
    return [end for node in range(len(trie)) if trie.parent[node] < 0 for end in ends[node]]


def _common_end(trie: TokenTrie) -> list[int]:
    """Return the last node that all sequences have in common, if there is one."""
    stops = set(trie.last)
    node = 0
    if trie.end[0] != len(trie):
        return []
    while node not in stops and trie.end[node + 1] == trie.end[node]:
        node += 1
    return [node]

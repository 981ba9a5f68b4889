"""The token trie: every distinct prefix of a set of token sequences is one node.

Nodes are numbered depth-first, so that the descendants of a node follow it without a gap. "Node a is node b or an
ancestor of it" is then the interval test `a <= b < end[a]`, and in any range of nodes, all ancestors outside the range
are ancestors of its first node.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class TokenTrie:
    """Token sequences merged by common beginnings.

    tokens, parent, depth, end: by node. parent is -1 for a first token; depth counts from 0 and is the token's
    position; the descendants of node i are the nodes from i + 1 to end[i] - 1.
    last: by sequence, the node of its last token.
    """

    tokens: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tokens)

    def path(self, node: int) -> list[int]:
        """Return the nodes from the first token to `node`; none for -1."""
        nodes = []
        while node >= 0:
            nodes.append(node)
            node = self.parent[node]
        nodes.reverse()
        return nodes

    def follow(self, sequence: Sequence[int]) -> list[int]:
        """Return the nodes that the sequence shares with the trie, from its first token on."""
        nodes: list[int] = []
        candidate, limit = 0, len(self)
        for token in sequence:
            while candidate < limit and self.tokens[candidate] != token:
                candidate = self.end[candidate]  # the next sibling
            if candidate >= limit:
                break
            nodes.append(candidate)
            candidate, limit = candidate + 1, self.end[candidate]
        return nodes


def build_trie(sequences: Sequence[Sequence[int]]) -> TokenTrie:
    """Build the trie of `sequences`, all non-empty. Equal sequences share their last node."""
    trie = TokenTrie(last=[-1] * len(sequences))
    path: list[int] = []
    previous: Sequence[int] = ()
    for index in sorted(range(len(sequences)), key=lambda index: list(sequences[index])):
        sequence = sequences[index]
        if not sequence:
            raise ValueError(f"sequence {index} has no token")
        shared = common_length(previous, sequence)
        for node in path[shared:]:
            trie.end[node] = len(trie)
        del path[shared:]
        for token in sequence[shared:]:
            trie.parent.append(path[-1] if path else -1)
            trie.depth.append(len(path))
            path.append(len(trie))
            trie.tokens.append(token)
            trie.end.append(0)
        trie.last[index] = path[-1]
        previous = sequence
    for node in path:
        trie.end[node] = len(trie)
    return trie


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of two sequences' common beginning."""
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length

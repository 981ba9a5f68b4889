"""Keys and values of the nodes of a path, from which later nodes are computed."""

from dataclasses import dataclass, field

import torch


@dataclass
class Segment:
    """Keys and values of consecutive nodes of a path, by layer: shape (key heads, nodes, head size)."""

    nodes: int
    keys: list[torch.Tensor] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)


@dataclass(frozen=True)
class PathStates:
    """The segments of a path, from its first token on. Paths with a common beginning share its tensors."""

    segments: tuple[Segment, ...] = ()

    @property
    def nodes(self) -> int:
        """Return the number of tokens in the path."""
        return sum(segment.nodes for segment in self.segments)

    @property
    def bytes(self) -> int:
        """Return the bytes of the tensors, including shared ones."""
        tensors = [tensor for segment in self.segments for tensor in (*segment.keys, *segment.values)]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def layer(self, number: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Return a layer's keys and values, segment by segment."""
        return [part.keys[number] for part in self.segments], [part.values[number] for part in self.segments]

    def append(self, segment: Segment) -> "PathStates":
        """Return the path with a segment appended."""
        return PathStates((*self.segments, segment)) if segment.nodes else self

    def shorten(self, nodes: int) -> "PathStates":
        """Return the states of the path's first `nodes` nodes, sharing memory."""
        kept: list[Segment] = []
        for segment in self.segments:
            take = min(segment.nodes, nodes)
            if take:
                keys, values = [k[:, :take] for k in segment.keys], [v[:, :take] for v in segment.values]
                kept.append(segment if take == segment.nodes else Segment(take, keys, values))
            nodes -= take
        return PathStates(tuple(kept))

    def copied(self) -> "PathStates":
        """Return the path as one segment, copied into new memory."""
        segment = Segment(self.nodes)
        for number in range(len(self.segments[0].keys)):
            keys, values = self.layer(number)
            segment.keys.append(torch.cat(keys, dim=1))
            segment.values.append(torch.cat(values, dim=1))
        return PathStates((segment,))

"""Our own forward pass for Llama's layers on the CPU, which reads and writes the activations less often.

The weights have to be copied anyway, into the layout that oneDNN reads. The copy multiplies the norms' gains into the
products that follow them (in float32), joins the three projections of attention, and reorders the rows of queries and
keys so that rotating them by their position is one multiplication of complex numbers. The heads of a group of queries
are also reordered, into the order in which attention takes and returns them. The last layer is computed only for rows
that are read.

The operations between products work on some rows at a time, in memory that is used again: with a whole pass, every
operation would read from outside the core's cache.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch

from workers.engine.adapters import has_adapter
from workers.engine.attention import ROW_MULTIPLE, Pass
from workers.engine.canonical import LAST_ROWS
from workers.engine.cpu import attend_on_cpu
from workers.engine.products import onednn_serves, pack, product, product_times

FUSED_TYPES: Final = ("llama", "mistral", "qwen2")

ROWS_AT_ONCE: Final = 128
"""Rows computed at once between products: with 576 to 4096 floats per row, they fit into a core's second cache."""


def can_be_fused(model: Any) -> bool:
    """Return whether FusedForward supports a model's layers."""
    config = model.config
    return (
        config.model_type in FUSED_TYPES
        and config.hidden_act == "silu"
        and not getattr(config, "mlp_bias", False)
        and onednn_serves(model.device, model.dtype)
        and all(type(weight) is torch.nn.Parameter for weight in model.parameters())
        and not has_adapter(model)
    )


class FusedForward:
    """Llama's forward pass over tries, by oneDNN."""

    name = "fused"

    def __init__(self, model: Any, rows: int, *, canonical: bool = False) -> None:
        """Pack the weights. rows: about how many tokens are computed at once.

        canonical: whether passes are canonical.
        """
        self._canonical = canonical
        self._base = model.base_model
        self._heads = model.config.num_attention_heads
        self._key_heads = model.config.num_key_value_heads
        self._size = self._base.layers[0].self_attn.head_dim
        self._epsilon = model.config.rms_norm_eps
        self._dtype = model.dtype
        with torch.no_grad():
            self._layers = [_Layer(layer, rows, rows) for layer in self._base.layers[:-1]]
            last_rows = LAST_ROWS if self._dtype == torch.bfloat16 else rows
            self._layers.append(_Layer(self._base.layers[-1], rows, last_rows))

    @contextmanager
    def install(self) -> Iterator[None]:
        """Do nothing: the model's own code does not run."""
        yield

    def __call__(self, current: Pass, wanted: Sequence[int]) -> torch.Tensor:
        """Return the states after the last norm for the `wanted` rows of a pass, (wanted, hidden size)."""
        tokens = len(current.tokens)
        turns = self._turns(current.positions)
        states = self._base.embed_tokens(torch.tensor(current.tokens)).float()  # (tokens, hidden size)
        group = self._heads // self._key_heads
        query = torch.empty(tokens, self._heads, self._size, dtype=self._dtype)
        key = torch.empty(tokens, self._key_heads, self._size, dtype=self._dtype)
        added = None
        for number, layer in enumerate(self._layers):
            normed = self._normalise(states, added, layer.gain)
            projected = product(normed, layer.qkv, layer.qkv_bias).view(tokens, -1, self._size)
            self._turn(projected, turns, query, key)
            v = projected[:, self._heads + self._key_heads :]
            keys, values = current.extend(number, key.transpose(0, 1), v.transpose(0, 1))
            if number == len(self._layers) - 1 and not wanted:
                return states[:0]
            attended = attend_on_cpu(
                current,
                query.unflatten(1, (group, -1)).permute(2, 0, 1, 3),
                keys,
                values,
                scaling=layer.scaling,
                window=layer.window,
                softcap=None,
            )
            attended = attended.transpose(1, 2).flatten(1)  # (tokens, heads × head size), key heads third
            at_once = tokens
            if number == len(self._layers) - 1:
                at_once = LAST_ROWS if self._dtype == torch.bfloat16 else tokens
                padding = (
                    [0] * (-len(wanted) % (LAST_ROWS if self._dtype == torch.bfloat16 else ROW_MULTIPLE))
                    if self._canonical
                    else []
                )
                rows = torch.tensor([*wanted, *padding])
                states, attended = states[rows], attended[rows]
            added = self._finish_layer(layer, states, attended, at_once)
        return self._base.norm(states.add_(added))[: len(wanted)]

    def _finish_layer(
        self, layer: "_Layer", states: torch.Tensor, attended: torch.Tensor, at_once: int
    ) -> torch.Tensor:
        """Return the states after a layer's MLP. Adds the attention to `states` in place."""
        outputs = []
        for some, attended_some in zip(states.split(at_once), attended.split(at_once), strict=True):
            normed = self._normalise(some, product(attended_some, layer.output, layer.output_bias), layer.gain_after)
            gate = product(normed, layer.gate, activation="swish")
            outputs.append(product(product_times(normed, layer.up, gate), layer.down))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _turn(self, projected: torch.Tensor, turns: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> None:
        """Write the rotated queries and keys of a projection (tokens, heads and key heads, head size)."""
        both = projected[:, : self._heads + self._key_heads]
        if self._dtype == torch.float32:
            torch.mul(_complex(both[:, : self._heads]), turns[:, None], out=_complex(query))
            torch.mul(_complex(both[:, self._heads :]), turns[:, None], out=_complex(key))
            return
        wide = torch.empty(min(ROWS_AT_ONCE, len(both)), *both.shape[1:])
        parts = (tensor.split(ROWS_AT_ONCE) for tensor in (both, turns[:, None], query, key))
        for some, turns_some, query_some, key_some in zip(*parts, strict=True):
            turned = wide[: len(some)]
            turned.copy_(some)
            _complex(turned).mul_(turns_some)
            query_some.copy_(turned[:, : self._heads])
            key_some.copy_(turned[:, self._heads :])

    def _turns(self, positions: Sequence[int]) -> torch.Tensor:
        """Return the rotation of each position as complex numbers, (tokens, head size / 2)."""
        rotary = self._base.rotary_emb
        angles = torch.outer(torch.tensor(positions, dtype=torch.float32), rotary.inv_freq)
        return torch.polar(torch.full_like(angles, rotary.attention_scaling), angles)

    def _normalise(self, states: torch.Tensor, added: torch.Tensor | None, gain: torch.Tensor | None) -> torch.Tensor:
        """Return the RMS norm of the states, after adding `added` to them in place.

        gain: None if it is folded into the weights that follow.
        """
        normed = torch.empty(states.shape, dtype=self._dtype)
        wide = torch.empty(min(ROWS_AT_ONCE, len(states)), states.shape[1])
        adding = normed if added is None else added
        parts = (tensor.split(ROWS_AT_ONCE) for tensor in (states, adding, normed))
        for some, added_some, normed_some in zip(*parts, strict=True):
            scaled = normed_some if self._dtype == torch.float32 else wide[: len(some)]
            if added is not None:
                some.add_(added_some if self._dtype == torch.float32 else scaled.copy_(added_some))
            norms = torch.linalg.vector_norm(some, dim=-1, keepdim=True)
            factors = norms.square_().div_(states.shape[-1]).add_(self._epsilon).rsqrt_()
            torch.mul(some, factors, out=scaled)
            if gain is not None:  # otherwise it is in the weights
                scaled.mul_(gain)
            if scaled is not normed_some:
                normed_some.copy_(scaled)
        return normed


class _Layer:
    """A layer's packed weights. In float32 the gains are folded in; in bfloat16 that would round the weights again."""

    def __init__(self, layer: Any, rows: int, rows_after: int) -> None:
        """Pack the layer. rows: about how many are computed at once; rows_after: the same after the attention."""
        attention, mlp = layer.self_attn, layer.mlp
        self.window: int | None = getattr(
            attention, "sliding_window", getattr(attention.config, "sliding_window", None)
        )
        self.scaling: float = attention.scaling
        folded = layer.input_layernorm.weight.dtype == torch.float32
        gain, gain_after = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        self.gain = None if folded else gain.float()
        self.gain_after = None if folded else gain_after.float()
        heads = (-1, attention.num_key_value_groups, attention.head_dim)
        query, query_bias = _interleave_heads(attention.q_proj, attention.head_dim)
        projections = [
            (_groups_apart(query, heads), None if query_bias is None else _groups_apart(query_bias, heads)),
            _interleave_heads(attention.k_proj, attention.head_dim),
            (attention.v_proj.weight, attention.v_proj.bias),
        ]
        joined = torch.cat([weight for weight, _ in projections])
        self.qkv = pack(joined * gain if folded else joined, rows)
        biases = [bias for _, bias in projections if bias is not None]
        self.qkv_bias = torch.cat(biases) if biases else None
        output = _groups_apart(attention.o_proj.weight.t(), heads).t()
        self.output, self.output_bias = pack(output, rows_after), attention.o_proj.bias
        gate, up = mlp.gate_proj.weight, mlp.up_proj.weight
        self.gate = pack(gate * gain_after if folded else gate, rows_after)
        self.up = pack(up * gain_after if folded else up, rows_after)
        self.down = pack(mlp.down_proj.weight, rows_after)


def _interleave_heads(linear: Any, size: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return a projection with the rows of each head that rotate together, i and i + size/2, side by side."""

    def interleave(rows: torch.Tensor) -> torch.Tensor:
        return rows.unflatten(0, (-1, 2, size // 2)).transpose(1, 2).reshape(rows.shape)

    return interleave(linear.weight), None if linear.bias is None else interleave(linear.bias)


def _groups_apart(rows: torch.Tensor, heads: tuple[int, int, int]) -> torch.Tensor:
    """Return the rows of all heads, ordered by the heads' places in their groups.

    heads: (key heads, heads per key head, head size).
    """
    return rows.unflatten(0, heads).transpose(0, 1).reshape(rows.shape)


def _complex(pairs: torch.Tensor) -> torch.Tensor:
    """Return pairs of neighbours in the last dimension as complex numbers, sharing memory."""
    return torch.view_as_complex(pairs.unflatten(-1, (-1, 2)))

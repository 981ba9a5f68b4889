"""Runs a pass of a token trie through a transformers model, replacing only the model's attention."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Final

import torch
from transformers import AttentionInterface

from workers.engine.attention import Pass
from workers.engine.cpu import attend_on_cpu
from workers.engine.products import Products
from workers.model_types import why_no_trie

ATTENTION: Final = "shuffleboard_trie"

_current: ContextVar[Pass] = ContextVar("current")
"""The pass that this thread's model is computing."""


def refusal(model: Any) -> str | None:
    """Return the reason why a model's prompts cannot be scored as a trie; None if they can."""
    return "tries are computed on CPUs" if model.device.type != "cpu" else why_no_trie(model.config)


class HostedForward:
    """The model's own forward pass with the trie's attention and, where they can be used, oneDNN's products."""

    name = "hosted"

    def __init__(self, model: Any, products: Products | None) -> None:
        self._model = model
        self._products = products

    @contextmanager
    def install(self) -> Iterator[None]:
        """Make the model compute tries inside the block, and restore it afterwards."""
        before = self._model.config._attn_implementation  # noqa: SLF001
        with ExitStack() as stack:
            stack.callback(self._model.set_attn_implementation, before)
            self._model.set_attn_implementation(ATTENTION)
            if self._products is not None:
                stack.enter_context(self._products.install())
            yield

    def __call__(self, current: Pass, wanted: Sequence[int]) -> torch.Tensor:
        """Return the states after the last norm for the `wanted` rows of a pass, (wanted, hidden size)."""
        device = self._model.device
        token = _current.set(current)
        try:
            states = self._model.base_model(
                input_ids=torch.tensor([current.tokens], device=device),
                position_ids=torch.tensor([current.positions], device=device),
                use_cache=False,
            ).last_hidden_state[0]
        finally:
            _current.reset(token)
        return states[torch.tensor(wanted, dtype=torch.long, device=device)]


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _mask: None,
    *,
    scaling: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_others: Any,
) -> tuple[torch.Tensor, None]:
    """Compute a layer's attention, in place of its own. query: (1, heads, tokens, head size), already rotated."""
    current = _current.get()
    keys, values = current.extend(module.layer_idx, key[0], value[0])
    heads = query[0].unflatten(0, (key.shape[1], -1)).transpose(1, 2)  # (key heads, tokens, heads per key head, size)
    output = attend_on_cpu(
        current, heads, keys, values, scaling=scaling, window=sliding_window, softcap=softcap
    ).flatten(1)
    return output.unflatten(1, (query.shape[1], -1))[None], None


AttentionInterface.register(ATTENTION, _attention)

"""Makes vLLM's first model runner write given tokens; the second one can do that by itself.

vLLM's own process imports this module, so it imports nothing else of the worker. vLLM returns the log-probabilities
from before the tokens were forced.
"""

from typing import Final

import torch
from vllm.platforms import current_platform
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

FORCED: Final = "forced"
"""The key of the tokens in a request's `extra_args`."""

if current_platform.is_cpu():
    from vllm.v1.attention.backend import MultipleOf
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    # It computes blocks of 16 tokens, as GPUs do, but declares multiples of 32 only.
    CPUAttentionBackend.get_supported_kernel_block_sizes = staticmethod(lambda *_: [MultipleOf(16)])


class ForcedTokens(LogitsProcessor):
    """Forces each request to write the next of its tokens."""

    def __init__(self, *_: object) -> None:
        self._rows: dict[int, tuple[list[int], list[int]]] = {}

    def is_argmax_invariant(self) -> bool:
        """Return False: the processor changes which token is the most likely."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow vLLM's changes to the batch; the list of a request's written tokens is vLLM's own."""
        process_dict_updates(
            self._rows,
            batch_update,
            lambda params, _, written: (params.extra_args[FORCED], written) if params.extra_args else None,
        )

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the logits, [requests, vocabulary], with the forced tokens made certain."""
        if self._rows:
            logits[list(self._rows), [tokens[len(written)] for tokens, written in self._rows.values()]] = torch.inf
        return logits

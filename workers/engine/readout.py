"""Reads log-probabilities out of hidden states, normalised exactly over the whole vocabulary."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from workers.engine.products import is_plain, onednn_serves, product

VOCABULARY_CHUNK = 8192
"""Tokens of the vocabulary whose logits are in memory at once."""

LOGITS = 512 * VOCABULARY_CHUNK
"""Number of logits in memory at once if the vocabulary cannot be divided."""


class Readout:
    """The vocabulary head, applied only to the positions that are read.

    The normaliser is a log-sum-exp over the vocabulary, a slice at a time: the logits of 50,000 or 260,000 tokens for
    every prompt of a shard are never in memory at once. Logits and sums are float32 or wider, even for a model in
    bfloat16.
    """

    def __init__(self, model: Any) -> None:
        self._head = model.get_output_embeddings()
        self._sliced = is_plain(self._head.weight)
        config = model.config.get_text_config()
        # Granite divides its logits, Cohere multiplies them, Gemma 2 applies a softcap.
        self._scale = getattr(config, "logit_scale", None) or 1 / (getattr(config, "logits_scaling", None) or 1)
        self._softcap: float | None = getattr(config, "final_logit_softcapping", None)

    def logprobs(self, hidden: torch.Tensor, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """Return the log-probability of tokens[i] after the state hidden[rows[i]].

        hidden: (R, hidden size), after the last norm.
        """
        wanted, where = torch.tensor(tokens, device=hidden.device), torch.tensor(rows, device=hidden.device)
        read = torch.empty(len(tokens), dtype=torch.float64, device=hidden.device)
        normaliser = torch.full((len(hidden),), -torch.inf, dtype=torch.float64, device=hidden.device)
        for row, token, logits in self._slices(hidden):
            if self._scale != 1:
                logits.mul_(self._scale)
            if self._softcap is not None:
                logits.div_(self._softcap).tanh_().mul_(self._softcap)
            part = normaliser[row : row + len(logits)]
            part.copy_(torch.logaddexp(part, logits.logsumexp(dim=-1).double()))
            across, down = wanted - token, where - row
            in_slice = (across >= 0) & (across < logits.shape[1]) & (down >= 0) & (down < len(logits))
            read[in_slice] = logits[down[in_slice], across[in_slice]].double()
        return (read - normaliser[where]).tolist()

    def _slices(self, hidden: torch.Tensor) -> Iterator[tuple[int, int, torch.Tensor]]:
        """Yield (first row, first token, logits), slices that together are all logits.

        A quantised head cannot be sliced; it is applied as it is, to a few rows at a time.
        """
        wide = torch.promote_types(hidden.dtype, torch.float32)
        if not self._sliced:
            rows = max(1, LOGITS // self._head.weight.shape[0])
            for row in range(0, len(hidden), rows):
                yield row, 0, self._head(hidden[row : row + rows]).to(wide)
            return
        multiply = product if onednn_serves(hidden.device, wide) else torch.nn.functional.linear
        bias = getattr(self._head, "bias", None)
        hidden = hidden.to(wide)
        widened: torch.Tensor | None = None
        for token in range(0, len(self._head.weight), VOCABULARY_CHUNK):
            some = slice(token, token + VOCABULARY_CHUNK)
            weight = self._head.weight[some]
            if weight.dtype != wide:
                # Reuse the memory of the slice: new pages would take as long as the conversion.
                widened = weight.to(wide) if widened is None else widened[: len(weight)].copy_(weight)
                weight = widened
            yield 0, token, multiply(hidden, weight, None if bias is None else bias[some].to(wide))

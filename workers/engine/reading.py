"""Reads several texts with a model at once: padded on the left, and their common beginning computed once."""

from collections.abc import Collection, Sequence
from inspect import signature
from typing import Any, Final

import torch
from transformers import DynamicCache

from workers.engine.batching import begin_text, why_equal_lengths
from workers.engine.loading import LoadedModel

SHARED_TOKENS: Final = 32
"""A common beginning is computed once if it has at least this many tokens."""


class Reading:
    """A batch of texts that a model has read: tokens by row, padded on the left, with keys, values and next logits.

    last: logits after the last tokens of each row, (rows, positions, vocabulary). shared: number of first tokens that
    all rows share and that were computed once.
    """

    def __init__(self, loaded: LoadedModel, texts: Sequence[Sequence[int]], positions: int, *, goes_on: bool) -> None:
        self._model = loaded.model
        self._device = loaded.device
        self._takes = signature(loaded.model.forward).parameters
        self._positions = positions
        self.shared = common_tokens(texts, positions) if len(texts) > 1 and shares_beginnings(loaded) else 0
        cached = "past_key_values" in self._takes and (goes_on or self.shared)
        self._cache: Any = DynamicCache(config=loaded.model.config) if cached else None
        longest = max(map(len, texts))
        padding = [longest - len(text) for text in texts]
        self.padding = torch.tensor(padding, device=self._device)
        pad = getattr(loaded.tokenizer, "pad_token_id", None) or 0
        rows = [[pad] * before + list(text) for before, text in zip(padding, texts, strict=True)]
        self.tokens: Any = torch.tensor(rows, device=self._device)
        self._mask = (torch.arange(longest, device=self._device) >= self.padding[:, None]).long()
        # Without padding the model's own positions and mask are correct.
        self._is_plain = not any(padding) and not self.shared
        self.last: torch.Tensor

    @classmethod
    def of(
        cls, loaded: LoadedModel, texts: Sequence[Sequence[int]], positions: int = 1, *, goes_on: bool = True
    ) -> "Reading":
        """Read the texts, equal ones only once.

        positions: number of last tokens whose next logits are needed; no text may be shorter. goes_on: whether the
        texts will be continued.
        """
        place = {text: number for number, text in enumerate(dict.fromkeys(map(tuple, texts)))}
        reading = cls(loaded, list(place), positions, goes_on=goes_on)
        begin_text(loaded.model)
        reading._read(list(place))
        if len(place) < len(texts):
            places = [place[tuple(text)] for text in texts]
            if goes_on:
                reading.keep(places)
            else:
                reading.last = reading.last[torch.tensor(places, device=loaded.device)]
        return reading

    @property
    def logits(self) -> torch.Tensor:
        """Return the logits after the last token of each row, float32, (rows, vocabulary)."""
        return self.last[:, -1].float()

    @property
    def length(self) -> int:
        """Return the number of tokens in each row, padding included."""
        return int(self.tokens.shape[1])

    def computed(self, texts: Collection[Sequence[int]]) -> int:
        """Return the number of tokens that reading these different texts computed."""
        return sum(map(len, texts)) - self.shared * max(0, len(texts) - 1)

    def step(self, tokens: Sequence[int]) -> None:
        """Append one token to each row and compute the logits after it."""
        new = torch.tensor(tokens, device=self._device)[:, None]
        self.tokens = torch.cat([self.tokens, new], dim=1)
        self._mask = torch.cat([self._mask, torch.ones_like(new)], dim=1)
        self._is_plain = False
        self._forward(self.tokens if self._cache is None else new, self._mask)

    def keep(self, places: Sequence[int]) -> None:
        """Keep only these rows, in this order; a row may be repeated."""
        chosen = torch.tensor(places, device=self._device)
        self.tokens, self._mask = self.tokens[chosen], self._mask[chosen]
        self.padding, self.last = self.padding[chosen], self.last[chosen]
        if self._cache is not None:
            self._cache.batch_select_indices(chosen)

    def _read(self, texts: Sequence[Sequence[int]]) -> None:
        if not self.shared:
            self._forward(self.tokens, self._mask)
            return
        # Padding lies between the shared beginning and the rest: positions are counted without it.
        beginning = torch.tensor([texts[0][: self.shared]], device=self._device)
        self._forward(beginning, torch.ones_like(beginning))
        self._cache.batch_repeat_interleave(len(texts))
        after = self.tokens[:, self.shared :].clone()
        mask = self._mask[:, self.shared :].clone()
        width = after.shape[1]
        for row, text in enumerate(texts):
            own = torch.tensor(text[self.shared :], device=self._device)
            after[row, width - len(own) :] = own
            mask[row] = (torch.arange(width, device=self._device) >= self.padding[row]).long()
        ones = torch.ones(len(texts), self.shared, dtype=torch.long, device=self._device)
        self._mask = torch.cat([ones, mask], dim=1)
        self._forward(after, self._mask)

    def _forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> None:
        arguments: dict[str, Any] = {"input_ids": tokens, "use_cache": self._cache is not None}
        if self._cache is not None:
            arguments["past_key_values"] = self._cache
        if not self._is_plain:
            arguments["attention_mask"] = mask
            if "position_ids" in self._takes:
                arguments["position_ids"] = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        if "logits_to_keep" in self._takes:
            arguments["logits_to_keep"] = self._positions
        self.last = self._model(**arguments).logits[:, -self._positions :]


def shares_beginnings(loaded: LoadedModel) -> bool:
    """Return whether a model computes the same after cached tokens and padding as without them.

    True for types that the tests compare and whose layers store keys and values of all tokens.
    """
    return why_equal_lengths(loaded.model) is None and not any(DynamicCache(config=loaded.model.config).is_sliding)


def common_tokens(texts: Sequence[Sequence[int]], positions: int = 1) -> int:
    """Return the number of first tokens that all texts share; 0 if they are too few to be worth sharing.

    positions: number of tokens at the end of each text that are never shared.
    """
    first, last = min(map(list, texts)), max(map(list, texts))
    most = min(map(len, texts)) - positions
    common = next((place for place in range(most) if first[place] != last[place]), most)
    return common if common >= SHARED_TOKENS else 0

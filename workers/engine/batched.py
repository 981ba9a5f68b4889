"""Scores prompts in batches of similar length, reading out the last positions only."""

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any

import torch

from workers.engine.batching import begin_text, is_alone, why_equal_lengths
from workers.engine.encoding import encode_all
from workers.engine.loading import LoadedModel
from workers.errors import InterruptedScoringError
from workers.tokens import (
    ScoredPrompts,
    ScoringPrompt,
    check_length,
    checked_logprobs,
    tokenise,
    tokenise_continuations,
)

BATCH_TOKENS = 4096
"""Tokens of one forward pass, padding included: bounds the memory of activations."""

READ_ROWS = 64
"""Positions of one forward pass that are read out: bounds the memory of their logits."""


def score_batched(
    loaded: LoadedModel,
    prompts: Sequence[ScoringPrompt],
    *,
    batch_tokens: int = BATCH_TOKENS,
    should_stop: Callable[[], bool] | None = None,
) -> ScoredPrompts:
    """Log-probabilities of each continuation's first token; equals `score_reference` within float32 rounding.

    Prompts are sorted by length, padded on the left and given explicit positions, so that padding changes nothing;
    where it would, only prompts of one length share a batch.
    should_stop is asked between batches; a true answer raises InterruptedScoringError.
    """
    tokenised = encode_all(loaded.tokenizer, prompts, tokenise)
    contexts = [prompt.context for prompt in tokenised]
    results: list[list[float]] = [[] for _ in prompts]
    for index, logprobs in _last_logprobs(loaded, contexts, [1] * len(contexts), batch_tokens, should_stop):
        results[index] = checked_logprobs([logprobs[0, label].item() for label in tokenised[index].labels])
    tokens = sum(map(len, contexts))
    return ScoredPrompts(results, tokens, tokens)


def continuations_batched(
    loaded: LoadedModel,
    prompts: Sequence[ScoringPrompt],
    *,
    batch_tokens: int = BATCH_TOKENS,
    should_stop: Callable[[], bool] | None = None,
) -> ScoredPrompts:
    """Log-probabilities of whole continuations; equals `continuations_reference` within float32 rounding."""
    tokenised = encode_all(loaded.tokenizer, prompts, tokenise_continuations)
    asked = [(prompt.context, continuation) for prompt in tokenised for continuation in prompt.continuations]
    contexts = [context + continuation[:-1] for context, continuation in asked]
    sums = [0.0] * len(asked)
    lengths = [len(continuation) for _, continuation in asked]
    for index, logprobs in _last_logprobs(loaded, contexts, lengths, batch_tokens, should_stop):
        sums[index] = sum(row[token].item() for row, token in zip(logprobs, asked[index][1], strict=True))
    tokens = sum(map(len, contexts))
    values = iter(sums)
    return ScoredPrompts(
        [checked_logprobs([next(values) for _ in prompt.continuations]) for prompt in tokenised], tokens, tokens
    )


def _last_logprobs(
    loaded: LoadedModel,
    contexts: Sequence[Sequence[int]],
    lengths: Sequence[int],
    batch_tokens: int,
    should_stop: Callable[[], bool] | None,
) -> Iterator[tuple[int, torch.Tensor]]:
    """(index, log-probabilities after each of the last lengths[index] tokens), float64, (length, vocabulary)."""
    for context in contexts:
        check_length(len(context), loaded.max_length)
    padded = why_equal_lengths(loaded.model) is None
    batch_tokens = 1 if is_alone(loaded.model) else batch_tokens
    for batch in _batches(contexts, lengths, batch_tokens, padded=padded):
        if should_stop is not None and should_stop():
            raise InterruptedScoringError
        logits = _last_logits(loaded, [contexts[index] for index in batch], max(lengths[index] for index in batch))
        for row, index in enumerate(batch):
            yield index, logits[row, -lengths[index] :].double().log_softmax(dim=-1).cpu()


def _batches(
    contexts: Sequence[Sequence[int]], lengths: Sequence[int], batch_tokens: int, *, padded: bool
) -> Iterator[list[int]]:
    """Indexes of contexts, longest first, so that a batch that does not fit in memory shows at once.

    padded: whether contexts of different lengths may share a batch.
    """
    batch: list[int] = []
    read = 0
    for index in sorted(range(len(contexts)), key=lambda index: -len(contexts[index])):
        read = max(read, lengths[index])
        size = len(batch) + 1
        full = size * len(contexts[batch[0]]) > batch_tokens or size * read > READ_ROWS if batch else False
        if batch and (full or (not padded and len(contexts[index]) != len(contexts[batch[0]]))):
            yield batch
            batch, read = [], lengths[index]
        batch.append(index)
    if batch:
        yield batch


def _last_logits(loaded: LoadedModel, contexts: Sequence[Sequence[int]], positions: int) -> torch.Tensor:
    """Logits after the last `positions` tokens of each context, shape (contexts, positions, vocabulary)."""
    longest = max(map(len, contexts))
    padding = getattr(loaded.tokenizer, "pad_token_id", None) or 0
    input_ids = torch.full((len(contexts), longest), padding, dtype=torch.long)
    mask = torch.zeros_like(input_ids)
    for row, context in enumerate(contexts):
        input_ids[row, longest - len(context) :] = torch.tensor(context)
        mask[row, longest - len(context) :] = 1
    placed: dict[str, Any] = {}
    if not mask.all():  # without padding the model's own positions and mask are those of one prompt
        own = (mask.cumsum(dim=1) - 1).clamp(min=0)
        placed = {"attention_mask": mask.to(loaded.device), "position_ids": own.to(loaded.device)}
    if "logits_to_keep" in signature(loaded.model.forward).parameters:
        placed["logits_to_keep"] = positions
    begin_text(loaded.model)
    with torch.no_grad():
        logits: torch.Tensor = loaded.model(input_ids=input_ids.to(loaded.device), use_cache=False, **placed).logits
    return logits[:, -positions:]

"""Scores prompts in batches of similar length, reading out the last position only."""

from collections.abc import Callable, Iterator, Sequence

import torch

from workers.engine.loading import LoadedModel
from workers.engine.tokens import (
    ScoredPrompts,
    ScoringPrompt,
    TokenisedPrompt,
    check_length,
    checked_logprobs,
    tokenise,
)
from workers.errors import InterruptedScoringError

BATCH_TOKENS = 4096
"""Tokens of one forward pass, padding included: bounds the memory of activations."""


def score_batched(
    loaded: LoadedModel,
    prompts: Sequence[ScoringPrompt],
    *,
    batch_tokens: int = BATCH_TOKENS,
    should_stop: Callable[[], bool] | None = None,
) -> ScoredPrompts:
    """Log-probabilities of each continuation's first token; equals `score_reference` within float32 rounding.

    Prompts are sorted by length, padded on the left and given explicit positions, so that padding changes nothing.
    should_stop is asked between batches; a true answer raises InterruptedScoringError.
    """
    tokenised = [tokenise(loaded.tokenizer, prompt) for prompt in prompts]
    for prompt in tokenised:
        check_length(prompt, loaded.max_length)
    results: list[list[float]] = [[] for _ in prompts]
    with torch.no_grad():
        for batch in _batches(tokenised, batch_tokens):
            if should_stop is not None and should_stop():
                raise InterruptedScoringError
            logprobs = _last_logprobs(loaded, [tokenised[index].context for index in batch])
            for row, index in enumerate(batch):
                results[index] = checked_logprobs([logprobs[row, label].item() for label in tokenised[index].labels])
    tokens = sum(len(prompt.context) for prompt in tokenised)
    return ScoredPrompts(results, tokens, tokens)


def _batches(tokenised: Sequence[TokenisedPrompt], batch_tokens: int) -> Iterator[list[int]]:
    """Indexes of prompts, longest first, so that a batch that does not fit in memory shows at once."""
    order = sorted(range(len(tokenised)), key=lambda index: -len(tokenised[index].context))
    start = 0
    while start < len(order):
        longest = len(tokenised[order[start]].context)
        size = max(1, batch_tokens // longest)
        yield order[start : start + size]
        start += size


def _last_logprobs(loaded: LoadedModel, contexts: Sequence[Sequence[int]]) -> torch.Tensor:
    """Log-probabilities after each context, float64, shape (prompts, vocabulary)."""
    longest = max(map(len, contexts))
    padding = loaded.tokenizer.pad_token_id or 0
    input_ids = torch.full((len(contexts), longest), padding, dtype=torch.long)
    mask = torch.zeros_like(input_ids)
    for row, context in enumerate(contexts):
        input_ids[row, longest - len(context) :] = torch.tensor(context)
        mask[row, longest - len(context) :] = 1
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    logits = loaded.model(
        input_ids=input_ids.to(loaded.device),
        attention_mask=mask.to(loaded.device),
        position_ids=positions.to(loaded.device),
        use_cache=False,
        logits_to_keep=1,
    ).logits  # (prompts, 1, vocabulary)
    return logits[:, -1].double().log_softmax(dim=-1).cpu()

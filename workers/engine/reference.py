"""The slow, obvious scorer: one prompt at a time, no padding, no cache. Every faster path is tested against it."""

from collections.abc import Sequence

import torch

from workers.engine.batching import begin_text
from workers.engine.encoding import encoder_for
from workers.engine.loading import LoadedModel
from workers.tokens import (
    ScoredPrompts,
    ScoringPrompt,
    check_length,
    check_logprobs,
    tokenise,
    tokenise_continuations,
)


def score_reference(loaded: LoadedModel, prompts: Sequence[ScoringPrompt]) -> ScoredPrompts:
    """Return the log-probability of each continuation's first token, from one forward pass per prompt."""
    encode = encoder_for(loaded.tokenizer, prompts)
    results = []
    tokens = 0
    for prompt in prompts:
        tokenised = tokenise(encode, prompt)
        check_length(len(tokenised.context), loaded.max_length)
        tokens += len(tokenised.context)
        logprobs = next_token_logprobs(loaded, tokenised.context)[-1]  # (vocabulary,)
        results.append(check_logprobs([logprobs[label].item() for label in tokenised.labels]))
    return ScoredPrompts(results, tokens, tokens)


def continuations_reference(loaded: LoadedModel, prompts: Sequence[ScoringPrompt]) -> ScoredPrompts:
    """Return log-probabilities of whole continuations, summed over their tokens, from one forward pass for each."""
    encode = encoder_for(loaded.tokenizer, prompts)
    results = []
    tokens = 0
    for prompt in prompts:
        tokenised = tokenise_continuations(encode, prompt)
        sums = []
        for continuation in tokenised.continuations:
            shown = tokenised.context + continuation[:-1]
            check_length(len(shown), loaded.max_length)
            tokens += len(shown)
            logprobs = next_token_logprobs(loaded, shown)[len(tokenised.context) - 1 :]
            sums.append(sum(row[token].item() for row, token in zip(logprobs, continuation, strict=True)))
        results.append(check_logprobs(sums))
    return ScoredPrompts(results, tokens, tokens)


def next_token_logprobs(loaded: LoadedModel, tokens: Sequence[int]) -> torch.Tensor:
    """Return log-probabilities of every next token after each of `tokens`, float64, shape (tokens, vocabulary)."""
    begin_text(loaded.model)
    with torch.no_grad():
        input_ids = torch.tensor([list(tokens)], device=loaded.device)  # (1, tokens)
        logits = loaded.model(input_ids=input_ids, use_cache=False).logits  # (1, tokens, vocabulary)
    return logits[0].double().log_softmax(dim=-1)

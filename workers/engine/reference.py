"""The slow, obvious scorer: one prompt at a time, no padding, no cache. What every faster path is tested against."""

from collections.abc import Sequence

import torch

from workers.engine.loading import LoadedModel
from workers.engine.tokens import ScoredPrompts, ScoringPrompt, check_length, checked_logprobs, tokenise


def score_reference(loaded: LoadedModel, prompts: Sequence[ScoringPrompt]) -> ScoredPrompts:
    """Log-probabilities of each continuation's first token, from one forward pass per prompt."""
    results = []
    tokens = 0
    with torch.no_grad():
        for prompt in prompts:
            tokenised = tokenise(loaded.tokenizer, prompt)
            check_length(tokenised, loaded.max_length)
            tokens += len(tokenised.context)
            input_ids = torch.tensor([tokenised.context], device=loaded.device)  # (1, tokens)
            logits = loaded.model(input_ids=input_ids, use_cache=False).logits  # (1, tokens, vocabulary)
            logprobs = logits[0, -1].double().log_softmax(dim=-1)  # (vocabulary,)
            results.append(checked_logprobs([logprobs[label].item() for label in tokenised.labels]))
    return ScoredPrompts(results, tokens, tokens)

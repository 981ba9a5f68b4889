"""Scores prompts in batches, reading out only their last positions. A batch's common beginning is computed once."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch

from workers.engine.batching import is_alone, why_equal_lengths
from workers.engine.encoding import encode_continuations, encode_labels
from workers.engine.loading import LoadedModel
from workers.engine.reading import SHARED_TOKENS, Reading, shares_beginnings
from workers.errors import InterruptedScoringError
from workers.tokens import (
    ScoredPrompts,
    ScoringPrompt,
    check_length,
    check_logprobs,
    common_length,
)

BATCH_TOKENS = 4096
"""Tokens in one forward pass, padding included; this limits the memory of activations."""

HELD_TOKENS = 4
"""Tokens whose keys and values a batch stores, per token of its forward pass: each row copies the beginning."""

READ_ROWS = 128
"""Positions read out of one forward pass; this limits the memory of their logits."""

PASS_TOKENS = 1024
"""The fixed cost of a forward pass, in tokens."""

SHARED_PART = 0.25
"""Prompts are sorted by their beginnings if neighbours then share this part of their tokens, otherwise by length."""


def score_batched(
    loaded: LoadedModel,
    prompts: Sequence[ScoringPrompt],
    *,
    batch_tokens: int = BATCH_TOKENS,
    should_stop: Callable[[], bool] | None = None,
) -> ScoredPrompts:
    """Return the log-probability of each continuation's first token.

    The results equal the reference within float32 rounding. Prompts are padded on the left and given
    explicit positions, so that padding changes nothing; if a model depends on padding, only prompts of the same length
    share a batch. should_stop is called between batches; a true result raises InterruptedScoringError.
    """
    tokenised = encode_labels(loaded.tokenizer, prompts)
    contexts = [prompt.context for prompt in tokenised]
    values, computed = read_last(loaded, contexts, [[prompt.labels] for prompt in tokenised], batch_tokens, should_stop)
    return ScoredPrompts([check_logprobs(logprobs) for logprobs in values], sum(map(len, contexts)), computed)


def continuations_batched(
    loaded: LoadedModel,
    prompts: Sequence[ScoringPrompt],
    *,
    batch_tokens: int = BATCH_TOKENS,
    should_stop: Callable[[], bool] | None = None,
) -> ScoredPrompts:
    """Return log-probabilities of whole continuations; equals `continuations_reference` within float32 rounding."""
    tokenised = encode_continuations(loaded.tokenizer, prompts)
    pairs = [(prompt.context, continuation) for prompt in tokenised for continuation in prompt.continuations]
    contexts = [context + continuation[:-1] for context, continuation in pairs]
    wanted = [[[token] for token in continuation] for _, continuation in pairs]
    values, computed = read_last(loaded, contexts, wanted, batch_tokens, should_stop)
    sums = map(sum, values)
    return ScoredPrompts(
        [check_logprobs([next(sums) for _ in prompt.continuations]) for prompt in tokenised],
        sum(map(len, contexts)),
        computed,
    )


def read_last(
    loaded: LoadedModel,
    contexts: Sequence[Sequence[int]],
    wanted: Sequence[Sequence[Sequence[int]]],
    batch_tokens: int,
    should_stop: Callable[[], bool] | None = None,
) -> tuple[list[list[float]], int]:
    """Return log-probabilities (nats, from float64 sums) of wanted tokens by context, and the tokens computed.

    wanted: for each of the last positions of each context, the tokens to read after that position.
    """
    for context in contexts:
        check_length(len(context), loaded.max_length)
    logprobs: list[list[float]] = [[] for _ in contexts]
    computed = 0
    for batch in _batches(loaded, contexts, list(map(len, wanted)), batch_tokens):
        if should_stop is not None and should_stop():
            raise InterruptedScoringError
        positions = max(len(wanted[index]) for index in batch)
        with torch.no_grad():
            reading = Reading.of(loaded, [contexts[index] for index in batch], positions, goes_on=False)
            logits = reading.last.double()
            sums = logits.logsumexp(dim=-1)
            places = [
                (row, positions - len(wanted[index]) + step, token)
                for row, index in enumerate(batch)
                for step, tokens in enumerate(wanted[index])
                for token in tokens
            ]
            rows, steps, tokens = torch.tensor(places, device=loaded.device).unbind(1)
            values = iter((logits[rows, steps, tokens] - sums[rows, steps]).tolist())
        for index in batch:
            logprobs[index] = [next(values) for tokens in wanted[index] for _ in tokens]
        computed += reading.computed({tuple(contexts[index]) for index in batch})
    return logprobs, computed


def _batches(
    loaded: LoadedModel, contexts: Sequence[Sequence[int]], lengths: Sequence[int], batch_tokens: int
) -> Iterator[list[int]]:
    """Yield the indexes of the contexts of each batch.

    lengths: number of positions to read of each context. A context joins a batch if that costs less than starting
    another.
    """
    padded, alone = why_equal_lengths(loaded.model) is None, is_alone(loaded.model)
    batch: list[int] = []
    common = longest = read = 0
    for index, shared in _order_contexts(contexts, padded=padded, share=shares_beginnings(loaded)):
        length, before = len(contexts[index]), _cost(len(batch), common, longest)
        if batch:
            joined = min(common, shared), max(longest, length), max(read, lengths[index])
            rows, after = len(batch) + 1, _cost(len(batch) + 1, *joined[:2])
            if not (
                alone
                or (not padded and length != longest)
                or rows * joined[2] > READ_ROWS
                or rows * joined[1] > HELD_TOKENS * batch_tokens
                or after > batch_tokens
                or after - before > PASS_TOKENS + length
            ):
                batch.append(index)
                common, longest, read = joined
                continue
            yield batch
        batch, common, longest, read = [index], length - lengths[index], length, lengths[index]
    if batch:
        yield batch


def _cost(rows: int, common: int, longest: int) -> int:
    """Return the number of tokens that a batch's forward passes compute."""
    shared = common if rows > 1 and common >= SHARED_TOKENS else 0
    return shared + rows * (longest - shared)


def _order_contexts(contexts: Sequence[Sequence[int]], *, padded: bool, share: bool) -> Iterator[tuple[int, int]]:
    """Yield the index of each context, and the number of tokens that it shares with the one before it.

    Contexts with common beginnings are adjacent, if that saves enough; otherwise the longest come first, so that a lack
    of memory shows at once.
    """
    by_length = sorted(range(len(contexts)), key=lambda index: (-len(contexts[index]), list(contexts[index])))
    order = sorted(range(len(contexts)), key=lambda index: list(contexts[index])) if padded else by_length
    common = [0, *(common_length(contexts[first], contexts[second]) for first, second in pairwise(order))]
    if not share or sum(common) < SHARED_PART * sum(map(len, contexts)):
        order, common = by_length, [0] * len(contexts)
    yield from zip(order, common, strict=False)

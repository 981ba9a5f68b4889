"""Tokenises prompts: the tokens to compute, and the tokens of each label or option."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from workers.errors import EngineError, PermanentError

LINE_LENGTH: Final = 64
"""Number of characters after which a tokenizer's divisions no longer depend on the text before."""

CHECK_EVERY: Final = 64
"""One of this many prompts is tokenised with its labels although its last line is known."""

ANY_TEXT: Final = "x"
"""A text that shows which special tokens a tokenizer puts around texts."""

Encode = Callable[[str], list[int]]
"""Returns the token ids of a whole text in the model's form, with a beginning-of-text token if the model has one."""


class Continued(Protocol):
    """The interface of a text and the continuations that are scored after it, one per position."""

    @property
    def text(self) -> str:
        """Return the text in the model's form."""
        ...

    @property
    def continuations(self) -> tuple[str, ...]:
        """Return the continuations by position."""
        ...


@dataclass(frozen=True)
class ScoringPrompt:
    """A text and the continuations that are scored after it, one per position.

    group: shared by the prompts of one question. The common beginning of several groups (instruction, examples) is kept
    for later calls. chat: whether a chat template wrote the text, including its special tokens.
    """

    text: str
    continuations: tuple[str, ...]
    group: Hashable = None
    chat: bool = False


@dataclass(frozen=True)
class TokenisedPrompt:
    """A tokenised prompt. context: the model's token ids. labels: the token id of each continuation."""

    context: list[int]
    labels: list[int]
    group: Hashable = None


@dataclass(frozen=True)
class TokenisedContinuations:
    """A tokenised prompt. context: token ids that all continuations follow. continuations: the token ids of each."""

    context: list[int]
    continuations: list[list[int]]
    group: Hashable = None


@dataclass(frozen=True)
class ScoredPrompts:
    """Log-probabilities of continuations, normalised over the whole vocabulary.

    logprobs[i][p]: nats, at most 0, of continuation p after prompt i.
    tokens_naive: tokens of all prompts. tokens_computed: tokens that the model computed, without padding.
    """

    logprobs: list[list[float]]
    tokens_naive: int
    tokens_computed: int


def encoder(tokenizer: Any) -> Encode:
    """Return a function that tokenises whole texts; an empty text becomes the beginning of every text.

    Special tokens that a tokenizer puts after every text, such as an end-of-text token, are left out: the scored
    continuation would otherwise follow the end, or be scored with it.
    """
    after = ending(tokenizer)

    def encode(text: str) -> list[int]:
        return strip_ending(tokenizer(text)["input_ids"], after) if text else beginning(tokenizer)

    return encode


def ending(tokenizer: Any) -> list[int]:
    """Return the special tokens that a tokenizer puts after every text."""
    own: list[int] = tokenizer(ANY_TEXT, add_special_tokens=False)["input_ids"]
    full: list[int] = tokenizer(ANY_TEXT)["input_ids"]
    added = len(full) - len(own)
    return next((full[start + len(own) :] for start in range(added + 1) if full[start : start + len(own)] == own), [])


def strip_ending(ids: list[int], after: list[int]) -> list[int]:
    """Return the tokens of a text without the special tokens that its tokenizer puts after every text."""
    return ids[: -len(after)] if after and ids[-len(after) :] == after else ids


def beginning(tokenizer: Any) -> list[int]:
    """Return the tokens of an empty text, so that a continuation can follow it.

    They are the special tokens that the tokenizer gives it; otherwise the beginning-of-text token or, without one, the
    end-of-text token, which preceded every text in the training of such a model. Empty if the tokenizer has none of
    them.
    """
    ids = strip_ending(tokenizer("")["input_ids"], ending(tokenizer))
    special = [token for token in (tokenizer.bos_token_id, tokenizer.eos_token_id) if token is not None]
    return ids or special[:1]


def tokenise(encode: Encode, prompt: ScoringPrompt) -> TokenisedPrompt:
    """Tokenise each continuation together with its prompt, as the model would read it.

    " A" after "Answer:" is one token in most vocabularies, and " A" alone need not be the same token. The context is
    the common beginning of all tokenisations: the prompt, and beyond it any common part of the labels, such as the
    bracket of "(A)". A label is the token that follows. Raises EngineError if two labels have the same token there,
    since it cannot distinguish them.
    """
    prefix = encode(prompt.text)
    if not prompt.continuations:
        raise EngineError("a prompt has no continuation to score")
    encoded = [encode(prompt.text + continuation) for continuation in prompt.continuations]
    length = len(prefix)
    merged = any(ids[:length] != prefix or len(ids) <= length for ids in encoded)
    if merged or (len(encoded) > 1 and len({ids[length] for ids in encoded}) == 1):
        length = common_length(*encoded)
    labels = [ids[length] for ids in encoded if len(ids) > length]
    if len(set(labels)) != len(prompt.continuations) or length == 0:
        raise PermanentError(
            f"the tokenizer gives {list(prompt.continuations)} no first tokens of their own after the prompt; use a "
            "protocol with other labels"
        )
    return TokenisedPrompt(encoded[0][:length], labels, prompt.group)


def last_line(prompt: Continued) -> tuple[str, tuple[str, ...]]:
    """Return the parts that decide the labels' tokens: the end of the prompt's last line, and the labels."""
    return prompt.text[-LINE_LENGTH:].rpartition("\n")[2], prompt.continuations


def tokenise_continuations(encode: Encode, prompt: ScoringPrompt) -> TokenisedContinuations:
    """Tokenise each continuation together with its prompt; the context is their common beginning.

    If a continuation changes the tokens at the end of the prompt, these tokens become part of every continuation, so
    that all of them have the same context. After an empty text the context is that of `beginning`. Equal continuations
    are allowed. Raises EngineError if a continuation or the context has no token.
    """
    if not prompt.continuations:
        raise EngineError("a prompt has no continuation to score")
    context = encode(prompt.text)
    encoded = [encode(prompt.text + continuation) for continuation in prompt.continuations]
    if not prompt.text:
        encoded = [ids if ids[: len(context)] == context else context + ids for ids in encoded]
    length = common_length(context, *encoded)
    for text, ids in zip(prompt.continuations, encoded, strict=True):
        if length == 0 or len(ids) <= length:
            raise PermanentError(
                f"the tokenizer gives {text!r} no token of its own after the prompt; use a protocol with other options"
            )
    return TokenisedContinuations(encoded[0][:length], [ids[length:] for ids in encoded], prompt.group)


def common_length(one: Sequence[Any], *others: Sequence[Any]) -> int:
    """Return the length of the common beginning of sequences of one type, such as lists, whose slices compare fast."""
    length = len(one)
    for sequence in others:
        low, length = 0, min(length, len(sequence))
        while low < length:
            middle = (low + length + 1) // 2
            if one[low:middle] == sequence[low:middle]:
                low = middle
            else:
                length = middle - 1
    return length


def check_logprobs(values: Sequence[float]) -> list[float]:
    """Return the log-probabilities with rounding errors above 0 removed.

    Raises EngineError for NaN and infinities, which a model returns if its numbers overflow.
    """
    if not all(map(math.isfinite, values)):
        raise EngineError(
            f"the model gives log-probabilities {list(values)}, which are not comparable numbers; load it with a wider "
            "dtype, such as float32"
        )
    return [min(0.0, value) for value in values]


def check_length(tokens: int, limit: int | None) -> None:
    """Raise EngineError for a prompt of more tokens than the model's context."""
    if limit is not None and tokens > limit:
        raise PermanentError(
            f"a prompt has {tokens} tokens, but the model's context is {limit}; use fewer shots or a "
            "model with a longer context"
        )

"""Tokenises many texts that begin alike, each as a whole, without reading the common beginning again.

A 5-shot prompt is mostly instruction and examples, and every label is tokenised together with its prompt: read in full,
the texts of a shard would cost a seventh of the model's time on a CPU, and more than it on a GPU. Texts must not be cut
where the tokenizer would merge across the cut. So a new text is read from some words before the place where it leaves
the previous one. Where the tokens of those words come out as they did before, the reading has fallen into step, and the
earlier tokens hold for both texts: tokenizers cut a text into words and merge within them, with no memory of the words
before. Tokenizers do not guarantee that, so some texts of every call are read in full and compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from workers.engine.chat import encode_rendered
from workers.tokens import (
    CHECK_EVERY,
    Encode,
    ScoringPrompt,
    TokenisedContinuations,
    TokenisedPrompt,
    common_length,
    encoder,
    last_line,
    tokenise,
    tokenise_continuations,
)

OVERLAP = 64
"""Characters before the difference from which a text is read again."""

UNCERTAIN = 16
"""Characters before the difference whose tokens may depend on what follows."""


T = TypeVar("T")


class OutOfStepError(Exception):
    """A tokenizer reads texts differently when it starts among their words."""


@dataclass
class _Reading:
    text: str
    ids: list[int]
    starts: list[int]


class SteppingEncoder:
    """An Encode for texts of which each begins like the one before."""

    def __init__(self, tokenizer: Any) -> None:
        self._backend = tokenizer.backend_tokenizer
        self._in_full = encoder(tokenizer)
        self._previous: _Reading | None = None
        self._special = 0
        self._count = 0

    def __call__(self, text: str) -> list[int]:
        """Token ids of the whole text. Raises OutOfStepError where a check fails."""
        if not text:
            return self._in_full(text)
        reading = self._step(text) or self._read(text)
        self._previous = reading
        self._count += 1
        if self._count % CHECK_EVERY == 1 and reading.ids != self._in_full(text):
            raise OutOfStepError
        return list(reading.ids)

    def _read(self, text: str) -> _Reading:
        encoding = self._backend.encode(text)
        mask = encoding.special_tokens_mask
        self._special = mask.index(0) if 0 in mask else len(mask)
        if any(mask[self._special :]):
            raise OutOfStepError  # a token that ends the text stands in the way
        return _Reading(text, encoding.ids, _starts(encoding))

    def _step(self, text: str) -> _Reading | None:
        """The reading of a text that begins like the previous one; None when it does not fall into step."""
        previous = self._previous
        if previous is None:
            return None
        shared = common_length(previous.text, text)
        cut = _cut(previous, shared - OVERLAP, self._special)
        if cut is None:
            return None
        start = previous.starts[cut]
        encoding = self._backend.encode(text[start:], add_special_tokens=False)
        starts = [start + offset for offset in _starts(encoding)]
        certain = sum(start <= shared - UNCERTAIN for start in starts) - 1  # the last one may reach beyond
        if certain < 2 or encoding.ids[:certain] != previous.ids[cut : cut + certain]:
            return None
        if starts[:certain] != previous.starts[cut : cut + certain]:
            return None
        return _Reading(text, previous.ids[:cut] + encoding.ids, previous.starts[:cut] + starts)


class LabelTokeniser:
    """`tokenise` for prompts of which many end alike: which tokens their labels are is found once for a last line."""

    def __init__(self) -> None:
        self._labels: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        self._count = 0

    def __call__(self, encode: Encode, prompt: ScoringPrompt) -> TokenisedPrompt:
        """Raises OutOfStepError where a check fails."""
        line = last_line(prompt)
        known = self._labels.get(line)
        self._count += 1
        if known is not None and self._count % CHECK_EVERY:
            return TokenisedPrompt(encode(prompt.text), known, prompt.group)
        found = tokenise(encode, prompt)
        is_whole = found.context == encode(prompt.text)
        if known is not None and (found.labels != known or not is_whole):
            raise OutOfStepError
        if is_whole:  # and no label begins before its own text does
            self._labels[line] = found.labels
        return found


class ContinuationTokeniser:
    """`tokenise_continuations` likewise, since orders of a question have the same continuations after one last line."""

    def __init__(self) -> None:
        self._after: dict[tuple[str, str], list[int]] = {}
        self._count = 0

    def __call__(self, encode: Encode, prompt: ScoringPrompt) -> TokenisedContinuations:
        """Raises OutOfStepError where a check fails."""
        line, continuations = last_line(prompt)
        if not line:  # how many line breaks stand before it may count
            return tokenise_continuations(encode, prompt)
        keys = [(line, continuation) for continuation in continuations]
        known = [self._after[key] for key in keys if key in self._after]
        text = encode(prompt.text)
        self._count += 1
        if known and len(known) == len(keys) and self._count % CHECK_EVERY:
            return TokenisedContinuations(text, known, prompt.group)
        found = tokenise_continuations(lambda whole: text if whole == prompt.text else encode(whole), prompt)
        is_whole = found.context == text
        after = dict(zip(keys, found.continuations, strict=True))
        if any(key in self._after and not (is_whole and self._after[key] == ids) for key, ids in after.items()):
            raise OutOfStepError
        if is_whole:
            self._after |= after
        return found


def _starts(encoding: Any) -> list[int]:
    """Where each token starts in the text: where the one before ends, since offsets may leave blanks out."""
    return [0, *(end for _, end in encoding.offsets[:-1])]


def _cut(reading: _Reading, limit: int, special: int) -> int | None:
    """The last token that starts at or before `limit` with a blank or line break between two words."""
    text = reading.text
    for token in range(len(reading.starts) - 1, special, -1):
        start = reading.starts[token]
        if start > limit:
            continue
        if start < limit - 16 * OVERLAP:
            break
        if text[start].isspace() and text[start - 1].isalnum() and text[start + 1 : start + 2].isalnum():
            return token
    return None


def encoder_for(tokenizer: Any, prompts: Sequence[ScoringPrompt]) -> Encode:
    """Tokenises whole texts of such prompts, one by one. Either all of them or none were written by a chat template."""
    if any(prompt.chat for prompt in prompts):
        return lambda text: encode_rendered(tokenizer, text)
    return encoder(tokenizer)


def encode_labels(tokenizer: Any, prompts: Sequence[ScoringPrompt]) -> list[TokenisedPrompt]:
    """Each prompt as `tokenise` has it."""
    return encode_all(tokenizer, prompts, tokenise, LabelTokeniser())


def encode_continuations(tokenizer: Any, prompts: Sequence[ScoringPrompt]) -> list[TokenisedContinuations]:
    """Each prompt as `tokenise_continuations` has it."""
    return encode_all(tokenizer, prompts, tokenise_continuations, ContinuationTokeniser())


def encode_all(
    tokenizer: Any,
    prompts: Sequence[ScoringPrompt],
    tokenise: Callable[[Encode, ScoringPrompt], T],
    stepwise: Callable[[Encode, ScoringPrompt], T] | None = None,
) -> list[T]:
    """Each prompt tokenised by an encoder that steps; again with one that does not, where stepping fails.

    stepwise: in place of `tokenise` with an encoder that steps; may raise OutOfStepError as well.
    """
    if getattr(tokenizer, "is_fast", False) and not any(prompt.chat for prompt in prompts):
        stepping = SteppingEncoder(tokenizer)
        try:
            return [(stepwise or tokenise)(stepping, prompt) for prompt in prompts]
        except OutOfStepError:
            pass
    encode = encoder_for(tokenizer, prompts)
    return [tokenise(encode, prompt) for prompt in prompts]

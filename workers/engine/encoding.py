"""Tokenises many texts with common lines, each as a whole, reading the common lines only once.

A 5-shot prompt is mostly instruction and examples, orders of a question have the same options, and every label is
tokenised together with its prompt. Reading the texts of a shard in full would take a seventh of the model's time on a
CPU, and more than the model's time on a GPU. So a text is divided at the beginning of each line and after the line's
label, and each piece is read once. No token of the vocabulary may lie across such a division; if one does, every text
is read in full. Since the step that divides a text into words could look across as well, some texts of every call are
also read whole and compared, from their first difference to the text compared before.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from workers.engine.chat import encode_rendered
from workers.errors import PermanentError
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

LINES: Final = re.compile(r"\n(?:([^\W_]+[.):]|\([^\W_]\))(?= [^\W_])|(?=[^\W_]|\())")
"""The end of a line that is followed by another, with the label of the next line, such as "A.", "(A)" or "Answer:"."""

ACROSS: Final = re.compile(r"[.):] |\n(?:[^\W_]|[(\ufffd])")
"""Pattern of a token that lies across a division; U+FFFD is the beginning of a character."""

PERHAPS_ACROSS: Final = re.compile(r"[.):][ ▁Ġ]|[\nĊ].")
"""The same for a token as the vocabulary writes it, in which a letter may represent a byte."""

BEFORE: Final = "x\n"
"""Text before a piece while it is read, since some tokenizers add a blank at the beginning of a text."""

AFTER: Final = "x"
"""Text after a line while it is read, since blanks at the end of a text may be merged."""

T = TypeVar("T")

_cuttable: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


class OutOfStepError(Exception):
    """A tokenizer reads a text in pieces differently from the whole text."""


class PieceEncoder:
    """An Encode for texts that have lines in common."""

    def __init__(self, tokenizer: Any) -> None:
        self._backend = tokenizer.backend_tokenizer
        self._in_full = encoder(tokenizer)
        self._before: list[int] = self._backend.encode(BEFORE, add_special_tokens=False).ids
        self._after: list[int] = self._backend.encode(BEFORE + AFTER, add_special_tokens=False).ids[len(self._before) :]
        sentence = self._backend.encode(".\n", add_special_tokens=False).ids
        self._breaks_alone = sentence[-1:] == self._before[-1:]
        self._tokens = cache(self._read)
        self._beginning: tuple[str, list[int]] = ("", [])
        self._compared: list[str] = []
        self._count = 0

    def __call__(self, text: str) -> list[int]:
        """Return the token ids of a whole text. Raises OutOfStepError if a comparison fails."""
        if not text:
            return self._in_full(text)
        pieces = _cut(text)
        last = len(pieces) - 1
        if last and pieces[0] != self._beginning[0]:
            self._beginning = pieces[0], self._tokens(pieces[0], True, False)
        # Comparing two long texts is faster than looking one up.
        tokens = [self._beginning[1] if last else self._tokens(text, True, True)]
        tokens += [self._tokens(piece, False, place == last) for place, piece in enumerate(pieces[1:], start=1)]
        self._count += 1
        if self._count % CHECK_EVERY == 1:
            self._compare(pieces, tokens)
        ids = tokens[0].copy()
        for piece in tokens[1:]:
            ids += piece
        return ids

    def _read(self, piece: str, first: bool, last: bool) -> list[int]:
        """Return the tokens of a piece, with the special tokens of a text's first piece."""
        if self._breaks_alone and last and not first and piece.startswith(" "):
            line = self._tokens(f"{piece}\n", False, False)  # the line of an option in the prompt was read before
            if line[-1:] == self._before[-1:]:
                return line[:-1]
        before = "" if first else BEFORE
        after = AFTER if piece.endswith("\n") and not last else ""
        encoding = self._backend.encode(before + piece + after, add_special_tokens=first)
        ids: list[int] = encoding.ids
        mask = encoding.special_tokens_mask
        if first:
            if 0 not in mask:
                raise OutOfStepError
            length = len(mask) - mask[::-1].index(0)  # without the tokens at the end of every text
            mask, ids = mask[:length], ids[:length]
            if any(mask[mask.index(0) :]):
                raise OutOfStepError
        start = len(self._before) if before else 0
        end = len(ids) - len(self._after) if after else len(ids)
        if (before and ids[:start] != self._before) or (after and ids[end:] != self._after):
            raise OutOfStepError
        return ids[start:end]

    def _compare(self, pieces: list[str], tokens: list[list[int]]) -> None:
        """Compare with the text read as a whole, leaving out the beginning that the last compared text shares."""
        shared = common_length(pieces, self._compared)
        start = max(1, shared - 1) if shared else 0
        text = "".join(pieces[start:])
        ids = [token for piece in tokens[start:] for token in piece]
        if text and ids != (self._read(text, False, True) if start else self._in_full(text)):
            raise OutOfStepError
        self._compared = pieces


def _cut(text: str) -> list[str]:
    """Divide a text into pieces; the first piece ends at the text's last blank line."""
    last = text.rfind("\n\n") + 1
    first, *others = LINES.split(text[last:])
    pieces = [text[:last] + first]
    for label, line in zip(others[::2], others[1::2], strict=True):
        pieces[-1] += "\n"
        pieces += [label, line] if label else [line]
    return pieces


def is_cuttable(tokenizer: Any) -> bool:
    """Return whether no token of the vocabulary lies across a division."""
    if not getattr(tokenizer, "is_fast", False):
        return False
    if tokenizer not in _cuttable:
        perhaps = filter(PERHAPS_ACROSS.search, tokenizer.get_vocab())
        _cuttable[tokenizer] = not any(ACROSS.search(tokenizer.convert_tokens_to_string([token])) for token in perhaps)
    return _cuttable[tokenizer]


class LabelTokeniser:
    """A `tokenise` for prompts with common endings, which finds the labels' tokens once for each last line."""

    def __init__(self) -> None:
        self._labels: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        self._count = 0

    def __call__(self, encode: Encode, prompt: ScoringPrompt) -> TokenisedPrompt:
        """Tokenise a prompt. Raises OutOfStepError if a check fails."""
        line = last_line(prompt)
        labels = self._labels.get(line)
        self._count += 1
        if labels is not None and self._count % CHECK_EVERY:
            return TokenisedPrompt(encode(prompt.text), labels, prompt.group)
        tokenised = tokenise(encode, prompt)
        is_whole = tokenised.context == encode(prompt.text)
        if labels is not None and (tokenised.labels != labels or not is_whole):
            raise OutOfStepError
        if is_whole:  # and no label begins before its own text
            self._labels[line] = tokenised.labels
        return tokenised


class ContinuationTokeniser:
    """A `tokenise_continuations` for prompts with common endings: orders of a question have the same continuations."""

    def __init__(self) -> None:
        self._after: dict[tuple[str, str], list[int]] = {}
        self._count = 0

    def __call__(self, encode: Encode, prompt: ScoringPrompt) -> TokenisedContinuations:
        """Tokenise a prompt. Raises OutOfStepError if a check fails."""
        line, continuations = last_line(prompt)
        if not line:  # the tokens may depend on the number of line breaks before it
            return tokenise_continuations(encode, prompt)
        keys = [(line, continuation) for continuation in continuations]
        stored = [self._after[key] for key in keys if key in self._after]
        text = encode(prompt.text)
        self._count += 1
        if stored and len(stored) == len(keys) and self._count % CHECK_EVERY:
            return TokenisedContinuations(text, stored, prompt.group)
        tokenised = tokenise_continuations(lambda whole: text if whole == prompt.text else encode(whole), prompt)
        is_whole = tokenised.context == text
        after = dict(zip(keys, tokenised.continuations, strict=True))
        if any(key in self._after and not (is_whole and self._after[key] == ids) for key, ids in after.items()):
            raise OutOfStepError
        if is_whole:
            self._after |= after
        return tokenised


def encoder_for(tokenizer: Any, prompts: Sequence[ScoringPrompt]) -> Encode:
    """Return a function that tokenises the prompts' whole texts. A chat template wrote all of them or none."""
    if any(prompt.chat for prompt in prompts):
        return lambda text: encode_rendered(tokenizer, text)
    return encoder(tokenizer)


def encode_labels(tokenizer: Any, prompts: Sequence[ScoringPrompt]) -> list[TokenisedPrompt]:
    """Tokenise each prompt as `tokenise` does. Raises EngineError for a label that the vocabulary does not have."""
    tokenised = encode_all(tokenizer, prompts, tokenise, LabelTokeniser())
    unknown = getattr(tokenizer, "unk_token_id", None)
    for prompt, tokens in zip(prompts, tokenised, strict=True):
        if unknown is not None and unknown in tokens.labels:
            label = prompt.continuations[tokens.labels.index(unknown)]
            raise PermanentError(
                f"the tokenizer does not know the label {label!r}, which it reads as {tokenizer.unk_token}; use a "
                "protocol with other labels"
            )
    return tokenised


def encode_continuations(tokenizer: Any, prompts: Sequence[ScoringPrompt]) -> list[TokenisedContinuations]:
    """Tokenise each prompt as `tokenise_continuations` does."""
    return encode_all(tokenizer, prompts, tokenise_continuations, ContinuationTokeniser())


def encode_all(
    tokenizer: Any,
    prompts: Sequence[ScoringPrompt],
    tokenise: Callable[[Encode, ScoringPrompt], T],
    by_pieces: Callable[[Encode, ScoringPrompt], T] | None = None,
) -> list[T]:
    """Tokenise each prompt with an encoder that reads pieces or, if that fails, that reads whole texts.

    by_pieces: used instead of `tokenise` with the encoder that reads pieces; may raise OutOfStepError as well.
    """
    if not any(prompt.chat for prompt in prompts) and is_cuttable(tokenizer):
        pieces = PieceEncoder(tokenizer)
        try:
            return [(by_pieces or tokenise)(pieces, prompt) for prompt in prompts]
        except OutOfStepError:
            pass
    encode = encoder_for(tokenizer, prompts)
    return [tokenise(encode, prompt) for prompt in prompts]

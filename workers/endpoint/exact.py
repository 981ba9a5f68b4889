"""Requests for exactly the wanted tokens, so that no label is unknown and no cached prefix is lost.

The OpenAI protocol lists the most probable tokens only. Inference servers offer more, each in its own form and since
some version, so a server is first tested on one sentence: it must return all requested tokens, with the
log-probabilities that it lists itself. The first form that passes is used; if none passes, the server gets plain
requests.

The server's own tokenizer splits the texts, and `workers.tokens` decides, as for a local model, which tokens represent
a label or an option. Prompts are sent as tokens or, to a server that accepts several texts in a request, as texts. The
labels' tokens then follow from a prompt's last line: they are looked up for the first prompt with that line, and
checked again for some later ones.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, Final, Protocol, TypeVar

from workers.endpoint.answers import (
    MissingTokenError,
    Token,
    Usage,
    drops_blanks,
    ids_of_prompt,
    ids_of_tokenizer,
    read_echoed_ids,
    read_generated_input_ids,
    read_generated_token_ids,
    read_listed_ids,
    tokens_used,
)
from workers.endpoint.client import RefusedError
from workers.errors import EngineError
from workers.tokens import (
    CHECK_EVERY,
    Continued,
    Encode,
    ScoringPrompt,
    TokenisedContinuations,
    last_line,
    tokenise,
    tokenise_continuations,
)

Ask = Callable[[str, Mapping[str, Any], Event], Mapping[str, Any]]
"""(URL, document, stop) → the server's answer to the document. Raises EngineError if the server refuses it."""

AfterTexts = Callable[[Sequence[str], Sequence[int], Event], tuple[list[dict[int, float]], Usage]]
"""(texts, wanted tokens, stop) → log-probabilities of the tokens after each text; tokens used by all texts."""

T = TypeVar("T")
R = TypeVar("R")

TOLERANCE_NATS: Final = 0.1
"""Largest accepted difference between two log-probabilities of a token: half precision differs by less, and a server
that omits all other tokens from the sum differs by more.
"""
COMPARED: Final = 4
"""Number of listed tokens that are requested again, by number."""
BLOCK_TOKENS: Final = 16
"""Tokens in a block of vLLM's prefix cache, if the server does not reveal the number."""
REQUEST_TOKENS: Final = 8
"""Fixed cost of a request, in tokens."""
TEXTS_AT_ONCE: Final = 8
"""Prompts in a request: a request costs this process 0.5 ms of CPU, however many prompts it has."""


class Each(Protocol):
    """A function that sends several requests at once and returns the answers in order."""

    def __call__(self, asked: Sequence[T], ask: Callable[[T, Event], R], /) -> list[R]:
        """Send the requests; raise the first error."""
        ...


@dataclass(frozen=True)
class Scored:
    """Log-probabilities of continuations.

    logprobs[i][p]: nats, at most 0, of continuation p after prompt i.
    tokens_naive: tokens of all prompts. tokens_computed: the same without tokens that the server reports as cached.
    """

    logprobs: list[list[float]]
    tokens_naive: int
    tokens_computed: int


@dataclass(frozen=True)
class Read:
    """The log-probability of each requested token, by its id."""

    logprobs: Mapping[int, float]
    usage: Usage


@dataclass(frozen=True)
class ReadWhole:
    """The log-probability of each token of a continuation, in order."""

    logprobs: list[float]
    usage: Usage


class Tokenizer:
    """The server's tokenizer, reached by its own route or as a by-product of a completion."""

    def __init__(self, ask: Ask, model: str, url: str, *, completes: bool) -> None:
        """Prepare the client. completes: whether the URL is the completions service, whose text is ignored."""
        self._ask = ask
        self._model = model
        self._url = url
        self.name: Final = "return_token_ids" if completes else "tokenize"

    def __call__(self, text: str, stop: Event) -> list[int]:
        """Return the token ids of a whole text, with the special tokens that the model receives. Raises EngineError."""
        document: dict[str, Any] = {"model": self._model, "prompt": text}
        if self.name == "tokenize":
            return ids_of_tokenizer(self._ask(self._url, document, stop))
        document |= {"max_tokens": 1, "temperature": 0, "return_token_ids": True}
        return ids_of_prompt(self._ask(self._url, document, stop))


class Way(Protocol):
    """A form of requests for chosen tokens.

    name, whole_name: names in the engine fingerprint. at_once: number of next tokens that one request reads, if the
    rest comes from the server's cache; 0 if reading a continuation token by token is never cheaper than as a whole.
    after_texts: returns log-probabilities of the wanted tokens after each of several texts, in one request, and the
    tokens of all texts; None if the server has no such request.
    """

    name: str
    whole_name: str
    at_once: int
    after_texts: AfterTexts | None

    def next_tokens(self, context: Sequence[int], wanted: Sequence[int], stop: Event) -> Read:
        """Return the log-probability of each wanted token as the next one after the context."""
        ...

    def whole(self, context: Sequence[int], continuation: Sequence[int], stop: Event) -> ReadWhole:
        """Return the log-probability of each token of a continuation, given the tokens before it."""
        ...


class Echo:
    """A form for every vLLM: the server repeats the prompt with its log-probabilities and computes it in full."""

    name = "echo"
    whole_name = "echo"
    at_once = 0
    after_texts: AfterTexts | None = None

    def __init__(self, ask: Ask, model: str, url: str) -> None:
        self._send = ask
        self._model = model
        self._url = url

    def next_tokens(self, context: Sequence[int], wanted: Sequence[int], stop: Event) -> Read:
        """Read each token with one request."""
        reads = [(token, self.whole(context, [token], stop)) for token in wanted]
        return Read({token: read.logprobs[0] for token, read in reads}, _sum([read.usage for _, read in reads]))

    def whole(self, context: Sequence[int], continuation: Sequence[int], stop: Event) -> ReadWhole:
        """Read the continuation with one request."""
        document = self._complete([*context, *continuation], stop, max_tokens=0, logprobs=0, echo=True)
        return ReadWhole(read_echoed_ids(document, continuation), tokens_used(document))

    def _complete(self, prompt: Sequence[int] | Sequence[str], stop: Event, **parameters: Any) -> Mapping[str, Any]:
        document = {"model": self._model, "prompt": list(prompt), "temperature": 0, **parameters}
        return self._send(self._url, document | {"return_tokens_as_token_ids": True}, stop)


class LogprobTokenIds(Echo):
    """vLLM's `logprob_token_ids`, which a server that does not know it ignores."""

    name = "logprob_token_ids"
    at_once = 128  # vLLM's limit; the options after one text can have more tokens

    def next_tokens(self, context: Sequence[int], wanted: Sequence[int], stop: Event) -> Read:
        """Read the tokens with one request, or with several if they exceed the limit."""
        logprobs: dict[int, float] = {}
        usages = []
        for start in range(0, len(wanted), self.at_once):
            some = list(wanted[start : start + self.at_once])
            document = self._complete(context, stop, max_tokens=1, logprobs=1, logprob_token_ids=some)
            logprobs |= read_listed_ids(document, some)
            usages.append(tokens_used(document))
        return Read(logprobs, _sum(usages))

    def after_texts(
        self, texts: Sequence[str], wanted: Sequence[int], stop: Event
    ) -> tuple[list[dict[int, float]], Usage]:
        """Read the tokens after all texts with one request."""
        document = self._complete(texts, stop, max_tokens=1, logprobs=1, logprob_token_ids=list(wanted))
        return [read_listed_ids(document, wanted, place) for place in range(len(texts))], tokens_used(document)


class AllowedTokenIds(Echo):
    """A form for older vLLM: the only allowed token is written, with its log-probability among all tokens.

    Each token needs a request; all but the first find the prompt in the server's cache.
    """

    name = "allowed_token_ids"
    at_once = 1

    def next_tokens(self, context: Sequence[int], wanted: Sequence[int], stop: Event) -> Read:
        """Read each token with one request."""
        logprobs: dict[int, float] = {}
        usages = []
        for token in wanted:
            document = self._complete(context, stop, max_tokens=1, logprobs=0, allowed_token_ids=[token])
            logprobs |= read_listed_ids(document, [token])
            usages.append(tokens_used(document))
        return Read(logprobs, _sum(usages))


class Generate:
    """SGLang's own route, /generate. Its cache is used up to the first log-probability."""

    name = "token_ids_logprob"
    whole_name = "logprob_start_len"
    at_once = 0
    after_texts: AfterTexts | None = None

    def __init__(self, ask: Ask, url: str) -> None:
        self._ask = ask
        self._url = url

    def next_tokens(self, context: Sequence[int], wanted: Sequence[int], stop: Event) -> Read:
        """Read the tokens with one request."""
        document = self._generate(context, stop, 1, token_ids_logprob=list(wanted))
        return Read(read_generated_token_ids(document, wanted), tokens_used(document))

    def whole(self, context: Sequence[int], continuation: Sequence[int], stop: Event) -> ReadWhole:
        """Read the continuation with one request."""
        document = self._generate([*context, *continuation], stop, 0, logprob_start_len=len(context) - 1)
        return ReadWhole(read_generated_input_ids(document, continuation), tokens_used(document))

    def _generate(self, tokens: Sequence[int], stop: Event, written: int, **parameters: Any) -> Mapping[str, Any]:
        document = {
            "input_ids": list(tokens),
            "sampling_params": {"temperature": 0, "max_new_tokens": written},
            "return_logprob": True,
        }
        return self._ask(self._url, document | parameters, stop)


class ExactTokens:
    """The engine of a server that passed the test: it returns log-probabilities of all labels or options.

    block_tokens: size of a block of the server's prefix cache. takes_texts: whether a request may have several texts.
    """

    def __init__(self, tokenizer: Tokenizer, way: Way, block_tokens: int | None, *, takes_texts: bool) -> None:
        self._tokenizer = tokenizer
        self._way = way
        self._block = block_tokens or BLOCK_TOKENS
        self._after_texts = way.after_texts if takes_texts else None
        self._labels: dict[tuple[str, tuple[str, ...]], list[int]] = {}

    def settings(self) -> dict[str, object]:
        """Return the form of requests for the engine fingerprint; block_tokens decides between two forms."""
        settings = {"labels": self._way.name, "continuations": self._way.whole_name, "tokens": self._tokenizer.name}
        if not self._way.at_once:
            return {**settings}
        return {**settings, "continuations": f"token by token, or {self._way.whole_name}", "block_tokens": self._block}

    def score(self, prompts: Sequence[Continued], each: Each) -> Scored:
        """Return the log-probability of each label's token.

        Raises MissingTokenError if the server leaves out a requested token, and EngineError if two labels begin with
        the same token.
        """
        if self._after_texts is not None and self._know_labels(prompts, each):
            return self._score_texts(self._after_texts, prompts, each)
        encode = self._encode(prompts, each)
        tokenised = [tokenise(encode, _scoring(prompt)) for prompt in prompts]
        wanted: dict[tuple[int, ...], list[int]] = {}
        for prompt in tokenised:
            labels = wanted.setdefault(tuple(prompt.context), [])
            labels += [label for label in prompt.labels if label not in labels]
        reads = self._read_next(wanted, each)
        logprobs = [[reads[tuple(prompt.context)].logprobs[label] for label in prompt.labels] for prompt in tokenised]
        return Scored(logprobs, *_tokens(sum(map(len, wanted)), [read.usage for read in reads.values()]))

    def _know_labels(self, prompts: Sequence[Continued], each: Each) -> bool:
        """Look up the labels' tokens after each last line; return whether that works for all prompts."""
        looked_at: list[Continued] = []
        seen = set(self._labels)
        for place, prompt in enumerate(prompts):
            if last_line(prompt) not in seen or place % CHECK_EVERY == CHECK_EVERY - 1:
                looked_at.append(prompt)
                seen.add(last_line(prompt))
        encode = self._encode(looked_at, each)
        for prompt in looked_at:
            tokenised = tokenise(encode, _scoring(prompt))
            if (
                tokenised.context != encode(prompt.text)
                or len(tokenised.labels) > self._way.at_once
                or self._labels.setdefault(last_line(prompt), tokenised.labels) != tokenised.labels
            ):
                self._after_texts = None  # prompts are sent as tokens from now on
                return False
        return True

    def _score_texts(
        self,
        after_texts: AfterTexts,
        prompts: Sequence[Continued],
        each: Each,
    ) -> Scored:
        """Score prompts in requests of several texts with the same labels, with common beginnings adjacent."""
        keys = [(prompt.text, tuple(self._labels[last_line(prompt)])) for prompt in prompts]
        requests: list[tuple[tuple[int, ...], list[str]]] = []
        for text, labels in sorted(set(keys)):
            if not requests or requests[-1][0] != labels or len(requests[-1][1]) == TEXTS_AT_ONCE:
                requests.append((labels, []))
            requests[-1][1].append(text)
        answers = each(requests, lambda one, stop: after_texts(one[1], one[0], stop))
        by_key = {
            (text, labels): logprobs
            for (labels, texts), (listed, _) in zip(requests, answers, strict=True)
            for text, logprobs in zip(texts, listed, strict=True)
        }
        usages = [usage for _, usage in answers]
        values = [[by_key[key][token] for token in key[1]] for key in keys]
        return Scored(values, *_tokens(sum(usage.prompt or 0 for usage in usages), usages))

    def score_continuations(self, prompts: Sequence[Continued], each: Each) -> Scored:
        """Return the log-probability of each whole continuation, summed over its tokens; raises as `score` does.

        A continuation is read token by token if that is cheaper than repeating the whole prompt.
        """
        encode = self._encode(prompts, each)
        tokenised = [tokenise_continuations(encode, _scoring(prompt)) for prompt in prompts]
        steps: dict[tuple[int, ...], list[int]] = {}
        wholes: dict[tuple[int, tuple[int, ...]], None] = {}
        by_steps = [self._is_cheaper_by_steps(prompt) for prompt in tokenised]
        for prompt, stepwise in zip(tokenised, by_steps, strict=True):
            context = tuple(prompt.context)
            for own in prompt.continuations:
                if not stepwise:
                    wholes[len(context), (*context, *own)] = None
                    continue
                for place, token in enumerate(own):
                    next_tokens = steps.setdefault((*context, *own[:place]), [])
                    if token not in next_tokens:
                        next_tokens.append(token)
        by_step = self._read_next(steps, each)
        by_whole = self._read_whole(list(wholes), each)
        logprobs = []
        for prompt, stepwise in zip(tokenised, by_steps, strict=True):
            context = tuple(prompt.context)
            tokens = [
                _along(by_step, context, own) if stepwise else by_whole[len(context), (*context, *own)].logprobs
                for own in prompt.continuations
            ]
            logprobs.append([min(0.0, math.fsum(values)) for values in tokens])
        texts = {(*prompt.context, *own) for prompt in tokenised for own in prompt.continuations}
        usages = [read.usage for read in by_step.values()] + [read.usage for read in by_whole.values()]
        return Scored(logprobs, *_tokens(sum(map(len, texts)), usages))

    def _encode(self, prompts: Sequence[Continued], each: Each) -> Encode:
        texts = list(
            dict.fromkeys(
                text for prompt in prompts for text in (prompt.text, *map(prompt.text.__add__, prompt.continuations))
            )
        )
        return dict(zip(texts, each(texts, self._tokenizer), strict=True)).__getitem__

    def _read_next(self, wanted: Mapping[tuple[int, ...], list[int]], each: Each) -> dict[tuple[int, ...], Read]:
        # Depth-first order: a prompt follows the one with the longest common beginning, and precedes its extensions, so
        # that its prefix is still cached.
        contexts = sorted(wanted)
        reads = each(contexts, lambda context, stop: self._way.next_tokens(context, wanted[context], stop))
        return dict(zip(contexts, reads, strict=True))

    def _read_whole(
        self, wanted: Sequence[tuple[int, tuple[int, ...]]], each: Each
    ) -> dict[tuple[int, tuple[int, ...]], ReadWhole]:
        ordered = sorted(wanted, key=lambda one: one[1])
        reads = each(ordered, lambda one, stop: self._way.whole(one[1][: one[0]], one[1][one[0] :], stop))
        return dict(zip(ordered, reads, strict=True))

    def _is_cheaper_by_steps(self, prompt: TokenisedContinuations) -> bool:
        """Return whether reading token by token computes fewer tokens.

        The prompt alone decides it, so that a prompt is always sent in the same form. Each step computes again the part
        of its prompt that does not fill a block of the cache.
        """
        if not self._way.at_once:
            return False
        length = len(prompt.context)
        after: dict[tuple[int, ...], set[int]] = {}
        for own in prompt.continuations:
            for place, token in enumerate(own):
                after.setdefault(tuple(own[:place]), set()).add(token)
        requests = sum(-(-len(tokens) // self._way.at_once) for tokens in after.values())
        again = sum(self._not_cached(length + len(node)) for node in after if node)
        distinct = {tuple(own) for own in prompt.continuations}
        repeated = sum(length + len(own) + REQUEST_TOKENS for own in distinct)
        return length + again + REQUEST_TOKENS * requests < repeated

    def _not_cached(self, length: int) -> int:
        return length - (length - 1) // self._block * self._block


def find_exact(
    tokenizers: Sequence[Tokenizer],
    ways: Sequence[Way],
    sentence: str,
    listed: Sequence[Token],
    block_tokens: int | None,
    stop: Event,
) -> ExactTokens | None:
    """Return an engine with the first tokenizer and the first form that pass the test; None if none does.

    sentence: the text that the server continued. listed: the tokens that it returned as the most probable ones.
    """
    for tokenizer in tokenizers:
        try:
            context = tokenizer(sentence, stop)
            expected = _number_tokens(tokenizer, sentence, context, listed, stop)
        except (MissingTokenError, RefusedError):
            continue
        for way in ways:
            if expected and _passes(way, context, expected, stop):
                takes_texts = _takes_texts(way, sentence, context, expected, stop)
                return ExactTokens(tokenizer, way, block_tokens, takes_texts=takes_texts)
    return None


def _number_tokens(
    tokenizer: Tokenizer, sentence: str, context: Sequence[int], listed: Sequence[Token], stop: Event
) -> dict[int, float]:
    """Map token ids to the listed log-probabilities, if the tokenizer adds exactly that token to the sentence.

    Only the least probable tokens are used, since they reveal whether other tokens are part of the sum.
    """
    expected: dict[int, float] = {}
    ended = 0
    blank = " " if drops_blanks(listed) else ""
    for token in sorted(listed, key=lambda token: token.logprob or 0.0):
        ids = tokenizer(sentence + blank + token.text, stop)
        ended += ids[-1:] == context[-1:] and ids[: len(context) - 1] == context[:-1] and len(ids) > len(context)
        # If two tokens have the same text, the listed value may belong to the other one.
        alone = sum(entry.text == token.text for entry in listed) == 1
        if alone and token.logprob is not None and len(ids) == len(context) + 1 and ids[:-1] == list(context):
            expected[ids[-1]] = token.logprob
        if len(expected) == COMPARED:
            break
    if ended > 1:  # the sentence gets the same last token each time
        raise EngineError(
            "the server puts a special token after every prompt, so that answers would be scored after the end of the "
            "text; correct the post-processor in its tokenizer.json, or score the model from its files"
        )
    return expected


def _passes(way: Way, context: Sequence[int], expected: Mapping[int, float], stop: Event) -> bool:
    """Return whether a server returns the expected log-probabilities, and values for tokens that it did not list."""
    # Tokens of the sentence itself: they are in the vocabulary, and unlikely to follow.
    others = [token for token in dict.fromkeys(context) if token not in expected][:COMPARED]
    try:
        read = way.next_tokens(context, [*expected, *others], stop).logprobs
    except (MissingTokenError, RefusedError):
        return False
    return all(abs(read[token] - value) <= TOLERANCE_NATS for token, value in expected.items())


def _takes_texts(way: Way, sentence: str, context: Sequence[int], expected: Mapping[int, float], stop: Event) -> bool:
    """Return whether a server returns the expected log-probabilities for two texts in one request."""
    if way.after_texts is None:
        return False
    try:
        readings, usage = way.after_texts([sentence, sentence], list(expected), stop)
    except (MissingTokenError, RefusedError):
        return False
    near = all(
        abs(reading[token] - value) <= TOLERANCE_NATS for reading in readings for token, value in expected.items()
    )
    return near and usage.prompt == 2 * len(context)


def _scoring(prompt: Continued) -> ScoringPrompt:
    return ScoringPrompt(prompt.text, prompt.continuations)


def _along(steps: Mapping[tuple[int, ...], Read], context: tuple[int, ...], own: Sequence[int]) -> list[float]:
    return [steps[*context, *own[:place]].logprobs[token] for place, token in enumerate(own)]


def _sum(usages: Sequence[Usage]) -> Usage:
    return Usage(sum(usage.prompt or 0 for usage in usages), None, sum(usage.cached for usage in usages))


def _tokens(naive: int, usages: Sequence[Usage]) -> tuple[int, int]:
    """Return the tokens of all prompts and the computed ones; tokens not reported as cached count as computed once."""
    sent = sum(usage.prompt or 0 for usage in usages)
    return naive, min(naive, sent - sum(usage.cached for usage in usages))

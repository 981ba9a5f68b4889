"""Reads servers' answers: most probable tokens, tokens of a whole prompt, written texts.

Servers use two forms of log-probabilities. OpenAI's older completions, vLLM and SGLang use this one:

    {"tokens": [" A"], "token_logprobs": [-0.4], "top_logprobs": [{" A": -0.4, " B": -1.9}]}

OpenAI's chat, and llama.cpp everywhere, use this one:

    {"content": [{"token": " A", "logprob": -0.4, "top_logprobs": [{"token": " A", "logprob": -0.4}, …]}]}

If tokens are requested by number, vLLM names them "token_id:330" in the older form, and SGLang's own route lists
[log-probability, number, text].
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workers.errors import EngineError

_LOWEST: Final = -1e6
_ROUNDING: Final = 1e-3
"""Log-probabilities above this are invalid; values up to it are rounded to 0."""
_BLANKS: Final = ("Ġ", "▁")
"""How byte-level and SentencePiece vocabularies write a leading space; some servers show tokens in that form."""
_NUMBERED: Final = "token_id:"


class MissingTokenError(EngineError):
    """A server left out a token that was requested by number."""


@dataclass(frozen=True)
class Token:
    """A token's text and its log-probability (nats, at most 0; None if the server gives none)."""

    text: str
    logprob: float | None


def top_tokens(document: Mapping[str, Any]) -> list[Token]:
    """Return the most probable first tokens of a completion, without tokens that lack a log-probability.

    Raises EngineError if there are none.
    """
    logprobs = _choice(document).get("logprobs")
    pairs: list[tuple[Any, Any]] = []
    if isinstance(logprobs, dict):
        if isinstance(logprobs.get("content"), list) and logprobs["content"]:
            pairs = [(_text(entry), entry["logprob"]) for entry in _entries(logprobs["content"][0])]
        elif isinstance(logprobs.get("top_logprobs"), list) and logprobs["top_logprobs"]:
            first = logprobs["top_logprobs"][0]
            pairs = list(first.items()) if isinstance(first, dict) else []
    tokens = [Token(_with_blank(text), _logprob(value)) for text, value in pairs if isinstance(text, str)]
    with_logprobs = [token for token in tokens if token.logprob is not None]
    if not with_logprobs:
        raise EngineError(
            "the server gives no log-probabilities of the most probable tokens; use a server that does (vLLM, SGLang, "
            "llama.cpp) or a protocol that reads text"
        )
    if all(token.text.startswith(_NUMBERED) for token in with_logprobs):
        raise EngineError(
            "the server names tokens by number, not by text; start it without --return-tokens-as-token-ids"
        )
    return with_logprobs


def _entries(first: Any) -> list[dict[str, Any]]:
    listed = first.get("top_logprobs") if isinstance(first, dict) else None
    return [entry for entry in listed or [] if isinstance(entry, dict) and "logprob" in entry]


def _text(entry: Mapping[str, Any]) -> Any:
    """Return a token's text, from its bytes if they are present and valid text, since they define the token."""
    try:
        return bytes(entry["bytes"]).decode() or entry.get("token")
    except (KeyError, TypeError, ValueError):
        return entry.get("token")


def _with_blank(text: str) -> str:
    return " " + text[1:] if text.startswith(_BLANKS) else text


def _logprob(value: Any) -> float | None:
    """Return a finite log-probability, at most 0 apart from rounding; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LOWEST <= value <= _ROUNDING:
        return None
    return min(0.0, float(value))


def drops_blanks(tokens: Sequence[Token]) -> bool:
    """Return whether a server shows tokens without their leading space.

    The most likely continuations of an unfinished sentence begin with a space; if none of the tokens does, the server
    drops spaces.
    """
    return not any(token.text.startswith(" ") for token in tokens)


def label_logprobs(
    tokens: Sequence[Token], continuations: Sequence[str], *, without_blanks: bool = False
) -> list[float | None]:
    """Return the log-probability of each label's token; None if no token has the text of the continuation.

    continuations: by position, with their leading blank: " A", not "A". A missing token's probability is unknown, not
    zero. without_blanks: the server drops leading blanks, so continuations are compared without them. "A" then also
    represents " A", and the more probable of two tokens with the same text counts.
    """
    best: dict[str, float] = {}
    for token in tokens:
        if token.logprob is not None:
            best[token.text] = max(token.logprob, best.get(token.text, -math.inf))
    return [best.get(text.lstrip(" ") if without_blanks else text) for text in continuations]


def read_echoed_tokens(document: Mapping[str, Any]) -> list[Token] | None:
    """Return the tokens of the prompt, in order; None if the server does not repeat them with log-probabilities.

    The first token has no log-probability, since nothing precedes it. llama.cpp accepts the request to repeat the
    prompt, but answers with one written token instead.
    """
    choice = _choice(document)
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return None
    texts, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if not isinstance(texts, list) or not isinstance(values, list) or len(texts) != len(values):
        return None
    # Tokens after the prompt's were written. The count of written tokens may differ from the number of listed ones:
    # vLLM writes one token even if none is requested, counts it and leaves it out.
    length = tokens_used(document).prompt
    if length is None or not 1 <= length <= len(texts) or _logprob(values[0]) is not None:
        return None
    return [Token(str(text), _logprob(value)) for text, value in zip(texts[:length], values[:length], strict=True)]


def continuation_logprobs(prompt: Sequence[Token], wholes: Sequence[Sequence[Token]]) -> list[float]:
    """Return the log-probability of each continuation, summed over its tokens.

    prompt: tokens of the prompt alone. wholes: tokens of the prompt with each continuation. As in the local engine, all
    continuations follow the common tokens of prompt and wholes; tokens are compared by their texts. Raises EngineError
    if a continuation adds no token, or if one of its tokens has no log-probability.
    """
    length = 0
    for tokens in zip(prompt, *wholes, strict=False):
        if len({token.text for token in tokens}) > 1:
            break
        length += 1
    sums = []
    for full_tokens in wholes:
        own = [token.logprob for token in full_tokens[length:]]
        if length == 0 or not own or None in own:
            raise EngineError(
                "the server gives a continuation no token, or no log-probability, of its own after the prompt; use a "
                "protocol with other options"
            )
        sums.append(min(0.0, math.fsum(value for value in own if value is not None)))
    return sums


def read_listed_ids(document: Mapping[str, Any], wanted: Sequence[int], prompt: int | None = None) -> dict[int, float]:
    """Return the log-probabilities of the wanted tokens by token id, whatever the order of the list.

    prompt: the place of the prompt in the request. Raises MissingTokenError if a wanted token is not listed.
    """
    logprobs = _choice(document, prompt).get("logprobs")
    tops = logprobs.get("top_logprobs") if isinstance(logprobs, dict) else None
    first = tops[0] if isinstance(tops, list) and tops and isinstance(tops[0], dict) else {}
    return _pick_wanted({name: _logprob(value) for name, value in first.items()}, _NUMBERED, wanted)


def read_echoed_ids(document: Mapping[str, Any], wanted: Sequence[int]) -> list[float]:
    """Return the log-probabilities of the wanted tokens at the end of the repeated prompt.

    Raises MissingTokenError if the prompt ends with other tokens, or a token has no log-probability.
    """
    logprobs = _choice(document).get("logprobs")
    logprobs = logprobs if isinstance(logprobs, dict) else {}
    names, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    length = tokens_used(document).prompt
    if not isinstance(names, list) or not isinstance(values, list) or length is None:
        raise MissingTokenError("the server does not repeat the prompt with its log-probabilities")
    pairs = list(zip(names, values, strict=False))[:length]  # later tokens were written
    return _ending([(_number(name), value) for name, value in pairs], wanted)


def read_generated_token_ids(document: Mapping[str, Any], wanted: Sequence[int]) -> dict[int, float]:
    """Return the result of `read_listed_ids` for an answer of SGLang's own route."""
    steps = _meta(document).get("output_token_ids_logprobs")
    first = steps[0] if isinstance(steps, list) and steps else None
    return _pick_wanted({f"{number}": _logprob(value) for number, value in _triples(first)}, "", wanted)


def read_generated_input_ids(document: Mapping[str, Any], wanted: Sequence[int]) -> list[float]:
    """Return the result of `read_echoed_ids` for an answer of SGLang's own route."""
    return _ending(_triples(_meta(document).get("input_token_logprobs")), wanted)


def _meta(document: Mapping[str, Any]) -> dict[str, Any]:
    meta = document.get("meta_info")
    return meta if isinstance(meta, dict) else {}


def _triples(listed: Any) -> list[tuple[Any, Any]]:
    """Return (number, log-probability) of each entry [log-probability, number, text]."""
    entries = listed if isinstance(listed, list) else []
    return [(entry[1], entry[0]) for entry in entries if isinstance(entry, list) and len(entry) > 1]


def _pick_wanted(found: Mapping[str, float | None], prefix: str, wanted: Sequence[int]) -> dict[int, float]:
    read = {token: found.get(f"{prefix}{token}") for token in wanted}
    missing = [token for token, value in read.items() if value is None]
    if missing:
        raise MissingTokenError(
            f"the server leaves out the tokens {missing}, which it was asked for by number; check whether it was "
            "changed, then retry"
        )
    return {token: value for token, value in read.items() if value is not None}


def _ending(pairs: Sequence[tuple[Any, Any]], wanted: Sequence[int]) -> list[float]:
    own = pairs[-len(wanted) :]
    values = [_logprob(value) for _, value in own]
    if [number for number, _ in own] != list(wanted) or None in values:
        raise MissingTokenError(
            f"the server does not repeat the tokens {list(wanted)} with which a prompt ends; check whether it was "
            "changed, then retry"
        )
    return [value for value in values if value is not None]


def _number(name: Any) -> int | None:
    """Return the number in "token_id:330"; None if a server names tokens by their texts."""
    digits = name.removeprefix(_NUMBERED) if isinstance(name, str) and name.startswith(_NUMBERED) else ""
    return int(digits) if digits.isascii() and digits.isdecimal() else None


def ids_of_tokenizer(document: Mapping[str, Any]) -> list[int]:
    """Return the token ids of a text from a server's tokenizer. Raises MissingTokenError if there are none."""
    return _ids(document.get("tokens"))


def ids_of_prompt(document: Mapping[str, Any]) -> list[int]:
    """Return the token ids of a prompt from a completion. Raises MissingTokenError if there are none."""
    return _ids(_choice(document).get("prompt_token_ids"))


def _ids(listed: Any) -> list[int]:
    ids = [token for token in listed or [] if _count(token) is not None] if isinstance(listed, list) else []
    if not ids or len(ids) != len(listed):
        raise MissingTokenError("the server does not say into which tokens it cuts a text")
    return ids


@dataclass(frozen=True)
class Usage:
    """Numbers of tokens as the server counts them, None if it does not.

    cached: prompt tokens that were not computed again.
    """

    prompt: int | None
    written: int | None
    cached: int


def tokens_used(document: Mapping[str, Any]) -> Usage:
    """Return the `usage` of an answer, or the counts that SGLang's own route returns instead."""
    usage = document.get("usage")
    usage = usage if isinstance(usage, dict) else _meta(document)
    details = usage.get("prompt_tokens_details")
    cached = _count((details if isinstance(details, dict) else usage).get("cached_tokens"))
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), cached or 0)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _choice(document: Mapping[str, Any], prompt: int | None = None) -> dict[str, Any]:
    choices = document.get("choices")
    if prompt is not None and isinstance(choices, list):
        choices = [choice for choice in choices if isinstance(choice, dict) and choice.get("index") == prompt]
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise EngineError("the server's answer has no choices; check that the URL is that of a completions API")
    return choices[0]

"""Reading what servers answer: most probable tokens, tokens of a whole prompt, written texts.

Two forms of log-probabilities are in use. The older, of OpenAI's completions, vLLM and SGLang:

    {"tokens": [" A"], "token_logprobs": [-0.4], "top_logprobs": [{" A": -0.4, " B": -1.9}]}

and that of OpenAI's chat, which llama.cpp uses everywhere:

    {"content": [{"token": " A", "logprob": -0.4, "top_logprobs": [{"token": " A", "logprob": -0.4}, …]}]}
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workers.errors import EngineError

_LOWEST: Final = -1e6
_ROUNDING: Final = 1e-3
"""Log-probabilities above this are invalid, and below the other unusable."""
_BLANKS: Final = ("Ġ", "▁")
"""How byte-level and SentencePiece vocabularies write a leading space; some servers show tokens in that form."""


@dataclass(frozen=True)
class Token:
    """A token's text and its log-probability (nats, at most 0; None where the server gives none)."""

    text: str
    logprob: float | None


def top_tokens(document: Mapping[str, Any]) -> list[Token]:
    """The most probable first tokens of a completion, those without a log-probability left out.

    Raises EngineError when there are none.
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
    known = [token for token in tokens if token.logprob is not None]
    if not known:
        raise EngineError(
            "the server gives no log-probabilities of the most probable tokens; use a server that does (vLLM, SGLang, "
            "llama.cpp) or a protocol that reads text"
        )
    if all(token.text.startswith("token_id:") for token in known):
        raise EngineError(
            "the server names tokens by number, not by text; start it without --return-tokens-as-token-ids"
        )
    return known


def _entries(first: Any) -> list[dict[str, Any]]:
    listed = first.get("top_logprobs") if isinstance(first, dict) else None
    return [entry for entry in listed or [] if isinstance(entry, dict) and "logprob" in entry]


def _text(entry: Mapping[str, Any]) -> Any:
    """A token's text; from its bytes where these are given and are text, since they are what the token is."""
    try:
        return bytes(entry["bytes"]).decode() or entry.get("token")
    except (KeyError, TypeError, ValueError):
        return entry.get("token")


def _with_blank(text: str) -> str:
    return " " + text[1:] if text.startswith(_BLANKS) else text


def _logprob(value: Any) -> float | None:
    """A finite number, at most 0 but for rounding; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LOWEST <= value <= _ROUNDING:
        return None
    return min(0.0, float(value))


def drops_blanks(tokens: Sequence[Token]) -> bool:
    """Whether a server shows tokens without their leading space, judged by what may follow a word.

    Most likely continuations of an unfinished sentence begin with a space, so none does only if the server drops
    them.
    """
    return not any(token.text.startswith(" ") for token in tokens)


def label_logprobs(
    tokens: Sequence[Token], continuations: Sequence[str], *, without_blanks: bool = False
) -> list[float | None]:
    """The log-probability of each label: that of the token whose text is the label's continuation, " A" and not "A".

    continuations: by position. None where no token has that text: it is unknown, not zero.
    without_blanks: the server drops leading blanks, so the continuations are compared without theirs. "A" then also
    stands for " A", and of two tokens that are shown alike the more probable one counts.
    """
    best: dict[str, float] = {}
    for token in tokens:
        if token.logprob is not None:
            best[token.text] = max(token.logprob, best.get(token.text, -math.inf))
    return [best.get(text.lstrip(" ") if without_blanks else text) for text in continuations]


def echoed_tokens(document: Mapping[str, Any]) -> list[Token] | None:
    """The tokens of the prompt itself, in order; None where a server does not repeat them with log-probabilities.

    The first has no log-probability, since nothing precedes it. llama.cpp takes the request to repeat the prompt,
    and answers with one written token instead.
    """
    choice = _choice(document)
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, dict):
        return None
    texts, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if not isinstance(texts, list) or not isinstance(values, list) or len(texts) != len(values):
        return None
    # What follows the prompt's tokens was written. The count of written tokens does not say how many are listed: vLLM,
    # asked to write none, writes one all the same, counts it and leaves it out.
    length = tokens_used(document).prompt
    if length is None or not 1 <= length <= len(texts) or _logprob(values[0]) is not None:
        return None
    return [Token(str(text), _logprob(value)) for text, value in zip(texts[:length], values[:length], strict=True)]


def continuation_logprobs(prompt: Sequence[Token], wholes: Sequence[Sequence[Token]]) -> list[float]:
    """The log-probability of each continuation, summed over its tokens.

    prompt: tokens of the prompt alone. wholes: of the prompt with each continuation. As in the local engine, all
    continuations follow the tokens that prompt and wholes have in common; tokens are compared by their texts.
    Raises EngineError when a continuation has no token of its own, or one without a log-probability.
    """
    length = 0
    for tokens in zip(prompt, *wholes, strict=False):
        if len({token.text for token in tokens}) > 1:
            break
        length += 1
    sums = []
    for whole in wholes:
        own = [token.logprob for token in whole[length:]]
        if length == 0 or not own or None in own:
            raise EngineError(
                "the server gives a continuation no token, or no log-probability, of its own after the prompt; use a "
                "protocol with other options"
            )
        sums.append(min(0.0, math.fsum(value for value in own if value is not None)))
    return sums


@dataclass(frozen=True)
class Usage:
    """Tokens as a server counts them; None where it does not. cached: of the prompt's, those not computed again."""

    prompt: int | None
    written: int | None
    cached: int


def tokens_used(document: Mapping[str, Any]) -> Usage:
    """The `usage` of an answer."""
    usage = document.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), cached or 0)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def written_text(document: Mapping[str, Any]) -> tuple[str, bool]:
    """What a model wrote, as text or as a message, and whether it ended by itself and not at the limit of tokens."""
    choice = _choice(document)
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if text is None and isinstance(message, dict):
        text = ""  # nothing but a chain of thought, which is not part of the answer
    if not isinstance(text, str):
        raise EngineError("the server's answer has no text; check that the URL is that of a completions API")
    return text, choice.get("finish_reason") == "stop"


def _choice(document: Mapping[str, Any]) -> dict[str, Any]:
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise EngineError("the server's answer has no choices; check that the URL is that of a completions API")
    return choices[0]

"""The request for one prompt, the values stored of its answer, and the retries of requests."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry.providers import calls
from registry.providers.prices import Price
from registry.revisions.endpoints import Endpoint
from registry.settings import Settings
from workers.endpoint.client import FIRST_WAIT_SECONDS, REASON_LENGTH
from workers.endpoint.pacing import retry_after
from workers.errors import EngineError, PermanentError
from workers.providers.answers import Answer, RefusedRequestError, Wanted

TOO_MANY: Final = 429
_WRONG_KEY: Final = frozenset({401, 403})
_TIMED_OUT: Final = 408
_TRY_AGAIN: Final = frozenset({_TIMED_OUT, 409, 425, TOO_MANY})
_SERVER_ERRORS: Final = 500
_DRAWN: Final = random.Random()  # noqa: S311 - waits are no secret
"""Draws the waits, so that workers that were refused together return one after the other."""


@dataclass(frozen=True)
class Asked:
    """One prompt of a shard. price: for a batch or a single request, as it is sent."""

    journal: calls.Journal
    key: calls.Key
    messages: list[dict[str, str]]
    wanted: Wanted
    price: Price | None

    @property
    def text(self) -> str:
        """Return the text of all turns."""
        return "".join(turn["content"] for turn in self.messages)

    @property
    def most(self) -> float | None:
        """Return the highest possible cost of the answer; None if the model has no price."""
        return None if self.price is None else self.price.at_most(self.text, self.wanted.most_tokens)


def values_of(answer: Answer, price: Price | None) -> Mapping[str, Any]:
    """Return the values for `calls.answered`."""
    cost = answer.cost
    if cost is None and price is not None and answer.written_tokens is not None:
        cost = price.of(answer.prompt_tokens or 0, answer.cached_tokens or 0, answer.written_tokens)
    return {
        # PostgreSQL's text cannot contain NUL.
        "text": answer.text.replace("\x00", "\N{REPLACEMENT CHARACTER}"),
        "reasoning": None
        if answer.reasoning is None
        else answer.reasoning.replace("\x00", "\N{REPLACEMENT CHARACTER}"),
        "outcome": answer.outcome,
        "stop_reason": _cut_name(answer.stop_reason),
        "served_model": _cut_name(answer.served_model),
        "system_fingerprint": _cut_name(answer.system_fingerprint),
        "prompt_tokens": answer.prompt_tokens,
        "cached_tokens": answer.cached_tokens,
        "written_tokens": answer.written_tokens,
        "reasoning_tokens": answer.reasoning_tokens,
        "cost": cost,
    }


def _cut_name(value: str | None) -> str | None:
    """Return a provider's name for something, truncated; None if it is empty."""
    return None if value is None else value.replace("\x00", "")[:REASON_LENGTH] or None


class Attempts:
    """Retries of requests to an endpoint, and the error after the last attempt."""

    def __init__(self, endpoint: Endpoint, host: str, key: str | None, settings: Settings) -> None:
        self._endpoint = endpoint
        self._host = host
        self._key = key
        self._most = settings.endpoint_attempts
        self._longest_s = settings.endpoint_wait_seconds

    def wait_s(self, error: RefusedRequestError, attempt: int) -> float:
        """Return the seconds to wait before the next attempt. Raises EngineError after the last one.

        attempt: number of attempts so far.
        """
        asks_s = retry_after(error.headers)
        may_pass = error.status is None or error.status in _TRY_AGAIN or error.status >= _SERVER_ERRORS
        # OpenAI and Anthropic may state whether to retry, such as for a key without credit.
        may_pass = {"true": True, "false": False}.get(error.headers.get("x-should-retry", ""), may_pass)
        if attempt >= self._most or not may_pass or (asks_s or 0.0) > self._longest_s:
            failure = EngineError if may_pass else PermanentError
            raise failure(self._reason(error, attempt, asks_s)) from None
        return _DRAWN.uniform(0, min(self._longest_s, FIRST_WAIT_SECONDS * 2**attempt)) if asks_s is None else asks_s

    def _reason(self, error: RefusedRequestError, attempts: int, asks_s: float | None) -> str:
        status = "" if error.status is None else f"answers {error.status}: "
        asks = "" if asks_s is None else f", and asks to wait {asks_s:.0f} s"
        tried = f"; tried {attempts} times" if attempts > 1 else ""
        if error.status in _WRONG_KEY:
            tried = f"; check the key of endpoint {self._endpoint.name}"
        return f"{self._host}: {status}{self.clean(str(error))}{asks}{tried}"

    def clean(self, text: str) -> str:
        """Return a provider's text on one line, cut short, without the key."""
        line = " ".join(text.replace(self._key, "[key]").split() if self._key else text.split())
        shown = "".join(character for character in line if character.isprintable())
        return shown if len(shown) <= REASON_LENGTH else shown[:REASON_LENGTH] + "…"


def may_have_arrived(error: RefusedRequestError) -> bool:
    """Return whether the provider may have executed a request that has no answer."""
    return error.status is None or error.status == _TIMED_OUT or error.status >= _SERVER_ERRORS

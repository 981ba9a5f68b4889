"""The wait of an endpoint client before a request, and the limits in a server's headers.

The pace itself is stored elsewhere, since all workers with a key share it.
"""

import math
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

CHARACTERS_PER_TOKEN: Final = 3
"""Characters per token, fewer than in most texts, so that a request reserves more tokens than it needs."""
LONGEST_HOLD_SECONDS: Final = 60.0
"""Longest wait for a limit, since limits are per minute. A server that needs more sends Retry-After."""
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_REMAINING: Final = re.compile(r"(.*ratelimit.*?)-?remaining(.*)")


class Pace(Protocol):
    """The limits of one key."""

    def turn(self, tokens: int, pause: Callable[[float], None]) -> None:
        """Wait with `pause`, which may raise, until a request of this many tokens may begin."""
        ...

    def done(self, reserved: int, used: int | None, headers: Mapping[str, str]) -> None:
        """Record an answer: the tokens that it used, and the limits in its headers."""
        ...

    def hold(self, seconds: float) -> None:
        """Delay all requests by the time that the server requires."""
        ...


class NoPace:
    """No limits."""

    def turn(self, tokens: int, pause: Callable[[float], None]) -> None:
        """Do nothing: the request may begin now."""

    def done(self, reserved: int, used: int | None, headers: Mapping[str, str]) -> None:
        """Do nothing: there is nothing to record."""

    def hold(self, seconds: float) -> None:
        """Do nothing: the client that received the answer waits by itself."""


def seconds_of(retry_after: str) -> float | None:
    """Return the seconds of a Retry-After header, a number or a date; None for anything else."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        until = parsedate_to_datetime(retry_after).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, until - time.time())


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait in seconds in retry-after-ms (OpenAI, Azure) or Retry-After; None without either."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after")
    return None if header is None else seconds_of(header)


def seconds_exhausted(headers: Mapping[str, str]) -> float:
    """Return the seconds until an exhausted limit is renewed; 0 if none is exhausted.

    headers: names in lower case. Reads OpenAI's `x-ratelimit-remaining-requests` and `x-ratelimit-reset-requests`,
    Anthropic's `anthropic-ratelimit-requests-remaining` and `-reset`, and `ratelimit-remaining` and `-reset` of others.
    """
    waits = [0.0]
    for name, value in headers.items():
        match = _REMAINING.fullmatch(name)
        if match is not None and _number(value) == 0:
            before, after = match.groups()
            waits.append(_parse_reset(headers.get(f"{before}-reset{after}", "")) or 0.0)
    return min(max(waits), LONGEST_HOLD_SECONDS)


def read_limits(headers: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the limits (requests, tokens) per minute in OpenAI's or Anthropic's headers; None for a missing one."""
    return (
        _limit(headers, "x-ratelimit-limit-requests", "anthropic-ratelimit-requests-limit"),
        _limit(headers, "x-ratelimit-limit-tokens", "anthropic-ratelimit-tokens-limit"),
    )


def _limit(headers: Mapping[str, str], *names: str) -> int | None:
    numbers = (_number(headers.get(name)) for name in names)
    return next((int(value) for value in numbers if value is not None and value >= 1), None)


def _parse_reset(reset: str) -> float | None:
    """Return the seconds until a limit is reset. reset: such as 12, 6m0s, 20ms, or a time."""
    number = _number(reset)
    if number is not None:
        now = time.time()
        # Seconds, or a time in seconds or milliseconds since 1970.
        return max(0.0, number / 1000 - now if number > 1e11 else number - now if number > 1e9 else number)
    duration = _DURATION.fullmatch(reset)
    if duration is not None and reset:
        hours, minutes, seconds, milliseconds = (float(part or 0) for part in duration.groups())
        return 3600 * hours + 60 * minutes + seconds + milliseconds / 1000
    try:
        at = datetime.fromisoformat(reset)
    except ValueError:
        return None
    return None if at.tzinfo is None else max(0.0, at.timestamp() - time.time())


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None

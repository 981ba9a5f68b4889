"""The texts that a model writes, whichever engine runs it, and the log of their progress."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from registry.process_log import log
from registry.prompting.thoughts import Output

ShouldStop = Callable[[], bool]

LOG_SECONDS: Final = 30.0
"""Seconds between two log lines about a model's writing speed."""


@dataclass(frozen=True)
class Written:
    """A model's text for a prompt.

    tokens: of thought and answer. thought_tokens: of the thought, with the marker that ends it; 0 without a thought.
    seconds: from the request to the last token. Each is None if unknown.
    """

    output: Output
    tokens: int | None = None
    thought_tokens: int | None = None
    seconds: float | None = None


Keep = Callable[[int, Written], None]
"""Receives the text of a prompt, by its place, as soon as it is written."""


def forget(_place: int, _written: Written) -> None:
    """Do nothing: the text is not stored."""


class WritingSpeed:
    """Logs at intervals how fast texts are written and how long the rest will take."""

    def __init__(self, texts: int, most_tokens: int) -> None:
        self._texts, self._most = texts, most_tokens
        self._ended, self._of_ended, self._tokens = 0, 0, 0
        self._began = self._logged = time.monotonic()

    def step(self, tokens: int) -> None:
        """Add to the number of written tokens, and log the progress at intervals."""
        self._tokens += tokens
        now = time.monotonic()
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            log.info("writing", **self.document(now - self._began))

    def ended(self, tokens: int) -> float:
        """Record the end of a text of this many tokens; return the seconds since the first text began."""
        self._ended += 1
        self._of_ended += tokens
        return time.monotonic() - self._began

    def document(self, seconds: float) -> dict[str, float | int]:
        """Return the number of texts, the speed and the seconds left: at most, and estimated from ended texts.

        Short texts end first, so the estimate rises while the long texts are written.
        """
        speed = self._tokens / max(seconds, 1e-9)
        left = self._texts - self._ended
        going_on = self._tokens - self._of_ended
        document: dict[str, float | int] = {
            "ended": self._ended,
            "texts": self._texts,
            "tokens_per_s": round(speed, 1),
            "seconds_left_at_most": round((left * self._most - going_on) / max(speed, 1e-9)),
        }
        if self._ended:
            about = max(0.0, left * self._of_ended / self._ended - going_on)
            document["seconds_left"] = round(about / max(speed, 1e-9))
        return document

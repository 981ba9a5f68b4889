"""A protocol's settings of thoughts. A key with its default is left out, so that digests stay the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

THINKING: Final = ("default", "on", "off")
"""Whether a model should think; `default` leaves it to the model's template or provider."""
EFFORTS: Final = ("low", "medium", "high")
"""Amounts of thinking in words; a number of tokens may replace a word."""
AT_LIMIT: Final = ("stop", "answer")
"""Effect of a thought's limit: it is cut off, or closed so that the answer follows."""
READINGS: Final = ("apart", "in-text")
"""Whether rules are applied to the answer alone, or to the whole output as papers did."""


@dataclass(frozen=True)
class Thinking:
    """The settings of thinking in a protocol's generation.

    effort: `low`, `medium`, `high`, or a number of tokens; None: not set. max_thought_tokens: of the thought alone,
    below `max_tokens`, which bounds thought and answer together; None: only `max_tokens` bounds it.
    """

    thinking: str = "default"
    effort: str | int | None = None
    max_thought_tokens: int | None = None
    at_limit: str = "stop"

    @property
    def asked(self) -> bool:
        """Return whether anything differs from the defaults, so that it must be honoured or refused."""
        return self != Thinking()


def thinking_of(generation: Mapping[str, Any]) -> Thinking:
    """Return the settings in a definition's table `generation`."""
    return Thinking(
        generation.get("thinking", "default"),
        generation.get("effort"),
        generation.get("max_thought_tokens"),
        generation.get("at_limit", "stop"),
    )


def reads_apart(definition: Mapping[str, Any]) -> bool:
    """Return whether the rules of a protocol are applied to the answer alone."""
    return bool(definition.get("thoughts", "apart") == "apart")

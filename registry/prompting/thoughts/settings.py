"""A protocol's settings for thoughts. Defaults are left out of definitions, so that digests stay the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

THINKING: Final = ("default", "on", "off")
"""Whether a model should think; `default` leaves it to the model's template or provider."""
EFFORTS: Final = ("low", "medium", "high")
"""Efforts of thinking in words; a number of tokens can be given instead."""
AT_LIMIT: Final = ("stop", "answer")
"""The effect of a thought's limit: output stops, or the thought is closed so that the answer follows."""
READINGS: Final = ("apart", "in-text")
"""Whether rules are applied to the answer without its thought, or to the complete output, as in papers."""


@dataclass(frozen=True)
class Thinking:
    """The settings for thinking in a protocol's generation.

    effort: `low`, `medium`, `high`, or a number of tokens; None if not set. max_thought_tokens: limit for the thought,
    below `max_tokens`, which limits thought and answer together; None for no separate limit.
    """

    thinking: str = "default"
    effort: str | int | None = None
    max_thought_tokens: int | None = None
    at_limit: str = "stop"

    @property
    def asked(self) -> bool:
        """Return whether anything differs from the defaults, so that an engine must support it or refuse."""
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
    """Return whether a protocol's rules are applied to the answer without its thought."""
    return bool(definition.get("thoughts", "apart") == "apart")

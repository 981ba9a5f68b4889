"""What a protocol sets about thoughts. A key that has its default is left out, so that digests stay as they were."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

THINKING: Final = ("default", "on", "off")
"""Whether a model is asked to think; `default` leaves it to the model's template or provider."""
EFFORTS: Final = ("low", "medium", "high")
"""How much it is asked to think; a number of tokens may stand in place of a word."""
AT_LIMIT: Final = ("stop", "answer")
"""What happens to a thought that reaches its limit: it is cut off, or closed so that the answer is asked for."""
READINGS: Final = ("apart", "in-text")
"""Whether rules are applied to the answer alone, or to the whole output as papers did."""


@dataclass(frozen=True)
class Thinking:
    """The settings of a protocol's generation that say how a model thinks.

    effort: `low`, `medium`, `high`, or a number of tokens; None: not set. max_thought_tokens: of the thought alone,
    below `max_tokens`, which bounds thought and answer together; None: only `max_tokens` bounds it.
    """

    thinking: str = "default"
    effort: str | int | None = None
    max_thought_tokens: int | None = None
    at_limit: str = "stop"

    @property
    def asked(self) -> bool:
        """Whether anything differs from the defaults, so that it must be honoured or refused."""
        return self != Thinking()


def thinking_of(generation: Mapping[str, Any]) -> Thinking:
    """The settings of a definition's table `generation`."""
    return Thinking(
        generation.get("thinking", "default"),
        generation.get("effort"),
        generation.get("max_thought_tokens"),
        generation.get("at_limit", "stop"),
    )


def reads_apart(definition: Mapping[str, Any]) -> bool:
    """Whether the rules of a protocol are applied to the answer alone."""
    return bool(definition.get("thoughts", "apart") == "apart")

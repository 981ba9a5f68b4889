"""Anthropic's messages, through its library."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import anthropic
import httpx2

from workers.providers.answers import MOST_STOPS, Answer, Outcome, Wanted, count, turns_of

_OUTCOMES: Final[dict[str | None, Outcome]] = {
    "end_turn": "complete",
    "stop_sequence": "complete",
    "refusal": "refused",
}
_BAD_REQUEST: Final = 400


class AnthropicApi:
    """Messages."""

    def __init__(self, location: str, key: str | None, http: httpx2.Client) -> None:
        self.library = f"anthropic {version('anthropic')}"
        # Without a key the library would look for one in the environment; the connection sends none that is not ours.
        self._client = anthropic.Anthropic(api_key=key or "none", base_url=location, max_retries=0, http_client=http)
        self._timeout = http.timeout

    def parameters(self, wanted: Wanted) -> dict[str, Any]:
        """The library knows no temperature any more; older models take it, and one of it and top_p only.

        Stop sequences need a visible character.
        """
        parameters: dict[str, Any] = {"max_tokens": wanted.most_tokens}
        stop = [one for one in wanted.stop if one.strip()][:MOST_STOPS]
        if stop:
            parameters["stop_sequences"] = stop
        if wanted.reasoning_tokens is not None:
            return parameters | {"thinking": {"type": "enabled", "budget_tokens": wanted.reasoning_tokens}}
        return parameters | {"extra_body": {"temperature": min(1.0, wanted.temperature)}}

    def ask(self, model: str, messages: Sequence[Mapping[str, str]], wanted: Wanted) -> Answer:
        """The blocks of text, joined; blocks of thinking are left out."""
        turns = turns_of(messages)
        asked: dict[str, Any] = {"model": model, "messages": turns.others, **self.parameters(wanted)}
        if turns.system:
            asked["system"] = turns.system
        # With a timeout the library does not refuse answers that may take longer than ten minutes.
        found: Any = self._client.messages.create(**asked, timeout=self._timeout)
        usage = found.usage
        cached = count(usage.cache_read_input_tokens)
        return Answer(
            text="".join(block.text for block in found.content if block.type == "text"),
            outcome=_OUTCOMES.get(found.stop_reason, "cut-off"),
            stop_reason=found.stop_reason,
            served_model=found.model,
            prompt_tokens=usage.input_tokens + cached + count(usage.cache_creation_input_tokens),
            cached_tokens=cached,
            written_tokens=usage.output_tokens,
        )

    def is_filtered(self, status: int | None, document: Any) -> bool:
        """Whether a refused request was refused for its content, which Anthropic says in words."""
        return status == _BAD_REQUEST and "content filtering" in str(document)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

"""Google's Gemini API, through its library."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import httpx2
from google import genai
from google.genai import types

from workers.providers.answers import MOST_STOPS, Answer, Outcome, Wanted, asking, count, turns_of

_OUTCOMES: Final[dict[str | None, Outcome]] = {
    "STOP": "complete",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "ESCALATION"), "filtered"
    ),
}
_API_VERSION: Final = "v1beta"


class GoogleApi:
    """generateContent."""

    def __init__(self, location: str, key: str | None, http: httpx2.Client) -> None:
        self.library = f"google-genai {version('google-genai')}"
        self._http = http
        self._client = genai.Client(
            vertexai=False,
            api_key=key or "none",
            http_options=types.HttpOptions(
                base_url=location,
                api_version=_API_VERSION,
                httpx_client=http,
                retry_options=types.HttpRetryOptions(attempts=1),
            ),
        )

    def parameters(self, wanted: Wanted) -> dict[str, Any]:
        """The fields of a configuration."""
        parameters: dict[str, Any] = {"max_output_tokens": wanted.most_tokens, "seed": wanted.seed}
        if wanted.stop:
            parameters["stop_sequences"] = list(wanted.stop[:MOST_STOPS])
        if wanted.reasoning_tokens is not None:
            thinking = {"thinking_budget": wanted.reasoning_tokens, "include_thoughts": True}
            return parameters | {"thinking_config": thinking}
        if wanted.off:
            parameters["thinking_config"] = {"thinking_budget": 0}
        parameters |= {"temperature": wanted.temperature, "top_p": wanted.top_p, "top_k": wanted.top_k}
        return {name: value for name, value in parameters.items() if value is not None}

    @asking()
    def ask(self, model: str, messages: Sequence[Mapping[str, str]], wanted: Wanted) -> Answer:
        """The first candidate; where the prompt was blocked there is none."""
        turns = turns_of(messages)
        contents: Any = [
            {"role": "model" if turn["role"] == "assistant" else "user", "parts": [{"text": turn["content"]}]}
            for turn in turns.others
        ]
        configuration = self.parameters(wanted)
        if turns.system:
            configuration["system_instruction"] = turns.system
        found = self._client.models.generate_content(
            model=model,
            contents=contents,
            config=types.GenerateContentConfig(
                **configuration, automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
            ),
        )
        usage = found.usage_metadata
        # Unlike others, Google counts what is thought beside what is shown, and charges both alike.
        thought = count(usage.thoughts_token_count) if usage else 0
        text, reasoning, outcome, reason = _answered(found)
        return Answer(
            text=text,
            outcome=outcome,
            stop_reason=reason,
            served_model=found.model_version,
            prompt_tokens=usage.prompt_token_count if usage else None,
            cached_tokens=count(usage.cached_content_token_count) if usage else None,
            written_tokens=count(usage.candidates_token_count) + thought if usage else None,
            reasoning_tokens=thought if usage else None,
            reasoning=reasoning or None,
        )

    def is_filtered(self, status: int | None, document: Any) -> bool:  # noqa: ARG002
        """Never: Gemini says so in an answer."""
        return False

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()


def _answered(found: types.GenerateContentResponse) -> tuple[str, str, Outcome, str | None]:
    if not found.candidates:
        blocked = found.prompt_feedback.block_reason if found.prompt_feedback else None
        if blocked is None:
            message = "no candidate"
            raise ValueError(message)
        return "", "", "filtered", blocked.value
    first = found.candidates[0]
    parts = (first.content.parts if first.content else None) or []
    if first.finish_reason is None:
        message = "an answer that has not ended"
        raise ValueError(message)
    reason = first.finish_reason.value
    text = "".join(part.text for part in parts if part.text and not part.thought)
    thought = "".join(part.text for part in parts if part.text and part.thought)
    return text, thought, _OUTCOMES.get(reason, "cut-off"), reason

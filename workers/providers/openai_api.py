"""OpenAI, Azure OpenAI's `/openai/v1` and OpenRouter, through OpenAI's library."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import httpx2
import openai

from workers.providers.answers import MOST_STOPS, Answer, Outcome, RefusedRequestError, Wanted, count

_OUTCOMES: Final[dict[str | None, Outcome]] = {"stop": "complete", "content_filter": "filtered"}
_FILTERS: Final = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")
_FORBIDDEN: Final = 403


class OpenAIApi:
    """Chat completions."""

    def __init__(self, provider: str, location: str, key: str | None, http: httpx2.Client) -> None:
        self.library = f"openai {version('openai')}"
        self._provider = provider
        # Without a key the library would look for one in the environment; the connection sends none that is not ours.
        self._client = openai.OpenAI(api_key=key or "none", base_url=location, max_retries=0, http_client=http)

    def parameters(self, wanted: Wanted) -> dict[str, Any]:
        """Reasoning models take none of the sampling parameters and no stop sequences."""
        limit = "max_tokens" if self._provider == "openrouter" else "max_completion_tokens"
        parameters: dict[str, Any] = {limit: wanted.most_tokens}
        if wanted.reasoning_tokens is not None:
            if self._provider == "openrouter":
                parameters["extra_body"] = {"reasoning": {"max_tokens": wanted.reasoning_tokens}}
            return parameters
        parameters |= {"temperature": wanted.temperature, "seed": wanted.seed}
        if wanted.top_p is not None:
            parameters["top_p"] = wanted.top_p
        if wanted.stop:
            parameters["stop"] = list(wanted.stop[:MOST_STOPS])
        if wanted.top_k is not None and self._provider == "openrouter":
            parameters["extra_body"] = {"top_k": wanted.top_k}
        return parameters

    def ask(self, model: str, messages: Sequence[Mapping[str, str]], wanted: Wanted) -> Answer:
        """The first choice."""
        conversation: Any = list(messages)
        found = self._client.chat.completions.create(model=model, messages=conversation, **self.parameters(wanted))
        said = found.model_extra or {}
        if not found.choices:
            raise RefusedRequestError(f"answers without a choice ({said.get('error')})")
        choice = found.choices[0]
        usage = found.usage
        prompt, written = (usage.prompt_tokens_details, usage.completion_tokens_details) if usage else (None, None)
        reason: str | None = (choice.model_extra or {}).get("native_finish_reason") or choice.finish_reason
        refusal = choice.message.refusal
        outcome: Outcome = "refused" if refusal else _OUTCOMES.get(choice.finish_reason, "cut-off")
        return Answer(
            text=refusal or choice.message.content or "",
            outcome=outcome,
            stop_reason=reason,
            served_model=found.model,
            system_fingerprint=found.system_fingerprint,
            prompt_tokens=usage.prompt_tokens if usage else None,
            cached_tokens=count(prompt.cached_tokens) if prompt else None,
            written_tokens=usage.completion_tokens if usage else None,
            reasoning_tokens=count(written.reasoning_tokens) if written else None,
            cost=_stated_cost(usage),
        )

    def is_filtered(self, status: int | None, document: Any) -> bool:
        """Whether a request was refused for its content: by Azure's or OpenAI's code, or OpenRouter's moderation."""
        error = document.get("error") if isinstance(document, Mapping) else None
        if not isinstance(error, Mapping):
            return False
        inner = error.get("innererror")
        codes = {error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, Mapping) else None}
        metadata = error.get("metadata")
        moderated = status == _FORBIDDEN and isinstance(metadata, Mapping) and "flagged_input" in metadata
        return moderated or not codes.isdisjoint(_FILTERS)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()


def _stated_cost(usage: Any) -> float | None:
    """OpenRouter says what an answer cost."""
    cost = (usage.model_extra or {}).get("cost") if usage else None
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None

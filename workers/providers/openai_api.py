"""OpenAI, Azure OpenAI's `/openai/v1` and OpenRouter, through OpenAI's library."""

import json
from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

import httpx2
import openai
from openai.types.chat import ChatCompletion

from workers.providers.answers import (
    CLOCKS_DIFFER,
    MOST_STOPS,
    NOT_EXECUTED,
    Answer,
    BatchStatus,
    Conversation,
    Outcome,
    RefusedRequestError,
    Wanted,
    asking,
    count,
    lines_of,
    parse_result,
)
from workers.providers.transport import message_of

_OUTCOMES: Final[dict[str | None, Outcome]] = {"stop": "complete", "content_filter": "filtered"}
_FILTERS: Final = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")
_FORBIDDEN: Final = 403
_OK: Final = 200
_TAG: Final = "shuffleboard"
"""Key of the tag in the metadata of a batch."""
_FULL: Final = "token_limit_exceeded"
_ENDED: Final = ("completed", "failed", "expired", "cancelled")


class OpenAIApi:
    """Requests to OpenAI's chat completions."""

    def __init__(self, provider: str, location: str, key: str | None, http: httpx2.Client) -> None:
        self.library = f"openai {version('openai')}"
        self._provider = provider
        # Without a key the library would look for one in the environment; our transport removes every key that is not
        # ours.
        self._client = openai.OpenAI(api_key=key or "none", base_url=location, max_retries=0, http_client=http)

    def parameters(self, wanted: Wanted) -> dict[str, Any]:
        """Return the request's parameters. Reasoning models accept no sampling parameters and no stop sequences."""
        limit = "max_tokens" if self._provider == "openrouter" else "max_completion_tokens"
        parameters: dict[str, Any] = {limit: wanted.most_tokens}
        if wanted.reasoning_tokens is not None:
            if self._provider == "openrouter":
                how = {"effort": wanted.effort} if wanted.effort else {"max_tokens": wanted.reasoning_tokens}
                parameters["extra_body"] = {"reasoning": how}
            elif wanted.effort is not None:
                parameters["reasoning_effort"] = wanted.effort
            return parameters
        parameters |= {"temperature": wanted.temperature, "seed": wanted.seed}
        if wanted.top_p is not None:
            parameters["top_p"] = wanted.top_p
        if wanted.stop:
            parameters["stop"] = list(wanted.stop[:MOST_STOPS])
        if self._provider == "openrouter":
            more: dict[str, Any] = {"top_k": wanted.top_k} if wanted.top_k is not None else {}
            more |= {"reasoning": {"enabled": False}} if wanted.off else {}
            parameters |= {"extra_body": more} if more else {}
        return parameters

    @asking(openai.APIConnectionError)
    def ask(self, model: str, messages: Sequence[Mapping[str, str]], wanted: Wanted) -> Answer:
        """Return the model's answer: the first choice."""
        conversation: Any = list(messages)
        return _answer(
            self._client.chat.completions.create(model=model, messages=conversation, **self.parameters(wanted))
        )

    @asking(openai.APIConnectionError)
    def upload(self, model: str, requests: Mapping[str, Conversation]) -> Any:
        """Upload a file with one request per line; return its id."""
        lines = [
            {
                "custom_id": name,
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": {"model": model, "messages": list(messages), **self.parameters(wanted)},
            }
            for name, (messages, wanted) in requests.items()
        ]
        content = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        return self._client.files.create(file=("batch.jsonl", content), purpose="batch").id

    @asking(openai.APIConnectionError)
    def create(self, tag: str, uploaded: Any) -> str:
        """Create a batch whose metadata has the tag."""
        return self._client.batches.create(
            completion_window="24h", endpoint="/v1/chat/completions", input_file_id=uploaded, metadata={_TAG: tag}
        ).id

    @asking(openai.APIConnectionError)
    def find(self, tag: str, requests: int, since: datetime, others: Container[str]) -> str | None:  # noqa: ARG002
        """Find a batch by its metadata; the provider lists the newest first."""
        for batch in self._client.batches.list(limit=100):
            if (batch.metadata or {}).get(_TAG) == tag:
                return batch.id
            if datetime.fromtimestamp(batch.created_at, UTC) < since - CLOCKS_DIFFER:
                break
        return None

    @asking(openai.APIConnectionError)
    def status(self, batch: str) -> BatchStatus:
        """Return the state; requests that are not executed before the batch expires or is cancelled cost nothing."""
        retrieved = self._client.batches.retrieve(batch)
        if retrieved.status not in _ENDED:
            return BatchStatus(ended=False)
        if retrieved.status == "completed":
            return BatchStatus(ended=True)
        errors = (retrieved.errors.data if retrieved.errors else None) or []
        reasons = "; ".join(error.message or error.code or "" for error in errors[:3])
        return BatchStatus(
            ended=True,
            unanswered=f"its batch {retrieved.status}" + (f": {reasons}" if reasons else ""),
            full=any(error.code == _FULL for error in errors),
        )

    @asking(openai.APIConnectionError)
    def results(self, batch: str) -> list[tuple[str, Answer | RefusedRequestError]]:
        """Return the results in the output file and the error file."""
        retrieved = self._client.batches.retrieve(batch)
        files = [file for file in (retrieved.output_file_id, retrieved.error_file_id) if file is not None]
        return [
            (line["custom_id"], parse_result(_result, line))
            for file in files
            for line in lines_of(self._client.files.content(file).content)
        ]

    @asking(openai.APIConnectionError)
    def cancel(self, batch: str) -> None:
        """Cancel a batch."""
        self._client.batches.cancel(batch)

    def is_filtered(self, status: int | None, document: Any) -> bool:
        """Return whether a request was refused for its content, by a code of Azure or OpenAI or by OpenRouter."""
        error = document.get("error") if isinstance(document, Mapping) else None
        if not isinstance(error, Mapping):
            return False
        inner = error.get("innererror")
        codes = {error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, Mapping) else None}
        metadata = error.get("metadata")
        moderated = status == _FORBIDDEN and isinstance(metadata, Mapping) and "flagged_input" in metadata
        return moderated or not codes.isdisjoint(_FILTERS)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _result(line: Mapping[str, Any]) -> Answer:
    response = line.get("response")
    if not response:
        raise RefusedRequestError(message_of(line), NOT_EXECUTED)
    if response["status_code"] != _OK:
        raise RefusedRequestError(message_of(response["body"]), response["status_code"], document=response["body"])
    return _answer(ChatCompletion.construct(**response["body"]))


def _answer(found: ChatCompletion) -> Answer:
    extra = found.model_extra or {}
    if not found.choices:
        raise RefusedRequestError(f"answers without a choice ({extra.get('error')})")
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
        cost=_read_cost(usage),
        reasoning=_reasoning(choice.message),
    )


def _reasoning(message: Any) -> str | None:
    """Return the thought; OpenRouter returns it, and other providers of this form do not."""
    extra = message.model_extra or {}
    thoughts = (extra.get(name) for name in ("reasoning", "reasoning_content"))
    return next((text for text in thoughts if isinstance(text, str) and text), None)


def _read_cost(usage: Any) -> float | None:
    """Return the cost that OpenRouter states; None without one."""
    cost = (usage.model_extra or {}).get("cost") if usage else None
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None

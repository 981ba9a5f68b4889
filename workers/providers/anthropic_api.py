"""Anthropic's Messages API, through Anthropic's library."""

from collections.abc import Container, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import quote

import anthropic
import httpx2
from anthropic.types import Message

from workers.providers.answers import (
    CLOCKS_DIFFER,
    MOST_STOPS,
    NOT_EXECUTED,
    Answer,
    BatchStatus,
    Conversation,
    Outcome,
    RefusedRequestError,
    UnsureError,
    Wanted,
    asking,
    count,
    lines_of,
    parse_result,
    turns_of,
)
from workers.providers.transport import message_of

_OUTCOMES: Final[dict[str | None, Outcome]] = {
    "end_turn": "complete",
    "stop_sequence": "complete",
    "refusal": "refused",
}
_BAD_REQUEST: Final = 400
_SERVER_ERROR: Final = 500


class AnthropicApi:
    """Requests to Anthropic's Messages API."""

    def __init__(self, location: str, key: str | None, http: httpx2.Client) -> None:
        self.library = f"anthropic {version('anthropic')}"
        # Without a key the library would look for one in the environment; our transport removes every key that is not
        # ours.
        self._client = anthropic.Anthropic(api_key=key or "none", base_url=location, max_retries=0, http_client=http)
        self._timeout = http.timeout

    def parameters(self, wanted: Wanted) -> dict[str, Any]:
        """Return the parameters of a request.

        The library no longer has a temperature; older models accept either it or top_p. Stop sequences need a visible
        character.
        """
        parameters: dict[str, Any] = {"max_tokens": wanted.most_tokens}
        stop = [sequence for sequence in wanted.stop if sequence.strip()][:MOST_STOPS]
        if stop:
            parameters["stop_sequences"] = stop
        if wanted.reasoning_tokens is not None:
            return parameters | {"thinking": wanted.thinking}
        return parameters | {"extra_body": {"temperature": min(1.0, wanted.temperature)}}

    @asking(anthropic.APIConnectionError)
    def ask(self, model: str, messages: Sequence[Mapping[str, str]], wanted: Wanted) -> Answer:
        """Return the model's answer: the blocks of text, joined, and the blocks of thinking."""
        # With a timeout the library does not refuse answers that may take longer than ten minutes.
        return _answer(
            self._client.messages.create(**self._make_request(model, messages, wanted), timeout=self._timeout)
        )

    def _make_request(self, model: str, messages: Sequence[Mapping[str, str]], wanted: Wanted) -> dict[str, Any]:
        turns = turns_of(messages)
        request: dict[str, Any] = {"model": model, "messages": turns.others, **self.parameters(wanted)}
        if turns.system:
            request["system"] = turns.system
        return request

    def upload(self, model: str, requests: Mapping[str, Conversation]) -> Any:
        """Return the requests, which are sent with the batch."""
        uploaded = []
        for name, (messages, wanted) in requests.items():
            request = self._make_request(model, messages, wanted)
            uploaded.append({"custom_id": name, "params": request | request.pop("extra_body", {})})
        return uploaded

    @asking(anthropic.APIConnectionError)
    def create(self, tag: str, uploaded: Any) -> str:  # noqa: ARG002 - a batch has no metadata
        """Create a batch, whose tag is only in the names of its requests."""
        return self._client.messages.batches.create(requests=uploaded, timeout=self._timeout).id

    @asking(anthropic.APIConnectionError)
    def find(self, tag: str, requests: int, since: datetime, others: Container[str]) -> str | None:
        """Find a batch by its number of requests, then by their names, which are shown once a batch has ended."""
        unsure = False
        for batch in self._client.messages.batches.list(limit=100):
            if batch.created_at < since - CLOCKS_DIFFER:
                break
            counts = batch.request_counts
            total = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
            if batch.id in others or total != requests:
                continue
            if batch.processing_status != "ended":
                unsure = True
            elif any(line["custom_id"].startswith(tag) for line in lines_of(self._content(batch.id))):
                return batch.id
        if unsure:
            raise UnsureError
        return None

    @asking(anthropic.APIConnectionError)
    def status(self, batch: str) -> BatchStatus:
        """Return the state of a batch; each of its requests has its own result."""
        return BatchStatus(ended=self._client.messages.batches.retrieve(batch).processing_status == "ended")

    @asking(anthropic.APIConnectionError)
    def results(self, batch: str) -> list[tuple[str, Answer | RefusedRequestError]]:
        """Return the results, one from each line."""
        return [(line["custom_id"], parse_result(_result, line)) for line in lines_of(self._content(batch))]

    def _content(self, batch: str) -> bytes:
        # Do not use the address in the answer: the key may only be sent to the endpoint.
        path = f"/v1/messages/batches/{quote(batch, safe='')}/results"
        return self._client.get(path, cast_to=httpx2.Response).content

    @asking(anthropic.APIConnectionError)
    def cancel(self, batch: str) -> None:
        """Cancel a batch."""
        self._client.messages.batches.cancel(batch)

    def is_filtered(self, status: int | None, document: Any) -> bool:
        """Return whether a request was refused for its content, which Anthropic states in words."""
        return status == _BAD_REQUEST and "content filtering" in str(document)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _result(line: Mapping[str, Any]) -> Answer:
    result = line["result"]
    kind = result["type"]
    if kind == "succeeded":
        return _answer(Message.construct(**result["message"]))
    if kind != "errored":
        raise RefusedRequestError(f"its batch {kind}", NOT_EXECUTED)
    document = result["error"]
    invalid = document["error"]["type"] == "invalid_request_error"
    raise RefusedRequestError(message_of(document), _BAD_REQUEST if invalid else _SERVER_ERROR, document=document)


def _answer(found: Any) -> Answer:
    usage = found.usage
    cached, details = count(usage.cache_read_input_tokens), usage.output_tokens_details
    return Answer(
        text="".join(block.text for block in found.content if block.type == "text"),
        outcome=_OUTCOMES.get(found.stop_reason, "cut-off"),
        stop_reason=found.stop_reason,
        served_model=found.model,
        prompt_tokens=usage.input_tokens + cached + count(usage.cache_creation_input_tokens),
        cached_tokens=cached,
        written_tokens=usage.output_tokens,
        reasoning_tokens=details.thinking_tokens if details else None,
        reasoning="".join(block.thinking for block in found.content if block.type == "thinking") or None,
    )

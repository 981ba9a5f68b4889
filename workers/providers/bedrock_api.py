"""Amazon Bedrock's converse, through boto3: signed with AWS credentials, or with a key of Bedrock's own."""

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import urlsplit

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from registry.settings import Settings
from workers.providers.answers import MOST_STOPS, Answer, Outcome, RefusedRequestError, Wanted, asking, count, turns_of

_OUTCOMES: Final[dict[str | None, Outcome]] = {
    "end_turn": "complete",
    "stop_sequence": "complete",
    "refusal": "refused",
    "guardrail_intervened": "filtered",
    "content_filtered": "filtered",
}
_DEFAULT_REGION: Final = "us-east-1"


class BedrockApi:
    """Converse."""

    def __init__(self, location: str, key: str | None, settings: Settings) -> None:
        self.library = f"boto3 {version('boto3')}"
        host = (urlsplit(location).hostname or "").split(".")
        region = host[1] if host[0].startswith("bedrock-runtime") and len(host) > 1 else _region()
        config = Config(
            connect_timeout=settings.endpoint_connect_seconds,
            read_timeout=settings.endpoint_read_seconds,
            max_pool_connections=settings.endpoint_in_flight,
            retries={"total_max_attempts": 1},
            **({} if key is None else {"signature_version": UNSIGNED}),
        )
        self._client: Any = boto3.session.Session().client(
            "bedrock-runtime", region_name=region, endpoint_url=location, config=config
        )
        if key is not None:

            def add_key(request: Any, **_: Any) -> None:
                request.headers["Authorization"] = f"Bearer {key}"

            self._client.meta.events.register("before-send.bedrock-runtime.*", add_key)

    def parameters(self, wanted: Wanted) -> dict[str, Any]:
        """Of temperature and top_p newer models take one only."""
        inference: dict[str, Any] = {"maxTokens": wanted.most_tokens}
        stop = [one for one in wanted.stop if one.strip()][:MOST_STOPS]
        if stop:
            inference["stopSequences"] = stop
        if wanted.reasoning_tokens is not None:
            return {"inferenceConfig": inference, "additionalModelRequestFields": {"thinking": wanted.thinking}}
        return {"inferenceConfig": inference | {"temperature": min(1.0, wanted.temperature)}}

    @asking()
    def ask(self, model: str, messages: Sequence[Mapping[str, str]], wanted: Wanted) -> Answer:
        """The blocks of text, joined, and those of reasoning. Bedrock does not name the model it used."""
        turns = turns_of(messages)
        asked: dict[str, Any] = {
            "modelId": model,
            "messages": [{"role": turn["role"], "content": [{"text": turn["content"]}]} for turn in turns.others],
            **self.parameters(wanted),
        }
        if turns.system:
            asked["system"] = [{"text": turns.system}]
        try:
            found = self._client.converse(**asked)
        except ClientError as error:
            said = error.response["ResponseMetadata"]
            headers = {name.lower(): value for name, value in said.get("HTTPHeaders", {}).items()}
            message = error.response["Error"].get("Message") or str(error)
            raise RefusedRequestError(message, said.get("HTTPStatusCode"), headers, error.response["Error"]) from None
        except BotoCoreError as error:
            raise RefusedRequestError(f"cannot be reached ({error})") from None
        except ResponseParserError as error:
            raise ValueError(str(error)) from None
        usage, blocks = found["usage"], found["output"]["message"]["content"]
        cached = count(usage.get("cacheReadInputTokens"))
        return Answer(
            text="".join(block["text"] for block in blocks if "text" in block),
            outcome=_OUTCOMES.get(found["stopReason"], "cut-off"),
            stop_reason=found["stopReason"],
            prompt_tokens=usage["inputTokens"] + cached + count(usage.get("cacheWriteInputTokens")),
            cached_tokens=cached,
            written_tokens=usage["outputTokens"],
            reasoning="".join(_reasoning(block) for block in blocks) or None,
        )

    def is_filtered(self, status: int | None, document: Any) -> bool:  # noqa: ARG002
        """Never: Bedrock says so in an answer."""
        return False

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()


def _region() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or _DEFAULT_REGION


def _reasoning(block: Mapping[str, Any]) -> str:
    """The text of a block of reasoning; empty for any other, and where it is encrypted."""
    said = block.get("reasoningContent")
    text = said.get("reasoningText") if isinstance(said, Mapping) else None
    return str(text.get("text") or "") if isinstance(text, Mapping) else ""

"""A stand-in for vLLM's server: its protocol, as its source writes it, with a model of thirty words.

What it says of a text can be computed beside it: `Words.logprob`. The forms are those of `vllm serve` 0.11
(vllm/entrypoints/openai/serving_completion.py): tokens by their texts, `echo` with no written token, at most
`--max-logprobs` listed beside the written one, errors as an object with `message`, `type` and `code`.
"""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.scripted_server import Answer, Asked

VOCABULARY: Final = (
    *(
        " A",
        " B",
        " C",
        " D",
        " the",
        " a",
        " cat",
        " dog",
        " Paris",
        " Rome",
        " river",
        " stone",
        " is",
        " of",
        " and",
    ),
    *("A", "B", ".", ",", "\n", " not", " all", " none", " blue", " red", " old", " new", " one", " two", " three"),
)
HEADERS: Final = {"Server": "uvicorn", "Content-Type": "application/json"}


class Words:
    """A model whose tokens are words with the blank before them."""

    @staticmethod
    def tokens(text: str) -> list[str]:
        """What a text is cut into; together they are the text."""
        return re.findall(r" ?[^\s]+|\s", text)

    @staticmethod
    def logprobs(before: str) -> dict[str, float]:
        """Log-probability (nats) of each word of the vocabulary after a text."""
        weights = {
            token: 1 + int.from_bytes(hashlib.sha256(f"{before}|{token}".encode()).digest()[:3], "big") ** 2
            for token in VOCABULARY
        }
        total = sum(weights.values())
        return {token: math.log(weight / total) for token, weight in weights.items()}

    @classmethod
    def logprob(cls, before: str, token: str) -> float:
        """Log-probability of one token; words that are not in the vocabulary are all equally unlikely."""
        return cls.logprobs(before).get(token, -15.0)


@dataclass
class VllmServer:
    """Answers as `vllm serve` would; to be given to `scripted_server`.

    max_logprobs, max_model_len, api_key: the options of that name. troubles: answers that are given first, one for
    each completion that is asked for.
    """

    model: str = "tiny"
    max_logprobs: int = 20
    max_model_len: int = 4096
    api_key: str | None = None
    troubles: list[Answer] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Answer:
        """The answer to a request."""
        if asked.path == "/version":
            return Answer({"version": "0.11.2"}, headers=HEADERS)
        if self.api_key is not None and asked.headers.get("authorization") != f"Bearer {self.api_key}":
            return Answer({"error": "Unauthorized"}, 401, HEADERS)
        if asked.path == "/v1/models":
            entry = {"id": self.model, "object": "model", "owned_by": "vllm", "root": self.model, "parent": None}
            return Answer({"object": "list", "data": [entry | {"max_model_len": self.max_model_len}]}, headers=HEADERS)
        if asked.path == "/v1/completions":
            return self.troubles.pop(0) if self.troubles else self._complete(asked.document)
        return _error(404, "Not Found", "NotFoundError")

    def _complete(self, request: Mapping[str, Any]) -> Answer:
        if request["model"] != self.model:
            return _error(404, f"The model `{request['model']}` does not exist.", "NotFoundError")
        listed, written = request.get("logprobs"), int(request.get("max_tokens", 16))
        if listed is not None and listed > self.max_logprobs:
            return _error(
                400, f"Requested sample logprobs of {listed}, which is greater than max allowed: {self.max_logprobs}"
            )
        prompt = Words.tokens(request["prompt"])
        if len(prompt) + written > self.max_model_len:
            return _error(
                400,
                f"This model's maximum context length is {self.max_model_len} tokens. However, you requested "
                f"{len(prompt) + written} tokens ({len(prompt)} in the messages, {written} in the completion). Please "
                "reduce the length of the messages or completion.",
            )
        continuation: list[str] = []
        for _ in range(max(1, written)):  # it writes one even when asked for none, and counts it
            after = Words.logprobs(request["prompt"] + "".join(continuation))
            continuation.append(max(after, key=after.__getitem__))
        shown = continuation if written else []
        if request.get("echo"):
            shown = prompt + shown
        before = "" if request.get("echo") else request["prompt"]
        document = {
            "id": "cmpl-1",
            "object": "text_completion",
            "created": 1763000000,
            "model": self.model,
            "choices": [
                {
                    "index": 0,
                    "text": "".join(shown),
                    "logprobs": None if listed is None else _logprobs(shown, before, listed),
                    "finish_reason": "length",
                    "stop_reason": None,
                    "prompt_logprobs": None,
                }
            ],
            "usage": {
                "prompt_tokens": len(prompt),
                "total_tokens": len(prompt) + len(continuation),
                "completion_tokens": len(continuation),
                "prompt_tokens_details": None,
            },
        }
        return Answer(document, headers=HEADERS)


def _logprobs(tokens: list[str], before: str, listed: int) -> dict[str, Any]:
    """Of each token itself, and of the most probable ones beside it; nothing of a text's first token."""
    values: list[float | None] = []
    tops: list[dict[str, float] | None] = []
    offsets = []
    for token in tokens:
        offsets.append(len(before))
        if not before:
            values.append(None)
            tops.append(None)
        else:
            after = Words.logprobs(before)
            values.append(Words.logprob(before, token))
            most = sorted(after, key=after.__getitem__, reverse=True)[:listed]
            tops.append({token: Words.logprob(before, token)} | {one: after[one] for one in most})
        before += token
    return {"text_offset": offsets, "token_logprobs": values, "tokens": tokens, "top_logprobs": tops}


def _error(status: int, message: str, kind: str = "BadRequestError") -> Answer:
    return Answer({"error": {"message": message, "type": kind, "param": None, "code": status}}, status, HEADERS)


def later(status: int, **headers: str) -> Answer:
    """What stands before a server that is not ready, or that has too much to do."""
    return Answer(b"", status, HEADERS | headers)

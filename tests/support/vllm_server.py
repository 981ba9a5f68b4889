"""A stand-in for vLLM's server: its protocol, as in its source, with a model of thirty words.

`Words.logprob` computes the expected values. The formats are those of a real `vllm serve` 0.32 (`make test-servers`
uses one): tokens by their texts or, with `return_tokens_as_token_ids`, as "token_id:330"; `echo` with no written
token; the written token and at most `--max-logprobs` others, or exactly the tokens in `logprob_token_ids` after it;
for `allowed_token_ids` the log-probability among all tokens; errors as an object with `message`, `type` and `code`;
unknown parameters ignored.
"""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from tests.support.scripted_server import Answer, Asked

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
MOST_CHOSEN: Final = 128
HEADERS: Final = {"Server": "uvicorn", "Content-Type": "application/json"}


class Words:
    """A model whose tokens are words with the blank before them."""

    numbered: ClassVar[list[str]] = list(VOCABULARY)

    @staticmethod
    def tokens(text: str) -> list[str]:
        """Return the tokens of a text, which add up to the text."""
        return re.findall(r" ?[^\s]+|\s", text)

    @staticmethod
    def logprobs(before: str) -> dict[str, float]:
        """Return the log-probability (nats) of each word in the vocabulary after a text."""
        weights = {
            token: 1 + int.from_bytes(hashlib.sha256(f"{before}|{token}".encode()).digest()[:3], "big") ** 2
            for token in VOCABULARY
        }
        total = sum(weights.values())
        return {token: math.log(weight / total) for token, weight in weights.items()}

    @classmethod
    def ids(cls, text: str) -> list[int]:
        """Return the numbers of a text's tokens: the vocabulary first, then other words in order of first use."""
        for token in cls.tokens(text):
            if token not in cls.numbered:
                cls.numbered.append(token)
        return [cls.numbered.index(token) for token in cls.tokens(text)]

    @classmethod
    def logprob(cls, before: str, token: str) -> float:
        """Return the log-probability of a token; all words outside the vocabulary are equally unlikely."""
        return cls.logprobs(before).get(token, -15.0)


@dataclass
class VllmServer:
    """A server that answers as `vllm serve` does, for `scripted_server`.

    max_logprobs, max_model_len, api_key: the options with these names.
    knows: vLLM's own parameters that it supports; it ignores others, as older versions do.
    among_chosen: whether log-probabilities are among the chosen tokens only.
    backwards: whether it lists tokens in reversed order.
    leaves_out: tokens that it never lists by number.
    versions: its version at each request for it, the last repeated.
    waiting: number of requests in its queue; None if it shows none.
    owner: the software in its list of models.
    troubles: answers to the first completions, in place of real ones.
    ending: whether its tokenizer adds a token to every text.
    """

    model: str = "tiny"
    max_logprobs: int = 20
    max_model_len: int = 4096
    api_key: str | None = None
    knows: frozenset[str] = frozenset({"logprob_token_ids", "allowed_token_ids", "return_token_ids"})
    among_chosen: bool = False
    backwards: bool = False
    leaves_out: frozenset[str] = frozenset()
    versions: list[str] = field(default_factory=lambda: ["0.32.0"])
    waiting: int | None = None
    owner: str = "vllm"
    troubles: list[Answer] = field(default_factory=list)
    several: bool = True
    ending: bool = False

    def __call__(self, asked: Asked) -> Answer:
        """Return the answer to a request."""
        if asked.path == "/version":
            return Answer({"version": self._version()}, headers=HEADERS)
        if asked.path == "/metrics":
            return Answer(b"" if self.waiting is None else _figures(self.waiting), headers=HEADERS)
        if self.api_key is not None and asked.headers.get("authorization") != f"Bearer {self.api_key}":
            return Answer({"error": "Unauthorized"}, 401, HEADERS)
        if asked.path == "/v1/models":
            entry = {"id": self.model, "object": "model", "owned_by": self.owner, "root": self.model, "parent": None}
            return Answer({"object": "list", "data": [entry | {"max_model_len": self.max_model_len}]}, headers=HEADERS)
        if asked.path == "/tokenize":
            ids = Words.ids(asked.document["prompt"]) + Words.ids("END") * self.ending
            document = {"count": len(ids), "max_model_len": self.max_model_len, "tokens": ids, "token_strs": None}
            return Answer(document, headers=HEADERS)
        if asked.path == "/v1/completions":
            return self.troubles.pop(0) if self.troubles else self._complete_each(asked.document)
        return _error(404, "Not Found", "NotFoundError")

    def _version(self) -> str:
        return self.versions.pop(0) if len(self.versions) > 1 else self.versions[0]

    def _complete_each(self, request: Mapping[str, Any]) -> Answer:
        prompts = request["prompt"]
        if isinstance(prompts, str) or not isinstance(prompts[0], str):
            return self._complete(request)
        if not self.several:
            return _error(400, "one prompt at a time")
        answers = [self._complete({**request, "prompt": prompt}) for prompt in prompts]
        if bad := [answer for answer in answers if answer.status != 200]:
            return bad[0]
        documents = [answer.body for answer in answers]
        choices = [document["choices"][0] | {"index": place} for place, document in enumerate(documents)]
        usage = {
            name: sum(document["usage"][name] for document in documents)
            for name in ("prompt_tokens", "total_tokens", "completion_tokens")
        }
        return Answer(documents[0] | {"choices": choices[::-1], "usage": usage}, headers=HEADERS)

    def _complete(self, request: Mapping[str, Any]) -> Answer:
        if request["model"] != self.model:
            return _error(404, f"The model `{request['model']}` does not exist.", "NotFoundError")
        listed, written = request.get("logprobs"), int(request.get("max_tokens", 16))
        if listed is not None and listed > self.max_logprobs:
            return _error(
                400, f"Requested sample logprobs of {listed}, which is greater than max allowed: {self.max_logprobs}"
            )
        text_or_tokens = request["prompt"]
        prompt = (
            Words.tokens(text_or_tokens)
            if isinstance(text_or_tokens, str)
            else [Words.numbered[number] for number in text_or_tokens]
        )
        text = "".join(prompt)
        if len(prompt) + written > self.max_model_len:
            return _error(
                400,
                f"This model's maximum context length is {self.max_model_len} tokens. However, you requested "
                f"{len(prompt) + written} tokens ({len(prompt)} in the messages, {written} in the completion). Please "
                "reduce the length of the messages or completion.",
            )
        chosen, allowed = (
            [Words.numbered[number] for number in request.get(name, [])] if name in self.knows else []
            for name in ("logprob_token_ids", "allowed_token_ids")
        )
        if len(chosen) > MOST_CHOSEN:
            return _error(
                400,
                f"Requested logprob_token_ids of length {len(chosen)}, which is greater than max allowed: {MOST_CHOSEN}",
            )
        continuation: list[str] = []
        for _ in range(max(1, written)):  # vLLM writes and counts one token even if none is requested
            after = Words.logprobs(text + "".join(continuation))
            continuation.append(max(allowed or after, key=lambda token: after.get(token, -15.0)))
        shown = continuation if written else []
        if request.get("echo"):
            shown = prompt + shown
        logprobs = None
        if listed is not None:
            logprobs = self._logprobs(shown, "" if request.get("echo") else text, listed, chosen or allowed, chosen)
            if request.get("return_tokens_as_token_ids"):
                Words.ids(text)  # numbers them
                logprobs = self._by_number(logprobs)
        document = {
            "id": "cmpl-1",
            "object": "text_completion",
            "created": 1763000000,
            "model": self.model,
            "choices": [
                {
                    "index": 0,
                    "text": "".join(shown),
                    "logprobs": logprobs,
                    "finish_reason": "length",
                    "stop_reason": None,
                    "prompt_logprobs": None,
                    "prompt_token_ids": Words.ids(text)
                    if request.get("return_token_ids") and "return_token_ids" in self.knows
                    else None,
                }
            ],
            "system_fingerprint": f"vllm-{self.versions[0]}-930dfdd1",
            "usage": {
                "prompt_tokens": len(prompt),
                "total_tokens": len(prompt) + len(continuation),
                "completion_tokens": len(continuation),
                "prompt_tokens_details": None,
            },
        }
        return Answer(document, headers=HEADERS)

    def _logprobs(
        self, tokens: list[str], before: str, listed: int, among: list[str], chosen: list[str]
    ) -> dict[str, Any]:
        """Return log-probabilities of each token, except the first, and of the most probable or chosen ones."""
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
                lost = 0.0
                if self.among_chosen and among:
                    lost = math.log(math.fsum(math.exp(Words.logprob(before, token_id)) for token_id in among))
                values.append(Words.logprob(before, token) - lost)
                most = chosen or sorted(after, key=after.__getitem__, reverse=True)[:listed]
                tops.append({token_id: Words.logprob(before, token_id) - lost for token_id in (token, *most)})
            before += token
        return {"text_offset": offsets, "token_logprobs": values, "tokens": tokens, "top_logprobs": tops}

    def _by_number(self, logprobs: dict[str, Any]) -> dict[str, Any]:
        def number(token: str) -> str:
            return f"token_id:{Words.numbered.index(token)}"

        tops = []
        for top in logprobs["top_logprobs"]:
            kept = [
                (number(token_text), value)
                for token_text, value in (top or {}).items()
                if token_text not in self.leaves_out
            ]
            tops.append(None if top is None else dict(reversed(kept) if self.backwards else kept))
        return logprobs | {"tokens": [*map(number, logprobs["tokens"])], "top_logprobs": tops}


def _figures(waiting: int) -> bytes:
    """Return the lines of /metrics that clients read, and some similar lines."""
    return f"""\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="tiny"}} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="tiny"}} {waiting:.1f}
vllm:num_requests_waiting_by_reason{{engine="0",model_name="tiny",reason="capacity"}} 99.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{block_size="4",cache_dtype="auto",mamba_block_size="None"}} 1.0
""".encode()


def _error(status: int, message: str, kind: str = "BadRequestError") -> Answer:
    return Answer({"error": {"message": message, "type": kind, "param": None, "code": status}}, status, HEADERS)


def later(status: int, **headers: str) -> Answer:
    """Return the answer of a proxy whose server is starting or overloaded."""
    return Answer(b"", status, HEADERS | headers)

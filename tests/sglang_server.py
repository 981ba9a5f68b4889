"""A stand-in for SGLang's server, with the model of `tests/vllm_server.py`.

The forms are those that its documentation and tests show; no real one was asked, since it needs a GPU. Its own route,
/generate, takes `token_ids_logprob`, and lists [log-probability, number, text] under `meta_info`. Of a prompt it lists
the tokens from `logprob_start_len` on, the first of them without a log-probability.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.scripted_server import Answer, Asked
from tests.vllm_server import HEADERS, VllmServer, Words


@dataclass
class SglangServer:
    """Answers as `sglang.launch_server` would; to be given to `scripted_server`."""

    seen: set[tuple[int, ...]] = field(default_factory=set)

    def __call__(self, asked: Asked) -> Answer:
        """The answer to a request."""
        if asked.path == "/tokenize":
            ids = Words.ids(asked.document["prompt"])
            return Answer({"tokens": ids, "count": len(ids), "max_model_len": 4096}, headers=HEADERS)
        if asked.path == "/generate":
            return Answer(self._generate(asked.document), headers=HEADERS)
        if asked.path in ("/v1/models", "/v1/completions"):
            return VllmServer(owner="sglang")(asked)
        return Answer({"detail": "Not Found"}, 404, HEADERS)

    def _generate(self, request: Mapping[str, Any]) -> dict[str, Any]:
        ids: list[int] = request["input_ids"]
        tokens = [Words.numbered[number] for number in ids]
        start = request.get("logprob_start_len", len(ids) - 1)
        listed = [[None, ids[start], None]] + [
            [Words.logprob("".join(tokens[:place]), tokens[place]), ids[place], None]
            for place in range(start + 1, len(ids))
        ]
        text = "".join(tokens)
        chosen = [
            [Words.logprob(text, Words.numbered[number]), number, None]
            for number in request.get("token_ids_logprob", [])
        ]
        cached = max((length for length in range(start + 1) if tuple(ids[:length]) in self.seen), default=0)
        self.seen |= {tuple(ids[:length]) for length in range(1, len(ids) + 1)}
        return {
            "text": "",
            "meta_info": {
                "id": "1",
                "finish_reason": {"type": "length", "length": 1},
                "prompt_tokens": len(ids),
                "completion_tokens": request["sampling_params"]["max_new_tokens"],
                "cached_tokens": cached,
                "input_token_logprobs": listed,
                "output_token_ids_logprobs": [chosen],
            },
        }

"""A stand-in for SGLang's server, with the model of `tests/support/vllm_server.py`.

Written from the source of SGLang 0.5.23, not from a real server, since that needs a GPU. Its own route, /generate,
lists [log-probability, number, text] under `meta_info`, with null for the text: for the prompt from
`logprob_start_len` on, the first of these tokens without a log-probability; for the written token; and for the tokens
in `token_ids_logprob`. The cache is read up to `logprob_start_len`. The vocabulary's last token is listed as 0 in a
prompt, since images have larger numbers. With priorities, /metrics has the queue twice: for each priority and for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.scripted_server import Answer, Asked
from tests.support.vllm_server import HEADERS, VllmServer, Words

VERSION: Final = "0.5.23"
VOCABULARY_SIZE: Final = 32_000


@dataclass
class SglangServer:
    """A function that answers as `sglang.launch_server` would, for `scripted_server`.

    waiting: number of requests in its queue; None if it was started without `--enable-metrics`.
    """

    waiting: int | None = None
    seen: set[tuple[int, ...]] = field(default_factory=set)

    def __call__(self, asked: Asked) -> Answer:
        """Return the answer to a request."""
        if asked.path == "/tokenize":
            ids = Words.ids(asked.document["prompt"])
            return Answer({"tokens": ids, "count": len(ids), "max_model_len": 4096}, headers=HEADERS)
        if asked.path == "/generate":
            return self._generate(asked.document)
        if asked.path == "/server_info":
            return Answer({"tp_size": 1, "internal_states": [{}], "version": VERSION}, headers=HEADERS)
        if asked.path == "/metrics" and self.waiting is not None:
            return Answer(figures(self.waiting).encode(), headers=HEADERS)
        if asked.path in ("/v1/models", "/v1/completions"):
            return VllmServer(owner="sglang")(asked)
        return Answer({"detail": "Not Found"}, 404, HEADERS)

    def _generate(self, request: Mapping[str, Any]) -> Answer:
        ids: list[int] = request["input_ids"]
        start, written = request.get("logprob_start_len", -1), request["sampling_params"]["max_new_tokens"]
        if start > len(ids):
            return Answer({"error": {"message": f"req.logprob_start_len={start} is higher than …"}}, 400, HEADERS)
        tokens = [Words.numbered[number] for number in ids]
        # Without a start, only written tokens have log-probabilities.
        begin = len(ids) if start == -1 else start
        listed = [
            [
                None if place == begin else Words.logprob("".join(tokens[:place]), tokens[place]),
                ids[place] if ids[place] < VOCABULARY_SIZE - 1 else 0,
                None,
            ]
            for place in range(begin, len(ids))
        ]
        text, chosen = "".join(tokens), request.get("token_ids_logprob")
        most_cached = len(ids) - 1 if start == -1 else min(len(ids) - 1, start)
        cached = max((length for length in range(most_cached + 1) if tuple(ids[:length]) in self.seen), default=0)
        self.seen |= {tuple(ids[:length]) for length in range(1, len(ids) + 1)}
        after = Words.logprobs(text)
        best = max(after, key=after.__getitem__)
        meta: dict[str, Any] = {
            "id": "1",
            "finish_reason": {"type": "length", "length": written},
            "prompt_tokens": len(ids),
            "weight_version": "default",
            "num_retractions": 0,
            "input_token_logprobs": listed,
            "output_token_logprobs": [[after[best], Words.numbered.index(best), None]] * written,
            "output_token_logprobs_length": written,
        }
        if chosen:
            meta["input_token_ids_logprobs"] = []
            meta["output_token_ids_logprobs"] = [
                [[Words.logprob(text, Words.numbered[number]), number, None] for number in chosen]
            ] * written
        meta |= {"reasoning_tokens": 0, "completion_tokens": written, "cached_tokens": cached, "e2e_latency": 0.01}
        return Answer({"text": best * written, "output_ids": [], "meta_info": meta}, headers=HEADERS)


def figures(waiting: int) -> str:
    """Return the lines of /metrics about a queue with two priorities."""
    labels = 'engine_type="unified",model_name="tiny",tp_rank="0",pp_rank="0"'
    lines = [("", waiting), ("0", waiting), ("1", 0)]
    return "".join(
        f'sglang:num_queue_reqs{{{labels},priority="{priority}"}} {value:.1f}\n' for priority, value in lines
    )

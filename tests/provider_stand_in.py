"""A stand-in for providers: it answers as OpenAI, Anthropic, Google and Bedrock do, and keeps a ledger of its own.

What it does to a prompt follows from the prompt's text and a seed: it answers with a letter, refuses, filters, or cuts the
answer off. Storms, limits and a model that is renamed in mid-run are set from outside.
"""

import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.scripted_server import Answer, Asked, ScriptedServer, scripted_server

MODEL = "stand-in"
PROMPT_TOKENS, CACHED_TOKENS, WRITTEN_TOKENS, THOUGHT_TOKENS = 120, 20, 11, 7
PRICES = """
as_of = 2026-11-22
currency = "USD"
""" + "".join(
    f'[{provider}]\n"{MODEL}" = {{ prompt = 3.0, cached_prompt = 0.3, written = 15.0 }}\n'
    for provider in ("openai", "azure", "openrouter", "anthropic", "google", "bedrock")
)
COST = ((PROMPT_TOKENS - CACHED_TOKENS) * 3.0 + CACHED_TOKENS * 0.3 + WRITTEN_TOKENS * 15.0) / 1e6
MANNERS = ("answer", "refuse", "filter", "cut")


@dataclass
class StandIn:
    """share: of prompts that are not simply answered, in sixteenths. storm: statuses that the next requests get.

    ledger: what was charged, by prompt. arrivals: when requests came, by this process's clock.
    """

    share: int = 0
    seconds: float = 0.0
    renamed_after: int | None = None
    retry_after: str | None = "0"
    requests_per_window: int | None = None
    window_s: float = 60.0
    storm: list[int] = field(default_factory=list)
    ledger: Counter[str] = field(default_factory=Counter)
    manners: dict[str, str] = field(default_factory=dict)
    arrivals: list[float] = field(default_factory=list)
    refused: int = 0
    last: Asked | None = None
    server: ScriptedServer | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    @property
    def charged(self) -> float:
        """What all answers cost."""
        return COST * sum(self.ledger.values())

    def manner(self, prompt: str) -> str:
        drawn = hashlib.sha256(prompt.encode()).digest()[0] % 16
        return MANNERS[1 + drawn % 3] if drawn < self.share else "answer"

    def answer(self, asked: Asked) -> Answer:
        if asked.document is None:
            return Answer({"error": {"message": "not found"}}, 404)
        with self._lock:
            now = time.monotonic()
            self.arrivals.append(now)
            self.last = asked
            if self.storm:
                self.refused += 1
                headers = {} if self.retry_after is None else {"Retry-After": self.retry_after}
                return Answer({"error": {"message": "later"}}, self.storm.pop(0), headers)
            if self.requests_per_window is not None:
                recent = sum(1 for at in self.arrivals if at > now - self.window_s)
                if recent > self.requests_per_window:
                    self.refused += 1
                    return Answer({"error": {"message": "over the limit"}}, 429, {"Retry-After": "1"})
        prompt = _prompt_of(asked.document)
        if self.seconds:
            time.sleep(self.seconds)  # a model that takes its time
        with self._lock:
            manner = self.manner(prompt)
            self.manners[prompt] = manner
            self.ledger[prompt] += 1
            renamed = self.renamed_after is not None and sum(self.ledger.values()) > self.renamed_after
        return Answer(_FORMS[_form(asked.path)](manner, f"{MODEL}-{'2026-11-01' if renamed else '2026-05-13'}"))


def _form(path: str) -> str:
    return next(form for form, part in _PARTS.items() if re.search(part, path))


_PARTS = {"openai": "chat/completions", "anthropic": "/messages", "google": ":generateContent", "bedrock": "/converse"}


def _prompt_of(document: Any) -> str:
    turns = document.get("contents") or document["messages"]
    return json.dumps(turns, sort_keys=True)


def _text(manner: str) -> str:
    return {"answer": "A. It is so.", "refuse": "I cannot help with that.", "filter": "", "cut": "Let me think abo"}[
        manner
    ]


def _openai(manner: str, served: str) -> dict[str, Any]:
    refusal = _text(manner) if manner == "refuse" else None
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": served,
        "system_fingerprint": f"fp_{served[-5:]}",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None if refusal else _text(manner), "refusal": refusal},
                "finish_reason": {"filter": "content_filter", "cut": "length"}.get(manner, "stop"),
            }
        ],
        "usage": {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": WRITTEN_TOKENS,
            "total_tokens": PROMPT_TOKENS + WRITTEN_TOKENS,
            "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
            "completion_tokens_details": {"reasoning_tokens": THOUGHT_TOKENS},
        },
    }


def _anthropic(manner: str, served: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": served,
        "content": [{"type": "thinking", "thinking": "B?", "signature": "s"}, {"type": "text", "text": _text(manner)}],
        "stop_reason": {"refuse": "refusal", "filter": "refusal", "cut": "max_tokens"}.get(manner, "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": PROMPT_TOKENS - CACHED_TOKENS,
            "cache_read_input_tokens": CACHED_TOKENS,
            "cache_creation_input_tokens": 0,
            "output_tokens": WRITTEN_TOKENS,
        },
    }


def _google(manner: str, served: str) -> dict[str, Any]:
    usage = {
        "promptTokenCount": PROMPT_TOKENS,
        "cachedContentTokenCount": CACHED_TOKENS,
        "candidatesTokenCount": WRITTEN_TOKENS - THOUGHT_TOKENS,
        "thoughtsTokenCount": THOUGHT_TOKENS,
    }
    if manner == "filter":
        return {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage, "modelVersion": served}
    parts = [{"text": "B?", "thought": True}, {"text": _text(manner)}]
    reason = {"refuse": "PROHIBITED_CONTENT", "cut": "MAX_TOKENS"}.get(manner, "STOP")
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason}],
        "usageMetadata": usage,
        "modelVersion": served,
    }


def _bedrock(manner: str, _served: str) -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": _text(manner)}]}},
        "stopReason": {"refuse": "refusal", "filter": "content_filtered", "cut": "max_tokens"}.get(manner, "end_turn"),
        "usage": {
            "inputTokens": PROMPT_TOKENS - CACHED_TOKENS,
            "outputTokens": WRITTEN_TOKENS,
            "totalTokens": PROMPT_TOKENS + WRITTEN_TOKENS,
            "cacheReadInputTokens": CACHED_TOKENS,
        },
        "metrics": {"latencyMs": 1},
    }


_FORMS = {"openai": _openai, "anthropic": _anthropic, "google": _google, "bedrock": _bedrock}


@contextmanager
def stand_in(**settings: Any) -> Iterator[StandIn]:
    """A stand-in on a free port of this machine."""
    provider = StandIn(**settings)
    with scripted_server(provider.answer) as server:
        provider.server = server
        yield provider


def location_of(provider: StandIn, kind: str) -> str:
    """Where a model of a kind of provider is."""
    assert provider.server is not None
    return provider.server.url if kind in ("openai", "azure", "openrouter") else provider.server.url.removesuffix("/v1")


@contextmanager
def slow_server(seconds_per_byte: float) -> Iterator[str]:
    """A service, by its URL, whose answers trickle in byte by byte and never end."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response_only(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            while not over.is_set():
                try:
                    self.wfile.write(b" ")
                except OSError:  # whoever asked has gone
                    return
                over.wait(seconds_per_byte)

        def log_message(self, *_arguments: object) -> None:
            pass

    over = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            over.set()
            server.shutdown()
            thread.join()

"""A stand-in for providers that answers like OpenAI and Anthropic and records the charges.

Its reply depends on the prompt's text and a seed: it answers with a letter, refuses, filters, or cuts the answer off.
Tests set errors, limits, and the renaming of a model during a run.
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
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.scripted_server import Answer, Asked, ScriptedServer, serve_scripted_server

MODEL = "stand-in"
BATCH = 0.5
PROMPT_TOKENS, CACHED_TOKENS, WRITTEN_TOKENS, THOUGHT_TOKENS = 120, 20, 11, 7
PRICES = """
as_of = 2026-11-22
currency = "USD"
""" + "".join(
    f'[{provider}]\n"{MODEL}" = {{ prompt = 3.0, cached_prompt = 0.3, written = 15.0, batch = {BATCH} }}\n'
    for provider in ("openai", "azure", "openrouter", "anthropic")
)
COST = ((PROMPT_TOKENS - CACHED_TOKENS) * 3.0 + CACHED_TOKENS * 0.3 + WRITTEN_TOKENS * 15.0) / 1e6
MANNERS = ("answer", "refuse", "filter", "cut")


@dataclass
class StandIn:
    """A stand-in provider, with the formats that the installed versions of the providers' libraries define.

    share: sixteenths of the prompts that get no simple answer.
    storm: statuses of the next responses, whose bodies are no answers.
    ledger: charges by prompt.
    arrivals: arrival times of requests, by this process's clock.
    looks: how often a batch is polled before it ends.
    fates: fates of the next batches, see `Batch`; later batches are whole.
    lost: number of batches whose confirmation of creation does not arrive.
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
    looks: int = 1
    fates: list[str] = field(default_factory=list)
    lost: int = 0
    batches: "list[Batch]" = field(default_factory=list)
    batched: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    last: Asked | None = None
    server: ScriptedServer | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    @property
    def charged(self) -> float:
        """Return the cost of all answers."""
        return COST * (sum(self.ledger.values()) - (1 - BATCH) * self.batched)

    def manner(self, prompt: str) -> str:
        drawn = hashlib.sha256(prompt.encode()).digest()[0] % 16
        return MANNERS[1 + drawn % 3] if drawn < self.share else "answer"

    def answer(self, asked: Asked) -> Answer:
        if re.search(r"/batches|/files", asked.path):
            with self._lock:
                return _Desk(self).answer(asked)
        if asked.document is None:
            return Answer({"error": {"message": "not found"}}, 404)
        now = time.monotonic()
        with self._lock:
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
            time.sleep(self.seconds)  # simulate a slow model
        with self._lock:
            return Answer(self.write(_form(asked.path), prompt))

    def write(self, form: str, prompt: str) -> dict[str, Any]:
        """Record the charge for an answer and return the answer."""
        manner = self.manner(prompt)
        self.manners[prompt] = manner
        self.ledger[prompt] += 1
        renamed = self.renamed_after is not None and sum(self.ledger.values()) > self.renamed_after
        return _FORMS[form](manner, f"{MODEL}-{'2026-11-01' if renamed else '2026-05-13'}")


def _form(path: str) -> str:
    return next(form for form, part in _PARTS.items() if re.search(part, path))


_PARTS = {"openai": "chat/completions", "anthropic": "/messages"}


def _prompt_of(document: Any) -> str:
    return json.dumps(document["messages"], sort_keys=True)


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
            "output_tokens_details": {"thinking_tokens": THOUGHT_TOKENS},
        },
    }


_FORMS = {"openai": _openai, "anthropic": _anthropic}


@dataclass
class Batch:
    """A batch of requests.

    fate: `whole`; `expired` after half of it; `dead` before any result; `missing` every third result; or `full`, if the
    key has too many batches.
    requests: conversations by name.
    """

    id: str
    form: str
    requests: dict[str, Any]
    metadata: Any
    fate: str
    looks: int
    results: list[dict[str, Any]] | None = None
    cancelled: bool = False


class _Desk:
    """The batch services of OpenAI and Anthropic; callers must have the lock."""

    def __init__(self, provider: StandIn) -> None:
        self.provider = provider

    def answer(self, asked: Asked) -> Answer:
        form = "anthropic" if "/messages/" in asked.path else "openai"
        path, _, _ = asked.path.partition("?")
        parts = path.removeprefix("/v1/").removeprefix("messages/").split("/")
        batches = {batch.id: batch for batch in self.provider.batches if batch.form == form}
        match parts:
            case ["files"]:
                name = f"file-{len(self.provider.files)}"
                self.provider.files[name] = asked.document
                return Answer({"id": name, "object": "file", "purpose": "batch", "filename": name, "bytes": 1})
            case ["files", name, "content"]:
                batch = batches[name.removeprefix("output-").removeprefix("errors-")]
                wanted = name.startswith("output-")
                lines = [line for line in batch.results or [] if bool(line["response"]) == wanted]
                return Answer("".join(f"{json.dumps(line)}\n" for line in lines).encode())
            case ["batches"] if asked.document is not None:
                batch = self.make(form, asked.document)
                if self.provider.lost > 0:
                    self.provider.lost -= 1
                    return Answer({"error": {"message": "internal error"}}, 500)
                return Answer(self.shown(batch))
            case ["batches"]:
                listed = [self.shown(self.look(batch)) for batch in reversed(batches.values())]
                return Answer({"object": "list", "data": listed, "has_more": False})
            case ["batches", name, *rest] if name in batches:
                batch = batches[name]
                if rest == ["results"]:
                    return Answer("".join(f"{json.dumps(line)}\n" for line in batch.results or []).encode())
                batch.cancelled = batch.cancelled or rest == ["cancel"]
                return Answer(self.shown(self.look(batch)))
        return Answer({"error": {"message": "not found"}}, 404)

    def make(self, form: str, document: Any) -> Batch:
        if form == "openai":
            file = self.provider.files[document["input_file_id"]]
            lines = [json.loads(line) for line in file.splitlines() if line.startswith(b'{"custom_id"')]
            requests = {line["custom_id"]: line["body"] for line in lines}
        else:
            requests = {request["custom_id"]: request["params"] for request in document["requests"]}
        fate = self.provider.fates.pop(0) if self.provider.fates else "whole"
        name = f"batch_{len(self.provider.batches)}"
        batch = Batch(name, form, requests, document.get("metadata"), fate, self.provider.looks)
        self.provider.batches.append(batch)
        return batch

    def look(self, batch: Batch) -> Batch:
        """Answer a poll of a batch, which brings the batch one step nearer to its end."""
        if batch.looks > 0 and not batch.cancelled:
            batch.looks -= 1
        elif batch.results is None:
            batch.results = [
                line for place, name in enumerate(batch.requests) for line in self.result(batch, place, name)
            ]
        return batch

    def result(self, batch: Batch, place: int, name: str) -> list[dict[str, Any]]:
        if batch.fate == "full" or (batch.fate == "missing" and place % 3 == 0):
            return []
        expired = (
            batch.cancelled or batch.fate == "dead" or (batch.fate == "expired" and 2 * place >= len(batch.requests))
        )
        if expired and batch.form == "openai":
            error = {"code": "batch_expired", "message": "This request could not be executed before the batch expired."}
            return [{"id": "r", "custom_id": name, "response": None, "error": error}]
        if expired:
            return [{"custom_id": name, "result": {"type": "canceled" if batch.cancelled else "expired"}}]
        self.provider.batched += 1
        body = self.provider.write(batch.form, _prompt_of(batch.requests[name]))
        if batch.form == "openai":
            return [{"id": "r", "custom_id": name, "response": {"status_code": 200, "body": body}, "error": None}]
        return [{"custom_id": name, "result": {"type": "succeeded", "message": body}}]

    def shown(self, batch: Batch) -> dict[str, Any]:
        ended, number = batch.results is not None, len(batch.requests)
        if batch.form == "anthropic":
            counts = {"processing": 0 if ended else number, "succeeded": number if ended else 0}
            return {
                "id": batch.id,
                "type": "message_batch",
                "created_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
                "processing_status": "ended" if ended else "in_progress",
                "request_counts": {**counts, "errored": 0, "canceled": 0, "expired": 0},
                # A trap: a client that follows this URL sends the key to another host.
                "results_url": "https://example.org/results",
            }
        status = {"full": "failed", "dead": "expired", "expired": "expired"}.get(batch.fate, "completed")
        full = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "created_at": int(time.time()),
            "metadata": batch.metadata,
            "status": status if ended else "in_progress",
            "errors": {"data": [full]} if ended and batch.fate == "full" else None,
            "output_file_id": f"output-{batch.id}" if ended and batch.fate != "full" else None,
            "error_file_id": f"errors-{batch.id}" if ended and batch.fate != "full" else None,
        }


@contextmanager
def stand_in(**settings: Any) -> Iterator[StandIn]:
    """Start a stand-in on a free port of this machine."""
    provider = StandIn(**settings)
    with serve_scripted_server(provider.answer) as server:
        provider.server = server
        yield provider


def location_of(provider: StandIn, kind: str) -> str:
    """Return the location of a model on a stand-in, for a kind of provider."""
    assert provider.server is not None
    return provider.server.url if kind in ("openai", "azure", "openrouter") else provider.server.url.removesuffix("/v1")


@contextmanager
def slow_server(seconds_per_byte: float) -> Iterator[str]:
    """Yield the URL of a service whose answers arrive byte by byte and never end."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response_only(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            while not over.is_set():
                try:
                    self.wfile.write(b" ")
                except OSError:  # the client has disconnected
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

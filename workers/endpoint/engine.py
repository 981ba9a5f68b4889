"""The engine on an endpoint: the same interface as the local engines, and texts as well.

What cannot be known from outside stays unknown: an endpoint lists the log-probabilities of its most probable tokens
only, cuts prompts into tokens by itself, and shows no weights. So label log-probabilities may be None, labels are found
by their texts, and settings() contains what the server says about itself.
"""

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from registry.errors import ModelError
from registry.logs import log
from registry.revisions.endpoints import Endpoint, canonical_url, find_endpoint, host_of, load_endpoints
from registry.revisions.store import ModelFiles, RevisionRequest
from registry.settings import Settings
from workers.endpoint.answers import (
    Token,
    continuation_logprobs,
    drops_blanks,
    echoed_tokens,
    label_logprobs,
    tokens_used,
    top_tokens,
    written_text,
)
from workers.endpoint.client import EndpointClient, Reply
from workers.endpoint.pacing import Pace
from workers.errors import EngineError, InterruptedScoringError

PROBE: Final = "The capital of France is the city of"
"""An unfinished sentence: what may follow begins with a blank."""
LISTING_ATTEMPTS: Final = 2
"""Asking for the list of models delays a worker's other work, so it is not retried for long."""
STOP_SECONDS: Final = 0.2
"""How often an engine looks whether it should stop, while it waits for answers."""
_SEED_BITS: Final = 31
_META_LENGTH: Final = 20
_LARGEST_META: Final = 1e18


T = TypeVar("T")
R = TypeVar("R")


class Scorable(Protocol):
    """A text and the continuations that are scored after it, one per position."""

    @property
    def text(self) -> str:
        """The text as the model is shown it."""
        ...

    @property
    def continuations(self) -> tuple[str, ...]:
        """By position."""
        ...


@dataclass(frozen=True)
class EndpointPrompt:
    """What is answered with a text.

    text: for the completions service. messages: turns with `role` and `content`, for the chat service, whose server
    writes them down with the model's template; None: the text is used. seed_text: what makes the prompt's seed its own.
    """

    text: str
    seed_text: str
    messages: list[dict[str, str]] | None = None


@dataclass(frozen=True)
class EndpointScores:
    """logprobs[i][p]: log-probability (nats, ≤ 0) of continuation p after prompt i; None where it is unknown.

    tokens_naive, tokens_computed: prompt tokens as the server counts them, with and without those that it says it had
    in its cache; 0 where it does not count.
    """

    logprobs: list[list[float | None]]
    tokens_naive: int
    tokens_computed: int


@dataclass(frozen=True)
class EndpointText:
    """What a model wrote; tokens: of it, None where the server does not count; finished: not cut off at the limit."""

    text: str
    tokens: int | None
    finished: bool


class EndpointEngine:
    """One model on one endpoint.

    budget_tokens: there for the interface; each prompt is a request of its own.
    """

    def __init__(self, client: EndpointClient, location: str, model: str, settings: Settings) -> None:
        self.budget_tokens = 1
        self._client = client
        self._location = location
        self._model = model
        self._in_flight = settings.endpoint_in_flight
        self._top = client.endpoint.top_logprobs or settings.endpoint_top_logprobs
        self._lock = threading.Lock()
        self._said: dict[str, set[str]] = {}
        self._without_blanks: bool | None = None
        self._matched = False
        self._described = _describe(client, location, model)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def settings(self) -> dict[str, object]:
        """What could change a number, as far as the server tells: read it after scoring, when the server has answered.

        server, version, system_fingerprint, served_model: as reported, several joined by ", ". meta: what the list of
        models says of this one. leading_blanks: whether labels were compared with theirs.
        """
        settings: dict[str, object] = {
            "engine": "openai-endpoint",
            "host": host_of(self._location),
            "model": self._model,
            "top_logprobs": self._top,
            **self._described,
        }
        with self._lock:
            settings |= {name: ", ".join(sorted(values)) for name, values in self._said.items()}
        if self._without_blanks is not None:
            settings["leading_blanks"] = "dropped" if self._without_blanks else "kept"
        if self._client.endpoint.openai_parameters_only:
            settings["openai_parameters_only"] = True
        return settings

    def score(self, prompts: Sequence[Scorable], *, should_stop: Callable[[], bool] | None = None) -> EndpointScores:
        """Log-probability of the token that each continuation is; None where it is not among the most probable.

        Raises EngineError when no label of any prompt is found, now or before: this server's tokens are then others
        than the labels. Raises InterruptedScoringError when asked to stop.
        """

        def ask(text: str, stop: threading.Event) -> tuple[list[Token], int, int]:
            document = self._complete(text, stop, max_tokens=1, logprobs=self._top).document
            used = tokens_used(document)
            return top_tokens(document), used.prompt or 0, used.cached

        if self._without_blanks is None:
            [(tokens, _, _)] = self._each([PROBE], ask, should_stop)
            self._without_blanks = drops_blanks(tokens)
            if self._without_blanks:
                log.warning("endpoint_drops_blanks", host=host_of(self._location), model=self._model)
        answers = self._each([prompt.text for prompt in prompts], ask, should_stop)
        logprobs = [
            label_logprobs(tokens, prompt.continuations, without_blanks=self._without_blanks)
            for prompt, (tokens, _, _) in zip(prompts, answers, strict=True)
        ]
        self._matched |= any(value is not None for values in logprobs for value in values)
        if prompts and not self._matched:
            shown = ", ".join(repr(token.text) for token in answers[0][0][:5])
            raise EngineError(
                f"{host_of(self._location)}: none of the labels {list(prompts[0].continuations)} is among the "
                f"{self._top} most probable tokens of any of {len(prompts)} prompts (they begin {shown}); raise "
                "SHUFFLEBOARD_ENDPOINT_TOP_LOGPROBS if the server allows it, or use labels that are one token each"
            )
        naive = sum(used for _, used, _ in answers)
        return EndpointScores(logprobs, naive, naive - sum(cached for _, _, cached in answers))

    def score_continuations(
        self, prompts: Sequence[Scorable], *, should_stop: Callable[[], bool] | None = None
    ) -> EndpointScores:
        """Log-probabilities of whole continuations, summed over their tokens; never None.

        The server is asked to repeat each text with its log-probabilities. Raises EngineError where it does not.
        """

        def ask(text: str, stop: threading.Event) -> tuple[list[Token], int, int]:
            document = self._complete(text, stop, max_tokens=0, logprobs=1, echo=True).document
            tokens, used = echoed_tokens(document), tokens_used(document)
            if tokens is None:
                raise EngineError(
                    f"{host_of(self._location)}: the protocols hybrid and cloze, and NPSQ with them, need "
                    "log-probabilities of whole continuations, which this server does not give; serve the model with "
                    "vLLM, or use symbols"
                )
            return tokens, len(tokens), used.cached

        # Equal options and equal prompts are asked once.
        texts = list(dict.fromkeys(text for prompt in prompts for text in _wholes(prompt)))
        answers = dict(zip(texts, self._each(texts, ask, should_stop), strict=True))
        logprobs: list[list[float | None]] = []
        for prompt in prompts:
            alone, *wholes = [answers[text][0] for text in _wholes(prompt)]
            logprobs.append([*continuation_logprobs(alone, wholes)])
        naive = sum(used for _, used, _ in answers.values())
        return EndpointScores(logprobs, naive, naive - sum(cached for _, _, cached in answers.values()))

    def generate(
        self,
        prompts: Sequence[EndpointPrompt],
        generation: Mapping[str, Any],
        should_stop: Callable[[], bool] | None = None,
    ) -> list[EndpointText]:
        """What the model writes after each prompt.

        generation: `sampling`, `temperature`, `top_k`, `top_p`, `min_p`, `seed`, `max_tokens`, `stop`, as protocols
        give them. An endpoint shows no generation configuration of its model, so `model` means the given values.
        """

        def ask(prompt: EndpointPrompt, stop: threading.Event) -> EndpointText:
            parameters = self._parameters(generation, prompt.seed_text)
            if prompt.messages is None:
                document = self._request("completions", {"prompt": prompt.text, **parameters}, stop).document
            else:
                document = self._request("chat/completions", {"messages": prompt.messages, **parameters}, stop).document
            text, finished = written_text(document)
            return EndpointText(text, tokens_used(document).written, finished)

        return self._each(prompts, ask, should_stop)

    def _parameters(self, generation: Mapping[str, Any], seed_text: str) -> dict[str, Any]:
        digest = hashlib.sha256(f"{generation['seed']}:{seed_text}".encode()).digest()
        parameters: dict[str, Any] = {
            "max_tokens": int(generation["max_tokens"]),
            "seed": int.from_bytes(digest[:4], "big") >> (32 - _SEED_BITS),  # servers take signed 32-bit numbers
        }
        if generation["stop"]:
            parameters["stop"] = list(generation["stop"])
        if generation["sampling"] == "greedy":
            return parameters | {"temperature": 0}
        parameters |= {"temperature": float(generation["temperature"]), "top_p": float(generation["top_p"])}
        if not self._client.endpoint.openai_parameters_only:
            parameters |= {"top_k": int(generation["top_k"]), "min_p": float(generation["min_p"])}
        return parameters

    def _complete(self, text: str, stop: threading.Event, **parameters: Any) -> Reply:
        # Temperature 0: the token that is written, which some servers add to the list, is then at its top already.
        return self._request("completions", {"prompt": text, "temperature": 0, **parameters}, stop)

    def _request(self, service: str, document: Mapping[str, Any], stop: threading.Event) -> Reply:
        reply = self._client.post(f"{self._location}/{service}", {"model": self._model, **document}, stop=stop)
        said = {
            "server": reply.server,
            "system_fingerprint": reply.document.get("system_fingerprint"),
            "served_model": reply.document.get("model"),
        }
        with self._lock:
            for name, value in said.items():
                if isinstance(value, str) and value:
                    self._said.setdefault(name, set()).add(self._client.clean(value))
        return reply

    def _each(
        self, asked: Sequence[T], ask: Callable[[T, threading.Event], R], should_stop: Callable[[], bool] | None
    ) -> list[R]:
        """Asks for each in turn, several at once, and gives the answers in order; the first error ends it."""
        stop = threading.Event()
        pool = ThreadPoolExecutor(self._in_flight, thread_name_prefix="endpoint")
        try:
            futures: list[Future[R]] = [pool.submit(ask, one, stop) for one in asked]
            waiting: set[Future[R]] = set(futures)
            while waiting:
                if should_stop is not None and should_stop():
                    raise InterruptedScoringError
                done, waiting = wait(waiting, STOP_SECONDS, FIRST_EXCEPTION)
                for future in done:
                    future.result()
            return [future.result() for future in futures]
        finally:
            # Not waited for: an answer that nobody needs any more may take as long as it likes.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _wholes(prompt: Scorable) -> list[str]:
    """The prompt alone and with each continuation."""
    if not prompt.continuations:
        raise EngineError("a prompt has no continuation to score")
    return [prompt.text, *(prompt.text + continuation for continuation in prompt.continuations)]


def open_endpoint(
    location: str,
    model: str,
    key_reference: str | None,
    settings: Settings,
    pace_of: Callable[[Endpoint], Pace] | None = None,
) -> EndpointEngine:
    """The engine for a model at a location, checked against the endpoints of this process: no database row is trusted.

    model: its name on the server. key_reference: the endpoint whose key is expected to go there, or None. pace_of: the
    limits of an endpoint's key; None: it has none.
    Raises ModelError where the location is on no endpoint or the key is missing, EngineError where the server cannot be
    asked or does not serve the model.
    """
    location, client = _connect(location, key_reference, settings, pace_of)
    try:
        return EndpointEngine(client, location, model, settings)
    except BaseException:
        client.close()
        raise


def inspect_endpoint(request: RevisionRequest, settings: Settings) -> ModelFiles:
    """Asks whether an endpoint serves the model that a request names; there are no files to hash.

    Raises ModelError with the reason where it does not.
    """
    assert request.location is not None
    assert request.revision is not None
    location, client = _connect(request.location, request.key_reference, settings)
    try:
        if client.endpoint.provider is not None:
            from workers.providers import inspect_provider

            inspect_provider(client.endpoint, location, settings)
            return ModelFiles(None, None, None)
        _describe(client, location, request.revision)
    except EngineError as error:
        raise ModelError(str(error)) from None
    finally:
        client.close()
    return ModelFiles(None, None, None)


def _connect(
    location: str,
    key_reference: str | None,
    settings: Settings,
    pace_of: Callable[[Endpoint], Pace] | None = None,
) -> tuple[str, EndpointClient]:
    location = canonical_url(location)
    endpoint = find_endpoint(load_endpoints(settings.endpoints), location, key_reference)
    return location, EndpointClient(endpoint, settings, None if pace_of is None else pace_of(endpoint))


def _describe(client: EndpointClient, location: str, model: str) -> dict[str, object]:
    """What a server says about itself and a model: `version` and `meta`, where it does.

    Raises EngineError when it does not serve the model.
    """
    listed = client.get(f"{location}/models", attempts=LISTING_ATTEMPTS).document.get("data")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    found = next((entry for entry in entries if model in _names(entry)), None)
    if found is None:
        known = ", ".join(client.clean(str(entry.get("id"))) for entry in entries[:_META_LENGTH]) or "none"
        raise EngineError(
            f"{host_of(location)}: does not serve the model {model!r} (it lists: {known}); correct --revision"
        )
    described: dict[str, object] = {}
    meta = found.get("meta")
    if isinstance(meta, dict):
        plain = {key: value for key, value in meta.items() if isinstance(value, str) or _is_number(value)}
        described["meta"] = {
            client.clean(key): client.clean(value) if isinstance(value, str) else value
            for key, value in list(plain.items())[:_META_LENGTH]
        }
    version = _version(client, location)
    return described | ({"version": version} if version else {})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and -_LARGEST_META <= value <= _LARGEST_META


def _names(entry: Mapping[str, Any]) -> list[Any]:
    aliases = entry.get("aliases")
    return [entry.get("id"), *(aliases if isinstance(aliases, list) else [])]


def _version(client: EndpointClient, location: str) -> str | None:
    """The version of vLLM, which stands beside the service; None where it is not given or not ours to ask."""
    parts = urlsplit(location)
    url = f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('/v1')}/version"
    if not client.endpoint.covers(url):
        return None
    try:
        version = client.get(url, attempts=1).document.get("version")
    except EngineError:
        return None
    return client.clean(version) if isinstance(version, str) else None

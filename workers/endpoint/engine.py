"""The engine on an endpoint: the interface of the local engines, which also writes texts.

vLLM and SGLang return exactly the wanted tokens (`exact.py`). Other servers list the log-probabilities of their most
probable tokens only and tokenise prompts themselves, so label log-probabilities may be None, and labels are found by
their texts. No server shows its weights; settings() contains its description of itself.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from registry.digests import specification_digest
from registry.errors import ModelError
from registry.process_log import log
from registry.queue.thinking import Shown
from registry.revisions.endpoints import Endpoint, canonical_url, find_endpoint, host_of, load_endpoints
from registry.revisions.store import ModelFiles, RevisionRequest
from registry.settings import Settings
from workers.endpoint.answers import (
    MissingTokenError,
    Token,
    continuation_logprobs,
    drops_blanks,
    label_logprobs,
    read_echoed_tokens,
    tokens_used,
    top_tokens,
)
from workers.endpoint.backpressure import Backpressure
from workers.endpoint.client import EndpointClient, Reply, most_in_flight
from workers.endpoint.exact import (
    AllowedTokenIds,
    Each,
    Echo,
    ExactTokens,
    Generate,
    LogprobTokenIds,
    Scored,
    Tokenizer,
    Way,
    find_exact,
)
from workers.endpoint.outputs import Answered
from workers.endpoint.pacing import Pace
from workers.endpoint.writing import LLAMA_CPP, SGLANG, VLLM, Asked, EndpointPrompt, Writing, render_conversation
from workers.errors import EngineError, InterruptedScoringError
from workers.thoughts import runs_of_repeats
from workers.tokens import Continued
from workers.written import Keep, Written, forget

HELLO: Final = {"role": "user", "content": "Hello"}
"""A turn that a server renders, to show the effect of a setting on its template."""
PROBE: Final = "The capital of France is the city of"
"""An unfinished sentence: its continuations begin with a blank."""
TRIED_LOGPROBS: Final = 20
"""Number of tokens that a server has to list in the test; vLLM refuses more by default."""
LISTING_ATTEMPTS: Final = 2
"""Attempts for the list of models, few since it delays a worker's other work."""
SAID_IN_ANSWERS: Final = ("server", "system_fingerprint", "served_model")
"""Settings that a server reports in each of its answers."""
STOP_SECONDS: Final = 0.2
"""Seconds between two checks of `should_stop` while waiting for answers."""
_META_LENGTH: Final = 20
_LARGEST_META: Final = 1e18


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class EndpointScores:
    """Log-probabilities of continuations.

    logprobs[i][p]: nats, at most 0, of continuation p after prompt i; None if unknown.
    tokens_naive, tokens_computed: prompt tokens as the server counts them, with and without those in its cache; 0 if it
    does not count.
    """

    logprobs: list[list[float | None]]
    tokens_naive: int
    tokens_computed: int


@dataclass(frozen=True)
class EndpointTexts:
    """A model's texts; the tokens of the prompts, and the computed ones among them, as the server counts them."""

    written: list[Written]
    prompt_tokens: int
    computed_tokens: int


class EndpointEngine:
    """One model on one endpoint.

    budget_tokens: required by the interface, without effect, since each prompt is a separate request.
    """

    def __init__(self, client: EndpointClient, location: str, model: str, settings: Settings) -> None:
        self.budget_tokens = 1
        self._client = client
        self._location = location
        self._model = model
        self._most = most_in_flight(settings)
        self._top = client.endpoint.top_logprobs or settings.endpoint_top_logprobs
        self._lock = threading.Lock()
        self._said: dict[str, set[str]] = {}
        self._without_blanks: bool | None = None
        self._matched = False
        self._exact: ExactTokens | None = None
        self._tried = False
        self._described = _describe(client, location, model)
        software = self._described.pop("software", None)
        self.software = software if isinstance(software, str) else None
        self._writing: dict[str, Writing] = {}
        self._note("version", self._described.pop("version", None))
        self._backpressure = Backpressure(self._figures, settings.endpoint_in_flight, self._most)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def begin(self) -> None:
        """Forget the settings that the server reported in earlier answers, so that each shard records its own."""
        with self._lock:
            for name in SAID_IN_ANSWERS:
                self._said.pop(name, None)

    def settings(self) -> dict[str, object]:
        """Return the settings that could change a number, as far as the server shows them; call it after scoring.

        server, version, system_fingerprint, served_model: as reported since `begin`, several joined by ", ".
        served_model_changed: there are several. meta: the entry in the list of models. labels, continuations, tokens:
        the requests for chosen tokens. leading_blanks: without such requests, whether labels were matched with their
        blanks.
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
            if len(self._said.get("served_model", ())) > 1:
                settings["served_model_changed"] = True
        if self._exact is not None:
            settings |= self._exact.settings()
        elif self._without_blanks is not None:
            settings["leading_blanks"] = "dropped" if self._without_blanks else "kept"
        if self._client.endpoint.openai_parameters_only:
            settings["openai_parameters_only"] = True
        return settings

    def score(self, prompts: Sequence[Continued], *, should_stop: Callable[[], bool] | None = None) -> EndpointScores:
        """Return the log-probability of the token of each continuation.

        None for a token that is not among the most probable ones of a server without requests for chosen tokens. Raises
        EngineError if no label of any prompt has been found so far: the server's tokens then differ from the labels.
        Raises InterruptedScoringError if `should_stop` returns True.
        """
        self._try_exact(should_stop)
        if self._exact is not None:
            return self._ask_exactly(self._exact.score, prompts, should_stop)

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
        self, prompts: Sequence[Continued], *, should_stop: Callable[[], bool] | None = None
    ) -> EndpointScores:
        """Return log-probabilities of whole continuations, summed over their tokens; never None.

        A server without requests for chosen tokens has to repeat each text with its log-probabilities. Raises
        EngineError if it does not.
        """
        self._try_exact(should_stop)
        if self._exact is not None:
            return self._ask_exactly(self._exact.score_continuations, prompts, should_stop)

        def ask(text: str, stop: threading.Event) -> tuple[list[Token], int, int]:
            document = self._complete(text, stop, max_tokens=0, logprobs=1, echo=True).document
            tokens, used = read_echoed_tokens(document), tokens_used(document)
            if tokens is None:
                raise EngineError(
                    f"{host_of(self._location)}: the protocols hybrid and cloze, and NPSQ with them, need "
                    "log-probabilities of whole continuations, which this server does not give; serve the model with "
                    "vLLM, or use symbols"
                )
            return tokens, len(tokens), used.cached

        # Equal options and equal prompts are requested once.
        texts = list(dict.fromkeys(text for prompt in prompts for text in _wholes(prompt)))
        answers = dict(zip(texts, self._each(texts, ask, should_stop), strict=True))
        logprobs: list[list[float | None]] = []
        for prompt in prompts:
            alone, *wholes = [answers[text][0] for text in _wholes(prompt)]
            logprobs.append([*continuation_logprobs(alone, wholes)])
        naive = sum(used for _, used, _ in answers.values())
        return EndpointScores(logprobs, naive, naive - sum(cached for _, _, cached in answers.values()))

    def _ask_exactly(
        self,
        score: Callable[[Sequence[Continued], Each], Scored],
        prompts: Sequence[Continued],
        should_stop: Callable[[], bool] | None,
    ) -> EndpointScores:
        try:
            scored = score(prompts, partial(self._each, should_stop=should_stop))
        except MissingTokenError as error:
            self._exact, self._tried = None, False  # a server that has changed is tried again before the next shard
            raise EngineError(f"{host_of(self._location)}: {error}") from None
        self._note("version", _version(self._client, self._location, self.software))
        return EndpointScores([[*values] for values in scored.logprobs], scored.tokens_naive, scored.tokens_computed)

    def _try_exact(self, should_stop: Callable[[], bool] | None) -> None:
        """Test once whether the server accepts requests for chosen tokens, and in which form."""
        if self._tried or not (ways := self._ways()):
            return

        def find(sentence: str, stop: threading.Event) -> ExactTokens | None:
            few = min(self._top, TRIED_LOGPROBS)
            listed = top_tokens(self._complete(sentence, stop, max_tokens=1, logprobs=few).document)
            return find_exact(self._tokenizers(), ways, sentence, listed, self._backpressure.block_tokens, stop)

        [self._exact] = self._each([PROBE], find, should_stop)
        self._tried = True
        where = {"host": host_of(self._location), "model": self._model, "software": self.software}
        if self._exact is None:
            log.warning("endpoint_not_exact", **where)
        else:
            log.info("endpoint_exact", **where, **self._exact.settings())

    def _ways(self) -> list[Way]:
        """Return the forms of requests for chosen tokens that this software may accept, the best first."""
        if self._client.endpoint.openai_parameters_only:
            return []
        if self.software == SGLANG:
            url = _make_service_url(self._location, "generate")
            return [Generate(self._ask, url)] if self._client.endpoint.covers(url) else []
        if self.software == VLLM:
            url = f"{self._location}/completions"
            return [kind(self._ask, self._model, url) for kind in (LogprobTokenIds, AllowedTokenIds, Echo)]
        return []

    def _tokenizers(self) -> list[Tokenizer]:
        """Return the clients for this server's tokenizer to try, the cheapest first."""
        routes = [_make_service_url(self._location, "tokenize"), f"{self._location}/tokenize"]
        covered = [url for url in dict.fromkeys(routes) if self._client.endpoint.covers(url)]
        tokenizers = [Tokenizer(self._ask, self._model, url, completes=False) for url in covered]
        completions = Tokenizer(self._ask, self._model, f"{self._location}/completions", completes=True)
        return [*tokenizers, completions] if self.software == VLLM else tokenizers

    def _figures(self) -> str | None:
        """Return the server's /metrics; None for software other than vLLM and SGLang."""
        has_metrics = self.software in (VLLM, SGLANG)
        return self._client.text(_make_service_url(self._location, "metrics")) if has_metrics else None

    def _ask(self, url: str, document: Mapping[str, Any], stop: threading.Event) -> Mapping[str, Any]:
        return self._send(url, document, stop).document

    def generate(
        self,
        prompts: Sequence[EndpointPrompt],
        definition: Mapping[str, Any],
        should_stop: Callable[[], bool] | None = None,
        keep: Keep = forget,
    ) -> EndpointTexts:
        """Return the model's text after each prompt, under a protocol's definition.

        keep: receives each text as soon as it arrives. An endpoint shows no generation configuration of its model, so
        sampling `model` uses the given values.
        """
        digest = specification_digest(definition)
        writing = self._writing.setdefault(digest, Writing(self, definition))
        places = [[place] for place in range(len(prompts))]
        if writing.several:
            keys = [(f"{prompt.seed_text}\0{prompt.text}", prompt.repeat) for prompt in prompts]
            places = runs_of_repeats(keys)
        written_texts: dict[int, Written] = {}

        def ask(run: list[int], stop: threading.Event) -> Asked:
            return writing.write([prompts[place] for place in run], stop)

        def take(number: int, asked: Asked) -> None:
            for place, written in zip(places[number], asked.written, strict=True):
                written_texts[place] = written
                keep(place, written)

        batches = self._each(places, ask, should_stop, take)
        return EndpointTexts(
            [writing.as_opened(written_texts[place]) for place in range(len(prompts))],
            sum(batch.prompt for batch in batches),
            sum(batch.computed for batch in batches),
        )

    def request_answer(self, service: str, document: Mapping[str, Any], stop: threading.Event) -> Answered:
        """Return the streamed answer of a service of the OpenAI protocol."""
        url = f"{self._location}/{service}"
        taken, reply = self._client.stream(url, {"model": self._model, **document}, Answered, stop=stop)
        self._note_reply(reply)
        for choice in taken.choices.values():
            choice.text = [self._client.without_key("".join(choice.text))]
            choice.reasoning = [self._client.without_key("".join(choice.reasoning))]
        return taken

    def request_native(
        self, service: str, document: Mapping[str, Any], stop: threading.Event
    ) -> Mapping[str, Any] | None:
        """Return the answer of a service outside the OpenAI protocol; None if the endpoint does not have it."""
        return _request_native(self._client, self._location, self._model, service, document, stop)

    @property
    def openai_parameters_only(self) -> bool:
        """Return whether requests may have only parameters of the OpenAI protocol."""
        return self._client.endpoint.openai_parameters_only

    def _complete(self, text: str, stop: threading.Event, **parameters: Any) -> Reply:
        # Temperature 0: the token that is written, which some servers add to the list, is then at its top already.
        return self._request("completions", {"prompt": text, "temperature": 0, **parameters}, stop)

    def _request(self, service: str, document: Mapping[str, Any], stop: threading.Event) -> Reply:
        return self._send(f"{self._location}/{service}", {"model": self._model, **document}, stop)

    def _send(self, url: str, document: Mapping[str, Any], stop: threading.Event) -> Reply:
        reply = self._client.post(url, document, stop=stop)
        self._note_reply(reply)
        return reply

    def _note_reply(self, reply: Reply) -> None:
        statements = (reply.server, reply.document.get("system_fingerprint"), reply.document.get("model"))
        for name, value in zip(SAID_IN_ANSWERS, statements, strict=True):
            self._note(name, value)

    def _note(self, name: str, value: object) -> None:
        if isinstance(value, str) and value:
            with self._lock:
                self._said.setdefault(name, set()).add(self._client.clean(value))

    def _each(
        self,
        asked: Sequence[T],
        ask: Callable[[T, threading.Event], R],
        should_stop: Callable[[], bool] | None,
        take: Callable[[int, R], None] = lambda _place, _answer: None,
    ) -> list[R]:
        """Send several requests at once and return the answers in order; the first error stops the others.

        take: receives each answer with its place as soon as it arrives, in the calling thread.
        """
        stop = threading.Event()
        pool = ThreadPoolExecutor(self._most, thread_name_prefix="endpoint")
        futures: list[Future[R]] = []
        place_of: dict[Future[R], int] = {}
        open_now: set[Future[R]] = set()
        try:
            while open_now or len(futures) < len(asked):
                if should_stop is not None and should_stop():
                    raise InterruptedScoringError
                room = self._backpressure.limit() - len(open_now)
                begun = [pool.submit(ask, request, stop) for request in asked[len(futures) :][: max(room, 0)]]
                place_of |= {future: len(futures) + number for number, future in enumerate(begun)}
                futures += begun
                done, open_now = wait(open_now.union(begun), STOP_SECONDS, FIRST_COMPLETED)
                for future in sorted(done, key=place_of.__getitem__):
                    take(place_of[future], future.result())
            return [future.result() for future in futures]
        finally:
            # Do not wait: an answer that is no longer needed may take any time.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _wholes(prompt: Continued) -> list[str]:
    """Return the prompt alone, then the prompt with each continuation."""
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
    """Open the engine for a model at a location, checked against this process's endpoints, not the database's.

    model: the model's name on the server. key_reference: the endpoint whose key is expected to be used, or None.
    pace_of: returns the limits of an endpoint's key; None for no limits. Raises ModelError if the location is on no
    endpoint or the key is missing, EngineError if the server does not answer or does not serve the model.
    """
    location, client = _connect(location, key_reference, settings, pace_of)
    try:
        return EndpointEngine(client, location, model, settings)
    except BaseException:
        client.close()
        raise


def inspect_endpoint(request: RevisionRequest, settings: Settings) -> ModelFiles:
    """Check that an endpoint serves the requested model; there are no files to hash.

    Raises ModelError with the reason if it does not.
    """
    assert request.location is not None
    assert request.revision is not None
    location, client = _connect(request.location, request.key_reference, settings)
    try:
        if client.endpoint.provider is not None:
            from workers.providers import inspect_provider

            inspect_provider(client.endpoint, location, settings)
            return ModelFiles(None, None, None)
        software = _describe(client, location, request.revision).get("software")
        shown = _read_shown(client, location, request.revision, software if isinstance(software, str) else None)
    except EngineError as error:
        raise ModelError(str(error)) from None
    finally:
        client.close()
    return ModelFiles(None, None, None, thinking=None if shown is None else shown.document())


def _read_shown(client: EndpointClient, location: str, model: str, software: str | None) -> Shown | None:
    """Return which settings of thinking change a server's rendering; None if it does not show its rendering."""

    def render_greeting(**arguments: Any) -> str | None:
        return render_conversation(partial(_request_native, client, location, model), software, [HELLO], arguments)

    plain = render_greeting()
    if plain is None:
        return None
    return Shown(
        switch=render_greeting(enable_thinking=True, thinking=True)
        != render_greeting(enable_thinking=False, thinking=False),
        effort=render_greeting(reasoning_effort="low") != render_greeting(reasoning_effort="high"),
        budget=render_greeting(thinking_budget=512) != render_greeting(thinking_budget=4096),
        continues=True,
    )


def _request_native(
    client: EndpointClient,
    location: str,
    model: str,
    service: str,
    document: Mapping[str, Any],
    stop: threading.Event | None = None,
) -> Mapping[str, Any] | None:
    """Return the answer of a service outside the OpenAI protocol; None if the server lacks it or it is not covered."""
    url = _make_service_url(location, service)
    if not client.endpoint.covers(url):
        return None
    try:
        return client.post(url, {"model": model, **document}, stop=stop, attempts=1).document
    except EngineError:
        return None


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
    """Return a server's `version` and the `meta` of a model, as far as the server states them.

    Raises EngineError if the server does not serve the model.
    """
    listed = client.get(f"{location}/models", attempts=LISTING_ATTEMPTS).document.get("data")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    served = next((entry for entry in entries if model in _names(entry)), None)
    if served is None:
        served_names = ", ".join(client.clean(str(entry.get("id"))) for entry in entries[:_META_LENGTH]) or "none"
        raise EngineError(
            f"{host_of(location)}: does not serve the model {model!r} (it lists: {served_names}); correct --revision"
        )
    owner = served.get("owned_by")
    described: dict[str, object] = {"software": owner} if owner in (VLLM, SGLANG, LLAMA_CPP) else {}
    meta = served.get("meta")
    if isinstance(meta, dict):
        plain = {key: value for key, value in meta.items() if isinstance(value, str) or _is_number(value)}
        described["meta"] = {
            client.clean(key): client.clean(value) if isinstance(value, str) else value
            for key, value in list(plain.items())[:_META_LENGTH]
        }
    version = _version(client, location, described.get("software"))
    return described | ({"version": version} if version else {})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and -_LARGEST_META <= value <= _LARGEST_META


def _names(entry: Mapping[str, Any]) -> list[Any]:
    aliases = entry.get("aliases")
    return [entry.get("id"), *(aliases if isinstance(aliases, list) else [])]


def _make_service_url(location: str, service: str) -> str:
    """Return the URL of a service outside the OpenAI protocol."""
    return f"{location.removesuffix('/v1')}/{service}"


def _version(client: EndpointClient, location: str, software: object) -> str | None:
    """Return the version of vLLM or SGLang; None if the server does not state it or its URL is outside the endpoint."""
    url = _make_service_url(location, "server_info" if software == SGLANG else "version")
    if not client.endpoint.covers(url):
        return None
    try:
        version = client.get(url, attempts=1).document.get("version")
    except EngineError:
        return None
    return client.clean(version) if isinstance(version, str) else None

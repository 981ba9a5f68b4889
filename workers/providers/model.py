"""A provider's model that answers a shard's prompts and never requests an answered prompt again."""

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, Final

from sqlalchemy import Engine

from registry.db import read_session, write_session
from registry.errors import ModelError
from registry.packages import install_command
from registry.predictions.prompts import ShardPrompt
from registry.prompting.prompts import Prompt
from registry.prompting.thoughts import Finish, Output, thinking_of
from registry.providers import budgets, calls
from registry.providers.prices import Price, load_prices
from registry.queue.claims import Claim, is_of
from registry.revisions.endpoints import Endpoint, canonical_url, find_endpoint, host_of, load_endpoints
from registry.settings import Settings
from workers.asking import Scores, turns_of
from workers.endpoint.client import read_key
from workers.endpoint.engine import STOP_SECONDS
from workers.endpoint.pacing import CHARACTERS_PER_TOKEN, retry_after
from workers.errors import EngineError, InterruptedScoringError
from workers.pace import IDLE_SECONDS, SharedPace
from workers.providers.answers import Answer, Api, BatchApi, RefusedRequestError, Wanted
from workers.providers.asked import Asked, Attempts, values_of
from workers.providers.batches import Batches
from workers.providers.transport import connect
from workers.seeds import seed_number
from workers.written import Keep, ShouldStop, Written, forget

BUDGET_POLL_SECONDS: Final = 0.5


def open_provider(location: str, model: str, engine: Engine, settings: Settings) -> "ProviderModel":
    """Open the model at a location, checked against the endpoints of this process.

    Raises ModelError if the location is on no endpoint, the key is missing, or the libraries are not installed.
    """
    location = canonical_url(location)
    endpoint = find_endpoint(load_endpoints(settings.endpoints), location)
    return ProviderModel(endpoint, location, model, engine, settings)


def inspect_provider(endpoint: Endpoint, location: str, settings: Settings) -> None:
    """Check that requests to a provider are possible. The first request shows whether it serves a model.

    Raises ModelError if the key is missing or the libraries are not installed.
    """
    _api(endpoint, location, read_key(endpoint), settings).close()


def _api(
    endpoint: Endpoint,
    location: str,
    key: str | None,
    settings: Settings,
    heed: Callable[[Mapping[str, str]], None] | None = None,
) -> Api:
    """Connect to the provider's API. heed: receives the headers of every answer."""
    provider = endpoint.provider
    assert provider is not None
    try:
        if provider == "anthropic":
            from workers.providers.anthropic_api import AnthropicApi

            return AnthropicApi(location, key, connect(endpoint, key, settings, heed))
        from workers.providers.openai_api import OpenAIApi

        return OpenAIApi(provider, location, key, connect(endpoint, key, settings, heed))
    except ModuleNotFoundError as error:
        raise ModelError(
            f"endpoint {endpoint.name}: asking {provider} needs the package {error.name}; install it for every worker: "
            f"{install_command(str(error.name))}"
        ) from None


_FINISHED: Final[Mapping[str | None, Finish]] = {
    "complete": "stop",
    "cut-off": "length",
    "refused": "refused",
    "filtered": "refused",
}
"""The finish that the outcome of a call determines."""


class ProviderModel:
    """A model that a provider serves. Call `begin` before each shard.

    budget_tokens: part of the interface; each prompt is a request of its own.
    """

    reusable: Final = False
    journals: Final = True

    def __init__(self, endpoint: Endpoint, location: str, model: str, engine: Engine, settings: Settings) -> None:
        self.budget_tokens = 1
        self._endpoint = endpoint
        self._host = host_of(location)
        self._model = model
        self._engine = engine
        self._settings = settings
        self._key = read_key(endpoint)
        self._pace = SharedPace(engine, endpoint)
        # The limits in answers of a batch service apply to batches.
        self._api = _api(endpoint, location, self._key, settings, None if endpoint.batch else self._pace.heed)
        self._attempts = Attempts(endpoint, self._host, self._key, settings)
        self._claim: Claim | None = None
        self._said: dict[str, object] = {}

    def begin(self, claim: Claim) -> None:
        """Set the shard whose prompts follow."""
        self._claim = claim

    def score(self, items: Sequence[ShardPrompt], *, whole: bool, should_stop: ShouldStop) -> Scores:  # noqa: ARG002
        """Raise EngineError: providers return too few log-probabilities, or none."""
        raise EngineError(
            f"endpoint {self._endpoint.name}: {self._endpoint.provider} gives written answers only; use a protocol "
            "that generates text"
        )

    def write(
        self,
        items: Sequence[ShardPrompt],
        seeds: Sequence[str],
        definition: Mapping[str, Any],
        should_stop: ShouldStop,
        keep: Keep = forget,  # noqa: ARG002 - calls are stored as they are answered
    ) -> tuple[list[Written], int, int]:
        """Return the model's text for each prompt, requesting only those without a stored answer.

        Raises EngineError if a request fails finally, and InterruptedScoringError on a stop, while a batch is in
        progress, or when a budget is reached, which also pauses the evaluation. Earlier answers are stored.
        """
        assert self._claim is not None
        generation = definition["generation"]
        claim, keys = self._claim, [(item.question_id, item.variant.ordinal) for item in items]
        with write_session(self._engine, IDLE_SECONDS) as session:
            journal = calls.open_journal(session, claim.shard_id, is_of(claim), claim.evaluation_id, keys)
        price = self._price(in_batch=self._endpoint.batch)
        asking = [
            Asked(journal, key, _messages(item.prompt), self._make_wanted(generation, seed, item.variant.repeat), price)
            for item, seed, key in zip(items, seeds, keys, strict=True)
        ]
        try:
            self._wait_for_answers(asking, should_stop)
        except budgets.BudgetReachedError as error:
            with write_session(self._engine, IDLE_SECONDS) as session:
                budgets.pause(session, claim.evaluation_id, error.full)
            raise InterruptedScoringError from None
        except calls.LostClaimError:
            raise InterruptedScoringError from None
        with read_session(self._engine) as session:
            stored_answers = calls.answers(session, claim.evaluation_id, keys)
        statements = {
            name: {value for call in stored_answers.values() if (value := getattr(call, name))}
            for name in ("served_model", "system_fingerprint")
        }
        self._said = {name: ", ".join(sorted(values)) for name, values in statements.items()}
        self._said["served_model_changed"] = len(statements["served_model"]) > 1
        tokens = sum((call.prompt_tokens or 0) + (call.written_tokens or 0) for call in stored_answers.values())
        written = [
            Written(
                Output(call.text or "", call.reasoning, _FINISHED[call.outcome]),
                call.written_tokens,
                call.reasoning_tokens,
            )
            for call in (stored_answers[key] for key in keys)
        ]
        return written, tokens, tokens

    def _wait_for_answers(self, asking: Sequence[Asked], should_stop: ShouldStop) -> None:
        """Wait until each prompt has an answer. asking: all prompts of a shard."""
        journal = asking[0].journal
        while True:
            with read_session(self._engine) as session:
                batch = calls.open_batch(session, journal.shard_id)
                answered = calls.answers(session, journal.evaluation_id, [prompt.key for prompt in asking])
            left = [prompt for prompt in asking if prompt.key not in answered]
            if batch is not None:  # even if the endpoint no longer uses batches
                self._batches(asking[0], should_stop).collect(journal, batch)
            elif not left:
                return
            elif self._endpoint.batch:
                self._batches(asking[0], should_stop).submit(left)
            else:
                self._all(left, should_stop)

    def _batches(self, asked: Asked, should_stop: ShouldStop) -> Batches:
        if not isinstance(self._api, BatchApi):
            raise EngineError(
                f"endpoint {self._endpoint.name}: the shard waits for a batch, which {self._endpoint.provider} does "
                "not have; name the provider that it was submitted to"
            )
        return Batches(
            self._engine,
            self._api,
            self._model,
            self._price(in_batch=True),
            asked.wanted.stop,
            self._attempts,
            self._settings,
            should_stop,
        )

    def _price(self, *, in_batch: bool) -> Price | None:
        price = load_prices(self._settings.prices).find(self._endpoint.provider or "", self._model)
        return price.in_batch() if price is not None and in_batch else price

    def _make_wanted(self, generation: Mapping[str, Any], seed: str, repeat: int) -> Wanted:
        greedy, thinking = generation["sampling"] == "greedy", thinking_of(generation)
        reasoning = self._endpoint.thinking_tokens(self._model)
        if isinstance(thinking.effort, int):
            reasoning = thinking.effort
        return Wanted(
            max_tokens=int(generation["max_tokens"]),
            reasoning_tokens=None if thinking.thinking == "off" else reasoning,
            temperature=0.0 if greedy else float(generation["temperature"]),
            top_p=None if greedy else float(generation["top_p"]),
            top_k=None if greedy else int(generation["top_k"]),
            seed=seed_number(int(generation["seed"]), seed, repeat),
            stop=tuple(generation["stop"]),
            adaptive=self._endpoint.thinks_adaptively(self._model),
            effort=thinking.effort if isinstance(thinking.effort, str) else None,
            off=thinking.thinking == "off",
        )

    def _all(self, asking: Sequence[Asked], should_stop: ShouldStop) -> None:
        """Request all prompts, several at once. After an error, wait for the open requests and raise it."""
        stop = threading.Event()
        with ThreadPoolExecutor(self._settings.endpoint_in_flight, thread_name_prefix="provider") as pool:
            futures: list[Future[None]] = [pool.submit(self._ask, prompt, stop) for prompt in asking]
            waiting = set(futures)
            try:
                while waiting:
                    if should_stop():
                        raise InterruptedScoringError
                    done, waiting = wait(waiting, STOP_SECONDS, FIRST_EXCEPTION)
                    for future in done:
                        future.result()
            finally:
                # Open requests are already paid for: wait for their answers and store them.
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                while any(future.running() for future in futures):
                    should_stop()
                    wait([future for future in futures if future.running()], STOP_SECONDS)

    def _ask(self, asked: Asked, stop: threading.Event) -> None:
        """Request an answer and store it. Raises EngineError if there is none after the last attempt."""

        def pause(seconds: float) -> None:
            if stop.wait(max(0.0, seconds)):
                raise InterruptedScoringError

        reserved = len(asked.text) // CHARACTERS_PER_TOKEN + asked.wanted.most_tokens
        for attempt in itertools.count(1):
            self._pace.turn(reserved, pause)
            call_id = self._begin(asked, pause)
            try:
                answer = self._answer(asked)
            except RefusedRequestError as error:
                # An error from the provider costs nothing; the cost of a lost request is unknown.
                cost = None if error.status is None else 0.0
                with write_session(self._engine, IDLE_SECONDS) as session:
                    calls.record_failure(session, asked.journal, call_id, self._attempts.clean(str(error)), cost)
                wait_s = retry_after(error.headers)
                if wait_s is not None:
                    self._pace.hold(min(wait_s, self._settings.endpoint_wait_seconds))
                pause(self._attempts.wait_s(error, attempt))
                continue
            self._store(asked, call_id, answer)
            if answer.written_tokens is not None:
                self._pace.done(reserved, (answer.prompt_tokens or 0) + answer.written_tokens, {})
            return

    def _begin(self, asked: Asked, pause: Callable[[float], None]) -> int:
        """Record the call, waiting while open calls may still leave budget unused; return its id."""
        while True:
            pause(0)
            try:
                with write_session(self._engine, IDLE_SECONDS) as session:
                    return calls.begin(session, asked.journal, asked.key, asked.most)
            except budgets.BudgetHeldError:
                pause(BUDGET_POLL_SECONDS)

    def _answer(self, asked: Asked) -> Answer:
        """Return the model's answer, also if a content filter refused the request.

        Raises RefusedRequestError otherwise.
        """
        try:
            answer = self._api.ask(self._model, asked.messages, asked.wanted)
        except RefusedRequestError as refusal:
            if not self._api.is_filtered(refusal.status, refusal.document):
                raise
            return Answer("", "filtered", f"HTTP {refusal.status}", cost=0.0)
        return answer.cut_at(asked.wanted.stop)

    def _store(self, asked: Asked, call_id: int, answer: Answer) -> None:
        with write_session(self._engine, IDLE_SECONDS) as session:
            calls.record_answer(session, asked.journal, call_id, **values_of(answer, asked.price))

    def settings(self, definition: Mapping[str, Any]) -> dict[str, object]:
        """Return the provider and the parameters, and the models that answered the last shard's prompts."""
        generation = definition["generation"]
        wanted = self._make_wanted(generation, "", 0)
        return {
            "engine": "provider",
            "provider": self._endpoint.provider,
            "library": self._api.library,
            "host": self._host,
            "model": self._model,
            "device": "endpoint",
            "generation": dict(generation),
            "sent": sorted(self._api.parameters(wanted)),
            "reasoning_tokens": wanted.reasoning_tokens,
            **({"batch": True} if self._endpoint.batch else {}),
            **{name: value for name, value in self._said.items() if value},
        }

    def tokens(self, item: ShardPrompt) -> int:  # noqa: ARG002 - a provider's tokenizer is not known
        """Return 0: the number is not known."""
        return 0

    def close(self) -> None:
        """Close the connections."""
        self._api.close()


def _messages(prompt: Prompt) -> list[dict[str, str]]:
    """Return the turns of a conversation; a prompt without turns becomes a user's turn."""
    return turns_of(prompt) or [{"role": "user", "content": prompt.text}]

"""Models that providers serve: requests, costs, and the state after a worker is killed."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.boards.submissions import approve, submission_estimate
from registry.db import database_now, get_engine, read_session, write_session
from registry.errors import ModelError, ProtocolError, UsageError
from registry.people.accounts import OPERATOR, create_account
from registry.providers import limits
from registry.providers.budgets import set_budget
from registry.providers.calls import DIED
from registry.providers.prices import load_prices
from registry.queue.evaluations import EvaluationRequest, move, submit
from registry.queue.progress import progress_of
from registry.queue.waits import Wait
from registry.revisions.endpoints import Endpoint
from registry.revisions.store import ModelFiles, RevisionRequest, add_revision
from registry.settings import Settings, get_settings
from registry.tables import Evaluation, Generation, ModelRevision, Prediction, Shard
from registry.tables.accounts import Submission, SubmissionEvaluation
from registry.tables.providers import Budget, ProviderCall
from tests.support import provider_worker
from tests.support.commands import PATIENCE_S, eventually, shuffleboard, shuffleboard_json
from tests.support.forks import FORKS
from tests.support.population import add_benchmark, question
from tests.support.provider_stand_in import (
    COST,
    MODEL,
    PRICES,
    PROMPT_TOKENS,
    THOUGHT_TOKENS,
    WRITTEN_TOKENS,
    StandIn,
    location_of,
    slow_server,
    stand_in,
)
from web import create_app
from workers.errors import EngineError
from workers.loop import WorkerLoop
from workers.providers import open_provider
from workers.providers.answers import RefusedRequestError
from workers.providers.asked import Attempts

pytestmark = pytest.mark.long_on("sqlite")

NO_FILES = ModelFiles(None, None, None)
KEY = "sk-a-secret-of-the-tests-9876543210"


class Registry:
    """A registry with a model at a stand-in, a benchmark, and workers."""

    def __init__(
        self, database: str, folder: Path, provider: StandIn, kind: str, patched: pytest.MonkeyPatch, **endpoint: Any
    ) -> None:
        self.engine = get_engine(database)
        self.provider = provider
        self.folder = folder
        location = location_of(provider, kind)
        lines = {"url_prefix": location, "provider": kind, "key_env": "STAND_IN_KEY"} | endpoint
        (folder / "endpoints.toml").write_text(
            "[stand-in]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())
        )
        (folder / "prices.toml").write_text(PRICES)
        self.environment = {
            "SHUFFLEBOARD_DATABASE_URL": database,
            "SHUFFLEBOARD_HOME": str(folder),
            "SHUFFLEBOARD_ENDPOINTS": str(folder / "endpoints.toml"),
            "SHUFFLEBOARD_PRICES": str(folder / "prices.toml"),
            "SHUFFLEBOARD_ENDPOINT_WAIT_SECONDS": "1",
            "SHUFFLEBOARD_ENDPOINT_IN_FLIGHT": "4",
            "SHUFFLEBOARD_ENDPOINT_BATCH_POLL_SECONDS": "0.05",
            "SHUFFLEBOARD_LEASE_SECONDS": "1",
            "SHUFFLEBOARD_POLL_SECONDS": "0.05",
            "SHUFFLEBOARD_RECONCILE_SECONDS": "0.3",
            "STAND_IN_KEY": KEY,
        }
        for name, value in self.environment.items():
            patched.setenv(name, value)
        with write_session(self.engine) as session:
            request = RevisionRequest("openai", location, MODEL)
            add_revision(session, "hosted", request, files=NO_FILES)

    def submit(self, questions: int, *, protocol: str = "first-letter", **request: Any) -> int:
        with write_session(self.engine) as session:
            add_benchmark(session, self.folder, [question(number) for number in range(questions)], f"b{questions}")
            fields = EvaluationRequest("hosted", f"b{questions}", "original", protocol, **request)
            return submit(session, fields)[0].id

    def start(self, trip: str | None = None) -> Any:
        """Start a worker in a new process."""
        arguments = (self.environment, trip, self.folder / "log")
        process = FORKS.Process(target=provider_worker.main, args=arguments)
        process.start()
        return process

    def work(self) -> None:
        """Run a worker in this process until nothing is left."""
        scorer = provider_worker.WithoutTorch(self.folder)
        scorer.budget_tokens = 1
        loop = WorkerLoop(self.engine, get_settings(), scorer, ["cpu"])
        loop.start()
        try:
            loop.run(until_idle=True)
        finally:
            loop.stop()
            scorer.unload()

    def calls(self, evaluation_id: int) -> list[ProviderCall]:
        with read_session(self.engine) as session:
            return list(
                session.scalars(select(ProviderCall).filter_by(evaluation_id=evaluation_id).order_by(ProviderCall.id))
            )

    def state(self, evaluation_id: int) -> tuple[str, str | None]:
        with read_session(self.engine) as session:
            errors = session.scalars(select(Shard.error).where(Shard.evaluation_id == evaluation_id)).all()
            return session.get_one(Evaluation, evaluation_id).state, next((error for error in errors if error), None)


Open = Callable[..., Registry]


@pytest.fixture
def opened(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Yield opened(kind, endpoint={…}, **settings), which returns a registry with such a stand-in."""
    with ExitStack() as stack:

        def open_registry(kind: str = "openai", endpoint: dict[str, Any] | None = None, **settings: Any) -> Registry:
            provider = stack.enter_context(stand_in(**settings))
            return Registry(database, tmp_path, provider, kind, monkeypatch, **(endpoint or {}))

        yield open_registry


HASTE = {f"SHUFFLEBOARD_ENDPOINT_{name}_SECONDS": value for name, value in {"CONNECT": "0.5", "READ": "1"}.items()}
"""Short time limits, so that lost requests are soon given up."""
OUTCOMES = {"answer": "complete", "refuse": "refused", "filter": "filtered", "cut": "cut-off"}
EXCEPTIONS = {("anthropic", "filter"): "refused"}


@pytest.mark.one_engine
@pytest.mark.parametrize("kind", ["openai", "azure", "openrouter", "anthropic"])
def test_each_provider_is_asked_once_and_its_answers_are_told_apart(opened: Open, kind: str) -> None:
    registry = opened(kind, share=9)
    evaluation_id = registry.submit(24)
    registry.work()
    assert registry.state(evaluation_id) == ("complete", None)
    provider, calls = registry.provider, registry.calls(evaluation_id)
    assert set(provider.ledger.values()) == {1}
    assert len(provider.ledger) == len(calls) == 24
    assert sum(call.cost or 0 for call in calls) == pytest.approx(provider.charged, rel=1e-12)
    expected = [EXCEPTIONS.get((kind, manner), OUTCOMES[manner]) for manner in provider.manners.values()]
    assert sorted(call.outcome or "" for call in calls) == sorted(expected)
    assert len(set(expected)) >= 3
    assert {call.written_tokens for call in calls} == {WRITTEN_TOKENS}
    assert {call.served_model for call in calls} == {f"{MODEL}-2026-05-13"}
    assert {call.reasoning_tokens for call in calls} == {THOUGHT_TOKENS}
    with read_session(registry.engine) as session:
        rows = session.execute(
            select(Prediction.chosen_option, Generation.finished, ProviderCall.outcome)
            .join(Generation, Generation.question_id == Prediction.question_id)
            .join(ProviderCall, ProviderCall.question_id == Prediction.question_id)
        ).all()
    for chosen, finished, outcome in rows:
        assert (chosen is not None) == (outcome == "complete"), outcome
        assert finished == (outcome != "cut-off")
    assert provider.last is not None
    secrets = [value for value in provider.last.headers.values() if KEY in value]
    assert len(secrets) == 1


@pytest.mark.one_engine
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_reasoning_model_is_given_room_to_think_and_no_temperature(opened: Open, kind: str) -> None:
    registry = opened(kind, {"reasoning_models": ["stand-*"], "reasoning_tokens": 2048})
    registry.submit(1)
    registry.work()
    assert registry.provider.last is not None
    sent = str(registry.provider.last.document)
    assert "temperature" not in sent
    assert ("2048" in sent) == (kind != "openai")
    with read_session(registry.engine) as session:
        limit = session.get_one(Evaluation, 1).protocol.definition["generation"]["max_tokens"]
    assert str(limit + 2048) in sent


@pytest.mark.one_engine
def test_a_model_that_decides_how_much_it_thinks_is_told_so(opened: Open) -> None:
    registry = opened("anthropic", {"reasoning_models": ["stand-*"], "adaptive_thinking": ["stand-in"]})
    registry.submit(1)
    registry.work()
    assert registry.provider.last is not None
    assert registry.provider.last.document["thinking"] == {"type": "adaptive"}


@pytest.mark.one_engine
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_what_is_no_answer_is_not_taken_for_one(opened: Open, kind: str) -> None:
    registry = opened(kind, storm=[200, 200])
    evaluation_id = registry.submit(2)
    registry.work()
    assert registry.state(evaluation_id) == ("complete", None)
    assert set(registry.provider.ledger.values()) == {1}
    calls = registry.calls(evaluation_id)
    assert [call.outcome for call in calls if call.state == "answered"] == ["complete"] * 2
    assert [(call.cost, call.outcome) for call in calls if call.state == "failed"] == [(None, None)] * 2


@pytest.mark.parametrize(
    ("refusal", "wait_s"),
    [
        pytest.param(RefusedRequestError("", 429, {"retry-after": "12"}), 12.0, id="a header"),
        pytest.param(RefusedRequestError("", 529, {"retry-after-ms": "250"}), 0.25, id="one in milliseconds"),
        pytest.param(RefusedRequestError("", 429, {"x-should-retry": "false"}), None, id="it says that it is in vain"),
        pytest.param(RefusedRequestError("", 400, {"x-should-retry": "true", "retry-after": "1"}), 1.0, id="it is not"),
        pytest.param(RefusedRequestError("", 400, {"retry-after": "1"}), None, id="a bad request"),
        pytest.param(RefusedRequestError("", 503, {"retry-after": "61"}), None, id="longer than one waits"),
    ],
)
def test_a_provider_says_whether_and_when_to_ask_again(refusal: RefusedRequestError, wait_s: float | None) -> None:
    endpoint = Endpoint(name="stand-in", url_prefix="https://example.org", provider="openai")
    attempts = Attempts(endpoint, "example.org", None, Settings(endpoint_wait_seconds=60))
    if wait_s is None:
        with pytest.raises(EngineError) as refused:
            attempts.wait_s(refusal, 1)
        assert refused.value.final == (refusal.status != 503)
    else:
        assert attempts.wait_s(refusal, 1) == wait_s


@pytest.mark.one_engine
def test_a_model_renamed_in_mid_run_is_seen_in_each_prompt(opened: Open) -> None:
    registry = opened("openai", renamed_after=10)
    evaluation_id = registry.submit(16, shard_prompts=8)
    registry.work()
    served = [call.served_model for call in registry.calls(evaluation_id)]
    assert sorted(map(str, served)) == [f"{MODEL}-2026-05-13"] * 10 + [f"{MODEL}-2026-11-01"] * 6
    with read_session(registry.engine) as session:
        fingerprints = session.scalars(select(Shard.engine_fingerprint_id)).all()
    assert len(set(fingerprints)) == 2


def test_a_budget_pauses_work_and_is_never_exceeded(opened: Open) -> None:
    registry = opened("openai")
    evaluation_id = registry.submit(40)
    for amount in (COST / 10, 20 * COST):  # the first is too small for any call, and the work still waits for it
        with write_session(registry.engine) as session:
            set_budget(session, "evaluation", str(evaluation_id), amount)
            if registry.state(evaluation_id)[0] == "paused":
                move(session, evaluation_id, "resume")
        registry.work()
        with read_session(registry.engine) as session:
            progress = progress_of(session, evaluation_id)
        assert (progress.state, [wait.kind for wait in progress.waits]) == ("paused", ["budget"])
        assert f"of {amount:.4f} is spent, and the next answer can cost" in str(progress.error)
    assert 0 < registry.provider.charged <= 20 * COST
    requests = len(registry.provider.ledger)
    with write_session(registry.engine) as session:
        row = session.get_one(Budget, ("evaluation", str(evaluation_id)))
        assert (row.spent, row.held) == (pytest.approx(requests * COST), pytest.approx(0, abs=1e-12))
        set_budget(session, "evaluation", str(evaluation_id), 60 * COST)
        move(session, evaluation_id, "resume")
    registry.work()
    assert registry.state(evaluation_id) == ("complete", None)
    assert set(registry.provider.ledger.values()) == {1}
    assert requests < len(registry.provider.ledger) == 40


@pytest.mark.long
def test_a_worker_killed_in_any_state_loses_no_answer_and_no_cost(opened: Open) -> None:
    registry = opened("openai", share=6)
    evaluation_id = registry.submit(30, shard_prompts=15)
    for trip in ("waited:3", "begun:3", "answered:4", "stored:5", "finished:1"):
        process = registry.start(trip)
        process.join(PATIENCE_S)
        assert process.exitcode == -9, (registry.folder / "log").read_text()
    last = registry.start()
    last.join(PATIENCE_S)
    assert last.exitcode == 0
    assert registry.state(evaluation_id) == ("complete", None)
    calls, provider = registry.calls(evaluation_id), registry.provider
    answered = [call for call in calls if call.state == "answered"]
    lost = [call for call in calls if call.error == DIED]
    assert len({(call.question_id, call.variant) for call in answered}) == len(answered) == 30
    assert len(calls) == len(answered) + len(lost)
    # Only calls that were under way when a worker died were repeated, and bounds of their cost are known.
    assert sum(provider.ledger.values()) - 30 <= len(lost) <= 5 * 4
    cost, unresolved = sum(call.cost or 0 for call in calls), sum(call.cost_limit or 0 for call in lost)
    assert cost - 1e-12 <= provider.charged <= cost + unresolved


@pytest.mark.long
def test_two_workers_share_a_limit_and_ask_nothing_twice(opened: Open) -> None:
    registry = opened("openai", {"requests_per_minute": 1800})
    evaluation_id = registry.submit(90, shard_prompts=15)

    def workers() -> int:
        with read_session(registry.engine) as session:
            return session.scalar(select(func.count(Shard.worker_id.distinct()))) or 0

    with registry.provider._lock:  # one worker could be done before the other has started
        processes = [registry.start() for _ in range(2)]
        eventually(lambda: workers() == 2, "both have a shard")
    for process in processes:
        process.join(PATIENCE_S)
    assert registry.state(evaluation_id) == ("complete", None)
    provider = registry.provider
    assert set(provider.ledger.values()) == {1}
    # At 1,800 a minute none of the 90 comes sooner than its place, which a burst of one second may bring forward.
    took = provider.arrivals[-1] - provider.arrivals[0]
    assert took >= 89 * 62.5 / 1800 - 1 - 0.3


@pytest.mark.one_engine
def test_cost_is_estimated_before_and_shown_after(opened: Open) -> None:
    registry = opened("openai", share=6, renamed_after=5)
    evaluation_id = registry.submit(8)
    command = ("evaluations", "estimate", "--model", "hosted", "--benchmark", "b8", "--variants", "original")
    settings = {name.removeprefix("SHUFFLEBOARD_").lower(): value for name, value in registry.environment.items()}
    before = shuffleboard_json(*command, "--protocol", "first-letter", **settings)
    assert before["cost"] is None
    assert before["cost_limit"] > 8 * COST
    assert before["currency"] == "USD"
    assert "no answer of the model under this protocol" in before["estimates"][0]["reason"]
    registry.work()
    again = shuffleboard_json(*command, "--protocol", "first-letter", "--replicate", **settings)
    assert again["cost"] == pytest.approx(8 * COST)
    assert again["tokens_naive"] == 8 * (PROMPT_TOKENS + WRITTEN_TOKENS)
    shown = shuffleboard_json("evaluations", "show", str(evaluation_id), **settings)["cost"]
    assert shown["cost"] == pytest.approx(registry.provider.charged)
    manners = list(registry.provider.manners.values())
    counts = [shown[name] for name in ("complete", "refused", "filtered", "cut_off")]
    assert counts == [manners.count(name) for name in ("answer", "refuse", "filter", "cut")]
    assert [(row["served_model"], row["prompts"]) for row in shown["models"]] == [
        (f"{MODEL}-2026-05-13", 5),
        (f"{MODEL}-2026-11-01", 3),
    ]
    client = create_app().test_client()
    document = client.get(f"/api/v1/evaluations/{evaluation_id}").get_json()["cost"]
    assert document["cost"] == shown["cost"]
    page = client.get(f"/evaluations/{evaluation_id}").get_data(as_text=True)
    assert f"{registry.provider.charged:.4f} USD" in page
    assert "The model changed</b> while it was asked" in page
    [row] = client.get("/api/v1/leaderboard").get_json()["rows"]
    assert row["cost"] == shown["cost"]
    assert 'href="/?chart=cost"' in client.get("/?chart=order").get_data(as_text=True)
    board = client.get("/?chart=cost").get_data(as_text=True)
    assert f"hosted: cost {shown['cost']:.4g}, accuracy" in board


@pytest.mark.one_engine
def test_budgets_are_set_listed_and_removed(opened: Open) -> None:
    registry = opened("openai")
    evaluation_id = str(registry.submit(1))
    settings = {name.removeprefix("SHUFFLEBOARD_").lower(): value for name, value in registry.environment.items()}
    budget = shuffleboard_json("budgets", "set", "evaluation", evaluation_id, "0.5", **settings)
    assert (budget["amount"], budget["spent"], budget["left"]) == (0.5, 0.0, 0.5)
    assert len(shuffleboard_json("budgets", "list", **settings)["budgets"]) == 1
    assert shuffleboard_json("budgets", "remove", "evaluation", evaluation_id, **settings) == {"removed": True}
    for kind, subject in (("evaluation", "77"), ("account", "nobody"), ("submission", "x")):
        refused = shuffleboard("budgets", "set", kind, subject, "1", status=1, **settings)
        assert "does not exist; see: shuffleboard" in refused.stderr


@pytest.mark.one_engine
def test_an_answer_that_trickles_in_is_given_up_at_unknown_cost(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = opened("openai")
    with slow_server(seconds_per_byte=0.05) as url:
        endpoints = registry.folder / "endpoints.toml"
        endpoints.write_text(endpoints.read_text().replace(location_of(registry.provider, "openai"), url))
        with write_session(registry.engine) as session:
            session.get_one(ModelRevision, 1).location = url
        for name, value in {"READ_SECONDS": "0.3", "ATTEMPTS": "2", "WAIT_SECONDS": "0.01"}.items():
            monkeypatch.setenv(f"SHUFFLEBOARD_ENDPOINT_{name}", value)
        monkeypatch.setattr("registry.queue.claims.MAX_FAILURES", 1)
        evaluation_id = registry.submit(1)
        registry.work()
    state, error = registry.state(evaluation_id)
    assert state == "failed"
    assert "does not finish its answer in time; tried 2 times" in str(error)
    calls = registry.calls(evaluation_id)
    assert [(call.state, call.cost) for call in calls] == [("failed", None)] * 2
    assert all((call.cost_limit or 0) > COST for call in calls)


# Batches


def in_batches(opened: Open, kind: str, **settings: Any) -> Registry:
    return opened(kind, {"batch": True}, **settings)


BATCHING = pytest.mark.parametrize("kind", ["openai", "anthropic"])


def check_batches(registry: Registry, evaluation_id: int, prompts: int) -> list[ProviderCall]:
    """Check that every prompt has one answer, from a batch, and that costs equal charges; return the calls."""
    assert registry.state(evaluation_id) == ("complete", None)
    provider, calls = registry.provider, registry.calls(evaluation_id)
    assert set(provider.ledger.values()) == {1}
    assert len(provider.ledger) == provider.batched == prompts
    assert [call.state for call in calls].count("answered") == prompts
    assert {call.state for call in calls} <= {"answered", "failed"}
    assert sum(call.cost or 0 for call in calls) == pytest.approx(provider.charged, rel=1e-12)
    assert provider.charged == pytest.approx(0.5 * prompts * COST)
    return calls


@pytest.mark.one_engine
@BATCHING
def test_batches_are_asked_once_for_half_the_price(opened: Open, kind: str) -> None:
    registry = in_batches(opened, kind, share=9)
    evaluation_id = registry.submit(24, shard_prompts=12)
    registry.work()
    calls = check_batches(registry, evaluation_id, 24)
    assert len(calls) == 24
    assert [len(batch.requests) for batch in registry.provider.batches] == [12, 12]
    expected = [EXCEPTIONS.get((kind, manner), OUTCOMES[manner]) for manner in registry.provider.manners.values()]
    assert sorted(call.outcome or "" for call in calls) == sorted(expected)
    sent = next(iter(registry.provider.batches[0].requests.values()))
    assert sent["model"] == MODEL
    assert "temperature" in sent
    settings = {name.removeprefix("SHUFFLEBOARD_").lower(): value for name, value in registry.environment.items()}
    command = ("evaluations", "estimate", "--model", "hosted", "--benchmark", "b24", "--variants", "original")
    estimate = shuffleboard_json(*command, "--protocol", "first-letter", "--replicate", **settings)
    assert estimate["cost"] == pytest.approx(0.5 * 24 * COST)


@pytest.mark.one_engine
@BATCHING
def test_what_a_batch_did_not_answer_is_asked_again_and_nothing_else(opened: Open, kind: str) -> None:
    registry = in_batches(opened, kind, fates=["expired", "missing"])
    evaluation_id = registry.submit(12)
    registry.work()
    calls = check_batches(registry, evaluation_id, 12)
    assert [len(batch.requests) for batch in registry.provider.batches] == [12, 6, 2]
    failed = [call for call in calls if call.state == "failed"]
    assert [call.cost for call in failed] == [0.0] * 6 + [None] * 2
    assert all("expired" in (call.error or "") for call in failed[:6])


@pytest.mark.one_engine
@BATCHING
def test_a_batch_created_without_a_reply_is_found_and_not_recreated(opened: Open, kind: str) -> None:
    registry = in_batches(opened, kind, lost=1)
    evaluation_id = registry.submit(6)
    registry.work()
    assert len(check_batches(registry, evaluation_id, 6)) == 6
    assert len(registry.provider.batches) == 1


@pytest.mark.one_engine
def test_batches_wait_where_the_provider_has_no_room_for_them(opened: Open) -> None:
    registry = in_batches(opened, "openai", fates=["full"] * 5)
    evaluation_id = registry.submit(4)
    registry.work()
    assert len(check_batches(registry, evaluation_id, 4)) == 4 * 6
    with read_session(registry.engine) as session:
        assert session.scalars(select(Shard.failures)).all() == [0]


@pytest.mark.one_engine
def test_a_batch_that_brings_nothing_counts_as_a_failure(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = in_batches(opened, "openai", fates=["dead"])
    monkeypatch.setattr("registry.queue.claims.MAX_FAILURES", 1)
    evaluation_id = registry.submit(4)
    registry.work()
    state, error = registry.state(evaluation_id)
    assert state == "failed"
    assert "batch batch_0 of 4 requests ended without an answer" in str(error)
    assert registry.provider.charged == 0
    with write_session(registry.engine) as session:
        move(session, evaluation_id, "retry")
    registry.work()
    check_batches(registry, evaluation_id, 4)


@pytest.mark.one_engine
def test_a_batch_under_way_is_collected_when_batches_are_switched_off(opened: Open) -> None:
    registry = in_batches(opened, "openai")
    evaluation_id = registry.submit(8, shard_prompts=4)
    assert registry.start("submitted:1").join(PATIENCE_S) is None
    endpoints = registry.folder / "endpoints.toml"
    endpoints.write_text(endpoints.read_text().replace("batch = true", "batch = false"))
    registry.work()
    assert registry.state(evaluation_id) == ("complete", None)
    provider, calls = registry.provider, registry.calls(evaluation_id)
    assert set(provider.ledger.values()) == {1}
    assert (provider.batched, len(calls)) == (4, 8)
    assert sum(call.cost or 0 for call in calls) == pytest.approx(provider.charged)


@pytest.mark.long
def test_a_worker_killed_in_any_state_of_a_batch_asks_nothing_twice(opened: Open) -> None:
    registry = in_batches(opened, "openai")
    registry.environment |= HASTE
    evaluation_id = registry.submit(12, shard_prompts=6)
    for trip in ("written", "uploaded", "sent", "created", "submitted", "polled", "fetched", "collected", "finished"):
        process = registry.start(f"{trip}:1")
        process.join(PATIENCE_S)
        assert process.exitcode == -9, (trip, (registry.folder / "log").read_text())
    last = registry.start()
    last.join(PATIENCE_S)
    assert last.exitcode == 0
    calls = check_batches(registry, evaluation_id, 12)
    assert {call.cost for call in calls if call.state == "failed"} == {0.0}
    assert [len(batch.requests) for batch in registry.provider.batches] == [6, 6]


@pytest.mark.long
@pytest.mark.one_engine
def test_a_batch_without_a_tag_is_told_from_others_of_its_size(opened: Open) -> None:
    registry = in_batches(opened, "anthropic", looks=3)
    registry.environment |= HASTE
    evaluation_id = registry.submit(6)
    registry.start("created:1").join(PATIENCE_S)
    [own] = registry.provider.batches
    of_another = {f"other-{number}": request for number, request in enumerate(own.requests.values())}
    registry.provider.batches.append(replace(own, id="batch_of_another", requests=of_another, fate="dead"))
    last = registry.start()
    last.join(PATIENCE_S)
    assert len(check_batches(registry, evaluation_id, 6)) == 6
    assert [batch.id for batch in registry.provider.batches] == ["batch_0", "batch_of_another"]


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("kind", "batch"),
    [
        ("submission", False),
        ("account", True),
        pytest.param("submission", True, marks=pytest.mark.long),
        pytest.param("account", False, marks=pytest.mark.long),
    ],
)
def test_budgets_of_submissions_and_accounts_are_kept_over_their_evaluations(
    opened: Open, kind: str, batch: bool
) -> None:
    registry = opened("openai", {"batch": batch})
    evaluations = [registry.submit(prompts, requester="ada", shard_prompts=10) for prompts in (20, 21)]
    amount = 25 * COST * (0.5 if batch else 1)
    with write_session(registry.engine) as session:
        ada = create_account(session, "ada", "submitter")
        submission = Submission(account_id=ada.id, suite="any", model={})
        session.add(submission)
        session.flush()
        for evaluation in evaluations:
            session.add(SubmissionEvaluation(submission_id=submission.id, evaluation_id=evaluation))
        subject = str(submission.id) if kind == "submission" else "ada"
        set_budget(session, kind, subject, amount)
    registry.work()
    assert [registry.state(evaluation)[0] for evaluation in evaluations] == ["complete", "paused"]
    assert 0 < registry.provider.charged <= amount
    with write_session(registry.engine) as session:
        row = session.get_one(Budget, (kind, subject))
        assert (row.spent, row.held) == (pytest.approx(registry.provider.charged), pytest.approx(0, abs=1e-12))
        set_budget(session, kind, subject, 4 * amount)
        move(session, evaluations[1], "resume")
    registry.work()
    assert [registry.state(evaluation) for evaluation in evaluations] == [("complete", None)] * 2
    assert sum(registry.provider.ledger.values()) == 41
    assert registry.provider.charged <= 4 * amount
    paid = sum(call.cost or 0 for evaluation in evaluations for call in registry.calls(evaluation))
    assert paid == pytest.approx(registry.provider.charged)


def add_suite(registry: Registry) -> None:
    """Add a suite and a board of 20 questions, with a protocol that requests letters."""
    with write_session(registry.engine) as session:
        add_benchmark(session, registry.folder, [question(number) for number in range(20)], "b20")
        import_suite(
            session,
            SuiteDefinition.model_validate(
                {
                    "name": "letters",
                    "variants": ["original"],
                    "protocols": ["first-letter"],
                    "tasks": [{"benchmarks": ["b20"]}],
                }
            ),
        )
        board = {"name": "letters", "suite": "letters", "columns": ["accuracy@original"], "sort": "accuracy@original"}
        import_board(session, BoardDefinition.model_validate(board))


@pytest.mark.one_engine
def test_a_submission_states_its_cost_keeps_its_budget_and_shows_both(opened: Open) -> None:
    registry, settings = opened("openai"), get_settings()
    add_suite(registry)
    with write_session(registry.engine) as session:
        ada = create_account(session, "ada", "submitter")
        model = {"name": "hosted", "kind": "openai", "endpoint": "stand-in", "revision": MODEL, "dtype": None}
        submission = Submission(account_id=ada.id, suite="letters@1", model=model)
        session.add(submission)
        session.flush()
        number = submission.id
        before = submission_estimate(session, submission, settings)
        assert (before["cost"], before["currency"], before["problem"]) == (None, "USD", None)
        assert 20 * COST < before["cost_limit"] < 200 * COST
        budget = before["cost_limit"] / 20 + 8 * COST
        approve(session, OPERATOR, number, settings, budget=budget, files=NO_FILES)
    registry.work()
    with read_session(registry.engine) as session:
        [evaluation_id] = session.scalars(select(SubmissionEvaluation.evaluation_id)).all()
    assert registry.state(evaluation_id) == ("paused", None)
    assert 0 < registry.provider.charged <= budget
    environment = {name.removeprefix("SHUFFLEBOARD_").lower(): value for name, value in registry.environment.items()}
    shown = shuffleboard("evaluations", "show", str(evaluation_id), **environment)
    assert "it waits for a larger budget since" in shown.stderr
    assert "its submission's budget has no room for another answer; raise the budget, then" in shown.stderr
    client = create_app().test_client()
    page = client.get(f"/evaluations/{evaluation_id}").get_data(as_text=True)
    assert "<b>It waits for a larger budget</b> since <time" in page
    [wait] = client.get(f"/api/v1/evaluations/{evaluation_id}").get_json()["progress"]["waits"]
    assert (wait["kind"], wait["until"]) == ("budget", None)
    assert "waits for a larger budget" in client.get("/queue").get_data(as_text=True)
    with write_session(registry.engine) as session:
        set_budget(session, "submission", str(number), 1.0)
        move(session, evaluation_id, "resume")
        measured = submission_estimate(session, session.get_one(Submission, number), settings)
        [left] = [row["prompts_left"] for row in measured["estimates"]]
        assert measured["cost"] == pytest.approx(left * COST)
        assert measured["tokens_naive"] == left * (PROMPT_TOKENS + WRITTEN_TOKENS)
    registry.work()
    assert registry.state(evaluation_id) == ("complete", None)
    refresh_boards(registry.engine)
    document = client.get("/api/v1/boards/letters").get_json()
    assert document["currency"] == "USD"
    assert [row["cost"] for row in document["rows"]] == [pytest.approx(registry.provider.charged)]
    assert client.get(f"/api/v1/snapshots/{document['digest']}").get_json()["rows"] == document["rows"]
    board = client.get("/boards/letters").get_data(as_text=True)
    paid = registry.provider.charged
    assert f'data-label="Cost, USD">{paid:.4g}</td>' in board
    about = client.get("/boards/letters/trade-offs").get_data(as_text=True)
    assert "<title>hosted: cost" not in about  # a single point shows no trade-off
    with write_session(registry.engine) as session:
        request = RevisionRequest("openai", location_of(registry.provider, "openai"), MODEL)
        add_revision(session, "another", request, files=NO_FILES)
        submit(session, EvaluationRequest("another", "b20", "original", "first-letter"))
    registry.work()
    refresh_boards(registry.engine)
    board = client.get("/boards/letters/trade-offs?column=accuracy@original").get_data(as_text=True)
    assert f"<title>hosted: cost {paid:.4g} USD, accuracy" in board
    assert f"<title>another: cost {registry.provider.charged - paid:.4g} USD, accuracy" in board


@pytest.mark.one_engine
def test_an_evaluation_shows_its_wait_for_a_batch_or_rate_limit(opened: Open) -> None:
    registry = in_batches(opened, "openai", looks=2)
    evaluation_id = registry.submit(6)
    assert registry.start("submitted:1").join(PATIENCE_S) is None

    def waits() -> list[Wait]:
        with read_session(registry.engine) as session:
            return list(progress_of(session, evaluation_id).waits)

    [wait] = waits()
    assert (wait.what, wait.reason) == ("waits for a batch", "the provider has 1 batch with 6 prompts")
    assert wait.since is not None
    registry.work()
    assert waits() == []
    # The same model is used without batches, and the provider has requested a pause.
    endpoints = registry.folder / "endpoints.toml"
    endpoints.write_text(endpoints.read_text().replace("batch = true", ""))
    evaluation_id = registry.submit(5)
    with write_session(registry.engine) as session:
        limits.hold(session, "env:STAND_IN_KEY", 30)
    assert waits() == []  # no worker has begun
    with write_session(registry.engine) as session:
        session.execute(
            update(Shard)
            .where(Shard.evaluation_id == evaluation_id)
            .values(state="leased", lease_until=database_now(60))
        )
    [wait] = waits()
    assert (wait.kind, wait.ends) == ("rate-limit", "the next request is sent")
    assert wait.reason == "the provider asked everybody with the key of endpoint stand-in to pause"
    assert wait.until is not None


@pytest.mark.one_engine
def test_a_budget_is_set_before_anything_is_queued(opened: Open) -> None:
    registry = opened("openai")
    add_suite(registry)
    environment = {name.removeprefix("SHUFFLEBOARD_").lower(): value for name, value in registry.environment.items()}
    command = ("evaluations", "submit", "--model", "hosted", "--board", "letters")
    refused = shuffleboard(*command, "--budget", "nan", status=2, **environment)
    assert "--budget nan: give an amount from 0 to 1e+12" in refused.stderr
    with read_session(registry.engine) as session:
        assert session.scalar(select(func.count()).select_from(Evaluation)) == 0
    [evaluation_id] = shuffleboard_json(*command, "--budget", "0.25", **environment)["evaluations"]
    with read_session(registry.engine) as session:
        assert session.get_one(Budget, ("evaluation", str(evaluation_id))).amount == 0.25


# Impossible requests


@pytest.mark.one_engine
def test_what_a_provider_cannot_do_is_refused_in_words(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = opened("openai")
    with pytest.raises(ProtocolError, match="served by openai, which gives written answers only"):
        registry.submit(2, protocol="symbols")
    monkeypatch.delenv("STAND_IN_KEY")
    with pytest.raises(ModelError, match="key_env STAND_IN_KEY is empty or missing"):
        open_provider(location_of(registry.provider, "openai"), MODEL, registry.engine, get_settings())


@pytest.mark.one_engine
def test_a_budget_without_a_price_fails_with_the_reason(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = opened("openai")
    (registry.folder / "prices.toml").write_text('as_of = 2026-11-22\ncurrency = "USD"\n')
    evaluation_id = registry.submit(1)
    with write_session(registry.engine) as session:
        set_budget(session, "evaluation", str(evaluation_id), 1.0)
    monkeypatch.setattr("registry.queue.claims.MAX_FAILURES", 1)
    registry.work()
    state, error = registry.state(evaluation_id)
    assert state == "failed"
    assert "the model is not on the price list" in str(error)
    assert not registry.provider.ledger


def test_a_price_of_a_file_stands_before_that_of_the_list(tmp_path: Path) -> None:
    shipped = load_prices()
    price = shipped.find("openai", "gpt-4.1-mini-2025-04-14")
    assert price is not None
    assert price.of(1_000_000, 250_000, 1_000_000) == pytest.approx(0.75 * 0.40 + 0.25 * 0.10 + 1.60)
    assert price.in_batch().of(1_000_000, 0, 1_000_000) == pytest.approx(0.5 * (0.40 + 1.60))
    assert shipped.find("openai", "unknown") is None
    own = tmp_path / "prices.toml"
    own.write_text('as_of = 2026-12-01\ncurrency = "USD"\n[openai]\n"gpt-4.1*" = { prompt = 1, written = 2 }\n')
    overridden = load_prices(str(own)).find("openai", "gpt-4.1-mini-2025-04-14")
    assert overridden is not None
    assert (overridden.prompt, overridden.written, overridden.cached_prompt) == (1.0, 2.0, None)
    assert load_prices(str(own)).find("anthropic", "claude-sonnet-4-6") is not None
    own.write_text('as_of = 2026-12-01\ncurrency = "USD"\n[openai]\n"gpt-9" = { prompt = -1, written = 2 }\n')
    with pytest.raises(UsageError, match=r"openai\.gpt-9\.prompt: .*greater than or equal to 0; correct the file"):
        load_prices(str(own))

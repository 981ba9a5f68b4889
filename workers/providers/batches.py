"""Batches of a provider: submitted once, looked up if a worker was killed, and stored when they have ended.

A worker does not wait for a batch. It hands the shard back with a time before which nobody claims it, and the next
worker continues from the stored state.
"""

import itertools
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import Engine

from registry.db import read_session, write_session
from registry.process_log import log
from registry.providers import batches, budgets, calls
from registry.providers.batches import Failure
from registry.providers.prices import Price
from registry.settings import Settings
from registry.tables.providers import ProviderBatch
from workers.endpoint.engine import STOP_SECONDS
from workers.errors import EngineError, InterruptedScoringError
from workers.pace import IDLE_SECONDS
from workers.providers.answers import (
    Answer,
    BatchApi,
    BatchStatus,
    Conversation,
    RefusedRequestError,
    UnsureError,
)
from workers.providers.asked import TOO_MANY, Asked, Attempts, may_have_arrived, values_of
from workers.written import ShouldStop

NEVER_SUBMITTED: Final = "its batch was never submitted"
NO_RESULT: Final = "its batch has no result for it"

T = TypeVar("T")


class FullError(Exception):
    """The provider accepts no further batch now."""


class Batches:
    """The batches of one model. price: in a batch. stop: sequences that end an answer."""

    def __init__(
        self,
        engine: Engine,
        api: BatchApi,
        model: str,
        price: Price | None,
        stop: Sequence[str],
        attempts: Attempts,
        settings: Settings,
        should_stop: ShouldStop,
    ) -> None:
        self._engine = engine
        self._api = api
        self._model = model
        self._price = price
        self._stop = stop
        self._attempts = attempts
        self._should_stop = should_stop
        self._poll_s = settings.endpoint_batch_poll_seconds
        # A request that was sent longer ago than this cannot arrive any more.
        self._lost_after_s = settings.endpoint_connect_seconds + 2 * settings.endpoint_read_seconds

    def submit(self, asking: Sequence[Asked]) -> None:
        """Submit a batch of as many prompts as the budgets allow.

        Raises InterruptedScoringError, which states how long to wait, unless another error occurs.
        """
        journal = asking[0].journal
        tag = uuid.uuid4().hex
        try:
            batch_id, call_ids = self._write_down(journal, tag, asking)
        except budgets.BudgetHeldError:
            raise InterruptedScoringError(self._poll_s) from None
        except budgets.BudgetReachedError:
            with read_session(self._engine) as session:
                if not batches.waits(session, journal.evaluation_id):
                    raise
            # Other shards' batches are already paid for, and a paused evaluation would not fetch them.
            raise InterruptedScoringError(self._poll_s) from None
        requests = {
            f"{tag}-{call_id}": (prompt.messages, prompt.wanted)
            for call_id, prompt in zip(call_ids, asking, strict=False)
        }
        try:
            uploaded = self._try(lambda: self._upload(requests))
            remote_id = self._try(lambda: self._create(journal, batch_id, tag, uploaded))
        except (EngineError, FullError) as error:
            self._end(journal, batch_id, {}, Failure(NEVER_SUBMITTED, 0.0))
            if isinstance(error, EngineError):
                raise
            raise InterruptedScoringError(self._poll_s) from None
        if not self._record(batch_id, remote_id):
            # This worker was declared dead, and another requests its prompts again.
            self._try(lambda: self._api.cancel(remote_id))
        log.info("batch_submitted", batch=remote_id, prompts=len(requests))
        raise InterruptedScoringError(self._poll_s)

    def collect(self, journal: calls.Journal, batch: ProviderBatch) -> None:
        """Store the results of a batch once it has ended.

        Raises InterruptedScoringError until then, and EngineError if the batch has no answer at all.
        """
        if batch.state == "written":
            self._end(journal, batch.id, {}, Failure(NEVER_SUBMITTED, 0.0))
            return
        remote_id = batch.remote_id or self._find(batch)
        if remote_id is None:
            self._end(journal, batch.id, {}, Failure(NEVER_SUBMITTED, 0.0))
            return
        status = self._try(lambda: self._status(remote_id))
        if not status.ended:
            raise InterruptedScoringError(self._poll_s)
        results = self._try(lambda: self._results(batch.tag, remote_id))
        # A request that was not executed costs nothing; if its result is missing without a reason, the cost is unknown.
        missing = Failure(NO_RESULT, None)
        if status.unanswered is not None:
            missing = Failure(self._attempts.clean(status.unanswered), 0.0)
        answered = self._end(journal, batch.id, results, missing)
        log.info("batch_ended", batch=remote_id, answered=answered, prompts=batch.requests)
        if status.full:
            raise InterruptedScoringError(self._poll_s)
        if answered == 0:  # otherwise another batch requests the missing ones
            reasons = [result.error for result in results.values() if isinstance(result, Failure)]
            reason = next(iter(reasons), missing.error)
            raise EngineError(f"batch {remote_id} of {batch.requests} requests ended without an answer: {reason}")

    # The steps of a batch; a worker may be killed after each

    def _write_down(self, journal: calls.Journal, tag: str, asking: Sequence[Asked]) -> tuple[int, list[int]]:
        with write_session(self._engine, IDLE_SECONDS) as session:
            return batches.write_down(session, journal, tag, [(prompt.key, prompt.most) for prompt in asking])

    def _upload(self, requests: Mapping[str, Conversation]) -> Any:
        return self._api.upload(self._model, requests)

    def _create(self, journal: calls.Journal, batch_id: int, tag: str, uploaded: Any) -> str:
        self._begin_sending(journal, batch_id)
        try:
            return self._api.create(tag, uploaded)
        except RefusedRequestError as refusal:
            if refusal.status == TOO_MANY:
                raise FullError from None
            if not may_have_arrived(refusal):
                raise
            log.warning("batch_unsure", error=self._attempts.clean(str(refusal)))
            raise InterruptedScoringError(self._poll_s) from None  # the next worker looks it up

    def _begin_sending(self, journal: calls.Journal, batch_id: int) -> None:
        with write_session(self._engine, IDLE_SECONDS) as session:
            batches.begin_sending(session, journal, batch_id)

    def _record(self, batch_id: int, remote_id: str) -> bool:
        with write_session(self._engine, IDLE_SECONDS) as session:
            return batches.record_submitted(session, batch_id, remote_id)

    def _find(self, batch: ProviderBatch) -> str | None:
        """Return the name of a batch whose worker was killed before storing it; None if there is no such batch."""
        assert batch.sent_at is not None
        sent_at = batch.sent_at
        with read_session(self._engine) as session:
            others, now = batches.list_known(session)
        try:
            remote_id = self._try(lambda: self._api.find(batch.tag, batch.requests, sent_at, others))
        except UnsureError:
            raise InterruptedScoringError(self._poll_s) from None
        left_s = self._lost_after_s - (now - sent_at).total_seconds()
        if remote_id is not None:
            self._record(batch.id, remote_id)
        elif left_s > 0:
            raise InterruptedScoringError(min(self._poll_s, left_s))
        return remote_id

    def _status(self, remote_id: str) -> BatchStatus:
        return self._api.status(remote_id)

    def _results(self, tag: str, remote_id: str) -> dict[int, batches.Result]:
        by_call: dict[int, batches.Result] = {}
        for name, result in self._api.results(remote_id):
            batch, _, call_id = name.rpartition("-")
            if batch == tag and call_id.isdecimal():
                by_call.setdefault(int(call_id), self._result(result))
        return by_call

    def _result(self, result: Answer | RefusedRequestError) -> batches.Result:
        if isinstance(result, Answer):
            return values_of(result.cut_at(self._stop), self._price)
        if self._api.is_filtered(result.status, result.document):
            return values_of(Answer("", "filtered", f"HTTP {result.status}", cost=0.0), self._price)
        return Failure(self._attempts.clean(str(result)), None if result.status is None else 0.0)

    def _end(
        self, journal: calls.Journal, batch_id: int, results: Mapping[int, batches.Result], otherwise: Failure
    ) -> int:
        with write_session(self._engine, IDLE_SECONDS) as session:
            return batches.end(session, journal, batch_id, results, otherwise)

    def _try(self, request: Callable[[], T]) -> T:
        """Make a request, with retries. Raises EngineError after the last attempt."""
        for attempt in itertools.count(1):
            self._pause(0)
            try:
                return request()
            except RefusedRequestError as refusal:
                wait_s = self._attempts.wait_s(refusal, attempt)
            self._pause(wait_s)
        raise AssertionError

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            if self._should_stop():
                raise InterruptedScoringError
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, STOP_SECONDS))

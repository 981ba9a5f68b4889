"""The claim loop: claim, score, store. Celery workers and workers that poll the database share it."""

import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy import Engine, insert, select, update
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.orm import Session

from registry.boards.submissions import advance
from registry.code_identity import code_version
from registry.db import database_now, read_session
from registry.errors import DatabaseError, GenerationError, ModelError, ShuffleboardError, StorageError, UpgradedError
from registry.operations.maintenance import Maintenance, log_trouble
from registry.packages import missing_package
from registry.process_log import log
from registry.queue import claims, exclusions, generation, preparation, stalls
from registry.queue.clock import follow_clock
from registry.queue.sizing import Sizes
from registry.revisions.store import request_of
from registry.settings import Settings
from registry.tables import Worker
from workers.artifacts import inspect_files
from workers.errors import EngineError, InterruptedScoringError
from workers.memory import TokenBudgets, is_of_device, is_out_of_memory, release_memory
from workers.progress import Stillness
from workers.scorer import Scorer

UNLOAD_SECONDS: Final = 600.0
"""Seconds without work after which a model is unloaded."""
GRACE_SECONDS: Final = 7.0
"""Seconds that a stopping worker waits for the current batch."""
HELPER_PATIENCE_SECONDS: Final = 10.0
"""Seconds for which a worker that a user is waiting for tolerates database trouble."""
STOPPING_PATIENCE_SECONDS: Final = 2.0
FIRST_RETRY_SECONDS: Final = 0.1
LAST_RETRY_SECONDS: Final = 5.0

TROUBLE: Final = (OperationalError, InterfaceError, InternalError)
"""Errors of a database that restarts, is full or has cut the connection (InternalError: it ended an idle transaction).

None of them is a shard's fault.
"""


T = TypeVar("T")
Show = Callable[[claims.Claim], None]


class WorkerLoop:
    """One worker process: registers itself, claims shards, renews its leases, seals complete evaluations.

    It scores one shard at a time, in any thread. `stopping`: set it to stop the worker. `broken`: whether a thread
    ended with an error, so that the worker had to stop.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        scorer: Scorer,
        queues: Sequence[str],
        *,
        unload_seconds: float = UNLOAD_SECONDS,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.scorer = scorer
        self.queues = tuple(queues)
        self.unload_seconds = unload_seconds
        self.id = str(uuid.uuid4())
        self.stopping = threading.Event()
        self.broken = False
        self.upgraded = False
        self._budgets = TokenBudgets()
        self._turn = threading.Lock()
        self._maintaining = threading.Lock()
        self._maintenance = Maintenance(engine, settings)
        self._scopes: list[str] = []
        self._sizes = Sizes(0, "")
        self._claim: claims.Claim | None = None
        self._lost: claims.Claim | None = None
        self._unsure = False
        self._steps = 0
        self._stillness = Stillness()
        self._patience = float("inf")
        self._messages = 0
        self._last_work = time.monotonic()
        self._fingerprints: list[dict[str, object]] = []
        self._threads: list[threading.Thread] = []

    @property
    def exit_status(self) -> int:
        """Return the exit status of the worker's process; a supervisor restarts it after any status but 0."""
        return UpgradedError.exit_status if self.upgraded else int(self.broken)

    # Beginning and end

    def start(self) -> None:
        """Create the worker's row, reconcile once, and start the threads for the heartbeat and maintenance."""
        host, device = socket.gethostname(), self.scorer.device()
        versions = {"shuffleboard": code_version(), **self.scorer.versions()}
        self._scopes = exclusions.scopes_of(host, device, self.scorer.place())
        self._sizes = Sizes(self.settings.shard_seconds, device)
        row = {"id": self.id, "host": host, "pid": os.getpid(), "device": device, "versions": versions}
        row |= {"scopes": self._scopes}
        self._patience = self.settings.database_wait_seconds
        try:
            self._insist(lambda _: self._maintenance.require_schema())
            registry_generation = self._insist(lambda session: self._sign_on(session, row))
        except TROUBLE as error:
            raise _unusable(error) from error
        self._patience = float("inf")
        # From here on no thread writes into a database that has since been restored, moved or promoted.
        self.engine = self._maintenance.engine = generation.bind_generation(self.engine, registry_generation, self.id)
        self._start_thread("heartbeat", self._beat)  # first: hashing a model can take minutes
        try:
            self.maintain()
        except TROUBLE as error:
            log_trouble(error)
        self._start_thread("maintenance", self._maintain_regularly)
        log.info("worker_started", worker=self.id, host=host, device=device, queues=self.queues, versions=versions)

    def _sign_on(self, session: Session, row: dict[str, Any]) -> str:
        """Create the worker's row; return the registry's generation."""
        token_budgets = session.scalar(
            select(Worker.token_budgets)
            .where(Worker.host == row["host"], Worker.device == row["device"], Worker.token_budgets.is_not(None))
            .order_by(Worker.started_at.desc())
            .limit(1)
        )
        self._budgets = TokenBudgets(token_budgets)
        if session.get(Worker, self.id) is None:  # an earlier attempt may have been committed
            session.execute(insert(Worker).values(row | {"queues": list(self.queues), "token_budgets": token_budgets}))
        return generation.current(session)

    def poll_beside_messages(self) -> None:
        """Also poll the database while no message arrives, so that work goes on without the broker."""
        self._start_thread("polling", self._poll_without_messages)

    def _start_thread(self, name: str, target: Callable[[], None]) -> None:
        def run_guarded() -> None:
            # A new thread does not inherit bound variables.
            structlog.contextvars.bind_contextvars(worker=self.id)
            try:
                target()
            except (GenerationError, UpgradedError) as error:
                self._give_up(error)
            except Exception as error:  # noqa: BLE001 - a worker without its heartbeat must not go on
                self.broken = True
                log.error("worker_broken", thread=name, exc_info=error)
                self.stopping.set()

        thread = threading.Thread(target=run_guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _give_up(self, error: GenerationError | UpgradedError) -> None:
        """Stop the worker: its claims belong to an earlier generation of the registry, or its code is too old."""
        if isinstance(error, UpgradedError):
            if not self.upgraded:
                log.warning("database_upgraded", error=str(error))
            self.upgraded = True
        else:
            if not self.broken:
                log.error("registry_generation_changed", error=str(error))
            self.broken = True
        self.stopping.set()

    def leave(self) -> None:
        """Stop the worker and unload its model."""
        self.stop()
        self.scorer.unload()  # processes of vLLM would keep the GPU's memory

    def stop(self) -> None:
        """Wait for the threads, hand back a claimed shard and mark the worker stopped."""
        self.stopping.set()
        for thread in self._threads:
            thread.join(timeout=GRACE_SECONDS)
        self.sign_off()
        log.info("worker_stopped", worker=self.id)

    def sign_off(self) -> None:
        """Hand the claimed shard back and mark the worker stopped, in one transaction."""
        try:
            with self._maintenance.transaction() as session:
                session.execute(
                    update(Worker)
                    .where(Worker.id == self.id)
                    .values(stopped_at=database_now(), token_budgets=self._budgets.document() or None)
                )
                claims.hand_back_all(session, self.id)
        except DBAPIError as error:  # then its missing heartbeat shows it
            log_trouble(error)
        except GenerationError as error:  # the worker has neither a row nor a shard there
            self._give_up(error)

    # Working

    def run(self, *, until_idle: bool = False) -> None:
        """Poll the database until the worker is stopped; with `until_idle`, until no shard is queued or in progress.

        With `until_idle` a user is waiting, so lasting trouble with the database raises DatabaseError.
        """
        self._patience = HELPER_PATIENCE_SECONDS if until_idle else float("inf")
        with self._speaking_of():
            try:
                self._poll(until_idle=until_idle)
            except (GenerationError, UpgradedError) as error:
                self._give_up(error)

    def _poll(self, *, until_idle: bool) -> None:
        while not self.stopping.is_set():
            try:
                if self.work_once():
                    continue
                self.maintain()
                if until_idle and self._idle():
                    return
            except TROUBLE as error:
                if until_idle:
                    raise _unusable(error) from error
                log_trouble(error)
            self.stopping.wait(self.settings.poll_seconds)

    def work_for_message(self, show: Show = lambda _: None) -> None:
        """Score the best queued shard, if there is one, after a message.

        show: called with the claim before it is scored.
        """
        self._messages += 1
        if self.stopping.is_set():
            return
        try:
            self.work_once(show)
        except TROUBLE as error:
            # The message is used up, and the reconciler sends another. Waiting keeps a database that is down from
            # emptying the broker.
            log_trouble(error)
            self.stopping.wait(self.settings.poll_seconds)
        except (GenerationError, UpgradedError) as error:
            self._give_up(error)

    def _poll_without_messages(self) -> None:
        """Work as `run` does after a whole period without a message, until the next message."""
        seen = self._messages
        worked = False
        while not self.stopping.wait(0 if worked else self.settings.reconcile_seconds):
            worked = False
            if self._messages != seen:
                seen = self._messages
                continue
            try:
                worked = self.work_once(wait=False)
            except TROUBLE as error:
                log_trouble(error)

    def work_once(self, show: Show = lambda _: None, *, wait: bool = True) -> bool:
        """Claim and score one shard.

        Returns False if there is none or, without `wait`, while another is being scored.
        """
        if not self._turn.acquire(blocking=wait):
            return False
        try:
            shard_claim = self._next_claim()
            if shard_claim is None:
                return False
            self._claim = shard_claim
            try:
                with self._speaking_of(
                    evaluation=shard_claim.evaluation_id, shard=shard_claim.shard_id, fence=shard_claim.fence
                ):
                    show(shard_claim)
                    self._score(shard_claim)
            finally:
                self._claim = None
                self._last_work = time.monotonic()
        finally:
            self._turn.release()
        self.seal_complete(shard_claim.evaluation_id)
        return True

    def _speaking_of(self, **what: object) -> AbstractContextManager[None]:
        """Add these facts to every log line inside the block, whatever code writes it."""
        return structlog.contextvars.bound_contextvars(worker=self.id, **what)

    def _next_claim(self) -> claims.Claim | None:
        try:
            self._maintenance.require_schema()
            with self._maintenance.transaction() as session:
                if self._unsure:
                    claims.hand_back_all(session, self.id)
                claim = claims.claim(
                    session,
                    self.id,
                    queues=self.queues,
                    lease_seconds=self.settings.lease_seconds,
                    loaded_model_revision_id=self.scorer.loaded_model_revision_id,
                    scopes=self._scopes,
                    sizes=self._sizes,
                )
        except TROUBLE:
            self._unsure = True  # it may have been committed nevertheless
            raise
        self._unsure = False
        return claim

    def _score(self, shard_claim: claims.Claim) -> None:
        try:
            result = self._budgets.run(
                self.scorer,
                shard_claim.model_revision_id,
                lambda: self.scorer.score(self.engine, shard_claim, self._should_stop),
            )
        except InterruptedScoringError as interruption:
            self._hand_back(shard_claim, interruption.wait_s)
            log.info("shard_handed_back", wait_s=round(interruption.wait_s, 1))
            return
        except TROUBLE:  # while the prompts were read
            self._hand_back(shard_claim)
            raise
        except Exception as error:  # noqa: BLE001 - any error of a model is recorded on its shard, and the rest goes on
            if self._is_own(shard_claim, error):
                return
            final = isinstance(error, EngineError) and error.final
            missing = missing_package(error) if isinstance(error, ModuleNotFoundError) else None
            message = str(missing or error) if final or missing else f"{type(error).__name__}: {error}"
            of_all = isinstance(error, EngineError) and error.of_all
            self._record_failure(shard_claim, message[:2000], final=final, of_all=of_all)
            return
        try:
            stored = self._store(shard_claim, result)
        except ProgrammingError:  # an upgrade may have removed a column
            self._maintenance.require_schema()
            raise
        except (IntegrityError, DataError, AssertionError) as error:
            # A bug to report: nothing was stored, and the shard records the error instead of killing worker after
            # worker.
            self._record_failure(shard_claim, f"results refused: {type(error).__name__}: {error}"[:2000])
            return
        if stored:
            self._sizes.note(shard_claim.evaluation_id, len(result.rows), result.tokens_computed, result.elapsed_s)
            log.info(
                "shard_done",
                prompts=len(result.rows),
                elapsed_s=round(result.elapsed_s, 2),
                tokens=result.tokens_naive,
                tokens_computed=result.tokens_computed,
            )
        else:
            log.warning("shard_discarded", reason="the lease was lost; another worker has the shard")

    def _is_own(self, shard_claim: claims.Claim, error: Exception) -> bool:
        """Return whether an error is due to this worker's device, memory or disk; if so, leave the shard to others.

        A worker whose device failed ends, since its process cannot compute any more.
        """
        kind, host, place = self._scopes
        loading = self.scorer.loaded_model_revision_id != shard_claim.model_revision_id
        message = f"{type(error).__name__}: {error}"[:2000]

        def leave(scope: str, message: str, **how: bool) -> None:
            self._insist(lambda session: claims.leave_to_others(session, shard_claim, scope, message, **how))

        if is_of_device(error):
            leave(place, message)
            log.error("device_failed", error=message, remedy="this worker ends; if it happens again, check the device")
            self.broken = True
            self.stopping.set()
        elif is_out_of_memory(error):
            release_memory()
            leave(
                kind,
                f"the model does not fit in memory: {message}" if loading else message,
                model=loading,
                lasting=loading,
            )
            log.warning("does_not_fit", model_revision=shard_claim.model_revision_id, where=kind, error=message)
        elif loading and isinstance(error, (ModelError, StorageError, OSError)):
            leave(host, str(error), model=True)
            log.warning("model_unusable_here", model_revision=shard_claim.model_revision_id, where=host, error=message)
        else:
            return False
        return True

    def _store(self, shard_claim: claims.Claim, result: claims.ShardResult) -> bool:
        """Store a result, waiting while the database is in trouble. Returns False if the claim is lost."""
        if result.fingerprint not in self._fingerprints:
            # In its own transaction, since workers wait for each other here: not while one of them stores its
            # predictions.
            self._insist(lambda session: claims.fingerprint_id(session, result.fingerprint))
            self._fingerprints.append(result.fingerprint)
        return self._insist(
            # An earlier attempt may have been committed although its confirmation was lost.
            lambda session: claims.finish(session, shard_claim, result) or claims.is_finished(session, shard_claim)
        )

    def _record_failure(
        self, shard_claim: claims.Claim, message: str, *, final: bool = False, of_all: bool = False
    ) -> None:
        self._insist(lambda session: claims.fail(session, shard_claim, message, final=final, of_all=of_all))
        log.warning("shard_failed", error=message)

    def _hand_back(self, shard_claim: claims.Claim, wait_s: float = 0.0) -> None:
        self._insist(lambda session: claims.hand_back(session, shard_claim, wait_s))

    def _insist(self, attempt: Callable[[Session], T]) -> T:
        """Make an attempt in a transaction of its own, repeating it while the database is in trouble."""
        begun = time.monotonic()
        pause = FIRST_RETRY_SECONDS
        while True:
            self._steps += 1  # waiting for a database in trouble does not count as a stall
            try:
                with self._maintenance.transaction() as session:
                    return attempt(session)
            except TROUBLE as error:
                if re.search("no such|has no column", str(error.orig)):  # SQLite's, after an upgrade
                    self._maintenance.require_schema()
                self._unsure = True
                patience = STOPPING_PATIENCE_SECONDS if self.stopping.is_set() else self._patience
                if time.monotonic() - begun > patience:
                    raise
                log_trouble(error)
            if self.stopping.is_set():
                time.sleep(FIRST_RETRY_SECONDS)
            else:
                self.stopping.wait(pause)
            pause = min(2 * pause, LAST_RETRY_SECONDS)

    def _should_stop(self) -> bool:
        self._steps += 1  # a scorer calls this between batches, which is progress
        return self.stopping.is_set() or (self._lost is not None and self._lost is self._claim)

    def _idle(self) -> bool:
        with read_session(self.engine) as session:
            return not claims.work_remains(session, self.queues)

    # Maintaining

    def maintain(self) -> None:
        """Reconcile: unhashed models, expired leases, lost hints, seals and submissions."""
        if not self._maintaining.acquire(blocking=False):
            return  # another thread of this worker is at it
        try:
            self._maintenance.require_schema()
            self._prepare_revisions()
            self._maintenance.reconcile(self._keep)  # its own lease first, since this worker is alive
        finally:
            self._maintaining.release()
        self.seal_complete()
        advance(self.engine)

    def _prepare_revisions(self) -> None:
        """Hash the files of newly registered revisions, or check their endpoints; unusable ones fail with a reason."""
        while not self.stopping.is_set():
            with self._maintenance.transaction() as session:
                lease = self.settings.lease_seconds
                revision = preparation.next_to_prepare(session, self.id, lease, self._scopes)
                if revision is None:
                    return
                revision_id, request = revision.id, request_of(revision)
            try:
                files = inspect_files(request, self.settings)
            except (ShuffleboardError, OSError) as error:
                problem = str(error)
                with self._maintenance.transaction() as session:
                    live = claims.worker_is_live()
                    preparation.fail_preparation(session, revision_id, self.id, self._scopes, live, problem)
                log.warning("model_unusable", revision=revision_id, error=problem)
                continue
            with self._maintenance.transaction() as session:
                preparation.finish_preparation(session, revision_id, files)

    def seal_complete(self, evaluation_id: int | None = None) -> None:
        """Seal every evaluation whose shards are all done, or only this one, and update the boards."""
        with self._speaking_of():
            self._maintenance.seal_complete(evaluation_id)

    def _maintain_regularly(self) -> None:
        """Maintain while scoring is busy, in a thread separate from the heartbeat: hashing a model can take minutes."""
        while not self.stopping.wait(self.settings.reconcile_seconds):
            self._unload_if_idle()
            try:
                self.maintain()
            except UpgradedError:
                return  # the worker ends once the claimed shard is stored
            except DBAPIError as error:
                log_trouble(error)

    def _unload_if_idle(self) -> None:
        if self.scorer.loaded_model_revision_id is None or not self._turn.acquire(blocking=False):
            return
        try:
            if time.monotonic() - self._last_work >= self.unload_seconds:
                log.info("model_unloaded", model_revision=self.scorer.loaded_model_revision_id)
                self.scorer.unload()
                release_memory()
        finally:
            self._turn.release()

    # Heartbeat

    def _beat(self) -> None:
        """Extend the lease and update the heartbeat from a separate thread while scoring is busy."""
        interval = min(self.settings.lease_seconds / 3, claims.BEAT_SECONDS)
        while not self.stopping.wait(interval):
            try:
                if self._gives_up(interval):
                    return
                with self._maintenance.transaction() as session:
                    self._keep(session)
            except DBAPIError as error:  # the lease lasts three beats
                log_trouble(error)

    def _gives_up(self, interval_s: float) -> bool:
        """Return whether the current shard made no progress for too long; if so, give it up: the process has to end.

        The hanging thread cannot be ended alone. Any result of it has a stale claim.
        """
        claim, loaded = self._claim, self.scorer.loaded_model_revision_id
        still_s = self._stillness.look((claim, loaded, self._steps), interval_s)
        if claim is None or still_s < self.settings.stall_min_seconds:
            return False
        error = f"no progress for {still_s:.0f} s in process {os.getpid()} on {socket.gethostname()}, which exits"
        try:
            with self._maintenance.transaction() as session:
                is_loading = loaded != claim.model_revision_id
                if still_s < stalls.patience(session, self.settings, None if is_loading else claim):
                    return False
                stalls.give_up(session, claim, self.id, error)
        except DBAPIError as trouble:
            if still_s < self.settings.stall_max_seconds:
                raise
            log_trouble(trouble)  # the hanging thread may hold the database's lock: the end of the process frees it
        log.error("shard_given_up", evaluation=claim.evaluation_id, shard=claim.shard_id, error=error)
        self._lost = claim
        self.broken = True
        self.stopping.set()
        return True

    def _keep(self, session: Session) -> None:
        """Update the heartbeat and extend the lease; note if the lease is lost, so that scoring stops."""
        follow_clock(session)
        session.execute(
            update(Worker)
            .where(Worker.id == self.id)
            .values(
                last_seen=database_now(),
                loaded_model_revision_id=self.scorer.loaded_model_revision_id,
                token_budgets=self._budgets.document() or None,
            )
        )
        preparation.keep_preparing(session, self.id, self.settings.lease_seconds)
        claim = self._claim
        if claim is not None and not claims.heartbeat(session, claim, self.settings.lease_seconds):
            self._lost = claim


def _unusable(error: DBAPIError) -> DatabaseError:
    reason = str(error.orig).splitlines()[0]
    return DatabaseError(f"the database cannot be used: {reason}; the work stays queued: fix that and start a worker")

"""The claim loop: claim, score, store. The same for Celery workers and for those that poll the database."""

import os
import socket
import threading
import uuid
from collections.abc import Sequence

import structlog
from sqlalchemy import Engine, insert, select, update
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError
from sqlalchemy.orm import Session

from registry import queue
from registry.db import database_now, read_session, write_session
from registry.dispatch import missing_hints, send_hints
from registry.errors import ModelError, SealError
from registry.model_revisions import request_of
from registry.models import ModelRevision, Worker
from registry.seal import seal
from registry.settings import Settings
from workers.artifacts import inspect_files
from workers.errors import InterruptedScoringError
from workers.scorer import Scorer

_log = structlog.get_logger()


class WorkerLoop:
    """One worker process: registers itself, claims shards, keeps its leases alive, seals what is complete."""

    def __init__(self, engine: Engine, settings: Settings, scorer: Scorer, queues: Sequence[str]) -> None:
        self.engine = engine
        self.settings = settings
        self.scorer = scorer
        self.queues = tuple(queues)
        self.id = str(uuid.uuid4())
        self.stopping = threading.Event()
        self._claim: queue.Claim | None = None
        self._lost = threading.Event()
        self._background = [
            threading.Thread(target=self._beat, name="heartbeat", daemon=True),
            threading.Thread(target=self._maintain_regularly, name="maintenance", daemon=True),
        ]

    def start(self) -> None:
        """Makes the worker's row, reconciles once, and starts the threads that beat and maintain."""
        with write_session(self.engine) as session:
            session.execute(
                insert(Worker).values(
                    id=self.id,
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    device=self.scorer.device(),
                    versions=self.scorer.versions(),
                )
            )
        self.maintain()
        for thread in self._background:
            thread.start()
        _log.info("worker_started", worker=self.id, device=self.scorer.device(), queues=self.queues)

    def stop(self) -> None:
        """Marks the worker stopped."""
        self.stopping.set()
        for thread in self._background:
            thread.join(timeout=5)
        try:
            with write_session(self.engine) as session:
                session.execute(update(Worker).where(Worker.id == self.id).values(stopped_at=database_now()))
        except OperationalError as error:  # then its silence says so
            _log.warning("database_unreachable", error=str(error.orig))
        _log.info("worker_stopped", worker=self.id)

    def run(self, *, until_idle: bool = False) -> None:
        """Polls the database until asked to stop; with `until_idle`, until nothing is queued or being scored."""
        while not self.stopping.is_set():
            try:
                if self.work_once():
                    continue
                self.maintain()
                if until_idle and self._idle():
                    return
            except OperationalError as error:
                if until_idle:  # somebody waits for this worker
                    raise
                # The database may be restarting. A shard whose result got lost is queued again by its lease.
                _log.warning("database_unreachable", error=str(error.orig))
            self.stopping.wait(self.settings.poll_seconds)

    def work_once(self) -> bool:
        """Claims and scores one shard; False when there was none to claim."""
        with write_session(self.engine) as session:
            claim = queue.claim(
                session,
                self.id,
                queues=self.queues,
                lease_seconds=self.settings.lease_seconds,
                loaded_model_revision_id=self.scorer.loaded_model_revision_id,
            )
        if claim is None:
            return False
        self._lost.clear()
        self._claim = claim
        try:
            self._score(claim)
        finally:
            self._claim = None
        self.seal_complete()
        return True

    def _score(self, claim: queue.Claim) -> None:
        log = _log.bind(evaluation=claim.evaluation_id, shard=claim.shard_id, fence=claim.fence)
        try:
            result = self.scorer.score(self.engine, claim, self._should_stop)
        except InterruptedScoringError:
            with write_session(self.engine) as session:
                queue.hand_back(session, claim)
            log.info("shard_handed_back")
            return
        except Exception as error:  # noqa: BLE001 - any error of a model is recorded on its shard, and the rest goes on
            message = f"{type(error).__name__}: {error}"[:2000]
            with write_session(self.engine) as session:
                queue.fail(session, claim, message)
            log.warning("shard_failed", error=message)
            return
        try:
            with write_session(self.engine) as session:
                stored = queue.finish(session, claim, result)
        except (IntegrityError, DataError, AssertionError) as error:
            # A bug to see: nothing was stored, and the shard carries the error instead of killing worker after worker.
            message = f"results refused: {type(error).__name__}: {error}"[:2000]
            with write_session(self.engine) as session:
                queue.fail(session, claim, message)
            log.warning("shard_failed", error=message)
            return
        if stored:
            log.info("shard_done", prompts=len(result.rows), elapsed_s=round(result.elapsed_s, 2))
        else:
            log.warning("shard_discarded", reason="the lease was lost; another worker has the shard")

    def _should_stop(self) -> bool:
        return self.stopping.is_set() or self._lost.is_set()

    def maintain(self) -> None:
        """Reconciles: unhashed models, expired leases, lost hints, evaluations waiting for their seal."""
        self._prepare_revisions()
        with write_session(self.engine) as session:
            waiting = queue.reconcile(session)
        if self.settings.broker_url and waiting:
            send_hints(self.settings, missing_hints(self.settings, waiting))
        self.seal_complete()

    def _prepare_revisions(self) -> None:
        """Hashes the files of newly registered revisions; an unusable one is marked failed, with the reason."""
        with read_session(self.engine) as session:
            waiting = {
                row.id: request_of(row)
                for row in session.scalars(select(ModelRevision).where(ModelRevision.state == "registered"))
            }
        for revision_id, request in waiting.items():
            files, problem = None, None
            try:
                files = inspect_files(request)
            except (ModelError, OSError) as error:
                problem = str(error)
                _log.warning("model_unusable", revision=revision_id, error=problem)
            with write_session(self.engine) as session:
                revision = session.get_one(ModelRevision, revision_id)
                if files is not None:
                    files.record(revision)
                else:
                    revision.state, revision.error = "failed", problem

    def seal_complete(self) -> None:
        """Seals every evaluation whose shards are all done."""
        with write_session(self.engine) as session:
            ready = queue.ready_to_seal(session)
        for evaluation_id in ready:
            try:
                with write_session(self.engine) as session:
                    sealed = seal(session, evaluation_id)
            except SealError as error:
                _log.warning("seal_refused", evaluation=evaluation_id, error=str(error))
                continue
            if sealed:
                _log.info("evaluation_sealed", evaluation=evaluation_id)

    def _idle(self) -> bool:
        with write_session(self.engine) as session:
            return not queue.work_remains(session, self.queues)

    def _beat(self) -> None:
        """Extends the lease and says that the worker lives, from a thread of its own, while scoring is busy."""
        interval = min(self.settings.lease_seconds / 3, 10.0)
        while not self.stopping.wait(interval):
            try:
                with write_session(self.engine) as session:
                    self._say_alive(session)
                    claim = self._claim
                    kept = claim is None or queue.heartbeat(session, claim, self.settings.lease_seconds)
                    if not kept and self._claim is claim:
                        self._lost.set()
            except DBAPIError as error:
                # The database may be restarting; the lease lasts three beats.
                _log.warning("heartbeat_missed", error=str(error.orig))

    def _maintain_regularly(self) -> None:
        """Maintains while scoring is busy; apart from the heartbeat, since hashing a model can take minutes."""
        while not self.stopping.wait(self.settings.reconcile_seconds):
            try:
                self.maintain()
            except DBAPIError as error:
                _log.warning("maintenance_missed", error=str(error.orig))

    def _say_alive(self, session: Session) -> None:
        session.execute(
            update(Worker)
            .where(Worker.id == self.id)
            .values(last_seen=database_now(), loaded_model_revision_id=self.scorer.loaded_model_revision_id)
        )

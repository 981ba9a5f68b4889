"""Maintenance: recurring work, whether or not anything is being scored.

Every worker does it between shards, and `shuffleboard worker beat` does nothing else. Any number may do it at once:
each part locks its rows, skips those locked by others, and repeats its condition before it writes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from registry.boards.snapshots import refresh_boards
from registry.boards.submissions import advance
from registry.db import read_session, write_session
from registry.errors import ArchiveError, RemoteError, SealError, StorageError, UsageError
from registry.predictions.stored import unwritten
from registry.process_log import log
from registry.queue import claims, generation
from registry.queue.hints import missing_hints, send_hints
from registry.schema import history
from registry.sealed.seal import seal
from registry.sealed.signing import keep_signed
from registry.settings import Settings

MINIMUM_IDLE_SECONDS: Final = 5.0
SEALING_LEASES: Final = 10
"""Number of leases for which a sealing transaction may be idle, since it computes between its statements."""


class Maintenance:
    """Maintains the leases, hints, seals, boards and submissions of one registry."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = self._any = engine
        self.settings = settings
        self._origin: history.SchemaOrigin | None = None

    def require_schema(self) -> None:
        """Raise UpgradedError if the database was upgraded since the first call: this code would write wrong rows."""
        with read_session(self._any) as session:
            if self._origin is None:
                self._origin = history.read_origin(session.connection())
            history.require_unchanged(session.connection(), self._origin)

    def maintain(self) -> None:
        """Maintain the queue, the seals, the boards and the submissions, once.

        Raises DBAPIError while the database is in trouble; completed steps stay done. Raises GenerationError if the
        database was restored, moved or promoted; the next round uses the new generation. Raises UpgradedError if the
        database was upgraded; then this process must not maintain it any more.
        """
        self.require_schema()
        self._begin()
        self.reconcile()
        self.seal_complete()
        advance(self.engine)

    def _begin(self) -> None:
        with write_session(self._any) as session:
            now = generation.current(session)
        self.engine = generation.bind_generation(self._any, now)

    def reconcile(self, first: Callable[[Session], None] | None = None) -> None:
        """Queue shards whose lease ran out, and send missing hints.

        first: called before that in the same transaction.
        """
        with self.transaction() as session:
            if first is not None:
                first(session)
            claims.reconcile(session)
            queued = claims.waiting(session) if self.settings.broker_url else []
        if queued:
            send_hints(self.settings, missing_hints(self.settings, queued))

    def seal_complete(self, evaluation_id: int | None = None) -> None:
        """Seal every evaluation whose shards are all done, and bring the boards up to date.

        evaluation_id: the evaluation of a shard that was just stored; nothing is done if it has other shards left. None
        seals all that are ready. Raises UpgradedError if the database was upgraded.
        """
        self.require_schema()
        with read_session(self.engine) as session:
            ready = claims.ready_to_seal(session, evaluation_id)
        if evaluation_id is not None and not ready:
            return
        for complete in ready:
            with structlog.contextvars.bound_contextvars(evaluation=complete):
                self._seal(complete)
        # Also if nothing was sealed here: the process that sealed the last one may have been killed before this line.
        for board in refresh_boards(self.engine):
            log.info("board_refreshed", board=board)
        self._sign()
        self._keep_files()

    def _sign(self) -> None:
        """Sign the chain's head if it is new, or was last signed a day ago; do nothing without a key."""
        try:
            with self.transaction() as session:
                keep_signed(session, self.settings)
        except (UsageError, RemoteError) as error:
            log.warning("chain_not_signed", error=str(error))

    def _seal(self, evaluation_id: int) -> None:
        try:
            with self.transaction(SEALING_LEASES) as session:
                sealed = claims.lock_unsealed(session, evaluation_id) and seal(session, evaluation_id)
        except SealError as error:
            log.warning("seal_refused", error=str(error))
            return
        if sealed:
            log.info("evaluation_sealed")

    def _keep_files(self) -> None:
        """Write the missing files of sealed evaluations, such as new ones and those interrupted by a kill."""
        with read_session(self.engine) as session:
            missing = unwritten(session)
        if not missing:
            return
        from registry.sealed.archiving import Shared, write  # loads Arrow, which most rounds do not need

        shared = Shared()
        for number in missing:
            with structlog.contextvars.bound_contextvars(evaluation=number):
                try:
                    write(self.engine, number, shared=shared)
                except SealError as error:
                    log.warning("file_not_written", error=str(error))
                except (ArchiveError, StorageError) as error:  # the files after it could not be written either
                    log.warning("files_not_written", error=str(error))
                    return

    @contextmanager
    def transaction(self, leases: int = 1) -> Iterator[Session]:
        """Begin a transaction that PostgreSQL ends, with its locks, if this process is frozen for this many leases."""
        idle = leases * max(self.settings.lease_seconds, MINIMUM_IDLE_SECONDS)
        with write_session(self.engine, idle) as session:
            yield session


def log_trouble(error: DBAPIError) -> None:
    """Log that the database is in trouble, and that this process waits for it."""
    log.warning("database_trouble", error=str(error.orig).splitlines()[0] if str(error.orig) else str(error))

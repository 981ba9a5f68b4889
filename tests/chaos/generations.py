"""Databases that are restored, moved or promoted while workers have claims in them.

One worker scores wrongly, so that its numbers would be noticed. It claims a shard of model one. Another database then
replaces the first; in it, an evaluation of model two has the same ids, and another worker scores that evaluation.
"""

import re
import shutil
import signal
import sqlite3
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, make_url, select, text, update

from registry.db import database_now, get_engine, read_session, write_session
from registry.operations.backup import backup, client_program, restore
from registry.operations.moving import move
from registry.queue.shards import shard_prompts
from registry.sealed.verification import verify_evaluation
from registry.tables import Evaluation, Shard
from tests.chaos.processes import Worker as Process
from tests.support.commands import eventually, fake_worker
from tests.support.fake_scorer import fake_logprobs
from tests.support.population import predictions, queue_evaluation
from tests.support.services import PostgresServer, StandbyServer, postgres_execute

CALM: Final = {"poll_seconds": 0.1, "lease_seconds": 3600.0, "reconcile_seconds": 3600.0}
"""Long intervals, since a worker frozen in a transaction on SQLite would block the others."""
AWAKE: Final = {"poll_seconds": 0.1, "lease_seconds": 1.0, "reconcile_seconds": 0.3}

STATES: Final = ("frozen", "awake", "scored")
"""States of the old worker: frozen in the shard, awake with its heartbeat, or frozen before it stores."""


@dataclass
class Run:
    """A test with one worker of the old generation and one of the new generation.

    holds_claim: whether the new database contains the claim, as a backup does that was made after the claim. sabotage:
    options of the old worker that break the queue.
    """

    url: str
    folder: Path
    state: str
    holds_claim: bool
    sabotage: Sequence[str] = ()
    stack: ExitStack = field(default_factory=ExitStack)
    old: Process | None = None

    @property
    def engine(self) -> Engine:
        return get_engine(self.url)

    def begin(self, copy: Callable[[], None]) -> None:
        """Let a worker claim model one's shard.

        copy: makes the copy that will replace the database.
        """
        if not self.holds_claim:
            copy()
        queue_evaluation(self.engine, self.folder, model="one", benchmark="one")
        gate = self.folder / "gate of the old"
        words: Sequence[object] = {
            "frozen": ("--trip", "scoring:2:STOP"),
            "scored": ("--trip", "scored:1:STOP"),
            "awake": ("--gate", gate),
        }[self.state]
        settings = {"database_url": self.url, **(AWAKE if self.state == "awake" else CALM)}
        old = self.old = self.stack.enter_context(fake_worker("--wrong-numbers", *self.sabotage, *words, **settings))
        if self.state == "awake":
            eventually(lambda: the_shard(self.engine).state == "leased", "the old worker has the shard")
        else:
            eventually(lambda: old.frozen, "the old worker freezes")
        if self.holds_claim:
            copy()
        self.engine.dispose()

    def end(self) -> str:
        """Wake the old worker after the replacement, check that none of its numbers are stored, and return its log."""
        assert self.old is not None
        old, gate = self.old, self.folder / "gate of the new"
        self.engine.dispose()
        with self.stack:
            if self.holds_claim:
                self._wake()
                eventually(lambda: old.status is not None, "the old worker ends")
                assert the_shard(self.engine).state == "leased"
                assert not predictions(self.engine, 1)
                self._free()
                new = self.stack.enter_context(fake_worker(database_url=self.url, **CALM))
            else:
                queue_evaluation(self.engine, self.folder, model="two", benchmark="two")
                new = self.stack.enter_context(fake_worker("--gate", gate, database_url=self.url, **CALM))
                eventually(lambda: the_shard(self.engine).state == "leased", "the new worker has the shard")
                assert the_shard(self.engine).fence == 1
                self._wake()
                eventually(lambda: old.status is not None or is_done(old), "the old worker ends, or stores")
                gate.touch()
            eventually(lambda: the_shard(self.engine).state in ("done", "failed"), "the shard is scored")
            eventually(lambda: is_sealed(self.engine), "the evaluation is sealed")
            self._assert_right()
            assert (old.status, new.status) == (1, None)
            return old.log.read_text()

    def _wake(self) -> None:
        assert self.old is not None
        (self.folder / "gate of the old").touch()
        self.old.signal(signal.SIGCONT)

    def _free(self) -> None:
        """Expire the lease of a claim that is in the new database."""
        with write_session(self.engine) as session:
            session.execute(update(Shard).where(Shard.state == "leased").values(lease_until=database_now(-1)))

    def _assert_right(self) -> None:
        """Check that the evaluation contains only the new worker's numbers, and that it can be verified."""
        with read_session(self.engine) as session:
            right = {
                (item.question.external_id, item.variant.ordinal): fake_logprobs(item.prompt)
                for item in shard_prompts(session, the_shard(self.engine).id)
            }
            assert verify_evaluation(session, 1)["problems"] == []
        stored = {key: row["label_logprobs"] for key, row in predictions(self.engine, 1).items()}
        assert stored == right
        assert the_shard(self.engine).state == "done"


def is_done(worker: Process) -> bool:
    """Return whether a worker has stored its shard, or had it refused."""
    return re.search("shard_(done|discarded)", worker.log.read_text()) is not None


def the_shard(engine: Engine) -> Any:
    with read_session(engine) as session:
        return session.scalars(select(Shard)).one()


def is_sealed(engine: Engine) -> bool:
    with read_session(engine) as session:
        return session.scalar(select(Evaluation.seal)) is not None


# Ways to replace a database


@dataclass
class Replacing(ABC):
    """A way to replace a database by an earlier state or a copy of a registry."""

    url: str
    folder: Path

    @abstractmethod
    def copy(self) -> None:
        """Copy the registry in its present state."""

    @abstractmethod
    def replace(self) -> None:
        """Replace the database by the copy."""

    @property
    def path(self) -> Path:
        return Path(str(make_url(self.url).database))

    @property
    def name(self) -> str:
        return str(make_url(self.url).database)

    def clear(self) -> None:
        """Remove the database; on PostgreSQL, create an empty one with the same name."""
        get_engine(self.url).dispose()
        if self.url.startswith("sqlite"):
            for ending in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
            return
        admin = make_url(self.url).set(database="postgres").render_as_string(hide_password=False)
        postgres_execute(admin, f"DROP DATABASE {self.name} WITH (FORCE)")
        postgres_execute(admin, f"CREATE DATABASE {self.name} TEMPLATE template0")


class Restored(Replacing):
    """A replacement by `db backup` and `db restore`."""

    def copy(self) -> None:
        backup(self.url, self.folder / "backup")

    def replace(self) -> None:
        self.clear()
        assert restore(self.url, self.folder / "backup").problems == []


class ByHand(Replacing):
    """A replacement by pg_dump and pg_restore, or by copying the file, which the registry does not notice."""

    def copy(self) -> None:
        if self.url.startswith("sqlite"):
            with (
                closing(sqlite3.connect(self.path)) as source,
                closing(sqlite3.connect(self.folder / "copy")) as target,
            ):
                source.backup(target)
        else:
            self._client("pg_dump", "--format=custom", f"--file={self.folder / 'dump'}")

    def replace(self) -> None:
        if self.url.startswith("sqlite"):
            self.clear()
            shutil.copyfile(self.folder / "copy", self.path)
        else:
            self.clear()
            self._client("pg_restore", "--single-transaction", self.folder / "dump")

    def _client(self, program: str, *words: object) -> None:
        url = make_url(self.url).set(drivername="postgresql").render_as_string(hide_password=False)
        command = [client_program(program, 14), f"--dbname={url}", *map(str, words)]
        subprocess.run(command, check=True, stderr=subprocess.PIPE)


class InPlace(ByHand):
    """A replacement by pg_restore --clean, or by overwriting the file, while the database is in use."""

    def replace(self) -> None:
        if self.url.startswith("sqlite"):
            with closing(sqlite3.connect(self.folder / "copy")) as copy, closing(sqlite3.connect(self.path)) as target:
                copy.backup(target)
        else:
            # A worker and the restore may wait for each other; PostgreSQL then ends one of them.
            eventually(self._restored, "the dump is restored")

    def _restored(self) -> bool:
        try:
            self._client("pg_restore", "--clean", "--single-transaction", self.folder / "dump")
        except subprocess.CalledProcessError as error:
            if b"deadlock detected" not in error.stderr:
                raise
            return False
        return True


class Promoted:
    """A standby that replaces its primary, for several registries at once.

    Clients get the addresses of both servers, and use the writable server.
    """

    def __init__(self, primary: PostgresServer, standby: StandbyServer) -> None:
        self.primary, self.standby = primary, standby
        self.is_cut_off = False

    def url_of(self, name: str) -> str:
        hosts = "&".join(f"host=127.0.0.1:{server.port}" for server in (self.primary, self.standby))
        return f"postgresql+psycopg://postgres@/{name}?{hosts}&target_session_attrs=read-write"

    def cut_off(self) -> None:
        """Wait until the standby has replayed everything, then disconnect it."""
        primary, standby = (get_engine(server.url) for server in (self.primary, self.standby))
        reading = standby.execution_options(postgresql_readonly=True)  # it refuses transactions that may write
        with primary.connect() as on_primary, reading.connect() as on_standby:
            written = on_primary.scalar(text("SELECT CAST(pg_current_wal_insert_lsn() AS text)"))
            replayed = text("SELECT pg_last_wal_replay_lsn() >= CAST(:written AS pg_lsn)")
            eventually(lambda: on_standby.scalar(replayed, {"written": written}), "the standby catches up")
            postgres_execute(self.standby.url, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
            senders = text("SELECT count(*) FROM pg_stat_replication")
            eventually(lambda: not on_primary.scalar(senders), "the standby is cut off")
        primary.dispose()
        standby.dispose()
        self.is_cut_off = True

    def promote(self) -> None:
        """Stop the primary, and promote the standby."""
        self.primary.kill()
        postgres_execute(self.standby.url, "SELECT pg_promote(true, 60)")


class Moved(Replacing):
    """A replacement by `db move`, after which the new database is renamed to the old one's name."""

    def copy(self) -> None:
        if self.url.startswith("sqlite"):
            move(self.url, f"sqlite:///{self.folder / 'moved.db'}")
        else:
            url = make_url(self.url)
            admin = url.set(database="postgres").render_as_string(hide_password=False)
            postgres_execute(admin, f"CREATE DATABASE {self.name}_moved TEMPLATE template0")
            target = url.set(database=f"{self.name}_moved").render_as_string(hide_password=False)
            move(self.url, target)
            get_engine(target).dispose()

    def replace(self) -> None:
        if self.url.startswith("sqlite"):
            self.clear()
            (self.folder / "moved.db").replace(self.path)
        else:
            admin = make_url(self.url).set(database="postgres").render_as_string(hide_password=False)
            get_engine(self.url).dispose()
            postgres_execute(admin, f"DROP DATABASE {self.name} WITH (FORCE)")
            postgres_execute(admin, f"ALTER DATABASE {self.name}_moved RENAME TO {self.name}")


WAYS: Final[dict[str, type[Replacing]]] = {
    "restored": Restored,
    "restored by hand": ByHand,
    "restored in place": InPlace,
    "moved": Moved,
}

"""Every release is upgraded to today's code, and to the next revision after it, and keeps all its content.

The releases are the folders here, and one made by today's code. Until a second revision exists, the test adds
one: `tests/migration/next_revision.py`.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest
from sqlalchemy import Engine, select, update

from migrations import draft
from registry.db import get_engine, read_session, write_session
from registry.operations import backup
from registry.operations.migrate import upgrade
from registry.queue.evaluations import EvaluationRequest, submit
from registry.schema import catalogue, history
from registry.sealed.importing import import_evaluation
from registry.sealed.verification import verify_all
from registry.settings import Settings, get_settings
from registry.tables import Evaluation, Shard
from tests.chaos.processes import Worker, fork_command
from tests.migration.next_revision import NEXT, draft_next, drafted, next_schema
from tests.migration.test_migrations import definitions
from tests.releases.fixture import CONTENTS, DIGESTS, EXPORTED, FROZEN, RELEASES, ROOT, STATE, unpack
from tests.releases.population import work
from tests.releases.state import GROWING, State, addresses, lost, lost_by_upgrade, read_state
from tests.support import commands
from tests.support.commands import PATIENCE_S, eventually, fake_worker, shuffleboard, worker_process
from tests.support.population import table_counts
from tests.support.services import PostgresServer
from web import create_app

__all__ = ["drafted", "next_schema"]

NOW: Final = "made now"
KEPT: Final = sorted(path.parent.name for path in RELEASES.glob(f"*/{CONTENTS}"))


@pytest.fixture(scope="session")
def made_now(postgres_server: PostgresServer, made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """Return the fixture that today's code makes, as `make release-fixture` does."""

    def make(folder: Path) -> None:
        command = [sys.executable, "-m", "tests.releases.fixture", str(folder)]
        variables = {"SHUFFLEBOARD_TEST_POSTGRESQL_URL": postgres_server.url}
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    return made_once("release", make)


@pytest.fixture(scope="session")
def contents(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return contents(name), which returns the folder with the contents of a release, unpacked once."""
    folders: dict[str, Path] = {}

    def unpacked(name: str) -> Path:
        if name not in folders:
            release = request.getfixturevalue("made_now") if name == NOW else RELEASES / name
            folders[name] = unpack(release, tmp_path_factory.mktemp("release"))
        return folders[name]

    return unpacked


@dataclass(frozen=True)
class Release:
    """A copy of a release's registry for this process, with its settings, contents and answers."""

    settings: Settings
    folder: Path
    state: State

    @property
    def url(self) -> str:
        return self.settings.resolve_database_url()

    @property
    def engine(self) -> Engine:
        return get_engine(self.url)


Open = Callable[[str, str], Release]


@pytest.fixture
def open_release(
    contents: Callable[[str], Path], request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Open:
    """Return open_release(name, engine), which makes a copy of a release's registry the registry of this process."""

    def open_page(name: str, engine_name: str) -> Release:
        folder, home = contents(name), tmp_path / "registry"
        shutil.copytree(folder / "home", home)
        monkeypatch.setenv("SHUFFLEBOARD_HOME", str(home))
        if engine_name == "postgresql":
            (home / "shuffleboard.db").unlink()
            url = request.getfixturevalue("postgresql_url")
            backup._fill_postgresql(url, folder / "backup" / "postgresql.backup")
            monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", url)
        return Release(get_settings(), folder, json.loads((folder / STATE).read_text(encoding="utf-8")))

    return open_page


ENGINES: Final = pytest.mark.parametrize("engine_name", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
MADE: Final = pytest.param(NOW, marks=[pytest.mark.long] * bool(KEPT))
EVERY: Final = pytest.mark.parametrize("name", [*KEPT, MADE])
NEWEST: Final = KEPT[-1] if KEPT else NOW


def problems_of(engine: Engine) -> list[str]:
    """Verify every seal, snapshot and link of the chain."""
    with read_session(engine) as session:
        report = verify_all(session)
    assert report["evaluations"]
    return backup.problems_of(report)


@ENGINES
@EVERY
@pytest.mark.usefixtures("next_schema")
def test_an_upgraded_release_keeps_rows_seals_addresses_and_tokens(
    name: str, engine_name: str, open_release: Open, tmp_path: Path
) -> None:
    release = open_release(name, engine_name)
    assert history.current(release.engine) == release.state["revision"]
    assert upgrade(release.url) == NEXT
    after = read_state(release.settings, release.state["tokens"])
    assert lost_by_upgrade(release.state, after) == []
    statuses = {answer["status"] for answer in release.state["answers"].values()}
    assert statuses == {200}
    assert len(release.state["answers"]) > 150
    assert problems_of(release.engine) == []
    sealed = len(after["seals"])
    with write_session(release.engine) as session:
        submit(session, EvaluationRequest(model="model-0", benchmark="bench@2", variants="cyclic"))
    release_leases(release.engine)
    work(release.engine, release.settings)
    assert len(read_state(release.settings, {})["seals"]) == sealed + 2
    assert problems_of(release.engine) == []


@ENGINES
def test_an_upgraded_first_release_finds_an_actor_by_index(engine_name: str, open_release: Open) -> None:
    release = open_release("1.0.0", engine_name)
    assert upgrade(release.url) == history.head() != release.state["revision"]
    with release.engine.connect() as connection:
        assert catalogue.find_differences(connection) == []
        counted = "SELECT count(*) FROM audit_event WHERE actor = 'admin'"
        if engine_name == "postgresql":
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")  # it has few rows
            plan = connection.exec_driver_sql(f"EXPLAIN {counted}").all()
        else:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {counted}").all()
    assert "ix_audit_event_actor" in str(plan)


@EVERY
def test_backup_export_and_site_of_a_release_are_read(
    name: str, contents: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = contents(name)
    state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    monkeypatch.setenv("SHUFFLEBOARD_HOME", str(tmp_path / "restored"))
    restored = backup.restore(get_settings().resolve_database_url(), folder / "backup" / "sqlite.backup")
    assert (restored.problems, restored.sealed) == ([], len(state["seals"]))

    monkeypatch.setenv("SHUFFLEBOARD_HOME", str(tmp_path / "other"))
    target_url = get_settings().resolve_database_url()
    upgrade(target_url)
    number, _ = import_evaluation(get_engine(target_url), folder / "export" / "evaluation")
    with read_session(get_engine(target_url)) as session:
        assert session.get_one(Evaluation, number).seal == state["seals"][str(EXPORTED)]
    assert problems_of(get_engine(target_url)) == []
    tables = json.loads((folder / "export" / "tables" / "manifest.json").read_text(encoding="utf-8"))
    rows = {each["file"]: each["rows"] for each in tables["files"]}
    assert {file: pq.read_metadata(folder / "export" / "tables" / file).num_rows for file in rows} == rows

    key = folder / "public.pem"
    shuffleboard("verify", "--public", key, folder / "export" / "evaluation")
    # A fixture has no libraries for browsers, whose size alone exceeds the limit of a fixture.
    checked = shuffleboard("verify", "--public", key, folder / "site", status=1).stderr
    problems = [line for line in checked.splitlines() if line.startswith("✗")]
    assert problems
    assert all(re.fullmatch(r"✗ site/vendor/\S+: is missing; fetch the folder again", line) for line in problems)


@pytest.mark.long
def test_a_fixture_is_never_written_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.releases.fixture", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "a released fixture is never written again" in done.stderr


# Upgrades in trouble


def release_leases(engine: Engine) -> None:
    """Make the shards of dead workers available at once."""
    with write_session(engine) as session:
        past = datetime(2000, 1, 1, tzinfo=UTC)
        session.execute(update(Shard).where(Shard.state == "leased").values(lease_until=past))


def upgrading(folder: Path) -> AbstractContextManager[Worker]:
    """Run `shuffleboard db upgrade` as a process of code with these migrations."""
    return commands._process(partial(fork_command, history=folder), ["db", "upgrade"], {})


@pytest.fixture
def waiting(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return migrations whose newest one changes a table, then makes the second file, and waits for the third."""
    folder, begun, gate = tmp_path / "migrations", tmp_path / "begun", tmp_path / "gate"
    draft_next(folder)
    (newest,) = folder.glob("versions/2999*.py")
    code = newest.read_text(encoding="utf-8")
    code += (
        "    import pathlib, time\n"
        f"    pathlib.Path({str(begun)!r}).touch()\n"
        f"    while not pathlib.Path({str(gate)!r}).exists():\n"
        "        time.sleep(0.05)\n"
    )
    newest.write_text(code, encoding="utf-8")
    return folder, begun, gate


def rows_of(release: Release) -> dict[str, int]:
    """Return the number of rows of each table of the release, except tables that grow."""
    counted = table_counts(release.engine)
    return {name: counted.get(name, 0) for name in release.state["tables"] if name not in GROWING}


@pytest.mark.long
@ENGINES
def test_an_upgrade_that_is_killed_half_way_changes_nothing(
    engine_name: str, open_release: Open, waiting: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    release = open_release(NEWEST, engine_name)
    folder, begun, gate = waiting
    before = definitions(release.engine), table_counts(release.engine)
    with upgrading(folder) as process:
        eventually(lambda: begun.exists() or process.status is not None, "the upgrade is half-way")
        assert process.status is None, process.log.read_text()
    assert history.current(release.engine) == release.state["revision"]
    assert (definitions(release.engine), table_counts(release.engine)) == before
    gate.touch()
    monkeypatch.setattr(history, "migrations_folder", lambda: folder)
    assert upgrade(release.url) == NEXT
    assert problems_of(release.engine) == []


@pytest.mark.long
@ENGINES
def test_two_upgrades_at_once_leave_one_upgraded_registry(
    engine_name: str, open_release: Open, waiting: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    release = open_release(NEWEST, engine_name)
    folder, begun, gate = waiting
    before = rows_of(release)
    with upgrading(folder) as first, upgrading(folder) as second:
        eventually(lambda: begun.exists() or first.status is not None, "one of them is half-way")
        time.sleep(0.5)
        assert (first.status, second.status) == (None, None)
        gate.touch()
        statuses = [first.wait(PATIENCE_S), second.wait(PATIENCE_S)]
        assert statuses == [0, 0], first.log.read_text() + second.log.read_text()
    monkeypatch.setattr(history, "migrations_folder", lambda: folder)
    assert history.current(release.engine) == NEXT
    assert rows_of(release) == before
    assert problems_of(release.engine) == []


@contextmanager
def reading(release: Release, readers: int = 3) -> Iterator[set[int]]:
    """Read every address again and again in several threads, and add the statuses of the answers to the set."""
    stop, statuses = threading.Event(), set[int]()
    paths = [address for role, address in addresses(release.engine) if role == "anyone"]
    settings = release.settings.model_copy(update={"rate_limits": False})

    def read(first: int) -> None:
        client = create_app(settings, keep_pages=False).test_client()
        place = first
        while not stop.is_set():
            with client.get(paths[place % len(paths)]) as answer:
                statuses.add(answer.status_code)
            place += readers

    with ThreadPoolExecutor(readers) as pool:
        ended = [pool.submit(read, first) for first in range(readers)]
        try:
            eventually(lambda: statuses, "the readers read")
            yield statuses
        finally:
            stop.set()
        for each in ended:
            each.result()


@pytest.mark.long
@ENGINES
def test_an_upgrade_under_readers_and_two_workers_loses_nothing(
    engine_name: str, open_release: Open, drafted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = open_release(NEWEST, engine_name)
    engine = release.engine
    upgrade(release.url)
    with write_session(engine) as session:
        request = {"model": "model-0", "benchmark": "bench@1", "variants": "full", "shard_prompts": 24}
        number = submit(session, EvaluationRequest(**request))[0].id
    release_leases(engine)
    gate = tmp_path / "gate"
    settings = {"poll_seconds": 0.05, "reconcile_seconds": 0.2}
    with fake_worker("--gate", gate, **settings) as old, reading(release) as statuses:
        eventually(lambda: holds_shard(engine), "the old worker has a shard")
        upgrade_under_load(drafted)
        with worker_process("--history", drafted, "--until-idle", **settings) as new:
            eventually(lambda: new.started or new.status is not None, "the new worker is at work")
            gate.touch()
            assert old.wait(PATIENCE_S) == 75, old.log.read_text()
            assert new.wait(PATIENCE_S) == 0, new.log.read_text()
        assert "shard_done" in old.log.read_text()
    assert statuses <= {200, 503}
    monkeypatch.setattr(history, "migrations_folder", lambda: drafted)
    after = read_state(release.settings, release.state["tokens"])
    assert lost(release.state["seals"], after["seals"]) == []
    assert str(number) in after["seals"]
    permanent = {key: answer for key, answer in release.state["answers"].items() if "/snapshots/" in key}
    assert permanent
    assert lost(permanent, after["answers"]) == []
    assert problems_of(engine) == []


def holds_shard(engine: Engine) -> bool:
    with read_session(engine) as session:
        leased = select(Shard.id).where(Shard.state == "leased", Shard.lease_until > datetime(2001, 1, 1, tzinfo=UTC))
        return session.scalars(leased.limit(1)).first() is not None


def upgrade_under_load(folder: Path) -> None:
    """Upgrade in a process; if it gives up because others use the tables, run it again, as its message advises."""
    for _ in range(20):
        with upgrading(folder) as process:
            status, log = process.wait(PATIENCE_S), process.log.read_text()
        if status == 0:
            return
        assert "run it again" in log, log
    pytest.fail(log)


# Released files


def list_released() -> dict[str, str]:
    """Return path → digest of every file that a release has frozen."""
    lines = (ROOT / DIGESTS).read_text(encoding="utf-8").splitlines()
    return {path: digest for digest, path in (line.split("  ", 1) for line in lines)}


def test_no_released_revision_or_fixture_was_changed() -> None:
    changed = [
        path
        for path, digest in list_released().items()
        if not (ROOT / path).is_file() or hashlib.sha256((ROOT / path).read_bytes()).hexdigest() != digest
    ]
    assert changed == [], "restore these files, and append a revision instead"


def test_every_fixture_is_listed() -> None:
    frozen = {str(path.relative_to(ROOT)) for path in FROZEN.glob(f"*/{CONTENTS}")}
    assert frozen
    assert frozen <= list_released().keys()


def test_a_new_revision_follows_the_released_ones() -> None:
    """Check the order, since a revision before a released one would never run on a registry of that release."""
    files = {str(path.relative_to(ROOT)) for path in (draft.FOLDER / "versions").glob("*.py")}
    frozen = files & list_released().keys()
    assert sorted(files)[: len(frozen)] == sorted(frozen)

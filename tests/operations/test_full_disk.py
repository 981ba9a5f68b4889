"""Commands on a full disk, which report the failed write and its place in one line, and leave no partial files."""

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, text

from registry.db import get_engine, write_session
from registry.sealed.archiving import write
from tests.proof.population import populate
from tests.support.commands import ROOT, shuffleboard
from tests.support.population import add_model, question, table_counts, write_lines
from web import create_app
from web.api.uploads import PREFIX

LINES = [question(number, question="Why? " * 100) for number in range(400)]


@contextmanager
def full_database(engine: Engine, table: str) -> Iterator[None]:
    """Limit the database: SQLite's file cannot grow, PostgreSQL's server fails as on a full disk."""
    if engine.dialect.name == "sqlite":

        def limit(connection, _record) -> None:  # type: ignore[no-untyped-def]
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages + 8}")

        engine.dispose()
        event.listen(engine, "connect", limit)
        try:
            yield
        finally:
            event.remove(engine, "connect", limit)
            engine.dispose()
        return
    with engine.begin() as connection:
        connection.execute(
            text(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
                "'could not extend file \"base/1/2\": No space left on device' USING ERRCODE = 'disk_full'; END $$"
            )
        )
        connection.execute(text(f"CREATE TRIGGER full_disk BEFORE INSERT ON {table} EXECUTE FUNCTION full_disk()"))
    yield
    with engine.begin() as connection:
        connection.execute(text("DROP FUNCTION full_disk CASCADE"))


def assert_one_line(stderr: str, *parts: str) -> None:
    (message,) = [line for line in stderr.splitlines() if line.startswith("Error: ")]
    assert "Traceback" not in stderr
    assert message == stderr.splitlines()[-1]
    for part in parts:
        assert part in message, message


@pytest.fixture
def url(database: str, tmp_path: Path) -> str:
    """Return a database with a benchmark and an external model."""
    path = write_lines(tmp_path / "bench.jsonl", LINES)
    shuffleboard("benchmarks", "import", path, "--name", "bench", database_url=database)
    with write_session(get_engine(database)) as session:
        add_model(session)
    return database


def test_an_import_of_outputs_that_does_not_fit_is_undone(url: str, tmp_path: Path) -> None:
    path = tmp_path / "outputs.jsonl"
    answers = [
        {"question_id": line["id"], "variant": variant, "order": order, "position": 0, "text": "So it is. " * 50}
        for line in LINES
        for variant, order in enumerate(([0, 1, 2, 3], [1, 0, 2, 3]))
    ]
    path.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    engine = get_engine(url)
    before = table_counts(engine)
    command = ("evaluations", "import", path, "--model", "fake", "--benchmark", "bench", "--variants", "imported")
    with full_database(engine, "prediction"):
        outcome = shuffleboard(*command, status=1, database_url=url)
    assert_one_line(outcome.stderr, f"database {engine.url.render_as_string()}", "the disk is full", "free space on it")
    assert table_counts(engine) == before
    assert shuffleboard(*command, database_url=url)


def test_an_import_of_a_benchmark_that_does_not_fit_is_undone(url: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "more.jsonl", LINES[:-1])
    engine = get_engine(url)
    before = table_counts(engine)
    with full_database(engine, "question"):
        outcome = shuffleboard("benchmarks", "import", path, "--name", "more", status=1, database_url=url)
    assert_one_line(outcome.stderr, "the disk is full", "free space on it")
    assert table_counts(engine) == before


@contextmanager
def short_files(most: int) -> Iterator[None]:
    """Limit the length of files, as `ulimit -f` does: writing fails as on a full disk, for root as well."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    # Python 3.11 would keep a module that it compiled and could write only in part, which nothing could import
    # afterwards.
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.one_engine
def test_what_is_written_into_files_and_does_not_fit_leaves_nothing(database: str, tmp_path: Path) -> None:
    engine = get_engine(database)
    evaluation = populate(engine, tmp_path).evaluation
    write(engine, evaluation)  # the folder from which its export is copied
    out = tmp_path / "out"
    out.mkdir()
    commands = {
        "exported": ("evaluations", "export", evaluation, "--to", out / "exported"),
        **{
            name: ("export", "--format", name, "--out", out / name)
            for name in ("parquet", "csv", "jsonl", "every-eval-ever")
        },
        "backup": ("db", "backup", out / "backup"),
    }
    for name, command in commands.items():
        with engine.connect(), short_files(500):  # the database's log files exist already
            outcome = shuffleboard(*command, status=1, database_url=database)
        assert_one_line(outcome.stderr, str(out) if name == "backup" else str(out / name), "free space")
        assert list(out.iterdir()) == [], name
    for command in commands.values():
        shuffleboard(*command, database_url=database)


@pytest.mark.one_engine
def test_a_standard_output_that_is_full_is_said_in_one_line(database: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "shuffleboard.cli", "suites", "list"],
            cwd=ROOT,
            env={"SHUFFLEBOARD_DATABASE_URL": database, "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    assert_one_line(done.stderr, "the output: cannot be written (No space left on device)")


@pytest.mark.one_engine
def test_what_killed_processes_left_of_uploads_is_swept_when_the_website_starts(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    folder = Path(holder.stdout.readline().strip())
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "elsewhere").mkdir()
    create_app(database_url=database)
    assert (folder / "upload.jsonl").exists()  # in use
    holder.kill()
    holder.communicate()
    create_app(database_url=database)
    assert not folder.exists()
    assert (tmp_path / "elsewhere").is_dir()


HOLDER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from web.api.uploads import upload_folder
with upload_folder() as folder:
    (folder / "upload.jsonl").write_text("half")
    print(folder, flush=True)
    sys.stdin.read()
"""

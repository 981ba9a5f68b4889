"""Strangers' queries, which must not reveal hidden rows, change anything, or exceed the machine's limits."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from registry.db import get_engine, read_session, write_session
from registry.errors import QueryRefusedError
from registry.schema.audiences import Audience
from registry.sql import Queries, process
from registry.sql.asking import _Process
from registry.sql.files import Files
from registry.sql.process import Opening
from registry.tables import BenchmarkVersion, Evaluation
from tests.sql.attacks import BOMBS, CHANGE, STEAL
from tests.sql.conftest import PATIENCE_S, Asked, run_complete_query, run_query, run_ready_query
from tests.support.commands import eventually

pytestmark = pytest.mark.long_on("sqlite")

MOST_MIB = 500
A_DAY = 86_400


def fill(sql: str, asked: Asked) -> str:
    """Return the attack with the names of its targets."""
    engine = get_engine(asked.settings.resolve_database_url())
    files = Files(engine, asked.settings)
    files.write("all")
    query = select(Evaluation.id).join(BenchmarkVersion).where(BenchmarkVersion.visibility == "hidden")
    with read_session(engine) as session:
        hidden = session.scalars(query).one()
    (file,) = (files.folder / f"evaluations/evaluation_id={hidden}").glob("prediction_file*")
    names = {"{hidden}": str(hidden), "{hidden_file}": str(file.relative_to(files.folder))}
    for name, value in (names | {"{database}": str(engine.url.database)}).items():
        sql = sql.replace(name, value)
    return sql


@pytest.mark.parametrize("audience", ["public", pytest.param("members", marks=pytest.mark.long)])
@pytest.mark.one_engine
def test_no_query_tells_what_its_audience_may_not_see(asked: Asked, audience: Audience) -> None:
    ours = [str(asked.settings.home), str(Path(process.__file__).parent), "Traceback"]
    unseen = ["secret 1", "secret1", "their password", "root:", "daemon:", "HOME=", *ours]
    if audience == "public":
        unseen += ["club 1", "club1"]
    for name, sql in STEAL.items():
        try:
            result = run_query(asked.settings, audience, fill(sql, asked))
            answer = json.dumps([result.columns, result.rows], ensure_ascii=False)
        except QueryRefusedError as error:
            answer = str(error)
        revealed = [word for word in unseen if word in answer]
        assert not revealed, f"{name}: {answer[:300]}"


@pytest.mark.one_engine
@pytest.mark.parametrize("name", CHANGE)
def test_nothing_but_one_select_is_run(asked: Asked, name: str) -> None:
    with pytest.raises(QueryRefusedError):
        run_query(asked.settings, "public", fill(CHANGE[name], asked))


def test_a_file_that_exists_is_refused_like_one_that_does_not(sqlite_asked: Asked) -> None:
    def read_text(path: str) -> str:
        with pytest.raises(QueryRefusedError) as refused:
            run_query(sqlite_asked.settings, "public", f"SELECT * FROM read_parquet('sealed://{path}')")
        return str(refused.value).split("\n", maxsplit=1)[0].replace(path, "PATH")

    existing = fill("{hidden_file}", sqlite_asked)
    assert read_text(existing) == read_text(existing.replace("prediction", "predictoin"))


@pytest.mark.long_on("postgresql")
def test_what_is_hidden_is_gone_at_once_and_its_date_publishes_it(asked: Asked) -> None:
    engine = get_engine(asked.url)
    with read_session(engine) as session:
        query = select(Evaluation.benchmark_version_id).join(BenchmarkVersion)
        version_id = session.scalars(query.where(BenchmarkVersion.visibility == "public")).one()

    def show(visibility: str, public_from: datetime | None = None) -> None:
        with write_session(engine) as session:
            version = session.get_one(BenchmarkVersion, version_id)
            version.visibility, version.public_from = visibility, public_from

    def rows(sql: str, refresh_seconds: float) -> tuple[tuple[object, ...], ...]:
        settings = asked.settings.model_copy(update={"sql_refresh_seconds": refresh_seconds})
        return run_complete_query(settings, "public", sql).rows

    def is_hidden(refresh_seconds: float) -> bool:
        """Return whether the first answers, complete or not, are without rows of the benchmark."""
        settings = asked.settings.model_copy(update={"sql_refresh_seconds": refresh_seconds})
        first = [run_ready_query(settings, "public", sql).rows for sql in (count, named)]
        return first == [((0,),), ()]

    count, named = "SELECT count(*) FROM prediction_detail", "SELECT DISTINCT benchmark FROM leaderboard"
    assert rows(count, A_DAY) == ((16,),)
    try:
        show("hidden")
        assert is_hidden(A_DAY)  # however old answers may be
        show("public")
        eventually(lambda: rows(count, 0) == ((16,),), "public again, it is shown")
        show("hidden", datetime(2999, 1, 1, tzinfo=UTC))
        assert is_hidden(0)
        show("hidden", datetime(2020, 1, 1, tzinfo=UTC))
        eventually(lambda: (rows(count, 0), rows(named, 0)) == (((16,),), (("open",),)), "its date has published it")
    finally:
        show("public")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if place % 6 or name == "a digest" else [])
        for place, name in enumerate(BOMBS)
    ],
)
def test_a_query_has_no_more_memory_than_its_process_may_have(sqlite_asked: Asked, name: str) -> None:
    files = Files(get_engine(sqlite_asked.url), sqlite_asked.settings)
    listed, child, peaks, ended = files.write("public"), _Process(files.folder), [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            with suppress(FileNotFoundError, ProcessLookupError):  # a query that heeds no interrupt ends its process
                lines = Path(f"/proc/{child._child.pid}/status").read_text(encoding="ascii").splitlines()
                peaks.extend(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))

    opening: Opening = {"files": list(listed.files), "statements": list(listed.statements)}
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        assert child.send(opening, 60) == {}
        child.send({"sql": BOMBS[name], "rows": 10_000, "seconds": 2.0, "size": 5_000_000, "cell": 20_000}, 5)
        ended.set()
        watching.result(PATIENCE_S)
    child.kill()
    assert 0 < max(peaks) < MOST_MIB


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("name", "seconds", "said"),
    [
        ("a series", 0.3, r"did not finish within 0\.3 s"),
        ("a slow function", 0.3, r"did not finish within 0\.3 s"),  # which heeds no interrupt
        ("repeat", PATIENCE_S, "more than 256 MiB of memory; query less"),
    ],
)
def test_a_query_beyond_a_limit_is_refused_and_the_next_answered(
    asked: Asked, name: str, seconds: float, said: str
) -> None:
    with pytest.raises(QueryRefusedError, match=said):
        run_query(asked.settings.model_copy(update={"sql_seconds": seconds}), "public", BOMBS[name])
    assert run_query(asked.settings, "public", "SELECT 1").rows == ((1,),)


def test_queries_are_asked_without_the_environment_of_the_website(
    sqlite_asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_SECRET_OF_OTHERS", "their password")
    queries = Queries(get_engine(sqlite_asked.url), sqlite_asked.settings)
    listed = queries.files.write("public")
    process_ = _Process(queries.files.folder)
    assert process_.send({"files": list(listed.files), "statements": []}, 60) == {}
    assert b"their password" not in Path(f"/proc/{process_._child.pid}/environ").read_bytes()
    process_.kill()

"""Audiences: the same queries on the same names return only rows that the audience may see."""

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text, update

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import database_now, get_engine, read_session, write_session
from registry.errors import NotFoundError, UsageError
from registry.exchange.exports.selection import ExportRequest, select_rows
from registry.queue.evaluations import EvaluationRequest, submit
from registry.schema import views
from registry.schema.audiences import AUDIENCES, CLOSED, FILTERED, OPEN, SEES, Audience, audience_engine
from registry.sealed.exporting import export_evaluation
from registry.settings import Settings
from registry.tables import Base, BenchmarkVersion, Evaluation
from tests.conftest import FilledDatabases
from tests.support.commands import eventually, shuffleboard
from tests.support.fake_scorer import FakeScorer
from tests.support.population import add_model, write_lines
from tests.web.accounts import add_one_of_each_role, bearer, token_of
from web import create_app
from workers.loop import WorkerLoop

VISIBLE = {"for-all": "public", "for-members": "members", "for-nobody": "hidden"}


def fill(engine: Engine, folder: Path) -> None:
    """Store three benchmarks, one of each visibility, each with a sealed evaluation of one model."""
    with write_session(engine) as session:
        add_model(session, "model")
    for name, visibility in VISIBLE.items():
        lines = [
            {
                "id": f"{name}-{number}",
                "subject": None,
                "question": f"{name}?",
                "options": [f"{name} yes", "no"],
                "answer": 0,
            }
            for number in range(3)
        ]
        with write_session(engine) as session:
            content = read_benchmark(write_lines(folder / f"{name}.jsonl", lines))
            import_benchmark(session, content, name=name, version="1")
            session.execute(
                update(BenchmarkVersion)
                .where(BenchmarkVersion.content_digest == content.content_digest)
                .values(visibility=visibility)
            )
            submit(session, EvaluationRequest(model="model", benchmark=name, variants="cyclic"))
    loop = WorkerLoop(engine, Settings(home=folder, poll_seconds=0.05), FakeScorer(), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()


@pytest.fixture
def engine(filled_databases: FilledDatabases, tmp_path: Path) -> Iterator[Engine]:
    """Yield a database with these benchmarks and evaluations."""
    with filled_databases.copy(fill, tmp_path) as (url, _):
        yield get_engine(url)


def names_in(engine: Engine, audience: Audience, relation: str) -> set[str]:
    """Return the benchmarks whose names occur in the rows of a relation that the audience reads."""
    with audience_engine(engine, audience).execution_options(read_only=True).connect() as connection:
        rows = [dict(row) for row in connection.execute(text(f"SELECT * FROM {relation}")).mappings()]
    written = json.dumps(rows, default=str)
    return {name for name in VISIBLE if name in written}


def test_every_table_is_filtered_open_or_closed() -> None:
    assert FILTERED.keys() | OPEN | CLOSED == set(Base.metadata.tables)
    assert len(FILTERED) + len(OPEN) + len(CLOSED) == len(Base.metadata.tables)


def test_no_documented_view_reads_a_closed_table() -> None:
    folder = Path(str(views.__file__)).parent
    for path in folder.glob("*.sql"):
        words = set(path.read_text(encoding="utf-8").replace(".", " ").replace("(", " ").split())
        assert not words & (CLOSED - {"role"}), path.name


@pytest.mark.parametrize("audience", AUDIENCES)
def test_an_audience_finds_only_what_it_may_see_wherever_it_looks(engine: Engine, audience: Audience) -> None:
    allowed = {name for name, visibility in VISIBLE.items() if visibility in SEES[audience]}
    visible: set[str] = set()
    for relation in (*FILTERED, *views.VIEWS):
        seen = names_in(engine, audience, relation)
        assert seen <= allowed, relation
        visible |= seen
    assert visible == allowed
    assert names_in(engine, audience, "leaderboard") == allowed
    assert names_in(engine, audience, "prediction_detail") == allowed


@pytest.mark.parametrize("audience", ["public", "members"])
def test_rows_by_evaluation_are_those_of_the_evaluations_it_may_see(engine: Engine, audience: Audience) -> None:
    with (
        engine.execution_options(read_only=True).connect() as unrestricted,
        audience_engine(engine, audience).connect() as narrowed,
    ):
        for name in (*FILTERED, *views.VIEWS):
            columns = unrestricted.execute(text(f"SELECT * FROM {name} LIMIT 0")).keys()
            assert narrowed.execute(text(f"SELECT * FROM {name} LIMIT 0")).keys() == columns, name
            if "evaluation_id" not in columns:
                continue
            query = text(f"SELECT evaluation_id, count(*) FROM {name} GROUP BY evaluation_id")
            everything = dict(unrestricted.execute(query).all())
            seen = dict(narrowed.execute(query).all())
            ids = set(narrowed.scalars(text("SELECT id FROM evaluation")))
            assert len(ids) == len(SEES[audience])
            wanted = {key: count for key, count in everything.items() if key in ids or key is None}
            assert seen == wanted, name


def test_a_model_that_was_only_asked_what_is_hidden_is_itself_hidden(engine: Engine) -> None:
    with write_session(engine) as session:
        for name in ("secret-model", "idle-model"):
            add_model(session, name)
        submit(session, EvaluationRequest(model="secret-model", benchmark="for-nobody", variants="cyclic"))
    wanted = {"public": {"model", "idle-model"}, "members": {"model", "idle-model"}}
    app = create_app(database_url=engine.url.render_as_string(hide_password=False))
    for audience in AUDIENCES:
        with audience_engine(engine, audience).execution_options(read_only=True).connect() as connection:
            names = set(connection.scalars(text("SELECT name FROM model")))
            revisions = len(connection.scalars(text("SELECT id FROM model_revision")).all())
        assert names == wanted.get(audience, {"model", "idle-model", "secret-model"}), audience
        assert revisions == len(names), audience
    client = app.test_client()
    assert client.get("/models/idle-model").status_code == 200
    for path in ("/models", "/api/v1/models"):
        assert "secret-model" not in client.get(path).text, path
        assert client.get(f"{path}/secret-model").status_code == 404, path


def test_the_figures_for_prometheus_count_what_the_viewer_may_see(engine: Engine) -> None:
    app = create_app(database_url=engine.url.render_as_string(hide_password=False))
    add_one_of_each_role(engine)
    counted = {}
    for role in (None, "reader", "maintainer"):
        headers = {} if role is None else bearer(token_of(engine, role))
        figures = app.test_client().get("/metrics", headers=headers).text
        counted[role] = [
            line.split()[1]
            for line in figures.splitlines()
            if line.startswith(('shuffleboard_evaluations{state="complete"}', "shuffleboard_prompts_total"))
        ]
    assert counted == {None: ["1.0", "6.0"], "reader": ["2.0", "12.0"], "maintainer": ["3.0", "18.0"]}


def test_a_benchmark_is_seen_while_one_of_its_versions_is(engine: Engine, tmp_path: Path) -> None:
    lines = [{"id": "q", "subject": None, "question": "A new version?", "options": ["yes", "no"], "answer": 0}]
    with write_session(engine) as session:
        content = read_benchmark(write_lines(tmp_path / "new.jsonl", lines))
        import_benchmark(session, content, name="for-nobody", version="2", visibility="public")
    assert names_in(engine, "public", "benchmark") == {"for-all", "for-nobody"}
    with audience_engine(engine, "public").connect() as connection:
        versions = connection.scalars(
            text(
                "SELECT benchmark_version.version FROM benchmark_version "
                "JOIN benchmark ON benchmark.id = benchmark_version.benchmark_id WHERE benchmark.name = 'for-nobody'"
            )
        ).all()
    assert versions == ["2"]


@pytest.mark.parametrize(("name", "visibility"), [*VISIBLE.items(), ("new", "public")])
def test_a_correction_is_seen_by_those_who_saw_what_it_corrects(
    name: str, visibility: str, engine: Engine, tmp_path: Path
) -> None:
    lines = [{"id": "q", "subject": None, "question": "Corrected?", "options": ["yes", "no"], "answer": 0}]
    with write_session(engine) as session:
        version, _ = import_benchmark(session, read_benchmark(write_lines(tmp_path / "new.jsonl", lines)), name=name)
        assert version.visibility == visibility


def test_views_and_columns_say_what_they_are_in_postgresql(postgresql_database: str) -> None:
    """Check every documented view and each of its columns, for the owner and for readers."""
    missing = text(
        "SELECT n.nspname || '.' || c.relname || coalesce('.' || a.attname, '') FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
        "WHERE c.relkind = 'v' AND n.nspname IN ('public', 'shuffleboard_public', 'shuffleboard_members') "
        "AND (obj_description(c.oid, 'pg_class') IS NULL OR col_description(c.oid, a.attnum) IS NULL)"
    )
    with get_engine(postgresql_database).connect() as connection:
        assert connection.scalars(missing).all() == []
        about = connection.scalar(
            text("SELECT obj_description('shuffleboard_public.leaderboard'::regclass, 'pg_class')")
        )
        assert about == "One row per evaluation specification. For comparing models."


def read_by(engine: Engine, audience: Audience, relations: Iterable[str]) -> str:
    """Return the rows of relations that an audience reads, as text."""
    with audience_engine(engine, audience).connect() as connection:
        rows = [connection.execute(text(f"SELECT * FROM {name}")).mappings().all() for name in relations]
    return json.dumps([[dict(row) for row in row_of_query] for row_of_query in rows], default=str)


def set_public_from(engine: Engine, seconds: float | None) -> None:
    """Let the hidden benchmark become public after this number of seconds; None: never."""
    with write_session(engine) as session:
        change = update(BenchmarkVersion).where(BenchmarkVersion.visibility == "hidden")
        session.execute(change.values(public_from=None if seconds is None else database_now(seconds)))


def test_a_benchmark_is_nowhere_before_its_date_and_everywhere_after(engine: Engine, tmp_path: Path) -> None:
    with write_session(engine) as session:
        import_suite(
            session,
            SuiteDefinition(name="core", variants=("cyclic",), tasks=[{"benchmarks": ("for-nobody",)}]),
        )
        import_board(session, BoardDefinition(name="main", suite="core", columns=("accuracy@cyclic",)))
    refresh_boards(engine)
    relations = [*FILTERED, *views.VIEWS]
    set_public_from(engine, 86_400)
    for audience in ("public", "members"):
        written = read_by(engine, audience, relations)
        assert "for-nobody" not in written
        assert '"main"' not in written
    assert names_in(engine, "members", "leaderboard") == {"for-all", "for-members"}
    # From here on, only the date is written, which the views compare with the clock.
    set_public_from(engine, -1)
    for relation in ("benchmark", "question", "question_option", "leaderboard", "board", "board_standings"):
        assert "for-nobody" in (read := read_by(engine, "public", [relation])) or '"main"' in read, relation
    assert names_in(engine, "public", "leaderboard") == {"for-all", "for-nobody"}
    assert names_in(engine, "members", "leaderboard") == {"for-all", "for-members", "for-nobody"}
    for relation in FILTERED:
        everything, shown = (
            len(json.loads(read_by(engine, audience_name, [relation]))[0]) for audience_name in ("all", "members")
        )
        assert everything == shown, relation


@pytest.mark.parametrize("seconds", [None, 86_400.0, -1.0])
def test_exports_obey_the_date(engine: Engine, tmp_path: Path, seconds: float | None) -> None:
    set_public_from(engine, seconds)
    opened = seconds == -1.0
    with read_session(engine) as session:
        hidden = session.scalars(
            select(Evaluation.id).join(BenchmarkVersion).where(BenchmarkVersion.visibility == "hidden")
        ).one()
        for audience in ("public", "members"):
            selected = select_rows(session, ExportRequest("csv", audience=audience), "0")
            assert (hidden in selected.evaluation_ids) == opened
        request = ExportRequest("csv", audience="public", evaluations=(hidden,))
        if opened:
            assert select_rows(session, request, "0").evaluation_ids == (hidden,)
        else:
            with pytest.raises(NotFoundError, match="--audience all includes it"):
                select_rows(session, request, "0")
    if opened:
        export_evaluation(engine, Settings(home=tmp_path), hidden, tmp_path / "out")
    else:
        with pytest.raises(UsageError, match="on a benchmark that is hidden"):
            export_evaluation(engine, Settings(home=tmp_path), hidden, tmp_path / "out")


DOORS = (
    "/benchmarks/for-nobody",
    "/evaluations/{hidden}",
    "/evaluations/{hidden}/provenance",
    "/api/v1/benchmarks/for-nobody",
    "/api/v1/evaluations/{hidden}",
    "/api/v1/evaluations/{hidden}/predictions",
)
LISTS = ("/", "/benchmarks", "/overview", "/feed.atom", "/leaderboard.csv", "/api/v1/leaderboard", "/api/v1/benchmarks")


def test_kept_pages_change_at_the_date_without_a_write(engine: Engine, tmp_path: Path) -> None:
    with read_session(engine) as session:
        hidden = session.scalars(
            select(Evaluation.id).join(BenchmarkVersion).where(BenchmarkVersion.visibility == "hidden")
        ).one()
    url = engine.url.render_as_string(hide_password=False)
    client = create_app(Settings(home=tmp_path, rate_limits=False), database_url=url).test_client()
    doors = [door.format(hidden=hidden) for door in DOORS]

    def show() -> tuple[set[int], set[str]]:
        statuses = {client.get(door).status_code for door in doors}
        return statuses, {address for address in LISTS if "for-nobody" in client.get(address).text}

    for seconds in (4, 40, 240):  # longer if the machine was too busy to read all pages twice before the date
        began = time.monotonic()
        set_public_from(engine, seconds)
        shown = [show(), show()]  # the second time from the kept pages
        if time.monotonic() - began < seconds:
            break
    assert shown == [({404}, set())] * 2
    eventually(lambda: client.get(doors[0]).status_code == 200, "the benchmark is public")
    assert show() == ({200}, set(LISTS))


def test_a_date_set_by_command_or_api_is_on_the_page(engine: Engine, tmp_path: Path) -> None:
    url = engine.url.render_as_string(hide_password=False)
    output = shuffleboard(
        "benchmarks", "visibility", "for-all", "members", "--public-from", "2999-01-31", "--json", database_url=url
    )
    assert json.loads(output.stdout) == {
        "benchmark": "for-all",
        "visibility": "members",
        "public_from": "2999-01-31T00:00:00.000000Z",
        "versions": ["1"],
    }
    client = create_app(Settings(home=tmp_path, rate_limits=False), database_url=url).test_client()
    add_one_of_each_role(engine)
    maintainer = bearer(token_of(engine, "maintainer"))
    assert client.get("/benchmarks/for-all").status_code == 404
    page = client.get("/benchmarks/for-all", headers=maintainer).text
    assert "members until" in page
    assert "2999-01-31" in page
    body = {"visibility": "hidden", "public_from": "2999-02-01T12:00:00+01:00"}
    answer = client.patch("/api/v1/benchmarks/for-all", json=body, headers=maintainer)
    assert answer.json["public_from"] == "2999-02-01T11:00:00.000000Z"
    for wrong, problem in (
        ({"visibility": "public", "public_from": "2999-02-01"}, "public at once"),
        ({"visibility": "hidden", "public_from": "2020-02-01"}, "that has passed"),
        ({"visibility": "hidden", "public_from": "soon"}, "2026-11-21"),
    ):
        refused = client.patch("/api/v1/benchmarks/for-all", json=wrong, headers=maintainer)
        assert (refused.status_code in (400, 422), problem in refused.text) == (True, True), refused.text
    # A change without a date takes it back.
    answer = client.patch("/api/v1/benchmarks/for-all", json={"visibility": "members"}, headers=maintainer)
    assert answer.json["public_from"] is None


def test_a_corrected_version_keeps_the_date_of_a_benchmark(engine: Engine, tmp_path: Path) -> None:
    set_public_from(engine, 86_400)
    lines = [{"id": "q", "subject": None, "question": "Corrected?", "options": ["yes", "no"], "answer": 0}]
    with write_session(engine) as session:
        content = read_benchmark(write_lines(tmp_path / "new.jsonl", lines))
        version, _ = import_benchmark(session, content, name="for-nobody")
        older = session.scalars(select(BenchmarkVersion.public_from).where(BenchmarkVersion.id != version.id)).all()
        assert version.visibility == "hidden"
        assert version.public_from in older
        assert version.public_from is not None

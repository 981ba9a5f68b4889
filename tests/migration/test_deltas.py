"""A revision stores the texts that changed, and a database gets all that hold at it."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from migrations import draft, frozen
from registry.db import get_engine
from registry.operations import migrate
from registry.schema import history
from registry.schema.audiences import schema
from registry.schema.triggers import trigger_names
from registry.schema.views import VIEWS
from tests.migration.next_revision import CHANGED, NEXT, TITLE
from tests.migration.test_migrations import checks, definitions


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, dict[str, str]]:
    """Three revisions: what is in their folders."""
    monkeypatch.setattr(frozen, "SQL", tmp_path / "sql")
    folders = {
        "202601010000": {"views.txt": "a\nb\n", "views/a.sql": "SELECT 1\n", "views/b.sql": "SELECT 2\n"},
        "202601020000": {"views/b.sql": "SELECT 3\n"},
        "202601040000": {"views.txt": "a\n", "views/b.sql": "", "views/a.sql": "", "views/a.sqlite.sql": "SELECT 4\n"},
    }
    for revision, files in folders.items():
        for path, content in files.items():
            file = tmp_path / "sql" / revision / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    return folders


def test_a_text_stands_until_a_later_revision_replaces_or_removes_it(texts: dict[str, dict[str, str]]) -> None:
    first = texts["202601010000"]
    assert frozen.texts("202601010000") == first
    assert frozen.texts("202601020000") == first | {"views/b.sql": "SELECT 3\n"}
    # A revision that changed no text has no folder.
    assert frozen.texts("202601030000") == frozen.texts("202601020000")
    assert frozen.texts("202601040000") == {"views.txt": "a\n", "views/a.sqlite.sql": "SELECT 4\n"}


def test_what_a_draft_writes_leads_from_the_texts_before_to_those_after(texts: dict[str, dict[str, str]]) -> None:
    before, after = frozen.texts("202601020000"), frozen.texts("202601040000")
    assert draft.changed(before, after) == texts["202601040000"]
    assert draft.changed(after, after) == {}


def test_a_draft_writes_the_column_and_the_one_view_that_changed(next_schema: Path) -> None:
    folder = next_schema / "sql" / NEXT
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    assert files == [f"views/{CHANGED}.sql"]
    config = Config()
    config.set_main_option("script_location", str(next_schema))
    script = ScriptDirectory.from_config(config).get_revision(NEXT)
    assert script is not None
    assert (script.doc, Path(script.path).name) == (f"{TITLE}.", "29990101_0000_add_the_colour_of_the_cover.py")
    upgrade = Path(script.path).read_text().partition("def upgrade() -> None:\n")[2]
    assert [line.strip() for line in upgrade.splitlines()] == [
        "frozen.drop(down_revision)",
        "op.add_column('benchmark', sa.Column('colour', sa.Text(), nullable=True))",
        "frozen.create(revision)",
    ]


@pytest.mark.usefixtures("next_schema")
def test_an_empty_database_goes_through_both_revisions(database_url: str) -> None:
    assert migrate.upgrade(database_url) == NEXT
    engine = get_engine(database_url)
    inspector = inspect(engine)
    assert {"id", "name", "colour"} <= {column["name"] for column in inspector.get_columns("benchmark")}
    schemas = [None]
    triggers = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
    }[engine.dialect.name]
    if engine.dialect.name == "postgresql":
        for audience in ("public", "members"):
            schemas += [schema(audience), f"{schema(audience)}_tables"]
    for place in schemas:
        assert set(VIEWS) <= set(inspector.get_view_names(place))
        assert "coloured" in {column["name"] for column in inspector.get_columns(CHANGED, place)}
    with engine.connect() as connection:
        assert set(connection.scalars(text(triggers))) == set(trigger_names(engine.dialect.name))


def test_the_history_can_be_written_anew_as_one_revision(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the checks that one engine alone has, and the rows that come with the schema."""
    engine = get_engine(database)
    wanted = texts_of(engine), rows_of(engine, "role"), rows_of(engine, "subject_category")
    before = frozen.texts(history.head())
    folder = tmp_path / "migrations"
    shutil.copytree(frozen.SQL.parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(frozen, "SQL", folder / "sql")
    rows = draft.inserted()
    draft.forget()
    draft.draft("Create schema", datetime(2999, 1, 1, tzinfo=UTC), rows)
    assert [path.name for path in (folder / "versions").glob("*.py")] == ["29990101_0000_create_schema.py"]
    assert frozen.texts(NEXT) == before
    with engine.begin() as connection:
        empty(connection)
        config = Config()
        config.set_main_option("script_location", str(folder))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    assert (texts_of(engine), rows_of(engine, "role"), rows_of(engine, "subject_category")) == wanted


def texts_of(engine: Engine) -> tuple[dict[str, str], set[str], dict[str, str]]:
    """Texts of the views, names of everything else, and the check constraints."""
    found = definitions(engine)
    with engine.connect() as connection:
        return (
            {name: content for name, content in found.items() if name.startswith("v")},
            set(found),
            checks(connection),
        )


def rows_of(engine: Engine, table: str) -> list[tuple[object, ...]]:
    with engine.connect() as connection:
        return sorted(tuple(row) for row in connection.execute(text(f"SELECT * FROM {table}")))


def empty(connection: Connection) -> None:
    """Drops everything."""
    if connection.dialect.name == "postgresql":
        names = [
            "public",
            *(f"{schema(audience)}{end}" for audience in ("public", "members") for end in ("", "_tables")),
        ]
        connection.exec_driver_sql(f"DROP SCHEMA {', '.join(names)} CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
        return
    connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
    for kind in ("trigger", "view", "table"):
        names = connection.scalars(text("SELECT name FROM sqlite_master WHERE type = :kind"), {"kind": kind}).all()
        for name in names:
            connection.exec_driver_sql(f"DROP {kind} {name}")

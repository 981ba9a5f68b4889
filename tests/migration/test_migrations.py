"""Migrations from nothing to head: the same models and views, and nothing broken after a failure."""

import re
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import CheckConstraint, Connection, Engine, String, Text, inspect, text
from sqlalchemy.types import TypeDecorator

from migrations import draft
from registry import tables
from registry.db import get_engine, read_session
from registry.errors import DatabaseError
from registry.lookups import find_evaluation
from registry.operations import migrate
from registry.schema import catalogue, history, views
from tests.migration.next_revision import NEXT
from tests.support.population import KEPT_BY_UPGRADES, predictions, queue_evaluation, table_counts

METADATA = tables.Base.metadata


def revisions() -> list[str]:
    """Return every revision, oldest first."""
    scripts = ScriptDirectory.from_config(migrate._config())
    return [script.revision for script in reversed(list(scripts.walk_revisions()))]


def test_the_history_is_one_line() -> None:
    scripts = ScriptDirectory.from_config(migrate._config())
    assert scripts.get_heads() == [history.head()]
    assert history.revisions() == {script.revision: script.down_revision for script in scripts.walk_revisions()}
    assert len(scripts.get_bases()) == 1
    # Revisions are sorted by age.
    assert revisions() == sorted(revisions())


def test_an_empty_database_goes_to_head_and_a_second_upgrade_changes_nothing(database_url: str) -> None:
    engine = get_engine(database_url)
    assert history.current(engine) is None
    with pytest.raises(DatabaseError, match="is empty; run: shuffleboard db upgrade"):
        history.require_current(engine)
    assert migrate.upgrade(database_url) == history.head()
    history.require_current(engine)
    before = definitions(engine)
    assert migrate.upgrade(database_url) == history.head()
    assert definitions(engine) == before


def definitions(engine: Engine) -> dict[str, str]:
    """Return the text of every table, view, index and trigger by name, if the database stores it."""
    statement = {
        "sqlite": "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_master",
        "postgresql": "SELECT relkind::text || ' ' || relname, coalesce(pg_get_viewdef(CASE WHEN relkind = 'v' THEN oid END),"
        " '') FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    }[engine.dialect.name]
    with engine.connect() as connection:
        return dict(connection.execute(text(statement)).all())


# Models


def comparable_type(
    _context: MigrationContext, _inspected: Any, _column: Any, inspected_type: Any, metadata_type: Any
) -> bool | None:
    """Return whether the types differ, for alembic's compare_type; our decorators count as their stored types."""
    dialect = _context.dialect
    if isinstance(metadata_type, TypeDecorator):
        metadata_type = metadata_type.load_dialect_impl(dialect)
    if dialect.name == "sqlite" and isinstance(inspected_type, String) and isinstance(metadata_type, Text):
        return False
    wanted = metadata_type.compile(dialect=dialect)
    return bool(re.sub(r"\s", "", wanted).lower() != re.sub(r"\s", "", inspected_type.compile(dialect=dialect)).lower())


def test_models_and_migrations_make_the_same_tables(database: str) -> None:
    with get_engine(database).connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": comparable_type,
                "compare_server_default": True,
                "include_name": lambda name, kind, _: kind != "table" or name not in KEPT_BY_UPGRADES,
            },
        )
        assert compare_metadata(context, METADATA) == []


def checks(connection: Connection) -> dict[str, str]:
    """Return the conditions of check constraints by name, which alembic does not compare."""
    inspector = inspect(connection)
    return {
        str(check["name"]): normalise(check["sqltext"])
        for table in inspector.get_table_names()
        for check in inspector.get_check_constraints(table)
    }


def normalise(condition: str) -> str:
    """Return a condition without blanks, letter case, brackets and the casts that PostgreSQL adds."""
    condition = re.sub(r"::(double precision|smallint|integer|text)(\[\])?", "", condition.lower())
    condition = re.sub(r"=\s*any\s*\(array\[(.*?)\]\)", r"in(\1)", condition, flags=re.DOTALL)
    return re.sub(r"[\s()]", "", condition)


def test_models_and_migrations_make_the_same_checks(database_url: str, request: pytest.FixtureRequest) -> None:
    migrated = get_engine(request.getfixturevalue(f"{get_engine(database_url).dialect.name}_database_of_its_own"))
    created = get_engine(database_url)
    with created.begin() as connection:
        METADATA.create_all(connection)
        wanted = checks(connection)
    with migrated.connect() as connection:
        by_table = checks(connection)
    assert by_table == wanted
    declared = {
        str(constraint.name)
        for table in METADATA.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, CheckConstraint)
    }
    # On PostgreSQL nothing that is declared may be lost; SQLite has no checks of arrays.
    assert by_table.keys() <= declared
    assert created.dialect.name == "sqlite" or by_table.keys() == declared


@pytest.fixture
def sqlite_database_of_its_own(sqlite_template: Path) -> str:
    """Return a database at head that is not the test's own and that the test only reads."""
    return f"sqlite:///{sqlite_template}"


@pytest.fixture
def postgresql_database_of_its_own(postgresql_database: str) -> str:
    return postgresql_database


def test_models_and_migrations_make_the_same_columns_in_the_same_order(database: str) -> None:
    inspector = inspect(get_engine(database))
    for name, table in METADATA.tables.items():
        columns = [(column["name"], column["nullable"]) for column in inspector.get_columns(name)]
        assert columns == [(column.name, column.nullable) for column in table.columns], name


@pytest.mark.one_engine
def test_a_drafts_file_is_named_by_the_words_of_its_title(tmp_path: Path) -> None:
    shutil.copytree(draft.FOLDER, tmp_path / "migrations", ignore=shutil.ignore_patterns("__pycache__"))
    now = datetime.strptime(NEXT, "%Y%m%d%H%M")  # noqa: DTZ007 - it is for its name
    drafted = draft.draft("Drop the model's URL/link", now, tmp_path / "migrations")
    assert drafted.name == "29990101_0000_drop_the_model_s_url_link.py"


# Views


def views_of(engine: Engine) -> dict[str, tuple[Any, ...]]:
    """Return each view's definition and columns with their types."""
    inspector = inspect(engine)
    return {
        name: (
            inspector.get_view_definition(name),
            [(column["name"], str(column["type"])) for column in inspector.get_columns(name)],
        )
        for name in inspector.get_view_names()
    }


def test_both_engines_have_the_same_views_with_the_same_columns(sqlite_database: str, postgresql_database: str) -> None:
    sqlite, postgresql = (
        {name: [column for column, _ in columns] for name, (_, columns) in views_of(get_engine(url)).items()}
        for url in (sqlite_database, postgresql_database)
    )
    assert sqlite == postgresql


def test_every_view_file_is_listed_and_says_what_its_rows_are() -> None:
    files = {path.name.partition(".")[0]: path for path in Path(str(views.__file__)).parent.glob("*.sql")}
    assert files.keys() == set(views.VIEWS)
    for name, path in files.items():
        assert path.read_text(encoding="utf-8").startswith(f"-- {name}: "), path.name


PRINTED = {"published_results", "measured_and_published"}
"""Views of papers' printed results, which are part of the code."""


def test_every_view_can_be_read_while_the_database_is_empty(database: str) -> None:
    with get_engine(database).connect() as connection:
        for name in PRINTED:
            assert connection.execute(text(f"SELECT * FROM {name}")).all() != [], name
        for name in set(views.VIEWS) - PRINTED:
            assert connection.execute(text(f"SELECT * FROM {name}")).all() == [], name


def test_a_revision_reads_tables_only() -> None:
    """Check that revisions do not use views, triggers or the registry, which are newer when a revision runs."""
    for path in (draft.FOLDER / "versions").glob("*.py"):
        code = path.read_text()
        assert not re.search(r"^\s*(from|import)\s+(registry|workers|web)\b", code, re.MULTILINE), path
        assert not re.search(r"\b(view|trigger)\b", code, re.IGNORECASE), path
    assert [path.name for path in draft.FOLDER.rglob("*.sql")] == []


# Failure

BROKEN = '''
"""A migration that fails half-way."""

from alembic import op

revision = "299912312359"
down_revision = "{head}"
branch_labels = None
depends_on = None


def upgrade():
    op.execute("CREATE TABLE half_made (id INTEGER)")
    op.execute("INSERT INTO half_made VALUES (1)")
    op.execute("INSERT INTO not_there VALUES (1)")
'''


def test_a_failing_migration_leaves_the_old_schema_working(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = get_engine(database)
    evaluation_id = queue_evaluation(engine, tmp_path)
    before = definitions(engine), table_counts(engine)
    old_head = history.head()
    folder = tmp_path / "versions"
    folder.mkdir()
    (folder / "broken.py").write_text(BROKEN.format(head=old_head))
    folders = (*history.version_folders(), folder)
    with monkeypatch.context() as patched:
        patched.setattr(history, "version_folders", lambda: folders)
        assert history.head() == "299912312359"
        with pytest.raises(
            DatabaseError, match=rf"upgrade of .* from {old_head} failed and was rolled back: .*not_there"
        ):
            migrate.upgrade(database)
    assert (definitions(engine), table_counts(engine)) == before
    history.require_current(engine)
    with read_session(engine) as session:
        assert find_evaluation(session, evaluation_id).state == "queued"
    assert predictions(engine, evaluation_id) == {}
    assert queue_evaluation(engine, tmp_path, model="another") != evaluation_id


COPYING = '''
"""A migration that on SQLite copies a table that others refer to."""

from alembic import op

revision = "299912312359"
down_revision = "{head}"


def upgrade():
    with op.batch_alter_table("evaluation") as batch:
        batch.create_check_constraint("later", "id > 0")
    {more}
'''


def upgrade_by(code: str, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "later").mkdir()
    (folder / "later" / "later.py").write_text(code)
    folders = (*history.version_folders(), folder / "later")
    monkeypatch.setattr(history, "version_folders", lambda: folders)
    migrate.upgrade(url)


def test_a_table_that_others_refer_to_is_altered(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = get_engine(database)
    queue_evaluation(engine, tmp_path)
    before = table_counts(engine)
    upgrade_by(COPYING.format(head=history.head(), more="pass"), database, tmp_path, monkeypatch)
    assert table_counts(engine) == before
    with engine.connect() as connection:
        assert [each.name for each in catalogue.find_differences(connection)] == ["constraint evaluation.later"]
        assert engine.dialect.name == "postgresql" or connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_migration_that_loses_rows_others_refer_to_is_rolled_back(
    sqlite_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = get_engine(sqlite_database)
    queue_evaluation(engine, tmp_path)
    before = table_counts(engine)
    code = COPYING.format(head=history.head(), more='op.execute("DELETE FROM evaluation")')
    with pytest.raises(DatabaseError, match=r"rolled back: a row of \w+ refers to a row of evaluation that is missing"):
        upgrade_by(code, sqlite_database, tmp_path, monkeypatch)
    assert table_counts(engine) == before


@pytest.mark.usefixtures("next_schema")
def test_a_database_that_is_behind_is_named_with_the_remedy(database: str) -> None:
    # The copy was made before the code that knows the next schema was installed.
    with pytest.raises(DatabaseError, match=rf"is at revision \d+, not {NEXT}; run: shuffleboard db upgrade"):
        history.require_current(get_engine(database))


@pytest.mark.parametrize(
    ("variable", "begun"),
    [
        ("SHUFFLEBOARD_HOME", "set SHUFFLEBOARD_HOME to an empty folder"),
        ("SHUFFLEBOARD_DATABASE_URL", "set SHUFFLEBOARD_DATABASE_URL to an empty database"),
    ],
)
def test_a_database_from_before_the_first_release_is_refused_with_a_remedy(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, begun: str
) -> None:
    engine = get_engine(database)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '202611230422'")
    monkeypatch.delenv("SHUFFLEBOARD_DATABASE_URL", raising=False)
    monkeypatch.setenv(variable, {"SHUFFLEBOARD_HOME": str(tmp_path)}.get(variable, database))
    for refused in (lambda: migrate.upgrade(database), lambda: history.require_current(engine)):
        with pytest.raises(
            DatabaseError,
            match=f"202611230422, older than the first release, and cannot be upgraded; {begun} and run: "
            "shuffleboard db upgrade",
        ):
            refused()
    assert migrate.pending("202611230422") == []

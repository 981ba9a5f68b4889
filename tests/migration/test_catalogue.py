"""`db check` names each change of a database that somebody made, with its remedy, and nothing on a fresh one."""

import json
import re
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine

from registry.db import get_engine
from registry.errors import DatabaseError
from registry.operations.migrate import upgrade
from registry.schema import catalogue
from registry.schema.roles import RoleNames, apply_roles
from tests.support.commands import shuffleboard

BOTH = {
    "a column dropped": ("ALTER TABLE evaluation DROP COLUMN max_workers", "column evaluation.max_workers is missing"),
    "a column added": ("ALTER TABLE model ADD COLUMN colour TEXT", "column model.colour is one too many"),
    "a column renamed": ("ALTER TABLE model RENAME COLUMN url TO link", "column model.url is missing"),
    "a table dropped": ("DROP TABLE saved_query", "column saved_query.sql is missing"),
    "a table added": ("CREATE TABLE own (id INTEGER)", "column own.id is one too many"),
    "an index dropped": ("DROP INDEX {index}", "index {index} is missing"),
    "an index added": ("CREATE INDEX own ON model (family)", "index own is one too many"),
    "a view added": ("CREATE VIEW own AS SELECT 1 AS one", "own is one too many"),
    "a view's text": (
        "DROP VIEW {schema}published_results; CREATE VIEW {schema}published_results AS SELECT 1 AS one",
        "view {schema}published_results is ",
    ),
}
POSTGRESQL = {
    "a type": (
        "ALTER TABLE saved_query ALTER COLUMN slug TYPE varchar(7)",
        "column saved_query.slug is 'character varying(7)",
    ),
    "NULL allowed": ("ALTER TABLE model ALTER COLUMN name DROP NOT NULL", "column model.name is "),
    "NULL forbidden": ("ALTER TABLE model ALTER COLUMN family SET NOT NULL", "column model.family is "),
    "a default": ("ALTER TABLE model ALTER COLUMN family SET DEFAULT 'x'", "column model.family is "),
    "a check dropped": ("ALTER TABLE shard DROP CONSTRAINT {check}", "constraint shard.{check} is missing"),
    "a check of another text": (
        "ALTER TABLE shard DROP CONSTRAINT {check}; ALTER TABLE shard ADD CONSTRAINT {check} CHECK (true)",
        "constraint shard.{check} is 'CHECK (true)' instead of",
    ),
    "a check added": ("ALTER TABLE shard ADD CONSTRAINT own CHECK (true)", "constraint shard.own is one too many"),
    "a unique dropped": ("ALTER TABLE model DROP CONSTRAINT {unique}", "constraint model.{unique} is missing"),
    "a foreign key dropped": ("ALTER TABLE shard DROP CONSTRAINT {foreign}", "constraint shard.{foreign} is missing"),
    "a trigger dropped": ("DROP TRIGGER {trigger} ON {table}", "trigger {trigger} is missing"),
    "a trigger disabled": ("ALTER TABLE {table} DISABLE TRIGGER {trigger}", "trigger {trigger} is "),
    "a function": (
        "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL\n;END'",
        "function {function} is ",
    ),
}
SQLITE = {
    "a trigger dropped": ("DROP TRIGGER {trigger}", "trigger {trigger} is missing"),
    "a table made again without its checks": (
        "CREATE TABLE copy AS SELECT * FROM saved_query; DROP TABLE saved_query; ALTER TABLE copy RENAME TO saved_query",
        "constraint saved_query.",
    ),
}


def names_of(engine: Engine) -> dict[str, str]:
    """One object of each kind that a change can name."""
    with engine.connect() as connection:
        found = list(catalogue.read_catalogue(connection).items())
    first: dict[str, str] = {"schema": "" if engine.dialect.name == "sqlite" else "public."}
    for name, definition in found:
        kind, _, rest = name.partition(" ")
        if kind in ("index", "function"):
            first.setdefault(kind, rest)
        if kind == "trigger" and " ON public." in definition:
            first.setdefault("trigger", rest)
            first.setdefault("table", definition.partition(" ON public.")[2].split()[0])
        elif kind == "trigger":
            first.setdefault("trigger", rest)
        if kind == "constraint":
            table, _, constraint = rest.partition(".")
            for word, of in (("CHECK", "shard"), ("FOREIGN", "shard"), ("UNIQUE", "model")):
                if definition.startswith(word) and table == of:
                    first.setdefault(word.lower(), constraint)
    return first


def check_change(url: str, change: str, expected: str) -> None:
    engine = get_engine(url)
    with engine.connect() as connection:
        assert catalogue.find_differences(connection) == []
    names = names_of(engine)
    with engine.begin() as connection:
        for statement in change.format(**names).split("; "):
            # PostgreSQL keeps what a view reads.
            drops = re.match(r"ALTER TABLE \w+ DROP (COLUMN|CONSTRAINT)|DROP TABLE", statement)
            cascades = drops and engine.dialect.name == "postgresql"
            connection.exec_driver_sql(f"{statement} CASCADE" if cascades else statement)
    with engine.connect() as connection:
        found = catalogue.find_differences(connection)
    assert any(expected.format(**names) in str(each) for each in found), list(map(str, found))
    assert all(each.remedy for each in found)


@pytest.mark.parametrize("name", BOTH)
def test_a_change_is_named(database: str, name: str) -> None:
    check_change(database, *BOTH[name])


@pytest.mark.parametrize("name", POSTGRESQL)
def test_a_change_on_postgresql_is_named(postgresql_database: str, name: str) -> None:
    check_change(postgresql_database, *POSTGRESQL[name])


@pytest.mark.parametrize("name", SQLITE)
def test_a_change_on_sqlite_is_named(sqlite_database: str, name: str) -> None:
    check_change(sqlite_database, *SQLITE[name])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("GRANT SELECT ON public.account TO {0}_reader", "_reader SELECT on public.account is one too many"),
        ("REVOKE UPDATE ON public.shard FROM {0}_app", "_app UPDATE on public.shard is missing"),
        ("GRANT TRUNCATE ON public.prediction TO {0}_app", "_app TRUNCATE on public.prediction is one too many"),
    ],
)
def test_a_right_of_a_role_is_named(postgresql_database: str, roles: RoleNames, change: str, named: str) -> None:
    engine = get_engine(postgresql_database)
    with engine.connect() as connection:
        assert catalogue.find_differences(connection) == []
    with engine.begin() as connection:
        connection.exec_driver_sql(change.format(roles.prefix))
    with engine.connect() as connection:
        [found] = catalogue.find_differences(connection)
    assert named in str(found)
    assert "db roles" in found.remedy


@pytest.fixture
def roles(postgresql_database: str) -> Iterator[RoleNames]:
    names = RoleNames("catalogue")
    engine = get_engine(postgresql_database)
    apply_roles(engine, names, {})
    yield names
    with engine.begin() as connection:
        for role in names.all:
            for statement in (
                f"REASSIGN OWNED BY {role} TO CURRENT_USER",
                f"DROP OWNED BY {role}",
                f"DROP ROLE {role}",
            ):
                connection.exec_driver_sql(statement)


def test_commands_and_services_name_a_missing_column(database: str) -> None:
    with get_engine(database).begin() as connection:
        connection.exec_driver_sql("ALTER TABLE saved_query DROP COLUMN public")
    checked = shuffleboard("db", "check", status=1, database_url=database)
    assert "column saved_query.public is missing" in checked.stdout
    assert "1 difference between the database and this code" in checked.stderr
    document = json.loads(shuffleboard("db", "check", "--json", status=1, database_url=database).stdout)
    assert [each["name"] for each in document["differences"]] == ["column saved_query.public"]
    for command in (["db", "upgrade"], ["worker", "beat"]):
        assert "column saved_query.public is missing" in shuffleboard(*command, status=1, database_url=database).stderr


def test_an_extra_index_stops_nobody(database: str) -> None:
    with get_engine(database).begin() as connection:
        connection.exec_driver_sql("CREATE INDEX own ON model (family)")
    catalogue.require_intact(get_engine(database))
    assert "index own is one too many" in shuffleboard("db", "check", status=1, database_url=database).stdout


def test_what_upgrade_makes_again_is_right_afterwards(database: str) -> None:
    engine = get_engine(database)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP VIEW IF EXISTS published_results")
    with pytest.raises(DatabaseError, match=r"published_results is missing .*run: shuffleboard db upgrade"):
        catalogue.require_intact(engine)
    upgrade(database)
    with engine.connect() as connection:
        assert catalogue.find_differences(connection) == []


def test_another_version_of_the_engine_changes_no_definition(
    postgresql_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Callable[..., dict[str, str]] = catalogue.read_catalogue
    monkeypatch.setattr(
        catalogue,
        "read_catalogue",
        lambda connection: {name: f"{definition} " for name, definition in read(connection).items()},
    )
    with get_engine(postgresql_database).connect() as connection:
        assert catalogue.find_differences(connection) == []

"""The command `db check`, which reports each change that somebody made to a database, and nothing on a fresh one."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, Engine, text

from registry.db import get_engine
from registry.errors import DatabaseError
from registry.operations.migrate import upgrade
from registry.schema import catalogue, history, repeatable
from registry.schema.roles import RoleNames, apply_roles
from tests.support.commands import shuffleboard

COLUMNS = {
    "a column dropped": ("ALTER TABLE evaluation DROP COLUMN max_workers", "column evaluation.max_workers is missing"),
    "a column with a check dropped": ("ALTER TABLE prediction DROP COLUMN tied", "column prediction.tied is missing"),
    "a column of people dropped": ("ALTER TABLE saved_query DROP COLUMN name", "column saved_query.name is missing"),
    "a column added": ("ALTER TABLE model ADD COLUMN colour TEXT", "column model.colour is one too many"),
    "a filled column added": (
        "ALTER TABLE shard ADD COLUMN own INTEGER NOT NULL DEFAULT 0",
        "column shard.own is one too many",
    ),
    "a column renamed": ("ALTER TABLE model RENAME COLUMN url TO link", "column model.url is missing"),
    "a column of predictions renamed": (
        "ALTER TABLE prediction RENAME COLUMN tied TO equal",
        "column prediction.equal is one too many",
    ),
    "a table dropped": ("DROP TABLE saved_query", "column saved_query.sql is missing"),
    "a table added": ("CREATE TABLE own (id INTEGER)", "column own.id is one too many"),
    "a table renamed": ("ALTER TABLE saved_query RENAME TO own", "column saved_query.sql is missing"),
}
OTHERS = {
    "an index dropped": ("DROP INDEX {index}", "index {index} is missing"),
    "an index added": ("CREATE INDEX own ON model (family)", "index own is one too many"),
    "a unique index added": ("CREATE UNIQUE INDEX own ON model (id, name)", "index own is one too many"),
    "an index of other columns": (
        "DROP INDEX {index};; CREATE INDEX {index} ON model (family)",
        "index {index} is ",
    ),
    "an index of fewer rows": (
        "DROP INDEX {index};; CREATE INDEX {index} ON model (family) WHERE id > 0",
        "index {index} is ",
    ),
    "a view added": ("CREATE VIEW own AS SELECT 1 AS one", "own is one too many"),
    "a view dropped": ("DROP VIEW {schema}published_results", "view {schema}published_results is missing"),
    "a view's text": (
        "DROP VIEW {schema}published_results;; CREATE VIEW {schema}published_results AS SELECT 1 AS one",
        "view {schema}published_results is ",
    ),
    "the revision": ("UPDATE alembic_version SET version_num = '202001010000'", "older than the first release"),
    "a later revision": ("UPDATE alembic_version SET version_num = '299901010000'", "newer than this code"),
    "no revision": ("DELETE FROM alembic_version", "is empty"),
    "the version": ("UPDATE schema_stamp SET version = '99.0.0'", "was upgraded by Shuffleboard 99.0.0"),
    "a digest of a view": (
        "UPDATE schema_definition SET digest = 'other' WHERE kind = 'view'",
        "other views or triggers",
    ),
    "an index in another order": (
        "DROP INDEX {index};; CREATE INDEX {index} ON model (family DESC)",
        "index {index} is ",
    ),
    "an index of columns in another order": (
        "CREATE INDEX ix_own ON model (id, family);; DROP INDEX {index};; CREATE INDEX {index} ON model (family, id)",
        "index {index} is ",
    ),
    "a unique index in place of an index": (
        "DROP INDEX {index};; CREATE UNIQUE INDEX {index} ON model (id, family)",
        "index {index} is ",
    ),
    "a view of one condition more": (
        (
            "DROP VIEW {schema}evaluation_metrics;; "
            "CREATE VIEW {schema}evaluation_metrics AS SELECT * FROM evaluation_metric WHERE value > 0"
        ),
        "view {schema}evaluation_metrics is ",
    ),
    "the record of the guard": ("DROP TABLE schema_catalogue", "table schema_catalogue is missing"),
}
POSTGRESQL = {
    "a type": (
        "ALTER TABLE saved_query ALTER COLUMN slug TYPE varchar(7)",
        "column saved_query.slug is 'character varying(7)",
    ),
    "a wider type": ("ALTER TABLE shard ALTER COLUMN ordinal TYPE bigint", "column shard.ordinal is 'bigint"),
    "a narrower type": (
        "ALTER TABLE question_score ALTER COLUMN correct TYPE integer",
        "column question_score.correct",
    ),
    "a time without zone": (
        "ALTER TABLE worker ALTER COLUMN started_at TYPE timestamp",
        "column worker.started_at is ",
    ),
    "NULL allowed": ("ALTER TABLE model ALTER COLUMN name DROP NOT NULL", "column model.name is "),
    "NULL forbidden": ("ALTER TABLE model ALTER COLUMN family SET NOT NULL", "column model.family is "),
    "a default": ("ALTER TABLE model ALTER COLUMN family SET DEFAULT 'x'", "column model.family is "),
    "a check dropped": ("ALTER TABLE shard DROP CONSTRAINT {check}", "constraint shard.{check} is missing"),
    "a check of another text": (
        "ALTER TABLE shard DROP CONSTRAINT {check};; ALTER TABLE shard ADD CONSTRAINT {check} CHECK (true)",
        "constraint shard.{check} is 'CHECK (true)' instead of",
    ),
    "a check added": ("ALTER TABLE shard ADD CONSTRAINT own CHECK (true)", "constraint shard.own is one too many"),
    "a check renamed": (
        "ALTER TABLE shard RENAME CONSTRAINT {check} TO own",
        "constraint shard.{check} is missing",
    ),
    "a unique dropped": ("ALTER TABLE model DROP CONSTRAINT {unique}", "constraint model.{unique} is missing"),
    "a unique added": ("ALTER TABLE model ADD CONSTRAINT own UNIQUE (id)", "constraint model.own is one too many"),
    "a foreign key dropped": ("ALTER TABLE shard DROP CONSTRAINT {foreign}", "constraint shard.{foreign} is missing"),
    "a foreign key added": (
        "ALTER TABLE shard ADD CONSTRAINT own FOREIGN KEY (id) REFERENCES shard",
        "constraint shard.own is one too many",
    ),
    "a primary key dropped": (
        "ALTER TABLE budget DROP CONSTRAINT pk_budget",
        "constraint budget.pk_budget is missing",
    ),
    "a trigger dropped": ("DROP TRIGGER {trigger} ON {table}", "trigger {trigger} is missing"),
    "a trigger disabled": ("ALTER TABLE {table} DISABLE TRIGGER {trigger}", "trigger {trigger} is "),
    "a collation": (
        'ALTER TABLE model ALTER COLUMN name TYPE text COLLATE "C"',
        "column model.name is 'text COLLATE C NOT NULL' instead of 'text NOT NULL'",
    ),
    "a length": (
        "ALTER TABLE saved_query ALTER COLUMN name TYPE varchar(200)",
        "column saved_query.name is 'character varying(200)",
    ),
    "a default dropped": ("ALTER TABLE {defaulted} DROP DEFAULT", "column {default} is "),
    "another default": ("ALTER TABLE {defaulted} SET DEFAULT NULL", "column {default} is "),
    "a foreign key that cascades": (
        (
            "ALTER TABLE shard DROP CONSTRAINT {foreign};; ALTER TABLE shard ADD CONSTRAINT {foreign} "
            "FOREIGN KEY (evaluation_id) REFERENCES evaluation (id) ON DELETE CASCADE"
        ),
        "constraint shard.{foreign} is ",
    ),
    "a foreign key not validated": (
        (
            "ALTER TABLE shard DROP CONSTRAINT {foreign};; ALTER TABLE shard ADD CONSTRAINT {foreign} "
            "FOREIGN KEY (evaluation_id) REFERENCES evaluation (id) NOT VALID"
        ),
        "constraint shard.{foreign} is ",
    ),
    "foreign keys that are not checked": ("ALTER TABLE shard DISABLE TRIGGER ALL", "constraint shard.{foreign} is "),
    "a deferred foreign key": (
        "ALTER TABLE shard ALTER CONSTRAINT {foreign} DEFERRABLE",
        "constraint shard.{foreign} is ",
    ),
    "a unique of more columns": (
        "ALTER TABLE model DROP CONSTRAINT {unique};; ALTER TABLE model ADD CONSTRAINT {unique} UNIQUE (name, id)",
        "constraint model.{unique} is ",
    ),
    "a view's column": (
        "ALTER VIEW public.published_results RENAME COLUMN paper TO source",
        "view public.published_results is ",
    ),
    "a view without its barrier": (
        "ALTER VIEW shuffleboard_public.leaderboard RESET (security_barrier)",
        "view shuffleboard_public.leaderboard is ",
    ),
    "a materialized view": ("CREATE MATERIALIZED VIEW own AS SELECT 1 AS one", "view public.own is one too many"),
    "a trigger for replicas alone": ("ALTER TABLE {table} ENABLE REPLICA TRIGGER {trigger}", "trigger {trigger} is "),
    "a trigger of another time": (
        (
            "DROP TRIGGER {trigger} ON {table};; CREATE TRIGGER {trigger} AFTER DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION {function}()"
        ),
        "trigger {trigger} is ",
    ),
    "rights of a function": ("ALTER FUNCTION {function}() SECURITY DEFINER", "function {function} is "),
    "a function": (
        "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "function {function} is ",
    ),
}
EDITED = {
    "a type": ("column saved_query.slug", "TEXT", "VARCHAR(7)"),
    "another type": ("column shard.ordinal", "INTEGER", "BIGINT"),
    "a number as text": ("column prediction.label_mass", "DOUBLE", "TEXT"),
    "a whole number as a fraction": ("column prediction.variant", "SMALLINT", "DOUBLE"),
    "NULL allowed": ("column model.name", " NOT NULL", ""),
    "NULL allowed in a key": ("column shard.evaluation_id", " NOT NULL", ""),
    "NULL forbidden": ("column model.family", "TEXT", "TEXT NOT NULL"),
    "a default": ("column model.family", "TEXT", "TEXT DEFAULT 'x'"),
    "a default of a number": ("column shard.ordinal", "INTEGER", "INTEGER DEFAULT 7"),
    "a check of another text": ("constraint shard.{check}", "CHECK (", "CHECK (1 OR "),
    "a unique of fewer rows": ("constraint model.{unique}", "UNIQUE (", "UNIQUE (id, "),
    "a foreign key that cascades": ("constraint shard.{foreign}", ")", ") ON DELETE CASCADE"),
    "a collation": ("column model.name", "TEXT", "TEXT COLLATE NOCASE"),
    "a foreign key to another table": ("constraint shard.{foreign}", "REFERENCES ", "REFERENCES other_"),
}
"""Changes for SQLite, which supports few ALTERs: the object, and the replaced part of its text."""
REMOVED = ("constraint shard.{check}", "constraint model.{unique}", "constraint shard.{foreign}")
SQLITE = {
    "a trigger dropped": ("DROP TRIGGER {trigger}", "trigger {trigger} is missing"),
    "a trigger's text": (
        "DROP TRIGGER {trigger};; CREATE TRIGGER {trigger} BEFORE DELETE ON model BEGIN SELECT 1; END",
        "trigger {trigger} is ",
    ),
    "a trigger added": (
        "CREATE TRIGGER own BEFORE DELETE ON model BEGIN SELECT 1; END",
        "trigger own is one too many",
    ),
    "a trigger of another time": (
        "DROP TRIGGER {trigger};; CREATE TRIGGER {trigger} AFTER DELETE ON model BEGIN SELECT 1; END",
        "trigger {trigger} is ",
    ),
    "an index of another collation": (
        "DROP INDEX {index};; CREATE INDEX {index} ON model (name COLLATE NOCASE)",
        "index {index} is ",
    ),
    "a table made again without its checks": (
        "CREATE TABLE copy AS SELECT * FROM saved_query;; DROP TABLE saved_query;; ALTER TABLE copy RENAME TO saved_query",
        "constraint saved_query.",
    ),
}
RIGHTS = {
    "GRANT SELECT ON public.account TO {0}_reader": "_reader SELECT on public.account is one too many",
    "GRANT SELECT ON public.prediction TO {0}_member_reader": "_member_reader SELECT on public.prediction is one too",
    "REVOKE UPDATE ON public.shard FROM {0}_app": "_app UPDATE on public.shard is missing",
    "GRANT TRUNCATE ON public.prediction TO {0}_app": "_app TRUNCATE on public.prediction is one too many",
    "REVOKE SELECT ON shuffleboard_public.leaderboard FROM {0}_reader": (
        "_reader SELECT on shuffleboard_public.leaderboard is missing"
    ),
    "REVOKE SELECT ON shuffleboard_members.leaderboard FROM {0}_member_reader": (
        "_member_reader SELECT on shuffleboard_members.leaderboard is missing"
    ),
    "GRANT SELECT (password_hash) ON public.account TO {0}_reader": "_reader SELECT on public.account is one too many",
    "GRANT INSERT ON public.schema_stamp TO {0}_app": "_app INSERT on public.schema_stamp is one too many",
    "REVOKE USAGE ON SCHEMA shuffleboard_public FROM {0}_reader": "USAGE on schema shuffleboard_public is missing",
    "GRANT CREATE ON SCHEMA public TO {0}_app": "_app CREATE on schema public is one too many",
    "REVOKE USAGE ON SEQUENCE public.model_id_seq FROM {0}_app": "USAGE on sequence public.model_id_seq is missing",
    "DROP OWNED BY {0}_reader;; DROP ROLE {0}_reader": "role {0}_reader is missing",
}


def names_of(engine: Engine) -> dict[str, str]:
    """Return the names of one object of each kind that a change can name."""
    with engine.connect() as connection:
        entries = list(catalogue.read_catalogue(connection).items())
    first: dict[str, str] = {"schema": "" if engine.dialect.name == "sqlite" else "public."}
    for name, definition in entries:
        kind, _, rest = name.partition(" ")
        if kind in ("index", "function"):
            first.setdefault(kind, rest)
        if kind == "trigger" and " ON public." in definition:
            first.setdefault("trigger", rest)
            first.setdefault("table", definition.partition(" ON public.")[2].split()[0])
        elif kind == "trigger":
            first.setdefault("trigger", rest)
        if kind == "column" and " DEFAULT " in definition and not name.endswith(".id"):
            first.setdefault("default", rest)
            first.setdefault("defaulted", rest.replace(".", " ALTER COLUMN "))
        if kind == "constraint":
            table, _, constraint = rest.partition(".")
            for word, table_name in (("CHECK", "shard"), ("FOREIGN", "shard"), ("UNIQUE", "model")):
                if definition.startswith(word) and table == table_name:
                    first.setdefault(word.lower(), constraint)
    return first


def list_findings(connection: Connection) -> list[str]:
    """Return the guard's findings about a database, each with its remedy."""
    differences = catalogue.find_differences(connection)
    assert all(each.remedy for each in differences)
    messages = list(map(str, differences))
    origin, url = history.read_origin(connection), "the database"
    try:
        history.require_known(url, origin)
    except DatabaseError as error:
        messages.append(str(error))
    if origin.revision is None:
        messages.append(f"{url} is empty")
    if outdated := repeatable.not_todays(connection):
        messages.append(f"other views or triggers: {outdated}")
    return messages


@contextmanager
def undone(engine: Engine) -> Iterator[Connection]:
    """Yield a transaction that is rolled back, so that nothing needs to be checked after it."""
    with engine.connect() as connection, connection.begin() as transaction:
        assert list_findings(connection) == []
        yield connection
        transaction.rollback()


def check_changes(engine: Engine, changes: Mapping[str, tuple[str, str]]) -> None:
    """Check that each change is reported when it is made alone."""
    names = names_of(engine)
    missed = []
    for change, (statements, expected) in changes.items():
        with undone(engine) as connection:
            for statement in statements.format(**names).split(";; "):
                # PostgreSQL protects columns that a view reads; SQLite refuses to alter a table that a broken view
                # reads.
                if re.match(r"ALTER TABLE \w+ (DROP COLUMN|RENAME|ALTER COLUMN \w+ TYPE)|DROP TABLE", statement):
                    repeatable.remove(connection)
                cascades = re.match(r"ALTER TABLE \w+ DROP|DROP (TABLE|VIEW)", statement)
                postgresql = cascades and engine.dialect.name == "postgresql"
                connection.exec_driver_sql(f"{statement} CASCADE" if postgresql else statement)
            messages = list_findings(connection)
        if not any(expected.format(**names) in each for each in messages):
            missed.append(f"{change}: {messages[:3]}")
    assert missed == []


@pytest.mark.long
def test_each_change_of_a_postgresql_database_is_named(postgresql_database: str) -> None:
    changes = COLUMNS | OTHERS | POSTGRESQL
    check_changes(get_engine(postgresql_database), changes)
    assert len(changes) + len(RIGHTS) >= 40


def test_each_change_of_an_sqlite_database_is_named(sqlite_database: str) -> None:
    engine = get_engine(sqlite_database)
    changes = COLUMNS | OTHERS | SQLITE
    check_changes(engine, changes)
    names, missed = names_of(engine), []
    for change, (place, old, new) in EDITED.items():
        messages = read_after_edit(
            engine, place.format(**names), lambda text, old=old, new=new: text.replace(old, new, 1)
        )
        if not any(each.startswith(f"{place.format(**names)} is ") for each in messages):
            missed.append(f"{change}: {messages}")
    for place in REMOVED:
        messages = read_after_edit(engine, place.format(**names), lambda _: "")
        if f"{place.format(**names)} is missing" not in messages:
            missed.append(f"{place}: {messages}")
    assert missed == []
    assert len(changes) + len(EDITED) + len(REMOVED) >= 40


def read_after_edit(engine: Engine, place: str, edit: Callable[[str], str]) -> list[str]:
    """Return the findings after a column or constraint has another text; SQLite's other ways copy the table."""
    table, name = place.partition(" ")[2].split(".")
    with undone(engine) as connection:
        connection.exec_driver_sql("PRAGMA writable_schema=ON")
        try:
            statement = connection.exec_driver_sql(f"SELECT sql FROM sqlite_master WHERE name = '{table}'").scalar_one()
            begin = rf"CONSTRAINT {name} " if place.startswith("constraint") else rf"\n\t{name} "
            line = re.search(rf"({begin}[^\n]*?)(, *\n|\n)", statement)
            assert line is not None, (place, statement)
            edited = edit(line[1])
            assert edited != line[1], line[1]
            after = statement.replace(line[0], edited + line[2] if edited else "\n", 1)
            after = re.sub(r",\s*\n\s*\)$", "\n)", after)
            statement = text("UPDATE sqlite_master SET sql = :after WHERE name = :table")
            connection.execute(statement, {"after": after, "table": table})
            return list_findings(connection)
        finally:
            connection.exec_driver_sql("PRAGMA writable_schema=OFF")


def test_each_right_of_a_role_is_named(postgresql_database: str, roles: RoleNames) -> None:
    engine = get_engine(postgresql_database)
    for change, expected in RIGHTS.items():
        with undone(engine) as connection:
            for statement in change.format(roles.prefix).split(";; "):
                connection.exec_driver_sql(statement)
            [difference] = catalogue.find_differences(connection)
            assert expected.format(roles.prefix) in str(difference)
            assert "db roles" in difference.remedy
            if revoked := re.match("as a superuser: (REVOKE .*);", difference.remedy):
                connection.exec_driver_sql(revoked[1])
                assert catalogue.find_differences(connection) == []
            else:
                assert difference.kind == "missing"


def test_the_guard_takes_less_than_two_seconds_of_this_processor(database: str) -> None:
    with get_engine(database).connect() as connection:
        catalogue.find_differences(connection)
        began = time.process_time()
        assert catalogue.find_differences(connection) == []
        assert time.process_time() - began < 2


def test_a_dropped_role_of_readers_stops_nobody(postgresql_database: str, roles: RoleNames) -> None:
    engine = get_engine(postgresql_database)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP OWNED BY {roles.reader}")
        connection.exec_driver_sql(f"DROP ROLE {roles.reader}")
    catalogue.require_intact(engine)
    apply_roles(engine, roles, {})
    with engine.connect() as connection:
        assert catalogue.find_differences(connection) == []


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


@pytest.mark.usefixtures("next_schema")
def test_an_upgrade_to_a_newer_schema_forgets_no_change_by_hand(database: str) -> None:
    engine = get_engine(database)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE saved_query DROP COLUMN public")
    with pytest.raises(DatabaseError, match=r"column saved_query.public is missing \(restore a backup"):
        upgrade(database)
    assert history.current(engine) != history.head()


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

"""Comparison of a database's catalogue with this code, and with the record of the last `db upgrade`.

`db upgrade` records the definition of every column, constraint, index, view, trigger and function in the table
`schema_catalogue`. Any difference from that record is a later change by hand. Columns, constraints and indices are also
compared by name with the tables of the code, which detects an incomplete revision.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Final, Literal

from sqlalchemy import Connection, Engine, Index, inspect, text
from sqlalchemy.sql.schema import Constraint

from registry import tables
from registry.db import Base
from registry.errors import DatabaseError
from registry.proposals import propose
from registry.schema import audiences, history, repeatable
from registry.schema.history import name_database

TABLE: Final = "schema_catalogue"
OWN_TABLES: Final = frozenset({TABLE, repeatable.TABLE, history.STAMP, "alembic_version"})
"""Tables without a model."""
EXPRESSIONS: Final = "expressions"
"""Key of the engine's version in a catalogue: another version may write the same expression differently."""
SPELLING: Final = 1
"""Version of the queries below. Raise it if a query returns a different definition for the same object."""
MOST_NAMED: Final = 5
"""Most differences that one message names."""

Kind = Literal["missing", "changed", "extra"]
_REPEATABLE: Final = ("view", "trigger", "function")


@dataclass(frozen=True)
class Difference:
    """An object of a database that differs from the expected one.

    name: kind and name, such as "column model.name". expected, found: its definitions; empty if there is none.
    """

    kind: Kind
    name: str
    expected: str = ""
    found: str = ""

    @property
    def is_repeatable(self) -> bool:
        """Return whether it is a view, trigger or function, which `db upgrade` creates again."""
        return self.name.partition(" ")[0] in _REPEATABLE

    @property
    def is_of_table(self) -> bool:
        """Return whether it is a column, constraint or index."""
        return self.name.partition(" ")[0] in ("column", "constraint", "index")

    @property
    def remedy(self) -> str:
        """Return the command that repairs the database."""
        kind, _, name = self.name.partition(" ")
        if kind == "right" and self.kind == "extra":
            role, _, right = name.partition(" ")
            granted = right.replace(" on ", " ON ", 1)
            return f"as a superuser: REVOKE {granted} FROM {role}; then run: {propose('db roles')}"
        if kind in ("right", "role"):
            return f"run as a superuser: {propose('db roles')}"
        if self.kind == "extra":
            return f"drop the {kind} {name}, which this code does not have"
        if self.is_repeatable and self.kind == "missing":
            return f"run: {propose('db upgrade')}"
        if self.is_repeatable:
            return f"drop the {kind} {name}, then run: {propose('db upgrade')}"
        return f"restore a backup from before the change, or make it again as the owner: {self.expected or name}"

    def __str__(self) -> str:
        """Return one line, without the remedy."""
        if self.kind == "changed":
            return f"{self.name} is {self.found!r} instead of {self.expected!r}"
        return f"{self.name} is missing" if self.kind == "missing" else f"{self.name} is one too many"


def read_catalogue(connection: Connection) -> dict[str, str]:
    """Map each object ("column model.name", "index …", "view …") to its definition in the engine's words."""
    if connection.dialect.name == "sqlite":
        return dict(_read_sqlite(connection))
    return dict(_read_postgresql(connection))


def record(connection: Connection) -> None:
    """Store the current catalogue as the record, in the caller's transaction, after an upgrade."""
    connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {TABLE} (name TEXT PRIMARY KEY, definition TEXT NOT NULL)")
    connection.exec_driver_sql(f"DELETE FROM {TABLE}")  # noqa: S608 - our own name
    rows = [{"name": name, "definition": definition} for name, definition in read_catalogue(connection).items()]
    connection.execute(text(f"INSERT INTO {TABLE} (name, definition) VALUES (:name, :definition)"), rows)  # noqa: S608


def find_differences(connection: Connection) -> list[Difference]:
    """Return the differences from the record of the last upgrade and from the code, sorted by name."""
    current = read_catalogue(connection)
    expected = _read_recorded(connection)
    differences = {difference.name: difference for difference in _compare(expected, current)}
    if not expected:
        differences[f"table {TABLE}"] = Difference("missing", f"table {TABLE}")
    in_tables = {name for name in current if name.partition(" ")[0] not in (*_REPEATABLE, EXPRESSIONS)}
    ours = set(_list_code_names(connection))
    for name in ours - in_tables:
        differences.setdefault(name, Difference("missing", name))
    for name in in_tables - ours:
        if not _is_unnamed(name):
            differences.setdefault(name, Difference("extra", name, found=current[name]))
    if connection.dialect.name == "postgresql":
        differences |= {difference.name: difference for difference in _compare_rights(connection)}
    return [differences[name] for name in sorted(differences)]


def find_changes(connection: Connection) -> list[Difference]:
    """Return only the differences from the record of the last upgrade, for a database at an earlier revision."""
    return sorted(_compare(_read_recorded(connection), read_catalogue(connection)), key=lambda each: each.name)


def require_intact(engine: Engine) -> None:
    """Raise DatabaseError if something that this code needs is missing or changed.

    Extra objects and missing roles are harmless.
    """
    with engine.execution_options(read_only=True).connect() as connection:
        differences = find_differences(connection)
    wrong = [each for each in differences if each.kind != "extra" and not each.name.startswith("role ")]
    if wrong:
        raise DatabaseError(f"database {name_database(engine)} is not as this code made it: {describe(wrong)}")


def describe(differences: list[Difference]) -> str:
    """Return the first differences with their remedies, for a message of one line."""
    named = "; ".join(f"{each} ({each.remedy})" for each in differences[:MOST_NAMED])
    more = len(differences) - MOST_NAMED
    return f"{named}; and {more} more, which {propose('db check')} lists" if more > 0 else named


def differences_of(engine: Engine) -> list[Difference]:
    """Return the differences of a database at this code's revision; none at another, which other checks report."""
    with engine.execution_options(read_only=True).connect() as connection:
        return find_differences(connection) if history.revision_of(connection) == history.head() else []


def _read_recorded(connection: Connection) -> dict[str, str]:
    if not inspect(connection).has_table(TABLE):
        return {}
    rows = connection.execute(text(f"SELECT name, definition FROM {TABLE}"))  # noqa: S608 - our own name
    return {row[0]: row[1] for row in rows}


def _compare(expected: Mapping[str, str], found: Mapping[str, str]) -> Iterator[Difference]:
    if not expected:
        return
    same_spelling = expected.get(EXPRESSIONS) == found.get(EXPRESSIONS)
    for name in expected.keys() | found.keys():
        if name == EXPRESSIONS:
            continue
        if name not in found:
            yield Difference("missing", name, expected=expected[name])
        elif name not in expected:
            yield Difference("extra", name, found=found[name])
        elif same_spelling and expected[name] != found[name]:
            yield Difference("changed", name, expected[name], found[name])


def _list_code_names(connection: Connection) -> Iterator[str]:
    """Yield the names of columns, constraints and indices of this code's tables on this engine."""
    for module in iter_modules(tables.__path__):
        import_module(f"{tables.__name__}.{module.name}")
    for table in Base.metadata.tables.values():
        yield from (f"column {table.name}.{column.name}" for column in table.columns)
        for constraint in table.constraints:
            if _applies_to(constraint, connection) and (name := _name_of(constraint, connection)):
                yield f"constraint {table.name}.{name}"
        for index in table.indexes:
            if _applies_to(index, connection):
                yield f"index {index.name}"


def _applies_to(item: Constraint | Index, connection: Connection) -> bool:
    only = item._ddl_if  # noqa: SLF001 - SQLAlchemy has no public way to read it
    return only is None or only.dialect == connection.dialect.name


def _name_of(constraint: Constraint, connection: Connection) -> str | None:
    """Return the name of a constraint by the tables' naming convention."""
    name: str | None = connection.dialect.identifier_preparer.format_constraint(constraint)
    return name


def _is_unnamed(name: str) -> bool:
    """Return whether an engine makes this object itself, such as a NOT NULL constraint of PostgreSQL 18."""
    return name.endswith("_not_null")


# SQLite


def _read_sqlite(connection: Connection) -> Iterator[tuple[str, str]]:
    query = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
    for kind, name, statement in connection.execute(text(query)):
        if kind == "table" and name not in OWN_TABLES:
            yield from _items_of_table(name, statement)
        elif kind != "table":
            yield f"{kind} {name}", " ".join(statement.split())
    yield EXPRESSIONS, json.dumps({"spelling": SPELLING})


def _items_of_table(table: str, statement: str) -> Iterator[tuple[str, str]]:
    """Split a CREATE TABLE statement into its columns and constraints."""
    body = statement[statement.index("(") + 1 : statement.rindex(")")]
    for item in _split(body):
        definition = " ".join(item.split())
        words = definition.split(" ", 2)
        if words[0].upper() == "CONSTRAINT":
            yield f"constraint {table}.{words[1].strip(chr(34))}", words[2]
        elif words[0].upper() in ("PRIMARY", "FOREIGN", "UNIQUE", "CHECK"):
            yield f"constraint {table}.{definition}", definition
        else:
            yield f"column {table}.{words[0].strip(chr(34))}", definition.partition(" ")[2]


def _split(body: str) -> Iterator[str]:
    """Split at the commas outside brackets and texts."""
    depth, begin, quoted = 0, 0, ""
    for place, character in enumerate(body):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'\"":
            quoted = character
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "," and depth == 0:
            yield body[begin:place]
            begin = place + 1
    yield body[begin:]


# PostgreSQL

_COLUMNS: Final = """
SELECT 'column ' || relname || '.' || attname,
    format_type(atttypid, atttypmod) || coalesce(' COLLATE ' || collname, '')
    || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
    || coalesce(' DEFAULT ' || pg_get_expr(adbin, adrelid), '')
    || CASE attidentity WHEN 'a' THEN ' ALWAYS IDENTITY' WHEN 'd' THEN ' IDENTITY' ELSE '' END
    || CASE WHEN attgenerated <> '' THEN ' GENERATED' ELSE '' END
FROM pg_attribute
JOIN pg_class ON pg_class.oid = attrelid AND relkind IN ('r', 'p')
JOIN pg_type ON pg_type.oid = atttypid
LEFT JOIN pg_collation ON pg_collation.oid = attcollation AND attcollation <> typcollation
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relnamespace = 'public'::regnamespace AND attnum > 0 AND NOT attisdropped"""
_CONSTRAINTS: Final = """
SELECT 'constraint ' || relname || '.' || conname, pg_get_constraintdef(pg_constraint.oid)
    || CASE WHEN convalidated THEN '' ELSE ' (not validated)' END
    || CASE WHEN EXISTS (SELECT 1 FROM pg_trigger WHERE tgconstraint = pg_constraint.oid AND tgenabled = 'D')
        THEN ' (disabled)' ELSE '' END
FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid
WHERE relnamespace = 'public'::regnamespace AND contype IN ('c', 'f', 'p', 'u', 'x')"""
_INDICES: Final = """
SELECT 'index ' || relname, pg_get_indexdef(indexrelid) || CASE WHEN indisvalid THEN '' ELSE ' (not valid)' END
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = 'public'::regnamespace AND NOT EXISTS (
    SELECT 1 FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u', 'x')
)"""
_VIEWS: Final = """
SELECT 'view ' || nspname || '.' || relname, pg_get_viewdef(pg_class.oid)
    || coalesce(' WITH ' || array_to_string(reloptions, ', '), '')
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind IN ('v', 'm') AND nspname = ANY (ARRAY[{schemas}])"""
_TRIGGERS: Final = """
SELECT 'trigger ' || tgname, pg_get_triggerdef(pg_trigger.oid)
    || CASE tgenabled WHEN 'O' THEN '' WHEN 'A' THEN ' (always)' ELSE ' (disabled)' END
FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE NOT tgisinternal AND relnamespace = 'public'::regnamespace"""
_FUNCTIONS: Final = """
SELECT 'function ' || proname, pg_get_functiondef(pg_proc.oid) FROM pg_proc
WHERE pronamespace = 'public'::regnamespace AND prokind = 'f' AND proname <> 'shuffleboard_renew_statistics'"""


def _read_postgresql(connection: Connection) -> Iterator[tuple[str, str]]:
    schemas = ", ".join(f"'{name}'" for name in ("public", *audiences.postgresql_schemas()))
    for query in (_COLUMNS, _CONSTRAINTS, _INDICES, _VIEWS.format(schemas=schemas), _TRIGGERS, _FUNCTIONS):
        for name, definition in connection.exec_driver_sql(query):
            if not re.match(rf"(column|constraint) ({'|'.join(OWN_TABLES)})\.", name):
                yield name, " ".join(definition.split())
    version = connection.exec_driver_sql("SELECT current_setting('server_version_num')::integer / 10000").scalar()
    yield EXPRESSIONS, json.dumps({"postgresql": version, "spelling": SPELLING})


_RIGHTS: Final = """
WITH roles AS (
    SELECT DISTINCT prefix || ending AS role, ending
    FROM (
        SELECT regexp_replace(pg_get_userbyid(relowner), '_owner$', '') AS prefix FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_get_userbyid(relowner) LIKE '%%_owner'
            -- which `db roles` makes too
            AND EXISTS (SELECT 1 FROM pg_proc WHERE proname = 'shuffleboard_renew_statistics')
    ) AS owners
    CROSS JOIN unnest(ARRAY['_app', '_reader', '_member_reader']) AS ending
), present AS (
    SELECT role, ending, CASE ending WHEN '_reader' THEN '{public}' WHEN '_member_reader' THEN '{members}' END AS views
    FROM roles JOIN pg_roles ON rolname = role
), schemas AS (
    SELECT oid, nspname FROM pg_namespace WHERE nspname = ANY (ARRAY[{schemas}])
), on_relations AS (
    SELECT role, privilege, nspname || '.' || relname AS thing, pg_class.oid,
        CASE
            WHEN ending = '_app' THEN privilege = 'SELECT'
                OR nspname = 'public' AND privilege <> 'TRUNCATE' AND relname <> ALL (ARRAY[{own}])
            ELSE privilege = 'SELECT' AND nspname = views
        END AS expected
    FROM pg_class JOIN schemas ON schemas.oid = relnamespace CROSS JOIN present
    CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) AS privilege
    WHERE relkind IN ('r', 'v')
)
SELECT 'role ' || role, true, EXISTS (SELECT 1 FROM pg_roles WHERE rolname = role) FROM roles
UNION ALL
SELECT 'right ' || role || ' ' || privilege || ' on ' || thing, expected,
    has_table_privilege(role, oid, privilege) OR CASE
        WHEN expected OR privilege IN ('DELETE', 'TRUNCATE') THEN false
        ELSE has_any_column_privilege(role, oid, privilege)
    END
FROM on_relations
UNION ALL
SELECT 'right ' || role || ' ' || privilege || ' on schema ' || nspname,
    privilege = 'USAGE' AND (ending = '_app' OR nspname = views), has_schema_privilege(role, schemas.oid, privilege)
FROM present CROSS JOIN schemas CROSS JOIN unnest(ARRAY['USAGE', 'CREATE']) AS privilege
UNION ALL
SELECT 'right ' || role || ' USAGE on sequence public.' || relname, ending = '_app',
    has_sequence_privilege(role, pg_class.oid, 'USAGE')
FROM present CROSS JOIN pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace"""


def _compare_rights(connection: Connection) -> Iterator[Difference]:
    """Yield the differences of the roles that `db roles` creates, if it was run, and of their rights."""
    query = _RIGHTS.format(
        own=", ".join(f"'{name}'" for name in sorted(OWN_TABLES)),
        public=audiences.schema("public"),
        members=audiences.schema("members"),
        schemas=", ".join(f"'{name}'" for name in ("public", *audiences.postgresql_schemas())),
    )
    for name, expected, present in connection.exec_driver_sql(query):
        if expected != present:
            yield Difference("missing" if expected else "extra", name)

"""The roles of a registry on PostgreSQL: owner, application, readers.

    <prefix>_owner          owns schemas, tables and views; upgrades the database
    <prefix>_app            website, workers and command line: rows, never tables; owns nothing
    <prefix>_reader         SELECT on the documented views of what is public, and nothing else
    <prefix>_member_reader  the same for members' views

The owner of a table can disable the triggers that protect sealed data, so website and workers own none. The readers are
for people who log in to the database themselves, and every limit that a role can have is set on the role. The website
does not need readers: its SQL page reads files (`registry/sql/`). All statements can be run again.
"""

# Names in these statements are this file's, a checked prefix, or quoted.
# ruff: noqa: S608

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine, make_url
from sqlalchemy.exc import DBAPIError

from registry.errors import DatabaseError, UsageError
from registry.proposals import propose
from registry.schema import catalogue
from registry.schema.audiences import schema
from registry.schema.planner import BY_EVALUATION, analyze

CONNECTIONS: Final = 8
"""Most connections of a reader at the same time."""

# Functions that a reader does not need: waits, locks and messages that affect others, writing past a read-only
# transaction (large objects, until PostgreSQL 16), SQL within a text, ending others' queries, texts of any length.
_REVOKED: Final = (
    r"^(lo_.*|loread|lowrite|pg_sleep.*|pg_(try_)?advisory_.*|pg_notify|pg_logical_emit_message|set_config"
    r"|(query|table|schema|database|cursor)_to_xml.*|ts_stat|ts_rewrite|pg_(cancel|terminate)_backend|repeat|lpad|rpad)$"
)


@dataclass(frozen=True)
class RoleNames:
    """The names of the four roles; prefix: lower-case letters, digits and `_`."""

    prefix: str = "shuffleboard"

    def __post_init__(self) -> None:
        """Raise UsageError for a prefix that is no plain SQL name."""
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", self.prefix):
            raise UsageError(
                f"prefix {self.prefix!r}: use up to 40 lower-case letters, digits and '_', beginning with a letter"
            )

    @property
    def owner(self) -> str:
        """Return the name of the role that owns everything."""
        return f"{self.prefix}_owner"

    @property
    def app(self) -> str:
        """Return the name of the role that reads and writes rows."""
        return f"{self.prefix}_app"

    @property
    def reader(self) -> str:
        """Return the name of the role that reads public rows."""
        return f"{self.prefix}_reader"

    @property
    def member_reader(self) -> str:
        """Return the name of the role that reads members' rows."""
        return f"{self.prefix}_member_reader"

    @property
    def all(self) -> tuple[str, ...]:
        """Return the names of all four roles."""
        return (self.owner, self.app, self.reader, self.member_reader)


_SUPERUSERS: Final = frozenset({"temp_file_limit"})
"""Settings that only a superuser may set or change."""


READER_SECONDS: Final = 60
"""Longest time of a reader's statement."""


def reader_settings(schema: str) -> dict[str, str]:
    """Return the limits of a reader of `schema`, by the name of the setting, in PostgreSQL's form.

    They are set on the role, whose user may change all of them except `temp_file_limit`.
    """
    return {
        "search_path": schema,
        "default_transaction_read_only": "on",
        "statement_timeout": f"{1000 * READER_SECONDS}ms",
        "lock_timeout": "1s",
        "idle_in_transaction_session_timeout": "1min",
        "work_mem": "16MB",
        "hash_mem_multiplier": "1",
        "temp_buffers": "1MB",
        "max_parallel_workers_per_gather": "0",
        "jit": "off",
        # Ends a query whose client is gone.
        "client_connection_check_interval": "2s",
        "temp_file_limit": "256MB",
    }


def compare_settings(expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return the differences between a reader's settings and its limits, a phrase for each setting.

    Settings that only a superuser may set may be missing: `db roles` may have run without one, and no reader can remove
    them.
    """
    names = sorted({*expected, *found} - (_SUPERUSERS - set(found)))
    return [
        f"{name} is {found.get(name, 'not set')} instead of {expected.get(name, 'not set')}"
        for name in names
        if found.get(name) != expected.get(name)
    ]


def script(names: RoleNames, database: str, *, superuser: bool = True) -> Iterator[str]:
    """Yield the statements that create or refresh the roles of `database`, which is at the newest schema.

    superuser: whether to include the statements that only a superuser may run: the limit on temporary files, and
    revoking functions that readers do not need from everyone. Passwords are set separately.
    """
    yield from _make_roles(names, superuser)
    yield from _transfer_ownership(names, database)
    yield from _grant_app(names)
    yield from _grant_readers(names, superuser)
    if superuser:
        yield from _revoke_functions(names)


def apply_roles(engine: Engine, names: RoleNames, passwords: Mapping[str, str]) -> bool:
    """Create or refresh the roles in one transaction; return whether it was run by a superuser.

    passwords: role to new password; the others keep theirs. The server gets the stored form of a password, not the
    password. Raises UsageError for SQLite and for passwords of other roles, DatabaseError if the server refuses a
    statement.
    """
    if engine.dialect.name != "postgresql":
        raise UsageError("only PostgreSQL has roles")
    if unknown := set(passwords) - set(names.all):
        raise UsageError(f"{min(unknown)} is not one of the roles {', '.join(names.all)}; correct the passwords")
    database = make_url(engine.url).database
    assert database is not None
    try:
        with engine.begin() as connection:
            superuser = connection.exec_driver_sql("SELECT current_setting('is_superuser')").scalar() == "on"
            for statement in script(names, database, superuser=superuser):
                connection.exec_driver_sql(statement.replace("%", "%%"))
            driver: Any = connection.connection.dbapi_connection
            for role, password in passwords.items():
                stored = driver.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
                connection.exec_driver_sql(f"ALTER ROLE {role} PASSWORD '{stored}'")
    except DBAPIError as error:
        reason = str(error.orig).splitlines()[0]
        raise DatabaseError(
            f"the roles were not created ({reason}), and nothing was changed; run it as a superuser, or have one run "
            f"what `{propose('db roles', '--sql')}` prints"
        ) from None
    return superuser


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _make_roles(names: RoleNames, superuser: bool) -> Iterator[str]:
    for role in names.all:
        yield (
            f"DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{role}') "
            f"THEN CREATE ROLE {role} LOGIN; END IF; END $$"
        )
        limit = CONNECTIONS if role in (names.reader, names.member_reader) else -1
        yield f"ALTER ROLE {role} LOGIN NOCREATEDB NOCREATEROLE CONNECTION LIMIT {limit}"
        if superuser:
            yield f"ALTER ROLE {role} NOSUPERUSER NOREPLICATION NOBYPASSRLS"
    if not superuser:
        # Only a superuser can transfer ownership to a role without being its member.
        yield f"GRANT {names.owner} TO CURRENT_USER"


def _schemas() -> tuple[str, ...]:
    views = (schema("public"), schema("members"))
    return ("public", *views, *(f"{name}_tables" for name in views))


def _transfer_ownership(names: RoleNames, database: str) -> Iterator[str]:
    """Yield statements that transfer ownership to the owner, and revoke PostgreSQL's default rights of everyone."""
    yield f"REVOKE CREATE, TEMPORARY ON DATABASE {_quote(database)} FROM PUBLIC"
    yield f"GRANT CONNECT ON DATABASE {_quote(database)} TO {', '.join(names.all)}"
    yield f"GRANT CREATE, TEMPORARY ON DATABASE {_quote(database)} TO {names.owner}"
    for name in _schemas():
        yield f"ALTER SCHEMA {name} OWNER TO {names.owner}"
        yield f"REVOKE ALL ON SCHEMA {name} FROM PUBLIC"
    listed = ", ".join(f"'{name}'" for name in _schemas())
    yield f"""\
DO $$
DECLARE statement text;
BEGIN
    FOR statement IN
        SELECT format(
            'ALTER %s %I.%I OWNER TO {names.owner}',
            CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END, nspname, relname
        )
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname IN ({listed}) AND relkind IN ('r', 'p', 'v', 'm')
            AND pg_class.oid NOT IN (SELECT objid FROM pg_depend WHERE deptype = 'e' AND classid = 'pg_class'::regclass)
        UNION ALL
        SELECT format('ALTER FUNCTION %s OWNER TO {names.owner}', pg_proc.oid::regprocedure)
        FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
        WHERE nspname IN ({listed}) AND prokind = 'f'
            AND pg_proc.oid NOT IN (SELECT objid FROM pg_depend WHERE deptype = 'e' AND classid = 'pg_proc'::regclass)
    LOOP
        EXECUTE statement;
    END LOOP;
END $$"""


def _grant_app(names: RoleNames) -> Iterator[str]:
    """Yield grants on rows of every table, present and future."""
    of_owner = f"ALTER DEFAULT PRIVILEGES FOR ROLE {names.owner} IN SCHEMA"
    yield f"GRANT USAGE ON SCHEMA {', '.join(_schemas())} TO {names.app}"
    yield f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {names.app}"
    for table in sorted(catalogue.OWN_TABLES):
        yield f"REVOKE INSERT, UPDATE, DELETE ON public.{table} FROM {names.app}"
    yield f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {names.app}"
    yield f"{of_owner} public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {names.app}"
    yield f"{of_owner} public GRANT USAGE, SELECT ON SEQUENCES TO {names.app}"
    for name in _schemas()[1:]:
        yield f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {names.app}"
        yield f"{of_owner} {name} GRANT SELECT ON TABLES TO {names.app}"
    # Until PostgreSQL 17 only a table's owner may ANALYZE it; for others the table is skipped with a warning. ANALYZE
    # takes no parameters, and names from outside must not get into a statement that the owner runs.
    function = "public.shuffleboard_renew_statistics(text[])"
    counted = "\n".join(
        f"    IF '{table}' = ANY (tables) THEN ANALYZE public.{table}{columns}; END IF;"
        for table, columns in BY_EVALUATION.items()
    )
    yield f"""\
CREATE OR REPLACE FUNCTION public.shuffleboard_renew_statistics(tables text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    {analyze(())};
{counted}
END $$"""
    yield f"ALTER FUNCTION {function} OWNER TO {names.owner}"
    yield f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC"
    yield f"GRANT EXECUTE ON FUNCTION {function} TO {names.app}"


def _grant_readers(names: RoleNames, superuser: bool) -> Iterator[str]:
    """Yield grants of SELECT on the documented views of each audience, present and future, and the limits."""
    for role, name in ((names.reader, schema("public")), (names.member_reader, schema("members"))):
        yield f"GRANT USAGE ON SCHEMA {name} TO {role}"
        yield f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {role}"
        yield f"ALTER DEFAULT PRIVILEGES FOR ROLE {names.owner} IN SCHEMA {name} GRANT SELECT ON TABLES TO {role}"
        # `db upgrade` sets this too; registry/schema/audiences.py explains why.
        yield f"""\
DO $$
DECLARE view text;
BEGIN
    FOR view IN SELECT viewname FROM pg_views WHERE schemaname = '{name}' LOOP
        EXECUTE format('ALTER VIEW {name}.%I SET (security_barrier = true)', view);
    END LOOP;
END $$"""
        # Undo changes by the role's users.
        yield f"ALTER ROLE {role} RESET ALL"
        for setting, value in reader_settings(name).items():
            if superuser or setting not in _SUPERUSERS:
                yield f"ALTER ROLE {role} SET {setting} = '{value}'"


def _revoke_functions(names: RoleNames) -> Iterator[str]:
    """Revoke, for this database, functions that readers do not need; owner and app keep them."""
    yield f"""\
DO $$
DECLARE name regprocedure;
BEGIN
    FOR name IN
        SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '{_REVOKED}'
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO {names.owner}, {names.app}', name);
    END LOOP;
END $$"""
    yield "REVOKE USAGE ON LANGUAGE plpgsql FROM PUBLIC"
    yield f"GRANT USAGE ON LANGUAGE plpgsql TO {names.owner}"

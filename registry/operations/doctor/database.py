"""Checks of the database: whether it answers, has this code's complete schema, and is configured to protect it."""

import re
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from shutil import disk_usage
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from registry import __version__
from registry.db import is_pooled, read_session
from registry.errors import DatabaseError
from registry.operations import migrate
from registry.operations.doctor.findings import Context, Outcome, ok, problem, warning
from registry.proposals import propose
from registry.queue.claims import live_workers
from registry.schema import catalogue, history
from registry.schema.audiences import FILTERED, Audience, schema
from registry.schema.roles import CONNECTIONS, RoleNames, compare_settings, reader_settings
from registry.schema.triggers import trigger_statements
from registry.schema.views import VIEWS

NETWORK: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "beegfs", "gpfs"),
        *("fuse.sshfs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "9p"),
    )
)
"""File systems without locks between hosts or without shared memory: SQLite needs both."""

OF_A_WORKER: Final = 3
OF_A_WEBSITE: Final = 48
OF_OTHERS: Final = 10
"""Most connections of a worker, of a website and of other programs; docs/operations.md lists them."""

_UPGRADE: Final = (
    f"stop workers and website, make a backup ({propose('db backup', 'FILE')}), run: {propose('db upgrade')}"
)

BUSY_SECONDS: Final = 5.0
GIB: Final = 1 << 30


def rows_of(context: Context, query: str, **values: Any) -> Sequence[Any]:
    """Return the rows of a query, without waiting for a writer."""
    with context.engine.execution_options(read_only=True).connect() as connection:
        return connection.execute(text(query), values).all()


def value_of(context: Context, query: str, **values: Any) -> Any:
    """Return the single value of a query; None if it has no row."""
    rows = rows_of(context, query, **values)
    return rows[0][0] if rows else None


def file_of(context: Context) -> Path:
    """Return the SQLite file."""
    return Path(str(context.engine.url.database))


def reachable(context: Context) -> Outcome:
    """Check that a database answers."""
    if context.engine.dialect.name == "sqlite" and not file_of(context).exists():
        return problem(f"{file_of(context)}: no such file", f"run: {propose('db upgrade')}")
    try:
        history.current(context.engine)
    except DatabaseError as error:
        return problem(str(error), remedy_of(str(error)))
    if context.engine.dialect.name == "sqlite":
        return ok(f"SQLite {sqlite3.sqlite_version}, {file_of(context)}")
    version, user = rows_of(context, "SELECT current_setting('server_version'), current_user")[0]
    return ok(f"PostgreSQL {version}, {history.name_database(context.engine)} as {user}")


URL: Final = "SHUFFLEBOARD_DATABASE_URL"
REMEDIES: Final = {
    r'role "(?P<name>[^"]*)" does not exist': (
        f"make the role {{name}} with `{propose('db roles')}`, run as a superuser, or correct the user in {URL}"
    ),
    r'database "(?P<name>[^"]*)" does not exist': (
        f"make it (createdb {{name}}) and run `{propose('db upgrade')}`, or correct the name in {URL}"
    ),
    "password authentication failed|no password supplied": (
        f"correct the password in {URL}, or give the role another one: {propose('db roles', '--prompt')}"
    ),
    "not permitted to log in": f"let the role log in: {propose('db roles')}, run as a superuser",
    "no pg_hba.conf entry": (
        "add a line for this host, database and role to the server's pg_hba.conf, and reload the server"
    ),
    "too many clients|remaining connection slots|too many connections": (
        "raise max_connections, or use a connection pooler; restart what holds connections for nothing"
    ),
    "starting up|shutting down|recovery mode": "wait until the server has started; if it does not, look at its log",
    "translate host name|resolve host|Name or service not known|getaddrinfo|nodename nor servname": (
        f"correct the host in {URL}, or this host's name resolution"
    ),
    r"certificate|\bSSL\b|\bTLS\b": f"check sslmode, sslrootcert and the server's certificate in {URL}",
    "timeout|timed out|No route|unreachable": f"check host and port in {URL}, and the firewalls in between",
    "Connection refused": f"start PostgreSQL, or correct host and port in {URL}",
    "permission denied": f"give the role its rights: {propose('db roles')}, run as a superuser",
    "not a database|malformed|disk image": (
        f"put the right file back: restore a backup with `{propose('db restore', 'FILE')}`, or correct {URL}"
    ),
    "unable to open database file|readonly database|Is a directory": (
        f"make file and folder readable and writable for this account, or correct {URL}"
    ),
}
"""Patterns of the database's errors with their remedies; the first match counts."""


def remedy_of(error: str) -> str:
    """Return the remedy for an error with which a database cannot be used."""
    for pattern, remedy in REMEDIES.items():
        if match := re.search(pattern, error, re.IGNORECASE):
            return remedy.format(**match.groupdict())
    return f"start it, and check URL, password and certificates in {URL}"


def writable(context: Context) -> Outcome:
    """Check that a row could be written now."""
    statement = "UPDATE alembic_version SET version_num = version_num WHERE false"
    if context.engine.dialect.name == "postgresql":
        statement = "UPDATE worker SET pid = pid WHERE false"  # the application may not write to the other table
    try:
        if context.engine.dialect.name == "sqlite":
            with closing(sqlite3.connect(file_of(context), timeout=BUSY_SECONDS, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(statement)
                connection.execute("ROLLBACK")
        else:
            with context.engine.connect() as connection:
                connection.exec_driver_sql(statement)
                connection.rollback()
    except (sqlite3.Error, DatabaseError, DBAPIError) as error:
        reason = " ".join(str(getattr(error, "orig", error)).split())
        return problem(f"cannot be written: {reason}", _remedy_of_writing(context, reason))
    if context.engine.dialect.name == "sqlite" and (closed := _explain_unwritable(file_of(context))):
        return problem(closed, f"chmod 600 {file_of(context)}, and make its folder writable for this account")
    return ok("can be written")


def _explain_unwritable(file: Path) -> str:
    """Return how the modes of a SQLite file and its folder forbid writing, which root would not notice; else empty."""
    for path in (file, file.parent):
        mode = stat.S_IMODE(path.stat().st_mode)
        if not mode & 0o222:
            return f"cannot be written: mode {mode:o} of {path} lets no account but root"
    return ""


def _remedy_of_writing(context: Context, reason: str) -> str:
    if "locked" in reason:
        return "stop the process that holds the lock, or wait for it"
    if context.engine.dialect.name == "sqlite":
        return "make file and folder writable for this account, and free space on the disk"
    if "read-only" in reason:
        if value_of(context, "SELECT pg_is_in_recovery()"):
            return (
                "this is a standby: set SHUFFLEBOARD_DATABASE_URL to the primary, or promote it (SELECT pg_promote())"
            )
        return (
            "somebody set default_transaction_read_only: as a superuser, ALTER DATABASE … RESET "
            "default_transaction_read_only (also ALTER ROLE, and postgresql.conf), and reconnect"
        )
    return remedy_of(reason)


def revision(context: Context) -> Outcome:
    """Check that the database has this code's schema."""
    at = history.current(context.engine)
    with context.engine.execution_options(read_only=True).connect() as connection:
        origin = history.read_origin(connection)
    if history.is_newer(origin.version):
        return problem(
            f"upgraded by Shuffleboard {origin.version}, and this is {__version__}",
            f"install Shuffleboard {origin.version} or newer",
        )
    if at == history.head():
        if changed := history.not_todays(context.engine):
            return problem(f"other views or triggers than this code's: {history.join_names(changed)}", _UPGRADE)
        return ok(f"revision {at}, the newest")
    waiting = migrate.pending(at)
    if waiting:
        titles = "; ".join(f"{number} {title}" for number, title in waiting)
        return problem(f"{at or 'empty'}; migrations to run: {titles}", _UPGRADE)
    if history.is_too_old(str(at)):
        return problem(f"revision {at} is older than the first release", history.describe_new_registry())
    return problem(f"revision {at} is newer than this code's {history.head()}", "install the version of the code")


def tables(context: Context) -> Outcome:
    """Compare columns, constraints and indices with this code; other checks compare triggers and views."""
    differences = [each for each in catalogue.differences_of(context.engine) if each.is_of_table]
    if not differences:
        return ok("columns, constraints and indices are as this code made them")
    wrong = [each for each in differences if each.kind != "extra"]
    named = "; ".join(map(str, differences[: catalogue.MOST_NAMED]))
    listed = (
        f"{named} and {len(differences) - catalogue.MOST_NAMED} more"
        if len(differences) > catalogue.MOST_NAMED
        else named
    )
    return (problem if wrong else warning)(listed, (wrong or differences)[0].remedy)


def triggers(context: Context) -> Outcome:
    """Check that every trigger that protects sealed data exists, enabled and unchanged."""
    expected = {name: _one_line(body) for name, body in trigger_statements(context.engine.dialect.name).items()}
    if context.engine.dialect.name == "sqlite":
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        existing = {name: _one_line(body) for name, body in rows_of(context, query)}
        off: list[str] = []
        changed = [name for name, body in expected.items() if name in existing and existing[name] != body]
    else:
        query = (
            "SELECT tgname, tgenabled FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
            "WHERE NOT tgisinternal AND relnamespace = 'public'::regnamespace"
        )
        states = dict(rows_of(context, query))
        off = sorted(name for name, state in states.items() if name in expected and state not in ("O", "A"))
        query = (
            "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'refuse%'"
        )
        bodies = {name: _one_line(body) for name, body in rows_of(context, query)}
        existing = {**states, **bodies}
        changed = [name for name, body in expected.items() if name in bodies and bodies[name] not in body]
    missing = sorted(expected.keys() - existing.keys())
    if not (missing or off or changed):
        return ok(f"all {len(expected)} exist and are enabled")
    parts = {"missing": missing, "switched off": off, "changed since they were created": sorted(changed)}
    file = f"registry/schema/triggers/{context.engine.dialect.name}.sql"
    switch_on = "ALTER TABLE … ENABLE TRIGGER …, and " if off else ""
    return problem(
        "; ".join(f"{what}: {', '.join(names)}" for what, names in parts.items() if names),
        f"as the owner, {switch_on}recreate them from {file}; then run: {propose('verify', '--all')}",
    )


def _one_line(sql: str) -> str:
    return " ".join(sql.split())


def views(context: Context) -> Outcome:
    """Check that every documented view exists, on PostgreSQL for each audience."""
    if context.engine.dialect.name == "sqlite":
        expected = {("", name) for name in VIEWS}
        existing = {("", name) for (name,) in rows_of(context, "SELECT name FROM sqlite_master WHERE type = 'view'")}
    else:
        expected = {("public", name) for name in VIEWS}
        for audience in ("public", "members"):
            expected |= {(schema(audience), name) for name in VIEWS}
            expected |= {(f"{schema(audience)}_tables", name) for name in (*VIEWS, *FILTERED)}
        existing = {(row[0], row[1]) for row in rows_of(context, "SELECT schemaname, viewname FROM pg_views")}
    missing = sorted(".".join(filter(None, name)) for name in expected - existing)
    if not missing:
        return ok(f"all {len(expected)} exist")
    return problem(
        f"missing: {', '.join(missing)}",
        f"they were dropped: as the owner, run `{propose('db upgrade')}`, then `{propose('db roles')}`",
    )


def rights(context: Context) -> Outcome:
    """Check that the role in use cannot disable the protection of sealed rows."""
    user, superuser = rows_of(context, "SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user")[0]
    owners = dict(
        rows_of(context, "SELECT tablename, tableowner FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename")
    )
    owned = [table for table, owner in owners.items() if owner == user]
    remedy = (
        f"run `{propose('db roles')}` as a superuser, and set SHUFFLEBOARD_DATABASE_URL of website and workers to the "
        f"role {RoleNames().app}"
    )
    if superuser or len(owned) == len(owners):
        what = "a superuser" if superuser else "the owner of every table"
        return warning(f"{user} is {what}, and could disable what protects sealed rows", remedy)
    if owned:
        return problem(f"{user} owns {', '.join(owned)}, and could disable what protects their rows", remedy)
    query = (
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND (pg_has_role(tableowner, 'MEMBER') "
        "OR has_table_privilege(quote_ident(schemaname) || '.' || quote_ident(tablename), 'TRUNCATE, TRIGGER')) "
        "ORDER BY tablename"
    )
    reached = [name for (name,) in rows_of(context, query)]
    if reached:
        listed = f"{', '.join(reached[:3])}{' …' if len(reached) > 3 else ''}"
        return problem(f"{user} may empty, or act as the owner of, {listed}", remedy)
    return ok(f"{user} owns nothing and may only change rows")


def readers(context: Context) -> Outcome:
    """Check that the roles for people's own logins read only the documented views, with their limits."""
    user = str(value_of(context, "SELECT current_user"))
    prefix = user.rpartition("_")[0] if user.endswith(("_app", "_owner")) else ""
    names = RoleNames(prefix) if prefix else RoleNames()
    checked = []
    roles: dict[Audience, str] = {"public": names.reader, "members": names.member_reader}
    for audience, role in roles.items():
        if not value_of(context, "SELECT count(*) FROM pg_roles WHERE rolname = :role", role=role):
            continue
        elsewhere = value_of(context, _ELSEWHERE, role=role, schema=schema(audience))
        if elsewhere:
            return problem(
                f"{role} can read or change {elsewhere} relations outside of the schema {schema(audience)}",
                f"take those rights from it, and run `{propose('db roles')}`",
            )
        if changed := _find_role_changes(context, audience, role):
            return problem(
                changed,
                "somebody with the password may have lifted them: run "
                f"`{propose('db roles', '--prompt')}`, and give the role a new password",
            )
        checked.append(role)
    bare = value_of(context, _WITHOUT_BARRIER, schemas=[schema("public"), schema("members")])
    if checked and bare:
        return problem(
            f"{bare} views for readers are no security barriers: an error in a query may reveal hidden rows",
            f"run `{propose('db roles')}`",
        )
    if not checked:
        return ok("there are none: nobody queries the database with a login of their own")
    return ok(f"{' and '.join(checked)}: documented views only")


_WITHOUT_BARRIER: Final = """
SELECT count(*)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE
    pg_class.relkind = 'v'
    AND pg_namespace.nspname = ANY(:schemas)
    AND NOT coalesce(pg_class.reloptions::text LIKE '%security_barrier=true%', false)
"""
_ELSEWHERE: Final = """
SELECT count(*)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE
    pg_class.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    AND pg_namespace.nspname NOT IN ('pg_catalog', 'information_schema')
    AND NOT starts_with(pg_namespace.nspname, 'pg_t')
    AND has_schema_privilege(:role, pg_namespace.oid, 'USAGE')
    AND CASE
        WHEN pg_namespace.nspname = :schema
            THEN pg_class.relkind <> 'S'
                AND has_table_privilege(:role, pg_class.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
        WHEN pg_class.relkind = 'S' THEN has_sequence_privilege(:role, pg_class.oid, 'USAGE, UPDATE')
        ELSE has_table_privilege(:role, pg_class.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
    END
"""
"""Query for the number of relations that a reader of `schema` can read in other schemas, or write to anywhere."""


def _find_role_changes(context: Context, audience: Audience, role: str) -> str:
    """Return how a reader differs from the role that `db roles` makes; empty if it does not."""
    listed = rows_of(
        context,
        "SELECT unnest(setconfig) FROM pg_db_role_setting WHERE setrole = to_regrole(quote_ident(:role))::oid",
        role=role,
    )
    settings = dict(setting.split("=", 1) for (setting,) in listed)
    phrases = compare_settings(reader_settings(schema(audience)), settings)
    limit = value_of(context, "SELECT rolconnlimit FROM pg_roles WHERE rolname = :role", role=role)
    if limit != CONNECTIONS:
        phrases.append(f"its connection limit is {limit} instead of {CONNECTIONS}")
    groups = rows_of(
        context,
        "SELECT roleid::regrole::text FROM pg_auth_members WHERE member = to_regrole(quote_ident(:role)) ORDER BY 1",
        role=role,
    )
    if groups:
        phrases.append(f"it is a member of {', '.join(group for (group,) in groups)}")
    return f"{role}: {'; '.join(phrases)}" if phrases else ""


def sqlite_file(context: Context) -> Outcome:
    """Check permissions, journal mode and file system of the database file."""
    path = file_of(context)
    mode = stat.S_IMODE(path.stat().st_mode)
    journal = value_of(context, "PRAGMA journal_mode")
    kind = file_system(path)
    if kind in NETWORK:
        return problem(
            f"{path} is on a network file system ({kind}), where SQLite's locks are unreliable",
            f"move it to a local disk, or the registry to PostgreSQL: {propose('db move', '--to', 'URL')}",
        )
    if journal != "wal":
        return problem(
            f"journal mode {journal}, not wal", f"stop what uses it, then: sqlite3 {path} 'PRAGMA journal_mode=WAL'"
        )
    if mode & stat.S_IWOTH:
        return problem(f"{path} can be written by everyone (mode {mode:o})", f"chmod 600 {path}")
    if mode & stat.S_IROTH and value_of(context, "SELECT count(*) FROM account"):
        return warning(
            f"{path} can be read by everyone (mode {mode:o}), with password hashes and hidden benchmarks",
            f"chmod 600 {path}",
        )
    return ok(f"mode {mode:o}, journal {journal}, {kind or 'local disk'}")


def file_system(path: Path) -> str:
    """Return the type of the file system of a path; empty if unknown."""
    best, kind = Path(), ""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    resolved = path.resolve()
    for line in mounts:
        _, place, mounted_type, *_ = line.split(" ")
        mounted = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), place))
        if resolved.is_relative_to(mounted) and len(mounted.parts) >= len(best.parts):
            best, kind = mounted, mounted_type
    return kind


def database_space(context: Context) -> Outcome:
    """Check the database's size, and the free space on its disk if it is known."""
    if context.engine.dialect.name == "sqlite":
        path = file_of(context)
        return disk_space(context, path.parent, f"{path.stat().st_size / GIB:.2f} GiB")
    size = f"{value_of(context, 'SELECT pg_database_size(current_database())') / GIB:.2f} GiB"
    folder = value_of(context, "SELECT setting FROM pg_settings WHERE name = 'data_directory'")
    host = context.engine.url.host or ""
    is_here = host in ("", "localhost", "127.0.0.1", "::1") or host.startswith("/")
    if not is_here or folder is None or not Path(folder).exists():
        return ok(f"{size}; its disk cannot be checked from here")
    return disk_space(context, Path(folder), size)


def disk_space(context: Context, folder: Path, contents: str) -> Outcome:
    """Check the free space on the disk of a folder."""
    free = disk_usage(folder).free
    state = f"{contents}; {free / GIB:.1f} GiB are free on the disk of {folder}"
    least = context.limits.free_bytes
    remedy = "free space or move it to a larger disk: work stops while nothing can be written"
    if free < least:
        return problem(state, remedy)
    return warning(state, remedy) if free < 5 * least else ok(state)


def connections(context: Context) -> Outcome:
    """Check the server's connections in use, and the most that its processes may use."""
    used, most = rows_of(
        context, "SELECT (SELECT count(*) FROM pg_stat_activity), current_setting('max_connections')::integer"
    )[0]
    state = f"{used} of {most} connections"
    remedy = "raise max_connections, or use a connection pooler"
    if used > context.limits.connections * most:
        return warning(state, remedy)
    if is_pooled(context.engine):
        return ok(f"{state}, through a pooler")
    with read_session(context.engine) as session:
        live = live_workers(session)
    needed = OF_A_WORKER * live + OF_A_WEBSITE + OF_OTHERS
    if needed > most:
        return warning(f"{state}; {live} live workers, a website and its readers may need {needed}", remedy)
    return ok(state)


def statistics(context: Context) -> Outcome:
    """Check that the planner's statistics of large tables are recent."""
    query = (
        "SELECT relname, n_mod_since_analyze, coalesce(greatest(last_analyze, last_autoanalyze)::date::text, 'never') "
        "FROM pg_stat_user_tables WHERE n_mod_since_analyze > :rows AND n_mod_since_analyze > 0.2 * n_live_tup "
        "ORDER BY n_mod_since_analyze DESC"
    )
    stale = rows_of(context, query, rows=context.limits.stale_rows)
    if value_of(context, "SELECT current_setting('autovacuum')") != "on":
        return warning("autovacuum is off", "enable autovacuum: without it tables grow and statistics become outdated")
    if stale:
        listed = ", ".join(f"{name} ({changed} rows since {last})" for name, changed, last in stale)
        return warning(
            f"outdated statistics: {listed}", f"as the owner: ANALYZE {', '.join(name for name, _, _ in stale)}"
        )
    return ok("autovacuum is on, all statistics are up to date")

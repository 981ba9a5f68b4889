"""`shuffleboard db`."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from sqlalchemy import Engine, make_url

from registry.db import get_engine, utc_text, write_session
from registry.errors import DatabaseError, UsageError
from registry.files.toml import read_definition
from registry.names import plural
from registry.operations.opening import engine_of
from registry.proposals import propose
from registry.schema import catalogue
from registry.schema.history import current, head, not_todays, require_current, upgrade_time
from shuffleboard.cli.backups import backup_command, move_command, restore_command
from shuffleboard.cli.common import (
    GivenFile,
    json_option,
    note,
    print_document,
    print_json,
    settings_of,
    tell,
    wants_json,
)
from shuffleboard.cli.groups import Group


@click.group(cls=Group)
def db() -> None:
    """Create, upgrade and check the database."""


@db.command("upgrade")
@json_option
def upgrade_command() -> None:
    """Bring the database to the newest schema, and update the suites and published results that ship with it."""
    from registry.operations.migrate import upgrade

    revision = upgrade(settings_of().resolve_database_url())
    tell({"revision": revision}, f"database is at revision {revision}")


@db.command("current")
@json_option
def current_command() -> None:
    """Show the schema's revision, the newest one, and the migrations and views that `db upgrade` would make."""
    engine = get_engine(settings_of().resolve_database_url())
    state = _state(engine)
    if not print_document(state):
        click.echo(f"{state['revision'] or 'empty'} (newest: {head()})")
        _say_what_waits(state)


@db.command("check")
@json_option
def check_command() -> None:
    """Compare the database with this code; print every difference with its remedy, and exit with status 1 if any."""
    engine = get_engine(settings_of().resolve_database_url())
    state = _state(engine)
    differences = catalogue.differences_of(engine)
    state["differences"] = [{**asdict(each), "remedy": each.remedy} for each in differences]
    is_current = state["revision"] == head() and not state["views"] and not differences
    if wants_json():
        print_json({"ok": is_current} | state)
    elif is_current:
        click.echo("ok")
    else:
        _say_what_waits(state)
        for each in differences:
            click.echo(f"  {each}\n    {each.remedy}")
    require_current(engine)
    if differences:
        raise DatabaseError(f"{plural(len(differences), 'difference')} between the database and this code")


def _state(engine: Engine) -> dict[str, Any]:
    at, waiting = current(engine), []
    if at != head():
        from registry.operations.migrate import pending  # and it imports Alembic

        waiting = [{"revision": revision, "title": title} for revision, title in pending(at)]
    time = upgrade_time(engine) if waiting and at is not None else None
    return {"revision": at, "head": head(), "pending": waiting, "views": not_todays(engine), "time": time}


def _say_what_waits(state: dict[str, Any]) -> None:
    for migration in state["pending"]:
        click.echo(f"  to run: {migration['revision']}  {migration['title']}")
    if state["time"]:
        click.echo(f"  db upgrade {state['time']}")
    for name in state["views"]:
        click.echo(f"  to make again: {name}")


@db.command("generation")
@click.option("--new", is_flag=True, help="Draw a new one: every running worker stops, and its claims are void.")
@json_option
def generation_command(new: bool) -> None:
    """Show the registry's generation, which every worker's claim carries, and why it was drawn.

    A new one is drawn when the database is created, restored, moved, copied or promoted from a replica, so nothing that
    a worker claimed before is stored afterwards. If you put an earlier state back in a way that leaves no trace, such
    as a snapshot of the server's disk, draw one yourself before anything else uses the database.
    """
    from registry.queue import generation

    with write_session(engine_of(settings_of())) as session:
        generation.draw(session, generation.ASKED) if new else generation.current(session)
        row = generation.read_generation(session)
    assert row is not None
    tell(
        {"generation": row.generation, "reason": row.reason, "drawn_at": row.drawn_at},
        f"{row.generation}, drawn at {utc_text(row.drawn_at)[:19]}Z: {row.reason}",
    )


db.add_command(backup_command)
db.add_command(restore_command)
db.add_command(move_command)


@db.command("describe")
def describe_command() -> None:
    """Print the meaning of the documented views and columns, as metadata for Datasette.

    Give the output to Datasette with --metadata, and its pages show it next to the data. The database must be called
    shuffleboard.db.
    """
    from registry.schema.documented import datasette_metadata

    print_json(datasette_metadata("shuffleboard"))


@db.command("roles")
@click.option("--prefix", default="shuffleboard", show_default=True, help="Prefix of the roles' names.")
@click.option("--sql", "only_print", is_flag=True, help="Print the statements for a superuser; change nothing.")
@click.option(
    "--passwords",
    type=GivenFile(dir_okay=False, exists=True, allow_dash=True),
    help="File with a line `ROLE=PASSWORD` for each role that gets a new password; - reads standard input.",
)
@click.option("--prompt", is_flag=True, help="Ask for a password for each role.")
@json_option
def roles_command(prefix: str, only_print: bool, passwords: Path | None, prompt: bool) -> None:
    """Create or refresh the roles on PostgreSQL: owner, application, and readers for people with their own login.

    Run it as a superuser, with SHUFFLEBOARD_DATABASE_URL set to that login, after `db upgrade`. It may be run again at
    any time. Roles without a new password keep their old one; a role that never had one cannot log in with a password.
    """
    from registry.schema.roles import RoleNames, apply_roles, script

    settings = settings_of()
    names = RoleNames(prefix)
    url = make_url(settings.resolve_database_url())
    if url.get_backend_name() != "postgresql" or url.database is None:
        raise UsageError("only PostgreSQL has roles; set SHUFFLEBOARD_DATABASE_URL to a PostgreSQL database")
    if only_print:
        click.echo("".join(f"{statement};\n" for statement in script(names, url.database)), nl=False)
        return
    role_passwords = _passwords(passwords)
    if prompt:
        role_passwords |= {
            role: click.prompt(f"Password of {role}", hide_input=True, confirmation_prompt=True, err=True)
            for role in names.all
            if role not in role_passwords
        }
    engine = get_engine(settings.resolve_database_url())
    require_current(engine)
    superuser = apply_roles(engine, names, role_passwords)
    place = f"PASSWORD@{url.host or 'localhost'}{f':{url.port}' if url.port else ''}/{url.database}"
    values = {"SHUFFLEBOARD_DATABASE_URL": f"postgresql://{names.app}:{place}"}
    logins = {
        "public": f"postgresql://{names.reader}:{place}",
        "members": f"postgresql://{names.member_reader}:{place}",
    }
    upgrade_url = f"postgresql://{names.owner}:{place}"
    if not superuser:
        note("Not a superuser: readers have no limit on temporary files, and no function was revoked from them.")
    document: dict[str, Any] = {
        "roles": list(names.all),
        "superuser": superuser,
        "settings": values,
        "reader_database_urls": logins,
        "upgrade_database_url": upgrade_url,
    }
    if print_document(document):
        return
    click.echo("Settings of website and workers:")
    for name, value in values.items():
        click.echo(f"  {name}={value}")
    click.echo("For people with a login of their own, by what they may see:")
    for audience, value in logins.items():
        click.echo(f"  {audience}: {value}")
    click.echo(f"For `{propose('db upgrade')}` alone:\n  SHUFFLEBOARD_DATABASE_URL={upgrade_url}")


def _passwords(file: Path | None) -> dict[str, str]:
    """Map role → password, from lines `ROLE=PASSWORD`; empty lines are skipped. Messages do not repeat a password."""
    by_role = {}
    text = "" if file is None else sys.stdin.read() if str(file) == "-" else read_definition(file)
    for number, line in enumerate(text.split("\n"), start=1):
        role, sign, password = line.rstrip("\r").partition("=")
        if not line.strip():
            continue
        if not sign or not password:
            raise UsageError(f"passwords, line {number}: no ROLE=PASSWORD; correct the line")
        by_role[role.strip()] = password
    return by_role


@db.command("size")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most this many evaluations."
)
@json_option
def size_command(limit: int) -> None:
    """Show disk usage: bytes by table, and by evaluation in the database and in archives.

    An evaluation's bytes in the database are its share of the tables of predictions and texts, by its prompts.
    """
    from registry.operations.sizes import sizes

    usage = sizes(engine_of(settings_of()), limit)
    if print_document(asdict(usage)):
        return
    click.echo(f"database: {_size(usage.database)}")
    for table in usage.tables:
        if table.total:
            click.echo(f"  {table.table:24} {_size(table.rows):>12} and {_size(table.indexes):>12} of indexes")
    if usage.tables and usage.tables[0].indexes is None:
        note("estimated: this SQLite was built without dbstat, which counts bytes by table")
    for row in usage.evaluations:
        place = f"{_size(row.archived)} archived" if row.archived else _size(row.hot)
        click.echo(f"evaluation {row.evaluation_id}: {place}, {row.prompts} prompts, {row.model} on {row.benchmark}")


def _size(number: int | None) -> str:
    return "–" if number is None else f"{number / 2**20:,.2f} MiB"


@db.command("prune")
@click.option("--older-than", "days", type=int, required=True, metavar="DAYS", help="Days since the last activity.")
@click.option("--dry-run", is_flag=True, help="List answers that would be removed; remove nothing.")
@json_option
def prune_command(days: int, dry_run: bool) -> None:
    """Remove the answers of evaluations abandoned long ago; never anything of a sealed one.

    For cancelled evaluations all answers, for failed ones the generated answers with their texts; and workers that
    have been silent as long and scored nothing that is stored. A retry scores removed prompts again.
    """
    from registry.operations.retention import prune

    pruned = prune(engine_of(settings_of()), days, dry_run=dry_run)
    if print_document({"dry_run": dry_run, **asdict(pruned)}):
        return
    for row in pruned.evaluations:
        click.echo(
            f"evaluation {row.evaluation_id} ({row.state}, last worked on {utc_text(row.last_activity)[:10]}): "
            f"{plural(row.predictions, 'answer')}, {plural(row.texts, 'text')}"
        )
    verb = "would be removed" if dry_run else "removed"
    answers = sum(each.predictions for each in pruned.evaluations)
    described = plural(len(pruned.evaluations), "evaluation")
    click.echo(f"{verb}: {plural(answers, 'answer')} of {described}, {plural(pruned.workers, 'worker')}")

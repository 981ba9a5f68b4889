"""`shuffleboard db`."""

import click

from registry.cli.common import json_option, print_json, settings_of
from registry.db import get_engine
from registry.migrate import current, head, require_current, upgrade


@click.group()
def db() -> None:
    """Create, upgrade and check the database."""


@db.command("upgrade")
@json_option
def upgrade_command(as_json: bool) -> None:
    """Bring the database to the newest schema, and what ships with it (suites, printed results) up to date."""
    revision = upgrade(settings_of().resolved_database_url())
    print_json({"revision": revision}) if as_json else click.echo(f"database is at revision {revision}")


@db.command("current")
@json_option
def current_command(as_json: bool) -> None:
    """Show the schema's revision and the newest one."""
    at = current(get_engine(settings_of().resolved_database_url()))
    if as_json:
        print_json({"revision": at, "head": head()})
    else:
        click.echo(f"{at or 'empty'} (newest: {head()})")


@db.command("check")
@json_option
def check_command(as_json: bool) -> None:
    """End with status 1 unless the database answers and is at the newest schema."""
    require_current(get_engine(settings_of().resolved_database_url()))
    print_json({"ok": True, "revision": head()}) if as_json else click.echo("ok")

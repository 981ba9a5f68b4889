"""`shuffleboard db backup`, `restore` and `move`."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from registry.db import get_engine, read_session
from registry.errors import UsageError
from registry.names import plural
from registry.queue.claims import live_workers
from registry.schema.history import head
from shuffleboard.cli.common import GivenFile, json_option, note, print_document, settings_of, wants_json
from shuffleboard.cli.files import require_kind
from shuffleboard.cli.groups import Where


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def backup_command(file: Path) -> None:
    """Write the whole database into one new file; workers and website keep running.

    SQLite: a database file, copied by SQLite itself. PostgreSQL: pg_dump's custom format, by the client programs that
    are installed here, which must not be older than the server. The folders of sealed evaluations are copied to
    FILE.folders; status 1 if a folder is missing or differs from the database. Both contain secrets, and only their
    owner may read them.
    """
    from registry.operations.backup import FOLDERS, backup

    written = backup(settings_of().resolve_direct_url(), file)
    document = {
        "file": str(written.path),
        "bytes": written.size,
        "engine": written.engine,
        "revision": written.revision,
        "folders": written.folders,
        "ok": not written.problems,
        "problems": written.problems,
    }
    if not print_document(document):
        click.echo(f"{written.path}: {written.size} bytes, schema {written.revision}")
        if written.folders:
            click.echo(f"{written.path}{FOLDERS}: {plural(written.folders, 'folder')} of sealed evaluations")
    _say_problems(written.problems)


@click.command("restore")
@click.argument("file", type=GivenFile(dir_okay=False))
@json_option
def restore_command(file: Path) -> None:
    """Restore a backup into an empty database and verify every seal; status 1 when anything differs.

    A backup of an older schema is upgraded. Folders of sealed evaluations that are missing or changed here are
    taken from FILE.folders. On PostgreSQL run `db roles` afterwards: rights are not part of a backup.
    """
    from registry.operations.backup import restore

    require_kind(file, "db restore")
    restored = restore(settings_of().resolve_direct_url(), file)
    document = {
        "revision": restored.revision,
        "from_revision": restored.from_revision,
        "verified": restored.sealed,
        "ok": not restored.problems,
        "problems": restored.problems,
    }
    if not print_document(document):
        upgraded = "" if restored.from_revision == restored.revision else f", upgraded from {restored.from_revision}"
        click.echo(f"restored at schema {restored.revision}{upgraded}")
    _say_verified(restored.sealed, restored.problems, quiet=wants_json())


@click.command("move")
@click.option(
    "--to",
    "--out",
    "target",
    cls=Where,
    required=True,
    metavar="URL",
    help="The database to fill: sqlite:/// or postgresql://.",
)
@json_option
def move_command(target: str) -> None:
    """Copy everything into an empty database of either engine, and verify every seal there.

    All or nothing, from one snapshot; ids are kept. Anything stored meanwhile is not moved, so stop workers and website
    first. The source stays unchanged, and so does SHUFFLEBOARD_DATABASE_URL: point it to the new database yourself. A
    password need not be in the URL: PGPASSWORD and ~/.pgpass are read. Status 1 if something fails to verify, even if
    it already failed before.
    """
    from registry.operations.moving import move
    from registry.settings import Settings

    source = settings_of().resolve_database_url()
    if not target.startswith(("sqlite:///", "postgresql://", "postgres://", "postgresql+psycopg://")):
        raise UsageError("--to is not a sqlite:/// or postgresql:// URL; give that of the database to fill")
    with read_session(get_engine(source)) as session:
        alive = live_workers(session)
    if alive:
        note(f"{plural(alive, 'worker')} alive; later results are not moved: stop all workers, then move again")
    moved = move(source, Settings(database_url=target).resolve_database_url(), note)
    document = {
        "revision": head(),
        "rows": sum(moved.rows.values()),
        "tables": moved.rows,
        "verified": moved.sealed,
        "ok": not moved.problems,
        "problems": moved.problems,
    }
    if not print_document(document):
        rows = plural(sum(moved.rows.values()), "row")
        click.echo(f"{rows} moved; from now on set SHUFFLEBOARD_DATABASE_URL to that database")
    _say_verified(moved.sealed, moved.problems, quiet=wants_json())


def _say_verified(sealed: int, problems: Sequence[str], *, quiet: bool) -> None:
    _say_problems(problems)
    if not quiet:
        click.echo(f"verified: {sealed} sealed evaluations, every snapshot, and the chain")


def _say_problems(problems: Sequence[str]) -> None:
    """Print the problems on stderr, and exit with status 1 if there are any."""
    for problem in problems:
        note(problem)
    if problems:
        sys.exit(1)

"""What all commands share: settings, database, output and logging."""

import csv
import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import click
from sqlalchemy import Engine, make_url

from registry.db import get_engine, utc_text
from registry.errors import UnreachableError, UsageError
from registry.logs import log, log_to_stderr
from registry.schema.history import current, require_current
from registry.settings import Settings, get_settings

FIRST_PAUSE_SECONDS: Final = 0.5
LAST_PAUSE_SECONDS: Final = 8.0

json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout, everything else on stderr."
)


def settings_of() -> Settings:
    """This process's settings; from here on, logs go to stderr."""
    settings = get_settings()
    logging_to_stderr(settings)
    return settings


def engine_of(settings: Settings) -> Engine:
    """The engine on a database of this code's revision. An empty SQLite file is set up first."""
    url = settings.resolved_database_url()
    engine = get_engine(url)
    if engine.dialect.name == "sqlite" and current(engine) is None:
        from registry.operations.migrate import upgrade

        upgrade(url)
    require_current(engine)
    return engine


def engine_when_reachable(settings: Settings) -> Engine:
    """The same for a service, which may be started while PostgreSQL still starts: waits for it, with growing pauses.

    Raises UnreachableError when it does not answer within SHUFFLEBOARD_DATABASE_WAIT_SECONDS. SQLite is not waited for:
    a file that cannot be opened stays so.
    """
    until = None
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return engine_of(settings)
        except UnreachableError as error:
            now = time.monotonic()
            until = until or now + settings.database_wait_seconds
            if now >= until or make_url(settings.resolved_database_url()).get_backend_name() == "sqlite":
                raise
            log.warning("database_awaited", error=str(error), seconds_left=round(until - now))
        time.sleep(min(pause, until - now))
        pause = min(2 * pause, LAST_PAUSE_SECONDS)


def logging_to_stderr(settings: Settings) -> None:
    """Logs go to stderr, from the settings' level on."""
    level = logging.getLevelNamesMapping().get(settings.log_level.upper())
    if level is None:
        raise UsageError(f"SHUFFLEBOARD_LOG_LEVEL={settings.log_level!r}: use debug, info, warning or error")
    log_to_stderr(level)


def note(message: str) -> None:
    """Progress and remarks: stderr."""
    click.echo(message, err=True)


def print_json(document: Any) -> None:
    """The one JSON document of a command: stdout."""
    click.echo(json.dumps(document, ensure_ascii=False, allow_nan=False, default=_plain, indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return utc_text(value)
    message = f"{type(value).__name__} is not JSON"
    raise TypeError(message)


def print_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Rows as CSV on stdout; NULL is an empty cell. Cells that a spreadsheet would run as a formula are quoted."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[column]) for column in columns])


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return utc_text(value) if isinstance(value, datetime) else value


def print_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], empty: str) -> None:
    """Rows as a table on stdout. columns: key to heading; fractions show three decimals, NULL a dash."""
    if not rows:
        note(empty)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for key, heading in columns.items():
        numeric = all(isinstance(row[key], (int, float, type(None))) for row in rows)
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=key in ("model", "benchmark"))
    for row in rows:
        table.add_row(*(Text(show(row[key])) for key in columns))
    # A pipe has no width: wide enough that nothing is cut.
    width = None if sys.stdout.isatty() else 240
    Console(width=width, highlight=False, soft_wrap=False).print(table)


def show(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M} UTC"
    return str(value)

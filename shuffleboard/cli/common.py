"""What all commands share: settings, database, output and logging."""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import click
from sqlalchemy import Engine, make_url

from registry.db import get_engine, utc_text
from registry.errors import UnreachableError, UsageError
from registry.exchange.tabular import csv_text
from registry.files.attended import tell_to
from registry.logs import log, log_to_stderr
from registry.schema.history import current, require_current
from registry.settings import Settings, get_settings

FIRST_PAUSE_SECONDS: Final = 0.5
LAST_PAUSE_SECONDS: Final = 8.0

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout, everything else on stderr."
)


def budget_option(summary: str) -> Callable[[F], F]:
    """`--budget AMOUNT`, in the price list's currency."""
    kind = click.FloatRange(min=0)
    return click.option("--budget", type=kind, default=None, metavar="AMOUNT", help=summary)


def settings_of() -> Settings:
    """This process's settings; from here on, logs go to stderr, and so does what the hub keeps waiting for."""
    settings = get_settings()
    logging_to_stderr(settings)
    tell_to(note)
    return settings


def engine_of(settings: Settings, *, create: bool = True) -> Engine:
    """The engine on a database of this code's revision. create: set up an empty SQLite file first."""
    url = settings.resolved_database_url()
    engine = get_engine(url)
    if create and engine.dialect.name == "sqlite" and current(engine) is None:
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


def print_json_list(name: str, items: Iterable[Any]) -> None:
    """A document of one list, printed item by item, for lists longer than memory: stdout."""
    click.echo(f'{{\n  "{name}": [', nl=False)
    separator = "\n"
    for item in items:
        click.echo(f"{separator}    {json.dumps(item, ensure_ascii=False, allow_nan=False)}", nl=False)
        separator = ",\n"
    click.echo("\n  ]\n}")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return utc_text(value)
    message = f"{type(value).__name__} is not JSON"
    raise TypeError(message)


def print_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Rows as CSV on stdout; NULL is an empty cell. Cells that a spreadsheet would run as a formula are quoted."""
    sys.stdout.write(csv_text(rows, columns))


def note_not_ranked(items: Sequence[tuple[str, Mapping[str, str]]]) -> None:
    """Which models have no rank: a line on stderr for each reason, with the command that the first of them needs.

    items: model, and its `reason` and `command`.
    """
    found: dict[str, tuple[dict[str, None], str]] = {}
    for model, why in items:
        found.setdefault(why["reason"], ({}, why["command"]))[0].setdefault(model)
    for reason, (models, command) in found.items():
        note(f"Not ranked: {', '.join(models)}. {reason}.")
        if command:
            note(f"  To add what is missing{f' for {next(iter(models))}' if len(models) > 1 else ''}: {command}")

"""What all commands share: settings, database, output and logging."""

import csv
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click
from sqlalchemy import Engine

from registry.db import get_engine, utc_text
from registry.errors import UsageError
from registry.logs import log_to_stderr
from registry.schema.history import current, require_current
from registry.settings import Settings, get_settings

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

"""Code that all commands share: settings, database, output and logging."""

import json
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from registry.db import utc_text
from registry.errors import UsageError
from registry.exchange.tabular import csv_text
from registry.files.absent import refuse_pipe
from registry.files.attended import tell_to
from registry.process_log import log_to_stderr
from registry.settings import Settings, get_settings

F = TypeVar("F", bound=Callable[..., Any])


class GivenFile(click.Path[Path]):
    """Parameter type for a file or folder to read; `-` is standard input if `allow_dash` is set."""

    def __init__(self, **more: Any) -> None:
        super().__init__(path_type=Path, **more)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path. Raises IngestError for a pipe, a device or a socket, before anything opens it."""
        path = super().convert(value, param, ctx)
        if not (self.allow_dash and str(path) == "-"):
            refuse_pipe(path)
        return path


def _keep(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[f"{__name__}.{parameter.name}"] = value


json_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_keep,
    help="One JSON document on stdout, everything else on stderr.",
)


def wants_json() -> bool:
    """Return whether the running command was called with `--json`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(f"{__name__}.json"))


def print_document(document: Any) -> bool:
    """Print the document and return True if the command was called with `--json`; then print nothing else on stdout."""
    if wants_json():
        print_json(document)
    return wants_json()


def tell(document: Any, sentence: str) -> None:
    """Print a command's result on stdout: with `--json` the document, else the sentence."""
    if not print_document(document):
        click.echo(sentence)


def budget_option(summary: str) -> Callable[[F], F]:
    """Add `--budget AMOUNT`, in the price list's currency."""
    kind = click.FloatRange(min=0)
    return click.option("--budget", type=kind, default=None, metavar="AMOUNT", help=summary)


def settings_of() -> Settings:
    """Return this process's settings; from then on, logs and notes about waits for the hub go to stderr."""
    settings = get_settings()
    logging_to_stderr(settings)
    tell_to(note)
    return settings


def logging_to_stderr(settings: Settings) -> None:
    """Send logs at or above the settings' level to stderr."""
    level = logging.getLevelNamesMapping().get(settings.log_level.upper())
    if level is None:
        raise UsageError(f"SHUFFLEBOARD_LOG_LEVEL={settings.log_level!r}: use debug, info, warning or error")
    log_to_stderr(level)


def note(message: str) -> None:
    """Print progress and remarks on stderr."""
    click.echo(message, err=True)


def print_json(document: Any) -> None:
    """Print the single JSON document of a command on stdout."""
    click.echo(json.dumps(document, ensure_ascii=False, allow_nan=False, default=_plain, indent=2))


def print_json_list(name: str, items: Iterable[Any]) -> None:
    """Print a document with one list on stdout, item by item, for lists that do not fit into memory."""
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
    """Print rows as CSV on stdout; NULL is an empty cell. Cells that a spreadsheet would run as formulas are quoted."""
    sys.stdout.write(csv_text(rows, columns))


def note_not_ranked(items: Sequence[tuple[str, Mapping[str, str]]]) -> None:
    """Print the models without a rank: a line on stderr for each reason, with the command for the first model.

    items: model, and its `reason` and `command`.
    """
    by_reason: dict[str, tuple[dict[str, None], str]] = {}
    for model, why in items:
        by_reason.setdefault(why["reason"], ({}, why["command"]))[0].setdefault(model)
    for reason, (models, command) in by_reason.items():
        note(f"Not ranked: {', '.join(models)}. {reason}.")
        if command:
            note(f"  To add what is missing{f' for {next(iter(models))}' if len(models) > 1 else ''}: {command}")

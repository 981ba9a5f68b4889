"""Groups of commands: complete summaries in their help, and commands that are imported when they are called."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from shuffleboard.cli.examples import with_examples


class Group(click.Group):
    """A group whose help shows complete summaries.

    lazily: command → `module:attribute`, for commands whose module this group does not import.
    """

    group_class = type

    def __init__(self, *arguments: Any, lazily: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lazily = dict(lazily or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in alphabetical order."""
        return sorted({*super().list_commands(ctx), *self._lazily})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, importing it on first use."""
        if cmd_name in self._lazily:
            module, _, attribute = self._lazily.pop(cmd_name).partition(":")
            command: click.Command = getattr(import_module(module), attribute)
            self.add_command(with_examples(command, f"{self.name} {cmd_name}"), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with its complete summary."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, summary(command)) for name, command in commands if command is not None and not command.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def summary(command: click.Command) -> str:
    """Return the first sentence of a command's help, not cut off."""
    return command.get_short_help_str(limit=1000)


class Where(click.Option):
    """The option `--to`, which may also be given as `--out`; help shows only the first name."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return click's record without the second name."""
        every = self.opts
        self.opts = every[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = every

"""Errors for wrong command lines: the thing, its value and the remedy first, then how to get help."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from click.exceptions import MissingParameter, NoArgsIsHelpError, NoSuchCommand, NoSuchOption

from registry.errors import ShuffleboardError
from registry.files.absent import no_such_file
from registry.names import CLOSE, list_first, suggestion
from registry.proposals import PROGRAM, propose
from registry.settings import get_settings
from shuffleboard.cli import HIDDEN
from shuffleboard.cli.address import page_address
from shuffleboard.cli.files import TAKEN, recognise, require_kind

_NUMBERS: Final = (type(click.INT), type(click.FLOAT))
_BEGINNING: Final = 3
"""Fewest letters of a name's beginning for which the name is suggested."""
_MOST: Final = 3
"""Most commands that a message suggests."""
_FEW: Final = 8
"""Most commands of a group that a message lists."""
_PAGES: Final = ("sql", "query")
MEANT: Final = {
    "evaluate": "evaluations submit",
    "help": "--help",
    "ranking": "leaderboard",
    "rankings": "leaderboard",
    "results": "leaderboard",
    "run": "evaluations submit",
    "score": "evaluations submit",
    "start": "serve",
    "status": "doctor",
    "users": "accounts",
    "web": "serve",
}
"""Words of other programs for commands of this one."""


def show(error: click.ClickException) -> None:
    """Print an error on stderr, and below it how to get the command's help."""
    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return
    click.echo(f"Error: {error.format_message()}", err=True)
    context = error.ctx if isinstance(error, click.UsageError) else None
    option = None if context is None else context.command.get_help_option(context)
    if context is not None and option is not None:
        click.echo(f"Try '{context.command_path} {option.opts[-1]}' for help.", err=True)


def explain_misuse(error: click.ClickException, top: click.Group) -> click.ClickException | ShuffleboardError:
    """Return the error with a suggested name or value, or another error that matters more.

    top: the group of all commands.
    """
    if isinstance(error, NoSuchOption):
        return _unknown_option(error)
    if isinstance(error, NoSuchCommand):
        return _unknown_command(error, top)
    if isinstance(error, MissingParameter):
        return _missing(error)
    if isinstance(error, click.BadParameter):
        return _bad_value(error)
    extra = re.match(r"Got unexpected extra arguments? \((.*)\)", error.message, re.DOTALL)
    if extra and isinstance(error, click.UsageError) and error.ctx is not None:
        return click.UsageError(f"unexpected {extra[1]!r}: {_describe_taken(error.ctx)}", error.ctx)
    return error


def _unknown_option(error: NoSuchOption) -> click.UsageError:
    """Return the error with similar options. A negative number in place of an argument looks like an option."""
    if error.ctx is None:
        return error
    if error.option_name[1:2].isdecimal():
        arguments = [param for param in error.ctx.command.params if isinstance(param, click.Argument)]
        number = next((param for param in arguments if isinstance(param.type, _NUMBERS)), None)
        return error if number is None else click.BadParameter("it cannot be below 0.", error.ctx, number)
    close = get_close_matches(error.option_name, error.possibilities or (), cutoff=CLOSE)
    group = error.ctx.command
    if not close and isinstance(group, click.Group) and error.option_name in _list_options(group):
        words = f"{error.ctx.command_path.partition(' ')[2]} COMMAND".strip()
        message = f"{error.option_name} comes after the command: {propose(words, error.option_name)}"
        return click.UsageError(message, error.ctx)
    return NoSuchOption(error.option_name, possibilities=close, ctx=error.ctx)


def _unknown_command(error: NoSuchCommand, top: click.Group) -> click.UsageError:
    """Return the error with similar commands: in the group, else with this beginning, else elsewhere."""
    context, typed = error.ctx, error.command_name
    if context is None or not isinstance(context.command, click.Group):
        return error
    is_top = context.command is top
    if is_top and typed in _PAGES:
        page = page_address(get_settings(), "/sql")
        return click.UsageError(f"No such command {typed!r}. SQL is a page of the website: {page}", context)
    names = context.command.list_commands(context)
    close = get_close_matches(typed, [*names, *HIDDEN] if is_top else names, cutoff=CLOSE)
    if not close and len(typed) >= _BEGINNING:
        close = [name for name in names if name.startswith(typed)][:_MOST]
    if not close and is_top:
        close = [MEANT[typed]] if typed in MEANT else _find_inner(typed, context.args, top)
    if len(close) > _MOST:  # a command of many groups
        return NoSuchCommand(typed, f"No such command {typed!r}. {_name_group(close, top)}", ctx=context)
    meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    if not close and not is_top:
        alone = get_close_matches(typed, top.list_commands(context), 1, CLOSE)
        meant = f" It is no part of a group: {propose(alone[0])}" if alone else ""
        if not alone and len(names) <= _FEW:
            meant = f" It is one of: {', '.join(names)}."
    return NoSuchCommand(typed, f"No such command {typed!r}.{meant}", ctx=context)


def _name_group(places: list[str], top: click.Group) -> str:
    """Return the request to name one of the groups before a command, with the first as an example."""
    groups = [place.rpartition(" ")[0] for place in places]
    command: click.Command | None = top
    for name in places[0].split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    shown = (param for param in command.params if param.required or isinstance(param.type, click.Path))
    arguments = (_placeholder(param) for param in shown if isinstance(param, click.Argument))
    options = (param for param in command.params if isinstance(param, click.Option) and param.required)
    example = propose(
        places[0], *arguments, *(word for param in options for word in (param.opts[0], _placeholder(param)))
    )
    return f"Name its group first, such as: {example}; others with it: {list_first(groups[1:])}."


def _find_inner(typed: str, rest: list[str], top: click.Group) -> list[str]:
    """Return the commands within groups that a word at the top may mean. rest: the words after it."""
    if typed == PROGRAM:
        return [" ".join(rest)] if rest else []
    inner = dict(_list_inner(top))
    alike = get_close_matches(typed, inner.values(), n=1, cutoff=CLOSE)
    places = [place for place, name in inner.items() if name in alike]
    groups = [place.rpartition(" ")[0] for place in places]
    if rest:
        path = Path(rest[0])
        file = recognise(path) if path.is_file() or path.is_dir() else None  # reading a pipe may never end
        group = "evaluations" if rest[0].isdigit() else file.command.partition(" ")[0] if file else rest[0]
        meant = get_close_matches(group, groups, n=1, cutoff=CLOSE)
        places = [place for place, inner_group in zip(places, groups, strict=True) if not meant or inner_group in meant]
    return places


def _list_inner(top: click.Group) -> Iterator[tuple[str, str]]:
    """Yield each command within a group, with the group's name and without it."""
    context = click.Context(top)
    for name in top.list_commands(context):
        group = top.get_command(context, name)
        if isinstance(group, click.Group):
            for inner in group.list_commands(context):
                yield f"{name} {inner}", inner


def _list_options(group: click.Group) -> set[str]:
    """Return the options of all commands within a group."""
    context, options = click.Context(group), set()
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            options |= _list_options(command)
        elif command is not None:
            options.update(option for param in command.params for option in param.opts)
    return options


def _missing(error: MissingParameter) -> click.ClickException | ShuffleboardError:
    """Return an error about a wrong file, if there is one; else about the missing parameter, with the full command."""
    if error.ctx is None or error.param is None:
        return error
    command = error.ctx.command_path.partition(" ")[2]
    for path in _list_files(error.ctx):
        try:
            if not path.exists():
                return no_such_file(path)
            if command in TAKEN:
                require_kind(path, command)
        except ShuffleboardError as wrong:
            return wrong
    name = error.param.opts[0] if isinstance(error.param, click.Option) else error.param.human_readable_name
    choices = error.param.type.choices if isinstance(error.param.type, click.Choice) else ()
    listed = f"; it is one of {', '.join(map(str, choices))}" if choices else ""
    listing = _find_list(error.param)
    numbers = f"; {propose(listing)} shows the numbers" if listing else ""
    full_command = propose(command, *_write_whole(error.ctx))
    return click.UsageError(f"{name} is missing; the whole command: {full_command}{listed}{numbers}", error.ctx)


def _list_files(context: click.Context) -> Iterator[Path]:
    """Yield the files among the given arguments."""
    for param in context.command.params:
        value = context.params.get(str(param.name))
        if isinstance(param, click.Argument) and isinstance(param.type, click.Path):
            yield from value if isinstance(value, tuple) else [value] if value else []


def _write_whole(context: click.Context) -> Iterator[object]:
    """Yield the words of a command: given arguments and options, and placeholders for missing ones."""
    for param in sorted(context.command.params, key=lambda param: isinstance(param, click.Option)):
        is_set = context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if not (is_set or param.required):
            continue
        value = context.params.get(str(param.name)) if is_set else None
        if isinstance(param, click.Option):
            if param.is_flag:
                yield param.opts[0]
                continue
            for word in value if isinstance(value, tuple) else [value]:
                yield param.opts[0]
                yield _placeholder(param) if word is None else word
        else:
            yield from value if isinstance(value, tuple) else [_placeholder(param) if value is None else value]


def _placeholder(param: click.Parameter) -> str:
    return str(param.name).strip("_").upper()


def _bad_value(error: click.BadParameter) -> click.BadParameter:
    """Return the error with a suggested value, the range, or how to find evaluations' numbers."""
    if error.param is None:
        return error
    kind, quoted, listing = error.param.type, re.match(r"'(.*?)' is not ", error.message), _find_list(error.param)
    if quoted and isinstance(kind, click.Choice):
        message = error.message.removesuffix(".") + suggestion(quoted[1], map(str, kind.choices)) + "."
    elif quoted and listing:
        message = f"{error.message} {propose(listing)} shows the numbers."
    elif quoted and isinstance(kind, click.IntRange | click.FloatRange):
        message = f"{error.message.removesuffix(' range.')} in the range {_describe_range(kind)}."
    else:
        return error
    return click.BadParameter(message, error.ctx, error.param, error.param_hint)


def _find_list(param: click.Parameter) -> str | None:
    """Return the command that lists the numbers which an argument takes; None for other parameters."""
    if not (isinstance(param, click.Argument) and param.type is click.INT):
        return None
    return "submissions list" if param.name == "submission_id" else "evaluations list"


def _describe_range(kind: Any) -> str:
    """Return the range of a number, such as `x>=1`."""
    described: str = kind._describe_range()  # noqa: SLF001 - click has no other way to say it
    return described


def _describe_taken(context: click.Context) -> str:
    """Return a description of the arguments and options that a command takes."""
    arguments = [param for param in context.command.params if isinstance(param, click.Argument)]
    options = [param.opts[0] for param in context.command.params if _takes_value(param)]
    examples = f", such as {_join(options[:3])}" if options else ""
    if not arguments:
        return f"this command takes options alone{examples}"
    names = " ".join(param.human_readable_name for param in arguments)
    return f"this command takes {names} and options{examples}; put a value with spaces in quotation marks"


def _takes_value(param: click.Parameter) -> bool:
    return isinstance(param, click.Option) and not param.is_flag and not param.hidden


def _join(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last

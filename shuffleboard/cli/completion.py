"""`shuffleboard completion`: the shell completes commands, options and their values."""

import os
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from registry.errors import UsageError
from registry.proposals import propose

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_SHUFFLEBOARD_COMPLETE"
"""Variable that the shell sets to request completions; click derives it from the program's name."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--install", is_flag=True, help="Set it up for every new shell, instead of printing the script.")
def completion(shell: str | None, install: bool) -> None:
    """Complete commands, options and values with the Tab key in bash, zsh or fish.

    SHELL is by default the shell in $SHELL. --install writes the script below the home directory and, for
    bash and zsh, adds a line to ~/.bashrc or ~/.zshrc that reads it; running it again changes nothing.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        raise UsageError(f"shell {shell!r}: name one of {', '.join(SHELLS)}, such as: {propose('completion', 'bash')}")
    from shuffleboard.cli import cli

    completer = get_completion_class(shell)
    assert completer is not None
    script = completer(cli, {}, "shuffleboard", VARIABLE).source()
    if not install:
        click.echo(script)
        return
    try:
        written = _install(shell, script)
    except OSError as error:
        raise UsageError(
            f"{error.filename}: cannot be written ({error.strerror}); save the script elsewhere: "
            f"{propose('completion', shell)} > FILE"
        ) from None
    click.echo(f"{written} written; open a new {shell} and press Tab after: shuffleboard")


def _install(shell: str, script: str) -> Path:
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    if shell == "fish":  # fish reads this folder by itself
        path = config / "fish" / "completions" / "shuffleboard.fish"
    else:
        path = config / "shuffleboard" / f"completion.{shell}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script, encoding="utf-8")
    if shell != "fish":
        _source(Path.home() / f".{shell}rc", f'[ -f "{path}" ] && . "{path}"  # shuffleboard completion\n')
    return path


def _source(startup: Path, line: str) -> None:
    """Append the line to a shell's start-up file unless it is already there."""
    present = startup.read_text(encoding="utf-8") if startup.exists() else ""
    if line not in present:
        with startup.open("a", encoding="utf-8") as stream:
            stream.write(("" if present.endswith("\n") or not present else "\n") + line)

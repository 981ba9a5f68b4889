"""Every command's help ends with an example that can be typed, and the shell completes it."""

import shlex
from pathlib import Path

import click
import pytest

from shuffleboard.cli import cli
from shuffleboard.cli.examples import EXAMPLES
from tests.commands import shuffleboard
from tests.docs.pages import generator

COMMANDS = {" ".join(words): command for words, command in generator().commands() if words}


def test_every_command_has_an_example_and_every_example_a_command() -> None:
    assert set(COMMANDS) == set(EXAMPLES)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_shows_an_example_of_the_command_that_parses(name: str) -> None:
    with click.Context(COMMANDS[name], info_name=name) as context:
        shown = COMMANDS[name].get_help(context)
    (line,) = [line.strip() for line in shown.split("Example:")[1].splitlines() if line.strip()]
    words = shlex.split(line.split(" && ")[0])
    assert line.startswith(f"shuffleboard {name}")
    command, words = cli, words[1:]
    with click.Context(cli) as outer:
        while isinstance(command, click.Group):
            _, found, words = command.resolve_command(outer, words)
            assert found is not None
            command = found
        command.make_context(name, words, parent=outer)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("lea", ["leaderboard"]), ("evaluations su", ["submit", "supersede"]), ("models add x --kind g", ["gguf"])],
)
def test_the_shell_completes_commands_and_values(
    monkeypatch: pytest.MonkeyPatch, typed: str, offered: list[str]
) -> None:
    monkeypatch.setenv("_SHUFFLEBOARD_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"shuffleboard {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split())))
    assert shuffleboard().stdout.splitlines() == [f"plain,{word}" for word in offered]


@pytest.mark.parametrize(("shell", "startup"), [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", None)])
def test_completion_is_installed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, startup: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if startup:
        (tmp_path / startup).write_text("alias ll='ls -l'")
    for _ in range(2):
        written = Path(shuffleboard("completion", "--install").stdout.split(" written")[0])
    assert "_SHUFFLEBOARD_COMPLETE" in written.read_text()
    assert shuffleboard("completion", shell).stdout.strip() == written.read_text().strip()
    if startup:
        first, second = (tmp_path / startup).read_text().splitlines()
        assert (first, str(written) in second) == ("alias ll='ls -l'", True)

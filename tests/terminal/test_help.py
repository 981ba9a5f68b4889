"""Every command's help, which ends with a valid example, and the shell's completion."""

import re
import shlex
from pathlib import Path

import click
import pytest

from shuffleboard.cli import HIDDEN, cli
from shuffleboard.cli.examples import EXAMPLES
from tests.support.commands import shuffleboard
from tests.support.surface import COMMANDS, GROUPS


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
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            _, subcommand, words = command.resolve_command(outer, words)
            assert subcommand is not None
            command = subcommand
        command.make_context(name, words, parent=outer)


@pytest.mark.parametrize("name", ["", *GROUPS])
def test_no_summary_is_cut_off_at_80_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = shuffleboard(*name.split(), "--help").stdout
    listed = shown.partition("Example:")[0].partition("Commands:" if name else "Start:")[2]
    assert "..." not in listed


@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_of_a_help_is_longer_than_80_columns(name: str) -> None:
    with click.Context(COMMANDS[name], info_name=name, terminal_width=80) as context:
        shown = COMMANDS[name].get_help(context)
    # Commands and the values of an option are not wrapped, so that they can be copied.
    assert not [line for line in shown.splitlines() if len(line) > 80 and not re.match(r" +(shuffleboard|-)", line)]


def test_the_top_has_four_groups_and_moved_names_still_answer() -> None:
    shown = shuffleboard("--help").stdout
    assert re.findall(r"^(\w+):$", shown, re.MULTILINE) == ["Options", "Start", "Results", "Publish", "Operate"]
    for old, place in HIDDEN.items():
        assert not re.search(rf"^  {old} ", shown, re.MULTILINE)
        old_help = shuffleboard(old, "--help").stdout.partition("\n")
        new_help = shuffleboard(*place.split(), "--help").stdout.partition("\n")
        assert old_help[2] == new_help[2]


@pytest.mark.parametrize("command", ["export", "evaluations export", "publish", "db move"])
def test_where_something_is_written_has_one_word_and_the_other_is_accepted(command: str) -> None:
    (option,) = [option for option in COMMANDS[command].params if "--to" in option.opts]
    assert option.opts == ["--to", "--out"]
    assert "--out" not in shuffleboard(*command.split(), "--help").stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("lea", ["leaderboard"]), ("evaluations su", ["submit", "supersede"]), ("models add x --kind gg", ["gguf"])],
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


PROMISED = """\
db upgrade | db current | db check
benchmarks import --name --version --split --fewshot --language --licence --source --shuffle-options --harness-task --include-path
benchmarks generate nonsenseqa --name --questions --seed | benchmarks list | benchmarks show | benchmarks fetch --revision
models add --kind --location --revision --dtype | models list | models show | models prefetch
evaluations submit --model --benchmark --variants --protocol --shots --limit --subject --suite --wait
evaluations submit --sample --seed | evaluations estimate --model --suite --precision
evaluations list | evaluations show --watch | evaluations pause | evaluations resume | evaluations cancel
evaluations retry
evaluations import --model --benchmark --variants --protocol --all-columns
metrics --per-question --without-flagged --json | provenance --json | verify --rescore --public
suites list | suites show | suites import | suites fetch | boards list | boards show | publish --to
leaderboard --board --benchmark --variants --json --csv | export --format --out | apply --dry-run | assess
protocols read --json | audit --json --html --fail-on | worker | serve | demo --recorded --exit"""
"""Commands and options on which other programs depend, wherever help shows them."""


@pytest.mark.parametrize("line", PROMISED.replace("\n", " | ").split(" | "))
def test_what_was_promised_to_other_programs_is_there(line: str) -> None:
    command: click.Command | None = cli
    words = line.split()
    for word in (word for word in words if not word.startswith("--")):
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None
    assert {word for word in words if word.startswith("--")} <= {
        name for parameter in command.params for name in parameter.opts
    }

"""Commands that messages propose, which `propose` writes, and which are valid and run."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from registry.proposals import PROGRAM, propose
from shuffleboard.cli import cli
from tests.outputs.conftest import Registry
from tests.support.commands import ROOT, shuffleboard
from tests.terminal.test_wrong_commands import WRONG

FOLDERS = ("registry", "shuffleboard", "web", "workers")
NAMED_ALONE = {"db move", "budgets set", "db roles", "demo", "serve", "worker"}
"""Commands that messages may name without their arguments, besides groups."""
FILLED = {"KIND": "gguf", "YYYY-MM-DD": "2026-01-01", "URL": "sqlite:///x.db", "visibility": "public", "shell": "bash"}
FILLED |= {"EVALUATION_ID": "1", "SECOND": "2", "FORMAT": "csv"}
FILLED |= {"','.join(lacking)": "cpu"}
"""Values for placeholders that do not permit every value, by the placeholder's text."""
NUMBERS = ("listed", "archived", "selection.archived")
"""Expressions for lists of evaluations' numbers."""
LASTING = ("worker", "serve", "demo", "db", "chain key")
"""Commands that run until they are stopped, or change more than a test may."""


def modules(text: str = "") -> Iterator[tuple[Path, ast.Module]]:
    """Yield the modules that contain a text, with their syntax trees."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if text in (source := path.read_text(encoding="utf-8")):
                yield path, ast.parse(source)


def proposals() -> Iterator[tuple[str, ast.Call]]:
    """Yield every call of `propose` with its place."""
    for path, tree in modules("propose("):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "propose":
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def written(node: ast.expr) -> str:
    """Return a word that a user would type for an expression."""
    text = str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)
    if text in FILLED:
        return FILLED[text]
    return text if text.startswith("--") or (isinstance(node, ast.Constant) and not text.isupper()) else "1"


def is_list_of_options(node: ast.expr) -> bool:
    """Return whether an expression represents several words that are not all numbers of evaluations."""
    return isinstance(node, ast.Starred) and ast.unparse(node.value) not in NUMBERS


def words(call: ast.Call) -> list[str] | None:
    """Return the words of a proposal, or None if its command is not known before it runs."""
    command, *rest = call.args
    if not isinstance(command, ast.Constant):
        return None
    return [
        *command.value.split(),
        *(word for node in rest for word in ([] if is_list_of_options(node) else [written(node)])),
    ]


def refused(typed: list[str]) -> str:
    """Return the reason why the command line refuses some words; empty if it accepts them."""
    try:
        command, context, rest = cli, click.Context(cli), typed
        while isinstance(command, click.Group) and not (rest and rest[0].startswith("--")):
            name, subcommand, rest = command.resolve_command(context, rest)
            assert subcommand is not None
            context = click.Context(subcommand, info_name=name, parent=context)
            command = subcommand
        with command.make_context(typed[0], list(rest)):
            return ""
    except click.exceptions.Exit:  # of --help
        return ""
    except click.UsageError as error:
        return error.format_message()


CALLS = [pytest.param(call, id=place) for place, call in proposals()]


@pytest.mark.parametrize("call", CALLS)
def test_a_proposal_of_the_code_is_taken_by_the_command_line(call: ast.Call) -> None:
    typed = words(call)
    if typed is None or (len(call.args) == 1 and bare(typed)):
        return
    assert refused([word for word in typed if word != "…"] if "…" not in typed else typed[: typed.index("…")]) in (
        "",
        *("Missing option '--model'.", "Missing option '--benchmark'.") * ("…" in typed),
    )


def bare(typed: list[str]) -> bool:
    """Return whether the words are only the name of an existing command."""
    command: click.Command = cli
    for word in typed:
        assert isinstance(command, click.Group)
        with click.Context(command) as context:
            subcommand = command.get_command(context, word)
        assert subcommand is not None, typed
        command = subcommand
    return True


def test_no_message_writes_a_command_by_itself() -> None:
    """Check all code except documentation, which is checked with the pages, and marks that are no commands."""
    names = "|".join(cli.list_commands(click.Context(cli)))
    places = []
    for path, tree in modules():
        texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
                places += [
                    f"{path.relative_to(ROOT)}:{node.lineno}: {match[0]}"
                    for match in re.finditer(rf"(?<![\w/.=:@-]){PROGRAM} (?:{names}) [a-z-]+", node.value)
                ]
    assert [line for line in places if not line.startswith(NO_MESSAGES)] == []


NO_MESSAGES = (
    "registry/benchmarks/nonsenseqa.py",  # the source that a benchmark records
    "registry/logs/formats/",  # documentation
    "registry/sealed/statements.py",  # the beginning of signed bytes
    "registry/sealed/checking.py",  # names of commands that write folders
    "shuffleboard/cli/completion.py",  # a mark in a shell's file
)


def test_words_are_quoted_for_a_shell() -> None:
    line = propose("models show", "a b", "--kind", "KIND", "…", "it's", 5)
    assert line == "shuffleboard models show 'a b' --kind KIND … 'it'\"'\"'s' 5"
    assert shlex.split(line)[1:] == ["models", "show", "a b", "--kind", "KIND", "…", "it's", "5"]


def proposed(message: str) -> list[list[str]]:
    """Return the words of the commands in a message."""
    message = "".join(line for line in message.splitlines(keepends=True) if not line.startswith(("Usage", "Try")))
    commands = re.findall(
        rf"(?<![\w/.=:@-]){PROGRAM} (?=[a-z])([^`;,)\n]+?)(?= lists| shows| takes|\.?[`;,)\n]|\.?$)", message
    )
    return [shlex.split(command) for command in commands]


@pytest.mark.parametrize("typed", WRONG)
def test_a_proposal_of_a_message_runs(filled: Registry, files: Path, typed: str) -> None:
    outcome = shuffleboard(*typed.format(files).split(), status=None)
    for command in proposed(outcome.stderr):
        if " ".join(command).startswith(LASTING) or command[-1] == "--help":
            continue
        spelled = [FILLED.get(word, word) for word in command]
        if any(re.fullmatch(r"[A-Z]+|…", word) for word in spelled):
            assert refused(spelled) == ""
        elif spelled[1:2] == ["import"]:  # into the registry of all tests
            assert all(Path(file).exists() for file in spelled[2:3])
        else:
            assert shuffleboard(*spelled, status=None).returncode in (0, 1)

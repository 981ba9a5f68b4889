"""Commands, options, make targets, modules and languages that pages name, which must exist even if they do not run."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from shuffleboard.cli import cli
from shuffleboard.cli.groups import Where
from tests.docs.pages import ROOT, Block, blocks, omit_blocks, pages, read
from tests.docs.session import RUN, SHOWN, check_parses, make_lines, read_text
from tests.support.surface import COMMANDS

PAGES = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages()]
WITH_BLOCKS = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages() if blocks(page)]
TARGETS = set(re.findall(r"^([a-z-]+):", read(ROOT / "Makefile"), re.MULTILINE))

OPTIONS = {
    name
    for command in (cli, *COMMANDS.values())
    for parameter in command.params
    for name in (*parameter.opts, *parameter.secondary_opts)
}
OF_OTHERS = {
    *("--help", "--no-deps", "--find-links", "--log_samples", "--first"),
    *(
        "--max-model-len",
        "--generation-config",
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--logprobs-mode",
    ),
    *("--enable-prompt-tokens-details", "--no-enable-prefix-caching"),
    *("--save-details", "--dump-eval-details", "--reasoning-parser"),
    *("--concurrency", "--pool", "--prompts", "--benchmarks", "--only", "--options", "--worlds", "--models"),
    *("--epochs", "--metadata"),
}
"""Options of click, `migrations.draft`, the tests' programs, and other projects' programs."""

CALL = re.compile(r"(?P<before>[^\n;|&(`]*?)(?<![\w/.=:@-])shuffleboard +(?P<words>[^\n;|&)>`#]+)")
NAMES_NO_COMMAND = re.compile(r"[^a-z]|.*[^a-z-]")
"""A word after a group that is no command, but an option, a placeholder, or `…`."""


def wrong(words: list[str], *, command: click.Command = cli, strict: bool = True) -> str | None:
    """Return the error in the words after `shuffleboard`, or None.

    strict: whether the words must be a command. Names that work but that help hides are errors, too.
    """
    used = []
    while words and isinstance(command, click.Group) and not NAMES_NO_COMMAND.match(words[0]):
        with click.Context(command) as context:
            shown = words[0] in command.list_commands(context)
            subcommand = command.get_command(context, words[0]) if shown else None
        if subcommand is None:
            return f"no command {' '.join([*used, words[0]])}" if strict or used else None
        command, used, words = subcommand, [*used, words[0]], words[1:]
    option_names = {name for parameter in command.params for name in list_shown(parameter)} | {"--help"}
    options = [option[0] for word in words if (option := re.match(r"\[?(--[\w-]+)", word))]
    unknown = [name.lstrip("[") for name in options if name.lstrip("[") not in option_names]
    return f"{' '.join(used) or 'shuffleboard'} has no {unknown[0]}" if unknown and (used or strict) else None


def list_shown(parameter: click.Parameter) -> list[str]:
    """Return the names of an option that help shows."""
    return [*(parameter.opts[:1] if isinstance(parameter, Where) else parameter.opts), *parameter.secondary_opts]


def calls(shell: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the words after each `shuffleboard` in some lines, and whether the word must be the command."""
    for match in CALL.finditer(re.sub(r"\\\n\s*", "", shell)):
        words = [word.strip("\"'") for word in match["words"].split()]
        before = re.sub(r"^[\s$]*|\b[A-Z_]+=(\"[^\"]*\"|\S*)\s*", "", match["before"])
        yield words, not before.strip()


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_commands_in_blocks_exist_with_their_options(page: Path) -> None:
    problems = [
        f"line {block.line}: {problem}: {' '.join(words)}"
        for block in blocks(page)
        if block.language in (*RUN, "", "text", "dockerfile", "yaml", "ini")
        for words, strict in calls(block.text)
        if (problem := wrong(words, strict=strict and block.language in RUN))
    ]
    assert not problems


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_sentences_exist_with_their_options(page: Path) -> None:
    problems = []
    for code in re.findall(r"`([^`]+)`", omit_blocks(page)):
        line = " ".join(code.split())
        named = list(calls(line)) or [(line.split(), False)]  # `evaluations submit --wait`, as pages also write it
        problems += [f"{problem}: {line}" for words, strict in named if (problem := wrong(words, strict=strict))]
    assert not problems


@pytest.mark.parametrize("page", [page for page in PAGES if page.id != "docs/evidence/comparison.md"])
def test_options_that_sentences_name_are_of_some_command(page: Path) -> None:
    """Check all pages except the page about other programs."""
    named = {
        option
        for code in re.findall(r"`([^`]+)`", omit_blocks(page))
        if "ARGS=" not in code  # a benchmark's own arguments
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", code)
    }
    assert not named - OPTIONS - OF_OTHERS


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_a_block_runs_or_says_why_not_or_shows_something(page: Path) -> None:
    for block in blocks(page):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        assert block.language in (*RUN, *SHOWN), f"{where}: use sh, console, python or sql, or one of {SHOWN}"
        reason = read_text(block, "not run")
        assert reason is None or len(reason.split()) > 1, f"{where}: say why it is not run"
        if block.language in ("", "text") and not write(page):
            assert not re.search(r"^\s*(\$ |shuffleboard )", block.text, re.MULTILINE) or shows(block), (
                f"{where}: commands stand in a block of sh"
            )
        if "…" not in block.text or read_text(block, "prints") is None:
            check_parses(block)


def write(page: Path) -> bool:
    """Return whether docs/generate.py writes the page, whose commands are usage lines then."""
    return "Written by docs/generate.py" in read(page)


def shows(block: Block) -> bool:
    """Return whether a block is output or a file."""
    return read_text(block, "prints") is not None or read_text(block, "file") is not None


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_targets_and_modules_in_blocks_exist(page: Path) -> None:
    for block in blocks(page):
        if block.language not in RUN:
            continue
        # Words after the target are in quotation marks, or VARIABLE=value.
        named = {line.removeprefix("$ ").split()[1] for line in make_lines(block)}
        assert named <= TARGETS, named - TARGETS
        for module in re.findall(r"python -m ((?:registry|workers|web|tests|docs|migrations)[\w.]*)", block.text):
            assert importlib.util.find_spec(module) is not None, module


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("models add NAME --kind gguf", None),
        ("db roles [--sql]", None),
        ("… --help", None),
        ("modles add NAME", "no command modles"),
        ("models ad NAME", "no command models ad"),
        ("verify 1 --al", "verify has no --al"),
        ("--json", "shuffleboard has no --json"),
    ],
)
def test_what_does_not_exist_is_found(words: str, problem: str | None) -> None:
    assert wrong(words.split()) == problem

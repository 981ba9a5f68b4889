"""The README's settings and commands are those that exist."""

import re
from pathlib import Path

import click
import pytest

from registry.settings import Settings
from tests.docs.pages import ROOT, blocks, code, generator, read, sections

README = ROOT / "README.md"
ROWS = {code(row)[0]: row for row in sections(README)["Settings"].splitlines() if row.startswith("| `SHUFFLEBOARD_")}


def test_the_settings_table_lists_exactly_the_settings() -> None:
    assert set(ROWS) == {f"SHUFFLEBOARD_{name.upper()}" for name in Settings.model_fields}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_defaults_in_the_settings_table_are_true(name: str) -> None:
    default = ROWS[f"SHUFFLEBOARD_{name.upper()}"].split("|")[2].strip()
    field = Settings.model_fields[name]
    if field.default_factory is not None:
        assert default == "the user's data directory"
    elif field.default in ("", None):
        assert default.startswith("empty")
    elif isinstance(field.default, bool):
        assert default == f"`{str(field.default).lower()}`"
    else:
        value = f"{field.default:g}" if isinstance(field.default, float) else field.default
        assert default == f"`{value}`"


TARGETS = set(re.findall(r"^([a-z-]+):", read(ROOT / "Makefile"), re.MULTILINE))
MAKE = re.compile(r"\bmake ([a-z-]+)\b")


@pytest.mark.parametrize("page", [README, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_make_targets_named_on_a_page_exist(page: Path) -> None:
    text = "\n".join([*re.findall(r"`[^`\n]*`", read(page)), *(block.text for block in blocks(page))])
    named = set(MAKE.findall(text))
    assert named
    assert named <= TARGETS


COMMANDS = {" ".join(words): command for words, command in generator().commands() if words}


def shell_lines() -> list[str]:
    """Every line of a shell example that calls shuffleboard."""
    pages = [README, ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    lines = [line for page in pages for block in blocks(page, "sh") for line in block.text.splitlines()]
    return [line.strip() for line in lines if line.strip().startswith("shuffleboard ")]


@pytest.mark.parametrize("line", shell_lines())
def test_commands_in_examples_exist_with_their_options(line: str) -> None:
    words = line.split("#")[0].split()[1:]
    name = max((name for name in COMMANDS if words[: len(name.split())] == name.split()), key=len, default=None)
    assert name is not None, f"no command {line!r}"
    command = COMMANDS[name]
    assert not isinstance(command, click.Group)
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_the_readme_shows_the_two_commands_and_their_needs() -> None:
    text = read(README)
    assert "make demo" in text
    assert "make test" in text
    assert "Python 3.11" in text

"""Generated pages, compared with the code."""

from pathlib import Path

import click
import pytest

from registry.metrics.catalogue import ALL_NAMES
from registry.prompting.variants import VARIANT_KINDS
from tests.docs.pages import DOCS, ROOT, code, first_cells, generator, read, sections
from tests.support.surface import LEAVES


@pytest.mark.parametrize("path", generator().pages(), ids=lambda path: path.name)
def test_generated_text_is_up_to_date(path: Path) -> None:
    expected = generator().pages()[path]
    assert read(path) == expected, f"run: .venv/bin/python {path.parent.name}/generate.py"


def test_a_new_format_of_logs_gets_its_paragraph_in_its_place() -> None:
    page = read(DOCS / "importing-outputs.md")
    start = page.index("**Inspect AI.**")
    end = page.index("\n\n", start) + 2
    assert generator()._with_forms(page[:start] + page[end:]) == page


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_and_option_is_documented(name: str) -> None:
    section = sections(DOCS / "command-line.md")[f"shuffleboard {name}"]
    documented = {option for cell in first_cells(section) for option in code(cell)}
    missing = [
        option
        for parameter in LEAVES[name].params
        if isinstance(parameter, click.Option) and not generator().is_common(parameter)
        for option in parameter.opts
        if option not in documented
    ]
    assert not missing


def test_the_options_of_all_commands_are_described_once() -> None:
    before = read(DOCS / "command-line.md").split("\n## ")[0]
    assert all(f"`{option}" in before for option in generator().COMMON_OPTIONS)


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_and_option_says_what_it_does(name: str) -> None:
    assert LEAVES[name].help
    for parameter in LEAVES[name].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.opts


@pytest.mark.parametrize("name", ALL_NAMES)
def test_every_metric_is_documented(name: str) -> None:
    assert f"`{name}`" in read(DOCS / "metrics.md")


@pytest.mark.parametrize("kind", VARIANT_KINDS)
def test_every_kind_of_variants_and_its_parameters_are_documented(kind: str) -> None:
    page = DOCS / "variants-and-protocols.md"
    (row,) = [line for line in read(page).splitlines() if line.startswith(f"| [`{kind}`]")]
    parameters = set(VARIANT_KINDS[kind].parameters) if kind != "imported" else set()  # its parameter is set by imports
    assert parameters <= set(code(row))
    if kind != "imported":  # whose orders come with a file
        assert f"```text variants={kind}" in read(page) or kind == "random2"


def test_examples_of_variants_and_prompts_are_not_empty() -> None:
    text = read(DOCS / "variants-and-protocols.md")
    assert "rotation 3  3 0 1 2" in text
    assert "Answer: A\n\nWhich of these is a unit of force?" in text


def test_the_generator_is_named_where_contributors_look() -> None:
    assert "docs/generate.py" in read(ROOT / "CONTRIBUTING.md")

"""The settings in docs/settings.md and the main commands in the README."""

import re
from pathlib import Path

import pytest

from registry.settings import Settings
from tests.docs.pages import DOCS, ROOT, blocks, code, read, sections

README = ROOT / "README.md"
PAGE = DOCS / "settings.md"
ROWS = {
    code(row)[0]: row
    for section in sections(PAGE).values()
    for row in section.splitlines()
    if row.startswith("| `SHUFFLEBOARD_")
}


def test_the_page_lists_exactly_the_settings() -> None:
    assert sorted(re.findall(r"^\| `(\w+)`", read(PAGE), re.MULTILINE)) == sorted(ROWS)
    assert set(ROWS) == {f"SHUFFLEBOARD_{name.upper()}" for name in Settings.model_fields}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_setting_has_its_default_its_bounds_and_its_meaning(name: str) -> None:
    _, _, default, takes, meaning, _ = ROWS[f"SHUFFLEBOARD_{name.upper()}"].split("|")
    field = Settings.model_fields[name]
    if field.default_factory is not None:
        assert default.strip() == "the user's data directory"
    elif field.default in ("", None):
        assert default.strip() == "empty"
        assert "empty: " in meaning or "such as" in meaning or "separated by commas" in meaning
    else:
        (value,) = code(default)
        expected = str(field.default).lower() if isinstance(field.default, bool) else field.default
        assert type(field.default)(value) == expected if isinstance(expected, float | int) else value == expected
    for item in field.metadata:
        for bound in ("ge", "gt", "le"):
            assert not hasattr(item, bound) or f"{getattr(item, bound):,}" in takes
    assert len(meaning.split()) > 4


TARGETS = set(re.findall(r"^([a-z-]+):", read(ROOT / "Makefile"), re.MULTILINE))
MAKE = re.compile(r"\bmake ([a-z-]+)\b")


@pytest.mark.parametrize("page", [README, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_make_targets_named_on_a_page_exist(page: Path) -> None:
    text = "\n".join([*re.findall(r"`[^`\n]*`", read(page)), *(block.text for block in blocks(page))])
    named = set(MAKE.findall(text))
    assert named
    assert named <= TARGETS


def test_the_readme_begins_with_seeing_it_and_using_it() -> None:
    text = read(README)
    first, second, *_, last = [block.text for block in blocks(README, "sh")]
    assert (first, last) == ("make demo\n", "make test\n")
    assert "evaluations import" in second
    assert "Python 3.11" in text
    assert "docs/images/demo.png" in text

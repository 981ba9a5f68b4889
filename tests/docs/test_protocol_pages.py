"""The page on protocols, which lists all of them, and whose example file is a valid protocol."""

from pathlib import Path

import pytest

from registry.prompting.prompts import QuestionText, build_prompt
from registry.prompting.protocols.custom import read_protocol_file
from registry.prompting.protocols.presets import PRESETS, RECORDED, SAMPLINGS, SIMILARITIES
from registry.prompting.protocols.store import load_known_definitions
from registry.prompting.variants import QuestionShape, parse_variants
from tests.docs.pages import DOCS, blocks, code, first_cells, read, sections

PAGE = DOCS / "variants-and-protocols.md"


def test_every_preset_has_a_row_and_every_shipped_protocol_too() -> None:
    presets = [name for cell in first_cells(sections(PAGE)["All presets"]) for name in code(cell)]
    names = [*PRESETS, RECORDED["format"]]
    assert list(dict.fromkeys(name for name in presets if name in names)) == names
    shipped = {name for cell in first_cells(sections(PAGE)["Your own protocols"]) for name in code(cell)}
    assert shipped == set(load_known_definitions()) - set(names)


@pytest.mark.parametrize("name", PRESETS)
def test_every_key_and_value_that_can_be_chosen_is_documented(name: str) -> None:
    page = read(PAGE)
    definition = PRESETS[name]
    for key in (*definition.get("generation", ()), *definition.get("extraction", {}).get("rules", ())):
        assert f"`{key}`" in page, key
    for value in (*SAMPLINGS, *SIMILARITIES):
        assert f"`{value}`" in page, value


def test_the_example_of_a_protocol_is_valid(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "toml protocol")
    path = tmp_path / "p.toml"
    path.write_text(block.text, encoding="utf-8")
    definition = read_protocol_file(path)
    assert definition["generation"]["max_tokens"] == 128
    assert definition["extraction"]["match"] == "first"


def test_the_conversation_that_is_scored_is_what_its_protocol_makes(tmp_path: Path) -> None:
    (protocol,), (shown,) = blocks(PAGE, "toml chat"), blocks(PAGE, "text chat")
    path = tmp_path / "p.toml"
    path.write_text(protocol.text, encoding="utf-8")
    options = ("joule", "newton", "watt", "pascal")
    question = QuestionText("q1", "high_school_physics", None, "Which of these is a unit of force?", options, 1)
    (variant,) = parse_variants("original").variants(QuestionShape("q1", 4, 1))
    assert build_prompt(read_protocol_file(path), question, variant).text == shown.text.removesuffix("\n")

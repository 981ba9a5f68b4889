"""The comparison of Shuffleboard with other programs, which must agree with other pages and pinned versions."""

import re

from tests.docs.pages import DOCS, ROOT, first_cells, omit_blocks, read, sections

PAGE = DOCS / "evidence" / "comparison.md"
_REFERENCE = re.compile(r"\]\[([a-z0-9-]+)\]")
_DEFINITION = re.compile(r"^\[([a-z0-9-]+)\]: (\S+)$", re.MULTILINE)
_ENGINES = ("lm-evaluation-harness", "token trie, torch's products", "token trie")


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _measure() -> dict[str, dict[str, tuple[str, str]]]:
    """Return prompts → engine → (prompts/s, speed-up), from the first table of scoring on the page on performance."""
    table = (
        sections(DOCS / "evidence" / "performance.md")["Scoring"]
        .split("One thread, CPU time")[1]
        .split("Both cores")[0]
    )
    measured: dict[str, dict[str, tuple[str, str]]] = {}
    prompts = ""
    for row in table.splitlines():
        if row.startswith("|"):
            name, engine, rate, ratio, *_ = _cells(row)
            prompts = name.partition(":")[0] or prompts
            measured.setdefault(prompts, {})[engine] = (rate, ratio)
    return measured


def test_measured_figures_are_those_of_the_page_on_performance() -> None:
    text = sections(PAGE)["What was measured"]
    measured = _measure()
    assert len(first_cells(text)) == 3
    for prompts in first_cells(text):
        (row,) = (row for row in text.splitlines() if row.startswith(f"| {prompts} |"))
        harness, products, trie = (measured[prompts][engine] for engine in _ENGINES)
        assert _cells(row)[1:] == [harness[0], trie[0], trie[1], products[1]]


def test_the_version_of_the_harness_is_the_one_that_the_tests_use() -> None:
    pin = re.search(r"^lm_eval==(\S+)$", read(ROOT / "tests/peer/requirements.txt"), re.MULTILINE)
    assert pin is not None
    page = read(PAGE)
    assert f"| [lm-evaluation-harness][lm] | [{pin[1]}][lm-pypi] |" in page
    assert set(re.findall(r"lm-evaluation-harness/(?:blob|tree)/v([\d.]+)/", page)) == {pin[1]}


def test_every_source_is_named_once_and_used() -> None:
    definitions = _DEFINITION.findall(read(PAGE))
    names = [name for name, _ in definitions]
    assert len(names) == len(set(names))
    assert set(_REFERENCE.findall(omit_blocks(PAGE))) == set(names)
    assert all(address.startswith("https://") for _, address in definitions)

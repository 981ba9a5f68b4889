"""Links within the documentation, and names of one person's machine, which it must not contain."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, anchors, list_docs, omit_blocks, pages, read

_LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_internal_links_resolve(page: Path) -> None:
    for target in _LINK.findall(omit_blocks(page)):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{target} leads nowhere"
        if anchor:
            assert anchor in anchors(path), f"{target} has no such heading"


@pytest.fixture(scope="module")
def reached() -> set[Path]:
    """Return the pages that links from the README reach, directly or through other pages."""
    linked = {ROOT / "README.md"}
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        for target in _LINK.findall(omit_blocks(page)):
            path = (page.parent / target.partition("#")[0]).resolve()
            if path.suffix == ".md" and path.exists() and path not in linked:
                linked.add(path)
                waiting.append(path)
    return linked


@pytest.mark.parametrize("page", list_docs(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_is_reached_from_the_readme(page: Path, reached: set[Path]) -> None:
    assert page in reached


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_names_a_folder_of_one_machine(page: Path) -> None:
    assert not re.search(r"(?<![\w$])/(?:home|root|tmp|work|Users)/", read(page))


def test_each_decision_has_its_own_number_and_is_listed() -> None:
    files = sorted(path.name for path in (DOCS / "decisions").glob("[0-9]*.md"))
    assert len({name[:4] for name in files}) == len(files)
    index = read(DOCS / "decisions" / "README.md")
    assert sorted(re.findall(r"^\| \[\d{4}\]\((\S+)\)", index, re.MULTILINE)) == files


@pytest.mark.parametrize("page", sorted((DOCS / "decisions").glob("[0-9]*.md")), ids=lambda page: page.name[:4])
def test_a_decision_has_its_five_parts(page: Path) -> None:
    headings = re.findall(r"^## (.+)$", read(page), re.MULTILINE)
    assert headings == ["Context", "Options", "Choice", "Cost", "What would reverse it"]
    assert read(page).startswith(f"# {page.name[:4]}: ")

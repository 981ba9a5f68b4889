"""The English of the documentation: the counts of tests/prose.py, and the readers of each page."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, code, first_cells, read
from tests.prose import Text, documents, habits, plain, rates, read_document, sentences, too_long

PAGES = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in documents()]


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("Where Redis is down, workers wait.", True),
        ("What the order costs is shown below.", True),
        ("What does the order cost?", False),
        ("Whoever has the key can sign.", True),
        ("Of the 78 bytes 33.7 are in files.", True),
        ("Two models cannot be told apart.", True),
        ("If Redis is down, workers wait for it, and you lose nothing.", False),
    ],
)
def test_a_habit_is_found_and_plain_english_is_not(sentence: str, found: bool) -> None:
    assert bool(list(habits(Text("documents", "here:1", sentence)))) == found


def test_words_are_counted_without_code_and_addresses(tmp_path: Path) -> None:
    text = plain("If you run `make check`, see [the page](https://example.org/if/you).")
    assert text == "If you run Code, see the page."
    counted = rates([Text("documents", "here:1", text)])
    assert (counted["words"], counted["if"], counted["you"]) == (7, 10_000 / 7, 10_000 / 7)
    assert sentences("One. Two? `Three`.") == ["One.", "Two?", "`Three`."]
    assert list(too_long(Text("documents", "here:1", "word " * 41))) == ["word " * 41]
    page = ROOT / "docs" / "limits.md"
    assert all("```" not in checked.words for checked in read_document(page))
    assert tmp_path.exists()


@pytest.mark.parametrize("page", [page for page in PAGES if page.id != "docs/contributing.md"])
def test_the_first_paragraph_says_who_the_page_is_for(page: Path) -> None:
    start = " ".join(re.sub(r"<!--.*?-->", "", read(page), flags=re.DOTALL).split()[:90])
    assert page.name == "README.md" or re.search(r"\bis for (?:you|everyone)\b", start)


def test_each_message_of_the_troubleshooting_page_is_one_that_the_code_prints() -> None:
    source = "\n".join(
        read(path)
        for package in ("registry", "web", "workers", "shuffleboard")
        for path in (*(ROOT / package).rglob("*.py"), *(ROOT / package).rglob("*.html"))
    )
    source = re.sub(r"[\"']\s*\n\s*f?[\"']", "", source).replace("{module} is", "torch is")
    source = re.sub(r"\{propose\('([^']+)'\)\}", r"shuffleboard \1", source)
    missing = [
        piece
        for cell in first_cells(read(DOCS / "troubleshooting.md"))
        for message in code(cell)
        for piece in re.split(r"…|`", message)
        if len(piece.strip()) > 6 and piece.strip() not in source and piece.strip() not in OF_OTHERS
    ]
    assert missing == []


OF_OTHERS = {
    "Init:0/1",
    "ImagePullBackOff",
    "field is immutable",
    "upgrade",
    "worker-gpu",
    "correct = 1",
    "No such command",
}
"""Messages of Kubernetes, PostgreSQL and click."""

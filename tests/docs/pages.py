"""Reads the pages of the documentation: their sections, tables, links and code blocks."""

import importlib.util
import itertools
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"\s*<!-- (.+) -->\s*")
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


def pages() -> list[Path]:
    """Return every Markdown page of the repository."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *list_docs()]


def list_docs() -> list[Path]:
    """Return every page under docs/, except in the folder of static files."""
    return sorted(path for path in DOCS.rglob("*.md") if not path.is_relative_to(DOCS / "_static"))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block; `info` is the rest of the opening fence.

    line: number of the opening fence's line, from 1.
    comments: the texts of the HTML comments on the lines immediately before the block.
    """

    info: str
    text: str
    line: int = 0
    comments: tuple[str, ...] = ()

    @property
    def language(self) -> str:
        """Return the first word of `info`; empty if there is none."""
        return self.info.partition(" ")[0]


def blocks(path: Path, info: str | None = None) -> list[Block]:
    """Return the fenced blocks of a page without indentation, or only those with the info string `info`."""
    page = read(path)
    collected = []
    for match in _BLOCK.finditer(page):
        before = page[: match.start()].splitlines()
        above = itertools.takewhile(bool, map(_COMMENT.fullmatch, reversed(before)))
        comments = [comment[1] for comment in above if comment is not None]
        text = re.sub(f"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        collected.append(Block(match["info"].strip(), text, len(before) + 1, tuple(reversed(comments))))
    return collected if info is None else [block for block in collected if block.info == info]


def comments(path: Path) -> list[tuple[int, str]]:
    """Return the HTML comments of a page that fill a line outside blocks, with their line numbers from 1."""
    outside = _BLOCK.sub(lambda match: "\n" * match[0].count("\n"), read(path)).splitlines()
    matches = [(number, _COMMENT.fullmatch(line)) for number, line in enumerate(outside, 1)]
    return [(number, match[1]) for number, match in matches if match is not None]


def omit_blocks(path: Path) -> str:
    """Return a page's text without its fenced blocks."""
    return _BLOCK.sub("", read(path))


def sections(path: Path) -> dict[str, str]:
    """Return the text below each second-level heading."""
    parts = re.split(r"^## (.+)$", read(path), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def first_cells(text: str) -> list[str]:
    """Return the first cell of every row of the tables in `text`, without the headings."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    rules = {number for number, row in enumerate(rows) if set(row) <= set("|- :")}
    headings = {number - 1 for number in rules}
    return [row.split("|")[1].strip() for number, row in enumerate(rows) if number not in rules | headings]


def code(cell: str) -> list[str]:
    """Return the texts in backticks in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def anchors(path: Path) -> set[str]:
    """Return the anchors that a page's headings get."""
    return {slug(heading) for _, heading in _HEADING.findall(omit_blocks(path))}


def slug(heading: str) -> str:
    """Return the anchor of a heading: in lower case, without punctuation, with dashes for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@lru_cache(maxsize=1)
def generator() -> ModuleType:
    """Return docs/generate.py, a script that is in no package, as a module."""
    spec = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

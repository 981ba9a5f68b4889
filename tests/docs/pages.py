"""The documentation as the tests read it: pages, their sections, tables, links and code blocks."""

import importlib.util
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"^ *```(?P<info>[^\n`]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


def pages() -> list[Path]:
    """Every Markdown page that ships."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block: `info` is what follows the opening fence."""

    info: str
    text: str


def blocks(path: Path, info: str | None = None) -> list[Block]:
    """The fenced blocks of a page, or those whose info string is `info`."""
    found = [Block(match["info"].strip(), match["text"]) for match in _BLOCK.finditer(read(path))]
    return found if info is None else [block for block in found if block.info == info]


def without_blocks(path: Path) -> str:
    """A page's text, its fenced blocks left out."""
    return _BLOCK.sub("", read(path))


def sections(path: Path) -> dict[str, str]:
    """Second-level heading to the text below it."""
    parts = re.split(r"^## (.+)$", read(path), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def first_cells(text: str) -> list[str]:
    """The first cell of every row of the tables in `text`, their headings left out."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    rules = {number for number, row in enumerate(rows) if set(row) <= set("|- :")}
    headings = {number - 1 for number in rules}
    return [row.split("|")[1].strip() for number, row in enumerate(rows) if number not in rules | headings]


def code(cell: str) -> list[str]:
    """What stands in backticks in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def anchors(path: Path) -> set[str]:
    """The anchors that a page's headings get."""
    return {slug(heading) for _, heading in _HEADING.findall(without_blocks(path))}


def slug(heading: str) -> str:
    """A heading's anchor: lower case, punctuation gone, blanks as dashes."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@lru_cache(maxsize=1)
def generator() -> ModuleType:
    """docs/generate.py, which is a script and in no package."""
    spec = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""Which charts a rendered page has: Vega-Lite specifications in blocks of JSON, and SVG that the server drew.

A chart with pictures is followed by an element that names it, `data-pictures`. SVG takes its looks from the page's
style sheets, so that these are read as well.
"""

import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

from web.charts import Chart

SIZE: Final = (880, 420)
"""Width and height in pixels of SVG that fills its place on the page."""

ENLARGED: Final = 1.6
"""How much larger than its own coordinates SVG is drawn at most: its letters grow with it."""

_STATIC: Final = Path(__file__).parent.parent / "static"
_PAINT: Final = re.compile(r"fill|stroke|opacity|display|visibility|font-(?:size|weight)|paint-order|text-anchor|color")
_RULE: Final = re.compile(r"([^{}]+)\{([^{}]*)\}")


@dataclass(frozen=True)
class Drawing:
    """SVG as a page has it, with a size of its own; style: the rules that it follows, with names of colours."""

    label: str
    svg: str
    style: str


@dataclass(frozen=True)
class Page:
    """A page's title, and its charts by name."""

    title: str
    charts: dict[str, Chart | Drawing]


def read_page(text: str, base: str) -> Page:
    """The charts of a rendered page. base: what its links to this website begin with elsewhere."""
    reader = _Reader(text, base)
    reader.feed(text)
    reader.close()
    return Page(reader.title.strip().removesuffix(" – Shuffleboard") or "Shuffleboard", reader.charts)


class _Reader(HTMLParser):
    def __init__(self, text: str, base: str) -> None:
        super().__init__()
        self._base = base
        self.title = ""
        self.charts: dict[str, Chart | Drawing] = {}
        self._text = text
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._within: list[tuple[str, dict[str, str]]] = []
        self._sheets: list[str] = []
        self._label = ""
        self._last: Chart | Drawing | None = None
        self._begun: tuple[int, dict[str, str], str] | None = None

    def _offset(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "link" and given.get("rel") == "stylesheet":
            self._sheets.append(given.get("href", ""))
        if given.get("role") in ("img", "group"):
            self._label = given.get("aria-label", "")
            drawn = tag == "svg" and not any(name == "table" for name, _ in self._within)
            if drawn and self._begun is None:
                around = " ".join(found.get("class", "") for _, found in self._within)
                self._begun = (self._offset(), given, around)
        if (name := given.get("data-pictures")) and self._last is not None:
            self.charts[name] = self._last
        if tag not in _VOID:
            self._within.append((tag, given))

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        pass  # of SVG; nothing is within

    def handle_endtag(self, tag: str) -> None:
        while self._within and self._within.pop()[0] != tag:
            pass
        if tag == "svg" and self._begun is not None and not any(name == "svg" for name, _ in self._within):
            begin, given, around = self._begun
            self._begun = None
            svg = re.sub(r'href="/(?!/)', f'href="{self._base}/', self._text[begin : self._offset()] + "</svg>")
            self._last = _drawing(svg, given, around, given.get("aria-label", ""), self._sheets)

    def handle_data(self, data: str) -> None:
        tag, given = self._within[-1] if self._within else ("", {})
        if tag == "title" and len(self._within) < 4 and not self.title:
            self.title = data
        if tag == "script" and given.get("type") == "application/json":
            self._last = Chart(self._label, json.loads(data))  # noqa: TID251 - our own page


_VOID: Final = frozenset({"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})


def _drawing(svg: str, given: dict[str, str], around: str, label: str, sheets: Sequence[str]) -> Drawing:
    width, height = _size(given)
    inner = svg[svg.index(">") + 1 :]
    box = f' viewBox="{html.escape(given["viewbox"])}"' if "viewbox" in given else ""
    opened = f'<svg width="{width:g}" height="{height:g}"{box} class="{html.escape(given.get("class", ""))}">'
    body = re.sub(r"&([a-zA-Z]+);", _entity, opened + inner)
    classes = set(re.findall(r"[\w-]+", " ".join([around, *re.findall(r'class="([^"]*)"', body)])))
    style = "\n".join(rule for sheet in sheets for rule in _rules(sheet, classes))
    return Drawing(label, f'<g class="{html.escape(around)}">{body}</g>', style)


def _size(given: dict[str, str]) -> tuple[float, float]:
    numbers = [re.fullmatch(r"[0-9.]+", given.get(side, "")) for side in ("width", "height")]
    box = [float(number) for number in re.findall(r"-?[0-9.]+", given.get("viewbox", ""))]
    width = float(numbers[0][0]) if numbers[0] else float(SIZE[0])
    if numbers[1]:
        return width, float(numbers[1][0])
    if len(box) != 4 or not box[2]:
        return width, float(SIZE[1])
    width = min(width, ENLARGED * box[2])
    return width, width * box[3] / box[2]


def _entity(found: re.Match[str]) -> str:
    """XML knows five names of characters, HTML two thousand."""
    return found[0] if found[1] in ("amp", "lt", "gt", "quot", "apos") else html.unescape(found[0])


def _rules(address: str, classes: set[str]) -> Iterator[str]:
    """The rules of a style sheet that paint elements of these classes, in a wide window and at rest."""
    path = _STATIC / Path(address.partition("?")[0]).name
    if not path.is_file() or path.suffix != ".css":
        return
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for selectors, declarations in _RULE.findall(_for_wide_windows(text)):
        kept = [one for one in selectors.split(",") if ":" not in one and _is_about(one, classes)]
        painted = [one for one in declarations.split(";") if _PAINT.match(one.strip())]
        if kept and painted:
            pixels = re.sub(r"([0-9]*\.?[0-9]+)rem", lambda size: f"{16 * float(size[1]):g}px", ";".join(painted))
            yield f"{','.join(kept).strip()}{{{pixels.strip()}}}"


def _is_about(selector: str, classes: set[str]) -> bool:
    named = set(re.findall(r"\.([\w-]+)", selector))
    return bool(named) and named <= classes


def _for_wide_windows(text: str) -> str:
    """A style sheet without its blocks of conditions, except those that a wide window meets."""
    parts, place = [], 0
    for found in re.finditer(r"@[^{;]*\{", text):
        if found.start() < place:
            continue
        parts.append(text[place : found.start()])
        depth, place = 1, found.end()
        while depth and place < len(text):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            place += 1
        if "min-width" in found[0]:
            parts.append(text[found.end() : place - 1])
    return "".join([*parts, text[place:]])


def coloured(document: Any, colours: dict[str, str]) -> str:
    """A document as JSON or text with plain colours in place of their names."""
    text = document if isinstance(document, str) else json.dumps(document)
    return re.sub(r"var\(--([a-z-]+)\)", lambda found: colours.get(found[1], "currentColor"), text)

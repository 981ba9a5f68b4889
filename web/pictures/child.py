"""The process in which one picture is drawn. It is started by its path, and imports none of our code.

Why a process: it can be killed, and gives back what Vega's engine holds, about 100 MB.

stdin: the order, a JSON document (`Order`). stdout: the picture. Status 1 and a line on stderr if it cannot be drawn.
"""

import json
import math
import os
import re
import sys
from typing import Any, Final, TypedDict
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

CPU_SECONDS: Final = 20
MEMORY_BYTES: Final = 2 * 2**30
"""What the process may hold; Vega's engine maps far more address space than it fills."""
MOST_PIXELS: Final = 16_000_000
"""Of a PNG; a chart that would have more is drawn at a smaller scale."""
WIDTH: Final = 760
"""Of a chart's picture, in pixels, where the chart has no width of its own."""
_MARGIN: Final = 20
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"

_SIZE: Final = re.compile(r'<svg[^>]* width="([0-9.]+)" height="([0-9.]+)"')
# XML has no such characters, not even escaped.
_UNWRITABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class Order(TypedDict, total=False):
    """What is drawn: a chart within its frame, or an SVG document as it is."""

    form: str  # svg or png
    chart: dict[str, Any]  # Vega-Lite, with plain colours
    drawing: str  # or SVG elements with their style; the one of the document has a size
    title: str
    description: str
    source: str
    colours: dict[str, str]  # ink, quiet, panel
    svg: str
    scale: float


def framed(drawing: str, order: Order) -> str:
    """A chart's SVG with title, description and source around it, on its own ground."""
    found = _SIZE.search(drawing)
    if found is None:
        raise ValueError("the chart has no size")
    width, height = (math.ceil(float(number)) for number in found.groups())
    across = width - 2
    title, description = lines(order["title"], across / 9.6), lines(order["description"], across / 6.9)
    source = lines(order["source"], across / 6.4)
    below = _MARGIN
    texts = []
    for text, size, step, colour, weight in (
        *((line, 17, 23, "ink", "600") for line in title),
        *((line, 13, 18, "quiet", "400") for line in description),
    ):
        below += step
        texts.append(_text(text, below - 5, size, order["colours"][colour], weight))
    top = below + 10
    below = top + height + 8
    for line in source:
        below += 16
        texts.append(_text(line, below, 11.5, order["colours"]["quiet"], "400"))
    whole, tall = width + 2 * _MARGIN, below + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{whole}" '
        f'height="{tall}" viewBox="0 0 {whole} {tall}" role="img" aria-labelledby="title description">'
        f'<title id="title">{escape(order["title"])}</title>'
        f'<desc id="description">{escape(order["description"])} {escape(order["source"])}</desc>'
        f'<rect width="{whole}" height="{tall}" fill="{order["colours"]["panel"]}"/>'
        f'{"".join(texts)}<g transform="translate({_MARGIN},{top})" font-family="{_quoted(_FONT)}">{drawing}</g></svg>'
    )


def lines(text: str, length: float, most: int = 3) -> list[str]:
    """A text in lines of about so many characters; longer words are cut, and so is what does not fit."""
    found = [""]
    for word in text.split():
        while len(word) > length:  # a name without a blank
            found.append(word[: int(length)])
            word = word[int(length) :]  # noqa: PLW2901
        found[-1:] = [f"{found[-1]} {word}".strip()] if len(found[-1]) + len(word) < length else [found[-1], word]
    found = [line for line in found if line]
    if len(found) > most:
        found = [*found[: most - 1], " ".join(found[most - 1 :])[: int(length) - 1].rstrip() + "…"]
    return found


def _quoted(text: str) -> str:
    return escape(text, {'"': "&quot;"})


def _text(text: str, y: float, size: float, colour: str, weight: str) -> str:
    return (
        f'<text x="{_MARGIN}" y="{y}" font-family="{_quoted(_FONT)}" font-size="{size}" font-weight="{weight}" '
        f'fill="{colour}">{escape(text)}</text>'
    )


def _vega(spec: dict[str, Any]) -> str:
    import vl_convert

    if spec.get("width") == "container":
        spec = {**spec, "width": WIDTH}
    # Nothing of a chart is fetched from anywhere.
    svg: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    return svg


def draw(order: Order) -> bytes:
    """The picture, as UTF-8 or as PNG."""
    svg = order.get("svg")
    if svg is None:
        svg = framed(order.get("drawing") or _vega(order["chart"]), order)
    svg = _UNWRITABLE.sub("\ufffd", svg)
    ET.fromstring(svg)  # noqa: S314 - our own; raises for what is no XML
    if order["form"] == "svg":
        return svg.encode()
    found = _SIZE.match(svg)
    if found is None:
        raise ValueError("the picture has no size")
    import vl_convert

    pixels = float(found[1]) * float(found[2])
    png: bytes = vl_convert.svg_to_png(svg, scale=min(order.get("scale", 2.0), math.sqrt(MOST_PIXELS / pixels)))
    return png


def main() -> int:
    """Draws what stdin asks for."""
    import resource

    os.nice(10)  # pages go first
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        picture = draw(json.load(sys.stdin))  # noqa: TID251 - our own process's
    except Exception as error:  # noqa: BLE001 - whatever Vega raises, the website answers that it cannot be drawn
        sys.stderr.write(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}\n")
        return 1
    sys.stdout.buffer.write(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())

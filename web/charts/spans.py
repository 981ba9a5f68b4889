"""The one drawing as SVG: places in percent of its width, so that it fits any column without being stretched."""

from collections.abc import Iterable
from typing import Any, Final

from markupsafe import Markup, escape

from registry.verdicts.spans import Part, Span, span_of

HEIGHT: Final = 18
"""In pixels; the marks have their sizes whatever the width."""
_MIDDLE: Final = HEIGHT / 2


def span_svg(span: Span | None, classes: str = "span") -> Markup:
    """A span as an image with its words as alternative text; empty for None. Its looks are in board.css."""
    if span is None:
        return Markup()
    words = escape(span.words)
    return Markup(  # noqa: S704 - of numbers, and of words that are escaped
        f'<svg class="{classes}" width="100%" height="{HEIGHT}" role="img" aria-label="{words}">'
        f"<title>{words}</title>{marks(span)}</svg>"
    )


def marks(span: Span) -> str:
    """What is drawn, within an `svg` of HEIGHT pixels and any width."""
    drawn = []
    if span.missing:
        drawn.append(_box("unread", 1 - span.missing, 1, 2, HEIGHT - 4))
    drawn += [_part(part) for part in span.parts]
    if span.interval is not None:
        drawn.append(_box("interval", *span.interval, _MIDDLE - 1, 2))
    if span.guessing is not None:
        drawn.append(f'<line class="guess" x1="{_at(span.guessing)}" x2="{_at(span.guessing)}" y2="{HEIGHT}"/>')
    if span.dot is not None:
        drawn.append(f'<circle cx="{_at(span.dot)}" cy="{_MIDDLE:g}" r="4.5"/>')
    return "".join(drawn)


def _alone(**given: Any) -> Span:
    """A drawing with nothing but these marks."""
    nothing = {"dot": None, "interval": None, "parts": (), "guessing": None, "missing": 0.0, "level": "", "words": ""}
    return Span(**(nothing | given))


_LEGEND: Final[dict[str, tuple[str, Span]]] = {
    "dot": ("accuracy as printed", _alone(dot=0.5)),
    "order": ("lost to the {}", _alone(parts=(Part("order", 0, 1),))),
    "chance": ("lost by asking again", _alone(parts=(Part("chance", 0, 1),))),
    "either": ("perhaps lost to the {}", _alone(parts=(Part("either", 0, 1),))),
    "range": ("right in every {0} … in some {0}", _alone(parts=(Part("range", 0, 1),))),
    "interval": ("95 % interval, no other {} asked", _alone(dot=0.5, interval=(0, 1))),
    "guessing": ("guessing", _alone(guessing=0.5)),
    "unread": ("missing answers", _alone(missing=1.0)),
}
"""Mark to what it means, and a drawing of it alone."""


def span_legend(spans: Iterable[Span]) -> list[tuple[Markup, str]]:
    """The marks that these spans have, each with what it means; what several axes vary is called a prompt.

    Without a word, a range that reaches below what the order takes would be read as the order's cost.
    """
    spans, found = list(spans), set[str]()
    levels = {span.level for span in spans}
    level = levels.pop() if len(levels) == 1 else "prompt"
    for span in spans:
        found.update(part.kind for part in span.parts)
        marks = {"dot": span.dot, "interval": span.interval, "guessing": span.guessing, "unread": span.missing or None}
        found.update(name for name, value in marks.items() if value is not None)
    inside = {"range": ", chance included"} if any(map(_chance_inside, spans)) else {}
    return [
        (_key(span), words.format(level) + inside.get(name, ""))
        for name, (words, span) in _LEGEND.items()
        if name in found
    ]


def _chance_inside(span: Span) -> bool:
    """Whether the range begins below what is said to be lost."""
    ends = [part.low for part in span.parts if part.kind == "range"]
    lost = [part.low for part in span.parts if part.kind != "range"]
    return span.dot is not None and any(low < min((span.dot, *lost)) - 1e-9 for low in ends)


def _key(span: Span) -> Markup:
    width = 32 if span.parts or span.interval or span.missing else 12
    return Markup(f'<svg class="span alone" width="{width}" height="{HEIGHT}" aria-hidden="true">{marks(span)}</svg>')  # noqa: S704


def _part(part: Part) -> str:
    if part.kind == "range":
        ends = "".join(f'<line class="end" x1="{_at(x)}" x2="{_at(x)}" y1="4" y2="14"/>' for x in (part.low, part.high))
        return _box("range", part.low, part.high, _MIDDLE - 2, 4) + ends
    if part.kind == "chance":
        # Stripes as a dashed line: a pattern would need a name that is unique on the page.
        return f'<line class="chance" x1="{_at(part.low)}" x2="{_at(part.high)}" y1="{_MIDDLE:g}" y2="{_MIDDLE:g}"/>'
    return _box(part.kind, part.low, part.high, _MIDDLE - 5, 10)


def _box(name: str, low: float, high: float, top: float, height: float) -> str:
    return (
        f'<rect class="{name}" x="{_at(low)}" y="{top:g}" width="{100 * max(0.0, high - low):.2f}%" '
        f'height="{height:g}"/>'
    )


def _at(value: float) -> str:
    return f"{100 * value:.2f}%"


SPANS: Final = {"span_of": span_of, "span_svg": span_svg, "span_legend": span_legend}
"""What templates draw with."""

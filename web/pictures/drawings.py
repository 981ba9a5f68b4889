"""Badges and cards as SVG: pure functions from what they say to a document."""

from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from registry.verdicts.spans import Span
from web.charts.spans import marks, span_legend
from web.pictures.child import lines
from web.shown.headlines import Badge, Card, Line

FONT: Final = "'Liberation Sans', Arial, Helvetica, 'Noto Sans', sans-serif"
CARD: Final = (1200, 630)
"""Width and height of a card, in pixels: what networks crop least."""


def badge_svg(badge: Badge) -> str:
    """A badge, 20 pixels high, with its sentence as the accessible title."""
    left, right = _width(badge.label) + 12, _width(badge.text) + 12
    # Both with at least 4.5:1 to the white letters.
    colour = "#1d4f91" if badge.stated else "#6b4f1d"
    texts = "".join(
        f'<text x="{x + width / 2:.1f}" y="14" textLength="{width - 12}" lengthAdjust="spacingAndGlyphs">'
        f"{escape(text)}</text>"
        for x, width, text in ((0, left, badge.label), (left, right, badge.text))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f"aria-label={quoteattr(badge.title)}><title>{escape(badge.title)}</title>"
        f'<clipPath id="round"><rect width="{left + right}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#round)"><rect width="{left}" height="20" fill="#4a4f57"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/></g>'
        f'<g fill="#fff" text-anchor="middle" font-family="Verdana, {escape(FONT)}" font-size="11">{texts}</g></svg>\n'
    )


def _width(text: str) -> int:
    """About how wide Verdana sets a text at 11 pixels; `textLength` makes it exact."""
    narrow, wide = "fijlrtI.,:;!|' \u202f", "mwMW%±@"
    return round(sum(4.2 if sign in narrow else 10.5 if sign in wide else 7 for sign in text))


def card_svg(card: Card, colours: dict[str, str], host: str) -> str:
    """A card of 1200 × 630 pixels."""
    width, height = CARD
    title = lines(card.title, 40, most=2)
    parts = [_looks(colours), f'<rect width="{width}" height="{height}" fill="{colours["ground"]}"/>']
    parts.append(f'<rect width="{width}" height="12" fill="{colours["lost"]}"/>')
    y = 56
    for line in title:
        y += 60
        parts.append(_text(60, y, line, 52, colours["ink"], weight=700))
    y += 8
    for line in lines(card.subtitle, 82, most=2):
        y += 38
        parts.append(_text(60, y, line, 27, colours["quiet"]))
    y += 26
    legend = _legend([line.span for line in card.lines if line.span is not None and _has_room(line)], colours)
    step = min(96.0, (height - (134 if legend else 84) - y) / max(1, len(card.lines)))
    for place, stated in enumerate(card.lines):
        parts += _line(stated, y + step * (place + 0.5), colours)
    parts += legend
    foot = "How much of the score survives a shuffle?"
    parts.append(_text(60, height - 32, foot, 24, colours["quiet"]))
    parts.append(_text(width - 60, height - 32, host, 24, colours["quiet"], anchor="end"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{"".join(parts)}</svg>'
    )


def _line(line: Line, y: float, colours: dict[str, str]) -> list[str]:
    parts = []
    wide = False
    if line.span is not None and _has_room(line):
        wide, across, left = True, 400, 470
        parts.append(f'<line x1="{left}" x2="{left + across}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colours["line"]}"/>')
        parts.append(
            f'<svg class="span" x="{left}" y="{y - 14.4:.1f}" width="{across}" height="28.8" viewBox="0 0 250 18">'
            f"{marks(line.span)}</svg>"
        )
    label, *_ = lines(line.label, 25 if wide else 38, most=1) or [""]
    parts.append(_text(60, y + 10, label, 29, colours["ink"]))
    parts.append(_text(1140, y + 10, lines(line.text, 40, most=1)[0], 29, colours["ink"], weight=700, anchor="end"))
    return parts


def _has_room(line: Line) -> bool:
    """Whether the text leaves room for a drawing."""
    return len(line.text) < 17


def _legend(spans: Sequence[Span], colours: dict[str, str]) -> list[str]:
    """What the marks mean, in up to two rows above the foot."""
    parts, x, y = [], 60.0, CARD[1] - 112.0
    for mark, words in span_legend(spans):
        across = 66 + 8.6 * len(words)
        if x + across > CARD[0] - 40:
            x, y = 60.0, y + 28
        parts.append(f'<g class="span" transform="translate({x:.1f} {y - 14:.1f})">{mark}</g>')
        parts.append(_text(x + 40, y, words, 19, colours["quiet"]))
        x += across
    return parts


def _looks(colours: dict[str, str]) -> str:
    """How the marks of a drawing look, as on pages."""
    return (
        f"<style>.range{{fill:{colours['mass']};opacity:.45}}.end{{stroke:{colours['mass']}}}"
        f".order{{fill:{colours['lost']}}}.chance{{stroke:{colours['mass']};stroke-width:10;stroke-dasharray:2 2}}"
        f".either{{fill:{colours['ground']};stroke:{colours['quiet']}}}.interval,.span circle{{fill:{colours['kept']}}}"
        f".guess{{stroke:{colours['ink']};stroke-dasharray:3 3}}.unread{{fill:{colours['quiet']};opacity:.3}}</style>"
    )


def _text(x: float, y: float, text: str, size: int, colour: str, *, weight: int = 400, anchor: str = "start") -> str:
    return (
        f'<text x="{x}" y="{y:.1f}" font-family="{escape(FONT)}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
    )

"""Draws a span of accuracies as SVG, with positions in percent of its width, so that it fits any column."""

from collections.abc import Collection, Iterable
from typing import Any, Final

from markupsafe import Markup, escape

from registry.verdicts.spans import Span, meaning_of_dot, span_of

HEIGHT: Final = 18
"""Height in pixels; the marks have the same size at any width."""
VISIBLE: Final = 0.01
"""Length from which a part is visible: shorter ones are behind the dot or the tick of 3 pixels at their end."""
_MIDDLE: Final = HEIGHT / 2


def span_svg(span: Span | None, classes: str = "span") -> Markup:
    """Draw a span as an image with its words as alternative text; empty for None. board.css styles it."""
    if span is None:
        return Markup()
    words = escape(span.words)
    return Markup(  # noqa: S704 - of numbers, and of words that are escaped
        f'<svg class="{classes}" width="100%" height="{HEIGHT}" role="img" aria-label="{words}">'
        f"<title>{words}</title>{_marks(span)}</svg>"
    )


def _marks(span: Span) -> str:
    """Draw a span, within an `svg` of HEIGHT pixels and any width."""
    drawn = []
    if span.interval is not None:
        drawn.append(_box("interval", *span.interval, 2))
    if span.two is not None:
        if span.same is None:
            drawn.append(_line(span.two, span.right))
        else:
            drawn.append(_box("chance", span.same, span.right, 8))
            drawn.append(_box("order", span.two, span.same, 8) if span.clear else _line(span.two, span.same))
            drawn.append(_tick("same", span.same))
        drawn.append(_tick("two", span.two))
    if span.guessing is not None:
        drawn.append(_tick("guess", span.guessing, 0))
    drawn.append(f'<circle cx="{_percent(span.right)}" cy="{_MIDDLE:g}" r="4.5"/>')
    return "".join(drawn)


_LEGEND: Final = (
    ("right", f'<circle cx="50%" cy="{_MIDDLE:g}" r="4.5"/>'),
    ("lost to chance", f'<rect class="chance" width="100%" y="{_MIDDLE - 4:g}" height="8"/>'),
    ("lost to the {}", f'<rect class="order" width="100%" y="{_MIDDLE - 4:g}" height="8"/>'),
    ("guessing", f'<line class="guess" x1="50%" x2="50%" y2="{HEIGHT}"/>'),
)
"""Entries of the legend, each with its mark."""
_UNSEPARATED: Final = (
    "lost to chance or the {}",
    f'<rect class="unknown" width="100%" y="{_MIDDLE - 0.75:g}" height="1.5"/>',
)
"""Entry for losses that the drawing cannot separate, or that no test attributes to the order."""
_ASKED_ONCE: Final = (
    "right, asked in one {}",
    f'<rect class="interval" width="100%" y="{_MIDDLE - 1:g}" height="2"/><circle cx="50%" cy="{_MIDDLE:g}" r="4.5"/>',
)
"""Entry for a dot with its interval, if other dots are means."""


def span_legend(spans: Iterable[Span]) -> list[tuple[Markup, str]]:
    """Return the marks that can be seen in these spans, each with its meaning.

    If several parts of prompts vary, all are called prompts. If the dots are means, a dot of one order has its own
    entry, and guessing is said to be for the dot, since right in two orders is below it for other reasons.
    """
    spans = list(spans)
    level = _level_of(spans)
    dot, *losses, guessing = _LEGEND
    means = mean_right(spans)
    shown = [(means or dot[0], dot[1])]
    shown += [_ASKED_ONCE] if means and any(span.two is None for span in spans) else []
    to_chance, to_order = losses
    shown += [to_chance] if any(span.same is not None and span.right - span.same >= VISIBLE for span in spans) else []
    shown += [to_order] if any(span.clear for span in spans) else []
    shown += [_UNSEPARATED] if any(span.unseparated >= VISIBLE for span in spans) else []
    guessing = (f"{guessing[0]}, for the dot" if means else guessing[0], guessing[1])
    return [(_key(drawn), words.format(level)) for words, drawn in [*shown, guessing] if spans]


def _key(drawn: str) -> Markup:
    width = 32 if "width=" in drawn else 12
    return Markup(f'<svg class="span alone" width="{width}" height="{HEIGHT}" aria-hidden="true">{drawn}</svg>')  # noqa: S704


def _tick(name: str, value: float, top: float = 3) -> str:
    return f'<line class="{name}" x1="{_percent(value)}" x2="{_percent(value)}" y1="{top:g}" y2="{HEIGHT - top:g}"/>'


def _box(name: str, low: float, high: float, height: float) -> str:
    return (
        f'<rect class="{name}" x="{_percent(low)}" y="{_MIDDLE - height / 2:g}" '
        f'width="{100 * max(0.0, high - low):.2f}%" height="{height:g}"/>'
    )


def _line(low: float, high: float) -> str:
    """Draw a loss without a known cause."""
    return _box("unknown", low, high, 1.5)


def _percent(value: float) -> str:
    return f"{100 * min(1.0, max(0.0, value)):.2f}%"


def mean_right(spans: Collection[Span]) -> str | None:
    """Return the meaning of the dots, such as "right, mean over orders"; None if no span is over several orders."""
    return meaning_of_dot(_level_of(spans)) if any(span.two is not None for span in spans) else None


def column_of_dots(spans: Collection[Span], metrics: Collection[str]) -> str | None:
    """Return the name of the column with the dots' numbers; None if they are in a column of `metrics`."""
    return None if "average_accuracy" in metrics else mean_right(spans)


def _level_of(spans: Collection[Span]) -> str:
    levels = {span.level for span in spans}
    return levels.pop() if len(levels) == 1 else "prompt"


SPANS: Final[dict[str, Any]] = {
    "span_of": span_of,
    "span_svg": span_svg,
    "span_legend": span_legend,
}
"""Functions for templates."""

"""Differences of two evaluations as SVG, a line per metric on one scale around zero."""

from collections.abc import Iterable
from typing import Any, Final

from markupsafe import Markup

from registry.schema.selectables import Row

HEIGHT: Final = 18
"""Height in pixels."""
_EDGES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Possible ends of the scale, as fractions; the first that fits all intervals is used."""


def reach(rows: Iterable[Row]) -> float:
    """Return the end of the scale for these differences. rows: `difference` and `interval`, either may be None."""
    values = [
        abs(value) for row in rows for value in (row["difference"], *(row["interval"] or ())) if value is not None
    ]
    return next(edge for edge in _EDGES if edge >= max(values, default=0.0) or edge == _EDGES[-1])


def difference_svg(row: Row, edge: float) -> Markup:
    """Draw a difference as a dot in its interval, right of the middle if it is positive. edge: end of the scale."""
    drawn = '<line class="zero" x1="50%" x2="50%" y2="18"/>'
    if row["interval"]:
        low, high = (_at(end, edge) for end in row["interval"])
        drawn += f'<rect class="interval" x="{low:.2f}%" width="{high - low:.2f}%" y="7" height="4"/>'
    if row["difference"] is not None:
        drawn += f'<circle cx="{_at(row["difference"], edge):.2f}%" cy="{HEIGHT / 2:g}" r="4.5"/>'
    return Markup(f'<svg class="span" width="100%" height="{HEIGHT}" aria-hidden="true">{drawn}</svg>')  # noqa: S704


def _at(value: float, edge: float) -> float:
    """Return the place of a difference, in percent of the width."""
    return 50 + 50 * max(-1.0, min(1.0, value / edge))


DIFFERENCES: Final[dict[str, Any]] = {"difference_svg": difference_svg}
"""Functions for templates."""

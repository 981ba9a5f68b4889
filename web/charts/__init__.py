"""Charts as Vega-Lite specifications: pure functions over rows. web/static/charts.js draws them in the browser.

Colours are the page's custom properties, so that a chart follows the light or dark scheme without being redrawn. A
chart is never the only place for its numbers: the page also has a table of them.
"""

from web.charts.answers import PART_METRICS, adversarial, flip_bins, flips, history, parts, positions
from web.charts.drawing import Chart
from web.charts.moved import SPREAD_COLUMNS, answer_moving, spread
from web.charts.orders import SHARES, bmca_curve, noise, shuffles
from web.charts.subsets import agreement

__all__ = [
    "PART_METRICS",
    "SHARES",
    "SPREAD_COLUMNS",
    "Chart",
    "adversarial",
    "agreement",
    "answer_moving",
    "bmca_curve",
    "flip_bins",
    "flips",
    "history",
    "noise",
    "parts",
    "positions",
    "shuffles",
    "spread",
]

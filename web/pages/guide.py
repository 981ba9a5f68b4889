"""The page with the guide to the metrics: formulas as MathML, texts with their links."""

import re
from functools import cache
from typing import Any, Final, Literal

from flask import render_template
from flask.typing import ResponseReturnValue
from latex2mathml.converter import convert
from markupsafe import Markup, escape

from registry.metrics import METRICS, guide
from registry.metrics.catalogue import FAMILIES
from registry.metrics.examples import DATASETS
from registry.metrics.papers import PAPERS
from web.pages.blueprint import blueprint
from web.urls.parameters import DEFAULT_METRICS

ANCHORS: Final = frozenset({*METRICS, *(comparison.name for comparison in guide.BETWEEN)})
"""Names that have a section in the guide."""

_FUNCTION_NAME: Final = re.compile(r"<mi>(?:log|exp)</mi>|<msub><mi>log</mi>.*?</msub>")
_NAME: Final = re.compile(r"<mtext>(?!&#x000A0;)(.*?)</mtext>")
_CODE: Final = re.compile(r"`([^`]+)`")


@cache
def mathml(latex: str, display: Literal["block", "inline"] = "block") -> Markup:
    """Convert a formula to MathML, which browsers render without scripts or styles. Cached for the process."""
    # Names are identifiers. As text they would count as blanks, and an operator between blanks gets no spacing.
    named = _NAME.sub(r"<mi>\1</mi>", convert(latex, display=display))
    # TeX sets a thin space after a function's name; the converter does not.
    spaced = _FUNCTION_NAME.sub(lambda match: f'{match[0]}<mspace width="0.167em" />', named)
    return Markup(spaced)  # noqa: S704 - the formulas are our own constants


def prose(text: str) -> Markup:
    """Render a text of the guide: backticks become code, and names of metrics become links."""

    def code(match: re.Match[str]) -> str:
        element = f"<code>{match[1]}</code>"
        return f'<a href="#{match[1]}">{element}</a>' if match[1] in ANCHORS else element

    return Markup(_CODE.sub(code, str(escape(text))))  # noqa: S704 - escaped on this line


CONTEXT: Final[dict[str, Any]] = {
    "families": FAMILIES,
    "headlines": [metric for family in FAMILIES for metric in family.metrics if metric.name in DEFAULT_METRICS],
    "between": guide.BETWEEN,
    "between_text": guide.BETWEEN_TEXT,
    "guessing": guide.GUESSING,
    "above_chance": guide.ABOVE_CHANCE,
    "intervals": guide.INTERVALS,
    "notation": guide.NOTATION,
    "datasets": DATASETS,
    "papers": PAPERS,
    "range_text": guide.range_text,
    "mathml": mathml,
    "prose": prose,
}
"""Variables for the page's template."""


@blueprint.get("/metrics-guide")
def metrics_guide() -> ResponseReturnValue:
    """Show every metric: formula, range, source, needs, a worked example, and how others compute it differently."""
    return render_template("metrics_guide.html", **CONTEXT)

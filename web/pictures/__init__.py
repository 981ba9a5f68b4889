"""Charts and previews as pictures of their own, SVG or PNG, drawn on the server.

A chart is drawn by the same Vega-Lite specification as on its page, with the style sheet's colours in place of their
names. Each picture is drawn by a process of its own, bounded in time and memory, and kept.
"""

import json
import re
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Final, Literal

from flask import current_app, has_request_context
from werkzeug.exceptions import ServiceUnavailable, TooManyRequests

from registry.digests import sha256_text
from registry.errors import UsageError
from registry.places import BusyError, Places, count_places
from web.charts import Chart
from web.pictures.child import CPU_SECONDS, Order
from web.pictures.page import Drawing, coloured
from web.serving.cache import OfSealed
from web.who.identity import client

Form = Literal["svg", "png"]
KINDS: Final[dict[str, str]] = {"svg": "image/svg+xml", "png": "image/png"}
MOST_SPECIFICATION: Final = 4 * 2**20
"""Bytes of a chart's specification."""
_PLACES: Final = Places("pictures", at_once=count_places(), of_a_client=2, of_all=2 * count_places())
"""Pictures that a host has drawn at the same time; as many may wait, each in a thread of the server."""
WAIT_SECONDS: Final = 5.0
"""How long a picture waits for others."""

_CHILD: Final = Path(__file__).with_name("child.py")
_STYLES: Final = Path(__file__).parent.parent / "static" / "board.css"
_drawn: Final[OfSealed[bytes]] = OfSealed(48)


@cache
def palette(*, dark: bool) -> dict[str, str]:
    """The style sheet's custom colours by name, in the light or the dark scheme."""
    found: dict[str, str] = {}
    colour = r"#[0-9a-fA-F]{3,8}"
    both = re.compile(rf"--([a-z-]+):\s*(?:light-dark\(\s*({colour})\s*,\s*({colour})\s*\)|({colour}))")
    # Where the schemes have blocks of their own, the dark one comes second.
    for name, light, in_dark, alone in both.findall(_STYLES.read_text(encoding="utf-8")):
        if dark or name not in found:
            found[name] = alone or (in_dark if dark else light)
    return found


def of_chart(chart: Chart | Drawing, form: Form, *, title: str, source: str, dark: bool) -> bytes:
    """A chart of a page as a picture. source: the line below it.

    Raises UsageError for a chart that is too large, ServiceUnavailable when it could not be drawn in time.
    """
    colours = palette(dark=dark)
    order: Order = {
        "form": form,
        "title": title,
        "description": chart.label,
        "source": source,
        "colours": {name: colours[name] for name in ("ink", "quiet", "panel")},
    }
    if isinstance(chart, Chart):
        spec = coloured(chart.spec, colours)
        size, order["chart"] = len(spec), json.loads(spec)  # noqa: TID251 - our own
    else:
        order["drawing"] = f"<style>{coloured(chart.style, colours)}</style>{chart.svg}"
        size = len(order["drawing"])
    if size > MOST_SPECIFICATION:
        raise UsageError("this chart is too large for a picture; narrow the page it is on, or take its table")
    return drawn(order)


def drawn(order: Order) -> bytes:
    """What an order amounts to; from memory if it was drawn lately."""
    return _drawn.get(sha256_text(json.dumps(order, sort_keys=True)), lambda: _draw(order))


def _turn() -> AbstractContextManager[object]:
    return _PLACES.take(client(), WAIT_SECONDS)


def _draw(order: Order) -> bytes:
    """The picture of an order. Raises TooManyRequests where too many are being drawn."""
    try:
        with _turn() if has_request_context() else nullcontext():
            done = subprocess.run(  # noqa: S603 - our own file, in isolation
                [sys.executable, "-I", str(_CHILD)],
                input=json.dumps(order).encode(),
                capture_output=True,
                timeout=2 * CPU_SECONDS,
                check=False,
            )
    except BusyError as error:
        raise TooManyRequests(str(error), retry_after=2) from None
    except subprocess.TimeoutExpired:
        raise ServiceUnavailable("the picture took too long; the page has its table", retry_after=60) from None
    if done.returncode or not done.stdout:
        reason = done.stderr.decode("utf-8", "replace").strip() or f"status {done.returncode}"
        current_app.logger.error("a picture was not drawn: %s", reason)
        raise ServiceUnavailable("the picture could not be drawn; the page has its table", retry_after=60)
    return done.stdout

"""The frame of every page: the menu, the colour scheme that the visitor chose, and the footer."""

from dataclasses import dataclass
from typing import Any, Final

from flask import Blueprint, Flask, redirect, request
from flask.typing import ResponseReturnValue

from registry.code_identity import code_identity
from registry.settings import Settings
from web.urls import links, parameters
from web.who.identity import find_shown_viewer

blueprint = Blueprint("frame", __name__)

THEMES: Final = {"light": "Light", "dark": "Dark", "system": "System"}
"""Colour scheme → label. `system` follows the browser, and is the default without a cookie."""
COOKIE: Final = "shuffleboard_theme"
_YEAR_S: Final = 365 * 24 * 3600


@dataclass(frozen=True)
class Place:
    """An entry of the menu. below: endpoints of its subpages; scope: the scope needed to see it."""

    endpoint: str
    label: str
    below: tuple[str, ...] = ()
    scope: str = "read"

    @property
    def current(self) -> str | None:
        """Return the value of its `aria-current`: `page` on its own page, `true` on a subpage."""
        return "page" if request.endpoint == self.endpoint else "true" if request.endpoint in self.below else None


MENU: Final = {
    "Results": (
        Place("pages.leaderboard", "Leaderboard"),
        Place(
            "boards.boards",
            "Boards",
            ("boards.board", "boards.snapshot", "own.own", "pairs.pairs", "tradeoffs.tradeoffs"),
        ),
        Place("overview.overview", "Overview"),
        Place("pages.models", "Models", ("pages.model",)),
        Place(
            "pages.benchmarks",
            "Benchmarks",
            ("pages.benchmark", "comparing.answer_moving"),
        ),
        Place("comparing.compare", "Compare"),
        Place("pages.metrics_guide", "Metrics"),
    ),
    "Work": (
        Place("submitting.submit", "Submit", scope="submit"),
        Place("pages.queue", "Queue", scope="submit"),
        Place("submitting.submissions", "Submissions", ("submitting.submission",), scope="maintain"),
    ),
    "Administration": (
        Place("administration.accounts_page", "Accounts", ("administration.account_page",), scope="admin"),
        Place("administration.audit", "Audit trail", scope="admin"),
    ),
}
"""All pages of the menu, by group. Visitors see only the first group, with seven pages; the footer has the rest."""
BAR: Final = MENU["Results"][:-1]
"""Entries that a wide window also shows next to the menu."""


def menu() -> dict[str, list[Place]]:
    """Return the groups and entries that the viewer may see."""
    shown = {
        group: [place for place in places if find_shown_viewer().may(place.scope)] for group, places in MENU.items()
    }
    return {group: places for group, places in shown.items() if places}


def theme() -> str:
    """Return the colour scheme that this browser chose."""
    chosen = request.cookies.get(COOKIE, "")
    return chosen if chosen in THEMES else "system"


@blueprint.get("/theme")
def choose_theme() -> ResponseReturnValue:
    """Store the colour scheme in a cookie and return to the page."""
    chosen = parameters.choice(request.args, "theme", THEMES, "system")
    response = redirect(links.safe_target(request.args.get("next")), 303)
    if chosen == "system":
        response.delete_cookie(COOKIE)
    else:
        response.set_cookie(COOKIE, chosen, max_age=_YEAR_S, secure=request.is_secure, samesite="Lax")
    return response


def install(app: Flask, settings: Settings) -> None:
    """Give the templates the variables of the frame."""
    variables: dict[str, Any] = {
        "menu": menu,
        "BAR": BAR,
        "THEMES": THEMES,
        "theme": theme,
        "return_path": links.return_path,
        "code_identity": code_identity,
        "documentation_url": settings.documentation_url,
        "source_url": settings.source_url,
    }
    app.jinja_env.globals.update(variables)

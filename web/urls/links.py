"""Parameters of the leaderboard in URLs, links that keep them, and the return to a page."""

from dataclasses import fields
from typing import Any, Final
from urllib.parse import quote, urlsplit

from flask import request, url_for

from registry.leaderboard.rows import SORTS, Ordering, default_sort, natural_order
from registry.leaderboard.selection import Selection
from web.urls import parameters
from web.urls.parameters import Arguments

FILTERS: Final = ("benchmark", "variants", "protocol", "shots", "model", "q")
"""Filters on the pages of a model and a benchmark; the leaderboard has these and more."""
SELECTION: Final = tuple(field.name for field in fields(Selection))
"""Filters of the leaderboard: the same as in the API."""
ORDERING: Final = ("sort", "order", "group", "above_chance")
"""The leaderboard's parameters besides filters and metrics: the same as in the API."""
LOOKS: Final = ("pin", "density", "chart")
"""Parameters for the look of the leaderboard's page; no number depends on them."""
PARAMETERS: Final = frozenset(
    {
        *SELECTION,
        *ORDERING,
        *("metric", "metrics", "page", "per_page", "published", "as_of"),
        *LOOKS,
        *(
            "only",
            "place",
            "open",
            "noise_from",
            "version",
            "number",
            "like",
            "left",
            "right",
            "by",
            "against",
            "choose",
        ),
    }
)
"""Query parameters that links to other forms of a page keep; unknown ones are dropped."""


def read_ordering(arguments: Arguments) -> Ordering:
    """Return the order in a query string. Raises UsageError for an invalid value."""
    chosen = parameters.metrics(arguments)
    sort = parameters.choice(arguments, "sort", SORTS, default_sort(chosen))
    return Ordering(
        chosen,
        sort,
        parameters.choice(arguments, "order", ("asc", "desc"), natural_order(sort)),
        parameters.choice(arguments, "group", ("yes", "no"), "yes") == "yes",
        parameters.choice(arguments, "above_chance", ("yes", "no"), "no") == "yes",
    )


def read_filters(arguments: Arguments, **given: str) -> Selection:
    """Return the selection by FILTERS in a query string. given: values from the path."""
    filters: dict[str, Any] = {key: value for key in FILTERS if (value := parameters.text(arguments, key)) is not None}
    if "shots" in filters:
        filters["shots"] = parameters.whole(arguments, "shots", 0, 0, 1000)
    return Selection(**filters | given)


def there(endpoint: str, **changes: Any) -> str:
    """Return the URL of the same part of the leaderboard at another endpoint, with some parameters changed."""
    kept = {key: value for key, value in request.args.items() if key in SELECTION or key in ORDERING}
    if any(request.args.getlist("metrics")):
        kept["metrics"] = ",".join(parameters.metrics(request.args))
    query = {key: value for key, value in (kept | changes).items() if value not in (None, "")}
    return url_for(endpoint, **query)


def here(**changes: Any) -> str:
    """Return this page's URL with some parameters changed, on the first page of its list. None removes a parameter."""
    kept: dict[str, Any] = {key: values for key, values in request.args.lists() if key not in ("page", *changes)}
    for key in ("metrics", "pin"):
        listed = request.args.getlist(key)
        if len(listed) > 1 and key not in changes:
            kept[key] = ",".join(listed)
    set_parameters = {key: value for key, value in changes.items() if value is not None}
    # Names in the query string must not be mistaken for parts of the path or for url_for's own arguments.
    query = {key: value for key, value in (kept | set_parameters).items() if key in PARAMETERS}
    assert request.endpoint is not None
    return url_for(request.endpoint, **{**(request.view_args or {}), **query})


def return_path() -> str:
    """Return the address to return to, such as after signing in: this page, or else the leaderboard."""
    # The address to which a provider sends browsers back works only once, and contains a code.
    if request.method != "GET" or request.blueprint == "sign_on":
        return url_for("pages.leaderboard")
    query = request.query_string.decode("ascii", "replace")
    return quote(request.path) + (f"?{query}" if query else "")


def safe_target(target: str | None) -> str:
    """Return `target` if it is a path on this site; otherwise the leaderboard's path."""
    home = url_for("pages.leaderboard")
    if not target or not target.startswith("/") or target.startswith("//"):
        return home
    # Browsers read a backslash as a slash, and ignore tabs and line ends.
    if "\\" in target or not target.isprintable():
        return home
    parts = urlsplit(target)
    return home if parts.scheme or parts.netloc else target

"""What a URL asks of the leaderboard."""

from typing import Any, Final

from registry.results.leaderboard import SORTS, Ordering, Selection, default_sort, natural_order
from registry.results.selectables import Row
from web import parameters
from web.parameters import Arguments

FILTERS: Final = ("benchmark", "variants", "protocol", "shots", "model", "q")
"""What a model's and a benchmark's own page can be narrowed by; the leaderboard by these and more."""
ARGUMENTS: Final = (*FILTERS, "sort", "order", "metrics", "group", "page", "per_page")


def read_ordering(arguments: Arguments) -> Ordering:
    """The order in a query string. Raises UsageError for a value that cannot be right."""
    chosen = parameters.metrics(arguments)
    sort = parameters.choice(arguments, "sort", SORTS, default_sort(chosen))
    return Ordering(
        chosen,
        sort,
        parameters.choice(arguments, "order", ("asc", "desc"), natural_order(sort)),
        parameters.choice(arguments, "group", ("yes", "no"), "yes") == "yes",
    )


def read_filters(arguments: Arguments, **given: str) -> Selection:
    """The selection that a query string makes by FILTERS; given: what the path says already."""
    asked: dict[str, Any] = {key: value for key in FILTERS if (value := parameters.text(arguments, key)) is not None}
    if "shots" in asked:
        asked["shots"] = parameters.whole(arguments, "shots", 0, 0, 1000)
    return Selection(**asked | given)


def moves_answers(row: Row) -> bool:
    """Whether a row is under answer-moving variants, whatever their parameters."""
    return bool(row["variants"].partition(":")[0] == "answer-moving")

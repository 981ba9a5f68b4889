"""Routes of the API with all that is documented of them: what they read, what they answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

from flask import Blueprint, Response, jsonify, make_response, request, url_for

from web import parameters
from web.api.arguments import Argument
from web.views import Row

blueprint = Blueprint("api", __name__, url_prefix="/api/v1")

View = Callable[..., Response]


@dataclass(frozen=True)
class Operation:
    """A GET of the API. answers: the type of its document, of registry.documents. paged: it has a Link header."""

    rule: str
    view: View
    answers: type
    query: Sequence[Argument[Any]]
    tag: str
    paged: bool

    @property
    def name(self) -> str:
        """Its operation id, and the endpoint within the blueprint."""
        return self.view.__name__


OPERATIONS: Final[list[Operation]] = []
"""Every operation, in the order of the document."""


def get(
    rule: str, answers: Any, *, tag: str, query: Sequence[Argument[Any]] = (), paged: bool = False
) -> Callable[[View], View]:
    """Registers a route of the API that answers GET (HEAD and OPTIONS come with it), and what is documented of it.

    The route refuses query parameters that are not among `query`. The view's docstring is the operation's description.
    """
    known = [argument.name for argument in query]

    def register(view: View) -> View:
        @wraps(view)
        def checked(**path: str) -> Response:
            parameters.only(request.args, known)
            return view(**path)

        blueprint.add_url_rule(rule, view.__name__, checked)
        OPERATIONS.append(Operation(rule, view, answers, query, tag, paged))
        return checked

    return register


def answer(document: Any, *, unchanging: bool = False) -> Response:
    """A document as JSON. unchanging: it can only change by being withdrawn, so clients may keep it for a day."""
    response = make_response(jsonify(document))
    if unchanging:
        response.headers["Cache-Control"] = "max-age=86400, immutable"
    return response


def page(
    items: Sequence[Row], total: int, number: int, size: int, *, unchanging: bool = False, **more: Any
) -> Response:
    """A list with its place in the whole, and the same as a Link header; `next` is null on the last page."""
    pages = max(1, -(-total // size))
    following = _address(page=number + 1, per_page=size) if number < pages else None
    document = {**more, "items": items, "total": total, "page": number, "per_page": size, "next": following}
    return linked(answer(document, unchanging=unchanging), number, pages, size)


def linked(response: Response, number: int, pages: int, size: int) -> Response:
    """The response with a Link header (RFC 8288) to the pages around this one."""
    around = {"first": 1, "prev": number - 1, "next": number + 1, "last": pages}
    links = [
        f'<{_address(page=other, per_page=size)}>; rel="{relation}"'
        for relation, other in around.items()
        if 1 <= other <= pages
    ]
    response.headers["Link"] = ", ".join(links)
    return response


def next_address(**changes: Any) -> str:
    """This request's address with some parameters changed."""
    return _address(**changes)


def _address(**changes: Any) -> str:
    assert request.endpoint is not None
    kept = {key: values for key, values in request.args.lists() if key not in changes}
    return url_for(request.endpoint, **{**kept, **(request.view_args or {}), **changes})

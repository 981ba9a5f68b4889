"""Routes of the API with all that is documented of them: what they read, what they take, what they answer."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NoReturn

from flask import Blueprint, Response, jsonify, make_response, request, url_for
from pydantic import BaseModel, ValidationError
from werkzeug.exceptions import BadRequest, UnprocessableEntity, UnsupportedMediaType
from werkzeug.utils import secure_filename

from registry.errors import UsageError
from web import parameters
from web.api.arguments import Argument
from web.identity import viewer
from web.views import Row

blueprint = Blueprint("api", __name__, url_prefix="/api/v1")

View = Callable[..., Response]

MAX_UPLOAD: Final = 64 * 1024 * 1024
"""Bytes of an uploaded file."""
MULTIPART_ROOM: Final = 64 * 1024
"""Bytes that a form may add to its files: names, boundaries."""
CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Upload:
    """A file as the body of a request, plain or in a form.

    types: content type of a plain body → the ending that stands for the same kind of file. optional: names of further
    files that a form may hold beside `file`.
    """

    types: Mapping[str, str]
    optional: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operation:
    """A route of the API. answers: the type of its document, of registry.api.documents; None: it answers nothing (204).

    scope: what a viewer must be able to do. body: the type of the JSON document that it takes. statuses: what it
    answers where nothing was wrong, with when. conflicts: whether it may answer 409. paged: it has a Link header.
    """

    rule: str
    view: View
    answers: Any
    query: Sequence[Argument[Any]]
    tag: str
    paged: bool
    method: str = "GET"
    scope: str = "read"
    body: type[BaseModel] | None = None
    upload: Upload | None = None
    statuses: Mapping[int, str] | None = None
    conflicts: bool = False

    @property
    def name(self) -> str:
        """Its operation id, and the endpoint within the blueprint."""
        return self.view.__name__


OPERATIONS: Final[list[Operation]] = []
"""Every operation, in the order of the document."""


def get(
    rule: str,
    answers: Any,
    *,
    tag: str,
    query: Sequence[Argument[Any]] = (),
    paged: bool = False,
    scope: str = "read",
) -> Callable[[View], View]:
    """Registers a route of the API that answers GET (HEAD and OPTIONS come with it), and what is documented of it.

    The route refuses viewers without the scope, and query parameters that are not among `query`. The view's docstring
    is the operation's description.
    """

    def register(view: View) -> View:
        return _register(Operation(rule, view, answers, query, tag, paged, scope=scope))

    return register


def change(
    method: str,
    rule: str,
    answers: Any,
    *,
    tag: str,
    scope: str,
    statuses: Mapping[int, str],
    body: type[BaseModel] | None = None,
    upload: Upload | None = None,
    query: Sequence[Argument[Any]] = (),
    conflicts: bool = False,
) -> Callable[[View], View]:
    """Registers a route that changes something. The view is given its checked `body`, or `files` by name.

    Keys that the body's type does not have are refused, as are query parameters that are not among `query`.
    """

    def register(view: View) -> View:
        return _register(
            Operation(rule, view, answers, query, tag, False, method, scope, body, upload, statuses, conflicts)
        )

    return register


def _register(operation: Operation) -> View:
    known = [argument.name for argument in operation.query]
    view = operation.view

    @wraps(view)
    def checked(**path: str) -> Response:
        viewer().require(operation.scope)
        parameters.only(request.args, known)
        for argument in operation.query:
            if argument.required and not request.args.get(argument.name):
                raise UsageError(f"parameter {argument.name!r} is missing; give it in the address")
        if operation.body is not None:
            return view(body=read_body(operation.body), **path)
        if operation.upload is not None:
            with _received(operation.upload) as files:
                return view(files=files, **path)
        return view(**path)

    blueprint.add_url_rule(operation.rule, view.__name__, checked, methods=[operation.method])
    OPERATIONS.append(operation)
    return checked


# What is sent


def read_body(kind: type[BaseModel]) -> Any:
    """The request's JSON document as `kind`.

    Answers 415 where it says to be something else than JSON, 400 where it is none, 422 where `kind` is otherwise.
    """
    if not request.is_json:
        raise UnsupportedMediaType(f"send JSON with Content-Type: application/json, not {_content_type()}")
    raw = request.get_data()
    try:
        document = json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise BadRequest("the body is no JSON document in UTF-8") from None
    for text in _texts(document):
        _check_text(text)
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        raise UnprocessableEntity(_first_problem(error, kind)) from None


def _content_type() -> str:
    return parameters.shorten(request.mimetype or "(none)")


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _texts(document: Any) -> Iterator[str]:
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value


def _check_text(text: str) -> None:
    """No database holds these."""
    if "\x00" in text:
        raise UnprocessableEntity("a text holds a NUL character; leave it out")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UnprocessableEntity("a text holds half a surrogate pair, which is not UTF-8; repair it") from None


def _first_problem(error: ValidationError, kind: type[BaseModel]) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"{place[:200]}: is no key here; known: {', '.join(kind.model_fields)}"
    message = first["msg"].removeprefix("Value error, ")
    return f"{place[:200]}: {message}" if place else message


@contextmanager
def _received(upload: Upload) -> Iterator[dict[str, Path]]:
    """The request's files in a folder of their own, by name: `file`, and what else a form holds; gone at the end."""
    request.max_content_length = MAX_UPLOAD + MULTIPART_ROOM
    # As many parts as there are names, and fields that are none of them small.
    request.max_form_parts = 1 + len(upload.optional) + 8
    with tempfile.TemporaryDirectory(prefix="shuffleboard-upload-") as folder:
        if request.mimetype == "multipart/form-data":
            yield _from_form(upload, Path(folder))
        elif request.mimetype in upload.types:
            path = Path(folder) / f"upload{upload.types[request.mimetype]}"
            request.max_content_length = MAX_UPLOAD
            with path.open("wb") as target:
                while chunk := request.stream.read(CHUNK):
                    target.write(chunk)
            yield {"file": path}
        else:
            listed = ", ".join([*upload.types, "multipart/form-data"])
            raise UnsupportedMediaType(f"send the file as one of {listed}, not {_content_type()}")


def _from_form(upload: Upload, folder: Path) -> dict[str, Path]:
    found = {}
    unknown = [name for name in (*request.files, *request.form) if name not in ("file", *upload.optional)]
    if unknown:
        raise UnprocessableEntity(f"{unknown[0][:100]!r}: is no field here; known: file, {', '.join(upload.optional)}")
    endings = tuple(dict.fromkeys(upload.types.values()))
    for name, file in request.files.items():
        shown = secure_filename(file.filename or "")[-100:]
        if not shown.endswith(endings):
            raise UnprocessableEntity(f"{name}: a file of another kind; its name must end in {' or '.join(endings)}")
        # A folder each: the names of two files may be the same.
        (folder / name).mkdir()
        found[name] = folder / name / shown
        file.save(found[name])
    if "file" not in found:
        raise UnprocessableEntity("file: is missing; send the file in a field of this name")
    return found


# What is answered


def answer(document: Any, *, unchanging: bool = False, status: int = HTTPStatus.OK) -> Response:
    """A document as JSON. unchanging: it can only change by being withdrawn, so clients may keep it for a day."""
    response = make_response(jsonify(document), int(status))
    if unchanging:
        response.headers["Cache-Control"] = "max-age=86400, immutable"
    return response


def nothing() -> Response:
    """An answer without a document: what was asked is done."""
    return Response(status=HTTPStatus.NO_CONTENT)


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

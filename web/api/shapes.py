"""Types of answers, made of what computes them: columns of the documented views and of statements, and other types.

Pydantic writes the schemas of the OpenAPI document from them. Nothing else needs them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from functools import reduce
from inspect import getmembers
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import Field
from sqlalchemy import Boolean, ColumnElement, Double, Float, Integer, Label, Numeric, Select, select
from typing_extensions import TypedDict

from registry.db import Digest as DigestColumn
from registry.db import DoubleArray, JsonDocument, SmallIntArray, UtcDateTime
from registry.schema.documented import columns_of
from registry.schema.selectables import view_of
from registry.statistics import bootstrap

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="SHA-256, hexadecimal.")]
Interval = Annotated[list[float], Field(min_length=2, max_length=2, description="Low and high of a 95 % interval.")]
RankInterval = Annotated[list[int], Field(min_length=2, max_length=2, description="Lowest and highest rank, 95 %.")]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]

_TYPES: tuple[tuple[Any, Any], ...] = (
    (Boolean, bool),
    (Integer, int),
    ((Double, Float, Numeric), float),
    (UtcDateTime, Time),
    (DigestColumn, Digest),
    (JsonDocument, dict[str, Any]),
    (SmallIntArray, list[int]),
    (DoubleArray, list[float]),
)


def said(of: Any, text: str) -> Any:
    """A type with what is said of it."""
    return Annotated[of, Field(description=text)]


def one_of(*names: str) -> Any:
    """The type of one of these texts."""
    return Annotated[str, Field(json_schema_extra={"enum": list(names)})]


def shape(name: str, text: str, /, *parts: Any, but: tuple[str, ...] = (), **keys: Any) -> Any:
    """The type of an object. text: what it is.

    parts: the name of a view, whose columns it has; a statement, likewise; a dataclass or another shape, whose keys it
    has; a table or class, with the names of some of its attributes; or types, each with the keys that have it.
    but: keys of these that it has not. keys: further ones, with their types.
    """
    found: dict[str, Any] = {}
    for part in parts:
        found |= _keys_of(part)
    made = TypedDict(name, {key: of for key, of in (found | keys).items() if key not in but})  # type: ignore[misc]
    made.__doc__ = text
    return made


def items(name: str, text: str, of: Any, /, *parts: Any, **keys: Any) -> Any:
    """The type of a list, whole, under the key `items`."""
    return shape(name, text, *parts, items=list[of], **keys)


def page(name: str, text: str, of: Any, /, *parts: Any, key: str = "items", **keys: Any) -> Any:
    """The type of a page of a list; see `web.api.operations.page`."""
    following = said(str | None, "The address of the next page; null on the last.")
    return shape(name, text, *parts, total=int, page=int, per_page=int, next=following, **keys | {key: list[of]})


def _keys_of(part: Any) -> dict[str, Any]:
    if isinstance(part, str):
        return dict(_of_view(part))
    if isinstance(part, tuple):
        of, names = part
        if hasattr(of, "__table__"):
            return _keys_of(select(*(getattr(of, name) for name in names)))
        return {name: _hints(of)[name] for name in names}
    if isinstance(part, Select):
        return dict(_of_statement(part))
    if isinstance(part, dict):
        return {key: of for of, keys in part.items() for key in keys.split()}
    if is_dataclass(part) or hasattr(part, "model_fields"):
        return {name: hint for name, hint in _hints(part).items() if name in part.__annotations__}
    return dict(part.__annotations__)


def _hints(of: type) -> dict[str, Any]:
    """Attribute of a class → its type, properties among them."""
    properties = getmembers(of, lambda value: isinstance(value, property))
    hints = get_type_hints(of) | {name: get_type_hints(value.fget)["return"] for name, value in properties}
    return {name: _as_json(hint) for name, hint in hints.items()}


def _as_json(hint: Any) -> Any:
    """The type that a value of this type has as JSON."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is datetime:
        return Time
    if isinstance(hint, type) and issubclass(hint, bootstrap.Interval):
        return Interval
    if origin in (Union, UnionType):
        return reduce(or_, map(_as_json, parts))
    return list[_as_json(parts[0])] if origin in (tuple, Sequence) else hint  # type: ignore[misc]


def _of_view(name: str) -> Iterator[tuple[str, Any]]:
    for column in view_of(name, whole=False).c:
        of = columns_of(name)[column.name]
        text = f"{of.meaning}: {of.summary}" if of.summary else f"{of.meaning}."
        yield column.name, said(_type(column.type, nullable=of.nullable), text)


def _of_statement(query: Select[Any]) -> Iterator[tuple[str, Any]]:
    """Whether a column may be NULL is known of columns of tables alone; of all others it is said by a key."""
    for column in query.selected_columns:
        element: ColumnElement[Any] = column.element if isinstance(column, Label) else column
        yield str(column.key), _type(column.type, nullable=bool(getattr(element, "nullable", False)))


def _type(of: Any, *, nullable: bool) -> Any:
    found = next((type_ for kind, type_ in _TYPES if isinstance(of, kind)), str)
    return found | None if nullable else found

"""Answers that have the columns of a documented SQL view."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, create_model
from sqlalchemy import Boolean, Double, Float, Integer, Numeric

from registry.db import Digest as DigestColumn
from registry.db import DoubleArray, JsonDocument, SmallIntArray, UtcDateTime
from registry.metrics import METRICS
from registry.schema.documented import columns_of as documented
from registry.schema.selectables import view_of

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="SHA-256, hexadecimal.")]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]

_TYPES: Final[tuple[tuple[Any, Any], ...]] = (
    (Boolean, bool),
    (Integer, int),
    ((Double, Float, Numeric), float),
    (UtcDateTime, Time),
    (DigestColumn, Digest),
    (JsonDocument, dict[str, Any]),
    (SmallIntArray, list[int]),
    (DoubleArray, list[float]),
)


class Answer(BaseModel):
    """The base class of all JSON objects in the API's answers."""


def columns_of(view: str, *, but: tuple[str, ...] = ()) -> Any:
    """Return a class with a key for each column of a view, typed and described as in `columns.toml`.

    but: columns to leave out. Metrics that only papers define may be absent.
    """
    fields: dict[str, Any] = {}
    for column in view_of(view, whole=False).c:
        if column.name in but:
            continue
        about = documented(view)[column.name]
        type_of_column = next((type_ for kind, type_ in _TYPES if isinstance(column.type, kind)), str)
        text = f"{about.meaning}: {about.summary}" if about.summary else f"{about.meaning}."
        optional = column.name in METRICS and METRICS[column.name].for_papers
        field = Field(default_factory=lambda: None, description=text) if optional else Field(description=text)
        fields[column.name] = (type_of_column | None if about.nullable else type_of_column, field)
    return create_model(f"Columns of {view}", __base__=Answer, **fields)

"""Arrow types of the database's columns, for files and for copying rows."""

from typing import Any, Final

import pyarrow as pa
from sqlalchemy import BigInteger, Boolean, Double, Integer, LargeBinary, SmallInteger, String
from sqlalchemy.types import TypeEngine

from registry.db import Digest, DoubleArray, JsonDocument, SmallIntArray

_ARROW: Final[tuple[tuple[type[TypeEngine[Any]], pa.DataType], ...]] = (
    (Digest, pa.binary(32)),
    (SmallIntArray, pa.list_(pa.int16())),
    (DoubleArray, pa.list_(pa.float64())),
    (Boolean, pa.bool_()),
    (Double, pa.float64()),
    (SmallInteger, pa.int16()),
    (BigInteger, pa.int64()),
    (Integer, pa.int32()),
    (String, pa.string()),
    (JsonDocument, pa.string()),
    (LargeBinary, pa.binary()),
)


def arrow_type(sql_type: TypeEngine[Any]) -> pa.DataType:
    """Return the Arrow type for a column's SQL type."""
    return next(arrow for kind, arrow in _ARROW if isinstance(sql_type, kind))

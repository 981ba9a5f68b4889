"""Jobs for `tests/unit/test_isolated.py` with the harmful actions that a process could be made to do."""

import os
import re
from typing import Any, NoReturn

from registry.errors import IngestError, UnreachableError


def echo(order: Any) -> Any:
    return {"order": order, "environment": dict(os.environ), "process": os.getpid()}


def refuse(order: str) -> NoReturn:
    raise IngestError(f"{order}: not this one; give another")


def fail(_order: Any) -> NoReturn:
    raise UnreachableError("the database is away")


def fill(order: int) -> int:
    return len([bytearray(1 << 20) for _ in range(order)])


def match(order: str) -> bool:
    return re.fullmatch("(a+)+", order) is None


def fault(order: Any) -> NoReturn:
    raise KeyError(order)


def end(_order: Any) -> NoReturn:
    os._exit(7)

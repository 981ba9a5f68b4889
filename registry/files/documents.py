"""JSON documents that are read whole: logs, exports, records of data sets. Each is weighed before it is read.

A document may take the memory of what is kept of a file (`registry.files.allowance`), whether its bytes hold a few long
texts or millions of tiny values.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from registry.errors import IngestError
from registry.files.allowance import Allowance
from registry.untrusted import TooHeavyError, decode, decode_answer


def read_document(path: Path, name: str | None = None, *, constants: bool = False, storable: bool = True) -> Any:
    """The JSON document of a file. name: what messages call it.

    constants: NaN and Infinity, which are no JSON, are let in: the reader refuses them where a number is wanted.
    storable: whether values that no database holds, such as NUL in a text, are refused.
    Raises IngestError naming the file, what is wrong with it and the remedy.
    """
    name = name or path.name
    allowance = Allowance(name, kept=True)
    try:
        with path.open("rb") as stream:
            # Read, it is held as bytes and as text.
            allowance.take(2 * os.fstat(stream.fileno()).st_size)
            # One copy at a time: the bytes go as soon as there is a text.
            text = stream.read(allowance.limit).decode("utf-8-sig")
    except FileNotFoundError:
        raise IngestError(f"{path}: no such file; check the path") from None
    except UnicodeDecodeError as error:
        raise _unread(name, f"byte {error.start + 1} is not UTF-8") from None
    except OSError as error:
        raise _unread(name, error.strerror or "no file") from None
    return _decoded(text, allowance, constants=constants, storable=storable)


def parse_document(content: bytes, name: str, *, constants: bool = False, storable: bool = True) -> Any:
    """The JSON document that `content` is, as `read_document` gives and refuses it."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unread(name, f"byte {error.start + 1} is not UTF-8") from None
    return _decoded(text, Allowance(name, kept=True), constants=constants, storable=storable)


def _decoded(text: str, allowance: Allowance, *, constants: bool, storable: bool) -> Any:
    try:
        if not storable:
            return decode_answer(text, allowance.limit)
        return decode(text, items=sys.maxsize, memory=allowance.limit, constants=constants)
    except TooHeavyError as error:
        allowance.refuse(error.needed)
    except json.JSONDecodeError as error:
        raise _unread(allowance.name, f"{error.msg} at line {error.lineno} column {error.colno}") from None
    except ValueError as error:
        raise _unread(allowance.name, str(error)) from None


def _unread(name: str, reason: str) -> IngestError:
    return IngestError(f"{name}: cannot be read as JSON ({reason}); fetch it again")


@contextmanager
def as_written(name: str, remedy: str) -> Iterator[None]:
    """Raises IngestError where what a program is said to have written lacks a key or holds another kind of value.

    A forged file can lack any key and hold any value: none of that is a fault of this code.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise IngestError(f"{name}: a value is missing or of the wrong kind ({reason}); {remedy}") from error

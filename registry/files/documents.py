"""JSON documents that are read into memory: logs, exports, records of datasets.

The memory of a document is estimated before it is parsed. It may be that of a kept file (`registry.files.allowance`),
whether the document consists of a few texts or of millions of tiny values.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from registry.errors import IngestError
from registry.files.absent import no_such_file, refuse_pipe
from registry.files.allowance import Allowance
from registry.untrusted import TooHeavyError, decode, decode_answer


def read_document(path: Path, name: str | None = None, *, constants: bool = False, storable: bool = True) -> Any:
    """Return the JSON document of a file. name: its name in messages.

    constants: accept NaN and Infinity, which the caller then has to refuse in place of numbers. storable: refuse values
    that no database can store, such as NUL in a text.
    Raises IngestError naming the file, the problem and the remedy.
    """
    name = name or path.name
    allowance = Allowance(name, kept=True)
    refuse_pipe(path)
    try:
        with path.open("rb") as stream:
            # Its bytes and its text are in memory at the same time.
            allowance.take(2 * os.fstat(stream.fileno()).st_size)
            # The bytes are freed as soon as they are decoded.
            text = stream.read(allowance.limit).decode("utf-8-sig")
    except FileNotFoundError:
        raise no_such_file(path) from None
    except UnicodeDecodeError as error:
        raise _unread(name, f"byte {error.start + 1} is not UTF-8") from None
    except OSError as error:
        raise _unread(name, error.strerror or "no file") from None
    return _decode(text, allowance, constants=constants, storable=storable)


def parse_document(content: bytes, name: str, *, constants: bool = False, storable: bool = True) -> Any:
    """Parse a JSON document under the rules of `read_document`."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unread(name, f"byte {error.start + 1} is not UTF-8") from None
    return _decode(text, Allowance(name, kept=True), constants=constants, storable=storable)


def _decode(text: str, allowance: Allowance, *, constants: bool, storable: bool) -> Any:
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
    """Convert errors about missing keys and wrong types in a program's document to IngestError.

    A forged file can lack any key and contain any value; neither is a bug of this code.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise IngestError(f"{name}: a value is missing or of the wrong kind ({reason}); {remedy}") from error

"""Reading of logs line by line, and of files next to them; damaged parts are reported and skipped."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from registry.benchmarks.lines import raw_lines, shorten
from registry.errors import IngestError
from registry.files.documents import as_written
from registry.logs.documents import load_json
from registry.logs.record import Seen, Unusable, record_of
from registry.logs.values import object_of
from registry.untrusted import decode_answer

DAMAGED: Final = "unreadable-file"
AGAIN: Final = "fetch it again"
"""The end of an error message about such a file; a finding about it has its own remedy."""

Found = TypeVar("Found")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise IngestError if a file cannot be read within the block."""
    try:
        yield
    except OSError as error:
        message = f"{path.name}: cannot be read ({error.strerror or error}); check the path and who may read it"
        raise IngestError(message) from None


def lines_of(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield each line's number, and its object or the problem with it. Blank lines are skipped.

    Values that no database stores, such as NUL and half a surrogate pair, occur in models' outputs and are allowed.
    """
    for place, raw in raw_lines(path):
        yield place.line, _parse_object(raw.decode("utf-8", "replace"))


def _parse_object(text: str) -> dict[str, Any] | str:
    try:
        document = decode_answer(text)
    except ValueError as error:
        return f"is not JSON ({getattr(error, 'msg', error)}): {shorten(text.strip(), 40)!r}"
    return document if isinstance(document, dict) else f"{shorten(document, 40)!r} is not a JSON object"


def records_of(
    path: Path, read: Callable[[str, Mapping[str, Any]], Iterator[Seen | Unusable]]
) -> Iterator[Seen | Unusable]:
    """Yield the records that `read` returns for each line, given its place; report damaged lines."""
    for number, line in lines_of(path):
        if isinstance(line, str):
            yield Unusable(f"line {number}", line, DAMAGED)
        else:
            yield from record_of(f"line {number}", partial(read, f"line {number}", line))


def results_beside(path: Path, remarks: list[str]) -> Mapping[str, Any]:
    """Return the content of a file next to a log, if it exists; add a remark if it cannot be read."""
    return object_of(read_beside(lambda: load_json(path, storable=False), {}, remarks)) if path.is_file() else {}


def read_beside(read: Callable[[], Found], otherwise: Found, remarks: list[str]) -> Found:
    """Return the content of a file next to a log; if it cannot be read, add a remark and return `otherwise`."""
    try:
        with as_written("a file next to the log", AGAIN):
            return read()
    except IngestError as error:
        remarks.append(str(error))
        return otherwise

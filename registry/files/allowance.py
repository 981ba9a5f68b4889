"""Limits on the unpacked size of a file, for uploads, the command line and archives.

Three limits follow from one setting. A file as a whole may unpack to all of it. A file whose records all stay in
memory, such as a benchmark, may unpack to a quarter, and every record counts as at least one KiB, the memory that
Python needs for the shortest. A single record, such as a line or a document of an archive, may have RECORD bytes: JSON
takes up to thirty times its bytes in memory.
"""

from typing import Final, NoReturn

from registry.errors import IngestError
from registry.settings import get_settings

RECORD: Final = 16 << 20
"""Most bytes of a line, of a row, and of a document in an archive."""
KEPT: Final = 4
"""Divisor of the limit for files that are kept in memory."""
_SHORTEST: Final = 1 << 10
"""Bytes that a record in memory counts as at least."""


class Allowance:
    """A file's unpacked size so far, and its limit. kept: whether all records stay in memory."""

    def __init__(self, name: str, *, kept: bool = False) -> None:
        self.name = name
        self.kept = kept
        self.limit = get_settings().unpacked_bytes // (KEPT if kept else 1)
        self.taken = 0

    def take(self, size: int, records: int = 0) -> None:
        """Count `size` bytes of `records` records. Raises IngestError if the file is now over its limit."""
        self.taken += max(size, records * _SHORTEST) if self.kept else size
        if self.taken > self.limit:
            self.refuse(self.taken)

    def refuse(self, size: int) -> NoReturn:
        """Raise IngestError for a file that unpacks to `size` bytes or more."""
        part = f", {KEPT} times as many bytes in all" if self.kept else ""
        raise IngestError(
            f"{self.name}: needs {size} bytes or more when it is unpacked, over the limit of {self.limit}; check "
            f"where it comes from, then divide it or raise SHUFFLEBOARD_UNPACKED_BYTES{part}"
        )

    def refuse_empty(self, most: int) -> NoReturn:
        """Raise IngestError for a file with more than `most` empty lines."""
        raise IngestError(f"{self.name}: has more than {most:,} empty lines; check where it comes from")

    def require_record(self, size: int, what: str) -> None:
        """Raise IngestError for a record larger than RECORD. what: the record's name."""
        if size > RECORD:
            where = f"{self.name} {what}"
            raise IngestError(f"{where}: has {size} bytes or more, over the limit of {RECORD}; divide it")

    def refuse_record(self, what: str, problem: str) -> NoReturn:
        """Raise IngestError for a record that is too large in another respect.

        problem: its excess, such as a number of cells.
        """
        raise IngestError(f"{self.name} {what}: has {problem}; divide it")

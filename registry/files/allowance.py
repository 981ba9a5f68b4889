"""How much a file may unpack to, wherever it came from: an upload, the command line or an archive.

Three bounds follow from one setting. A file as a whole may unpack to all of it. Where what is read is kept until the
end, as a benchmark is, it may be a quarter, and every record counts for at least a KiB, which Python needs for the
shortest. A single record, such as a line or a document of an archive, may be RECORD bytes: JSON takes up to thirty
times its bytes in memory.
"""

from typing import Final, NoReturn

from registry.errors import IngestError
from registry.settings import get_settings

RECORD: Final = 16 << 20
"""Bytes of a line, of a row, and of a document in an archive."""
KEPT: Final = 4
"""What is kept in memory may be this part of what a file may unpack to."""
_SHORTEST: Final = 1 << 10
"""Bytes that a record counts for at least where it is kept."""


class Allowance:
    """What may still be unpacked of the file of that name. kept: whether all of it is in memory in the end."""

    def __init__(self, name: str, *, kept: bool = False) -> None:
        self.name = name
        self.kept = kept
        self.limit = get_settings().unpacked_bytes // (KEPT if kept else 1)
        self.taken = 0

    def take(self, size: int, records: int = 0) -> None:
        """Counts `size` bytes, of so many records. Raises IngestError naming file, size and limit beyond the limit."""
        self.taken += max(size, records * _SHORTEST) if self.kept else size
        if self.taken > self.limit:
            self.refuse(self.taken)

    def refuse(self, size: int) -> NoReturn:
        """Raises IngestError for a file that unpacks to so many bytes or more."""
        part = f", {KEPT} times as many bytes in all" if self.kept else ""
        raise IngestError(
            f"{self.name}: needs {size} bytes or more when it is unpacked, over the limit of {self.limit}; check "
            f"where it comes from, then divide it or raise SHUFFLEBOARD_UNPACKED_BYTES{part}"
        )

    def require_record(self, size: int, what: str) -> None:
        """Raises IngestError for a record larger than RECORD. what: names it."""
        if size > RECORD:
            where = f"{self.name} {what}"
            raise IngestError(f"{where}: has {size} bytes or more, over the limit of {RECORD}; divide it")

    def refuse_record(self, what: str, problem: str) -> NoReturn:
        """Raises IngestError for a record that is too large in another way."""
        raise IngestError(f"{self.name} {what}: has {problem}; divide it")

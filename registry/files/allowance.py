"""Limits on the unpacked size of a file, for uploads, the command line and archives alike.

Three limits follow from one setting. A file as a whole may unpack to all of it. If its records are kept until the end,
as a benchmark's are, it may be a quarter, and every record counts for at least a KiB, which Python needs for the
shortest. A single record, such as a line or a document of an archive, may be RECORD bytes: JSON takes up to thirty
times its bytes in memory.
"""

from typing import Final, NoReturn

from registry.errors import IngestError
from registry.settings import get_settings

RECORD: Final = 16 << 20
"""Bytes of a line, of a row, and of a document in an archive."""
KEPT: Final = 4
"""Divisor of the limit for files that are kept in memory."""
_SHORTEST: Final = 1 << 10
"""Least bytes that a kept record counts for."""


class Allowance:
    """The remaining bytes that a file may unpack to. kept: whether all of it is in memory in the end."""

    def __init__(self, name: str, *, kept: bool = False) -> None:
        self.name = name
        self.kept = kept
        self.limit = get_settings().unpacked_bytes // (KEPT if kept else 1)
        self.taken = 0

    def take(self, size: int, records: int = 0) -> None:
        """Count `size` bytes, of so many records. Raises IngestError naming file, size and limit beyond the limit."""
        self.taken += max(size, records * _SHORTEST) if self.kept else size
        if self.taken > self.limit:
            self.refuse(self.taken)

    def refuse(self, size: int) -> NoReturn:
        """Raise IngestError for a file that unpacks to so many bytes or more."""
        part = f", {KEPT} times as many bytes in all" if self.kept else ""
        raise IngestError(
            f"{self.name}: needs {size} bytes or more when it is unpacked, over the limit of {self.limit}; check "
            f"where it comes from, then divide it or raise SHUFFLEBOARD_UNPACKED_BYTES{part}"
        )

    def refuse_empty(self, most: int) -> NoReturn:
        """Raise IngestError for a file of more empty lines."""
        raise IngestError(f"{self.name}: has more than {most:,} empty lines; check where it comes from")

    def require_record(self, size: int, what: str) -> None:
        """Raise IngestError for a record larger than RECORD. what: the record's name."""
        if size > RECORD:
            where = f"{self.name} {what}"
            raise IngestError(f"{where}: has {size} bytes or more, over the limit of {RECORD}; divide it")

    def refuse_record(self, what: str, problem: str) -> NoReturn:
        """Raise IngestError for a record that is too large in another way."""
        raise IngestError(f"{self.name} {what}: has {problem}; divide it")

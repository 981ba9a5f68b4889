"""Lines of plain and compressed files, and entries of zip archives, each within the file's allowance."""

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from registry.files.absent import refuse_pipe
from registry.files.allowance import RECORD, Allowance

ZIP_MAGIC: Final = b"PK\x03\x04"
EMPTY: Final = 1_000_000
"""Most empty lines of a file: they take time, and compress a thousandfold."""
CELLS: Final = 100_000
"""Most separators in a line of a table: each may start a cell, which takes fifty bytes of memory."""
ZSTANDARD: Final = 93
"""Compression method of zip archives that Python's zipfile does not know before 3.14."""
_ENCRYPTED: Final = 1
_LINE_END: Final = 2


class Lines:
    r"""The lines of a file, unpacked if its name ends in .gz, as bytes that end in \n.

    A record may have several lines, as in CSV: the reader calls `begin` after each record.
    """

    def __init__(self, path: Path) -> None:
        refuse_pipe(path)
        packed = path.name.lower().endswith(".gz")
        self._stream = gzip.open(path, "rb") if packed else path.open("rb")  # noqa: SIM115 - closed by __exit__
        self._allowance = Allowance(path.name)
        self._packed = packed
        self._record = 0
        self._empty = 0
        self.number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        line = self._stream.readline(RECORD + 1 - self._record)
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) <= _LINE_END:
            self._empty += 1
            if self._empty > EMPTY:
                self._allowance.refuse_empty(EMPTY)
        self._record += len(line)
        if self._record > RECORD:
            self._allowance.require_record(self._record, f"line {self.number}")
        if self._packed:
            self._allowance.take(len(line))
        return line

    def begin(self) -> None:
        """Begin a new record with the next line."""
        self._record = 0

    def texts(self) -> Iterator[str]:
        """Yield the lines as text, without a byte order mark. Raises UnicodeDecodeError."""
        for line in self:
            if len(line) > CELLS and max(map(line.count, (b",", b";", b"\t"))) > CELLS:
                self._allowance.refuse_record(f"line {self.number}", f"more than {CELLS:,} cells")
            yield line.removeprefix(b"\xef\xbb\xbf").decode() if self.number == 1 else line.decode()


class Archive:
    """A zip archive whose entries are unpacked one at a time.

    Raises OSError and zipfile.BadZipFile for a damaged archive, IngestError if it unpacks to too much: by its directory
    before anything is unpacked, and by the real size of an entry.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _Directory(path) as stream, zipfile.ZipFile(stream) as archive:
            self._entries = {entry.filename: entry for entry in archive.infolist()}
        self._allowance = Allowance(path.name)
        self._allowance.take(sum(entry.file_size for entry in self._entries.values()))

    def names(self) -> list[str]:
        """Return the entries listed in the directory."""
        return list(self._entries)

    def content(self, name: str) -> bytes:
        """Return an entry's content. Raises OSError, zipfile.BadZipFile, zlib.error or ValueError if it is damaged."""
        entry = self._entries[name]
        self._allowance.require_record(entry.file_size, name)
        if entry.flag_bits & _ENCRYPTED:
            raise zipfile.BadZipFile("encrypted")
        with self.path.open("rb") as stream:
            stream.seek(entry.header_offset)
            header = stream.read(30)
            if header[:4] != ZIP_MAGIC:
                raise zipfile.BadZipFile("no entry where the directory says one is")
            # The entry's own header repeats the name and the extra field, whose lengths may differ from the
            # directory's.
            stream.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
            packed = stream.read(entry.compress_size)
        content = _unpack(entry.compress_type, packed, entry.file_size + 1)
        if len(content) > entry.file_size:
            raise zipfile.BadZipFile(f"larger than the {entry.file_size} bytes that the directory states")
        if zlib.crc32(content) != entry.CRC:
            raise zipfile.BadZipFile("checksum does not match")
        return content


class _Directory(io.FileIO):
    """An archive's file with a limit on each read: zipfile reads a directory at once, in the stated size."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._allowance = Allowance(path.name)

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > 0:
            self._allowance.require_record(size, "directory")
        return super().read(size) or b""


def _unpack(method: int, packed: bytes, most: int) -> bytes:
    """Unpack at most `most` bytes."""
    if method == zipfile.ZIP_STORED:
        return packed[:most]
    if method == zipfile.ZIP_DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most)
    if method == ZSTANDARD:
        import pyarrow as pa  # imported only here, since it takes long

        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            content: bytes = stream.read(most)
        return content
    raise zipfile.BadZipFile(f"compression method {method} is not supported")

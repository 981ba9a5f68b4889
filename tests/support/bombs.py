"""Small files that use far more memory when they are read than their own size."""

import gzip
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from registry.files.packed import ZSTANDARD
from tests.support.population import question

MIB: Final = 1 << 20
_BLOCK: Final = 16 * MIB


def _benchmark_rows(rows: int, text: str) -> dict[str, pa.Array]:
    return {
        "id": pa.array([f"q{number}" for number in range(rows)]),
        "subject": pa.array(["s"] * rows),
        "question": pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text])).cast(pa.string())
        if len(text) * rows < 2 * MIB
        else pa.chunked_array([pa.array([text] * min(500, rows - start)) for start in range(0, rows, 500)]),
        "options": pa.array([["yes", "no"]] * rows),
        "answer": pa.array([0] * rows),
    }


def repeated_text(folder: Path, mebibytes: int) -> Path:
    """Write a benchmark whose questions share a text of a mebibyte, which Parquet stores once; return its path."""
    path = folder / "repeated.parquet"
    text, rows = "x" * MIB, mebibytes
    table = pa.table(_benchmark_rows(1, text))
    schema = table.schema
    with pq.ParquetWriter(path, schema, compression="zstd", write_statistics=False) as writer:
        for start in range(0, rows, 256):
            n = min(256, rows - start)
            columns = _benchmark_rows(n, "") | {"question": pa.array([text] * n)}
            columns["id"] = pa.array([f"q{start + number}" for number in range(n)])
            writer.write_table(pa.table(columns, schema=schema))
    return path


def shared_beginnings(folder: Path, mebibytes: int) -> Path:
    """Write a file of delta-encoded texts, which are all equal; return its path."""
    path = folder / "shared.parquet"
    columns = _benchmark_rows(mebibytes, "") | {"question": pa.array(["x" * MIB] * mebibytes)}
    pq.write_table(
        pa.table(columns),
        path,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
        column_encoding={"question": "DELTA_BYTE_ARRAY"},
    )
    return path


def endless_list(folder: Path, mebibytes: int) -> Path:
    """Write a file with one question and a long list of equal numbers; return its path."""
    path = folder / "list.parquet"
    numbers = pa.array([0], pa.int64()).take(pa.array(bytearray(mebibytes * MIB // 8 * 1), pa.uint8()))
    listed = pa.ListArray.from_arrays(pa.array([0, len(numbers)], pa.int32()), numbers)
    pq.write_table(pa.table(_benchmark_rows(1, "?") | {"list": listed}), path, compression="zstd")
    return path


def understated(folder: Path, mebibytes: int) -> Path:
    """Write the same file with a footer that states too few list members; return its path."""
    path = endless_list(folder, mebibytes)
    content = path.read_bytes()
    true = _varint(2 * (mebibytes * MIB // 8))
    footer = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
    understated_length = bytes([0x80 | 20, *[0x80] * (len(true) - 2), 0])
    assert true in content[footer:]
    path = folder / "understated.parquet"
    path.write_bytes(content[:footer] + content[footer:].replace(true, understated_length))
    return path


def _varint(number: int) -> bytes:
    parts = []
    while number > 0x7F:
        parts.append(0x80 | number & 0x7F)
        number >>= 7
    return bytes([*parts, number])


def packed_lines(folder: Path, mebibytes: int) -> Path:
    """Write JSON Lines whose second line consists of spaces; return the path."""
    path = folder / "line.jsonl.gz"
    first = gzip.compress(json.dumps(question(0)).encode() + b"\n")
    path.write_bytes(first + gzip.compress(b" " * _BLOCK) * (mebibytes * MIB // _BLOCK))
    return path


def packed_table(folder: Path, mebibytes: int) -> Path:
    """Write a CSV file whose heading does not end; return its path."""
    path = folder / "table.csv.gz"
    path.write_bytes(gzip.compress(b"question_id,") + gzip.compress(b"x" * _BLOCK) * (mebibytes * MIB // _BLOCK))
    return path


def many_lines(folder: Path, mebibytes: int) -> Path:
    """Write a huge number of short questions; return the path."""
    path = folder / "lines.jsonl.gz"
    lines = [question(number, question="x" * 1000) for number in range(mebibytes * MIB // 1000)]
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), 1))
    return path


Entry = tuple[str, int, bytes, int, int]
"""Name, method, compressed bytes, checksum, and the size that the directory states."""


def archive(path: Path, entries: list[Entry]) -> Path:
    """Write a zip archive of compressed entries with the stated sizes, which may be false; return its path."""
    content, directory = b"", b""
    for name, method, packed, checksum, size in entries:
        fields = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 0, checksum, len(packed), size, len(name), 0)
        directory += b"PK\1\2" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, len(content))
        directory += name.encode()
        content += b"PK\3\4" + fields + name.encode() + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(directory), len(content), 0)
    path.write_bytes(content + directory + b"PK\5\6" + end)
    return path


def _header() -> Entry:
    text = json.dumps({"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}}).encode()
    return "header.json", zipfile.ZIP_STORED, text, zlib.crc32(text), len(text)


def _deflated(mebibytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(b" " * _BLOCK) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * (mebibytes * MIB // _BLOCK) + b"\3\0"


def _zstandard(mebibytes: int) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(b" " * _BLOCK, asbytes=True)
    return packed * (mebibytes * MIB // _BLOCK)


def honest_archive(folder: Path, mebibytes: int) -> Path:
    """Write a log whose directory states the true size of its only sample; return its path."""
    entry = ("samples/1_epoch_1.json", zipfile.ZIP_DEFLATED, _deflated(mebibytes), 0, mebibytes * MIB)
    return archive(folder / "honest.eval", [_header(), entry])


def lying_archive(folder: Path, mebibytes: int) -> Path:
    """Write a log whose directory states a size that is too small; return its path."""
    entry = ("samples/1_epoch_1.json", zipfile.ZIP_DEFLATED, _deflated(mebibytes), 0, 1000)
    return archive(folder / "lying.eval", [_header(), entry])


def lying_zstandard(folder: Path, mebibytes: int) -> Path:
    """Write the same log with Zstandard compression; return its path."""
    entry = ("samples/1_epoch_1.json", ZSTANDARD, _zstandard(mebibytes), 0, 1000)
    return archive(folder / "zstandard.eval", [_header(), entry])


def many_samples(folder: Path, mebibytes: int) -> Path:
    """Write a log with many samples of eight mebibytes; return its path."""
    sample = json.dumps({"id": "q0", "padding": " " * 8 * MIB}).encode()
    packed = zlib.compress(sample)[2:-4]
    entries = [
        (f"samples/{number}_epoch_1.json", zipfile.ZIP_DEFLATED, packed, zlib.crc32(sample), len(sample))
        for number in range(mebibytes // 8)
    ]
    return archive(folder / "samples.eval", [_header(), *entries])


Bomb = Callable[[Path, int], Path]
"""Writes a file that needs this number of mebibytes into a folder."""

BENCHMARKS: Final[dict[str, Bomb]] = {
    bomb.__name__: bomb
    for bomb in (repeated_text, shared_beginnings, endless_list, understated, packed_lines, packed_table, many_lines)
}
LOGS: Final[dict[str, Bomb]] = {
    bomb.__name__: bomb for bomb in (honest_archive, lying_archive, lying_zstandard, many_samples)
}

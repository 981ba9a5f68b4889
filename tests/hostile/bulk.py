"""Documents of 60 MB with tiny values for each importer, which are small to send but large to read."""

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

MEGABYTES: Final = 60
PIECES: Final[dict[str, str]] = {
    "objects": '{"":0}',
    "zeros": "0",
    "lists": "[]",
    "lists of lists": "[[]]",
    "short texts": '"ab"',
    "keys": '{"a":1,"b":2,"c":3}',
}
Write = Callable[[Path, int], Path]


def list_items(piece: str, size: int) -> str:
    """Return a list of equal items, `size` bytes long."""
    return "[" + f"{piece}," * (size // (len(piece) + 1)) + piece + "]"


def _text(name: str, before: str, after: str, piece: str = PIECES["objects"]) -> Write:
    def write(folder: Path, size: int) -> Path:
        (folder / name).write_text(before + list_items(piece, size) + after, encoding="utf-8")
        return folder / name

    return write


def _lines(folder: Path, size: int) -> Path:
    """Write records of a few bytes, one per line."""
    path = folder / "lines.jsonl"
    path.write_text('{"":0}\n' * (size // 7), encoding="utf-8")
    return path


def _pack_lines(folder: Path, size: int) -> Path:
    path = folder / "packed.jsonl.gz"
    path.write_bytes(gzip.compress(list_items(PIECES["objects"], size).encode() + b"\n", 1))
    return path


def _questions(folder: Path, size: int) -> Path:
    """Write valid questions that are as short as possible."""
    path = folder / "questions.jsonl"
    line = '{{"id":"{}","subject":null,"question":"q","options":["a","b"],"answer":0}}\n'
    path.write_text("".join(line.format(number) for number in range(size // 75)), encoding="utf-8")
    return path


def _table(folder: Path, size: int) -> Path:
    path = folder / "table.csv"
    path.write_text("id,subject,question,options,answer\n" + "ab," * (size // 3), encoding="utf-8")
    return path


def _heading(folder: Path, size: int) -> Path:
    path = folder / "letters.csv"
    path.write_text("question_id," + ",".join(f"m{number}" for number in range(size // 8)) + "\n", encoding="utf-8")
    return path


def _entries(folder: Path, size: int) -> Path:
    """Write an archive with a large number of entries."""
    path = folder / "entries.eval"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(size // 400):
            archive.writestr(f"samples/{number}.json", "{}")
    return path


def _entry(folder: Path, size: int) -> Path:
    """Write an archive whose only entry is large when unpacked."""
    path = folder / "entry.eval"
    header = {"version": 2, "status": "success", "eval": {"task": "t"}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("samples/1_epoch_1.json", list_items(PIECES["objects"], min(size, (16 << 20) - 100)))
    return path


def _parquet(folder: Path, size: int) -> Path:
    """Write a Parquet file of a few bytes with long lists of structures."""
    path = folder / "rows.parquet"
    many = size // 20
    structures = pa.StructArray.from_arrays([pa.array([True] * many)], ["a"])
    inner = pa.ListArray.from_arrays(pa.array([0, many], pa.int32()), structures)
    columns = {
        "id": pa.array(["q"]),
        "subject": pa.array(["s"]),
        "question": pa.array(["?"]),
        "options": pa.array([["a", "b"]]),
        "answer": pa.array([0]),
        "more": inner,
    }
    pq.write_table(pa.table(columns), path, compression="snappy")
    return path


def _empty_rows(folder: Path, size: int) -> Path:
    """Write a table with a huge number of empty rows."""
    path = folder / "many.parquet"
    many = size // 8
    pq.write_table(pa.table({"id": pa.array(range(many)), "question": pa.array(["q"] * many)}), path)
    return path


BENCHMARKS: Final[dict[str, Write]] = {
    "lines": _lines,
    "a line that is packed": _pack_lines,
    "questions": _questions,
    "a table": _table,
    "a row of structures": _parquet,
    "many rows": _empty_rows,
    **{
        f"a line of {name}": _text("line.jsonl", '{"id": ', "}\n", piece)
        for name, piece in PIECES.items()
        if name in ("objects", "lists of lists")
    },
}
"""Files to import as benchmarks."""
LOGS: Final[dict[str, Write]] = {
    **{f"a document of {name}": _text("log.json", "", "", piece) for name, piece in PIECES.items()},
    "a log of Inspect": _text("log.json", '{"version": 2, "status": "success", "eval": {}, "samples": ', "}"),
    "a state of HELM": _text("log.json", '{"adapter_spec": {}, "request_states": ', "}"),
    "predictions of OpenCompass": _text("log.json", '{"0": {"prediction": "A", "gold": "A"}, "1": ', "}"),
    "an archive of many entries": _entries,
    "an entry of an archive": _entry,
    "lines": _lines,
    "a heading": _heading,
}
"""Files to import as recorded outputs."""

"""Rows of an Excel workbook as pandas reads them, each cell as text; nothing becomes a missing value.

A workbook is a zip archive of XML, so it is read in a process with limits (`registry.isolated`), which writes the rows
as CSV for the caller.
"""

import csv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import openpyxl  # noqa: F401 - loaded before processes are forked
import pandas as pd

from registry import isolated
from registry.errors import IngestError, OverLimitError
from registry.files.absent import no_such_file
from registry.files.allowance import Allowance

_MEMORY: Final = 768 << 20
_SECONDS: Final = 120.0


def spreadsheet_rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows of the only sheet that has any; the first is row 1, and an empty row has empty cells.

    Raises IngestError for a missing or damaged file, for several sheets with rows, for an error such as #DIV/0! in a
    cell, and for a workbook that cannot be read within the limits.
    """
    with TemporaryDirectory(prefix="shuffleboard-") as folder:
        copy = Path(folder) / "rows.csv"
        order = {"path": str(path.absolute()), "copy": str(copy)}
        if isolated.is_limited():
            write_rows(order)
        else:
            try:
                isolated.run(isolated.Job(f"{__name__}:write_rows", _SECONDS, _MEMORY), order)
            except OverLimitError:
                raise IngestError(
                    f"{path.name}: cannot be read within the limit of {_MEMORY >> 20} MiB and {_SECONDS:g} s; save it "
                    "as CSV (UTF-8)"
                ) from None
        allowance = Allowance(path.name)
        with copy.open(encoding="utf-8", newline="") as stream:
            for cells in csv.reader(stream):
                allowance.take(sum(map(len, cells)))
                yield cells


def write_rows(order: dict[str, Any]) -> None:
    """Write the rows of a workbook's sheet to a CSV file. Raises IngestError as `spreadsheet_rows` does."""
    path = Path(order["path"])
    try:
        sheets = pd.read_excel(
            path, sheet_name=None, header=None, dtype=str, keep_default_na=False, na_filter=False, engine="openpyxl"
        )
    except FileNotFoundError:
        raise no_such_file(path) from None
    except MemoryError:
        raise
    except (OSError, ValueError, KeyError, SyntaxError, zipfile.BadZipFile) as error:  # an XML error is a SyntaxError
        reason = " ".join(str(error).split())[:200]
        raise IngestError(f"{path.name}: cannot be read as an Excel workbook ({reason}); save it as .xlsx") from None
    filled = {name: sheet for name, sheet in sheets.items() if len(sheet)}
    if len(filled) != 1:
        counted = f"{len(filled)} sheets with rows ({', '.join(map(str, filled))})" if filled else "no row"
        raise IngestError(f"{path.name}: has {counted[:200]}; save one sheet with the table")
    for sheet in filled.values():
        errors = sheet.isna().to_numpy()
        if errors.any():
            row, column = (int(place[0]) for place in errors.nonzero())
            raise IngestError(
                f"{path.name} line {row + 1}: cell {column + 1} has an error such as #N/A or #DIV/0!; write the value"
            )
        sheet.to_csv(order["copy"], header=False, index=False)

"""Tables as CSV and Parquet with full numbers, and as Markdown and LaTeX with the numbers that pages show.

Every cell is escaped for its format, since users name models, boards and variants.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from registry.db import utc_text

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")

_LATEX: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        # \{ would do in text, but BibTeX counts it as a brace that opens.
        "{": r"\textbraceleft{}",
        "}": r"\textbraceright{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{sign: f"\\{sign}" for sign in "&%$#_"},
        "–": "--",
        "±": r"$\pm$",
        "−": "$-$",
        "×": r"$\times$",
        "\u202f": r"\,",
        "\u00a0": "~",
    }
)
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>|#~&!$])")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def spreadsheet_cell(value: Any) -> Any:
    """Convert a value for CSV: times in UTC, and text that a spreadsheet would run as a formula quoted."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return utc_text(value) if isinstance(value, datetime) else value


def csv_text(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, heading: bool = True) -> str:
    """Return rows as CSV; NULL is an empty cell. heading: whether a line with the column names comes first."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    if heading:
        writer.writerow(columns)
    writer.writerows([spreadsheet_cell(row[column]) for column in columns] for row in rows)
    return lines.getvalue()


def parquet_bytes(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], source: str) -> bytes:
    """Return rows as a Parquet file. source: their origin, stored in the file's metadata.

    A column without any value becomes float64, since only columns of numbers can be empty. A column with values of
    several types becomes text.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = []
    for column in columns:
        values = [row[column] for row in rows]
        try:
            array = pa.array(values)
        except (pa.ArrowException, OverflowError):
            array = pa.array([None if value is None else str(value) for value in values], pa.string())
        arrays.append(array.cast(pa.float64()) if pa.types.is_null(array.type) else array)
    table = pa.Table.from_arrays(arrays, names=list(columns)).replace_schema_metadata({"source": source})
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


@dataclass(frozen=True)
class ShownTable:
    """A table of formatted texts, as a page shows it: rounded, with intervals.

    numbers: indices of the columns to align at the right. source: a line about where and when the rows were taken.
    """

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[int]
    source: str


def latex_text(text: str) -> str:
    """Escape a text for LaTeX and BibTeX, on one line."""
    return _CONTROL.sub(" ", text).translate(_LATEX)


def markdown_text(text: str) -> str:
    """Escape a text for Markdown, on one line."""
    return _MARKDOWN.sub(r"\\\1", _CONTROL.sub(" ", text))


def latex(table: ShownTable) -> str:
    """Return a table as a LaTeX `table` environment that needs no package."""
    columns = "".join("r" if place in table.numbers else "l" for place in range(len(table.headings)))
    lines = [
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{latex_text(table.caption)}}}",
        f"  \\begin{{tabular}}{{{columns}}}",
        r"    \hline",
        _latex_row(table.headings),
        r"    \hline",
        *map(_latex_row, table.rows),
        r"    \hline",
        r"  \end{tabular}",
        r"  \par\smallskip\footnotesize " + latex_text(table.source),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(cells: Sequence[str]) -> str:
    # In braces: a cell that begins with "[" would be taken for an option of the line break before it.
    return "    " + " & ".join(f"{{{latex_text(cell)}}}" for cell in cells) + r" \\"


def markdown(table: ShownTable) -> str:
    """Return a table in GitHub Flavored Markdown, with its caption above and its source below."""
    marks = ["---:" if place in table.numbers else "---" for place in range(len(table.headings))]
    lines = [
        f"**{markdown_text(table.caption)}**",
        "",
        _markdown_row(table.headings),
        f"|{'|'.join(marks)}|",
        *map(_markdown_row, table.rows),
        "",
        markdown_text(table.source),
    ]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"

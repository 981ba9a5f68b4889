"""Tables on stdout: as wide as the terminal allows, and plain and complete in a pipe.

If a table is too wide for a terminal, names are shortened in the middle; values that all rows share are moved above the
table; then intervals and the least important columns are left out, with a note. Numbers are never cut. rich lays out
tables too, but cuts every cell, so only its cell widths are used.
"""

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any, Final, Self, TypeVar

import click

from registry.errors import UsageError
from registry.names import suggestion
from registry.verdicts.wording import value_text

GAP: Final = "  "
NAME_WIDTH: Final = 18
"""Columns are left out before names become shorter than this."""
SHORTEST: Final = 8
"""Names are never shorter than this: a table that still does not fit is wider than the terminal."""
SHORTENED: Final = frozenset(
    {
        *("model", "name", "account", "benchmark", "benchmarks", "suite", "title", "task", "tasks"),
        *("location", "url", "where", "source", "address", "target", "subject", "error", "reason"),
        *("kinds", "scopes", "questions_asked", "variants", "asks", "paper", "action", "submitter", "protocol"),
    }
)
"""Keys of the columns with names and texts, which may be shortened. Numbers, intervals, states and times may not."""
NAMES: Final = frozenset({"model", "name", "account", "benchmark", "suite", "task", "protocol", "variants", "board"})
"""Keys of the columns whose different names must stay different when they are shortened."""
ESSENTIAL: Final = frozenset({"model", "name", "metric"})
"""Keys of the columns that identify a row and, like a table's first column, are never left out."""
CONTEXT: Final = frozenset(
    {"benchmark", "variants", "protocol", "shots", "revision", "replicate", "state", "questions", "scored"}
)
"""Keys of the columns that move above a narrow table if all rows have the same value."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Layout:
    """The requested layout of a command's table. columns: keys to show, in this order; wide: show all columns."""

    columns: tuple[str, ...] | None = None
    wide: bool = False


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.meta[f"{__name__}.{parameter.name}"] = value


def _split(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    names = None if value is None else tuple(name.strip() for name in value.split(",") if name.strip())
    if names == ():
        raise click.BadParameter("name at least one column, such as model,accuracy", context, parameter)
    _keep(context, parameter, names)


wide_option = click.option(
    "--wide",
    is_flag=True,
    expose_value=False,
    callback=_keep,
    help="Show every column and whole names, however wide the terminal is.",
)
_columns_option = click.option(
    "--columns",
    metavar="NAME,…",
    default=None,
    expose_value=False,
    callback=_split,
    help="Show these columns, in this order; an unknown name lists those that exist.",
)


def table_options(command: Function) -> Function:
    """Add `--columns` and `--wide` to a command that prints one table."""
    return _columns_option(wide_option(command))


def read_layout() -> Layout:
    """Return the layout that the options of the running command request."""
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    return Layout(meta.get(f"{__name__}.columns"), bool(meta.get(f"{__name__}.wide")))


def can_choose() -> bool:
    """Return whether the running command has --columns."""
    context = click.get_current_context(silent=True)
    return context is not None and f"{__name__}.columns" in context.meta


def choose_columns(available: Iterable[str], default: Sequence[str]) -> list[str]:
    """Return the keys in --columns, or the default keys. Raises UsageError for a name that is not available."""
    chosen = read_layout().columns
    if chosen is None:
        return list(default)
    names = list(dict.fromkeys((*default, *available)))
    for name in chosen:
        if name not in names:
            listed = suggestion(name, names) or f"; there are: {', '.join(names)}"
            raise UsageError(f"--columns {name!r}: no such column{listed}")
    return list(chosen)


def parse_headings(columns: str) -> dict[str, str]:
    """Map keys to headings, from left to right; the key is the heading unless a colon and a heading follow it.

    >>> parse_headings("evaluation: ID, few_shot, state")
    {'evaluation': 'ID', 'few_shot': 'Few shot', 'state': 'State'}
    """
    named = (column.partition(": ") for column in columns.split(", "))
    return {key: heading if colon else key.capitalize().replace("_", " ") for key, colon, heading in named}


def print_table(
    rows: Sequence[Mapping[str, Any]],
    headings: Mapping[str, str],
    empty: str,
    *,
    more: Mapping[str, str] | None = None,
    drop: Sequence[str] = (),
) -> None:
    """Print rows as a table on stdout; without rows print `empty` as a note on stderr.

    headings: key → heading, from left to right. more: further columns that --columns may name. drop: keys in the order
    in which they are left out in a narrow terminal; then texts are left out from the right, and numbers last. Fractions
    have three decimals; NULL is a dash.
    """
    titles = {**(more or {}), **headings}
    keys = choose_columns(titles, list(headings))
    if not rows:
        if empty:
            click.echo(empty, err=True)
        return
    terminal = sys.stdout.isatty()
    table = _Table(
        cells={key: [row[key] for row in rows] for key in keys},
        titles={key: _words(titles[key]) if terminal else [titles[key]] for key in keys},
    )
    layout = read_layout()
    if not terminal or layout.wide:
        table.print(styled=terminal)
        return
    room = shutil.get_terminal_size().columns
    notes = [] if layout.columns else table.fit(room, drop)
    table.print(styled=True, widths=table.narrow(room))
    note_below("; ".join(notes))


def note_below(text: str) -> None:
    """Print a remark about a table on stderr, no wider than the table's terminal."""
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for line in textwrap.wrap(text, room):
        click.echo(line, err=True)


@dataclass
class _Table:
    """The columns of a table: values, and the lines of each heading."""

    cells: dict[str, list[Any]]
    titles: dict[str, list[str]]

    def __post_init__(self) -> None:
        number = (int, float, type(None), Detailed)
        self._known_least: dict[str, int] = {}
        self.numeric = {key for key, column in self.cells.items() if all(isinstance(cell, number) for cell in column)}

    def fit(self, room: int, drop: Sequence[str]) -> list[str]:
        """Make the table at most `room` wide, with names no shorter than NAME_WIDTH; return the omissions.

        First values that all rows share move above the table, then empty columns are left out, before any name is
        shortened; then intervals, then whole columns.
        """
        if self._least() > room:
            self._common_above(room)
        if _total(self.widths()) <= room:
            return []
        first = next(iter(self.cells))
        empty = [key for key, column in self.cells.items() if all(cell is None for cell in column)]
        left_out = [key for key in empty if key != first and key not in ESSENTIAL]
        for key in left_out:
            del self.cells[key]
        notes = []
        if self._least() > room and any(
            isinstance(cell, Detailed) for column in self.cells.values() for cell in column
        ):
            for key, column in self.cells.items():
                self.cells[key] = [cell.brief if isinstance(cell, Detailed) else cell for cell in column]
            notes.append("intervals are not shown for lack of room")
        others = [key for key in reversed(list(self.cells)) if key not in drop]
        order = [key for key in drop if key in self.cells] + sorted(others, key=lambda key: key in self.numeric)
        for key in order:
            if self._least() <= room:
                break
            if key != first and key not in ESSENTIAL:
                left_out.append(key)
                del self.cells[key]
        if left_out:
            listed = ", ".join(key for key in self.titles if key in left_out)
            notes.append(f"not shown for lack of room: {listed}")
        return [*notes, "--wide shows everything" + (", --columns chooses" if can_choose() else "")] if notes else []

    def _common_above(self, room: int) -> None:
        common = [key for key, column in self.cells.items() if key in CONTEXT and len(set(column)) == 1]
        pairs = [f"{' '.join(self.titles[key])}: {_text(self.cells[key][0])}" for key in common]
        # Keep each pair on one line.
        context = " · ".join(pair.replace(" ", "\xa0") for pair in pairs)
        for line in textwrap.wrap(context, room, break_long_words=False, break_on_hyphens=False):
            click.echo(line.replace("\xa0", " "))
        for key in common:
            del self.cells[key]

    def widths(self) -> dict[str, int]:
        """Return the width of each key's widest cell."""
        return {key: max(map(_width, (*map(_text, column), *self.titles[key]))) for key, column in self.cells.items()}

    def _least(self) -> int:
        return _total(
            {
                key: max(min(width, NAME_WIDTH), self._shortest(key)) if key in SHORTENED else width
                for key, width in self.widths().items()
            }
        )

    def _shortest(self, key: str) -> int:
        """Return the smallest width at which the names of a column still differ."""
        if key not in NAMES:
            return SHORTEST
        texts = [_text(cell) for cell in self.cells[key]]
        if key not in self._known_least:
            self._known_least[key] = least_width(texts)
        return self._known_least[key]

    def narrow(self, room: int) -> dict[str, int]:
        """Return the widths after shortening the widest names until the table fits or no name can be shorter."""
        widths = self.widths()
        least = {key: max(self._shortest(key), *map(_width, self.titles[key])) for key in widths if key in SHORTENED}
        while _total(widths) > room:
            wide = [key for key in least if widths[key] > least[key]]
            if not wide:
                break
            widths[max(wide, key=lambda key: widths[key])] -= 1
        return widths

    def print(self, *, styled: bool, widths: Mapping[str, int] | None = None) -> None:
        """Print heading and rows on stdout."""
        widths = widths or self.widths()
        height = max(len(self.titles[key]) for key in widths)
        for level in range(height):
            # Headings with several lines are aligned at the bottom.
            words = {key: ["", *self.titles[key]][max(0, level - height + len(self.titles[key]) + 1)] for key in widths}
            line = _line(words, widths, self.numeric)
            click.echo(click.style(line, bold=True) if styled else line)
        columns = []
        for key, width in widths.items():
            texts = [_text(cell) for cell in self.cells[key]]
            short = shorten_apart(texts, width) if key in NAMES else {}
            columns.append([short.get(text, text) for text in texts])
        for row in zip(*columns, strict=True):
            click.echo(_line(dict(zip(widths, row, strict=True)), widths, self.numeric))


class Measure(float):
    """A value that is printed in the unit of its metric."""

    metric: str

    def __new__(cls, value: float, metric: str = "accuracy") -> Self:
        """Create the value of a metric."""
        number = super().__new__(cls, value)
        number.metric = metric
        return number

    def __str__(self) -> str:
        return value_text(self.metric, float(self))


@dataclass(frozen=True)
class Detailed:
    """A cell whose second half is left out in a narrow table, such as a value with its interval."""

    brief: str
    detail: str

    def __str__(self) -> str:
        return f"{self.brief} {self.detail}".rstrip()


def show(value: Any) -> str:
    """Return a value as text for people."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not isinstance(value, Measure):
        return f"{value:z.3f}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M} UTC"
    return str(value)


def shorten(text: str, width: int) -> str:
    """Return a text with its middle cut out if it is wider than `width` columns of a terminal."""
    if _width(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{_beginning(text, width - 1 - end)}…{_beginning(text[::-1], end)[::-1]}"


def shorten_apart(texts: Iterable[str], width: int) -> dict[str, str]:
    """Shorten each text to `width` columns; different texts stay different if that is possible.

    The middle of a name is cut out; names that would then look the same show their difference instead.

    >>> names = ["Meta-Llama-3-8B-Instruct", "Meta-Llama-3-70B-Instruct", "gemma-2b"]
    >>> list(shorten_apart(names, 18).values())
    ['Meta-…-8B-Instruct', 'Meta…-70B-Instruct', 'gemma-2b']
    """
    shortened = {text: shorten(text, width) for text in texts}
    alike: dict[str, list[str]] = {}
    for text, short in shortened.items():
        alike.setdefault(short, []).append(text)
    for group in alike.values():
        if len(group) > 1:
            shortened |= _cut_around_difference(group, width)
    return shortened


def _cut_around_difference(group: Sequence[str], width: int) -> dict[str, str]:
    """Shorten texts with common beginnings and ends to the part that begins just before their difference."""
    begins = len(common_beginning(group))
    shortened = {}
    for text in group:
        tail = text[max(0, begins - 1) :]
        if _width(tail) <= width - 3:
            shortened[text] = f"{_beginning(text, width - 1 - _width(tail))}…{tail}"
        else:
            start = _beginning(text, max(1, width // 4))
            shortened[text] = f"{start}…{_beginning(tail, width - 2 - _width(start))}…"
    return shortened


def common_beginning(texts: Sequence[str]) -> str:
    """Return the common beginning of all texts."""
    first, last = min(texts), max(texts)
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return first[: sum(1 for _ in alike)]


def least_width(texts: Iterable[str]) -> int:
    """Return the smallest width, at least SHORTEST, at which different texts stay different."""
    different = set(texts)
    longest = max(map(_width, different), default=0)
    for width in range(SHORTEST, longest):
        if len(set(shorten_apart(different, width).values())) == len(different):
            return width
    return max(SHORTEST, longest)


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def _words(heading: str) -> list[str]:
    """Return the lines of a heading: its words, or the parts of a board's column.

    The heading of a scale is one line.
    """
    if "  " in heading:
        return [heading]
    return re.sub(r"_(?=.)|@", lambda found: f"{found[0]} " if found[0] == "_" else f" {found[0]}", heading).split()


def _line(texts: Mapping[str, str], widths: Mapping[str, int], numeric: set[str]) -> str:
    parts = []
    for key, width in widths.items():
        text = shorten(texts[key], width)
        padding = " " * (width - _width(text))
        parts.append(padding + text if key in numeric else text + padding)
    return GAP.join(parts).rstrip()


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _beginning(text: str, width: int) -> str:
    taken = 0
    for index, character in enumerate(text):
        taken += _width(character)
        if taken > width:
            return text[:index]
    return text


def _text(value: Any) -> str:
    """Return a cell on one line, without control characters: names and errors are not our own texts."""
    return "".join(character if character.isprintable() else " " for character in show(value))

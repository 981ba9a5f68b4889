"""Show progress on stderr: bars in a terminal, lines of text elsewhere."""

import sys
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final

Show = Callable[[Hashable, str, int, int | None, str], None]
"""A function of a task's key, its name, the amount done, the total (None if unknown), and a note."""

NARROW: Final = 100
"""Terminals with fewer columns get a shorter progress bar."""
LINE_SECONDS: Final = 5.0
"""Least seconds between two lines about one task, except for its last line."""


@contextmanager
def progress_display(unit: Callable[[Hashable], str]) -> Iterator[Show]:
    """Yield the function that shows the progress of tasks.

    unit: returns the unit of a task's numbers, such as "lines", for the task's key.
    """
    if sys.stderr.isatty():
        with _bars(unit) as show:
            yield show
    else:
        yield _Lines(unit).show


@contextmanager
def _bars(unit: Callable[[Hashable], str]) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(stderr=True)
    narrow = console.width < NARROW

    # Only the note is shortened if the terminal is narrow, so the bar fits in 80 columns.
    def unwrapped_column(max_width: int | None = None, ratio: int | None = None) -> Column:
        return Column(no_wrap=True, overflow="ellipsis", max_width=max_width, ratio=ratio)

    columns = (
        TextColumn("{task.description}", table_column=unwrapped_column(26 if narrow else 50)),
        BarColumn(bar_width=12 if narrow else 20, table_column=Column(min_width=12 if narrow else 20)),
        TextColumn("{task.fields[counted]}", table_column=unwrapped_column()),
        *(() if narrow else (TimeElapsedColumn(),)),
        TextColumn("{task.fields[note]}", table_column=unwrapped_column(ratio=1)),
    )
    with Progress(*columns, console=console, expand=True) as bars:
        tasks: dict[Hashable, Any] = {}

        def show(key: Hashable, what: str, done: int, total: int | None, note: str) -> None:
            if key not in tasks:
                tasks[key] = bars.add_task(what, total=total, counted="", note="")
            bars.update(
                tasks[key], completed=done, total=total, counted=_format_count(done, total, unit(key)), note=note
            )

        yield show


class _Lines:
    """Lines of text about tasks: the first and the last of each, and one every few seconds while it changes."""

    def __init__(self, unit: Callable[[Hashable], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._unit = unit
        self._clock = clock
        self._printed: dict[Hashable, tuple[float, str]] = {}

    def show(self, key: Hashable, what: str, done: int, total: int | None, note: str) -> None:
        counted = _format_count(done, total, self._unit(key))
        line = ": ".join(part for part in (what, ", ".join(part for part in (counted, note) if part)) if part)
        now = self._clock()
        printed_at, before = self._printed.get(key, (float("-inf"), ""))
        if line != before and (done == total or now - printed_at >= LINE_SECONDS):
            self._printed[key] = (now, line)
            print(line, file=sys.stderr, flush=True)  # noqa: T201 - this is what the module is for


def _format_count(done: int, total: int | None, unit: str) -> str:
    if total is None:
        return f"{done:,} {unit}" if done else ""
    return f"{done:,} of {total:,} {unit}"

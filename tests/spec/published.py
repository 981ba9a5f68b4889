"""The printed tables of papers in registry/published, with the precision in which they were printed."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

import registry

FOLDER: Final = Path(registry.__file__).parent / "studies" / "published"


def rows(name: str) -> list[dict[str, str]]:
    """Return the lines of a file; values remain text, since trailing zeros show how a number was rounded."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@dataclass(frozen=True)
class Interval:
    """The interval of numbers that are printed in the same way when rounded, with sums and products of intervals."""

    low: Fraction
    high: Fraction

    def __sub__(self, other: "Interval") -> "Interval":
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: "Interval") -> "Interval":
        ends = [bound * two for bound in (self.low, self.high) for two in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def __truediv__(self, other: "Interval") -> "Interval":
        assert other.low > 0
        return self * Interval(1 / other.high, 1 / other.low)

    def __abs__(self) -> "Interval":
        if self.low <= 0 <= self.high:
            return Interval(Fraction(0), max(-self.low, self.high))
        return self if self.low > 0 else Interval(-self.high, -self.low)

    def times(self, factor: Fraction) -> "Interval":
        """Return the interval times an exact positive number."""
        return Interval(self.low * factor, self.high * factor)

    def meets(self, other: "Interval") -> bool:
        """Return whether the intervals overlap, so that both values may be equal before they are rounded."""
        return self.low <= other.high and other.low <= self.high


def print_value(text: str) -> Interval:
    """Return the interval of a printed number: 0.74 may be any number from 0.735 to 0.745."""
    digits = len(text.partition(".")[2])
    half = Fraction(1, 2 * 10**digits)
    return Interval(Fraction(text) - half, Fraction(text) + half)


def exact(number: float | Fraction) -> Interval:
    """Return the interval of a number that was not rounded, which allows for the error of float64."""
    slack = Fraction(1, 10**12)
    return Interval(Fraction(number) - slack, Fraction(number) + slack)


Key = tuple[str, ...]


def group_by(found: list[dict[str, str]], *columns: str) -> Iterator[tuple[Key, Mapping[str, str]]]:
    """Yield the lines grouped by columns: (key, metric → printed value)."""
    groups: dict[Key, dict[str, str]] = {}
    for row in found:
        groups.setdefault(tuple(row[column] for column in columns), {})[row["metric"]] = row["value"]
    yield from groups.items()

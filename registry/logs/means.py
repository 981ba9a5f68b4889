"""Means that a log's overall score may be: over all its answers, or over the values of one of their fields.

Several programs report the mean over subjects or tasks with equal weights, and do not say so.
"""

import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry.benchmarks.lines import shorten

ROUNDED: Final = 6e-4
"""The largest effect of rounding on a stated mean: programs keep at least three decimals."""
EXACT: Final = 1e-6
"""Largest difference between two means of the same answers that are summed in different orders."""
_MOST_DECIMALS: Final = 6
_MOST_VALUES: Final = 1_000
"""A field with more values than this names single records, not groups."""
_LONGEST_VALUE: Final = 100
_MOST_FIELDS: Final = 40
_GROUPING: Final = re.compile(
    r"subj|task|categ|domain|topic|subset|split|group|field|disciplin|lang|type|level|source|dataset|area|section|bench"
    r"|eval|dimension|skill|genre|difficulty",
    re.IGNORECASE,
)
"""Names of fields by which programs group answers: a mean over another field may equal a rounded score by chance."""


def tolerance(stated: float) -> float:
    """Return the tolerance between a stated mean and its answers' mean, from its decimals.

    >>> tolerance(0.79), tolerance(0.7905), tolerance(2 / 3)
    (0.0006, 0.0001, 1e-06)
    """
    decimals = next((d for d in range(3, _MOST_DECIMALS) if abs(round(stated, d) - stated) < 1e-12), _MOST_DECIMALS)
    return min(ROUNDED, 10.0**-decimals)


def fields_of(*parts: Mapping[str, Any]) -> dict[str, str]:
    """Return the short texts and whole numbers of a record by name: one of them may be its subject or task."""
    fields: dict[str, str] = {}
    for part in parts:
        for name, value in part.items():
            short = isinstance(value, str) and 0 < len(value) <= _LONGEST_VALUE and "\n" not in value
            if (short or type(value) is int) and len(fields) < _MOST_FIELDS:
                fields.setdefault(name, str(value))
    return fields


@dataclass(slots=True)
class _Group:
    """The answers with the same value of a field. scored: number with a score. stated: sum of scores.

    right: by reading.
    """

    answers: int = 0
    scored: int = 0
    stated: float = 0.0
    alike: int = 0
    right: dict[int, int] | None = None


@dataclass(frozen=True)
class Mean:
    """A mean over the values of a field. own: whether it is over the log's own scores, not over right answers."""

    field: str
    values: int
    mean: float
    own: bool

    def describe(self) -> str:
        """Return the mean in words."""
        return f"the mean over its {self.values} values of {shorten(self.field, 40)!r}"


class Fields:
    """The fields that all records of a log have, with each record's values as numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, int]] = {}
        self._rows: dict[str, array[int]] = {}
        self._started = False

    def add(self, fields: Mapping[str, str]) -> None:
        """Store the fields of the next record."""
        if not self._started:
            self._started = True
            self._numbers = {name: {} for name in fields}
            self._rows = {name: array("h") for name in fields}
        for name, numbers in list(self._numbers.items()):
            value = fields.get(name)
            if value is None or (value not in numbers and len(numbers) == _MOST_VALUES):
                del self._numbers[name], self._rows[name]
            else:
                self._rows[name].append(numbers.setdefault(value, len(numbers)))

    def of(self, row: int) -> dict[str, str]:
        """Return the fields of a record, with their values as numbers."""
        return {name: str(rows[row]) for name, rows in self._rows.items()}


class Means:
    """Counts of answers by each field that may name a group of them."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, _Group] | None] = {}

    def add(self, fields: Mapping[str, str], stated: float | None, right: bool | Mapping[int, int]) -> None:
        """Count an answer. right: whether it is right, for one reading or for each."""
        for name, value in fields.items():
            groups = self._groups.setdefault(name, {})
            if groups is None:
                continue
            group = groups.get(value)
            if group is None:
                if len(groups) == _MOST_VALUES:
                    self._groups[name] = None
                    continue
                group = groups[value] = _Group()
            group.answers += 1
            if stated is not None:
                group.scored += 1
                group.stated += stated
            if isinstance(right, bool):
                group.alike += right
            else:
                group.right = group.right or {}
                for number, correct in right.items():
                    group.right[number] = group.right.get(number, 0) + correct

    def find(self, overall: float, answers: int, number: int = 0) -> Mean | None:
        """Return the mean over a field that equals the overall score of `answers` answers; None if no field has it.

        number: the reading under which answers are right.
        """
        near = tolerance(overall)
        equal_means = (mean for mean in self._list_means(answers, number) if abs(mean.mean - overall) <= near)
        return next((mean for mean in equal_means if near <= EXACT or _GROUPING.search(mean.field)), None)

    def _list_means(self, answers: int, number: int) -> Iterator[Mean]:
        for name, by_value in self._groups.items():
            groups = list((by_value or {}).values())
            if not 1 < len(groups) <= answers / 2 or sum(group.answers for group in groups) < answers:
                continue
            shares = [(group.alike + (group.right or {}).get(number, 0)) / group.answers for group in groups]
            yield Mean(name, len(groups), sum(shares) / len(shares), own=False)
            if all(group.scored == group.answers for group in groups):
                own = [group.stated / group.answers for group in groups]
                yield Mean(name, len(groups), sum(own) / len(own), own=True)

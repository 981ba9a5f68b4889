"""What a board can tell before any model has answered: the smallest difference of two models that it would find."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry.boards.definition import Column
from registry.boards.store import column_entries
from registry.errors import UsageError
from registry.metrics import METRICS
from registry.statistics.bootstrap import MINIMUM_QUESTIONS
from registry.statistics.power import (
    POWER,
    critical_of,
    questions_needed,
    smallest_difference,
    smallest_difference_of_differing,
)
from registry.tables import Board

ASSUMED: Final = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Shares of questions on which one of two models alone is right, from near copies to two that guess between two."""


@dataclass(frozen=True)
class Planned:
    """The smallest difference that is found, where models differ on so many questions.

    one_pair: of two models compared for themselves; all_pairs: of any two, where all are compared at once. None: even
    two models of which one is right wherever they differ are not told apart.
    """

    differing: float
    one_pair: float | None
    all_pairs: float | None


def equivalent_questions(counts: Sequence[int]) -> int:
    """On how many questions of one task a difference is as uncertain as that of the unweighted mean over tasks.

    counts: questions of each task, all of them equally variable. T² / Σ 1/nₜ, rounded down.

    >>> equivalent_questions([100, 100]), equivalent_questions([1000, 100])
    (200, 363)
    """
    return int(len(counts) ** 2 / sum(1 / count for count in counts))


def plan(
    counts: Sequence[int], models: int, *, power: float = POWER, differing: Sequence[float] = ASSUMED
) -> list[Planned]:
    """What is found with the given probability, for each share of questions on which two models differ.

    counts: questions of each task. Raises UsageError for fewer than MINIMUM_QUESTIONS in all, MetricInputError for a
    share, power or number of models that is out of range.
    """
    questions = equivalent_questions(counts)
    if questions < MINIMUM_QUESTIONS:
        raise UsageError(
            f"{questions} questions tell no models apart: below {MINIMUM_QUESTIONS} no interval is stated; ask more"
        )
    together = critical_of(models)
    return [
        Planned(
            share,
            smallest_difference_of_differing(share, questions, power=power),
            smallest_difference_of_differing(share, questions, power=power, critical=together),
        )
        for share in differing
    ]


def can_be_planned(metric: str) -> bool:
    """Whether a question's value lies between 0 and 1 and a benchmark's is their mean; only then a plan holds.

    It is exact for metrics whose questions are 0 or 1, and promises too little for those between.
    """
    entry = METRICS[metric]
    return entry.of_questions and (entry.low, entry.high) == (0.0, 1.0) and entry.better != "neither"


def questions_of_column(board: Board, column: Column) -> list[int]:
    """The number of questions of each task that a column is taken over."""
    found = column_entries(board.name, column, board.entries)
    return [sum(entry.questions for entry in entries) for entries in found.values()]


@dataclass(frozen=True)
class Measured:
    """What a board tells, from how much the differences of its models vary: of the median pair."""

    one_pair: float
    all_pairs: float | None


def measured(document: dict[str, Any], column: str, *, power: float = POWER) -> Measured | None:
    """The smallest difference that a snapshot's column finds with the given probability.

    None without comparisons, and if no models differ in any question: how much they could vary is not known then.
    """
    together = document["together"].get(column)
    n = _fewest(document, column)
    if together is None or not together["standard_error"] or n is None:
        return None
    spread = together["standard_error"] * n**0.5
    critical = together["critical_value"]
    return Measured(
        smallest_difference(spread, n, power=power),
        None if critical is None else smallest_difference(spread, n, power=power, critical=critical),
    )


def _fewest(document: dict[str, Any], column: str) -> int | None:
    counts = [row["values"][column]["n"] for row in document["rows"] if row["values"][column]["rank"] is not None]
    return min(counts, default=None)


def needed(value: dict[str, Any], critical: float | None) -> tuple[int | None, int | None]:
    """How many questions would tell a model from the one above it, in all tasks together and in their proportions.

    For the pair by itself, and where all pairs are compared at once; as long as the true difference is the measured
    one. None: the two are equal, were not compared, or it would take more than MOST_QUESTIONS.
    value: of a model in a column of a snapshot.
    """
    above = value["above"]
    if above is None or not above["standard_error"]:
        return None, None
    spread = above["standard_error"] * value["n"] ** 0.5
    pair = questions_needed(above["difference"], spread)
    return pair, None if critical is None else questions_needed(above["difference"], spread, critical=critical)

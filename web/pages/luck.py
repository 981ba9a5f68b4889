"""What a leaderboard says in words: whose accuracy does not hold in every order. Derived from the numbers shown."""

from collections.abc import Sequence
from math import exp, lgamma, log
from typing import Final

from registry.results.chance import no_better_than_guessing
from registry.results.selectables import Row

_ONE_IN: Final = 20
"""One statement in twenty may be wrong: an interval of 95 %."""


def mostly_lost(right: int, kept: int, among: int = 1) -> bool:
    """Whether less than half of what is right in the benchmark's order is right in every order.

    right: questions that are right in the benchmark's order; kept: how many of them are right in every order. True
    where the exact two-sided 95 % interval of the share kept (Clopper and Pearson 1934) lies below one half; the level
    is divided by `among`, the number of models tested together (Bonferroni).
    """
    if 2 * kept >= right:
        return False
    # The chance of at most `kept` of `right` at one half, summed from its largest term down.
    term = exp(lgamma(right + 1) - lgamma(kept + 1) - lgamma(right - kept + 1) - right * log(2))
    tail = 0.0
    for hits in range(kept, -1, -1):
        tail += term
        term *= hits / (right - hits + 1)
    return 2 * tail * _ONE_IN * among <= 1


def of_evaluations(rows: Sequence[Row]) -> list[Row]:
    """Rows whose accuracy mostly does not hold in every order, the largest loss first, one for each model.

    rows: of the leaderboard, complete, with accuracy, worst accuracy, their counts and chance. Left out are those whose
    two metrics are over different questions, and those no better than guessing, whose accuracy is luck anyway.
    """
    counted = []
    for row in rows:
        n = {row["counts"].get(name, {}).get("n") for name in ("accuracy", "worst_accuracy")}
        low = row["counts"].get("accuracy", {}).get("interval_low")
        if no_better_than_guessing(row["chance"], low):
            continue
        if len(n) == 1 and None not in (row["accuracy"], row["worst_accuracy"], *n):
            questions = n.pop()
            counted.append((row, round(row["accuracy"] * questions), round(row["worst_accuracy"] * questions)))
    lost = [row for row, right, kept in counted if mostly_lost(right, kept, len(counted))]
    return _of_models(lost)


def _of_models(rows: Sequence[Row]) -> list[Row]:
    """The largest loss first, and each model's largest alone: a sentence names a model once."""
    found: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row["worst_accuracy"] - row["accuracy"]):
        found.setdefault(row["model"], row)
    return list(found.values())


def of_board(rows: Sequence[Row], accuracy: str, worst: str, chance: float | None) -> list[Row]:
    """Models of a board whose accuracy mostly does not hold in every order, the largest loss first, with both numbers.

    rows: of a snapshot; accuracy, worst: its columns of these metrics, asked in one way; chance: what guessing gives in
    the first. A board's numbers are means of means, so that nothing can be counted: the whole interval of worst
    accuracy has to lie below half of the interval of accuracy. Models without both intervals are left out, and those no
    better than guessing.
    """
    found = []
    for row in rows:
        one, other = row["values"][accuracy], row["values"][worst]
        stated = row["complete"] and one["interval"] and other["interval"]
        if not stated or no_better_than_guessing(chance, one["interval"][0]):
            continue
        if 2 * other["interval"][1] < one["interval"][0]:
            found.append({"model": row["model"], "accuracy": one["value"], "worst_accuracy": other["value"]})
    return _of_models(found)

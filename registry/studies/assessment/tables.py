"""All answers to a benchmark as arrays, and the metrics of any selection of orders.

The definitions are the functions of registry.metrics, question by question; here the same is computed over arrays,
because the protocol needs some two hundred selections of every evaluation. NaN means "undefined".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.errors import SealError
from registry.proposals import propose
from registry.studies.assessment.orders import DRAW_SIZES, DRAWS, ORIGINAL, DrawSize, draw_ranks, rank_of

Value = tuple[float | None, int]
"""A metric's mean over questions (None if undefined), and the number of those questions."""

OVER_ORDERS: Final = (
    "average_accuracy",
    "strong_accuracy",
    "worst_accuracy",
    "best_accuracy",
    "sensitivity_gap",
    "fluctuation_rate",
    "prob_mass",
    "brier_score",
    "entropy",
)
"""Metrics that are defined for any selection of orders."""

TESTED: Final = ("strong_accuracy", "worst_accuracy", "best_accuracy", "sensitivity_gap", "fluctuation_rate")
"""Metrics over orders that are undefined for a single order."""

WITH_ORIGINAL: Final = ("retest_accuracy", "pride_accuracy")
"""Metrics that exist only if the original order is selected."""

ASSESSED: Final = (*OVER_ORDERS, *WITH_ORIGINAL)

NO_ANSWER: Final = -1


@dataclass(frozen=True)
class OrderTable:
    """Questions with one number of options L, each in all L! orders; columns are the orders' ranks.

    chosen: option ordinal, NO_ANSWER if there is no valid answer; shape (questions, L!).
    answers: ordinal of the right option; shape (questions,).
    probabilities, brier_scores, entropies: one for each prompt, NaN if unknown; shape (questions, L!).
    """

    n_options: int
    chosen: NDArray[np.int64]
    answers: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    brier_scores: NDArray[np.float64]
    entropies: NDArray[np.float64]


def order_tables(questions: Iterable[Any], predictions: Iterable[Any], evaluation_id: int) -> list[OrderTable]:
    """Build the tables of one evaluation, by number of options.

    questions: rows with id, external_id, n_options and answer. predictions: rows with question_id, shown,
    chosen_option, answer_probability, brier_score and entropy; the options shown determine an order's column.
    Raises SealError naming a question that lacks some order.
    """
    groups: dict[int, list[Any]] = {}
    for question in questions:
        groups.setdefault(question.n_options, []).append(question)
    tables: dict[int, OrderTable] = {}
    places: dict[int, tuple[int, int]] = {}
    for L, members in sorted(groups.items()):
        shape = (len(members), len(rank_of(L)))
        tables[L] = OrderTable(
            L,
            np.full(shape, NO_ANSWER, dtype=np.int64),
            np.array([question.answer for question in members], dtype=np.int64),
            *(np.full(shape, np.nan) for _ in range(3)),
        )
        places |= {question.id: (L, row) for row, question in enumerate(members)}
    filled = {L: np.zeros(table.chosen.shape, dtype=bool) for L, table in tables.items()}
    for prediction in predictions:
        L, row = places[prediction.question_id]
        column = rank_of(L)[tuple(prediction.shown)]
        table = tables[L]
        filled[L][row, column] = True
        if prediction.chosen_option is not None:
            table.chosen[row, column] = prediction.chosen_option
        if prediction.answer_probability is not None:
            table.probabilities[row, column] = prediction.answer_probability
            table.brier_scores[row, column] = prediction.brier_score
        if prediction.entropy is not None:
            table.entropies[row, column] = prediction.entropy
    for L, is_filled in filled.items():
        for row in np.flatnonzero(~is_filled.all(axis=1)).tolist():
            lacking = int((~is_filled[row]).sum())
            raise SealError(
                f"evaluation {evaluation_id}: question {groups[L][row].external_id} lacks {lacking} of its "
                f"{len(rank_of(L))} orders although it is sealed; check it: {propose('verify', evaluation_id)}"
            )
    return list(tables.values())


def question_metrics(table: OrderTable, ranks: Sequence[int]) -> dict[str, NDArray[np.float64]]:
    """Compute each question's metrics over the orders of the given ranks, the first rank being the set's first order.

    Arrays have shape (questions,). Equal to registry.metrics.permutation and .probability within rounding, except for a
    single order: its average accuracy is the accuracy under it, and metrics of robustness are undefined.
    """
    selected = list(ranks)
    chosen = table.chosen[:, selected]
    right = chosen == table.answers[:, None]
    first = chosen[:, :1]
    # A missing answer equals nothing, not even another missing answer.
    agreeing = (chosen == first) & (first != NO_ANSWER)
    best, worst = right.any(axis=1).astype(float), right.all(axis=1).astype(float)
    undefined = np.full(len(chosen), np.nan)
    values = {
        "average_accuracy": right.mean(axis=1),
        "strong_accuracy": np.where(right[:, 0], agreeing.mean(axis=1), 0.0),
        "worst_accuracy": worst,
        "best_accuracy": best,
        "sensitivity_gap": best - worst,
        "fluctuation_rate": 1.0 - agreeing.all(axis=1),
        "prob_mass": table.probabilities[:, selected].mean(axis=1),
        "brier_score": table.brier_scores[:, selected].mean(axis=1),
        "entropy": table.entropies[:, selected].mean(axis=1),
        "retest_accuracy": undefined,
    }
    if len(selected) < 2:
        values |= dict.fromkeys(TESTED, undefined)
    if ORIGINAL in selected and len(selected) > 1:
        original = right[:, selected.index(ORIGINAL)]
        values["retest_accuracy"] = original * (right.sum(axis=1) - original) / (len(selected) - 1)
    return values


def metric_values(tables: Sequence[OrderTable], ranks_of: Callable[[int], Sequence[int]]) -> dict[str, Value]:
    """Return each metric's mean over all questions for which it is defined.

    ranks_of: returns the ranks of the selected orders for a number of options.
    """
    by_table = [question_metrics(table, ranks_of(table.n_options)) for table in tables]
    values: dict[str, Value] = {}
    for name in by_table[0] if by_table else ():
        defined = np.concatenate([table_values[name] for table_values in by_table])
        defined = defined[~np.isnan(defined)]
        values[name] = (float(defined.mean()) if defined.size else None, int(defined.size))
    return values


def stability(tables: Sequence[OrderTable]) -> dict[str, dict[str, float | None]]:
    """Measure how much each metric of a benchmark depends on randomly drawn pairs or L-tuples of orders.

    The measure is the population standard deviation of the metric's benchmark value over the draws, in its own unit;
    None if it is undefined. Draw d uses, for each question, draw d of its own number of options.
    """
    deviations: dict[str, dict[str, float | None]] = {}
    for size in DRAW_SIZES:
        values = [metric_values(tables, _draw(size, number)) for number in range(DRAWS)]
        deviations[size] = {name: _deviation([value[name][0] for value in values]) for name in OVER_ORDERS}
    return deviations


def _draw(size: DrawSize, number: int) -> Callable[[int], Sequence[int]]:
    return lambda L: draw_ranks(size, L)[number]


def _deviation(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    # Subtract the first value, so that equal values have a deviation of exactly 0.
    return float(np.std(np.array(defined) - defined[0])) if len(defined) == len(values) else None


def prompts_per_question(tables: Sequence[OrderTable], ranks_of: Callable[[int], Sequence[int]]) -> float:
    """Return the mean number of prompts that a set of orders costs."""
    counts = option_counts(tables)
    return sum(len(ranks_of(L)) * count for L, count in counts.items()) / sum(counts.values())


def option_counts(tables: Sequence[OrderTable]) -> Mapping[int, int]:
    """Map each number of options to its number of questions."""
    return {table.n_options: len(table.answers) for table in tables}

"""Exact stopping inside a question: it is asked in one order after the other until its value is decided.

Worst accuracy is decided by the first wrong answer, fluctuation by the first answer that differs from the one before
(or is missing, which equals nothing). What is left out could change neither, so both are those of all orders, exactly;
every metric that counts answers over orders stays undefined.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

MISSING: Final = -1
"""The option of an answer that is missing."""


def soonest_worst(right: Booleans) -> list[int]:
    """The order of asking that finds wrong answers soonest, learnt from models that were asked in all orders.

    right: shape (models, questions, orders). Greedy: next comes the order that the fewest of those that were right so
    far are right in; among equals the first.
    """
    models, questions, orders = right.shape
    open_ = np.ones((models, questions), dtype=np.bool_)
    found: list[int] = []
    for _ in range(orders):
        left = (right & open_[..., None]).sum(axis=(0, 1))
        left[found] = models * questions + 1
        found.append(int(np.argmin(left)))
        open_ &= right[..., found[-1]]
    return found


def soonest_fluctuation(chosen: Integers) -> list[int]:
    """The order of asking that finds differing answers soonest: the pair that differs most often, then greedy.

    chosen: options, shape (models, questions, orders), MISSING where there is none.
    """
    orders = chosen.shape[2]
    if orders < 2:
        return list(range(orders))
    valid = chosen != MISSING
    agree = np.array(
        [[((chosen[..., i] == chosen[..., j]) & valid[..., i]).sum() for j in range(orders)] for i in range(orders)]
    )
    np.fill_diagonal(agree, agree.max() + 1)
    found = [int(place) for place in np.unravel_index(np.argmin(agree), agree.shape)]
    open_ = (chosen[..., found[0]] == chosen[..., found[1]]) & valid[..., found[0]]
    while len(found) < orders:
        same = (chosen == chosen[..., found[:1]]) & open_[..., None]
        left = same.sum(axis=(0, 1))
        left[found] = chosen.size + 1
        found.append(int(np.argmin(left)))
        open_ &= same[..., found[-1]]
    return found


def worst_accuracy_stopped(right: Booleans, order: list[int]) -> tuple[Booleans, Integers]:
    """Whether each question is right in every order, and how many orders were asked until that was decided.

    right: shape (questions, orders). order: of asking, all of them.
    """
    wrong: Booleans = ~right[:, order]
    decided = np.asarray(wrong.any(axis=1), dtype=np.bool_)
    return ~decided, np.where(decided, wrong.argmax(axis=1) + 1, right.shape[1])


def fluctuation_stopped(chosen: Integers, order: list[int]) -> tuple[Booleans, Integers]:
    """Whether each question's answers differ, and how many orders were asked until that was decided.

    chosen: options, shape (questions, orders), at least two orders, MISSING where there is no valid answer.
    """
    asked: Integers = chosen[:, order]
    # A missing first answer already differs from whatever comes second.
    differs: Booleans = np.logical_or(asked != asked[:, :1], asked[:, :1] == MISSING)
    decided = np.asarray(differs.any(axis=1), dtype=np.bool_)
    return decided, np.where(decided, differs.argmax(axis=1) + 1, chosen.shape[1])

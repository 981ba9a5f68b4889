"""What may be said of a model that was asked the same prompt again and again, and in as many orders."""

from dataclasses import dataclass
from typing import Final

from registry.verdicts.cases import Case, Said, always
from registry.verdicts.facts import Number
from registry.verdicts.wording import count, points, points_between, share


@dataclass(frozen=True)
class Again:
    """Shares of a benchmark's questions, from 0 to 1.

    printed: right in the benchmark's own order. everywhere: right in every one of its orders. orders: the fewest and
    the most of a question. times: how often one prompt was asked. same: right every time; across: right in as many
    different orders, a mean over all such sets of them. cost: the first minus the second, over the same questions.
    """

    model: str
    benchmark: str
    questions: int
    printed: float
    everywhere: float
    orders: tuple[int, int]
    times: int
    same: float
    across: float
    cost: Number


def _told(of: Again) -> str:
    fewest, most = of.orders
    orders = f"{most}" if fewest == most else f"{fewest} to {most}"
    part = "" if of.cost.n == of.questions else f" of the {count(of.cost.n)} questions with so many orders"
    return (
        f"{of.model} answers {share(of.printed)} of {of.benchmark}'s {count(of.questions)} questions right as printed, "
        f"and {share(of.everywhere)} right in every one of {orders} orders of the same options. Asked {of.times} times "
        f"without moving anything, it is right every time on {share(of.same)}{part}; in {of.times} different orders, "
        f"on {share(of.across)}."
    )


def _cost(of: Again) -> str:
    return f"{points(of.cost.value)} {points_between(of.cost.low or 0, of.cost.high or 0)}"


AGAIN: Final[tuple[Case[Again], ...]] = (
    Case(
        "again-order-costs",
        "the 95 % interval of the order loss lies above 0",
        lambda of: of.cost.low is not None and of.cost.low > 0,
        lambda of: (
            f"{_told(of)} So over {of.times} answers the order costs it {_cost(of)}, and chance the rest. (Order loss, "
            f"as boards state it, compares two answers, not {of.times}.)"
        ),
    ),
    Case(
        "again-no-cost-seen",
        "the 95 % interval of the order loss reaches 0, or there is none",
        lambda _: True,
        lambda of: f"{_told(of)} So no cost of changing the order can be seen beyond chance.",
    ),
)
"""The first sentence of the demo."""


def of_again(again: Again) -> Said:
    """What is said of repeats beside orders."""
    return always(AGAIN, again)

"""A model beside others of its size: what it does better than they do, and what worse."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from typing import Final

from sqlalchemy.orm import Session

from registry.leaderboard.rows import asked_the_same
from registry.metrics import METRICS
from registry.schema.selectables import Row
from registry.verdicts import comparisons
from registry.verdicts.cases import Said
from registry.verdicts.comparisons import of_standing
from registry.verdicts.facts import Facts
from registry.verdicts.sections import no_point

METRICS_COMPARED: Final = tuple(name for name in ("accuracy", "worst_accuracy", "order_loss") if name in METRICS)
"""What a model knows, and what the order costs it: worst accuracy, or order loss if its answers are sampled."""
FEWEST_PEERS: Final = 5
"""Among fewer models nothing is called a strength or a weakness."""
OF_ITS_SIZE: Final = 2
"""Models with at least half and at most twice as many parameters are of a model's size."""
_TAIL: Final = 0.025
"""On either side of an interval of 95 %."""

Interval = tuple[float, float, float]
"""Value, low and high."""


@dataclass(frozen=True)
class Standing:
    """One metric of an evaluation beside those of other models that were asked the same.

    value, low, high: the metric and its 95 % interval. better, worse: the models that it is clearly better or worse
    than; alike: those that it cannot be told apart from. Each is a row with `model`, `evaluation_id` and `counts`.
    """

    row: Row
    metric: str
    value: float
    low: float
    high: float
    better: tuple[Row, ...]
    worse: tuple[Row, ...]
    alike: tuple[Row, ...]

    @property
    def peers(self) -> int:
        """The number of models that it is compared with."""
        return len(self.better) + len(self.worse) + len(self.alike)

    @property
    def closest(self) -> tuple[Row, ...]:
        """Its peers, those with the nearest values first."""
        return tuple(
            sorted(
                (*self.better, *self.worse, *self.alike),
                key=lambda peer: abs(peer["counts"][self.metric]["value"] - self.value),
            )
        )

    @property
    def said(self) -> Said:
        """`strength` if it is clearly better than more than half of them, `weakness` if worse, else `neither`."""
        return of_standing(comparisons.Standing(len(self.better), len(self.worse), len(self.alike)))


def sizes_alike(parameters: int | None) -> tuple[int, int] | None:
    """The fewest and most parameters of models that are of this size; None where the size is not known.

    >>> sizes_alike(7_000_000_000)
    (3500000000, 14000000000)
    """
    return None if parameters is None else (-(-parameters // OF_ITS_SIZE), parameters * OF_ITS_SIZE)


def standings(session: Session, rows: Sequence[Row], parameters: int | None) -> list[Standing]:
    """Where a model stands among those of its size, or among all where its size is not known.

    rows: of the leaderboard, complete, of one model, with `facts`, and `counts` of METRICS_COMPARED. One for each
    benchmark and metric: of several evaluations with FEWEST_PEERS or more to be compared with, the one in the most
    prompts, then the newest. Left out is what was hardly read, is no better than guessing, or mixes chance with order.
    """
    low, high = sizes_alike(parameters) or (0, 10**18)
    peers = asked_the_same(session, rows, METRICS_COMPARED, min_parameters=low, max_parameters=high)
    found: dict[tuple[str, str], Standing] = {}
    for row in sorted(rows, key=lambda row: (-(row["distinct_prompts_max"] or 0), -row["evaluation_id"])):
        for metric in METRICS_COMPARED:
            if (row["benchmark"], metric) not in found and speaks(row["facts"], metric):
                standing = _standing(row, metric, peers[row["evaluation_id"]])
                if standing is not None:
                    found[row["benchmark"], metric] = standing
    return sorted(found.values(), key=lambda item: (item.row["benchmark"].casefold(), item.metric))


def speaks(facts: Facts, metric: str) -> bool:
    """Whether a metric of an evaluation may be called a strength or a weakness."""
    if facts.unreadable or facts.guesses:
        return False
    return metric != "worst_accuracy" or no_point(facts) is None


def _standing(row: Row, metric: str, peers: Sequence[Row]) -> Standing | None:
    own = _known({**row["counts"].get(metric, {}), "value": row[metric]})
    if own is None:
        return None
    sides: dict[int, list[Row]] = {1: [], -1: [], 0: []}
    for peer in peers:
        if (theirs := _known(peer["counts"].get(metric, {}))) is not None:
            sides[_clearly(own, theirs, METRICS[metric].better)].append(peer)
    if sum(map(len, sides.values())) < FEWEST_PEERS:
        return None
    better, worse, alike = (tuple(sides[side]) for side in (1, -1, 0))
    return Standing(row, metric, *own, better, worse, alike)


def _known(counts: Row) -> Interval | None:
    """Value, low and high; None without an interval.

    Of all or none of n questions the bootstrap has none. There it is the exact one (Clopper and Pearson 1934).
    """
    value, n = counts.get("value"), counts.get("n")
    if value is None or not n:
        return None
    if counts.get("interval_low") is not None:
        return value, counts["interval_low"], counts["interval_high"]
    if value not in (0, 1):
        return None
    reach = 1 - _TAIL ** (1 / n)
    return (value, 0.0, reach) if value == 0 else (value, 1 - reach, 1.0)


def _clearly(one: Interval, other: Interval, better: str) -> int:
    """1 where one is better by more than the interval of the difference, -1 where it is worse, 0 where neither.

    The interval is that of independent samples: the halves of both that face each other, as a right angle's sides. Both
    answered the same questions, so that it is rather too wide; `registry.studies.comparing` pairs them.
    """
    lower, upper = sorted((one, other))
    if upper[0] - lower[0] <= hypot(lower[2] - lower[0], upper[0] - upper[1]):
        return 0
    best = lower if better == "lower" else upper
    return 1 if best is one else -1

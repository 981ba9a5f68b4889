"""Which way of asking gives a number at which cost and error: replays of evaluations that were asked in every order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.designs.until_decided import ends_of
from registry.statistics import survey
from registry.statistics.sequential import MINIMUM_SAMPLE
from registry.statistics.stopping import fluctuation_stopped, worst_accuracy_stopped
from registry.studies.assessment.tables import OrderTable

PRECISION: Final = 0.02
CONFIDENCE: Final = 0.95
DRAWN: Final = 20
"""Orders of the questions, of seeds from 0, in which each evaluation is sampled again."""
PLANNED: Final = ("worst_accuracy", "fluctuation_rate")
EVERYTHING, DECIDED, SAMPLE = "everything", "until decided", f"a sample to ±{PRECISION:g}"


@dataclass(frozen=True)
class Replayed:
    """A plan on one evaluation. share: of all prompts that it asked, the median. error: the largest of its replays.

    covered: the share of them whose interval held the value; None for a plan that is exact.
    """

    metric: str
    plan: str
    share: float
    error: float
    covered: float | None


def replayed(tables: Sequence[OrderTable]) -> list[Replayed]:
    """Every plan for every metric of PLANNED that the evaluation can be replayed for, orders as they come.

    A sample is drawn without the help of history, of evaluations with more than MINIMUM_SAMPLE questions.
    """
    found = []
    prompts = sum(table.chosen.size for table in tables)
    for metric in PLANNED:
        values: list[NDArray[np.float64]] = []
        asked_prompts, costs = 0, []
        for table in tables:
            orders = list(range(table.chosen.shape[1]))
            if metric == "worst_accuracy":
                value, asked = worst_accuracy_stopped(table.chosen == table.answers[:, None], orders)
            else:
                value, asked = fluctuation_stopped(table.chosen, orders)
            ends = np.array(ends_of(metric, len(orders), shared=False))
            asked_prompts += int(ends[np.searchsorted(ends, np.maximum(asked, ends[0]))].sum())
            values.append(value.astype(np.float64))
            costs.append(np.full(len(value), len(orders)))
        found.append(Replayed(metric, EVERYTHING, 1.0, 0.0, None))
        found.append(Replayed(metric, DECIDED, asked_prompts / prompts, 0.0, None))
        together = np.concatenate(values)
        if len(together) > MINIMUM_SAMPLE:
            found.append(_sampled(metric, together, np.concatenate(costs)))
    return found


def _sampled(metric: str, values: NDArray[np.float64], costs: NDArray[np.int64]) -> Replayed:
    questions = len(values)
    frame = survey.Frame(np.zeros(questions, dtype=np.int64), np.ones(1), np.empty((questions, 0)))
    ends = survey.batch_ends(questions, survey.batch_of(questions, PRECISION, CONFIDENCE))
    shares, errors, held = [], [], []
    for seed in range(DRAWN):
        order = survey.drawn_order(frame, [str(place) for place in range(questions)], seed)
        last = survey.looks(frame, order, values[order], ends, PRECISION, CONFIDENCE)[-1]
        shares.append(costs[order[: last.questions]].sum() / costs.sum())
        errors.append(abs(last.value - values.mean()))
        held.append(last.interval.low - 1e-12 <= values.mean() <= last.interval.high + 1e-12)
    return Replayed(metric, SAMPLE, float(np.median(shares)), float(max(errors)), float(np.mean(held)))


def plans(of_points: Sequence[Sequence[Replayed]]) -> list[dict[str, Any]]:
    """Of each metric every plan over the evaluations that it was replayed on, cheapest first.

    share: mean over them; error: what the plan states, half an interval or 0; largest_error: that was seen.
    recommended: the cheapest that every evaluation was replayed for.
    """
    found = []
    for metric in PLANNED:
        of_metric: list[dict[str, Any]] = []
        for plan in (EVERYTHING, DECIDED, SAMPLE):
            runs = [run for point in of_points for run in point if (run.metric, run.plan) == (metric, plan)]
            if runs:
                covered = [run.covered for run in runs if run.covered is not None]
                of_metric.append(
                    {
                        "metric": metric,
                        "plan": plan,
                        "evaluations": len(runs),
                        "share": float(np.mean([run.share for run in runs])),
                        "error": PRECISION if plan == SAMPLE else 0.0,
                        "largest_error": max(run.error for run in runs),
                        "covered": float(np.mean(covered)) if covered else None,
                    }
                )
        of_metric.sort(key=lambda one: one["share"])
        best = next((one for one in of_metric if one["evaluations"] == len(of_points)), None)
        found += [one | {"recommended": one is best} for one in of_metric]
    return found

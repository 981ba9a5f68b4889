"""The results of a run, and their differences from the results of an undisturbed run."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Engine, func, select

from registry.db import read_session
from registry.lookups import find_evaluation
from registry.sealed.manifest import leaves
from registry.sealed.verification import verify_evaluation
from registry.tables import Evaluation, EvaluationMetric, Prediction, QuestionScore, Shard
from tests.chaos.schedules import Schedule
from tests.support.population import predictions

SUM_TOLERANCE: Final = 1e-9
"""Tolerance for sums, since two databases add numbers in different orders."""
ENGINE_TOLERANCE: Final = 1e-4
"""Permitted influence of other prompts in a batch on the real engine's numbers, as in the engine's tests."""


@dataclass
class Outcome:
    """The outcome of a schedule.

    lost, doubled: numbers of predictions.
    stuck: number of shards that are not done and of evaluations that are not sealed.
    parked: number of shards that were given up, or that have a failure although no fault hit them.
    given_up: number of shards that were taken from hung workers, which counts as a failure each time.
    standstill: the longest time in leases for which work stood still after a fault; stood: that work. lease: in
    seconds.
    """

    schedule: Schedule
    faults: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    doubled: int = 0
    stuck: int = 0
    parked: int = 0
    given_up: int = 0
    standstill: float = 0.0
    stood: str = ""
    lease: float = 0.0
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Return whether the faults changed nothing."""
        return not (self.lost or self.doubled or self.stuck or self.parked or self.problems)


Reference = list[dict[str, Any]]
"""Results of an undisturbed run, by evaluation."""


def compare(engine: Engine, ids: list[int], reference: Reference, outcome: Outcome) -> None:
    """Record in the outcome every difference from an undisturbed run.

    Numbers of the fake scorer must be equal to the last bit. The real engine caches prefixes from shard to shard, and
    chance decides which worker scored which shards before. Its numbers must therefore agree within ENGINE_TOLERANCE,
    and digests of leaves are not compared.
    """
    real = outcome.schedule.real
    tolerance = ENGINE_TOLERANCE if real else SUM_TOLERANCE
    with read_session(engine) as session:
        shards = session.execute(select(Shard.state, Shard.failures)).all()
        unsealed = select(func.count()).select_from(Evaluation).where(Evaluation.seal.is_(None))
        outcome.stuck = sum(row.state != "done" for row in shards) + (session.scalar(unsealed) or 0)
        failures = sum(row.failures for row in shards)
        outcome.parked = sum(row.state == "failed" for row in shards) + max(0, failures - outcome.given_up)
    for evaluation_id, expected in zip(ids, reference, strict=True):
        state = take_down(engine, evaluation_id)
        rows, wanted = state["predictions"], expected["predictions"]
        outcome.lost += sum(not same(rows.get(key), row, tolerance if real else 0.0) for key, row in wanted.items())
        outcome.doubled += max(0, state["rows"] - len(wanted))
        for name in ("specification", "scores", "metrics", *(() if real else ("leaves",))):
            if not same(state[name], expected[name], tolerance):
                outcome.problems.append(f"evaluation {evaluation_id}: its {name} differ from an undisturbed run's")
        outcome.problems += [f"evaluation {evaluation_id}: {problem}" for problem in state["problems"]]


def take_down(engine: Engine, evaluation_id: int) -> dict[str, Any]:
    """Return the results of an evaluation, without times, workers and database ids."""
    with read_session(engine) as session:
        evaluation = find_evaluation(session, evaluation_id)
        metrics = {
            (row.scope, row.metric): (row.value, row.n, row.interval_low, row.interval_high)
            for row in session.scalars(select(EvaluationMetric).where(EvaluationMetric.evaluation_id == evaluation_id))
        }
        stored = select(func.count()).select_from(Prediction).where(Prediction.evaluation_id == evaluation_id)
        scores = select(QuestionScore.stored).where(QuestionScore.evaluation_id == evaluation_id)
        return {
            "predictions": predictions(engine, evaluation_id),
            "rows": session.scalar(stored),
            "leaves": dict(leaves(session, evaluation_id)),
            "specification": evaluation.specification,
            "scores": sorted(session.scalars(scores)),
            "metrics": metrics,
            "problems": verify_evaluation(session, evaluation_id)["problems"],
        }


def same(one: Any, other: Any, tolerance: float = SUM_TOLERANCE) -> bool:
    """Return whether both are equal, numbers with a fraction within a tolerance."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key], tolerance) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(same(*pair, tolerance) for pair in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=0, abs_tol=tolerance)
    return bool(one == other)

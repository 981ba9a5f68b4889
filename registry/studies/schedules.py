"""Schedules: a sealed evaluation of an endpoint's model is asked again in part, to notice that the model has moved.

A period is so many days from the schedule's beginning. Each has one run at most: its row has the period in its key, so
that of any number of beats one inserts it, in the transaction that queues the evaluation. Periods in which no beat ran
are left out, not made up for.

Each run is another look, so it is tested at a level of its own, and the levels of all runs that there may ever be sum
to LEVEL. About a model that has not moved, a schedule therefore raises an alarm with probability LEVEL at most, however
long it goes on: Bonferroni's inequality, which holds although all looks are compared with one evaluation.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from registry.db import changed_one, database_now, picked, read_session, write_session
from registry.errors import NotFoundError, ShuffleboardError, UsageError
from registry.logs import log
from registry.lookups import find_sealed
from registry.notices import is_public, notify
from registry.people.accounts import Viewer, record
from registry.providers.budgets import set_budget
from registry.queue.evaluations import EvaluationRequest, submit
from registry.studies.drift import pairs
from registry.tables import Embargo, Evaluation, Prediction, Schedule, ScheduleRun

LEVEL: Final = 0.05
"""Probability of an alarm about a model that has not moved, over all runs of a schedule."""
DAY_SECONDS: Final = 86_400
MOVED: Final = "model.moved"


def level_of(look: int) -> float:
    """The level at which the look of this number, from 1, is tested: 6 LEVEL / (π look)², which sum to LEVEL.

    >>> round(level_of(1), 4), round(level_of(2), 4)
    (0.0304, 0.0076)
    """
    return LEVEL * 6 / (math.pi * look) ** 2


def add_schedule(
    session: Session,
    viewer: Viewer,
    evaluation_id: int,
    *,
    every_days: int,
    questions: int,
    budget: float | None = None,
    address: str | None = None,
) -> Schedule:
    """Asks the first `questions` of an evaluation again every so many days, the first time at once.

    budget: what one run may cost, in the price list's currency. Raises ForbiddenError, NotFoundError, QueueError for an
    evaluation that is not sealed, and UsageError for one of a model that is on no endpoint, or asked in part.
    """
    viewer.require("maintain")
    evaluation = find_sealed(session, evaluation_id)
    if evaluation.model_revision.kind != "openai":
        raise UsageError(
            f"evaluation {evaluation_id} is of a model whose files are fixed: it cannot move. Schedules are for "
            "models on endpoints"
        )
    if evaluation.sampled_for is not None or evaluation.stopped_for is not None:
        raise UsageError(f"evaluation {evaluation_id} was asked in part; give one that was asked in full")
    if not 1 <= every_days <= 366:
        raise UsageError(f"every {every_days} days: give a number from 1 to 366")
    if not 1 <= questions <= evaluation.questions:
        raise UsageError(
            f"{questions} questions: evaluation {evaluation_id} has {evaluation.questions}; give up to that"
        )
    row = Schedule(
        evaluation_id=evaluation_id, every_days=every_days, questions=questions, budget=budget, created_by=viewer.name
    )
    session.add(row)
    session.flush()
    record(session, viewer, "schedule.add", str(row.id), address=address, details={"evaluation": evaluation_id})
    return row


def end_schedule(session: Session, viewer: Viewer, schedule_id: int, *, address: str | None = None) -> Schedule:
    """Ends a schedule; what is under way goes on. Raises NotFoundError, and UsageError for one that has ended."""
    viewer.require("maintain")
    row = session.get(Schedule, schedule_id)
    if row is None:
        raise NotFoundError(f"no schedule {schedule_id}; see: shuffleboard schedules list")
    if not changed_one(
        session,
        update(Schedule).where(Schedule.id == row.id, Schedule.ended_at.is_(None)).values(ended_at=database_now()),
    ):
        raise UsageError(f"schedule {schedule_id} has ended already")
    session.refresh(row)
    record(session, viewer, "schedule.end", str(row.id), address=address)
    return row


def run_schedules(engine: Engine) -> None:
    """Queues what is due and compares what is sealed. Safe to run concurrently, and to be killed at any moment."""
    with read_session(engine) as session:
        due = [row.id for row in session.scalars(select(Schedule).where(Schedule.ended_at.is_(None)))]
        due = [number for number in due if _due_period(session, session.get_one(Schedule, number)) is not None]
        sealed = session.execute(
            select(ScheduleRun.schedule_id, ScheduleRun.period)
            .join(Evaluation, Evaluation.id == ScheduleRun.evaluation_id)
            .where(ScheduleRun.compared_at.is_(None), Evaluation.seal.is_not(None))
            .order_by(ScheduleRun.schedule_id, ScheduleRun.period)
        ).all()
    for schedule_id in due:
        _begin(engine, schedule_id)
    for schedule_id, period in sealed:
        with write_session(engine) as session:
            _compare(session, schedule_id, period)


def _due_period(session: Session, schedule: Schedule) -> int | None:
    """The period that has begun and has no run; None where there is one already."""
    now = session.scalars(select(database_now())).one()
    period = int((now - schedule.created_at).total_seconds() // (schedule.every_days * DAY_SECONDS))
    return None if session.get(ScheduleRun, (schedule.id, period)) is not None else period


def _begin(engine: Engine, schedule_id: int) -> None:
    try:
        with write_session(engine) as session:
            begun = _claim(session, schedule_id)
            if begun is None:
                return
            schedule, run = begun
            run.evaluation_id = _submit(session, schedule)
    except ShuffleboardError as error:
        log.warning("schedule_failed", schedule=schedule_id, error=str(error))
        with write_session(engine) as session:
            begun = _claim(session, schedule_id)
            if begun is not None:
                begun[1].problem = str(error)


def _claim(session: Session, schedule_id: int) -> tuple[Schedule, ScheduleRun] | None:
    """The schedule with the run of the period, if this transaction is the one that inserted it."""
    schedule = session.get_one(Schedule, schedule_id)
    period = _due_period(session, schedule)
    if period is None:
        return None
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    values = {"schedule_id": schedule_id, "period": period, "begun_at": database_now()}
    inserted = insert(ScheduleRun).values(**values).on_conflict_do_nothing().returning(ScheduleRun.period)
    if session.scalar(inserted) is None:
        return None
    return schedule, session.get_one(ScheduleRun, (schedule_id, period))


def _submit(session: Session, schedule: Schedule) -> int:
    first = schedule.evaluation
    revision, version, asked = first.model_revision, first.benchmark_version, first.specification["questions"]
    request = EvaluationRequest(
        model=f"{revision.model.name}@{revision.number}",
        benchmark=f"{version.benchmark.name}@{version.version}",
        variants=first.variant_set.name,
        protocol=first.protocol.name,
        shots=first.protocol.shots,
        limit=min(schedule.questions, asked["limit"] or schedule.questions),
        subjects=tuple(asked["subjects"] or ()),
        options=asked.get("options"),
        new_replicate=True,
        requester=schedule.created_by,
        embargo_until=session.scalar(select(Embargo.until).where(Embargo.evaluation_id == first.id)),
    )
    evaluation, _ = submit(session, request)
    if schedule.budget is not None:
        set_budget(session, "evaluation", str(evaluation.id), schedule.budget)
    return evaluation.id


@dataclass(frozen=True)
class Comparison:
    """Questions answered better or worse than in the first evaluation, of those that both asked, and the p-value.

    flipped: prompts with another answer, whether or not it was right.
    """

    questions: int
    better: int
    worse: int
    flipped: int
    p_value: float


def compared(session: Session, first_id: int, again_id: int) -> Comparison:
    """The exact sign test over questions: whether more became better than worse, or the other way round.

    A question counts by how many of its prompts were answered right. Where a model answers at random, both evaluations
    are draws of the same, so that the test holds.
    """
    from registry.statistics.comparison import mcnemar  # and numpy, which beat does without

    changes: dict[int, int] = {}
    flips = 0
    query = select(*(Prediction.question_id, Prediction.variant, Prediction.shown, Prediction.chosen_option))
    for first, again in pairs(session, query.add_columns(Prediction.correct), first_id, again_id):
        changes[first.question_id] = changes.get(first.question_id, 0) + int(again.correct) - int(first.correct)
        flips += first.chosen_option != again.chosen_option
    found = mcnemar([change < 0 for change in changes.values()], [change > 0 for change in changes.values()])
    return Comparison(len(changes), found.only_second, found.only_first, flips, found.p_value)


def _compare(session: Session, schedule_id: int, period: int) -> None:
    run = session.get_one(ScheduleRun, (schedule_id, period))
    schedule = session.get_one(Schedule, schedule_id)
    assert run.evaluation_id is not None
    looks = select(func.count()).where(ScheduleRun.schedule_id == schedule_id, ScheduleRun.compared_at.is_not(None))
    level = level_of(1 + session.scalars(looks).one())
    result = compared(session, schedule.evaluation_id, run.evaluation_id)
    moved = result.p_value <= level
    of_run = update(ScheduleRun).where(
        ScheduleRun.schedule_id == schedule_id, ScheduleRun.period == period, ScheduleRun.compared_at.is_(None)
    )
    values = {
        "compared_at": database_now(),
        "questions": result.questions,
        "better": result.better,
        "worse": result.worse,
        "flipped": result.flipped,
        "p_value": result.p_value,
        "level": level,
        "moved": moved,
    }
    if changed_one(session, of_run.values(**values)) and moved:
        evaluation = session.get_one(Evaluation, run.evaluation_id)
        document: dict[str, Any] = {"schedule": schedule_id, "evaluation": evaluation.id}
        if is_public(evaluation) and is_public(schedule.evaluation):
            document |= {
                "model": evaluation.model_revision.model.name,
                "benchmark": evaluation.benchmark_version.benchmark.name,
                "compared_with": schedule.evaluation_id,
                "questions": result.questions,
                "better": result.better,
                "worse": result.worse,
                "p_value": result.p_value,
                "level": level,
            }
        notify(session, MOVED, f"{schedule_id}.{period}", document, evaluation_id=evaluation.id)


SCHEDULE: Final = ("every_days", "questions", "budget", "created_at", "ended_at")
RUN: Final = (
    *("period", "begun_at", "compared_at", "questions", "better", "worse", "flipped", "p_value", "level", "moved"),
    "problem",
)


def schedule_documents(session: Session) -> list[dict[str, Any]]:
    """Every schedule that the session sees, the newest first, with its runs, the newest first."""
    found = []
    for schedule in session.scalars(select(Schedule).order_by(Schedule.id.desc())):
        first = schedule.evaluation
        runs = session.scalars(
            select(ScheduleRun).filter_by(schedule_id=schedule.id).order_by(ScheduleRun.period.desc())
        )
        listed = [{"evaluation": run.evaluation_id} | picked(run, RUN) for run in runs]
        found.append(
            picked(schedule, SCHEDULE)
            | {
                "schedule": schedule.id,
                "evaluation": first.id,
                "model": first.model_revision.model.name,
                "revision": first.model_revision.number,
                "benchmark": first.benchmark_version.benchmark.name,
                "protocol": first.protocol.name,
                "variants": first.variant_set.name,
                "level": LEVEL,
                "moved": any(run["moved"] for run in listed),
                "runs": listed,
            }
        )
    return found

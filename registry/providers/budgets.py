"""Budgets: the most that an evaluation, a submission or an account's evaluations may cost.

A call is made only if the budget covers the most it can cost, in addition to past costs and the most that open calls
can cost. So no answer can exceed a budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, func, or_, select, update
from sqlalchemy.orm import Session

from registry.errors import NotFoundError, QueueError, UsageError
from registry.proposals import propose
from registry.tables import Evaluation
from registry.tables.accounts import Account, Submission, SubmissionEvaluation
from registry.tables.providers import BUDGET_KINDS, Budget, ProviderCall

MOST: Final = 1e12
"""The largest amount of a budget."""

Subject = tuple[str, str]
"""Kind and subject of a budget."""


@dataclass(frozen=True)
class Full:
    """A budget that does not cover a call that can cost `most`. Amounts are in the price list's currency."""

    kind: str
    subject: str
    spent: float
    amount: float
    most: float

    @classmethod
    def of(cls, row: Budget, most: float) -> "Full | None":
        """Return the budget as Full; None if it covers a call that can cost `most`."""
        full = row.spent + most > row.amount
        return cls(row.kind, row.subject, row.spent, row.amount, most) if full else None

    def __str__(self) -> str:
        return (
            f"the budget of {self.kind} {self.subject} is reached: {self.spent:.4f} of {self.amount:.4f} is spent, and "
            f"the next answer can cost {self.most:.4f}; raise it with '{propose('budgets set')}', then resume the "
            "evaluation"
        )


class BudgetReachedError(QueueError):
    """A budget does not cover a call, even once all open calls have ended. The evaluation is paused."""

    def __init__(self, full: Full) -> None:
        super().__init__(str(full))
        self.full = full


class BudgetHeldError(Exception):
    """A budget does not cover a call now, but may once open calls have ended."""


class UnpricedError(UsageError):
    """A budget cannot be enforced because the model has no price."""


def set_budget(session: Session, kind: str, subject: str, amount: float | None) -> Budget | None:
    """Set a budget, or remove it if `amount` is None. Past costs count.

    Raises UsageError for an unknown kind or an amount below 0, NotFoundError if the subject does not exist.
    """
    if kind not in BUDGET_KINDS:
        raise UsageError(f"budget kind {kind!r}: use one of {', '.join(BUDGET_KINDS)}")
    if amount is not None and not 0 <= amount <= MOST:
        raise UsageError(f"budget {amount:g}: give an amount from 0 to {MOST:g}")
    subject = _check_subject(session, kind, subject)
    row = session.get(Budget, (kind, subject), with_for_update=True)
    if amount is None:
        if row is not None:
            session.delete(row)
        return None
    if row is None:
        spent, held = _sum_calls(session, kind, subject)
        row = Budget(kind=kind, subject=subject, amount=amount, spent=spent, held=held)
        session.add(row)
    row.amount = amount
    session.flush()
    return row


def _check_subject(session: Session, kind: str, subject: str) -> str:
    if kind == "account":
        if session.scalar(select(Account.id).where(Account.name == subject)) is None:
            raise NotFoundError(f"account {subject!r} does not exist; see: {propose('accounts list')}")
        return subject
    table = Evaluation if kind == "evaluation" else Submission
    if not subject.isdecimal() or session.get(table, int(subject)) is None:
        raise NotFoundError(f"{kind} {subject} does not exist; see: {propose(f'{kind}s list')}")
    return str(int(subject))


def _sum_calls(session: Session, kind: str, subject: str) -> tuple[float, float]:
    """Return the amounts (spent, held) that existing calls add up to."""
    begun = ProviderCall.state == "begun"
    ended = func.coalesce(ProviderCall.cost, ProviderCall.cost_limit)
    spent, held = session.execute(
        select(
            func.coalesce(func.sum(case((begun, 0.0), else_=ended)), 0.0),
            func.coalesce(func.sum(case((begun, ProviderCall.cost_limit), else_=0.0)), 0.0),
        ).where(_match_subject(kind, subject))
    ).one()
    return float(spent), float(held)


def _match_subject(kind: str, subject: str) -> ColumnElement[bool]:
    if kind == "evaluation":
        return ProviderCall.evaluation_id == int(subject)
    if kind == "submission":
        evaluations: Any = select(SubmissionEvaluation.evaluation_id).where(
            SubmissionEvaluation.submission_id == int(subject)
        )
    else:
        evaluations = select(Evaluation.id).where(Evaluation.requester == subject)
    return ProviderCall.evaluation_id.in_(evaluations)


def subjects_of(session: Session, evaluation_id: int) -> tuple[Subject, ...]:
    """Return the subjects whose budgets include an evaluation's costs, whether a budget is set or not."""
    evaluation = session.get_one(Evaluation, evaluation_id)
    submissions = session.scalars(
        select(SubmissionEvaluation.submission_id).where(SubmissionEvaluation.evaluation_id == evaluation_id)
    )
    subjects = [("evaluation", str(evaluation_id)), *(("submission", str(one)) for one in submissions)]
    if evaluation.requester is not None:
        subjects.append(("account", evaluation.requester))
    return tuple(sorted(subjects))


def _is_one_of(subjects: Sequence[Subject]) -> ColumnElement[bool]:
    return or_(*(and_(Budget.kind == kind, Budget.subject == subject) for kind, subject in subjects))


def hold(session: Session, subjects: Sequence[Subject], limits: Sequence[float | None]) -> int:
    """Reserve the most that calls can cost, for as many of them, in order, as the budgets cover; return how many.

    limits: the most that each call can cost, for at least one call; None if the model has no price.
    Raises BudgetHeldError if the first call may fit once open calls have ended, BudgetReachedError if it never will,
    and UnpricedError if there is a budget but no price.
    """
    # In one order, so that two workers never wait for each other.
    rows = session.scalars(
        select(Budget).where(_is_one_of(subjects)).order_by(Budget.kind, Budget.subject).with_for_update()
    ).all()
    if not rows:
        return len(limits)
    count, held = 0, 0.0
    for most in limits:
        if most is None:
            raise UnpricedError(
                f"the budget of {rows[0].kind} {rows[0].subject} cannot be kept: the model is not "
                "on the price list; add it to a file that SHUFFLEBOARD_PRICES names"
            )
        if any(row.spent + row.held + held + most > row.amount for row in rows):
            break
        count, held = count + 1, held + most
    if count == 0:
        first = limits[0] or 0.0
        full = next(filter(None, (Full.of(row, first) for row in rows)), None)
        raise BudgetHeldError if full is None else BudgetReachedError(full)
    for row in rows:
        row.held += held
        row.refused = None
    return count


def replace_hold(session: Session, subjects: Sequence[Subject], was_held: float, spent: float) -> None:
    """Replace a call's reservation by its real cost."""
    # A budget that was set while the call was open began with the call's reservation.
    session.execute(
        update(Budget)
        .where(_is_one_of(subjects))
        .values(held=Budget.held - was_held, spent=Budget.spent + spent)
        .execution_options(synchronize_session=False)
    )


def full_budget(session: Session, evaluation_id: int) -> Full | None:
    """Return a budget that does not cover the call it refused last, or the evaluation's dearest; None if all do."""
    dearest = session.scalar(
        select(func.max(ProviderCall.cost_limit)).where(ProviderCall.evaluation_id == evaluation_id)
    )
    rows = session.scalars(select(Budget).where(_is_one_of(subjects_of(session, evaluation_id))).order_by(Budget.kind))
    return next(filter(None, (Full.of(row, max(dearest or 0.0, row.refused or 0.0)) for row in rows)), None)


def pause(session: Session, evaluation_id: int, full: Full) -> None:
    """Pause an evaluation whose budget is used up, and record the cost of the call that was refused."""
    # The budget's row first, in the same order as setting a budget and resuming: neither waits for the other's lock.
    session.execute(update(Budget).where(_is_one_of([(full.kind, full.subject)])).values(refused=full.most))
    session.execute(
        update(Evaluation)
        .where(Evaluation.id == evaluation_id, Evaluation.state.in_(("queued", "running")))
        .values(state="paused")
    )


def budget_document(row: Budget) -> dict[str, Any]:
    """Return a budget's fields for JSON and the command line."""
    return {
        "kind": row.kind,
        "subject": row.subject,
        "amount": row.amount,
        "spent": row.spent,
        "held": row.held,
        "left": max(0.0, row.amount - row.spent - row.held),
    }

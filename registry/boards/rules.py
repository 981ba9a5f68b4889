"""A board's rules for submissions: free text, and the rules that the registry enforces.

The evaluations of a submission to a suite count on every board on that suite, so a submission must meet the rules of
all these boards.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.boards.definition import SubmissionRules
from registry.boards.store import board_definition, current_boards
from registry.db import database_now, one_at_a_time
from registry.errors import ForbiddenError, QueueError, ShuffleboardError, UsageError
from registry.people.accounts import Viewer
from registry.tables import Board, Suite
from registry.tables.accounts import Submission

DAY_SECONDS: Final = 86_400


@dataclass(frozen=True)
class Terms:
    """The statements that a submitter makes with a submission.

    anonymous: the submitter's name is shown only to maintainers. conflict_of_interest: the submitter's tie to the
    model's maker; "none" if there is none, None if nothing is stated.
    """

    anonymous: bool = False
    conflict_of_interest: str | None = None


NO_TERMS: Final = Terms()


def boards_of(session: Session, suite: Suite) -> list[Board]:
    """Return the newest version of every board that is on some version of this suite, by name."""
    return [board for board in current_boards(session) if board.suite.name == suite.name]


def check_rules(
    session: Session, seen: Session, viewer: Viewer, suite: Suite, model: dict[str, Any], terms: Terms
) -> None:
    """Raise a ShuffleboardError that names board, rule, value and remedy if a submission breaks a rule.

    model: as stored with the submission. seen: a session that sees only rows the viewer may see; the rules of other
    boards are enforced, but those boards are not named.
    Submissions to one suite are checked one at a time until the transaction ends, so that two cannot both be the last
    that a limit allows.
    """
    one_at_a_time(session, f"submissions to {suite.name}")
    named = {board.name for board in current_boards(seen)}
    for board in boards_of(session, suite):
        rules = board_definition(board).submissions
        if rules is not None:
            whose = f"board {board.name}" if board.name in named else "a board on this suite"
            _check(session, viewer, rules, f"{board.suite.name}@{board.suite.version}", suite, model, terms, whose)


def _check(
    session: Session,
    viewer: Viewer,
    rules: SubmissionRules,
    board_suite: str,
    suite: Suite,
    model: dict[str, Any],
    terms: Terms,
    whose: str,
) -> None:
    def refusal(rule: str, message: str, kind: type[ShuffleboardError] = UsageError) -> ShuffleboardError:
        return kind(f"{whose}, rule {rule}: {message}")

    if rules.accounts and viewer.name not in rules.accounts:
        raise refusal("accounts", f"{viewer.name} may not submit; ask a maintainer to be added", ForbiddenError)
    if rules.same_suite and f"{suite.name}@{suite.version}" != board_suite:
        raise refusal("same_suite", f"{suite.name}@{suite.version} asks in another way; submit to {board_suite}")
    source = "endpoint" if model["kind"] == "openai" else "hub"
    if rules.sources and source not in rules.sources:
        raise refusal(
            "sources",
            f"the model is on {_name_source(source)}; submit one on {' or '.join(map(_name_source, rules.sources))}",
        )
    if rules.dtypes and model["dtype"] is not None and model["dtype"] not in rules.dtypes:
        raise refusal("dtypes", f"{model['dtype']} is not accepted; use {' or '.join(rules.dtypes)}")
    if terms.anonymous and not rules.anonymous:
        raise refusal("anonymous", "submissions must carry their submitter's name; submit without being anonymous")
    if rules.statement and not (terms.conflict_of_interest or "").strip():
        raise refusal("statement", "a conflict of interest must be stated; say what it is, or none")
    if rules.per_account is None and rules.per_day is None and rules.per_model is None:
        return
    _check_counts(session, viewer, rules, suite, model, refusal)


def _check_counts(
    session: Session, viewer: Viewer, rules: SubmissionRules, suite: Suite, model: dict[str, Any], refusal: Any
) -> None:
    """Raise an error if an account or a model has too many submissions.

    Rejected and withdrawn submissions count only towards the limit per day.
    """
    query = select(Submission).where(Submission.suite.startswith(f"{suite.name}@", autoescape=True))
    submissions = session.scalars(query).all()
    counted = [item for item in submissions if item.state in ("requested", "approved")]
    own_count = sum(item.account_id == viewer.account_id for item in counted)
    if rules.per_account is not None and own_count >= rules.per_account:
        remedy = "withdraw a pending one, or ask a maintainer"
        raise refusal("per_account", f"{own_count} of {rules.per_account} submissions are made; {remedy}", QueueError)
    same_model = sum(_identity(item.model) == _identity(model) for item in counted)
    if rules.per_model is not None and same_model >= rules.per_model:
        again = "see its earlier submission, or submit another model"
        raise refusal(
            "per_model", f"{same_model} of {rules.per_model} submissions of this model are made; {again}", QueueError
        )
    since: datetime | None = session.scalar(select(database_now(-DAY_SECONDS)))
    assert since is not None
    recent = sorted(
        item.created_at for item in submissions if item.account_id == viewer.account_id and item.created_at > since
    )
    if rules.per_day is not None and len(recent) >= rules.per_day:
        free = recent[-rules.per_day]
        raise refusal(
            "per_day",
            f"{len(recent)} of {rules.per_day} submissions were made within 24 hours; submit again when the one of "
            f"{free:%Y-%m-%d %H:%M} UTC is a day old",
            QueueError,
        )


def _identity(model: dict[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a submitted model, regardless of its name in this registry."""
    if model["kind"] == "openai":
        return (model["kind"], model["endpoint"], model["revision"])
    return (model["kind"], model["location"])


def _name_source(source: str) -> str:
    return "an endpoint" if source == "endpoint" else "the hub"


def rules_document(rules: SubmissionRules | None) -> dict[str, Any] | None:
    """Return the report of a board's rules, with sentences that explain them; None if it has none."""
    return None if rules is None else rules.model_dump(mode="json") | {"sentences": rule_sentences(rules)}


def rule_sentences(rules: SubmissionRules) -> list[str]:
    """Write the enforced rules as sentences, for pages and the command line."""
    sentences = []
    if rules.accounts:
        sentences.append(f"Only these accounts may submit: {', '.join(rules.accounts)}.")
    if rules.per_account is not None:
        sentences.append(f"An account may make {_submissions(rules.per_account)}.")
    if rules.per_model is not None:
        sentences.append(f"A model may be submitted {_times(rules.per_model)}.")
    if rules.per_day is not None:
        sentences.append(f"An account may make {_submissions(rules.per_day)} within 24 hours.")
    if rules.sources:
        sentences.append(f"The model must be on {' or '.join(map(_name_source, rules.sources))}.")
    if rules.dtypes:
        sentences.append(f"A model on the hub must be scored in {' or '.join(rules.dtypes)}.")
    if rules.same_suite:
        sentences.append("Only the version of the suite that the board stands on is accepted.")
    if rules.statement:
        sentences.append("Submitters must state their conflicts of interest, or that there are none.")
    sentences.append("Submissions may be anonymous." if rules.anonymous else "The submitter's name is shown.")
    return sentences


def _submissions(number: int) -> str:
    return "1 submission" if number == 1 else f"{number} submissions"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"

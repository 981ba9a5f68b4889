"""Submissions: someone submits a model for a suite, a maintainer decides, and workers score it.

A submitter names a model on the hub or on an endpoint that the deployment allows, never a path, a URL or a kind of
file. Functions take the session first and never commit.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Engine, func, select, update
from sqlalchemy.orm import Session

from registry.boards.rules import NO_TERMS, Terms, check_rules
from registry.boards.store import board_definition, current_boards, submit_suite, suite_definition
from registry.boards.suite_estimate import suite_estimate
from registry.db import MAX_ROW_ID, database_now, one_at_a_time, pick, read_session, update_one, write_session
from registry.errors import NotFoundError, QueueError, ShuffleboardError, UsageError
from registry.lookups import find_suite
from registry.names import check_name
from registry.people.accounts import Viewer, record
from registry.process_log import log
from registry.providers.budgets import set_budget
from registry.queue.evaluations import check_statement
from registry.queue.money import service_of
from registry.revisions.endpoints import load_endpoints
from registry.revisions.store import (
    DTYPES,
    ModelFiles,
    RevisionRequest,
    add_revision,
    check_revision,
    is_local,
    request_of,
)
from registry.settings import Settings
from registry.tables import Evaluation, Model, ModelRevision, Suite
from registry.tables.accounts import Account, Submission, SubmissionEvaluation

MAX_NOTE: Final = 2000
MAX_OPEN: Final = 20
"""Maximum number of pending submissions of one account."""
ANONYMOUS: Final = "anonymous"
"""The requester shown to everyone for an anonymous submission's evaluations."""
ENDED: Final = ("complete", "failed", "cancelled")

_PART: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
HUB_NAME: Final = re.compile(rf"{_PART}/{_PART}")


@dataclass(frozen=True)
class ModelRequest:
    """The model in a submission request, named by either `hub` or `endpoint`.

    hub: "owner/name". endpoint: the endpoint's name. revision: on the hub, by default the main branch; on an endpoint
    the model's name there, which is required. name: the name in this registry, by default the last part of the hub's or
    the endpoint's name.
    """

    hub: str | None = None
    endpoint: str | None = None
    revision: str | None = None
    dtype: str | None = None
    name: str | None = None


def check_model_request(requested: ModelRequest, settings: Settings) -> dict[str, Any]:
    """Return a request in the form that is stored, with defaults. Raises UsageError that names the invalid value."""
    if (requested.hub is None) == (requested.endpoint is None):
        raise UsageError("give either the model's name on the hub or the name of an endpoint")
    if requested.endpoint is not None:
        return _check_endpoint_model(requested, settings)
    hub = check_hub_name(requested.hub or "")
    # An empty revision means the main branch, so both are the same request and the same model revision.
    revision = None if requested.revision in (None, "", "main") else check_revision("huggingface", requested.revision)
    dtype = requested.dtype or "float32"
    if dtype not in DTYPES:
        raise UsageError(f"dtype {dtype[:40]!r}: use one of {', '.join(DTYPES)}")
    name = check_name("model", requested.name or hub.split("/")[1])
    return {"name": name, "kind": "huggingface", "location": hub, "revision": revision, "dtype": dtype}


def check_hub_name(name: str) -> str:
    """Check that a name is `owner/name` on the hub, and return it.

    Raises UsageError for anything else, such as a path.
    """
    # A local folder with that name would be used as the model, and its existence is private.
    if not HUB_NAME.fullmatch(name) or ".." in name or "--" in name or name.endswith(".git") or is_local(name):
        raise UsageError(
            f"{name[:100]!r} is not a model name on the hub; give owner/name, such as HuggingFaceTB/SmolLM2-135M. "
            "Local files and other URLs can only be registered by maintainers"
        )
    return name


def _check_endpoint_model(requested: ModelRequest, settings: Settings) -> dict[str, Any]:
    endpoint = check_endpoint(requested.endpoint or "", settings)
    if not requested.revision:
        raise UsageError(f"a model on endpoint {endpoint} needs a revision: give its name there")
    check_revision("openai", requested.revision)
    if requested.dtype is not None:
        raise UsageError("the server of an endpoint decides the precision; leave out dtype")
    name = check_name("model", requested.name or requested.revision.rsplit("/", 1)[-1])
    return {"name": name, "kind": "openai", "endpoint": endpoint, "revision": requested.revision, "dtype": None}


def check_endpoint(name: str, settings: Settings) -> str:
    """Check that a name is that of an allowed endpoint, and return it. Raises UsageError for other names and URLs."""
    known = load_endpoints(settings.endpoints)
    if name not in known:
        listed = ", ".join(sorted(known)) or "none is configured here"
        raise UsageError(f"endpoint {name[:100]!r}: give the name of an allowed one ({listed}), not a URL")
    return name


def revision_request(model: dict[str, Any], settings: Settings) -> RevisionRequest:
    """Return the revision to register for a stored request.

    The request is checked again, because the endpoints may have changed since it was stored.
    """
    if model["kind"] == "openai":
        endpoint = check_endpoint(model["endpoint"], settings)
        address = load_endpoints(settings.endpoints)[endpoint].url_prefix
        return RevisionRequest("openai", address, model["revision"], key_reference=endpoint).checked()
    hub = check_hub_name(model["location"])
    return RevisionRequest("huggingface", hub, model["revision"], model["dtype"]).checked()


# Requests


def request_submission(
    session: Session,
    seen: Session,
    viewer: Viewer,
    requested: ModelRequest,
    suite: str,
    note: str | None,
    settings: Settings,
    *,
    terms: Terms = NO_TERMS,
    address: str | None = None,
) -> tuple[Submission, bool]:
    """Store a submission request; return it, and whether it is new. An identical pending request is returned instead.

    seen: a session that sees only rows the viewer may see, to find the suite. Raises UsageError, NotFoundError or
    ForbiddenError, also if a board's rules forbid the submission, and QueueError if there are too many already.
    """
    viewer.require("submit")
    assert viewer.account_id is not None
    model = check_model_request(requested, settings)
    row = find_suite(seen, suite)
    if not says_its_benchmarks(session, row):
        raise UsageError(
            f"suite {row.name} is for any benchmarks, and no board names them; choose a suite that names "
            "its own, or ask a maintainer for a board on it"
        )
    text = (note or "").strip() or None
    if text is not None and (len(text) > MAX_NOTE or "\x00" in text):
        raise UsageError(f"note: give up to {MAX_NOTE:,} characters of plain text")
    if terms.anonymous and model["kind"] == "openai":
        raise UsageError(
            "anonymous: what an endpoint charges counts towards its submitter's budget, by name; submit without being "
            "anonymous"
        )
    one_at_a_time(session, f"submissions of {viewer.account_id}")
    waiting = list(session.scalars(select(Submission).filter_by(account_id=viewer.account_id, state="requested")))
    reference = f"{row.name}@{row.version}"
    for pending in waiting:
        if pending.suite == reference and pending.model == model:
            return pending, False
    if len(waiting) >= MAX_OPEN:
        raise QueueError(
            f"{len(waiting)} submissions of {viewer.name} are already awaiting a decision; wait for one, or withdraw "
            "one"
        )
    check_rules(session, seen, viewer, row, model, terms)
    submission = Submission(
        account_id=viewer.account_id,
        suite=reference,
        model=model,
        note=text,
        anonymous=terms.anonymous,
        conflict_of_interest=check_statement(terms.conflict_of_interest),
    )
    session.add(submission)
    session.flush()
    details = {"suite": reference, "model": model["name"]}
    record(session, viewer, "submission.request", str(submission.id), address=address, details=details)
    return submission, True


def says_its_benchmarks(session: Session, suite: Suite) -> bool:
    """Return whether a suite's benchmarks are known: the suite names them, or a board on it does."""
    return not suite_definition(suite).needs_benchmarks or any(
        board.suite.name == suite.name and board_definition(board).benchmarks for board in current_boards(session)
    )


def find_submission(session: Session, viewer: Viewer, submission_id: int) -> Submission:
    """Return a submission by its number. Raises NotFoundError unless it is the viewer's own or the viewer maintains."""
    row = session.get(Submission, submission_id) if 0 < submission_id <= MAX_ROW_ID else None
    if row is None or not (viewer.may("maintain") or row.account_id == viewer.account_id):
        whose = "here" if viewer.may("maintain") else f"of {viewer.name}"
        raise NotFoundError(f"no submission {submission_id} {whose}; see the list of submissions")
    return row


def list_submissions(
    session: Session, viewer: Viewer, *, state: str | None = None, own: bool = False, limit: int, offset: int = 0
) -> tuple[list[Submission], int]:
    """Return the submissions that the viewer may see, pending ones first, and their total number.

    own: only the viewer's, even for maintainers.
    """
    conditions: list[ColumnElement[bool]] = []
    if own or not viewer.may("maintain"):
        conditions.append(Submission.account_id == viewer.account_id)
    if state is not None:
        conditions.append(Submission.state == state)
    total = session.scalar(select(func.count()).select_from(Submission).where(*conditions)) or 0
    order = ((Submission.state != "requested"), Submission.id.desc())
    query = select(Submission).where(*conditions).order_by(*order).limit(limit).offset(offset)
    return list(session.scalars(query)), total


SUBMISSION: Final = (
    *("state", "suite", "model", "note", "conflict_of_interest", "anonymous", "created_at"),
    *("decided_at", "reason", "finished_at"),
)


def submission_document(session: Session, submission: Submission) -> dict[str, Any]:
    """Return the report of a submission. evaluations: the numbers of the evaluations that it queued."""
    ids = select(SubmissionEvaluation.evaluation_id).filter_by(submission_id=submission.id)
    revision = (
        None if submission.model_revision_id is None else session.get(ModelRevision, submission.model_revision_id)
    )
    return pick(submission, SUBMISSION) | {
        "submission": submission.id,
        "requester": session.get_one(Account, submission.account_id).name,
        "decided_by": _name_decider(session, submission),
        "revision": None if revision is None else f"{revision.model.name}@{revision.number}",
        "revision_state": None if revision is None else revision.state,
        "evaluations": list(session.scalars(ids.order_by(SubmissionEvaluation.evaluation_id))),
    }


def _name_decider(session: Session, submission: Submission) -> str | None:
    if submission.decided_at is None:
        return None
    return "command line" if submission.decided_by is None else session.get_one(Account, submission.decided_by).name


# Deciding


def submission_estimate(session: Session, submission: Submission, settings: Settings) -> dict[str, Any]:
    """Estimate the cost of a submission, for a maintainer. problem: why it cannot be queued; None if it can."""
    try:
        request = revision_request(submission.model, settings)
        service = service_of(request.kind, request.location, request.revision, settings)
        revision = _find_revision(session, submission, request)
        return suite_estimate(session, submission.suite, revision, service=service) | {"problem": None}
    except ShuffleboardError as error:
        return {"estimates": [], "problem": str(error)}


def _find_revision(session: Session, submission: Submission, request: RevisionRequest) -> ModelRevision | None:
    """Return the revision that a request would register, if it is already registered."""
    query = select(ModelRevision).join(Model).where(Model.name == submission.model["name"])
    return next((row for row in session.scalars(query) if request_of(row) == request), None)


def approve(
    session: Session,
    viewer: Viewer,
    submission_id: int,
    settings: Settings,
    *,
    reason: str | None = None,
    queue: str = "cpu",
    priority: int = 0,
    budget: float | None = None,
    files: ModelFiles | None = None,
    address: str | None = None,
) -> Submission:
    """Register the model and queue the evaluations that the suite lacks; return the submission.

    A model whose files no worker has hashed yet is only registered; `advance` queues its evaluations once it is ready.
    files: digests of the files, if known. budget: the maximum cost of the submission, in the price list's currency.
    Raises QueueError, naming who decided, if the submission is no longer awaiting a decision, and any error from
    registering, submitting and setting the budget; after an error nothing is stored.
    """
    viewer.require("maintain")
    submission = find_submission(session, viewer, submission_id)
    estimate = submission_estimate(session, submission, settings)
    _decide(session, viewer, submission, "approved", reason, estimate | {"queue": queue, "priority": priority})
    if estimate["problem"] is not None:
        raise QueueError(f"submission {submission.id} cannot be queued: {estimate['problem']}")
    request = revision_request(submission.model, settings)
    revision, _ = add_revision(session, submission.model["name"], request, files=files)
    submission.model_revision_id = revision.id
    session.flush()
    if revision.state == "ready":
        _submit(session, submission, revision)
    if budget is not None:
        set_budget(session, "submission", str(submission.id), budget)
    details = {"revision": f"{revision.model.name}@{revision.number}", "suite": submission.suite}
    record(session, viewer, "submission.approve", str(submission.id), address=address, details=details)
    return submission


def reject(
    session: Session, viewer: Viewer, submission_id: int, settings: Settings, reason: str, *, address: str | None = None
) -> Submission:
    """Reject a submission, with a reason for its submitter. Raises QueueError in the same cases as `approve`."""
    viewer.require("maintain")
    if not reason.strip():
        raise UsageError("reason: give one, so that the submitter knows what to change")
    submission = find_submission(session, viewer, submission_id)
    estimate = submission_estimate(session, submission, settings)
    _decide(session, viewer, submission, "rejected", reason, estimate)
    record(session, viewer, "submission.reject", str(submission.id), address=address)
    return submission


def withdraw(session: Session, viewer: Viewer, submission_id: int, *, address: str | None = None) -> Submission:
    """Withdraw a pending submission on behalf of its submitter. Nothing happens if it was withdrawn before."""
    viewer.require("submit")
    submission = find_submission(session, viewer, submission_id)
    if submission.account_id != viewer.account_id:
        raise UsageError(f"submission {submission.id} is someone else's; reject it instead")
    if submission.state != "withdrawn":
        _change_state(session, submission, state="withdrawn")
        record(session, viewer, "submission.withdraw", str(submission.id), address=address)
    return submission


def _decide(
    session: Session, viewer: Viewer, submission: Submission, state: str, reason: str | None, estimate: dict[str, Any]
) -> None:
    text = (reason or "").strip() or None
    if text is not None and (len(text) > MAX_NOTE or "\x00" in text):
        raise UsageError(f"reason: give up to {MAX_NOTE:,} characters of plain text")
    _change_state(
        session,
        submission,
        state=state,
        reason=text,
        decided_by=viewer.account_id,
        decided_at=database_now(),
        estimate=estimate,
    )


def _change_state(session: Session, submission: Submission, **values: Any) -> None:
    """Change the state of a pending submission.

    Of two concurrent decisions one wins, and the other raises QueueError.
    """
    moved = update_one(
        session,
        update(Submission).where(Submission.id == submission.id, Submission.state == "requested").values(**values),
    )
    session.refresh(submission)
    if not moved:
        decider = _name_decider(session, submission)
        by = f" by {decider} at {submission.decided_at:%Y-%m-%d %H:%M} UTC" if decider else ""
        raise QueueError(f"submission {submission.id} was {submission.state}{by}; it is no longer awaiting a decision")


def _submit(session: Session, submission: Submission, revision: ModelRevision) -> None:
    """Queue the evaluations that the suite lacks for the revision, and link all of the suite's evaluations."""
    estimate = submission.estimate or {}
    evaluations = submit_suite(
        session,
        f"{revision.model.name}@{revision.number}",
        submission.suite,
        queue=estimate.get("queue", "cpu"),
        priority=estimate.get("priority", 0),
        conflict_of_interest=submission.conflict_of_interest,
        requester=ANONYMOUS if submission.anonymous else session.get_one(Account, submission.account_id).name,
    )
    for evaluation_id in dict.fromkeys(evaluation.id for evaluation, _ in evaluations):
        session.add(SubmissionEvaluation(submission_id=submission.id, evaluation_id=evaluation_id))
    session.flush()


# Going on


def advance(engine: Engine) -> None:
    """Queue approved submissions whose model has become ready, and end those whose evaluations have all ended.

    Runs may overlap, and may be killed at any moment.
    """
    with read_session(engine) as session:
        query = select(Submission.id).where(Submission.state == "approved", Submission.finished_at.is_(None))
        waiting = session.scalars(query.order_by(Submission.id)).all()
    for submission_id in waiting:
        try:
            with write_session(engine) as session:
                _advance(session, submission_id)
        except ShuffleboardError as error:
            log.warning("submission_failed", submission=submission_id, error=str(error))
            with write_session(engine) as session:
                row = _lock(session, submission_id)
                if row is not None:
                    _finish(session, row)


def _lock(session: Session, submission_id: int) -> Submission | None:
    """Lock and return a submission; None if it is no longer in progress or is locked by another process."""
    return session.scalar(
        select(Submission)
        .where(Submission.id == submission_id, Submission.state == "approved", Submission.finished_at.is_(None))
        .with_for_update(skip_locked=True)
    )


def _advance(session: Session, submission_id: int) -> None:
    submission = _lock(session, submission_id)
    if submission is None:
        return
    states = session.scalars(
        select(Evaluation.state)
        .join(SubmissionEvaluation, SubmissionEvaluation.evaluation_id == Evaluation.id)
        .where(SubmissionEvaluation.submission_id == submission.id)
    ).all()
    if states:
        if all(state in ENDED for state in states):
            _finish(session, submission)
        return
    revision = session.get_one(ModelRevision, submission.model_revision_id)
    if revision.state == "ready":
        _submit(session, submission, revision)
    elif revision.state == "failed":
        _finish(session, submission)


def _finish(session: Session, submission: Submission) -> None:
    submission.finished_at = session.scalar(select(database_now()))
    session.flush()


def problem_of(session: Session, submission: Submission, *, whole: bool) -> str | None:
    """Return the reason why nothing was queued for a submission that has ended.

    None if something was queued, or the submission is still in progress. whole: include the worker's own message, which
    may name its files.
    """
    linked = select(SubmissionEvaluation.evaluation_id).filter_by(submission_id=submission.id).limit(1)
    if submission.finished_at is None or session.scalar(linked) is not None:
        return None
    revision = session.get(ModelRevision, submission.model_revision_id)
    if revision is not None and revision.state == "failed":
        return f"the model cannot be used: {revision.error}" if whole else "the model cannot be fetched or used"
    return "the suite's evaluations could not be queued; the worker's log says why"

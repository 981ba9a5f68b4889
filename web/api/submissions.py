"""Submissions over the API."""

from typing import Annotated, Any

from flask import Response, request
from pydantic import Field

from registry.boards.rules import Terms
from registry.boards.submissions import (
    ModelRequest,
    approve,
    find_submission,
    list_submissions,
    problem_of,
    reject,
    request_submission,
    submission_document,
    submission_estimate,
    withdraw,
)
from registry.db import read_session, write_session
from registry.fields import OneOf
from registry.tables.accounts import SUBMISSION_STATES
from web.api import answers, bodies
from web.api.operations import answer, change, get, page
from web.api.paths import SubmissionId
from web.serving.responses import session
from web.urls.parameters import Paged, YesOrNo
from web.who.identity import engine, settings_of, viewer


def document_of(database: Any, submission: Any) -> dict[str, Any]:
    """Return a submission as JSON, with its problem as far as the viewer may read it."""
    return submission_document(database, submission) | {
        "problem": problem_of(database, submission, whole=viewer().may("maintain")),
    }


class SubmissionsQuery(Paged):
    """Filters for submissions."""

    state: Annotated[str, OneOf(SUBMISSION_STATES)] | None = Field(None, description="Only submissions in this state.")
    mine: Annotated[YesOrNo, Field(description="Only those of the token's own account.")] = "no"


@get("/submissions", answers.SubmissionList, tag="submissions", scope="submit")
def submissions(query: SubmissionsQuery) -> Response:
    """Return submissions, pending ones first: the viewer's own, or all for maintainers."""
    with read_session(engine()) as database:
        rows, total = list_submissions(
            database,
            viewer(),
            state=query.state,
            own=query.mine == "yes",
            limit=query.per_page,
            offset=query.offset,
        )
        items = [document_of(database, item) for item in rows]
    return page(items, total, query)


@change(
    "POST",
    "/submissions",
    answers.Submission,
    tag="submissions",
    scope="submit",
    statuses={201: "Asked for.", 200: "The same was asked for and still waits: it is that one."},
    conflicts=True,
)
def request_evaluation(body: bodies.SubmissionBody) -> Response:
    """Submit a model for evaluation on a suite; a maintainer decides."""
    requested = ModelRequest(body.hub, body.endpoint, body.revision, body.dtype, body.name)
    with write_session(engine()) as database:
        submission, new = request_submission(
            database,
            session(),
            viewer(),
            requested,
            body.suite,
            body.note,
            settings_of(),
            terms=Terms(body.anonymous, body.conflict_of_interest),
            address=request.remote_addr,
        )
        document = document_of(database, submission)
    return answer(document, status=201 if new else 200)


@get("/submissions/<submission_id>", answers.Submission, tag="submissions", scope="submit")
def submission(submission_id: SubmissionId) -> Response:
    """Return one submission: the request, the decision, and the resulting evaluations."""
    with read_session(engine()) as database:
        return answer(document_of(database, find_submission(database, viewer(), submission_id)))


@get("/submissions/<submission_id>/estimate", answers.SubmissionEstimate, tag="submissions", scope="submit")
def submission_cost(submission_id: SubmissionId) -> Response:
    """Estimate the current cost of a submission, in tokens, time and money; `problem` explains why it cannot be queued.

    Unknown values are null. A submitter sees only the benchmarks that they may see.
    """
    with read_session(engine()) as database:
        row = find_submission(database, viewer(), submission_id)
        seen = database if viewer().may("maintain") else session()
        return answer(submission_estimate(seen, row, settings_of()))


@change(
    "POST",
    "/submissions/<submission_id>/approve",
    answers.Submission,
    tag="submissions",
    scope="maintain",
    statuses={200: "Approved: the model is registered, and what the suite lacks of it is queued."},
    conflicts=True,
)
def approve_submission(submission_id: SubmissionId, body: bodies.ApprovalBody) -> Response:
    """Register the model and queue the missing evaluations, at once or as soon as a worker has its files."""
    with write_session(engine()) as database:
        approved = approve(
            database,
            viewer(),
            submission_id,
            settings_of(),
            reason=body.reason,
            queue=body.queue,
            priority=body.priority,
            budget=body.budget,
            address=request.remote_addr,
        )
        document = document_of(database, approved)
    return answer(document)


@change(
    "POST",
    "/submissions/<submission_id>/reject",
    answers.Submission,
    tag="submissions",
    scope="maintain",
    statuses={200: "Rejected."},
    conflicts=True,
)
def reject_submission(submission_id: SubmissionId, body: bodies.RejectionBody) -> Response:
    """Reject a submission, with a reason."""
    with write_session(engine()) as database:
        rejected = reject(database, viewer(), submission_id, settings_of(), body.reason, address=request.remote_addr)
        return answer(document_of(database, rejected))


@change(
    "POST",
    "/submissions/<submission_id>/withdraw",
    answers.Submission,
    tag="submissions",
    scope="submit",
    statuses={200: "Withdrawn."},
    conflicts=True,
)
def withdraw_submission(submission_id: SubmissionId) -> Response:
    """Withdraw the viewer's own submission while it is pending."""
    with write_session(engine()) as database:
        return answer(document_of(database, withdraw(database, viewer(), submission_id, address=request.remote_addr)))

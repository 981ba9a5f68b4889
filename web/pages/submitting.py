"""Pages of submissions: requesting a model, deciding on it, following the outcome."""

from typing import Annotated, Any, Final

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import func, select

from registry.boards.rules import Terms, boards_of, rules_document
from registry.boards.store import board_definition, current_boards, suite_definition
from registry.boards.submissions import (
    MAX_NOTE,
    ModelRequest,
    approve,
    find_submission,
    list_submissions,
    problem_of,
    reject,
    request_submission,
    says_its_benchmarks,
    submission_document,
    submission_estimate,
    withdraw,
)
from registry.db import MAX_INTEGER, read_session, write_session
from registry.errors import ForbiddenError, NotFoundError, QueueError, UsageError
from registry.fields import Between, OneOf
from registry.names import split_reference
from registry.revisions.endpoints import load_endpoints
from registry.revisions.store import DTYPES
from registry.schema.selectables import Row
from registry.tables import QUEUES, Evaluation, Suite
from registry.tables.accounts import SUBMISSION_STATES
from web.serving.responses import session
from web.shown import queries
from web.urls import parameters
from web.urls.parameters import Arguments
from web.who.identity import engine, settings_of, viewer

blueprint = Blueprint("submitting", __name__)

PER_PAGE: Final = 50
FIELDS: Final = (
    "hub",
    "endpoint",
    "revision",
    "dtype",
    "name",
    "suite",
    "note",
    "anonymous",
    "conflict_of_interest",
)


# Submitting


@blueprint.get("/submit")
def submit() -> ResponseReturnValue:
    """Show the form, and your own submissions. Anonymous visitors get a link to sign in."""
    if not viewer().signed_in:
        return render_template("submit.html", anonymous=True), 401
    viewer().require("submit")
    return _form({"suite": parameters.text(request.args, "suite") or ""})


def _form(given: dict[str, str], error: str | None = None, status: int = 200) -> ResponseReturnValue:
    with read_session(engine()) as database:
        own, total = list_submissions(database, viewer(), own=True, limit=PER_PAGE)
        rows = [submission_document(database, row) for row in own]
    return (
        render_template(
            "submit.html",
            suites=_suites(),
            endpoints=sorted(load_endpoints(settings_of().endpoints)),
            dtypes=DTYPES,
            given=given,
            error=error,
            rows=rows,
            total=total,
            max_note=MAX_NOTE,
        ),
        status,
    )


def _suites() -> list[Row]:
    """Return the newest version of every suite that the viewer may see and request, with its contents."""
    newest = select(Suite.name, func.max(Suite.version).label("version")).group_by(Suite.name).subquery()
    query = select(Suite).join(newest, (newest.c.name == Suite.name) & (newest.c.version == Suite.version))
    suites = []
    for row in session().scalars(query.order_by(Suite.name)):
        if not says_its_benchmarks(session(), row):
            continue
        definition = suite_definition(row)
        tasks = [
            {
                "name": task.name or ("any benchmark" if definition.needs_benchmarks else task.benchmarks[0]),
                "benchmarks": [name for name in task.benchmarks if name != "*"],
                "variants": task.variants or definition.variants,
                "protocols": task.protocols or definition.protocols,
                "shots": definition.shots if task.shots is None else task.shots,
                "limit": task.limit,
                "sample": task.sample,
                "seed": task.seed,
            }
            for task in definition.tasks
        ]
        rules = {board.name: rules_document(board_definition(board).submissions) for board in boards_of(session(), row)}
        suites.append(
            {
                "name": row.name,
                "version": row.version,
                "title": definition.title,
                "tasks": tasks,
                "rules": {name: document for name, document in rules.items() if document is not None},
            }
        )
    return suites


@blueprint.post("/submit")
def ask() -> ResponseReturnValue:
    """Store the form's request, or show the form again with its errors."""
    viewer().require("submit")
    fields = {key: request.form.get(key, "").strip() for key in FIELDS}
    requested = ModelRequest(**{key: fields[key] or None for key in ("hub", "endpoint", "revision", "dtype", "name")})
    if not fields["suite"]:
        return _form(fields, "suite: choose a test suite for the model", 400)
    try:
        with write_session(engine()) as database:
            submission, _ = request_submission(
                database,
                session(),
                viewer(),
                requested,
                fields["suite"],
                fields["note"],
                settings_of(),
                terms=Terms(
                    fields["anonymous"] == "yes",
                    fields["conflict_of_interest"] or None,
                ),
                address=request.remote_addr,
            )
            number = submission.id
    except (UsageError, NotFoundError) as error:
        return _form(fields, str(error), 400)
    except ForbiddenError as error:
        return _form(fields, str(error), 403)
    except QueueError as error:
        return _form(fields, str(error), 409)
    return redirect(url_for("submitting.submission", submission_id=number), 303)


# Deciding


class _Listed(parameters.Query):
    """The filter for the list of submissions."""

    state: Annotated[str, OneOf(SUBMISSION_STATES)] | None = None
    page: Annotated[int, Between(1, parameters.MAX_PAGE)] = 1


@blueprint.get("/submissions")
def submissions() -> ResponseReturnValue:
    """Show every submission, undecided ones first."""
    viewer().require("maintain")
    requested = parameters.read(_Listed, request.args)
    with read_session(engine()) as database:
        listed, total = list_submissions(
            database, viewer(), state=requested.state, limit=PER_PAGE, offset=(requested.page - 1) * PER_PAGE
        )
        rows = [submission_document(database, row) for row in listed]
    return render_template(
        "submissions.html",
        rows=rows,
        total=total,
        state=requested.state,
        states=SUBMISSION_STATES,
        page=requested.page,
        pages=max(1, -(-total // PER_PAGE)),
    )


@blueprint.get("/submissions/<submission_id>")
def submission(submission_id: str) -> ResponseReturnValue:
    """Show a submission: the request, the decision or the form for it, and the progress of its evaluations."""
    viewer().require("submit")
    number = parameters.identifier("submission", submission_id)
    maintains = viewer().may("maintain")
    estimate: dict[str, Any] | None = None
    with read_session(engine()) as database:
        row = find_submission(database, viewer(), number)
        document = submission_document(database, row)
        problem = problem_of(database, row, whole=maintains)
        own = row.account_id == viewer().account_id
        if row.state == "requested":
            # Submitters see an estimate only for benchmarks that they may see.
            estimate = submission_estimate(database if maintains else session(), row, settings_of())
        elif maintains:
            estimate = row.estimate
    # Which evaluations are shown, and under which names, depends on the audience.
    evaluations, _ = queries.evaluations(
        session(), conditions=[Evaluation.id.in_(document["evaluations"])], limit=MAX_INTEGER
    )
    suite = split_reference(document["suite"])[0]
    return render_template(
        "submission.html",
        row=document,
        problem=problem,
        own=own,
        maintains=maintains,
        estimate=estimate,
        evaluations=evaluations,
        unseen=len(document["evaluations"]) - len(evaluations),
        boards=[board.name for board in current_boards(session()) if board.suite.name == suite],
        queues=QUEUES,
        max_note=MAX_NOTE,
    )


@blueprint.post("/submissions/<submission_id>/decide")
def decide(submission_id: str) -> ResponseReturnValue:
    """Approve or reject a submission, depending on the button."""
    viewer().require("maintain")
    number = parameters.identifier("submission", submission_id)
    decision = parameters.choice(request.form, "decision", ("approve", "reject"), "")
    reason = request.form.get("reason", "")
    with write_session(engine()) as database:
        if decision == "approve":
            approve(
                database,
                viewer(),
                number,
                settings_of(),
                reason=reason,
                queue=parameters.choice(request.form, "queue", QUEUES, "cpu"),
                priority=_priority(request.form),
                budget=_budget(request.form),
                address=request.remote_addr,
            )
        elif decision == "reject":
            reject(database, viewer(), number, settings_of(), reason, address=request.remote_addr)
        else:
            raise UsageError("decision: approve or reject")
    return redirect(url_for("submitting.submission", submission_id=number), 303)


def _budget(form: Arguments) -> float | None:
    text = form.get("budget", "").strip()
    try:
        return float(text) if text else None
    except ValueError:
        raise UsageError(f"budget={parameters.shorten(text)}: give an amount, such as 5.00, or nothing") from None


def _priority(form: Arguments) -> int:
    text = form.get("priority", "").strip() or "0"
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 9:
        raise UsageError(f"priority={parameters.shorten(text)}: give a whole number, such as 0")
    return int(text)


@blueprint.post("/submissions/<submission_id>/withdraw")
def take_back(submission_id: str) -> ResponseReturnValue:
    """Withdraw your own submission."""
    viewer().require("submit")
    number = parameters.identifier("submission", submission_id)
    with write_session(engine()) as database:
        withdraw(database, viewer(), number, address=request.remote_addr)
    return redirect(url_for("submitting.submission", submission_id=number), 303)

"""`shuffleboard submissions`."""

from typing import Any

import click

from registry.boards.submissions import (
    approve,
    find_submission,
    list_submissions,
    problem_of,
    reject,
    revision_request,
    submission_document,
    submission_estimate,
)
from registry.db import MAX_INTEGER, read_session, write_session
from registry.operations.opening import engine_of
from registry.people.accounts import OPERATOR
from registry.tables import QUEUES
from registry.tables.accounts import SUBMISSION_STATES
from shuffleboard.cli.common import budget_option, json_option, note, print_document, settings_of, tell
from shuffleboard.cli.estimates import print_estimate
from shuffleboard.cli.groups import Group
from shuffleboard.cli.models import inspect_here
from shuffleboard.cli.tables import parse_headings, print_table, show, table_options


@click.group(cls=Group)
def submissions() -> None:
    """Review submissions."""


@submissions.command("list")
@click.option("--state", type=click.Choice(SUBMISSION_STATES), default=None, help="Only submissions in this state.")
@table_options
@json_option
def list_command(state: str | None) -> None:
    """List submissions, those awaiting a decision first."""
    with read_session(engine_of(settings_of())) as session:
        listed, _ = list_submissions(session, OPERATOR, state=state, limit=MAX_INTEGER)
        rows = [submission_document(session, row) for row in listed]
    if print_document({"submissions": rows}):
        return
    headings = parse_headings(
        "submission: ID, state, name: Model, where: From, suite, requester: Requested by, created_at: Asked, decided_by"
    )
    print_table([row | _model(row["model"]) for row in rows], headings, "no submission yet")


def _model(model: dict[str, Any]) -> dict[str, Any]:
    where = model.get("location") or f"endpoint {model['endpoint']}"
    revision = f"@{model['revision']}" if model["revision"] else ""
    return {"name": model["name"], "where": f"{where}{revision}"}


@submissions.command("show")
@click.argument("submission_id", type=int)
@table_options
@json_option
def show_command(submission_id: int) -> None:
    """Show a submission with its estimated cost, or its outcome."""
    settings = settings_of()
    with read_session(engine_of(settings)) as session:
        row = find_submission(session, OPERATOR, submission_id)
        document = submission_document(session, row) | {"problem": problem_of(session, row, whole=True)}
        waits = row.state == "requested"
        estimate = submission_estimate(session, row, settings) if waits else row.estimate
    if print_document(document | {"estimate": estimate}):
        return
    for key, value in (document | _model(document["model"])).items():
        if key != "model":
            shown = ", ".join(map(str, value)) if isinstance(value, list) else show(value)
            click.echo(f"{key.replace('_', ' '):16} {shown or '–'}")
    if estimate and waits:
        if estimate["problem"] is None:
            print_estimate(estimate)
        else:
            note(f"cannot be queued: {estimate['problem']}")


@submissions.command("approve")
@click.argument("submission_id", type=int)
@click.option("--reason", default=None, help="Shown to the submitter.")
@click.option("--queue", type=click.Choice(QUEUES), default="cpu", show_default=True, help="Kind of device.")
@click.option(
    "--priority",
    type=click.IntRange(-MAX_INTEGER, MAX_INTEGER),
    default=0,
    show_default=True,
    help="Higher is scored first.",
)
@budget_option("The most that the submission may cost, if a provider charges; it is paused when that is reached.")
@json_option
def approve_command(submission_id: int, reason: str | None, queue: str, priority: int, budget: float | None) -> None:
    """Approve a submission: register its model and queue the missing evaluations of the suite.

    Without a broker the model's files are fetched and hashed here, as `models add` does; otherwise a worker does that,
    and the evaluations are queued as soon as it is done.
    """
    settings = settings_of()
    engine = engine_of(settings)
    with read_session(engine) as session:
        row = find_submission(session, OPERATOR, submission_id)
        request = revision_request(row.model, settings) if row.state == "requested" else None
    files = None if request is None else inspect_here(request, settings)
    with write_session(engine) as session:
        approved = approve(
            session,
            OPERATOR,
            submission_id,
            settings,
            reason=reason,
            queue=queue,
            priority=priority,
            budget=budget,
            files=files,
        )
        document = submission_document(session, approved)
    if print_document(document):
        return
    click.echo(f"submission {submission_id} is approved: {document['revision']}")
    if document["evaluations"]:
        click.echo(f"evaluations {', '.join(map(str, document['evaluations']))}")
    else:
        note("a worker fetches and hashes the model's files next; its evaluations are queued after that")


@submissions.command("reject")
@click.argument("submission_id", type=int)
@click.option("--reason", required=True, help="Shown to the submitter.")
@json_option
def reject_command(submission_id: int, reason: str) -> None:
    """Reject a submission, with a reason."""
    settings = settings_of()
    with write_session(engine_of(settings)) as session:
        document = submission_document(session, reject(session, OPERATOR, submission_id, settings, reason))
    tell(document, f"submission {submission_id} is rejected")

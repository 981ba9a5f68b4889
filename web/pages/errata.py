"""Errata of a benchmark: what is said of its questions, and for maintainers the form that says it."""

from typing import Final

from flask import redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from registry.db import write_session
from registry.errata.versions import errata_document, versions_of_errata
from registry.errors import UsageError
from registry.people import accounts
from web.pages.blueprint import blueprint
from web.pages.questions import question_page
from web.serving.responses import session
from web.shown import queries
from web.shown.errata import STATUSES, errata_of
from web.shown.items import version_of
from web.urls import parameters
from web.who.identity import engine, viewer

TAKE_BACK: Final = "take-back"
"""What the form sends to take back what was said."""


@blueprint.get("/benchmarks/<benchmark>/errata")
def errata(benchmark: str) -> ResponseReturnValue:
    """What is said of a benchmark's questions, in one version of its errata."""
    name, wanted = parameters.name("benchmark", benchmark), parameters.text(request.args, "version")
    _, chosen = version_of(name, wanted)
    number = parameters.text(request.args, "number")
    found = errata_of(
        session(),
        chosen["benchmark_version_id"],
        None if number is None else parameters.whole(request.args, "number", 1, 1, parameters.MAX_ID),
    )
    known = versions_of_errata(session(), chosen["benchmark_version_id"])
    return render_template(
        "errata.html",
        chosen=chosen,
        found=None if found is None else errata_document(found),
        at=None if found is None else found.at,
        question_ids={} if found is None else {one.question.external_id: one.question_id for one in found.errata},
        versions=known,
        statuses=STATUSES,
    )


@blueprint.post("/questions/<question_id>/errata")
def mark_question(question_id: str) -> ResponseReturnValue:
    """Says what the form says of a question, or shows the question again with what is wrong with the form."""
    from registry.boards.snapshots import refresh_boards  # and numpy
    from registry.errata.marks import Mark, mark, take_back

    viewer().require("maintain")
    row = queries.question(session(), parameters.identifier("question", question_id))
    given = {name: request.form.get(name, "").strip() for name in ("status", "answer", "note")}
    reference = f"{row['benchmark']}@{row['benchmark_version']}"
    try:
        answer = _answer(given["answer"]) if given["status"] == "corrected-key" else None
        with write_session(engine()) as database:
            who, name = viewer().name, row["external_id"]
            if given["status"] == TAKE_BACK:
                made = take_back(database, reference, name, given["note"], actor=who)
            else:
                made = mark(database, reference, Mark(name, given["status"], given["note"], answer, who))
            accounts.record(
                database,
                viewer(),
                "errata.take_back" if given["status"] == TAKE_BACK else "errata.mark",
                reference,
                address=request.remote_addr,
                details={"question": name, "status": given["status"], "errata_version": made.number},
            )
    except UsageError as error:
        return question_page(row["question_id"], given=given, error=str(error)), 400
    refresh_boards(engine())
    return redirect(url_for("pages.question", question_id=row["question_id"], _anchor="errata"), 303)


def _answer(value: str) -> int:
    if not value:
        raise UsageError("answer: choose the option that is right after all")
    return parameters.whole(parameters.Arguments([("answer", value)]), "answer", 0, 0, 10_000)

"""The page of the queue: running and waiting evaluations, and the workers."""

from flask import render_template, request
from flask.typing import ResponseReturnValue

from registry.leaderboard.rows import UNFINISHED
from web.pages.blueprint import blueprint
from web.serving.responses import session
from web.shown import listings, queries
from web.urls import parameters
from web.urls.paging import MAX_PER_PAGE, find_page


@blueprint.get("/queue")
def queue() -> ResponseReturnValue:
    """Show running and waiting evaluations and the live workers."""
    page, per_page = parameters.paging(request.args, per_page=50, most=MAX_PER_PAGE)
    items, total = queries.evaluations(session(), states=UNFINISHED, limit=per_page, offset=(page - 1) * per_page)
    finished, _ = queries.evaluations(session(), states=("complete",), limit=10)
    return render_template(
        "queue.html",
        evaluations=items,
        paging=find_page(total, per_page, asked=(page, per_page)),
        finished=finished,
        **listings.queue(session()),
    )

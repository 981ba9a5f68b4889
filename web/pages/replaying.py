"""The form for replays on an evaluation's page."""

from typing import Any

from flask import redirect, request, url_for
from flask.typing import ResponseReturnValue

from registry.prompting.protocols.store import load_known_definitions
from registry.schema.selectables import Row
from web.orders import run_order
from web.pages.blueprint import blueprint
from web.serving.responses import session
from web.shown import listings, queries
from web.urls import parameters
from web.who.identity import viewer

__all__ = ["blueprint", "replay_choices"]


@blueprint.post("/evaluations/<evaluation_id>/replay")
def replay(evaluation_id: str) -> ResponseReturnValue:
    """Create a replay, or find the existing one, and redirect to its page."""
    viewer().require("maintain")
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    wanted = {key: request.form.get(key, "").strip() or None for key in ("benchmark", "protocol")}
    order = {"evaluation": row["evaluation_id"], **wanted, "requester": viewer().name}
    replay_id = run_order("replay", order)["evaluation"]
    return redirect(url_for("pages.evaluation", evaluation_id=replay_id), 303)


def replay_choices(row: Row) -> dict[str, Any] | None:
    """Return the versions and protocols for the form; None for a viewer who may not create a replay."""
    if not row["complete"] or not viewer().may("maintain"):
        return None
    versions = [
        f"{item['benchmark']}@{item['version']}"
        for item in listings.benchmarks(session(), row["benchmark"])
        if item["version"] != row["benchmark_version"]
    ]
    # Matching needs an embedder, which the website does not load.
    protocols = [
        name for name, rules in load_known_definitions().items() if "answer" in rules and "matching" not in rules
    ]
    return {"versions": versions, "protocols": protocols}

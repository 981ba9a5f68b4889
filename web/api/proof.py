"""Proof as JSON: what differs between two provenances, drift, the chain of seals."""

from typing import Final

from flask import Response, request
from sqlalchemy import func, select

from registry.api import documents
from registry.proof.provenance import compare_provenance
from web import parameters, proof, queries
from web.api import arguments
from web.api.operations import answer, get, page
from web.responses import session
from web.views import Row, chain_links, rows_of

_ID: Final = {"type": "integer", "minimum": 1, "maximum": 10**18 - 1}


def _side(name: str) -> arguments.Argument[str | None]:
    return arguments.Argument(
        name, "An evaluation's number.", _ID, lambda given: parameters.text(given, name), required=True
    )


LEFT: Final = _side("left")
RIGHT: Final = _side("right")


def _found(evaluation_id: str) -> Row:
    return queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))


@get("/evaluations/<evaluation_id>/provenance/<other_id>", documents.ProvenanceDifference, tag="results")
def provenance_difference(evaluation_id: str, other_id: str) -> Response:
    """What differs between the provenances of two evaluations, and what does not, by group."""
    return answer(compare_provenance(*(proof.provenance_of(_found(item)) for item in (evaluation_id, other_id))))


@get("/drift", documents.Drift, tag="results", query=(LEFT, RIGHT))
def drift() -> Response:
    """What changed between two evaluations that put the same prompts to the same model."""
    left, right = LEFT.read(request.args), RIGHT.read(request.args)
    assert left is not None
    assert right is not None
    return answer(proof.drift_of(left, right)[2])


@get("/chain", documents.ChainPage, tag="results", query=arguments.PAGING, paged=True)
def chain() -> Response:
    """The chain of seals, withdrawals and snapshots, the newest link first. Its head stands for all of it."""
    number, size = arguments.PAGE.read(request.args), arguments.PER_PAGE.read(request.args)
    total = session().scalar(select(func.count()).select_from(chain_links)) or 0
    query = select(chain_links).order_by(chain_links.c.position.desc())
    links = rows_of(session(), query.limit(size).offset((number - 1) * size))
    head = session().scalar(select(chain_links.c.digest).order_by(chain_links.c.position.desc()).limit(1))
    return page(links, total, number, size, head=head)

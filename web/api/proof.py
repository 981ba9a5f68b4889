"""Proof as JSON: the differences between two provenances, and the chain of seals."""

from typing import Any, Final

from flask import Response
from sqlalchemy import func, select

from registry.db import pick
from registry.schema.selectables import chain_links, rows_of
from registry.sealed.provenance import compare_provenance
from registry.sealed.signing import newest_signature, signatures
from registry.tables import ChainSignature
from web.api import answers
from web.api.operations import answer, get, page
from web.api.paths import EvaluationId, OtherId
from web.serving.responses import session
from web.shown import queries
from web.shown.provenance import comparable_provenance_of
from web.urls.parameters import Paged


@get("/evaluations/<evaluation_id>/provenance/<other_id>", answers.ProvenanceDifference, tag="results")
def provenance_difference(evaluation_id: EvaluationId, other_id: OtherId) -> Response:
    """Return the differences and agreements between the provenances of two evaluations, by group."""
    sides = (queries.evaluation(session(), item) for item in (evaluation_id, other_id))
    return answer(compare_provenance(*map(comparable_provenance_of, sides)))


@get("/chain", answers.ChainPage, tag="results")
def chain(query: Paged) -> Response:
    """List the chain of seals, folders, withdrawals and snapshots, the newest link first."""
    total = session().scalar(select(func.count()).select_from(chain_links)) or 0
    newest = select(chain_links).order_by(chain_links.c.position.desc())
    links = rows_of(session(), newest.limit(query.per_page).offset(query.offset))
    head = session().scalar(select(chain_links.c.digest).order_by(chain_links.c.position.desc()).limit(1))
    signed = newest_signature(session())
    return page(links, total, query, head=head, signature=None if signed is None else signature_document(signed))


@get("/chain/signatures", answers.SignaturePage, tag="results")
def chain_signatures(query: Paged) -> Response:
    """List the signatures of the chain's head, the newest first, each with its public key."""
    total = session().scalar(select(func.count()).select_from(ChainSignature)) or 0
    rows = signatures(session(), limit=query.per_page, offset=query.offset)
    return page([signature_document(row) for row in rows], total, query)


SIGNATURE: Final = ("position", "head", "at", "key", "public_key", "statement", "signature")


def signature_document(row: ChainSignature) -> dict[str, Any]:
    """Return a signature as JSON."""
    return pick(row, SIGNATURE)

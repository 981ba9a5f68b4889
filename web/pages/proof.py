"""Pages of evidence: provenance and its differences, the chain, and withdrawn evaluations."""

from typing import Any, Final

from flask import Blueprint, Response, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy import func, select

from registry.errors import NotFoundError
from registry.schema.selectables import Row, chain_links, evaluation_sources, rows_of, withdrawals
from registry.sealed.provenance import GROUPS, compare_provenance
from registry.sealed.signing import keys, newest_signature
from web.serving.responses import session
from web.shown import queries
from web.shown.provenance import comparable_provenance_of
from web.urls import parameters
from web.urls.paging import ROWS_PER_PAGE, find_page

blueprint = Blueprint("proof", __name__)

LINKS_PER_PAGE: Final = 100


def remarks(evaluation_id: int) -> Row:
    """Return the warnings for an evaluation's pages: it was withdrawn, or it copies a withdrawn evaluation."""
    w, s = withdrawals.c, evaluation_sources.c
    notices = rows_of(session(), select(withdrawals).where(w.evaluation_id == evaluation_id, w.current))
    copied = select(s.source_evaluation_id, s.predictions).where(s.evaluation_id == evaluation_id, s.withdrawn)
    return {"withdrawal": notices[0] if notices else None, "copied": rows_of(session(), copied)}


@blueprint.app_context_processor
def _in_templates() -> dict[str, Any]:
    return {"remarks_on": remarks, "withdrawn_evaluations": _withdrawn}


def _withdrawn() -> int:
    return session().scalar(select(func.count(withdrawals.c.evaluation_id.distinct()))) or 0


def _evaluation(evaluation_id: str) -> Row:
    return queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))


@blueprint.get("/evaluations/<evaluation_id>/provenance")
def provenance(evaluation_id: str) -> ResponseReturnValue:
    """Show the provenance of an evaluation's numbers; with `against`, its differences from another's."""
    row = _evaluation(evaluation_id)
    document = comparable_provenance_of(row)
    against = parameters.text(request.args, "against")
    compared = difference = None
    if against is not None:
        compared = _evaluation(against)
        difference = compare_provenance(document, comparable_provenance_of(compared))
    return render_template(
        "provenance.html",
        evaluation=row,
        other=compared,
        provenance=document,
        difference=difference,
        groups=GROUPS,
        others=_others(row),
    )


def _others(row: Row) -> list[Row]:
    """Return the other evaluations of the model on the benchmark, newest first, to compare with."""
    rows, _ = queries.evaluations(session(), model=row["model"], benchmark=row["benchmark"], limit=50)
    return [listed for listed in rows if listed["evaluation_id"] != row["evaluation_id"]]


@blueprint.get("/chain")
def chain() -> ResponseReturnValue:
    """Show the chain of seals, folders, withdrawals and snapshots, newest first."""
    total = session().scalar(select(func.count()).select_from(chain_links)) or 0
    paging = find_page(total, LINKS_PER_PAGE)
    query = select(chain_links).order_by(chain_links.c.position.desc())
    rows = rows_of(session(), query.limit(paging.per_page).offset(paging.offset))
    head = rows_of(session(), query.limit(1))
    return render_template(
        "chain.html",
        links=rows,
        paging=paging,
        head=head[0] if head else None,
        signature=newest_signature(session()),
        keys=keys(session()),
    )


@blueprint.get("/chain/key.pem")
def newest_key() -> ResponseReturnValue:
    """Return the newest public key that signed the chain's head, as PEM."""
    signature = newest_signature(session())
    if signature is None:
        raise NotFoundError("the chain of this registry is not signed, so there is no key to check it with")
    return _pem(signature.public_key)


@blueprint.get("/chain/keys/<key>.pem")
def one_key(key: str) -> ResponseReturnValue:
    """Return a public key that signed a head, by its fingerprint, as PEM."""
    for row in keys(session()):
        if row["key"] == key:
            return _pem(str(row["public_key"]))
    raise NotFoundError(f"no key {parameters.shorten(key)} signed the chain of this registry; see /chain")


def _pem(text: str) -> ResponseReturnValue:
    return Response(text, mimetype="application/x-pem-file")


@blueprint.get("/proof")
def explained() -> ResponseReturnValue:
    """Explain in five sentences how a signed board is proof of its numbers."""
    return render_template("proof.html", signature=newest_signature(session()))


@blueprint.get("/withdrawn")
def withdrawn() -> ResponseReturnValue:
    """Show every withdrawn evaluation, with the reason."""
    w = withdrawals.c
    paging = find_page(_withdrawn(), ROWS_PER_PAGE)
    query = select(withdrawals).where(w.current).order_by(w.withdrawal.desc())
    rows = rows_of(session(), query.limit(paging.per_page).offset(paging.offset))
    named = [row | {"evaluation": queries.evaluation(session(), row["evaluation_id"])} for row in rows]
    return render_template("withdrawn.html", rows=named, paging=paging)

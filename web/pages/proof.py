"""Pages of evidence: provenance and how two differ, drift, the chain, and withdrawn evaluations."""

from typing import Any, Final

from flask import Blueprint, Response, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy import func, select, tuple_

from registry.errors import NotFoundError, UsageError
from registry.proof.provenance import GROUPS, compare_provenance
from registry.proof.signing import keys, newest_signature
from registry.schema.selectables import Row, chain_links, evaluation_sources, rows_of, withdrawals
from registry.tables import Evaluation, Model, ModelRevision
from web import charts
from web.serving.responses import session
from web.shown import queries
from web.shown.provenance import comparable_provenance_of, drift_of
from web.urls import parameters
from web.urls.paging import ROWS_PER_PAGE, paged

blueprint = Blueprint("proof", __name__)

LINKS_PER_PAGE: Final = 100
FLIPS_PER_PAGE: Final = 50
MOST_AGAIN: Final = 500
"""Evaluations that the page offers to choose from, the newest."""


def remarks(evaluation_id: int) -> Row:
    """The warnings at the top of an evaluation's pages: that it no longer counts, or copies what no longer counts."""
    w, s = withdrawals.c, evaluation_sources.c
    said = rows_of(session(), select(withdrawals).where(w.evaluation_id == evaluation_id, w.current))
    copied = select(s.source_evaluation_id, s.predictions).where(s.evaluation_id == evaluation_id, s.withdrawn)
    return {"withdrawal": said[0] if said else None, "copied": rows_of(session(), copied)}


@blueprint.app_context_processor
def _in_templates() -> dict[str, Any]:
    return {"remarks_on": remarks, "withdrawn_evaluations": _withdrawn}


def _withdrawn() -> int:
    return session().scalar(select(func.count(withdrawals.c.evaluation_id.distinct()))) or 0


def _evaluation(evaluation_id: str) -> Row:
    return queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))


@blueprint.get("/evaluations/<evaluation_id>/provenance")
def provenance(evaluation_id: str) -> ResponseReturnValue:
    """Where an evaluation's numbers come from; with `against`, what differs from another's."""
    row = _evaluation(evaluation_id)
    document = comparable_provenance_of(row)
    against = parameters.text(request.args, "against")
    other = difference = None
    if against is not None:
        other = _evaluation(against)
        difference = compare_provenance(document, comparable_provenance_of(other))
    return render_template(
        "provenance.html",
        evaluation=row,
        other=other,
        provenance=document,
        difference=difference,
        groups=GROUPS,
        others=_others(row),
    )


def _others(row: Row) -> list[Row]:
    """Other evaluations of the model on the benchmark, newest first, to compare with."""
    found, _ = queries.evaluations(session(), model=row["model"], benchmark=row["benchmark"], limit=50)
    return [other for other in found if other["evaluation_id"] != row["evaluation_id"]]


def _under_other_names(row: Row) -> list[Row]:
    """Evaluations of models that were loaded from the very same files, such as another precision."""
    if row["weights_digest"] is None:
        return []
    same = select(ModelRevision.id).where(
        ModelRevision.weights_digest == row["weights_digest"],
        ModelRevision.tokenizer_digest == row["tokenizer_digest"],
    )
    conditions = (Evaluation.model_revision_id.in_(same), Model.name != row["model"])
    found, _ = queries.evaluations(session(), benchmark=row["benchmark"], conditions=conditions, limit=50)
    return found


def _asked_again() -> list[list[Row]]:
    """Sealed evaluations that gave one model the same prompts, together, newest first; at most MOST_AGAIN of them."""
    key = (ModelRevision.model_id, Evaluation.benchmark_version_id, Evaluation.protocol_id, Evaluation.variant_set_id)
    several = (
        select(*key)
        .select_from(Evaluation)
        .join(ModelRevision, ModelRevision.id == Evaluation.model_revision_id)
        .where(Evaluation.seal.is_not(None))
        .group_by(*key)
        .having(func.count() > 1)
    )
    rows = queries.sealed_evaluations(session(), (tuple_(*key).in_(several),), limit=MOST_AGAIN)
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        same = (row["model"], row["benchmark_version_id"], row["protocol_id"], row["variant_set_id"])
        found.setdefault(same, []).append(row)
    return [members for members in found.values() if len(members) > 1]


@blueprint.get("/drift")
def drift() -> ResponseReturnValue:
    """What changed between two runs of the same prompts on one model."""
    sides = [parameters.text(request.args, side) for side in ("left", "right")]
    if sides[0] is None:
        if sides[1] is not None:
            raise UsageError("left is missing: give the ids of two evaluations, such as /drift?left=1&right=2")
        return render_template("drift_overview.html", groups=_asked_again())
    if sides[1] is None:
        row = _evaluation(sides[0])
        kept = ("benchmark_version", "protocol", "shots", "variants")
        found = _others(row) + _under_other_names(row)
        offered = [other for other in found if other["complete"] and all(other[key] == row[key] for key in kept)]
        return render_template("drift_choice.html", evaluation=row, offered=offered)
    left, right = _evaluation(sides[0]), _evaluation(sides[1])
    document = drift_of(left, right)
    paging = paged(len(document["flips"]), FLIPS_PER_PAGE)
    return render_template(
        "drift.html",
        left=left,
        right=right,
        drift=document,
        paging=paging,
        flips=document["flips"][paging.offset : paging.offset + paging.per_page],
        chart=charts.drift(document["changes"]["up_to"], document["changes"]["none"]),
    )


@blueprint.get("/chain")
def chain() -> ResponseReturnValue:
    """The chain of seals, folders, withdrawals and snapshots, newest first."""
    total = session().scalar(select(func.count()).select_from(chain_links)) or 0
    paging = paged(total, LINKS_PER_PAGE)
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
    """The public key that signed the chain's head last, as PEM."""
    found = newest_signature(session())
    if found is None:
        raise NotFoundError("the chain of this registry is not signed, so there is no key to check it with")
    return _pem(found.public_key)


@blueprint.get("/chain/keys/<key>.pem")
def one_key(key: str) -> ResponseReturnValue:
    """A public key that signed a head, by its fingerprint, as PEM."""
    for found in keys(session()):
        if found["key"] == key:
            return _pem(str(found["public_key"]))
    raise NotFoundError(f"no key {parameters.shorten(key)} signed the chain of this registry; see /chain")


def _pem(text: str) -> ResponseReturnValue:
    return Response(text, mimetype="application/x-pem-file")


@blueprint.get("/proof")
def explained() -> ResponseReturnValue:
    """What a signed board proves, and to whom, in five sentences."""
    return render_template("proof.html", signature=newest_signature(session()))


@blueprint.get("/withdrawn")
def withdrawn() -> ResponseReturnValue:
    """Every evaluation that no longer counts, with the reason."""
    w = withdrawals.c
    paging = paged(_withdrawn(), ROWS_PER_PAGE)
    query = select(withdrawals).where(w.current).order_by(w.withdrawal.desc())
    rows = rows_of(session(), query.limit(paging.per_page).offset(paging.offset))
    named = [row | {"evaluation": queries.evaluation(session(), row["evaluation_id"])} for row in rows]
    return render_template("withdrawn.html", rows=named, paging=paging)

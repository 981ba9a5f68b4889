"""Analyses: what is computed of a sealed evaluation beside its metrics, kept with parameters and seed."""

from typing import Any, Final

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from registry.db import one_at_a_time
from registry.digests import specification_digest
from registry.tables import Analysis


def store_analysis(
    session: Session, evaluation_id: int, kind: str, parameters: dict[str, Any], result: dict[str, Any]
) -> bool:
    """Keeps a result, and returns whether it is new; the same analysis with the same parameters is kept once."""
    digest = specification_digest(parameters)
    one_at_a_time(session, f"analysis {evaluation_id}")
    known = session.scalars(
        select(Analysis.id).filter_by(evaluation_id=evaluation_id, kind=kind, parameters_digest=digest)
    ).first()
    if known is None:
        session.execute(
            insert(Analysis).values(
                evaluation_id=evaluation_id,
                kind=kind,
                parameters=parameters,
                parameters_digest=digest,
                result=result,
            )
        )
    return known is None


READING: Final = "reading"
"""The kind of analysis, and of link in the chain, that a second reading of stored outputs is kept as."""


def kept_readings(session: Session, evaluation_id: int) -> list[dict[str, Any]]:
    """Every second reading of an evaluation, oldest first: `protocol`, and the result less what differs by prompt."""
    rows = session.scalars(select(Analysis).filter_by(evaluation_id=evaluation_id, kind=READING).order_by(Analysis.id))
    return [
        {"protocol": row.parameters["protocol"], "computed_at": row.computed_at}
        | {name: value for name, value in row.result.items() if name != "differing"}
        for row in rows
    ]

"""Analyses: further results computed from a sealed evaluation, stored with their parameters."""

from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from registry.db import one_at_a_time
from registry.digests import specification_digest
from registry.tables import Analysis


def store_analysis(
    session: Session, evaluation_id: int, kind: str, parameters: dict[str, Any], result: dict[str, Any]
) -> bool:
    """Store a result and return whether it is new. A kind of analysis is stored once for the same parameters."""
    digest = specification_digest(parameters)
    one_at_a_time(session, f"analysis {evaluation_id}")
    existing = session.scalars(
        select(Analysis.id).filter_by(evaluation_id=evaluation_id, kind=kind, parameters_digest=digest)
    ).first()
    if existing is None:
        session.execute(
            insert(Analysis).values(
                evaluation_id=evaluation_id,
                kind=kind,
                parameters=parameters,
                parameters_digest=digest,
                result=result,
            )
        )
    return existing is None

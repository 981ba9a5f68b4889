"""Predictions of sealed evaluations move into files and back, and nothing else notices."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.exc import DBAPIError

from registry.db import read_session, write_session
from registry.operations.archiving import archive, restore
from registry.tables import Archive, Evaluation, Generation, Prediction
from registry.verification import verify_all, verify_evaluation
from tests.population import predictions
from tests.proof.conftest import postgresql_proof, proof, sqlite_proof  # noqa: F401 - fixtures
from tests.proof.population import Population

Proof = tuple[Engine, Population]


def rows(engine: Engine) -> dict[str, list[Any]]:
    """All predictions and texts, with every column."""
    with read_session(engine) as session:
        return {
            table.__tablename__: sorted(map(tuple, session.execute(select(table.__table__))))
            for table in (Prediction, Generation)
        }


def archived(engine: Engine) -> list[int]:
    with read_session(engine) as session:
        ids = list(session.scalars(select(Evaluation.id).where(Evaluation.seal.is_not(None)).order_by(Evaluation.id)))
    for evaluation_id in ids:
        assert archive(engine, evaluation_id) is not None
    return ids


def test_what_is_archived_verifies_and_comes_back_bit_for_bit(proof: Proof) -> None:
    engine, _ = proof
    before = rows(engine)
    ids = archived(engine)
    assert rows(engine) == {"prediction": [], "generation": []}
    with read_session(engine) as session:
        report = verify_all(session)
    assert report["ok"], [report["problems"], [one["problems"] for one in report["evaluations"]]]
    assert [archive(engine, evaluation_id) for evaluation_id in ids] == [None] * len(ids)
    for evaluation_id in ids:
        assert restore(engine, evaluation_id) is not None
    assert rows(engine) == before
    with read_session(engine) as session:
        assert session.scalar(select(func.count()).select_from(Archive)) == 0
        assert verify_all(session)["ok"]

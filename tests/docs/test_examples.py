"""The numbers on pages, compared with the results of the example outputs."""

from pathlib import Path

import pytest

from registry.db import get_engine, read_session
from registry.leaderboard.reports import evaluation_metrics
from registry.lookups import find_evaluation
from tests.docs.setups import fill


def test_example_outputs_are_imported_and_sealed(database: str, tmp_path: Path) -> None:
    engine = get_engine(database)
    for evaluation_id in fill(engine, tmp_path):
        with read_session(engine) as session:
            assert find_evaluation(session, evaluation_id).seal is not None
            metrics = evaluation_metrics(session, evaluation_id)["metrics"]
        # All three are right in the original order; q1 has no valid answer in its second order.
        assert metrics["accuracy"] == pytest.approx(1)
        assert metrics["worst_accuracy"] == pytest.approx(2 / 3)

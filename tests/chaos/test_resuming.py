"""An interrupted run that is resumed, even if it is interrupted again while it resumes."""

import signal
from pathlib import Path

import pytest

from registry.db import get_engine, read_session, write_session
from registry.lookups import find_evaluation
from registry.queue.evaluations import move
from registry.sealed.verification import verify_evaluation
from tests.integration.test_worker import run_undisturbed
from tests.support.commands import PATIENCE_S, fake_worker, worker_process
from tests.support.population import predictions, queue_evaluation

SHARDS = 4
SETTINGS = {"lease_seconds": 0.5, "poll_seconds": 0.05, "reconcile_seconds": 0.2}
IN_RECOVERY = "reconciling:1"
"""The first action of a worker, which revokes the claims of dead workers."""
INTERRUPTIONS = (
    "claiming:1", IN_RECOVERY, "scoring:2", IN_RECOVERY, "storing:1", IN_RECOVERY, "stored:1", IN_RECOVERY,
    "claiming:1", "scoring:1", "storing:1", "sealing:1", "sealing:1",
)  # fmt: skip


@pytest.mark.long_on("sqlite")
def test_every_interruption_is_resumed_and_every_resumption_may_be_interrupted(database: str, tmp_path: Path) -> None:
    engine = get_engine(database)
    evaluation_id = queue_evaluation(engine, tmp_path, shards=SHARDS)
    for number, interruption in enumerate(INTERRUPTIONS):
        with worker_process("--trip", f"{interruption}:KILL", database_url=database, **SETTINGS) as worker:
            assert worker.wait(PATIENCE_S) == -signal.SIGKILL, f"{interruption}: {worker.log.read_text()}"
        if number % 3 == 0:  # and by command
            for action in ("pause", "resume", "cancel", "retry"):
                with write_session(engine) as session:
                    move(session, evaluation_id, action)
    with fake_worker("--until-idle", database_url=database, **SETTINGS) as worker:
        assert worker.wait(PATIENCE_S) == 0
    with read_session(engine) as session:
        evaluation = find_evaluation(session, evaluation_id)
        assert (evaluation.state, verify_evaluation(session, evaluation_id)["problems"]) == ("complete", [])
    assert predictions(engine, evaluation_id) == run_undisturbed(tmp_path, SHARDS)

"""Withdrawn evaluations: they disappear from lists, but their rows remain, and pages mark them."""

import pytest
from sqlalchemy import Engine, select, text

from registry.boards.reading import board_rows, snapshot_as_of, snapshots_of
from registry.boards.snapshots import refresh_boards
from registry.boards.store import submit_suite
from registry.db import read_session, write_session
from registry.errors import QueueError, UsageError
from registry.leaderboard.reports import evaluation_metrics
from registry.leaderboard.rows import leaderboard_page
from registry.queue.claims import fingerprint_id
from registry.queue.evaluations import EvaluationRequest, submit
from registry.queue.reuse import reusable
from registry.queue.shards import shard_prompts
from registry.sealed.provenance import provenance_document
from registry.sealed.verification import verify_all
from registry.sealed.withdrawals import supersede, withdraw, withdrawal_digest, withdrawals_of
from registry.tables import ChainLink, EngineFingerprint, Evaluation, Shard, Withdrawal
from tests.proof.commands import run
from tests.proof.population import Population, submit_and_score

pytestmark = pytest.mark.long_on("postgresql")

Registry = tuple[Engine, Population]


def standing(engine: Engine) -> dict[str, int]:
    """Return variants → their evaluation on the leaderboard."""
    with read_session(engine) as session:
        return {row["variants"]: row["evaluation_id"] for row in leaderboard_page(session).rows}


def test_a_withdrawn_evaluation_leaves_the_leaderboard_and_keeps_its_numbers(proof: Registry) -> None:
    engine, population = proof
    assert standing(engine) == {"original": population.source, "cyclic": population.evaluation}
    with read_session(engine) as session:
        metrics = evaluation_metrics(session, population.source)
    with write_session(engine) as session:
        withdraw(session, population.source, "  The tokenizer was another model's.  ", actor="maintainer")
    assert standing(engine) == {"cyclic": population.evaluation}
    with read_session(engine) as session:
        assert evaluation_metrics(session, population.source) == metrics
        (row,) = session.execute(text("SELECT * FROM withdrawals")).mappings()
        assert (row["evaluation_id"], row["kind"], row["actor"]) == (population.source, "withdrawn", "maintainer")
        assert (row["reason"], bool(row["current"])) == ("The tokenizer was another model's.", True)
        assert verify_all(session)["ok"]


def test_the_chain_records_a_withdrawal_once(proof: Registry) -> None:
    engine, population = proof
    with write_session(engine) as session:
        row = withdraw(session, population.source, "wrong")
        digest = withdrawal_digest(session.get_one(Evaluation, population.source), row)
        assert session.scalars(select(ChainLink.subject).filter_by(kind="withdrawal")).all() == [digest]
    with pytest.raises(QueueError, match="was already withdrawn"), write_session(engine) as session:
        withdraw(session, population.source, "again")


def test_nothing_stays_when_the_transaction_fails(sqlite_proof: Registry) -> None:
    engine, population = sqlite_proof

    def fail_half_way() -> None:
        with write_session(engine) as session:
            withdraw(session, population.source, "wrong")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    with read_session(engine) as session:
        assert session.scalars(select(Withdrawal)).all() == []
        assert session.scalars(select(ChainLink.kind).filter_by(kind="withdrawal")).all() == []


def test_copies_of_a_withdrawn_evaluation_are_flagged(proof: Registry) -> None:
    engine, population = proof
    with write_session(engine) as session:
        withdraw(session, population.source, "wrong")
    with read_session(engine) as session:
        (row,) = leaderboard_page(session).rows
        assert (row["evaluation_id"], row["copies_withdrawn"]) == (population.evaluation, True)
        copies = provenance_document(session, population.evaluation)["copies"]
        seal = session.get_one(Evaluation, population.source).seal
    assert copies["sources"] == [{"seal": seal, "evaluation": population.source, "predictions": 4, "withdrawn": True}]
    assert copies["withdrawn"]
    assert (
        "copied from an evaluation that has since been withdrawn"
        in run(engine, "provenance", population.evaluation).stderr
    )


def test_a_board_is_renewed_when_an_evaluation_of_it_is_withdrawn(proof: Registry) -> None:
    engine, population = proof

    def show() -> dict[str, object]:
        with read_session(engine) as session:
            return {row["model"]: row["evaluations"][0] for row in board_rows(snapshot_as_of(session, "main"))}

    before = show()["fake"]
    assert isinstance(before, dict)
    assert not before["copies_withdrawn"]
    assert refresh_boards(engine) == []
    with write_session(engine) as session:
        withdraw(session, population.source, "wrong")
    assert refresh_boards(engine) == ["main"]
    assert show()["fake"] == before | {"copies_withdrawn": True}
    with write_session(engine) as session:
        withdraw(session, population.evaluation, "wrong as well")
    assert refresh_boards(engine) == ["main"]
    assert show() == {}
    with read_session(engine) as session:
        assert len(snapshots_of(session, "main")) == 3
        assert verify_all(session)["ok"]


def test_an_older_replicate_stands_where_the_newest_was_withdrawn(proof: Registry) -> None:
    engine, population = proof
    again = submit_and_score(engine, "cyclic", new_replicate=True)
    assert standing(engine)["cyclic"] == again
    with write_session(engine) as session:
        withdraw(session, again, "a bad batch")
    assert standing(engine)["cyclic"] == population.evaluation


def test_a_request_is_scored_again_once_all_earlier_results_are_withdrawn(sqlite_proof: Registry) -> None:
    engine, population = sqlite_proof
    request = EvaluationRequest(model="fake", benchmark="bench", variants="cyclic", shots=1)
    with write_session(engine) as session:
        assert submit(session, request)[0].id == population.evaluation
        withdraw(session, population.evaluation, "wrong")
        evaluation, new = submit(session, request)
        assert (new, evaluation.replicate) == (True, 1)
        assert submit(session, request) == (evaluation, False)
        assert submit_suite(session, "fake", "suite") == [(evaluation, False)]


def test_nothing_is_copied_from_a_withdrawn_evaluation(proof: Registry) -> None:
    engine, population = proof
    with write_session(engine) as session:
        shard = session.scalars(select(Shard).filter_by(evaluation_id=population.evaluation)).first()
        assert shard is not None
        prompts = shard_prompts(session, shard.id)
        source = session.scalars(select(Shard).filter_by(evaluation_id=population.source)).first()
        assert source is not None
        assert source.engine_fingerprint_id is not None
        fingerprint = session.get_one(EngineFingerprint, source.engine_fingerprint_id).document
        assert fingerprint_id(session, fingerprint) == source.engine_fingerprint_id
        reused = reusable(session, population.evaluation, fingerprint, prompts)
        assert {item.evaluation_id for item in reused.values()} >= {population.source}
        assert {item.seal for item in reused.values()} >= {session.get_one(Evaluation, population.source).seal}
        withdraw(session, population.source, "wrong")
        reused = reusable(session, population.evaluation, fingerprint, prompts)
        assert population.source not in {item.evaluation_id for item in reused.values()}


def test_another_evaluation_stands_for_a_superseded_one(proof: Registry) -> None:
    engine, population = proof
    again = submit_and_score(engine, "cyclic", new_replicate=True)
    outcome = run(
        engine, "evaluations", "supersede", population.evaluation, "--by", again, "--reason", "newer", "--json"
    )
    assert outcome.document == {
        "evaluation": population.evaluation,
        "state": "superseded",
        "copied_by": [],
        "boards": ["main"],
    }
    with read_session(engine) as session:
        (row,) = provenance_document(session, population.evaluation)["withdrawals"]
        seal = session.get_one(Evaluation, again).seal
        assert (row["kind"], row["superseded_by"], row["superseding_evaluation"]) == ("superseded", seal, again)
        assert len(withdrawals_of(session, population.evaluation)) == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("withdraw", "1", "--reason", "  "), 2, "a reason is needed"),
        (("withdraw", "99", "--reason", "x"), 1, "no evaluation 99"),
        (("withdraw", "{queued}", "--reason", "x"), 1, "only sealed ones can be withdrawn"),
        (("supersede", "1", "--by", "1", "--reason", "x"), 2, "cannot supersede itself"),
        (("supersede", "1", "--by", "{queued}", "--reason", "x"), 1, "wait until it is complete"),
    ],
)
def test_what_cannot_be_withdrawn_is_said(
    sqlite_proof: Registry, arguments: tuple[str, ...], status: int, message: str
) -> None:
    engine, _ = sqlite_proof
    with write_session(engine) as session:
        queued, _ = submit(session, EvaluationRequest(model="fake", benchmark="bench", variants="full", shots=1))
    outcome = run(engine, "evaluations", *(argument.format(queued=queued.id) for argument in arguments))
    assert (outcome.code, message in outcome.stderr) == (status, True), outcome


def test_only_a_counting_evaluation_of_the_same_model_can_supersede(sqlite_proof: Registry) -> None:
    from tests.support.population import add_model

    engine, population = sqlite_proof
    with write_session(engine) as session:
        add_model(session, "other")
    other = submit_and_score(engine, "cyclic", model="other")
    with write_session(engine) as session:
        with pytest.raises(UsageError, match="different models, fake and other"):
            supersede(session, population.evaluation, other, "x")
        withdraw(session, population.source, "wrong")
        with pytest.raises(UsageError, match="no longer counts itself"):
            supersede(session, population.evaluation, population.source, "x")

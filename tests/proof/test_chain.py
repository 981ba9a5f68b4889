"""The chain of seals: its contents, and how it exposes an attacker who can write to the database."""

import json
from typing import Any

import pytest
from sqlalchemy import Engine, delete, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from registry import chain
from registry.db import read_session, write_session
from registry.digests import specification_digest
from registry.sealed.manifest import compute_seal, question_leaves
from registry.sealed.verification import verify_all, verify_evaluation
from registry.tables import BoardSnapshot, ChainLink, Evaluation, Prediction, QuestionScore, QuestionSeal
from tests.proof.commands import run
from tests.proof.population import Population
from tests.proof.test_columns import open_unguarded

Registry = tuple[Engine, Population]


def verify(session: Session, evaluation_id: int, **options: Any) -> list[str]:
    problems: list[str] = verify_evaluation(session, evaluation_id, **options)["problems"]
    return problems


def test_every_seal_and_snapshot_has_its_link_in_order(proof: Registry) -> None:
    engine, population = proof
    with read_session(engine) as session:
        links = chain.links(session)
        assert [link.kind for link in links] == ["seal", "seal", "snapshot"]
        seals = [session.get_one(Evaluation, item).seal for item in (population.source, population.evaluation)]
        assert [link.subject for link in links] == [*seals, session.scalars(select(BoardSnapshot.digest)).one()]
        assert links[0].previous == chain.BEGINNING
        assert [link.previous for link in links[1:]] == [link.digest for link in links[:-1]]
        head = chain.head(session)
        assert head is not None
        assert chain.check_chain(session) == chain.ChainReport(3, head.digest, [])
        assert verify_all(session)["ok"]


def test_a_link_says_what_its_digest_is_taken_over(sqlite_proof: Registry) -> None:
    """Check that anyone can compute the digest from the output of `shuffleboard chain --json`."""
    engine, _ = sqlite_proof
    printed = json.loads(run(engine, "chain", "--json").stdout)
    for link in printed["links"]:
        link["at"] = link["at"].replace("Z", "+00:00")
        if link["at"].endswith(".000000+00:00"):
            link["at"] = link["at"].replace(".000000", "")
        digest = link.pop("digest")
        assert specification_digest(link) == digest
    assert printed["head"] == digest


def test_the_chain_cannot_be_changed(proof: Registry) -> None:
    engine, _ = proof
    for statement in (
        update(ChainLink).where(ChainLink.position == 1).values(kind="snapshot"),
        delete(ChainLink).where(ChainLink.position == 3),
    ):
        with pytest.raises(DBAPIError, match="never changed"), write_session(engine) as session:
            session.execute(statement)
    if engine.dialect.name == "postgresql":
        with pytest.raises(DBAPIError, match="never emptied"), write_session(engine) as session:
            session.execute(text("TRUNCATE chain_link"))


def forge(session: Session, evaluation_id: int) -> str:
    """Make every answer right, and recompute seal, leaves and scores, as a skilled attacker would."""
    of_evaluation = Prediction.evaluation_id == evaluation_id
    session.execute(update(Prediction).where(of_evaluation).values(correct=True))
    session.execute(delete(QuestionScore).where(QuestionScore.evaluation_id == evaluation_id))
    from registry.scores.question_scores import write_question_scores

    write_question_scores(session, evaluation_id)
    evaluation = session.get_one(Evaluation, evaluation_id)
    for leaf in question_leaves(session, evaluation_id):
        session.execute(
            update(QuestionSeal)
            .filter_by(evaluation_id=evaluation_id, question_id=leaf.question_id)
            .values(leaf=leaf.leaf)
        )
    old = str(evaluation.seal)
    evaluation.seal = compute_seal(session, evaluation)
    session.flush()
    return old


def rewrite_chain(session: Session, old: str, new: str) -> None:
    """Replace a seal by another and recompute every link."""
    session.execute(update(ChainLink).where(ChainLink.subject == old).values(subject=new))
    session.expire_all()
    previous = chain.BEGINNING
    for link in chain.links(session):
        link.previous = previous
        link.digest = previous = chain.link_digest(link)
    session.flush()


def test_a_seal_that_was_computed_anew_is_not_in_the_chain(proof: Registry) -> None:
    engine, population = proof
    with open_unguarded(engine) as connection, Session(connection) as session:
        forge(session, population.evaluation)
        problems = verify(session, population.evaluation)
        assert "chain: it does not contain this seal; the seal was replaced" in problems
        everything = verify_all(session)["problems"]
        assert any("is no longer in the registry" in problem for problem in everything)


def test_a_recomputed_chain_lacks_the_published_head(proof: Registry) -> None:
    engine, population = proof
    with read_session(engine) as session:
        published = chain.check_chain(session).head
    with open_unguarded(engine) as connection, Session(connection) as session:
        old = forge(session, population.evaluation)
        seal = session.get_one(Evaluation, population.evaluation).seal
        rewrite_chain(session, old, str(seal))
        # Without the chain, the forgery is consistent, and its seal is valid.
        assert not [
            problem for problem in verify(session, population.evaluation) if problem.startswith(("seal", "chain"))
        ]
        assert any(
            "the chain was rewritten" in problem for problem in verify(session, population.evaluation, head=published)
        )
        assert chain.check_chain(session, published).problems


def test_a_head_that_was_published_some_links_ago_still_holds(sqlite_proof: Registry) -> None:
    engine, population = sqlite_proof
    with read_session(engine) as session:
        early = chain.links(session)[0].digest
        assert verify(session, population.evaluation, head=early) == []
    assert run(engine, "chain", "verify", "--head", early).code == 0
    assert run(engine, "verify", "--all", "--head", early).code == 0
    wrong = run(engine, "verify", str(population.evaluation), "--head", "0" * 64)
    assert (wrong.code, "is not among its 3 digests" in wrong.stderr) == (1, True)
    assert run(engine, "chain", "verify", "--head", "beef").code == 2


def test_a_removed_link_and_a_changed_link_are_found(sqlite_proof: Registry) -> None:
    engine, _ = sqlite_proof
    with open_unguarded(engine) as connection, Session(connection) as session:
        session.execute(delete(ChainLink).where(ChainLink.position == 2))
        assert "chain: link 2 is missing, the next one is 3" in chain.check_chain(session).problems
    with open_unguarded(engine) as connection, Session(connection) as session:
        session.execute(update(ChainLink).where(ChainLink.position == 2).values(kind="snapshot"))
        assert chain.check_chain(session).problems == ["chain: link 2 does not match its digest"]

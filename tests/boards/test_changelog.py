"""What happened to a board, as somebody reads it who was not there."""

import copy
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, select

from registry.boards.changelog import changelog, changelog_document
from registry.boards.snapshots import refresh_boards, snapshot_digest
from registry.db import read_session, write_session
from registry.errors import NotFoundError
from registry.proof.withdrawals import withdraw
from registry.tables import BoardSnapshot
from tests.proof.commands import run
from tests.proof.conftest import sqlite_proof  # noqa: F401 - a fixture
from tests.proof.population import Population

Registry = tuple[Engine, Population]


def texts(engine: Engine) -> list[str]:
    with read_session(engine) as session:
        return [event.text for change in changelog(session, "main") for event in change.events]


def follow(engine: Engine, change: Any) -> None:
    """Stores a snapshot as it would be after a change of the newest one's document."""
    with write_session(engine) as session:
        newest = session.scalars(select(BoardSnapshot).order_by(BoardSnapshot.id.desc()).limit(1)).one()
        document = copy.deepcopy(newest.document)
        change(document)
        session.add(
            BoardSnapshot(
                board_id=newest.board_id,
                digest=snapshot_digest(document),
                document=document,
                as_of=newest.as_of + timedelta(hours=1),
            )
        )


def with_model(document: dict[str, Any], name: str, ranks: dict[str, int | None]) -> None:
    """Adds a model, and gives every model its rank."""
    row = copy.deepcopy(document["rows"][0]) | {"model": name}
    for item in row["evaluations"]:
        item["seal"] = (name.encode().hex() + "0" * 64)[:64]
    document["rows"].append(row)
    for one in document["rows"]:
        rank = ranks[one["model"]]
        one["complete"] = rank is not None
        one["values"]["worst_accuracy@cyclic"]["rank"] = rank


def test_a_reader_learns_what_came_what_went_and_why(sqlite_proof: Registry) -> None:  # noqa: F811
    engine, population = sqlite_proof
    label = "worst accuracy (cyclic)"
    assert texts(engine) == [f"The board was first published, with 1 model; first by {label} was fake."]
    with write_session(engine) as session:
        withdraw(session, population.evaluation, "The tokenizer was another model's")
    refresh_boards(engine)
    assert texts(engine) == [
        "The evaluation of fake on bench was withdrawn: The tokenizer was another model's. fake left the board.",
        f"The board was first published, with 1 model; first by {label} was fake.",
    ]
    with read_session(engine) as session:
        found = changelog_document(session, "main")["changes"]
    assert [change["link"] for change in found] == [5, 3]
    assert [change["snapshot"] is None for change in found] == [False, False]
    printed = run(engine, "boards", "changelog", "main", "--limit", "1")
    assert "(link 5 of the chain)\n  The evaluation of fake on bench was withdrawn" in printed.stdout
    assert run(engine, "boards", "changelog", "main", "--json").document["board"] == "main"


def test_ranks_that_moved_are_said_from_where_to_where(sqlite_proof: Registry) -> None:  # noqa: F811
    engine, _ = sqlite_proof
    follow(engine, lambda document: with_model(document, "quick", {"fake": 2, "quick": 1}))
    assert texts(engine)[:2] == [
        "quick was added, in place 1 by worst accuracy (cyclic).",
        "Ranks moved by worst accuracy (cyclic): fake 1 → 2.",
    ]
    follow(engine, lambda document: with_model(document, "slow", {"fake": 1, "quick": 2, "slow": None}))
    assert texts(engine)[:2] == [
        "slow was added, without a rank: 1 of its 1 evaluations were there.",
        "Ranks moved by worst accuracy (cyclic): fake 2 → 1, quick 1 → 2.",
    ]

    def later(document: dict[str, Any]) -> None:
        document["rows"] = [row for row in document["rows"] if row["model"] != "quick"]
        document["rows"][1]["complete"] = True
        document["rows"][1]["values"]["worst_accuracy@cyclic"]["rank"] = 2
        document["rows"][0]["evaluations"][0]["seal"] = "9" * 64

    follow(engine, later)
    assert texts(engine)[:3] == [
        "quick was removed.",
        "slow became complete, in place 2.",
        "fake was evaluated again on bench; the newer results count.",
    ]

    def redefined(document: dict[str, Any]) -> None:
        document["board_digest"], document["board_version"] = "8" * 64, 2
        document["columns"].append(document["columns"][0] | {"name": "accuracy@cyclic", "metric": "accuracy"})

    follow(engine, redefined)
    assert texts(engine)[0] == "The board was redefined, as version 2; columns added: accuracy@cyclic."
    before = texts(engine)
    follow(engine, lambda document: document.update(snapshot_version=99))
    assert texts(engine) == before


def test_an_unknown_board_is_named(sqlite_proof: Registry) -> None:  # noqa: F811
    with read_session(sqlite_proof[0]) as session, pytest.raises(NotFoundError, match="no board 'mine'"):
        changelog(session, "mine")

"""Deprecated boards: readable and citable, with a pointer to the next one, and no place for submissions."""

from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import Engine

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.deprecation import deprecate, reinstate
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import write_session
from registry.errors import QueueError, UsageError
from registry.settings import Settings
from tests.submissions.conftest import actions, ask, viewer

pytestmark = pytest.mark.one_engine


def test_a_deprecated_board_points_to_its_successor_until_that_is_taken_back(
    engine: Engine, app: Flask, settings: Settings, headers: Callable[[str], dict[str, str]]
) -> None:
    maintainer = viewer(engine, "maintainer")
    with write_session(engine) as session:
        import_suite(session, SuiteDefinition(name="newer", variants=("cyclic",), tasks=[{"benchmarks": ("bench",)}]))
        import_board(session, BoardDefinition(name="next", suite="newer", columns=("accuracy@cyclic",)))
        deprecate(session, maintainer, "main", "Its questions <leaked>.", "next")
        with pytest.raises(UsageError, match="it is followed by board next itself"):
            deprecate(session, maintainer, "next", "No.", "main")
    refresh_boards(engine)

    with pytest.raises(UsageError, match="board main is deprecated; submit to newer, the suite of its successor next"):
        ask(engine, settings)
    client = app.test_client()
    for address in ("/boards/main", "/api/v1/boards/main"):
        answer = client.get(address)
        assert answer.status_code == 200
        assert answer.headers["Deprecation"].startswith("@")
        assert '</boards/next>; rel="successor-version"' in answer.headers.getlist("Link")
    assert answer.json["deprecated"]["successor"] == "next"
    page = client.get("/boards/main").text
    assert "Deprecated since" in page
    assert "Its questions &lt;leaked&gt;." in page

    answer = client.post("/api/v1/boards/main/reinstate", headers=headers("maintainer"))
    assert (answer.status_code, answer.json) == (200, {"board": "main", "deprecated": None})
    assert "Deprecation" not in client.get("/boards/main").headers
    said = client.get("/boards/main/changelog").text
    assert "The board was deprecated: Its questions &lt;leaked&gt;." in said
    assert "The deprecation was taken back." in said
    ask(engine, settings)
    with write_session(engine) as session, pytest.raises(QueueError, match="board main is not deprecated"):
        reinstate(session, maintainer, "main")
    assert [item[1:] for item in actions(engine)][:2] == [("board.deprecate", "main"), ("board.reinstate", "main")]

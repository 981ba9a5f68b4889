"""Models that visitors would like to be evaluated."""

import pytest

from registry.boards import wishes
from registry.db import read_session, write_session
from registry.errors import QueueError
from registry.tables.accounts import WishVote
from tests.web.accounts import add_account, csrf_of, signed_in


def ask(client, model, **more):
    return client.post("/wanted", data={"csrf_token": csrf_of(client, "/wanted"), "model": model, **more})


def test_a_visitor_asks_for_a_model_and_another_votes_for_it(own):
    assert ask(own.client, "https://huggingface.co/Some/Model-1B").status_code == 303
    assert ask(own.client, "some/model-1b", vote="yes").status_code == 303
    page = own.client.get("/wanted").text
    assert "Some/Model-1B" in page
    assert page.count(">Wanted<") <= 1
    assert "OWNER/NAME" in ask(own.client, "<b>no model</b>").text
    other = own.client.application.test_client()
    data = {"csrf_token": csrf_of(other, "/wanted"), "model": "Some/Model-1B", "vote": "yes"}
    assert other.post("/wanted", data=data, environ_base={"REMOTE_ADDR": "192.0.2.7"}).status_code == 303
    with read_session(own.engine) as session:
        [found] = wishes.wanted(session, session)
        assert (found.model, found.votes, found.state) == ("Some/Model-1B", 2, "wanted")
        assert all(len(vote.voter) == 64 for vote in session.query(WishVote))


@pytest.mark.one_engine
def test_wishes_are_bounded_and_a_maintainer_declines_one_with_a_reason(own, monkeypatch):
    monkeypatch.setattr(wishes, "MOST_OPEN", 2)
    for name in ("a/one", "a/two"):
        assert ask(own.client, name).status_code == 303
    assert "2 models are wanted already" in ask(own.client, "a/three").text
    add_account(own.engine, "max", "maintainer")
    client = signed_in(own.client.application, "max")
    assert (
        client.post("/wanted/1", data={"csrf_token": csrf_of(client, "/wanted"), "reason": "No licence"}).status_code
        == 303
    )
    assert "Declined: No licence" in own.client.get("/wanted").text
    with write_session(own.engine) as session, pytest.raises(QueueError, match="No licence"):
        wishes.wish(session, "a/one", "0" * 64)
    for number in range(3):
        ask(own.client, f"a/more-{number}")
    assert ask(own.client, "a/again").status_code == 429

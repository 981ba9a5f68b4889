"""Pages of a model that thinks: lost answers, length of thoughts, texts, and another reading of them."""

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from sqlalchemy import select

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import get_engine, read_session, write_session
from registry.errors import ProtocolError
from registry.predictions.texts import text_columns
from registry.prompting.protocols.store import find_definition, with_room
from registry.prompting.reading import read
from registry.prompting.thoughts import Output
from registry.queue.claims import Claim, ShardResult
from registry.queue.evaluations import EvaluationRequest, submit
from registry.queue.shards import shard_prompts
from registry.scores.written import lost_answers
from registry.settings import Settings
from registry.tables import Evaluation, Question
from tests.support.commands import shuffleboard
from tests.support.fake_scorer import FakeScorer
from tests.support.population import add_benchmark, add_model, question
from tests.web.accounts import add_maintainer
from tests.web.conftest import Site
from tests.web.seed import Seeded
from web import create_app
from workers.loop import WorkerLoop

pytestmark = pytest.mark.one_engine

COUNT = 40
LETTERS = "ABCD"


class Thinker(FakeScorer):
    """An engine that thinks longer about questions of a higher number.

    Some thoughts never end, and some answers name no option. From question 30 on it always answers A, before that the
    right
    option. Below question 20 its thought begins with A.
    """

    def written(self, item: Any) -> tuple[Output, int]:
        number = int(item.question.external_id[1:])
        first = "The answer is A. " if number < 20 else ""
        thought = f"<think>{first}" + "hm " * (10 + 5 * number + 3 * item.variant.ordinal)
        if number == 5 and item.variant.ordinal < 3:
            return Output(thought, finish="stop" if item.variant.ordinal == 2 else "length"), 10 + 5 * number
        right = LETTERS[item.variant.order.index(item.question.answer)]
        answer = "I cannot say." if number == 7 else f"Answer: {'A' if number >= 30 else right}"
        return Output(f"{thought}</think>\n{answer}"), 10 + 5 * number

    def score(self, engine: Any, claim: Claim, should_stop: Callable[[], bool]) -> ShardResult:  # noqa: ARG002
        with read_session(engine) as session:
            prompts = shard_prompts(session, claim.shard_id)
            definition = session.get_one(Evaluation, claim.evaluation_id).protocol.definition
        rows, texts = [], []
        for item in prompts:
            output, tokens = self.written(item)
            reading = read(definition, output, item.prompt.answers, item.prompt.options)
            rows.append(item.build_stated_row(reading.position, reading.rule, reading.state))
            key = {name: rows[-1][name] for name in ("evaluation_id", "question_id", "variant")}
            at_limit = output.finish == "length" and item.variant.ordinal == 0
            counted = 512 if at_limit else tokens + 10
            texts.append(key | text_columns(output, reading, tokens=counted, thought_tokens=tokens, seconds=0.1))
        return ShardResult(rows, {"engine": "fake"}, len(rows), len(rows), 0.1, generations=texts)


@pytest.fixture(scope="module")
def site(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return a site with an evaluation of the thinker, which is also on a board."""
    url, folder, seeded = lasting_sqlite(), tmp_path_factory.mktemp("thoughts"), Seeded()
    engine = get_engine(url)
    with write_session(engine) as session:
        add_benchmark(session, folder, [question(number) for number in range(COUNT)])
        add_model(session, "thinker")
        request = EvaluationRequest("thinker", "bench", "cyclic", "select-letter")
        seeded.evaluations["thinker"] = submit(session, request)[0].id
        tasks = [{"benchmark": "bench", "variants": ["cyclic"], "protocols": ["select-letter"]}]
        import_suite(session, SuiteDefinition.model_validate({"name": "thinking", "tasks": tasks}))
        columns = ("accuracy@cyclic", "worst_accuracy@cyclic")
        import_board(session, BoardDefinition(name="thinking", suite="thinking", columns=columns))
    loop = WorkerLoop(engine, Settings(home=folder, poll_seconds=0.05), Thinker(), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    refresh_boards(engine)
    return Site(engine, seeded, create_app(database_url=url).test_client())


def words(html: str) -> str:
    """Return the text of a page, without the menus."""
    text = re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", html.partition("<main")[2], flags=re.DOTALL)
    return re.sub(r" ([.,:])", r"\1", " ".join(unescape(text).replace("\u202f", " ").split()))


def page(site: Site, path: str, headers: dict[str, str] | None = None) -> str:
    return words(site.client.get(path, headers=headers).text)


@pytest.fixture(scope="module")
def maintainer(site: Site) -> dict[str, str]:
    return add_maintainer(site.engine)


AGAIN = "evaluations submit --model thinker@1 --benchmark bench --variants cyclic --protocol select-letter"


@pytest.mark.parametrize("path", ["/", "/boards/thinking", "/evaluations/{thinker}", "/models/thinker"])
def test_cut_off_thoughts_are_named_with_their_limit_and_a_command(
    site: Site, maintainer: dict[str, str], path: str
) -> None:
    address = path.format(**site.seeded.evaluations)
    seen = page(site, address)
    causes = (
        "1.9 % unfinished, 0.6 % at the limit of 512 tokens",
        "0.6 % cut off by the server before any limit",
        "0.6 % ended by themselves within the thought",
        "2.5 % unread.",
    )
    assert ", ".join(causes) in seen
    assert "shuffleboard evaluations" not in seen
    text = page(site, address, maintainer)
    assert f"To ask again with more room: shuffleboard {AGAIN} --max-tokens 1024" in text


def test_questions_are_found_by_what_was_answered(site: Site) -> None:
    text = page(site, f"/evaluations/{site.seeded.evaluations['thinker']}?q=CANNOT+say")
    assert "Find in questions, options and answers" in text
    assert "All 1 " in text
    assert " q7 " in text.partition("Right in")[2]


def test_a_loss_of_one_per_cent_or_less_is_not_said(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = site.seeded.evaluations["thinker"]
    for threshold, expected in ((0.02, [(0.025, None)]), (0.025, [])):
        monkeypatch.setattr("registry.scores.written.SAID", threshold)
        with read_session(site.engine) as session:
            assert [(lost.unread, lost.again) for lost in lost_answers(session, [evaluation])] == expected


def test_more_room_is_a_protocol_of_its_own(site: Site) -> None:
    url = str(site.engine.url)
    arguments = AGAIN.replace("evaluations submit", "").split()
    shuffleboard("evaluations", "submit", *arguments, "--limit", 1, "--max-tokens", 1024, database_url=url)
    with read_session(site.engine) as session:
        newest = session.scalars(select(Evaluation).order_by(Evaluation.id.desc())).first()
        assert newest is not None
        assert newest.protocol.name == "select-letter-1024-tokens"
        assert newest.protocol.definition["generation"]["max_tokens"] == 1024
    shuffleboard("evaluations", "cancel", newest.id, database_url=url)
    with write_session(site.engine) as session:
        assert with_room(session, "select-letter-1024-tokens", 2048) == "select-letter-2048-tokens"
        assert with_room(session, "select-letter", 512) == "select-letter"
        definition = find_definition(session, "select-letter-2048-tokens")
        assert definition["generation"]["max_tokens"] == 2048
        for name, tokens in (("symbols", 10), ("select-letter", 0)):
            with pytest.raises(ProtocolError, match=r"max.tokens"):
                with_room(session, name, tokens)


def test_tokens_per_answer_are_a_column_and_a_chart(site: Site) -> None:
    assert "Tokens per answer" in page(site, "/")
    assert "Tokens per answer against Worst accuracy" in page(site, "/?chart=tokens").replace("worst", "Worst")
    assert "120" in page(site, "/boards/thinking")
    row = site.client.get("/api/v1/boards/thinking").json["rows"][0]
    assert row["tokens_per_answer"] == pytest.approx(120.41875)
    row = site.client.get("/api/v1/leaderboard").json["rows"][0]
    assert (row["unread"], row["unfinished"], row["tokens_per_answer"]) == (4, 3, pytest.approx(120.41875))


def test_a_question_shows_its_folded_thought_and_the_reading_rule(site: Site) -> None:
    evaluation = site.seeded.evaluations["thinker"]
    with read_session(site.engine) as session:
        ids = {row.external_id: row.id for row in session.scalars(select(Question))}
    shown = site.client.get(f"/evaluations/{evaluation}/questions/{ids['q1']}").text
    assert "<details><summary>Its thought, " in shown
    assert "<details open><summary>Its thought" not in shown
    text = words(shown)
    assert "Its answer Answer: B" in text
    assert "Extracted by: answer-colon." in text
    assert "It was cut off at the limit" in page(site, f"/evaluations/{evaluation}/questions/{ids['q5']}")
    assert "No rule found an answer in it." in page(site, f"/evaluations/{evaluation}/questions/{ids['q7']}")

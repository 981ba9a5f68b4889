"""An evaluation that asks each question until a metric is decided comes to what every order comes to, exactly."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import Engine, select, text

from registry.db import read_session, write_session
from registry.designs import until_decided
from registry.designs.until_decided import expected_prompts, read_stopping
from registry.errors import QueueError, SealError, UsageError
from registry.leaderboard.reports import evaluation_metrics
from registry.lookups import find_evaluation
from registry.proof.seal import seal
from registry.queue.evaluations import move, read_rows
from registry.tables import EvaluationMetric, Prediction, QuestionScore, Shard
from registry.verification import verify_evaluation
from tests.commands import shuffleboard, shuffleboard_json
from tests.fake_scorer import FakeScorer, fake_logprobs
from tests.integration.two_workers import assert_alike, finish, score_all, score_in_trouble, take, with_two_workers
from tests.population import queue_stopped
from tests.web.accounts import maintaining
from web import create_app

pytestmark = pytest.mark.long_on("sqlite")


@pytest.fixture
def engine(database: str) -> Engine:
    return with_two_workers(database)


class Knowing(FakeScorer):
    """Right on two questions of three, but wrong on every sixth where the right option stands last."""

    def logprobs(self, prompt: Any) -> list[float]:
        number = int(prompt.text.split("number ")[1].split("?")[0])
        if number % 3 == 0:
            return fake_logprobs(prompt)
        options = 3 + number % 2
        shown = [line.partition(". ")[2] for line in prompt.text.splitlines() if f"option {number}." in line]
        right = shown.index(f"option {number}.{number % options}")
        slips = number % 6 == 1 and right == options - 1
        return [-3.0 + 2.9 * ((place == right) != (slips and place in (0, right))) for place in range(options)]


def stored(engine: Engine, evaluation_id: int) -> dict[tuple[str, str], tuple[Any, ...]]:
    with read_session(engine) as session:
        rows = session.scalars(select(EvaluationMetric).filter_by(evaluation_id=evaluation_id)).all()
        return {(row.scope, row.metric): (row.value, row.n, row.interval_low, row.interval_high) for row in rows}


@pytest.mark.parametrize(
    ("metric", "decided"),
    [
        pytest.param("worst_accuracy", {"worst_accuracy", "bmca_100"}, marks=pytest.mark.long),
        ("fluctuation_rate", {"fluctuation_rate", "worst_accuracy", "bmca_100"}),
    ],
)
def test_what_is_decided_is_that_of_every_order_to_the_bit_and_the_rest_is_undefined(
    engine: Engine, tmp_path: Path, metric: str, decided: set[str]
) -> None:
    complete = queue_stopped(engine, tmp_path, None, model="asked-in-full")
    score_all(engine, complete, Knowing())
    in_part = queue_stopped(engine, tmp_path, metric)
    with read_session(engine) as session:
        expected = expected_prompts(session, find_evaluation(session, in_part), read_rows)
    assert expected is not None
    score_all(engine, in_part, Knowing())
    everything, found = stored(engine, complete), stored(engine, in_part)
    assert found.keys() == everything.keys()
    for key, value in found.items():
        assert value == (everything[key] if key[1] in decided else (None, 0, None, None)), key
    with read_session(engine) as session:
        assert verify_evaluation(session, in_part)["problems"] == []
        report, whole = (evaluation_metrics(session, number, per_question=True) for number in (in_part, complete))
        learnt = find_evaluation(session, in_part).specification["questions"]["stopping"]["design"]
        for view in ("scope_metrics", "evaluation_metrics"):
            session.execute(text(f"SELECT * FROM {view}"))
        runs = text("SELECT count(*) FROM run_metrics WHERE evaluation_id = :id")
        assert session.scalar(runs, {"id": in_part}) == 0
    assert learnt["history"] != []
    assert learnt["orders"]["4"] != list(range(24))
    for name, values in report["per_question"].items():
        for one in decided:
            assert values[one] == whole["per_question"][name][one]
        assert values["average_accuracy"] is None
    assert (report["questions"], report["scored"]) == (40, 40)
    stopping = report["stopping"]
    assert stopping["decided"] == 40
    assert stopping["prompts_complete"] == 20 * 6 + 20 * 24
    assert stopping["prompts"] == sum(one["prompts"] * one["questions"] for one in stopping["by_round"]) < 600
    assert stopping["prompts"] == expected  # of another model, which answers alike
    assert "needs every order" in report["undefined"]["strong_accuracy"]


@pytest.mark.long_on("sqlite")
def test_failures_lost_workers_and_another_order_change_no_decision(engine: Engine, tmp_path: Path) -> None:
    calm = queue_stopped(engine, tmp_path, "fluctuation_rate")
    score_all(engine, calm, Knowing())
    troubled = queue_stopped(engine, tmp_path, "fluctuation_rate", new_replicate=True)
    score_in_trouble(engine, troubled, Knowing())
    assert_alike(engine, calm, troubled)


@pytest.mark.one_engine
def test_a_question_that_was_asked_too_little_or_too_much_does_not_verify(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_stopped(engine, tmp_path)
    held = take(engine)
    assert held is not None
    assert finish(engine, held, Knowing())
    with write_session(engine) as session, pytest.raises(SealError, match="lacks some of its predictions"):
        seal(session, evaluation_id)
    with patch.object(until_decided, "decided_where", lambda _: "question_score.question_id % 2 = 0"):
        score_all(engine, evaluation_id, Knowing())
    with read_session(engine) as session:
        problems = verify_evaluation(session, evaluation_id)["problems"]
    assert any("asked further than it was decided" in problem for problem in problems), problems
    assert any("left before it was decided" in problem for problem in problems), problems


@pytest.mark.one_engine
def test_a_question_with_one_distinct_order_stays_undefined_as_in_a_complete_run(
    engine: Engine, tmp_path: Path
) -> None:
    """Of shuffles of three options some are the original: then the one order is untested, not decided."""
    complete = queue_stopped(engine, tmp_path, None, variants="shuffle:m=1", model="asked-in-full")
    score_all(engine, complete, Knowing())
    in_part = queue_stopped(engine, tmp_path, variants="shuffle:m=1")
    with read_session(engine) as session:
        stopping = read_stopping(find_evaluation(session, in_part))
    assert stopping is not None
    assert stopping.whole
    score_all(engine, in_part, Knowing())
    key = ("all", "worst_accuracy")
    assert stored(engine, in_part)[key] == stored(engine, complete)[key]
    assert stored(engine, in_part)[key][1] == 40 - len(stopping.whole)


@pytest.mark.one_engine
def test_it_is_not_retried_once_answers_of_an_earlier_round_are_gone(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_stopped(engine, tmp_path)
    with read_session(engine) as session:
        first = session.scalars(select(Shard.id)).all()
    for _ in first:
        held = take(engine)
        assert held is not None
        assert finish(engine, held, Knowing())
    with write_session(engine) as session:
        move(session, evaluation_id, "cancel")
        for table in (Prediction, QuestionScore):
            session.query(table).filter_by(evaluation_id=evaluation_id).delete()
    with write_session(engine) as session, pytest.raises(QueueError, match="submit it again with --replicate"):
        move(session, evaluation_id, "retry")


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("metric", "variants", "reason"),
    [
        ("accuracy", "full", "answers in some orders decide only worst_accuracy or fluctuation_rate"),
        ("worst_accuracy", "original", "two or more orders of a question's own options"),
        ("worst_accuracy", "divergent", "two or more orders of a question's own options"),
    ],
)
def test_what_no_answer_decides_is_refused(
    engine: Engine, tmp_path: Path, metric: str, variants: str, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        queue_stopped(engine, tmp_path, metric, variants=variants)


@pytest.mark.one_engine
def test_commands_and_pages_say_what_was_decided_and_why_the_rest_is_undefined(
    database: str, engine: Engine, tmp_path: Path
) -> None:
    evaluation_id = queue_stopped(engine, tmp_path)
    asked = ("--model", "fake", "--benchmark", "stopped", "--variants", "full", "--stop-when-decided", "worst_accuracy")
    again = shuffleboard_json("evaluations", "submit", *asked, database_url=database)
    assert again == {"evaluation": evaluation_id}
    refused = shuffleboard("evaluations", "submit", *asked, "--precision", 0.05, status=2, database_url=database)
    assert "cannot be combined" in refused.stderr
    client = create_app(database_url=database).test_client()
    assert "0 of 40 questions are decided" in client.get(f"/evaluations/{evaluation_id}").text
    score_all(engine, evaluation_id, Knowing())
    page = client.get(f"/evaluations/{evaluation_id}").text
    assert "Asked until worst accuracy was decided" in page
    assert "each question was asked only until worst accuracy was decided" in page
    row = shuffleboard_json("leaderboard", database_url=database)["rows"][0]
    assert (row["stopped_for"], row["rank"], row["average_accuracy"]) == ("worst_accuracy", None, None)
    shown = shuffleboard("metrics", evaluation_id, database_url=database).stdout
    assert "40 of 40 questions decided" in shown
    page = client.get(f"/evaluations/{evaluation_id}", headers=maintaining(engine)).text
    assert f"shuffleboard evaluations complete {evaluation_id}" in page
    rest = shuffleboard_json("evaluations", "complete", evaluation_id, database_url=database)["evaluation"]
    with read_session(engine) as session:
        complete = find_evaluation(session, rest)
        assert complete.prompts == 20 * 6 + 20 * 24
        assert complete.specification["questions"] == {"limit": None, "subjects": None}
    assert f"completed by evaluation {rest}" in client.get(f"/evaluations/{evaluation_id}").text
    refused = shuffleboard("evaluations", "complete", rest, status=2, database_url=database)
    assert "nothing is left to ask" in refused.stderr

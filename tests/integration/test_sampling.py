"""An evaluation with a stated precision asks as many questions as that takes, whatever happens to its workers."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import Engine, func, select

from registry.boards.definition import BoardDefinition, SuiteDefinition, Task
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite, submit_board
from registry.db import read_session, write_session
from registry.designs import design_of
from registry.designs.requests import PrecisionRequest
from registry.designs.sample import Sampled, sampled
from registry.errors import UsageError
from registry.leaderboard.reports import evaluation_metrics
from registry.lookups import find_evaluation
from registry.proof.seal import seal
from registry.queue import claims
from registry.queue.evaluations import EvaluationRequest, read_rows, submit
from registry.tables import EvaluationQuestion, Shard
from registry.verification import verify_all, verify_evaluation
from tests.commands import shuffleboard, shuffleboard_json
from tests.fake_scorer import FakeScorer, fake_logprobs
from tests.integration.two_workers import assert_alike, finish, score_all, score_in_trouble, take, with_two_workers
from tests.population import add_model, queue_sampled
from web import create_app

pytestmark = pytest.mark.long_on("sqlite")


@pytest.fixture
def engine(database: str) -> Engine:
    return with_two_workers(database)


def found_in(engine: Engine, evaluation_id: int) -> Sampled:
    with read_session(engine) as session:
        found = sampled(session, find_evaluation(session, evaluation_id))
        assert found is not None
        return found


def test_it_stops_as_soon_as_its_interval_is_narrow_enough_and_verifies(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_sampled(engine, tmp_path)
    score_all(engine, evaluation_id)
    with read_session(engine) as session:
        metrics = evaluation_metrics(session, evaluation_id)
        report = verify_evaluation(session, evaluation_id)
        evaluation = find_evaluation(session, evaluation_id)
        asked = session.scalar(select(func.count()).select_from(EvaluationQuestion))
    sample = metrics["sample"]
    assert 100 < sample["asked"] == asked == evaluation.questions < 160
    assert sample["reached"]
    last = sample["looks"][-1]
    assert last["questions"] == sample["asked"]
    assert (last["high"] - last["low"]) / 2 <= 0.04
    assert metrics["intervals"]["accuracy"] == [last["low"], last["high"]]
    assert metrics["metrics"]["accuracy"] == last["value"]
    assert metrics["metrics"]["pct_drop"] is None  # no mean over questions
    assert report["problems"] == []


@pytest.mark.one_engine
def test_it_ends_at_the_most_questions_that_may_be_asked(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_sampled(engine, tmp_path, asked=PrecisionRequest(0.04, max_questions=110))
    score_all(engine, evaluation_id)
    found = found_in(engine, evaluation_id)
    assert (found.asked, found.reached, found.next_end) == (110, False, None)
    assert found.looks[-1].questions == 110  # the remaining error is spent on it
    with read_session(engine) as session:
        assert verify_evaluation(session, evaluation_id)["problems"] == []


@pytest.mark.one_engine
def test_all_questions_asked_are_an_exact_value(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_sampled(engine, tmp_path, questions=105, asked=PrecisionRequest(0.001))
    score_all(engine, evaluation_id)
    last = found_in(engine, evaluation_id).looks[-1]
    with read_session(engine) as session:
        right = evaluation_metrics(session, evaluation_id, per_question=True)["per_question"].values()
    assert last.value == pytest.approx(sum(question["accuracy"] for question in right) / 105)
    assert (last.questions, last.interval.low, last.interval.high) == (105, last.value, last.value)


@pytest.mark.long_on("sqlite")
def test_failures_lost_workers_and_another_order_change_no_decision(engine: Engine, tmp_path: Path) -> None:
    calm = queue_sampled(engine, tmp_path)
    score_all(engine, calm)
    with write_session(engine) as session:
        request = EvaluationRequest(
            model="fake", benchmark="sampled", variants="original", precision=PrecisionRequest(0.04), new_replicate=True
        )
        troubled = submit(session, request)[0].id
    score_in_trouble(engine, troubled)
    assert_alike(engine, calm, troubled)


def test_of_two_workers_that_finish_a_batch_at_once_one_queues_the_next(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_sampled(engine, tmp_path)
    with write_session(engine) as session:
        first = session.scalar(select(func.count()).select_from(Shard))
    held = [take(engine, "w1") for _ in range(first or 0)]
    assert len(held) >= 2
    *early, one, other = [claim for claim in held if claim is not None]
    for claim in early:
        assert finish(engine, claim)
    result = FakeScorer().score(engine, one, lambda: False)
    with ThreadPoolExecutor(1) as pool:
        with write_session(engine) as session:
            assert claims.finish(session, one, result)
            waiting = pool.submit(finish, engine, other)  # it cannot be over before this transaction is
        assert waiting.result()
    with read_session(engine) as session:
        shards = session.scalars(select(Shard.state).where(Shard.evaluation_id == evaluation_id)).all()
    assert (shards.count("done"), shards.count("queued")) == (first, 1)


@pytest.mark.one_engine
def test_an_evaluation_that_stopped_too_early_does_not_verify(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_sampled(engine, tmp_path)
    with patch.object(Sampled, "next_end", None):
        score_all(engine, evaluation_id)
    with read_session(engine) as session:
        problems = verify_evaluation(session, evaluation_id)["problems"]
    assert problems == ["sample: it ended after 102 questions, although another batch was to be asked"]


@pytest.mark.one_engine
def test_the_answers_of_other_models_narrow_it_and_the_same_request_stays_one_evaluation(
    engine: Engine, tmp_path: Path
) -> None:
    def known(prompt: Any) -> list[float]:
        """Every second question is answered rightly by all models, but for one of eight that each answers by chance."""
        number = int(prompt.text.split("number ")[1].split("?")[0])
        if number % 8 == 3:
            return fake_logprobs(prompt)
        right = "ABCD"[number % 4]
        return [-0.1 if (label.strip() == right) == bool(number % 2) else -3.0 for label in prompt.continuations]

    scorer = FakeScorer()
    scorer.logprobs = known  # type: ignore[method-assign]
    without = queue_sampled(engine, tmp_path, questions=400, model="new")
    score_all(engine, without, scorer)
    with write_session(engine) as session:
        for number in range(6):
            add_model(session, f"old {number}".replace(" ", "-"))
            request = EvaluationRequest(model=f"old-{number}", benchmark="sampled", variants="original")
            evaluation_id = submit(session, request)[0].id
    while (held := take(engine)) is not None:
        assert finish(engine, held, scorer)
    with write_session(engine) as session:
        for evaluation_id in claims.ready_to_seal(session):
            assert seal(session, evaluation_id)
    assert queue_sampled(engine, tmp_path, questions=400, model="new") == without
    with_history = queue_sampled(engine, tmp_path, questions=400, model="newer")
    with read_session(engine) as session:
        submitted = find_evaluation(session, with_history)
        cost = design_of(submitted).cost(session, submitted, read_rows)
    assert cost is not None
    assert cost.expected is not None
    assert cost.expected < cost.prompts < cost.complete == 400
    score_all(engine, with_history, scorer)
    plain, helped = found_in(engine, without), found_in(engine, with_history)
    assert helped.sample.frame.history.shape == (400, 6)
    assert helped.asked < plain.asked
    with read_session(engine) as session:
        assert verify_evaluation(session, with_history)["problems"] == []


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (PrecisionRequest(0.0), "precision 0: give half the length of the interval"),
        (PrecisionRequest(float("nan")), "precision nan: give half the length"),
        (PrecisionRequest(0.02, confidence=95), "confidence 95: give a number from 0.5"),
        (PrecisionRequest(0.02, max_questions=20), "max-questions 20: give a number from 30"),
        (PrecisionRequest(0.02, metric="cora"), "metric cora: a precision can be stated for means"),
        (PrecisionRequest(0.02, metric="worst_accuracy"), "needs each question in two orders"),
    ],
    ids=str,
)
def test_what_cannot_be_met_is_refused(engine: Engine, tmp_path: Path, request_: PrecisionRequest, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        queue_sampled(engine, tmp_path, asked=request_)


def test_the_commands_ask_estimate_and_show_it(database: str, engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_sampled(engine, tmp_path)
    asked = ("--model", "fake", "--benchmark", "sampled", "--variants", "original")
    assert shuffleboard_json("evaluations", "submit", *asked, "--precision", 0.04, database_url=database) == {
        "evaluation": evaluation_id
    }
    other = (*asked, "--precision", 0.05, "--metric", "best_accuracy")
    refused = shuffleboard("evaluations", "submit", *other, status=2, database_url=database)
    assert "best_accuracy needs each question in two orders or more" in refused.stderr
    refused = shuffleboard("evaluations", "submit", *asked, "--metric", "accuracy", status=2, database_url=database)
    assert "--metric without --precision" in refused.stderr
    estimate = shuffleboard_json("evaluations", "estimate", *asked, "--precision", 0.05, database_url=database)
    assert 100 <= estimate["prompts"] < 160
    assert estimate["estimates"][0]["sample"] == {"prompts_complete": 160, "prompts_expected": None}
    ways = {way["way"]: way for way in estimate["ways"]}
    assert ways.keys() == {"everything", "a sample", "a sample, with history"}
    assert ways["everything"]["at_most"]["prompts"] == 160 > ways["a sample"]["at_most"]["prompts"]
    assert (ways["everything"]["error"], ways["a sample"]["error"]) == (0.0, 0.05)
    assert ways["everything"]["expected"] == ways["everything"]["at_most"]
    assert ways["a sample"]["expected"] is None
    shown = shuffleboard("evaluations", "estimate", *asked, "--precision", 0.05, database_url=database).stdout
    assert "a sample, with history" in shown
    score_all(engine, evaluation_id)
    row = shuffleboard_json("leaderboard", database_url=database)["rows"][0]
    assert (row["evaluation_id"], row["questions"]) == (evaluation_id, found_in(engine, evaluation_id).asked)
    shown = shuffleboard("metrics", evaluation_id, database_url=database).stdout
    found = found_in(engine, evaluation_id)
    assert f"accuracy to ±0.04: {found.asked} of 160 questions asked" in shown
    assert f"after {found.asked}: " in shown


@pytest.mark.one_engine
def test_its_page_shows_the_interval_narrow_and_is_followed_while_it_runs(
    database: str, engine: Engine, tmp_path: Path
) -> None:
    evaluation_id = queue_sampled(engine, tmp_path)
    client = create_app(database_url=database).test_client()

    def page() -> str:
        response = client.get(f"/evaluations/{evaluation_id}")
        assert response.status_code == 200
        return response.text

    assert "The first interval is stated after 100 questions" in page()
    while found_in(engine, evaluation_id).looks == []:
        held = take(engine)
        assert held is not None
        assert finish(engine, held)
    running = page()
    assert "Accuracy, sampled to ±4 points" in running
    assert "data-follow" in running
    score_all(engine, evaluation_id)
    found = found_in(engine, evaluation_id)
    complete = page()
    assert "data-follow" not in complete
    for look in found.looks:
        assert f'<th scope="row" class="number">{look.questions}</th>' in complete
    assert f"{found.asked} of 160 questions were asked" in complete


@pytest.mark.one_engine
def test_a_board_marks_estimates_and_ranks_them_by_their_interval_alone_unless_it_demands_all(
    database: str, engine: Engine, tmp_path: Path
) -> None:
    in_part = queue_sampled(engine, tmp_path)
    score_all(engine, in_part)
    suite = SuiteDefinition(name="once", variants=("original",), tasks=(Task(benchmarks=("sampled",)),))
    columns = ("accuracy@original", "brier_score@original")
    with write_session(engine) as session:
        import_suite(session, suite)
        for name, complete in (("lenient", False), ("strict", True)):
            import_board(session, BoardDefinition(name=name, suite="once", columns=columns, complete=complete))
        add_model(session, "other")
        other = submit(session, EvaluationRequest(model="other", benchmark="sampled", variants="original"))[0].id
        asked = [evaluation.id for evaluation, _ in submit_board(session, "fake", "lenient")]
    while (held := take(engine)) is not None:
        assert finish(engine, held)
    with write_session(engine) as session:
        assert asked != [in_part]  # what a board still needs is all of it
        assert seal(session, other)
    refresh_boards(engine)
    board = shuffleboard_json("leaderboard", "--board", "lenient", database_url=database)
    rows = {row["model"]: row for row in board["rows"]}
    found = found_in(engine, in_part)
    value = rows["fake"]["values"]["accuracy@original"]
    assert value["estimated"] == {"asked": found.asked, "of": 160, "prompts": found.asked}
    assert (value["rank"], value["tier"], value["rank_interval"][0]) == (None, None, 1)
    assert value["interval"] == pytest.approx([found.looks[-1].interval.low, found.looks[-1].interval.high])
    assert rows["fake"]["values"]["brier_score@original"]["value"] is None  # no interval, no number
    assert not rows["fake"]["complete"]
    assert rows["other"]["values"]["accuracy@original"]["rank"] == 1
    (unranked, _) = board["unranked"]
    assert f"Estimated from {found.asked} of 160 questions; its interval allows rank" in unranked["reason"]
    assert unranked["commands"] == [f"shuffleboard evaluations complete {in_part}"]
    page = create_app(database_url=database).test_client().get("/boards/lenient").text
    assert f"estimated, {found.asked}/160 questions" in page
    strict = shuffleboard_json("leaderboard", "--board", "strict", database_url=database)
    assert [row["model"] for row in strict["rows"]] == ["other"]
    with read_session(engine) as session:
        assert verify_all(session)["problems"] == []


@pytest.mark.one_engine
def test_it_ends_as_soon_as_it_is_known_which_of_two_models_is_better_or_which_tier_it_is_in(
    database: str, engine: Engine, tmp_path: Path
) -> None:
    plain = queue_sampled(engine, tmp_path, questions=400)
    score_all(engine, plain)
    # One model knows the key of every question, the other chooses the option after it.
    for model, off in (("perfect", 0), ("hopeless", 1)):
        other = FakeScorer()
        other.logprobs = lambda prompt, off=off: [  # type: ignore[method-assign,misc]
            -0.1 if label.strip() == "ABCD"[(int(prompt.text.split("number ")[1].split("?")[0]) + off) % 4] else -3.0
            for label in prompt.continuations
        ]
        with write_session(engine) as session:
            add_model(session, model)
            whole = submit(session, EvaluationRequest(model=model, benchmark="sampled", variants="original"))[0].id
        score_all(engine, whole, other)
    asked = ("--model", "fake", "--benchmark", "sampled", "--variants", "original", "--precision", 0.04)
    refused = shuffleboard("evaluations", "submit", *asked, "--better-than", "fake", status=1, database_url=database)
    assert "has no accuracy over all questions" in refused.stderr
    found = shuffleboard_json("evaluations", "submit", *asked, "--better-than", "perfect", database_url=database)
    score_all(engine, found["evaluation"])
    sample = shuffleboard_json("metrics", found["evaluation"], database_url=database)["sample"]
    assert (sample["until"], sample["decided"]) == ("it is known whether it is better than perfect@1", True)
    assert sample["looks"][-1]["high"] < 1.0
    assert sample["asked"] < found_in(engine, plain).asked
    # The same until its tier is known: above the second, which begins at 0, or in it.
    with write_session(engine) as session:
        import_suite(session, SuiteDefinition(name="one", variants=("original",), tasks=[{"benchmarks": ("sampled",)}]))
        import_board(session, BoardDefinition(name="tiers", suite="one", columns=("accuracy@original",)))
    refresh_boards(engine)
    both = ("--better-than", "perfect", "--until-tier", "tiers")
    for given, why in (
        (both, "ask for one of them"),
        (("--metric", "prob_mass", *both[2:]), "a tier can be waited for in a column prob_mass@original"),
    ):
        refused = shuffleboard("evaluations", "submit", *asked, *given, status=2, database_url=database)
        assert why in refused.stderr
    tiered = shuffleboard_json("evaluations", "submit", *asked, *both[2:], database_url=database)["evaluation"]
    score_all(engine, tiered)
    known = shuffleboard_json("metrics", tiered, database_url=database)["sample"]
    assert (known["until"], known["decided"]) == ("its tier on the board tiers is known", True)
    assert known["looks"][-1]["low"] > 0.0
    assert known["asked"] < found_in(engine, plain).asked
    with read_session(engine) as session:
        for number in (found["evaluation"], tiered):
            assert verify_evaluation(session, number)["problems"] == []

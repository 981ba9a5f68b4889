"""Evaluations of a random sample of a benchmark's questions, and the population that their numbers describe."""

import hashlib
import math
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import Engine, select, text

from registry.boards.definition import BoardDefinition, SuiteDefinition, Task
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import read_session, write_session
from registry.errors import UsageError
from registry.leaderboard.reports import evaluation_metrics
from registry.lookups import find_evaluation, find_version
from registry.queue import claims, evaluations
from registry.queue.evaluations import EvaluationRequest, choose_questions, submit
from registry.scores.asked import asking
from registry.scores.intervals import OF_A_SAMPLE, question_values
from registry.sealed.seal import seal
from registry.sealed.verification import verify_evaluation
from registry.statistics.bootstrap import mean_intervals
from registry.statistics.proportions import half_width, sample_for
from registry.studies.comparing import compare_evaluations, compare_several
from registry.tables import EvaluationMetric, EvaluationQuestion, Question
from tests.integration.two_workers import finish, take, with_two_workers
from tests.support.commands import shuffleboard, shuffleboard_json
from tests.support.population import add_benchmark, add_model, question, queue_sampled
from web import create_app

pytestmark = pytest.mark.long_on("postgresql")


@pytest.fixture
def engine(database: str) -> Engine:
    return with_two_workers(database)


def score(engine: Engine) -> None:
    """Score and seal all queued evaluations."""
    while (claimed := take(engine)) is not None:
        assert finish(engine, claimed)
    with write_session(engine) as session:
        for evaluation_id in claims.ready_to_seal(session):
            assert seal(session, evaluation_id)


def ask(engine: Engine, evaluation_id: int) -> set[str]:
    """Return the external ids of an evaluation's questions."""
    with read_session(engine) as session:
        query = (
            select(Question.external_id)
            .join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id)
            .where(EvaluationQuestion.evaluation_id == evaluation_id)
        )
        return set(session.scalars(query))


def queue(engine: Engine, **request: object) -> int:
    with write_session(engine) as session:
        fields = {"model": "fake", "benchmark": "sampled", "variants": "original"} | request
        return submit(session, EvaluationRequest(**fields))[0].id  # type: ignore[arg-type]


def smallest(seed: int, number: int, of: range) -> set[str]:
    hashes = sorted(of, key=lambda place: hashlib.sha256(f"{seed}:q{place}".encode()).hexdigest())
    return {f"q{place}" for place in hashes[:number]}


def test_samples_are_those_with_the_smallest_hashes_and_contain_each_other(engine: Engine, tmp_path: Path) -> None:
    first = queue_sampled(engine, tmp_path)
    assert ask(engine, first) == smallest(0, 60, range(160))
    assert ask(engine, first) < ask(engine, queue(engine, sample=100))
    assert ask(engine, queue(engine, sample=60, seed=1)) == smallest(1, 60, range(160)) != ask(engine, first)
    # The sample is drawn from the questions that pass the other filters.
    third = {f"q{number}" for number in range(160) if number % 3 == 2}
    drawn = ask(engine, queue(engine, sample=20, subjects=("subject 2",)))
    assert len(drawn) == 20
    assert drawn < third
    assert ask(engine, queue(engine, sample=20, limit=40)) == smallest(0, 20, range(40))
    with read_session(engine) as session:
        kept, _ = choose_questions(session, find_version(session, "sampled"), sample=60)
        assert [row.ordinal for row in kept] == sorted(row.ordinal for row in kept)


@pytest.mark.one_engine
def test_the_sample_is_part_of_the_specification_unless_it_is_everything(engine: Engine, tmp_path: Path) -> None:
    first = queue_sampled(engine, tmp_path)
    assert queue(engine, sample=60) == first
    complete = queue(engine)
    assert queue(engine, sample=160, seed=5) == complete
    others = [first, complete, queue(engine, sample=60, seed=1), queue(engine, sample=61), queue(engine, limit=60)]
    with read_session(engine) as session:
        rows = [find_evaluation(session, number) for number in others]
        assert len({row.asked_digest for row in rows}) == len({row.specification_digest for row in rows}) == len(others)
        kept = {"questions": 60, "of": 160, "seed": 0}
        assert rows[0].specification["questions"] == {"limit": None, "subjects": None, "sample": kept}
        assert (rows[0].questions, rows[0].sampled_from, rows[0].sample_seed) == (60, 160, 0)
        assert (rows[1].questions, rows[1].sampled_from, rows[1].sample_seed) == (160, None, None)


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"sample": 161}, "sample 161: sampled has 160 questions in this selection"),
        ({"sample": 60, "limit": 50}, "sample 60: sampled has 50 questions"),
        ({"sample": 0}, "sample 0: give a number of questions"),
        ({"sample": 60, "seed": -1}, "seed -1: give a number from 0"),
    ],
    ids=str,
)
def test_what_cannot_be_drawn_is_refused(engine: Engine, tmp_path: Path, given: dict[str, int], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        queue_sampled(engine, tmp_path, **given)


def test_intervals_of_a_sample_are_for_all_questions_and_it_verifies(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_sampled(engine, tmp_path, variants="cyclic", sample=90)
    score(engine)
    with read_session(engine) as session:
        report = evaluation_metrics(session, evaluation_id)
        assert report["sample"] == {"questions": 90, "of": 160, "seed": 0}
        table = EvaluationQuestion
        ids = session.scalars(select(table.question_id).where(table.evaluation_id == evaluation_id)).all()
        for name in ("accuracy", "average_accuracy"):
            values = question_values(session, evaluation_id, sorted(ids))[name][:, None]
            (interval,) = mean_intervals(values, factor=math.sqrt(1 - 90 / 160))
            (longer,) = mean_intervals(values)
            assert interval is not None
            assert longer is not None
            assert report["intervals"][name] == pytest.approx([interval.low, interval.high], abs=1e-9)
            assert interval.high - interval.low == pytest.approx(math.sqrt(70 / 160) * (longer.high - longer.low))
        methods = select(EvaluationMetric.interval_method).where(EvaluationMetric.evaluation_id == evaluation_id)
        assert set(session.scalars(methods)) == {OF_A_SAMPLE, "none"}
        assert verify_evaluation(session, evaluation_id)["problems"] == []
        row = session.execute(text("SELECT questions, sampled_from, sample_seed FROM leaderboard")).one()
        assert tuple(row) == (90, 160, 0)


@pytest.mark.one_engine
def test_another_sample_than_the_seed_draws_does_not_verify(engine: Engine, tmp_path: Path) -> None:
    with patch.object(evaluations, "draw_sample", lambda questions, size, *_: questions[:size]):
        evaluation_id = queue_sampled(engine, tmp_path)
    score(engine)
    with read_session(engine) as session:
        problems = verify_evaluation(session, evaluation_id)["problems"]
    assert any("the sample that was asked is not the one that its seed draws" in problem for problem in problems)


def test_samples_rank_among_those_of_the_same_sample_alone(database: str, engine: Engine, tmp_path: Path) -> None:
    queue_sampled(engine, tmp_path, variants="cyclic")
    with write_session(engine) as session:
        add_model(session, "other")
    for model, sample in (("other", {"sample": 60}), ("other", {"sample": 60, "seed": 1}), ("other", {}), ("fake", {})):
        queue(engine, model=model, variants="cyclic", **sample)
    score(engine)
    rows = shuffleboard_json("leaderboard", "--benchmark", "sampled", database_url=database)["rows"]
    groups: dict[tuple[int, int | None], list[int]] = {}
    for row in rows:
        groups.setdefault((row["questions"], row["sample_seed"]), []).append(row["rank"])
    assert {key: sorted(ranks) for key, ranks in groups.items()} == {
        (60, 0): [1, 1],
        (60, 1): [None],  # alone
        (160, None): [1, 1],
    }
    page = create_app(database_url=database).test_client().get("/?benchmark=sampled").text
    assert "a sample of 60 of 160 questions, seed 0" in page
    assert "a sample of 60 of 160 questions, seed 1" in page


def test_two_evaluations_of_one_sample_are_compared_for_all_questions(engine: Engine, tmp_path: Path) -> None:
    one = queue_sampled(engine, tmp_path, variants="cyclic", sample=120)
    other = queue(engine, sample=120)
    complete = queue(engine, variants="cyclic")
    score(engine)
    with read_session(engine) as session:
        sampled = compare_evaluations(session, one, other)["metrics"]["accuracy"]
        several = compare_several(session, [one, other], "accuracy")["differences"][0][1]
        partly = compare_evaluations(session, complete, other)["metrics"]["accuracy"]
    assert sampled["interval"] == pytest.approx(several["interval"])
    assert sampled["interval"] == pytest.approx(partly["interval"])
    # All answers agree, so the length is that of the adjusted error alone.
    error = math.sqrt(2 / 122 / 122) * math.sqrt(40 / 160)
    assert sampled["interval"][1] == pytest.approx(error * math.sqrt(120 / 119) * 1.980, rel=1e-3)


@pytest.mark.one_engine
def test_the_commands_sample_estimate_and_show_it(database: str, engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_sampled(engine, tmp_path, variants="cyclic")
    options = ("--model", "fake", "--benchmark", "sampled", "--variants", "cyclic")
    submitted = shuffleboard_json("evaluations", "submit", *options, "--sample", 60, "--seed", 0, database_url=database)
    assert submitted == {"evaluation": evaluation_id}
    refused = shuffleboard("evaluations", "submit", *options, "--seed", 1, status=2, database_url=database)
    assert "--seed draws a sample: give --sample" in refused.stderr
    refused = shuffleboard("evaluations", "submit", *options, "--sample", 500, status=2, database_url=database)
    assert "sample 500: sampled has 160 questions" in refused.stderr
    refused = shuffleboard("evaluations", "submit", *options, "--sample", 0, status=2, database_url=database)
    assert "sample" in refused.stderr
    worst = shuffleboard_json("evaluations", "estimate", *options, "--precision", 0.08, database_url=database)
    expected = sample_for(0.25, 0.08, 160)
    assert (worst["sample"], worst["of"], worst["pilot"], worst["precision"]) == (expected, 160, None, 0.08)
    assert worst["half_width"] == pytest.approx(half_width(0.25, expected, 160))
    assert [row["metric"] for row in worst["metrics"]] == ["accuracy", "worst_accuracy"]
    assert worst["prompts"] == 4 * expected
    score(engine)
    pilot = shuffleboard_json("evaluations", "estimate", *options, "--precision", 0.08, database_url=database)
    assert pilot["pilot"] == evaluation_id
    assert 30 <= pilot["sample"] < worst["sample"]
    assert pilot["half_width"] <= 0.08
    variances = {row["metric"]: row["variance"] for row in pilot["metrics"] if row["pilot"] == evaluation_id}
    with read_session(engine) as session:
        share = evaluation_metrics(session, evaluation_id)["metrics"]["accuracy"]
    assert variances["accuracy"] == pytest.approx(share * (1 - share))
    shown = shuffleboard("evaluations", "estimate", *options, "--precision", 0.08, database_url=database).stdout
    assert f"±0.08: --sample {pilot['sample']}, of 160" in shown
    for wrong, why in (
        ((*options, "--precision", 0.08, "--sample", 60), "a precision chooses the sample"),
        ((*options, "--precision", 3), "precision 3: give half the length"),
        (("--model", "fake", "--suite", "any", "--precision", 0.08), "a precision is for one benchmark"),
    ):
        assert why in shuffleboard("evaluations", "estimate", *wrong, status=2, database_url=database).stderr
    shown = shuffleboard("metrics", evaluation_id, database_url=database).stdout
    assert "a sample of 60 of 160 questions, seed 0" in shown
    page = create_app(database_url=database).test_client().get(f"/evaluations/{evaluation_id}").text
    assert "A sample of 60 of 160 questions, seed 0." in page


def test_a_sampled_suites_board_has_intervals_for_all_questions(database: str, engine: Engine, tmp_path: Path) -> None:
    queue_sampled(engine, tmp_path, variants="cyclic", sample=130)
    suite = SuiteDefinition(name="orders", variants=("cyclic",), tasks=(Task(benchmarks=("sampled",)),))
    with write_session(engine) as session:
        import_suite(session, suite)
        columns = ("accuracy@cyclic", "average_accuracy@cyclic")
        import_board(session, BoardDefinition(name="whole", suite="orders", columns=columns))
        add_model(session, "other")
    named = ("evaluations", "submit", "--suite", "orders", "--sample", 130, "--model")
    for model in ("fake", "other"):
        shuffleboard_json(*named, model, database_url=database)
    queue(engine, variants="cyclic", model="other")
    score(engine)
    refresh_boards(engine)
    board = shuffleboard_json("leaderboard", "--board", "orders-sample-130", database_url=database)
    rows = {row["model"]: row["values"] for row in board["rows"]}
    assert rows.keys() == {"fake", "other"}
    complete = shuffleboard_json("leaderboard", "--board", "whole", database_url=database)
    assert [row["model"] for row in complete["rows"]] == ["other"]
    for values in rows.values():
        low, high = values["accuracy@cyclic"]["interval"]
        share = values["accuracy@cyclic"]["value"]
        plain = 2 * 1.986 * math.sqrt(share * (1 - share) / 129)
        assert high - low == pytest.approx(math.sqrt(30 / 160) * plain, rel=0.1)
    assert {values["accuracy@cyclic"]["rank"] for values in rows.values()} == {1}
    page = create_app(database_url=database).test_client().get("/boards/orders-sample-130").text
    assert "a sample of 130 of 160 questions, seed 0" in page


@pytest.mark.one_engine
def test_a_suite_that_joins_benchmarks_cannot_be_sampled(engine: Engine, tmp_path: Path) -> None:
    joined = {"name": "both", "benchmarks": ["one", "two"]}
    with pytest.raises(ValueError, match="joins benchmarks cannot be sampled"):
        Task.model_validate(joined | {"sample": 50})
    with pytest.raises(ValueError, match="a seed draws a sample"):
        Task.model_validate({"benchmark": "one", "seed": 5})
    with write_session(engine) as session:
        for name in ("one", "two"):
            add_benchmark(session, tmp_path, [question(number) for number in range(40)], name)
        add_model(session, "fake")
        import_suite(session, SuiteDefinition(name="joined", variants=("cyclic",), tasks=(Task(**joined),)))
    for options in (("--sample", 20), ("--sample", 20, "--seed", 3)):
        refused = shuffleboard(
            *("evaluations", "submit", "--model", "fake", "--suite", "joined", *options),
            status=2,
            database_url=engine.url.render_as_string(hide_password=False),
        )
        assert "task both joins benchmarks and cannot be sampled" in refused.stderr


def test_the_proposed_command_asks_the_same_sample() -> None:
    row = {"model": "m", "revision": 1, "kind": "gguf", "benchmark": "arc", "protocol": "symbols", "shots": 0}
    filtered = row | {
        "question_filter": {"limit": None, "subjects": None, "sample": {"questions": 50, "of": 90, "seed": 2}}
    }
    assert asking(filtered).endswith("--variants cyclic --sample 50 --seed 2")

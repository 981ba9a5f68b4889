"""The estimated cost of an evaluation before it is queued; the transformers tokenizer is in test_command_line.py."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from registry.boards.store import load_shipped_suites, submit_suite
from registry.db import get_engine, write_session
from registry.errors import ModelError, NotFoundError
from registry.queue import claims
from registry.queue import estimate as estimating
from registry.queue.estimate import estimates, shared_tokens
from registry.queue.evaluations import EvaluationRequest, submit
from registry.tables import Evaluation, ModelRevision, Worker
from shuffleboard.cli.evaluations import evaluations
from tests.support.commands import shuffleboard, shuffleboard_json
from tests.support.fake_scorer import FakeScorer
from tests.support.population import add_benchmark, add_model, question, queue_evaluation, table_counts

pytestmark = pytest.mark.one_engine


def characters(_revision: ModelRevision) -> Any:
    """Return a tokenizer with a token for each character."""
    return lambda text: [ord(character) for character in text]


def estimate(engine: Engine, tokeniser: Any = characters, **request: Any) -> dict[str, Any]:
    asked = EvaluationRequest(**({"model": "fake", "benchmark": "bench", "variants": "cyclic"} | request))
    return estimates(engine, lambda session: [submit(session, asked)], asked.queue, tokeniser)


def fill(engine: Engine, folder: Path, questions: int = 3) -> None:
    with write_session(engine) as session:
        add_benchmark(session, folder, [question(number) for number in range(questions)])
        add_model(session)
        session.add(Worker(id="worker-1", host="here", pid=1, device="fake", versions={}))


# Common beginnings


@pytest.mark.parametrize(
    ("sequences", "expected"),
    [
        ([], 0),
        ([[1, 2, 3]], 3),
        ([[1, 2, 3], [1, 2, 3]], 3),
        ([[1, 2, 3], [1, 2, 4]], 4),  # 1 2 once, then 3 and 4
        ([[1, 2, 3], [1], [2, 3]], 5),  # 1 2 3, nothing new, 2 3
    ],
)
def test_common_beginnings_count_once(sequences: list[list[int]], expected: int) -> None:
    assert shared_tokens(sequences) == expected


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=12))
def test_shared_tokens_are_the_different_beginnings(sequences: list[list[int]]) -> None:
    beginnings = {tuple(sequence[:end]) for sequence in sequences for end in range(1, len(sequence) + 1)}
    assert shared_tokens(sequences) == len(beginnings)


# Estimates


def test_an_estimate_counts_prompts_and_tokens_and_stores_nothing(engine: Engine, tmp_path: Path) -> None:
    fill(engine, tmp_path)
    before = table_counts(engine)
    document = estimate(engine)
    assert table_counts(engine) == before
    (row,) = document["estimates"]
    assert (row["evaluation"], row["questions"], row["prompts"], row["prompts_left"]) == (None, 3, 12, 12)
    assert row["prompts_sampled"] == 12
    assert row["tokens_naive"] > row["tokens_shared"] > 0
    assert row["seconds"] is None
    assert row["reason"] == "no shard of fake revision 1 has been scored on the queue cpu yet"
    assert document["prompts"] == 12
    assert document["seconds"] is None


def test_tokens_are_those_of_the_prompts_that_a_worker_is_given(engine: Engine, tmp_path: Path) -> None:
    fill(engine, tmp_path)
    (row,) = estimate(engine, shard_prompts=4)["estimates"]
    shown: dict[int, list[str]] = {}
    with write_session(engine) as session:
        submit(session, EvaluationRequest(model="fake", benchmark="bench", variants="cyclic", shard_prompts=4))
    while True:
        with write_session(engine) as session:
            claim = claims.claim(session, "worker-1", queues=["cpu"], lease_seconds=60)
        if claim is None:
            break
        scorer = FakeScorer(
            before_prompt=lambda item, shard=claim.shard_id: shown.setdefault(shard, []).append(item.prompt.text)
        )
        scorer.score(engine, claim, lambda: False)
    assert len(shown) == 3
    assert row["tokens_naive"] == sum(len(text) for texts in shown.values() for text in texts)
    assert row["tokens_shared"] == sum(
        len({text[:end] for text in texts for end in range(1, len(text) + 1)}) for texts in shown.values()
    )


def test_a_sample_stands_for_many_prompts(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(engine, tmp_path, questions=40)
    complete = estimate(engine, shard_prompts=8)["estimates"][0]
    monkeypatch.setattr(estimating, "SAMPLE_PROMPTS", 40)
    (row,) = estimate(engine, shard_prompts=8)["estimates"]
    assert complete["prompts_sampled"] == row["prompts_left"] == 160
    assert row["prompts_sampled"] == 40
    # The questions differ only in their numbers of one or two digits.
    assert row["tokens_naive"] == pytest.approx(complete["tokens_naive"], rel=0.02)
    assert row["tokens_shared"] == pytest.approx(complete["tokens_shared"], rel=0.02)


def test_a_shard_larger_than_the_sample_is_cut(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(engine, tmp_path, questions=2)
    monkeypatch.setattr(estimating, "SAMPLE_PROMPTS", 10)
    (row,) = estimate(engine, variants="full")["estimates"]
    assert (row["prompts_left"], row["prompts_sampled"]) == (48, 10)
    assert row["tokens_naive"] > 0


def score_first_shard(engine: Engine, tokens: int, seconds: float, queues: str = "cpu") -> None:
    with write_session(engine) as session:
        claim = claims.claim(session, "worker-1", queues=[queues], lease_seconds=60)
    assert claim is not None
    scores = FakeScorer().score(engine, claim, lambda: False)
    with write_session(engine) as session:
        claims.finish(session, claim, claims.ShardResult(scores.rows, scores.fingerprint, 2 * tokens, tokens, seconds))


def test_seconds_come_from_the_models_finished_shards_on_that_device(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, benchmark="other")
    queue_evaluation(engine, tmp_path, benchmark="third", queue="gpu")
    queue_evaluation(engine, tmp_path, benchmark="fourth", model="faster")
    fill_worker(engine)
    score_first_shard(engine, tokens=100, seconds=2.0)  # 50 tokens a second
    score_first_shard(engine, tokens=9000, seconds=1.0, queues="gpu")
    score_first_shard(engine, tokens=7000, seconds=1.0)  # of the other model
    with write_session(engine) as session:
        add_benchmark(session, tmp_path, [question(number) for number in range(3)])
    (row,) = estimate(engine)["estimates"]
    assert row["seconds"] == round(row["tokens_shared"] / 50, 3)
    assert row["reason"] is None
    (on_gpu,) = estimate(engine, queue="gpu")["estimates"]
    assert on_gpu["seconds"] == round(on_gpu["tokens_shared"] / 9000, 3)


def fill_worker(engine: Engine) -> None:
    with write_session(engine) as session:
        session.add(Worker(id="worker-1", host="here", pid=1, device="fake", versions={}))


def test_what_is_there_already_costs_what_is_left_of_it(engine: Engine, tmp_path: Path) -> None:
    fill(engine, tmp_path)
    request = EvaluationRequest(model="fake", benchmark="bench", variants="cyclic", shard_prompts=4)
    with write_session(engine) as session:
        evaluation_id = submit(session, request)[0].id
    score_first_shard(engine, tokens=100, seconds=2.0)
    (row,) = estimate(engine)["estimates"]
    assert (row["evaluation"], row["prompts"], row["prompts_left"]) == (evaluation_id, 12, 8)
    for _ in range(2):
        score_first_shard(engine, tokens=100, seconds=2.0)
    (row,) = estimate(engine)["estimates"]
    assert (row["prompts_left"], row["tokens_naive"], row["tokens_shared"], row["seconds"]) == (0, 0, 0, 0.0)


def test_without_the_models_files_tokens_and_seconds_stay_unknown(engine: Engine, tmp_path: Path) -> None:
    fill(engine, tmp_path)

    def elsewhere(_revision: ModelRevision) -> Any:
        raise ModelError("/models/fake: the model's files are not on this machine")

    document = estimate(engine, tokeniser=elsewhere)
    (row,) = document["estimates"]
    assert (row["prompts_left"], row["tokens_naive"], row["tokens_shared"], row["seconds"]) == (12, None, None, None)
    assert row["reason"] == "/models/fake: the model's files are not on this machine"
    assert document["tokens_naive"] is None


def test_a_suite_is_summed(engine: Engine, tmp_path: Path) -> None:
    fill(engine, tmp_path)
    with write_session(engine) as session:
        load_shipped_suites(session)
    before = table_counts(engine)

    def plan(session: Any) -> list[tuple[Evaluation, bool]]:
        return submit_suite(session, "fake", "robustness-core", ["bench"])

    document = estimates(engine, plan, "cpu", characters)
    assert table_counts(engine) == before
    assert len(document["estimates"]) > 1
    for name in ("prompts", "prompts_left", "tokens_naive", "tokens_shared"):
        assert document[name] == sum(row[name] for row in document["estimates"])


def test_what_cannot_be_submitted_cannot_be_estimated(engine: Engine, tmp_path: Path) -> None:
    fill(engine, tmp_path)
    with pytest.raises(NotFoundError, match="no model 'nobody'"):
        estimate(engine, model="nobody")


# The command


@pytest.fixture
def asked(sqlite_database: str, tmp_path: Path) -> tuple[str, ...]:
    fill(get_engine(sqlite_database), tmp_path)
    return ("--model", "fake", "--benchmark", "bench", "--variants", "cyclic")


def test_the_command_says_what_it_knows_and_why_not_more(sqlite_database: str, asked: tuple[str, ...]) -> None:
    document = shuffleboard_json("evaluations", "estimate", *asked, database_url=sqlite_database)
    (row,) = document["estimates"]
    assert (row["prompts"], row["seconds"]) == (12, None)
    assert row["reason"] == "tests/fake: the model's files are not on this machine"
    assert shuffleboard_json("evaluations", "list", database_url=sqlite_database)["evaluations"] == []
    outcome = shuffleboard("evaluations", "estimate", *asked, database_url=sqlite_database)
    assert "unknown: tests/fake: the model's files are not on this machine" in outcome.stderr
    assert "12" in outcome.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(("--board", "main", "--limit", "3"), "leave out --limit", id="a board and a limit"),
    ],
)
def test_options_that_submit_refuses_are_refused(sqlite_database: str, options: tuple[str, ...], message: str) -> None:
    outcome: subprocess.CompletedProcess[str] = shuffleboard(
        "evaluations", "estimate", "--model", "fake", *options, status=2, database_url=sqlite_database
    )
    assert message in outcome.stderr


def test_estimate_takes_the_options_of_submit_but_for_what_happens_afterwards() -> None:
    submitting = {option for parameter in evaluations.commands["submit"].params for option in parameter.opts}
    estimated = {option for parameter in evaluations.commands["estimate"].params for option in parameter.opts}
    assert submitting - estimated == {"--budget", "--wait"}
    assert "--precision" in estimated - submitting

"""The queue page, its JSON and its figures: evaluations in progress, with their workers or without."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine, update

from registry.db import database_now, get_engine, write_session
from registry.queue import claims
from registry.queue.evaluations import move
from registry.tables import Shard, Worker
from tests.support.fake_scorer import FakeScorer
from tests.support.population import queue_evaluation
from web import create_app

LONG = 3600.0


@pytest.fixture
def own_engine(database: str) -> Engine:
    return get_engine(database)


@pytest.fixture
def site(database: str):
    return create_app(database_url=database).test_client()


def add_worker(engine: Engine, name: str = "worker-1", **columns: object) -> None:
    row = {"host": "bench", "pid": 1, "device": "cpu", "versions": {"torch": "2.13.0"}, "queues": ["cpu"]}
    with write_session(engine) as session:
        session.add(Worker(id=name, **(row | columns)))


def score_one(
    engine: Engine, worker: str = "worker-1", tokens: tuple[int, int] = (100, 40), seconds: float = 2.0
) -> None:
    """Score the next shard, with this recorded number of tokens and seconds."""
    with write_session(engine) as session:
        claim = claims.claim(session, worker, queues=["cpu"], lease_seconds=LONG)
        assert claim is not None
    scores = FakeScorer().score(engine, claim, lambda: False)
    with write_session(engine) as session:
        result = claims.ShardResult(scores.rows, scores.fingerprint, *tokens, seconds)
        assert claims.finish(session, claim, result)


def words(html: str) -> str:
    """Return the text of a page, with runs of white space replaced by one space."""
    text = re.sub(r"<[^>]+>", " ", html.split("<main", 1)[1].split("<footer", 1)[0])
    return " ".join(text.replace("\u202f", " ").split())


def figures(site) -> dict[str, float]:
    """Return name{labels} → value from /metrics."""
    response = site.get("/metrics")
    assert response.status_code == 200
    assert response.content_type.startswith("text/plain")
    values = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            values[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return values


@pytest.mark.one_engine
def test_an_empty_queue_says_so(site) -> None:
    text = words(site.get("/queue").text)
    assert "The queue is empty." in text
    assert "no live worker" not in text


@pytest.mark.one_engine
def test_work_without_a_worker_says_so(own_engine, site, tmp_path: Path) -> None:
    queue_evaluation(own_engine, tmp_path)
    assert "Work is waiting on the queue cpu , but no live worker serves it." in words(site.get("/queue").text)
    document = site.get("/api/v1/queue").json
    assert document["queues_without_worker"] == ["cpu"]
    assert document["items"][0]["progress"]["no_worker"] is True
    assert figures(site)["shuffleboard_queue_without_worker{queue=cpu}"] == 1


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"queues": ["gpu"]}, id="of another queue"),
        pytest.param({"last_seen": database_now(-claims.ALIVE_SECONDS - 1)}, id="that is silent"),
        pytest.param({"stopped_at": database_now()}, id="that has stopped"),
    ],
)
def test_a_worker_does_not_serve_the_queue(own_engine, site, tmp_path: Path, columns) -> None:
    queue_evaluation(own_engine, tmp_path)
    add_worker(own_engine, **columns)
    assert site.get("/api/v1/queue").json["queues_without_worker"] == ["cpu"]


@pytest.mark.one_engine
def test_an_older_worker_that_did_not_say_its_queues_serves_all(own_engine, site, tmp_path: Path) -> None:
    queue_evaluation(own_engine, tmp_path)
    add_worker(own_engine, queues=None)
    assert site.get("/api/v1/queue").json["queues_without_worker"] == []


def test_time_left_is_that_of_the_workers_at_the_measured_rate(own_engine, site, tmp_path: Path) -> None:
    # Six shards of 4 prompts. Two workers take 2 s for one each: 8 prompts in 4 s of work, so 2 prompts/s a worker.
    # The 16 that are left take 8 s of one worker, 4 s of two.
    queue_evaluation(own_engine, tmp_path, shards=6)
    for name in ("worker-1", "worker-2"):
        add_worker(own_engine, name)
        score_one(own_engine, name)
    document = site.get("/api/v1/queue").json
    progress = document["items"][0]["progress"]
    assert progress["prompts_done"] == 8
    assert progress["workers"] == 2
    assert progress["prompts_per_second"] == 2.0
    assert progress["seconds_left"] == 4.0
    assert (progress["tokens_naive"], progress["tokens_computed"], progress["tokens_saved"]) == (200, 80, 120)
    assert document["overall"] == {
        "evaluations": 1,
        "prompts": 24,
        "prompts_done": 8,
        "shards_failed": 0,
        "prompts_per_second": 4.0,
        "seconds_left": 4.0,
        "tokens_naive": 200,
        "tokens_computed": 80,
        "tokens_saved": 120,
    }
    text = words(site.get("/queue").text)
    assert "8 of 24 prompts" in text
    assert "60.0 % of 200" in text


@pytest.mark.one_engine
def test_no_time_is_left_to_tell_while_nobody_scores(own_engine, site, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(own_engine, tmp_path, shards=2)
    add_worker(own_engine)
    score_one(own_engine)
    with write_session(own_engine) as session:
        move(session, evaluation_id, "pause")
    document = site.get("/api/v1/queue").json
    assert document["items"][0]["progress"]["seconds_left"] is None
    assert document["overall"]["evaluations"] == 0


@pytest.mark.one_engine
def test_the_total_time_left_is_unknown_without_every_evaluations_rate(own_engine, site, tmp_path: Path) -> None:
    queue_evaluation(own_engine, tmp_path, shards=2)
    queue_evaluation(own_engine, tmp_path, shards=2, model="other")
    add_worker(own_engine)
    score_one(own_engine)
    assert site.get("/api/v1/queue").json["overall"]["seconds_left"] is None
    assert "shuffleboard_seconds_left" not in figures(site)
    for _ in range(2):
        score_one(own_engine)
    assert site.get("/api/v1/queue").json["overall"]["seconds_left"] == 2.0


@pytest.mark.one_engine
def test_mixed_versions_of_live_workers_are_shown(own_engine, site) -> None:
    add_worker(own_engine, "worker-1", versions={"torch": "2.13.0", "python": "3.11"})
    add_worker(own_engine, "worker-2", versions={"torch": "2.13.0", "python": "3.11"})
    assert site.get("/api/v1/queue").json["differing_versions"] == {}
    add_worker(own_engine, "worker-3", versions={"torch": "2.13.1", "python": "3.11"})
    document = site.get("/api/v1/queue").json
    assert document["differing_versions"] == {"torch": {"2.13.0": 2, "2.13.1": 1}}
    text = words(site.get("/queue").text)
    assert "The workers run different versions." in text
    assert "torch: 2.13.0 on 2 workers, 2.13.1 on 1 worker" in text
    assert figures(site)["shuffleboard_mixed_versions"] == 1


def test_a_worker_is_shown_with_what_it_does(own_engine, site, tmp_path: Path) -> None:
    queue_evaluation(own_engine, tmp_path)
    add_worker(own_engine, versions={"shuffleboard": "0.1.0+abc"})
    assert "bench cpu cpu idle" in words(site.get("/queue").text)
    with write_session(own_engine) as session:
        claims.claim(session, "worker-1", queues=["cpu"], lease_seconds=LONG)
    text = words(site.get("/queue").text)
    assert "bench cpu cpu scoring" in text
    assert "0.1.0+abc" in text


def test_the_figures_are_those_of_the_database(own_engine, site, tmp_path: Path) -> None:
    before = figures(site)
    assert before["shuffleboard_evaluations{state=queued}"] == 0
    assert before["shuffleboard_prompts_total"] == 0
    queue_evaluation(own_engine, tmp_path, shards=3)
    add_worker(own_engine, loaded_model_revision_id=None)
    score_one(own_engine)
    with write_session(own_engine) as session:
        session.execute(update(Shard).where(Shard.state == "queued").values(failures=1, crashes=2))
    after = figures(site)
    assert after["shuffleboard_evaluations{state=running}"] == 1
    assert after["shuffleboard_shards{queue=cpu,state=done}"] == 1
    assert after["shuffleboard_shards{queue=cpu,state=queued}"] == 2
    assert after["shuffleboard_prompts_waiting{queue=cpu}"] == 8
    assert after["shuffleboard_prompts_total"] == 4
    assert after["shuffleboard_tokens_total"] == 100
    assert after["shuffleboard_tokens_computed_total"] == 40
    assert after["shuffleboard_scoring_seconds_total"] == 2.0
    assert (after["shuffleboard_shard_failures"], after["shuffleboard_shard_crashes"]) == (2, 4)
    assert after["shuffleboard_workers{device=cpu}"] == 1
    assert after["shuffleboard_oldest_waiting_seconds{queue=cpu}"] >= 0
    assert after["shuffleboard_prompts_per_second"] == 2.0
    assert after["shuffleboard_seconds_left"] == 4.0


def test_the_figures_name_no_model_and_no_benchmark(own_engine, site, tmp_path: Path) -> None:
    queue_evaluation(own_engine, tmp_path, model="secret-model", benchmark="secret-bench")
    assert "secret" not in site.get("/metrics").text

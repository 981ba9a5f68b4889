"""The real model, which gives a prompt the same bits alone, among others, in other shards and on other threads."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from sqlalchemy import Engine, select

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import get_engine, read_session, write_session
from registry.operations.migrate import upgrade
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import RevisionRequest, add_revision
from registry.settings import Settings
from registry.tables import EngineFingerprint, Shard
from tests.engine import same_bits
from tests.support.population import MMLU, predictions
from workers.artifacts import inspect_files
from workers.engine import TrieEngine, load_model
from workers.fingerprint import promises_same_bits
from workers.loop import WorkerLoop
from workers.scorer import TransformersScorer

pytestmark = pytest.mark.long


def test_prompts_of_three_protocols_alone_and_together(smollm2_folder: Path) -> None:
    engine = TrieEngine(load_model(smollm2_folder, device="cpu"), canonical=True)
    prompts = same_bits.question_prompts(Random(3), 5, orders=2)
    assert {item.whole for item in prompts} == {True, False}
    everything = same_bits.score(engine, prompts)
    few = sorted(range(len(prompts)), key=lambda place: len(prompts[place].prompt.text))[::3]
    assert same_bits.alone(engine, [prompts[place] for place in few]) == [everything[place] for place in few]
    assert not same_bits.compare(engine, prompts, everything, same_bits.shards(Random(2), prompts)).other


def evaluate(engine: Engine, home: Path, request: EvaluationRequest, budget_tokens: int) -> int:
    """Submit an evaluation and score it with a worker's loop; return its id."""
    with write_session(engine) as session:
        evaluation_id = submit(session, request)[0].id
    scorer = TransformersScorer(home, "cpu")
    scorer.budget_tokens = budget_tokens
    loop = WorkerLoop(engine, Settings(home=home, poll_seconds=0.1), scorer, ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    return evaluation_id


def fingerprints(engine: Engine, evaluation_id: int) -> list[dict[str, Any]]:
    with read_session(engine) as session:
        query = select(EngineFingerprint.document).join(Shard, Shard.engine_fingerprint_id == EngineFingerprint.id)
        return list(session.scalars(query.where(Shard.evaluation_id == evaluation_id).distinct()))


@pytest.mark.usefixtures("threads")
def test_an_evaluation_in_other_shards_and_on_other_threads(smollm2_folder: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shuffleboard.db'}"
    upgrade(url)
    engine = get_engine(url)
    revision = RevisionRequest("huggingface", str(smollm2_folder))
    with write_session(engine) as session:
        import_benchmark(session, read_benchmark(MMLU), name="mmlu")
        add_revision(session, "m", revision, {}, inspect_files(revision))
    request = EvaluationRequest(model="m", benchmark="mmlu", variants="cyclic", limit=1, shots=1)
    torch.set_num_threads(1)
    one = evaluate(engine, tmp_path, request, 2048)
    torch.set_num_threads(2)
    # A replicate scores again: nothing is copied.
    other = evaluate(engine, tmp_path, replace(request, shard_prompts=2, new_replicate=True), 200)
    expected, actual = predictions(engine, one), predictions(engine, other)
    assert len(expected) == 4
    assert {key: row["label_logprobs"] for key, row in expected.items()} == {
        key: row["label_logprobs"] for key, row in actual.items()
    }
    (first,), (second,) = fingerprints(engine, one), fingerprints(engine, other)
    assert (first["threads"], second["threads"]) == (1, 2)
    assert promises_same_bits(first, second)
    assert not promises_same_bits(first, second | {"arithmetic": "0" * 16})
    assert not promises_same_bits(first | {"canonical": False}, second | {"canonical": False})
    engine.dispose()

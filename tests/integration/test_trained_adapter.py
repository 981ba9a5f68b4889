"""An adapter of SmolLM2-135M that is trained here, scored in both ways, and compared with PEFT and with itself."""

import json
from pathlib import Path

import pytest

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import get_engine, read_session, write_session
from registry.lookups import find_revision
from registry.operations.migrate import upgrade
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import model_identity
from registry.settings import Settings
from registry.studies.comparing import compare_evaluations
from tests.support.adapters import check_against_peft, train_adapter
from tests.support.commands import shuffleboard
from tests.support.population import MMLU
from web import create_app
from workers.loop import WorkerLoop
from workers.scorer import TransformersScorer

pytestmark = [pytest.mark.one_engine, pytest.mark.long]

STEPS = 40


def texts() -> list[str]:
    """Return forty questions with their right answers."""
    lines = [json.loads(line) for line in MMLU.read_text().splitlines()[-STEPS:]]
    return [
        "\n".join(
            [record["question"], *(f"{label}. {text}" for label, text in zip("ABCD", record["options"], strict=True))]
        )
        + f"\nAnswer: {'ABCD'[record['answer']]}"
        for record in lines
    ]


def test_an_adapter_trained_on_smollm2_equals_peft_merged_and_unmerged(smollm2_folder: Path, tmp_path: Path) -> None:
    adapter = train_adapter(tmp_path / "lora", smollm2_folder, texts(), steps=STEPS, rate=2e-4, r=8, lora_alpha=16)
    url = f"sqlite:///{tmp_path / 'shuffleboard.db'}"
    where = {"database_url": url, "home": tmp_path}
    upgrade(url)
    engine = get_engine(url)
    with write_session(engine) as session:
        import_benchmark(session, read_benchmark(MMLU), name="mmlu")
    shuffleboard("models", "add", "smollm2", "--kind", "huggingface", "--location", smollm2_folder, **where)
    for way in ("--unmerged", "--merged"):
        shuffleboard("models", "add", "tuned", "--base", "smollm2", "--adapter", adapter, way, **where)
    with write_session(engine) as session:
        for model in ("tuned@1", "tuned@2", "smollm2"):
            submit(session, EvaluationRequest(model=model, benchmark="mmlu", variants="cyclic", limit=4))
    loop = WorkerLoop(engine, Settings(home=tmp_path, poll_seconds=0.1), TransformersScorer(tmp_path, "cpu"), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    assert check_against_peft(engine, 1, smollm2_folder, adapter, 1e-4) == 16
    # Training moved the numbers by far more than that.
    with pytest.raises(AssertionError):
        check_against_peft(engine, 3, smollm2_folder, adapter, 1e-2)
    with read_session(engine) as session:
        base, *both = (model_identity(find_revision(session, name)) for name in ("smollm2", "tuned@1", "tuned@2"))
        relation = compare_evaluations(session, 1, 2)["relation"]
    assert [identity["adapter"]["merged"] for identity in both] == [False, True]
    assert both[0]["weights_digest"] == both[1]["weights_digest"] != base["weights_digest"]
    assert relation == "another revision"
    client = create_app(database_url=url).test_client()
    assert "at different revisions (1 and 2)" in client.get("/compare?left=1&right=2").text
    shown = client.get("/evaluations/1/provenance?against=2").text
    assert "unmerged" in shown
    assert "merged" in shown.replace("unmerged", "")

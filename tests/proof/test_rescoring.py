"""Rescoring: prompts of a sealed evaluation are scored by its model again."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
import torch
from sqlalchemy import Engine, select
from transformers import AutoConfig, AutoModelForCausalLM

from registry.db import get_engine, read_session, write_session
from registry.errors import ModelError, QueueError, UsageError
from registry.operations.migrate import upgrade
from registry.prompting.protocols.custom import custom_definition
from registry.prompting.protocols.store import import_protocol
from registry.queue.evaluations import EvaluationRequest, submit
from registry.revisions.store import RevisionRequest, add_revision
from registry.schema.triggers import trigger_names
from registry.sealed.archiving import archive, restore
from registry.sealed.verification.rescoring import TOLERANCE, _compare, largest_change, rescore_evaluation
from registry.settings import Settings
from registry.tables import Generation, Question
from tests.engine.tiny import COMMON
from tests.proof.commands import run
from tests.proof.population import Population
from tests.support.few_questions import tokenizer
from tests.support.population import add_benchmark, question
from workers import rescoring
from workers.artifacts import inspect_files
from workers.loop import WorkerLoop
from workers.scorer import TransformersScorer

THINKS: Final = {
    "name": "thinks",
    "base": "final-answer",
    "generation": {"sampling": "given", "max_tokens": 24, "max_thought_tokens": 12, "at_limit": "answer"},
}

Scored = tuple[Engine, Path, dict[str, int]]
"""A registry, its data directory, and a sealed evaluation of each protocol."""


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a random model with a tokenizer, as a folder."""
    folder = tmp_path_factory.mktemp("tiny")
    words = tokenizer()
    words.chat_template = (
        "{% for turn in messages %}{{ turn.content }}\n{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}"
    )
    words.save_pretrained(folder)
    torch.manual_seed(0)
    size = {"vocab_size": len(words), "max_position_embeddings": 2048, "tie_word_embeddings": False}
    config = AutoConfig.for_model("llama", **COMMON | size)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def scored(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Scored:
    home = tmp_path_factory.mktemp("home")
    url = f"sqlite:///{home / 'shuffleboard.db'}"
    upgrade(url)
    engine = get_engine(url)
    revision = RevisionRequest("huggingface", str(tiny_folder)).checked()
    evaluation_ids = {}
    with write_session(engine) as session:
        add_benchmark(session, home, [question(number) for number in range(3)])
        add_revision(session, "tiny", revision, files=inspect_files(revision))
        import_protocol(session, custom_definition(THINKS, "here"))
        for protocol in ("symbols", "first-letter", "thinks"):
            request = EvaluationRequest(model="tiny", benchmark="bench", variants="cyclic", protocol=protocol)
            evaluation_ids[protocol] = submit(session, request)[0].id
    loop = WorkerLoop(engine, Settings(home=home, poll_seconds=0.05), TransformersScorer(home, "cpu"), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    return engine, home, evaluation_ids


def test_a_sample_scored_again_is_within_the_tolerance(scored: Scored) -> None:
    engine, home, evaluations = scored
    report = rescore_evaluation(engine, Settings(home=home), evaluations["symbols"], 5, seed=1, rescorer=rescoring)
    assert (report["ok"], report["prompts"], report["flips"], report["problems"]) == (True, 5, [], [])
    assert report["largest_difference"] <= TOLERANCE
    assert report["same_engine"]
    assert report["tolerance"] == (0.0 if report["canonical"] else TOLERANCE)
    everything = rescore_evaluation(
        engine, Settings(home=home), evaluations["symbols"], 1000, seed=1, rescorer=rescoring
    )
    assert everything["prompts"] == 12


@pytest.mark.parametrize("protocol", ["first-letter", "thinks"])
def test_texts_written_again_are_the_same(scored: Scored, protocol: str) -> None:
    engine, home, evaluations = scored
    report = rescore_evaluation(engine, Settings(home=home), evaluations[protocol], 4, seed=0, rescorer=rescoring)
    assert (report["ok"], report["largest_difference"], report["unequal"], report["flips"]) == (True, None, 0, [])
    with read_session(engine) as session:
        thoughts = select(Generation.thought_characters).where(Generation.evaluation_id == evaluations[protocol])
        assert all(session.scalars(thoughts)) == (protocol == "thinks")


def test_another_thought_before_the_same_answer_is_not_the_same_text() -> None:
    before = {"external_id": "q0", "chosen_option": 1, "label_logprobs": None, "label_probabilities": None}
    written = [before | {"text": "Answer: B", "thought_digest": digest * 64} for digest in "ab"]
    for exact, problems in ((True, 1), (False, 0)):
        report = _compare([(1, 0)], {(1, 0): written[0]}, {(1, 0): written[1]}, exact=exact, tolerance=TOLERANCE)
        assert (report["unequal"], len(report["problems"])) == (1, problems)


def test_a_change_without_probabilities_is_unknown() -> None:
    assert largest_change(None, [1.0]) is None
    assert largest_change([0.5, 0.5], [0.25, 0.75]) == 0.25


def test_the_command_line_says_how_far_the_numbers_are(scored: Scored) -> None:
    engine, _, evaluations = scored
    outcome = run(engine, "verify", evaluations["symbols"], "--rescore", 3, "--seed", 7)
    assert outcome.code == 0, outcome
    assert "3 of its prompts scored again: largest difference in a probability" in outcome.stdout
    document = run(engine, "verify", evaluations["symbols"], "--rescore", 3, "--json").document
    assert (document["rescored"]["ok"], document["rescored"]["prompts"], document["ok"]) == (True, 3, True)


def test_archived_prompts_are_scored_again_once_they_are_restored(scored: Scored) -> None:
    engine, _, evaluations = scored
    evaluation_id = evaluations["symbols"]
    assert archive(engine, evaluation_id) is not None
    try:
        outcome = run(engine, "verify", evaluation_id, "--rescore", 3)
        assert outcome.code == 1
        assert f"shuffleboard evaluations restore {evaluation_id}" in outcome.stderr
    finally:
        assert restore(engine, evaluation_id) is not None
    assert run(engine, "verify", evaluation_id, "--rescore", 3).code == 0


def tamper_with(engine: Engine, folder: Path, statement: str) -> Engine:
    """Return a copy of the registry in which a row was changed without the triggers."""
    path = folder / "tampered.db"
    with closing(sqlite3.connect(str(engine.url.database))) as source, closing(sqlite3.connect(path)) as copy:
        source.backup(copy)
        for name in trigger_names("sqlite"):
            copy.execute(f"DROP TRIGGER {name}")
        copy.execute(statement)
        copy.commit()
    return get_engine(f"sqlite:///{path}")


def test_numbers_that_are_another_models_are_found(scored: Scored, tmp_path: Path) -> None:
    """Check that rescoring exposes an attacker who recomputes every digest and the chain, but has not run the model."""
    engine, home, evaluations = scored
    other = tamper_with(
        engine,
        tmp_path,
        "UPDATE prediction SET label_probabilities = '[0.7,0.1,0.1,0.1]', label_logprobs = '[-1.0,-3.0,-3.0,-3.0]', "
        f"chosen_option = 0 WHERE evaluation_id = {evaluations['symbols']}",
    )
    report = rescore_evaluation(other, Settings(home=home), evaluations["symbols"], 6, seed=0, rescorer=rescoring)
    assert not report["ok"]
    assert report["largest_difference"] > 0.1
    assert "more than 0.0001" in report["problems"][0]
    outcome = run(other, "verify", evaluations["symbols"], "--rescore", 2)
    assert (outcome.code, "a probability differs by" in outcome.stderr) == (1, True)
    other.dispose()


def test_other_files_in_the_models_place_are_refused(scored: Scored, tmp_path: Path) -> None:
    engine, home, evaluations = scored
    other = tamper_with(engine, tmp_path, f"UPDATE model_revision SET weights_digest = x'{'ab' * 32}'")
    with pytest.raises(ModelError, match=r"model tiny revision 1: the files at .* are not those that were scored"):
        rescore_evaluation(other, Settings(home=home), evaluations["symbols"], 1, seed=0, rescorer=rescoring)
    other.dispose()


def test_recorded_outputs_and_unsealed_evaluations_are_not_scored_again(
    sqlite_proof: tuple[Engine, Population], tmp_path: Path
) -> None:
    engine, population = sqlite_proof
    with write_session(engine) as session:
        queued = submit(session, EvaluationRequest(model="fake", benchmark="bench", variants="full", shots=1))[0].id
    with pytest.raises(QueueError, match="is queued; wait until it is complete"):
        rescore_evaluation(engine, Settings(home=tmp_path), queued, 1, seed=0, rescorer=rescoring)
    with write_session(engine) as session:
        add_revision(session, "recorded", RevisionRequest("external"))
        ids = session.execute(select(Question.external_id, Question.answer).where(~Question.few_shot)).all()
    lines = "".join(
        f'{{"question_id": "{row[0]}", "variant": 0, "order": [0, 1, 2, 3], "position": 1}}\n' for row in ids
    )
    (tmp_path / "outputs.jsonl").write_text(lines)
    command = ("--model", "recorded", "--benchmark", "bench", "--variants", "original")
    imported = run(engine, "evaluations", "import", tmp_path / "outputs.jsonl", *command).document["evaluation"]
    outcome = run(engine, "verify", imported, "--rescore", 1)
    assert (outcome.code, "recorded elsewhere" in outcome.stderr) == (2, True)
    with pytest.raises(UsageError):
        rescore_evaluation(engine, Settings(home=tmp_path), imported, 1, seed=0, rescorer=rescoring)
    assert run(engine, "verify", population.evaluation, "--all").code == 2
    assert run(engine, "verify", "--all", "--rescore", 1).code == 2

"""The real model, whose stored numbers equal the one-prompt reference's and an independent program's."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import get_engine, read_session, write_session
from registry.digests import sha256_file
from registry.errors import ModelError
from registry.lookups import find_evaluation
from registry.operations.migrate import upgrade
from registry.predictions.prompts import prompts_of
from registry.prompting.prompts import Prompt
from registry.queue.evaluations import EvaluationRequest, select_questions, submit
from registry.revisions.store import RevisionRequest, add_revision
from registry.sealed.verification import verify_evaluation
from registry.settings import Settings
from registry.tables import Model, ModelRevision
from tests.support.commands import shuffleboard_json
from tests.support.population import MMLU, predictions
from workers.artifacts import inspect_files, model_folder
from workers.engine import EngineError, LoadedModel, ScoringPrompt, load_model, score_batched, score_reference
from workers.errors import InterruptedScoringError
from workers.loop import WorkerLoop
from workers.scorer import TransformersScorer
from workers.tokens import check_logprobs

QUESTIONS = 3
REFERENCE_TOLERANCE = 1e-4
HARNESS_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Scored:
    """An evaluation by the real model, and the prompt of each of its predictions."""

    url: str
    evaluation_id: int
    predictions: dict[tuple[str, int], dict[str, Any]]
    prompts: dict[tuple[str, int], Prompt]


@pytest.fixture(scope="module")
def loaded(smollm2_folder: Path) -> LoadedModel:
    return load_model(smollm2_folder, device="cpu")


@pytest.fixture(scope="module")
def scored(
    smollm2_gguf: Path, put_smollm2: Callable[[Path], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scored]:
    """Score three questions of MMLU under cyclic, through the queue and the worker's loop."""
    home = tmp_path_factory.mktemp("scored")
    url = f"sqlite:///{home / 'shuffleboard.db'}"
    upgrade(url)
    engine = get_engine(url)
    evaluation_id = submit_mmlu(engine, smollm2_gguf, variants="cyclic", limit=QUESTIONS)
    put_smollm2(home)
    loop = WorkerLoop(engine, Settings(home=home, poll_seconds=0.1), TransformersScorer(home, "cpu"), ["cpu"])
    with running(loop):
        loop.run(until_idle=True)
    with read_session(engine) as session:
        evaluation = find_evaluation(session, evaluation_id)
        assert evaluation.state == "complete"
        questions = select_questions(session, evaluation.benchmark_version, limit=QUESTIONS)
        prompts = {
            (item.question.external_id, item.variant.ordinal): item.prompt
            for item in prompts_of(session, evaluation, questions)
        }
    yield Scored(url, evaluation_id, predictions(engine, evaluation_id), prompts)
    engine.dispose()


@contextmanager
def running(loop: WorkerLoop) -> Iterator[None]:
    loop.start()
    try:
        yield
    finally:
        loop.stop()


def submit_mmlu(engine: Engine, model: Path, **request: Any) -> int:
    content = read_benchmark(MMLU)
    revision = RevisionRequest("gguf", str(model)).checked()
    files = inspect_files(revision)
    with write_session(engine) as session:
        import_benchmark(session, content, name="mmlu")
        add_revision(session, "SmolLM2", revision, files=files)
        evaluation, _ = submit(session, EvaluationRequest(model="SmolLM2", benchmark="mmlu", **request))
        return evaluation.id


def probabilities(logprobs: Sequence[float]) -> list[float]:
    """Return the probabilities, renormalised over the labels."""
    weights = [math.exp(value) for value in logprobs]
    return [weight / math.fsum(weights) for weight in weights]


def largest_difference(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> float:
    return max(abs(a - b) for left, right in zip(one, other, strict=True) for a, b in zip(left, right, strict=True))


def test_every_prompt_is_stored_once(scored: Scored) -> None:
    assert scored.predictions.keys() == scored.prompts.keys()
    assert len(scored.predictions) == QUESTIONS * 4
    for key, row in scored.predictions.items():
        assert row["prompt_digest"] == scored.prompts[key].digest
        assert len(row["label_probabilities"]) == len(row["shown"]) == 4
        assert math.fsum(row["label_probabilities"]) == pytest.approx(1)


def test_stored_probabilities_equal_the_one_prompt_reference(scored: Scored, loaded: LoadedModel) -> None:
    # Two of each question's four rotations, alternating: one prompt at a time is slow, and the next test uses them all.
    ids = sorted({external_id for external_id, _ in scored.prompts})
    keys = [(external_id, (number + shift) % 4) for number, external_id in enumerate(ids) for shift in (0, 1)]
    reference = score_reference(
        loaded, [ScoringPrompt(scored.prompts[key].text, scored.prompts[key].continuations) for key in keys]
    ).logprobs
    stored = [scored.predictions[key]["label_probabilities"] for key in keys]
    difference = largest_difference(stored, [probabilities(values) for values in reference])
    print(f"largest difference in a probability from the reference: {difference:.1e}")
    assert difference < REFERENCE_TOLERANCE
    logprob_difference = largest_difference([scored.predictions[key]["label_logprobs"] for key in keys], reference)
    print(f"largest difference of a log-probability from the reference: {logprob_difference:.1e}")
    assert logprob_difference < REFERENCE_TOLERANCE


def test_stored_probabilities_equal_those_of_lm_evaluation_harness(
    scored: Scored,
    smollm2_folder: Path,
    harness_scores: Callable[[Path, Sequence[tuple[str, Sequence[str]]]], list[list[float]]],
) -> None:
    keys = sorted(scored.prompts)
    witness = harness_scores(
        smollm2_folder, [(scored.prompts[key].text, scored.prompts[key].continuations) for key in keys]
    )
    assert len(witness) == len(keys)
    stored = [scored.predictions[key]["label_probabilities"] for key in keys]
    expected = [probabilities(values) for values in witness]
    difference = largest_difference(stored, expected)
    print(f"largest difference in a probability from lm-evaluation-harness: {difference:.1e}")
    assert difference < HARNESS_TOLERANCE
    near = 0
    for key, values in zip(keys, expected, strict=True):
        first, second = sorted(values, reverse=True)[:2]
        if first - second > HARNESS_TOLERANCE:
            assert scored.predictions[key]["chosen_position"] == values.index(first), key
        else:
            near += 1
    assert near < len(keys) / 10  # the comparison of choices must have compared something


# Metrics, recomputed from SELECTs on prediction without any of our functions. Each takes a question's rows, in order of
# their variants, as (chosen option, answer, unchanged), and gives None if it is undefined.


def right_share(rows: Sequence[tuple[int | None, int, bool]]) -> float:
    return sum(chosen == answer for chosen, answer, _ in rows) / len(rows)


PLAIN_METRICS: dict[str, Callable[[Sequence[tuple[int | None, int, bool]]], float | None]] = {
    "accuracy": lambda rows: next((float(chosen == answer) for chosen, answer, same in rows if same), None),
    "average_accuracy": right_share,
    "worst_accuracy": lambda rows: float(right_share(rows) == 1),
    "fluctuation_rate": lambda rows: (
        None if len(rows) < 2 else float(any(chosen is None or chosen != rows[0][0] for chosen, _, _ in rows))
    ),
}


def mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


def test_reported_metrics_equal_a_plain_recomputation_from_the_predictions(scored: Scored) -> None:
    engine = get_engine(scored.url)
    with engine.execution_options(read_only=True).connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT question.external_id, prediction.chosen_option, question.answer, prediction.unchanged "
            "FROM prediction JOIN question ON question.id = prediction.question_id "
            f"WHERE prediction.evaluation_id = {scored.evaluation_id} ORDER BY prediction.variant"
        ).all()
    by_question: dict[str, list[tuple[int | None, int, bool]]] = {}
    for external_id, chosen, answer, unchanged in rows:
        by_question.setdefault(external_id, []).append((chosen, answer, bool(unchanged)))
    document = shuffleboard_json("metrics", scored.evaluation_id, "--per-question", database_url=scored.url)
    assert (document["questions"], document["scored"], document["complete"]) == (QUESTIONS, QUESTIONS, True)
    assert document["per_question"].keys() == by_question.keys()
    for name, plain in PLAIN_METRICS.items():
        for external_id, outcomes in by_question.items():
            assert document["per_question"][external_id][name] == plain(outcomes), (name, external_id)
        expected = mean([plain(outcomes) for outcomes in by_question.values()])
        assert document["metrics"][name] == pytest.approx(expected, abs=1e-12), name
    # A small model's answers depend on the order: a board of ones and zeros would mean that nothing was tested.
    assert 0 < document["metrics"]["average_accuracy"] < 1
    assert 0 < document["metrics"]["fluctuation_rate"] <= 1


def test_the_evaluation_is_sealed_and_verifies(scored: Scored) -> None:
    with read_session(get_engine(scored.url)) as session:
        assert verify_evaluation(session, scored.evaluation_id)["problems"] == []


# The engine itself


def test_scores_do_not_depend_on_the_batch(scored: Scored, loaded: LoadedModel) -> None:
    prompts = [ScoringPrompt(prompt.text, prompt.continuations) for _, prompt in sorted(scored.prompts.items())[:2]]
    alone = score_batched(loaded, prompts, batch_tokens=1).logprobs
    together = score_batched(loaded, prompts, batch_tokens=100_000).logprobs
    backwards = score_batched(loaded, prompts[::-1], batch_tokens=300).logprobs[::-1]
    assert largest_difference(alone, together) < REFERENCE_TOLERANCE
    assert largest_difference(alone, backwards) < REFERENCE_TOLERANCE


def test_scoring_stops_between_batches_when_asked(loaded: LoadedModel) -> None:
    replies: list[bool] = []

    def should_stop() -> bool:
        replies.append(len(replies) > 0)
        return replies[-1]

    prompts = [ScoringPrompt(f"Number {number}. Answer:", (" A", " B")) for number in range(3)]
    with pytest.raises(InterruptedScoringError):
        score_batched(loaded, prompts, batch_tokens=1, should_stop=should_stop)
    assert replies == [False, True]


def test_a_prompt_longer_than_the_model_s_context_is_refused(loaded: LoadedModel) -> None:
    assert loaded.max_length is not None
    prompt = ScoringPrompt("word " * (loaded.max_length + 1), (" A", " B"))
    with pytest.raises(EngineError, match=rf"tokens, but the model's context is {loaded.max_length}"):
        score_batched(loaded, [prompt])
    with pytest.raises(EngineError, match="context is"):
        score_reference(loaded, [prompt])


def test_labels_that_no_first_token_tells_apart_are_refused(loaded: LoadedModel) -> None:
    with pytest.raises(EngineError, match="no first tokens of their own"):
        score_reference(loaded, [ScoringPrompt("Answer:", (" A", " A"))])


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf])
def test_log_probabilities_that_are_no_numbers_are_refused(value: float) -> None:
    with pytest.raises(EngineError, match="wider dtype"):
        check_logprobs([-1.0, value])


def test_a_log_probability_that_rounding_put_above_0_is_0() -> None:
    assert check_logprobs([1e-17, -1.0]) == [0.0, -1.0]


def test_a_model_that_overflows_is_refused_rather_than_read_as_undecided(loaded: LoadedModel) -> None:
    import torch

    prompt = ScoringPrompt("Answer:", (" A", " B"))
    embedding = loaded.model.get_input_embeddings()
    hook = embedding.register_forward_hook(lambda _module, _inputs, output: torch.full_like(output, math.nan))
    try:
        for score in (score_batched, score_reference):
            with pytest.raises(EngineError, match="wider dtype"):
                score(loaded, [prompt])
    finally:
        hook.remove()


def test_a_folder_without_a_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be loaded"):
        load_model(tmp_path, device="cpu")


# Files


def test_a_gguf_file_is_identified_by_its_weights_and_its_tokenizer(smollm2_gguf: Path) -> None:
    files = inspect_files(RevisionRequest("gguf", str(smollm2_gguf)))
    assert files.weights_digest == sha256_file(smollm2_gguf)
    assert files.tokenizer_digest != files.weights_digest
    assert files.chat_template is not None
    assert "im_start" in files.chat_template


def test_a_model_that_changed_since_it_was_registered_is_not_scored(smollm2_home: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF, but others")
    revision = ModelRevision(
        kind="gguf", location=str(path), number=1, weights_digest="0" * 64, model=Model(name="moved")
    )
    with pytest.raises(ModelError, match=r"its weights have changed since moved revision 1 was registered"):
        model_folder(revision, smollm2_home)

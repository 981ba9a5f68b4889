"""Numbers on a GPU, which must equal those on the CPU: `make gpu`. vLLM on a GPU is tested in tests/servers.

There, float32 products are exact to float32 (torch does not enable TF32), so the tolerance is that of the CPU's tests.
"""

import ast
import copy
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tests.engine.test_generation import GIVEN, GREEDY, LARGE, TYPES, some_prompts, tiny, write
from tests.engine.tiny import (
    as_loaded,
    largest_difference,
    random_model,
)
from tests.support.commands import ROOT
from workers.asking import LocalModel
from workers.engine import LoadedModel, ScoringPrompt, open_engine
from workers.engine.generation import gumbel_noise, split_mix_64

pytestmark = pytest.mark.filterwarnings("default")  # the compiler warns of less exact operations

GPU = torch.device("cuda")
ROUNDED = 1e-4
"""Largest difference in nats between two orders of addition in float32."""


OnGpu = Callable[[LoadedModel], LoadedModel]


@pytest.fixture
def on_gpu() -> OnGpu:
    """Return a function that moves a model to the GPU."""
    return lambda loaded: replace(loaded, model=copy.deepcopy(loaded.model).to(GPU), device=GPU)


def test_a_model_on_a_gpu_is_scored_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model("llama")
    loaded = as_loaded(model)
    monkeypatch.setattr(type(model), "device", GPU)
    engine = open_engine(replace(loaded, device=GPU), budget_tokens=16384)
    assert engine.settings() == {
        "engine": "transformers-batched",
        "batch_tokens": 16384,
        "because": "tries are computed on CPUs",
    }


def test_what_computes_nothing_on_a_gpu_is_not_in_its_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the host's threads, instructions and driver: hosts that differ in them compute the same numbers."""
    loaded = tiny()
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "NVIDIA A100")
    settings = LocalModel(replace(loaded, device=GPU), open_engine(loaded, "batched")).settings({})
    assert settings["device"] == "NVIDIA A100"
    assert not settings.keys() & {"threads", "cpu_capability", "driver"}
    assert {"threads", "cpu_capability"} <= LocalModel(loaded, open_engine(loaded, "batched")).settings({}).keys()


@pytest.mark.gpu
def test_plain_batches_equal_the_reference(on_gpu: OnGpu) -> None:
    loaded = tiny()
    plain = [ScoringPrompt(prompt.text, ("x", "yz", "zyx")) for prompt in some_prompts(20)]
    alike = [ScoringPrompt("abcdexyz " * 9 + prompt.text, prompt.continuations) for prompt in plain]
    reference = open_engine(loaded, "reference")
    for texts in (plain, alike):
        for name in ("batched", "trie"):
            engine = open_engine(on_gpu(loaded), name)
            assert largest_difference(engine.score(texts).logprobs, reference.score(texts).logprobs) < ROUNDED
            expected = reference.score_continuations(texts).logprobs
            assert largest_difference(engine.score_continuations(texts).logprobs, expected) < ROUNDED


# Texts


@pytest.mark.gpu
@pytest.mark.parametrize("model_type", TYPES)
def test_greedy_texts_are_those_of_the_cpu(model_type: str, on_gpu: OnGpu) -> None:
    loaded = tiny(model_type)
    prompts = some_prompts()
    expected = write(loaded, prompts, GREEDY)
    assert len(set(expected)) > 1
    assert write(on_gpu(loaded), prompts, GREEDY) == expected
    assert write(on_gpu(loaded), prompts, GREEDY, budget=120) == expected


@pytest.mark.gpu
def test_the_same_numbers_are_drawn_as_on_the_cpu() -> None:
    keys, tokens = torch.arange(-50, 50) * 1_234_567_890_123, torch.arange(2000).repeat(100, 1)
    outputs = split_mix_64(keys[:, None].to(GPU), tokens.to(GPU))
    assert outputs.cpu().equal(split_mix_64(keys[:, None], tokens))
    # Two logarithms in float64: devices may differ in their last bits.
    torch.testing.assert_close(
        gumbel_noise(keys.to(GPU), tokens.to(GPU)).cpu(), gumbel_noise(keys, tokens), rtol=1e-12, atol=1e-12
    )


@pytest.mark.gpu
@pytest.mark.parametrize("parameters", [{}, {"top_k": 0, "min_p": "0.05"}, {"seed": 7, "temperature": "2"}])
def test_drawn_texts_are_those_of_the_cpu(parameters: dict[str, object], on_gpu: OnGpu) -> None:
    loaded = tiny()
    prompts = some_prompts()
    expected = write(loaded, prompts, GIVEN | parameters, budget=LARGE)
    assert len(set(expected)) == len(expected)
    assert write(on_gpu(loaded), prompts, GIVEN | parameters) == expected


def test_the_page_on_gpus_lists_every_line_that_only_a_gpu_runs() -> None:
    """Check each line of the worker's code that uses CUDA: the page must name its function and file."""
    page = (ROOT / "docs" / "evidence" / "deployments.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(workers/[\w/]+\.py)` \| `(\w+)` \|", page, re.MULTILINE))
    lines = set()
    for file in sorted((ROOT / "workers").rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
        for number, line in enumerate(source.splitlines(), start=1):
            if re.search(r"torch\.cuda\.|== \"cuda\"|!= \"cuda\"", line):
                around = [node for node in functions if node.lineno <= number <= (node.end_lineno or 0)]
                lines.add((str(file.relative_to(ROOT)), max(around, key=lambda node: node.lineno).name))
    assert listed >= lines

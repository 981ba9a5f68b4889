"""On a GPU the engines give what they give on the CPU: `make gpu`, and a stand-in wherever there is none.

float32 products are exact to float32 there (torch leaves TF32 off), so that the bound is that of the CPU's tests. With
the stand-in the engine plans, masks and attends as for a GPU, and torch computes on the CPU, attention in its plain form:
docs/evidence/deployments.md lists what is left.
"""

import ast
import copy
import gc
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tests.commands import ROOT
from tests.engine import memory_process
from tests.engine.test_generation import GIVEN, GREEDY, LARGE, TYPES, some_prompts, tiny, written
from tests.engine.tiny import (
    VOCABULARY,
    as_loaded,
    largest_difference,
    random_model,
    random_prompts,
    reference,
    tiny_model,
    unique_tokens,
)
from workers.engine import LoadedModel, ScoringPrompt, TokenisedPrompt, TrieEngine, canonical, open_engine, trie_engine
from workers.engine.attention import BLOCK
from workers.engine.forward import TRIE_TYPES
from workers.engine.generation import gumbel_noise, split_mix_64

# The compiler warns of what a card could do faster and less exactly, such as TF32; the plain form, that it is slow.
pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
]

GPU = torch.device("cuda")
ROUNDED = 1e-4
"""Nats between two orders of adding in float32."""

NARROW = 0.5
"""Nats that a tiny model with large weights moves by in bfloat16, whose numbers have 8 bits."""


OnGpu = Callable[[LoadedModel], LoadedModel]

REAL = pytest.param("gpu", marks=pytest.mark.gpu)
on_either = pytest.mark.parametrize("on_gpu", [REAL, "stand-in"], indirect=True)
on_a_real_one = pytest.mark.parametrize("on_gpu", [REAL], indirect=True)
STAND_IN_TYPES = ("llama", "gemma2", "gemma3_text", "gpt2")
"""Among them: windows, capped scores, grouped heads, learned positions. All types take seconds."""


@pytest.fixture
def on_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> OnGpu:
    """A model on a GPU, or one on the CPU of which the engine is told that it is on a GPU."""
    if request.param == "gpu":
        return lambda loaded: replace(loaded, model=copy.deepcopy(loaded.model).to(GPU), device=GPU)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (1 << 30, 1 << 30))
    for module in (trie_engine, canonical):
        monkeypatch.setattr(module, "onednn_serves", lambda _device, _dtype: False)
    return lambda loaded: replace(loaded, device=GPU)


@pytest.mark.parametrize(
    ("model_type", "on_gpu"),
    [
        *(pytest.param(name, "gpu", marks=pytest.mark.gpu) for name in TRIE_TYPES),
        *((name, "stand-in") for name in STAND_IN_TYPES),
    ],
    indirect=["on_gpu"],
)
def test_every_type_of_model_equals_the_reference(model_type: str, on_gpu: OnGpu) -> None:
    loaded = tiny_model(model_type)
    prompts = random_prompts(8, 60)
    engine = TrieEngine(on_gpu(loaded), budget_tokens=3 * BLOCK)
    assert engine.settings()["attention"] == "flex"
    scored = engine.score_tokens(prompts)
    assert scored.tokens_computed == unique_tokens(prompts) > 3 * BLOCK
    assert largest_difference(scored.logprobs, reference(loaded, prompts)) < ROUNDED


@on_either
def test_numbers_do_not_depend_on_how_passes_are_cut(on_gpu: OnGpu) -> None:
    loaded = on_gpu(tiny_model("llama"))
    prompts = random_prompts(5, 60)
    together = TrieEngine(loaded).score_tokens(prompts).logprobs
    for budget in (50, BLOCK, 2 * BLOCK + 1):
        cut = TrieEngine(loaded, budget_tokens=budget).score_tokens(prompts).logprobs
        assert largest_difference(together, cut) < ROUNDED


@on_either
def test_what_was_kept_changes_no_number(on_gpu: OnGpu) -> None:
    loaded = on_gpu(tiny_model("llama"))
    shared, others = [5] * 60, [[6, 7], [8], [9, 6, 6]]
    prompts = [TokenisedPrompt(shared + own, [1, 2, 3], group=number) for number, own in enumerate(others)]
    engine = TrieEngine(loaded)
    first = engine.score_tokens(prompts)
    second = engine.score_tokens(prompts)
    assert second.tokens_computed == first.tokens_computed - len(shared)
    assert largest_difference(first.logprobs, second.logprobs) < ROUNDED


@on_either
@pytest.mark.parametrize("model_type", ["llama", "gemma2"])
def test_bfloat16_stays_near_float32_and_is_normalised(model_type: str, on_gpu: OnGpu) -> None:
    narrow, wide = on_gpu(tiny_model(model_type, torch.bfloat16)), tiny_model(model_type)
    prompts = random_prompts(4)
    scored = TrieEngine(narrow).score_tokens(prompts).logprobs
    assert largest_difference(scored, reference(wide, prompts)) < NARROW
    every_label = [TokenisedPrompt(prompts[0].context, list(range(VOCABULARY)))]
    (logprobs,) = TrieEngine(narrow).score_tokens(every_label).logprobs
    assert torch.tensor(logprobs, dtype=torch.float64).exp().sum().item() == pytest.approx(1, abs=1e-5)


@on_a_real_one
def test_plain_batches_equal_the_reference(on_gpu: OnGpu) -> None:
    loaded = tiny()
    texts = [ScoringPrompt(prompt.text, ("x", "y", "z")) for prompt in some_prompts(20)]
    expected = open_engine(loaded, "reference").score(texts).logprobs
    for name in ("batched", "trie"):
        assert largest_difference(open_engine(on_gpu(loaded), name).score(texts).logprobs, expected) < ROUNDED


def taken_mb(on_gpu: OnGpu, limit_mb: int | None) -> float:
    """Memory of the GPU that scoring questions in all 120 orders takes at most beside the model."""
    gc.collect()
    loaded = on_gpu(as_loaded(random_model("llama", **memory_process.SIZES)))
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    engine = TrieEngine(loaded, memory_bytes=limit_mb and limit_mb << 20)
    for question in range(3):
        engine.score_tokens(memory_process.prompts(question))
    return (torch.cuda.max_memory_allocated() - before) / 2**20


@on_a_real_one
def test_a_question_in_all_120_orders_stays_within_the_memory_that_is_allowed(on_gpu: OnGpu) -> None:
    limited = taken_mb(on_gpu, 96)
    assert limited <= 96
    assert limited < taken_mb(on_gpu, None)


# Texts


@on_a_real_one
@pytest.mark.parametrize("model_type", TYPES)
def test_greedy_texts_are_those_of_the_cpu(model_type: str, on_gpu: OnGpu) -> None:
    loaded = tiny(model_type)
    prompts = some_prompts()
    expected = written(loaded, prompts, GREEDY)
    assert len(set(expected)) > 1
    assert written(on_gpu(loaded), prompts, GREEDY) == expected
    assert written(on_gpu(loaded), prompts, GREEDY, budget=120) == expected


@pytest.mark.gpu
def test_the_same_numbers_are_drawn_as_on_the_cpu() -> None:
    keys, tokens = torch.arange(-50, 50) * 1_234_567_890_123, torch.arange(2000).repeat(100, 1)
    outputs = split_mix_64(keys[:, None].to(GPU), tokens.to(GPU))
    assert outputs.cpu().equal(split_mix_64(keys[:, None], tokens))
    # Two logarithms in float64: devices may differ in their last bits.
    torch.testing.assert_close(
        gumbel_noise(keys.to(GPU), tokens.to(GPU)).cpu(), gumbel_noise(keys, tokens), rtol=1e-12, atol=1e-12
    )


@on_a_real_one
@pytest.mark.parametrize("parameters", [{}, {"top_k": 0, "min_p": "0.05"}, {"seed": 7, "temperature": "2"}])
def test_drawn_texts_are_those_of_the_cpu(parameters: dict[str, object], on_gpu: OnGpu) -> None:
    loaded = tiny()
    prompts = some_prompts()
    expected = written(loaded, prompts, GIVEN | parameters, budget=LARGE)
    assert len(set(expected)) == len(expected)
    assert written(on_gpu(loaded), prompts, GIVEN | parameters) == expected


def test_the_page_on_gpus_lists_every_line_that_only_a_gpu_runs() -> None:
    """Each line of the worker's code that asks for CUDA is in a function that the page names with its file."""
    page = (ROOT / "docs" / "evidence" / "deployments.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(workers/[\w/]+\.py)` \| `(\w+)` \|", page, re.MULTILINE))
    found = set()
    for file in sorted((ROOT / "workers").rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
        for number, line in enumerate(source.splitlines(), start=1):
            if re.search(r"torch\.cuda\.|== \"cuda\"|!= \"cuda\"", line):
                around = [node for node in functions if node.lineno <= number <= (node.end_lineno or 0)]
                found.add((str(file.relative_to(ROOT)), max(around, key=lambda node: node.lineno).name))
    assert listed >= found

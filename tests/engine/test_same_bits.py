"""The canonical mode, in which a prompt's numbers have the same bits whatever it is scored with."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.tiny import (
    VOCABULARY,
    as_loaded,
    largest_difference,
    random_model,
    random_prompts,
    reference,
    tiny_model,
)
from tests.engine.tokenizers import letters
from tests.support.commands import ROOT
from tests.support.marks import long_but
from workers.engine import (
    EngineError,
    ScoredPrompts,
    ScoringPrompt,
    TokenisedPrompt,
    TrieEngine,
    canonical,
    open_engine,
    tiles,
    trie_engine,
)
from workers.engine.canonical import CHUNK_POSITIONS
from workers.engine.forward import HostedForward
from workers.engine.products import Products, bfloat16_by, onednn_serves
from workers.engine.products import product as onednn_product
from workers.engine.tiles import cut_above
from workers.model_types import TRIE_TYPES

EXPERTS = {"mixtral", "qwen3_moe"}
ALWAYS = {"gemma2", "gemma3_text", "gpt2", "llama", "mistral", "stablelm"}
"""Types that are always tested, which differ in forward passes, windows, scores, positions and rotation."""
ROUNDED = 1e-4
Numbers = Sequence[Sequence[float]]


def test_this_machine_has_what_the_mode_needs() -> None:
    """Check the precondition, without which the tests below would prove nothing."""
    assert onednn_serves(torch.device("cpu"), torch.float32)


def make_mixed_prompts(seed: int) -> list[TokenisedPrompt]:
    """Return short prompts with common prefixes, and long prompts that end near the ends of blocks and chunks."""
    rng = Random(seed)
    text = [rng.randrange(3, VOCABULARY) for _ in range(500)]
    long = [text[:length] for length in (1, 33, 128, CHUNK_POSITIONS, CHUNK_POSITIONS + 1, 500)]
    long += [text[:length] + [rng.randrange(3, VOCABULARY) for _ in range(20)] for length in (100, 370)]
    return random_prompts(seed, 12) + [TokenisedPrompt(context, [1, 5, 90]) for context in long]


def alone(engine: TrieEngine, prompts: Sequence[TokenisedPrompt]) -> list[list[float]]:
    numbers = []
    for prompt in prompts:
        engine.forget()
        numbers += engine.score_tokens([prompt]).logprobs
    engine.forget()
    return numbers


def in_parts(engine: TrieEngine, prompts: Sequence[TokenisedPrompt], rng: Random) -> list[list[float]]:
    """Score in random order, some prompts at a time, with an engine that caches common prefixes."""
    numbers: list[list[float]] = [[] for _ in prompts]
    order = rng.sample(range(len(prompts)), len(prompts))
    while order:
        engine.budget_tokens = rng.choice((64, 200, 2048))
        part = order[: rng.randint(3, 12)]
        del order[: len(part)]
        scored = engine.score_tokens([prompts[place] for place in part])
        for place, values in zip(part, scored.logprobs, strict=True):
            numbers[place] = values
    return numbers


@pytest.mark.parametrize("model_type", long_but(ALWAYS, sorted(set(TRIE_TYPES) - EXPERTS)))
def test_every_model_type_gives_the_same_bits_alone_and_in_batches(model_type: str) -> None:
    loaded = tiny_model(model_type)
    engine = TrieEngine(loaded, canonical=True)
    prompts = make_mixed_prompts(1)
    together = engine.score_tokens(prompts).logprobs
    assert together == in_parts(engine, prompts, Random(2))
    few = Random(3).sample(range(len(prompts)), 4)
    assert [together[place] for place in few] == alone(engine, [prompts[place] for place in few])
    assert (
        largest_difference([together[place] for place in few], reference(loaded, [prompts[p] for p in few])) < ROUNDED
    )


def promises_nothing_in_bfloat16() -> bool:
    """Return whether this processor emulates bfloat16; check that the engine then reports its bits as not canonical."""
    if bfloat16_by() != "emulated":
        return False
    assert "not_canonical" in open_engine(tiny_model("llama", torch.bfloat16)).settings()
    return True


@pytest.mark.parametrize("model_type", ["gemma2", "gemma3_text", "llama", "qwen3"])
def test_bfloat16_gives_the_same_bits_as_close_to_float64_as_batches(model_type: str) -> None:
    if promises_nothing_in_bfloat16():
        return
    loaded = tiny_model(model_type, torch.bfloat16)
    engine = TrieEngine(loaded, canonical=True)
    prompts = make_mixed_prompts(6)
    together = engine.score_tokens(prompts).logprobs
    assert together == in_parts(engine, prompts, Random(7))
    few = Random(8).sample(range(len(prompts)), 3)
    assert [together[place] for place in few] == alone(engine, [prompts[place] for place in few])
    exact = reference(replace(loaded, model=deepcopy(loaded.model).double()), prompts)
    plain = largest_difference(reference(loaded, prompts), exact)
    assert largest_difference(together, exact) < 1.5 * plain


def test_keys_in_tiles_are_cut_by_the_depth_of_their_query_alone() -> None:
    assert [cut_above(depth) for depth in (0, 255, 256, 383, 384)] == [0, 0, 128, 128, 256]


def test_a_processor_that_emulates_bfloat16_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    engine_settings = open_engine(tiny_model("llama", torch.bfloat16)).settings()
    assert (engine_settings["bfloat16"], engine_settings["not_canonical"]) == (
        "emulated",
        "this processor emulates bfloat16",
    )


PROMPTS = st.lists(
    st.lists(st.integers(3, 6), min_size=1, max_size=60).map(lambda tokens: TokenisedPrompt(tokens, [0, 5, 90])),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize("model_type", ["llama", "gemma3_text"])
@settings(max_examples=6, deadline=None)
@given(PROMPTS, st.randoms(use_true_random=False))
def test_random_tries_give_the_bits_of_each_prompt_alone(
    model_type: str, prompts: list[TokenisedPrompt], rng: Random
) -> None:
    engine = TrieEngine(tiny_model(model_type), canonical=True)
    expected = alone(engine, prompts)
    assert engine.score_tokens(prompts).logprobs == expected
    assert in_parts(engine, prompts, rng) == expected


def test_the_fast_mode_gives_other_bits_in_these_tests() -> None:
    prompts = make_mixed_prompts(1)
    fast = TrieEngine(tiny_model("llama"), canonical=False)
    assert fast.score_tokens(prompts).logprobs != alone(fast, prompts)


TEXT = st.text("abcx ", min_size=1, max_size=30).map(lambda text: "x" + text)
QUESTION = st.builds(
    lambda text, options: ScoringPrompt(text, tuple(" " + option for option in options)),
    TEXT,
    st.lists(TEXT, min_size=1, max_size=4),
)


@settings(max_examples=6, deadline=None)
@given(st.lists(QUESTION, min_size=2, max_size=12))
def test_whole_continuations_have_the_same_bits(prompts: list[ScoringPrompt]) -> None:
    loaded = as_loaded(tiny_model("llama").model, letters())
    engine = TrieEngine(loaded, canonical=True)
    together = engine.score_continuations(prompts).logprobs
    for prompt, values in zip(prompts, together, strict=True):
        engine.forget()
        assert engine.score_continuations([prompt]).logprobs == [values]
        # The sum over a continuation does not depend on the other continuations either.
        assert engine.score_continuations([ScoringPrompt(prompt.text, prompt.continuations[:1])]).logprobs == [
            values[:1]
        ]


@pytest.mark.usefixtures("threads")
def test_the_number_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trie_engine, "GOOD_PASS_TOKENS", 32)
    prompts = make_mixed_prompts(4)
    results, engines = [], []
    for number in (1, 2, 5, 16):
        torch.set_num_threads(number)
        engine = TrieEngine(tiny_model("qwen3"), canonical=True)
        results.append(engine.score_tokens(prompts).logprobs)
        engines.append(engine.settings())
    assert results[1:] == results[:1] * 3
    assert engines[1:] == engines[:1] * 3


def test_a_copy_of_the_weights_changes_no_bit() -> None:
    loaded = tiny_model("qwen3")
    engine = TrieEngine(loaded, canonical=True)
    prompts = make_mixed_prompts(5)
    packed = engine.score_tokens(prompts).logprobs
    engine._forward = HostedForward(loaded.model, Products(loaded.model, 64, packed=False))
    assert engine.score_tokens(prompts).logprobs == packed


# Which mode


def test_a_model_with_a_canonical_mode_is_scored_in_it() -> None:
    engine_settings = open_engine(tiny_model("llama")).settings()
    assert engine_settings["canonical"] is True
    assert len(str(engine_settings["arithmetic"])) == 16
    assert engine_settings == open_engine(tiny_model("llama"), budget_tokens=64, canonical=True).settings()
    fast = open_engine(tiny_model("llama"), canonical=False).settings()
    assert (fast["canonical"], fast["not_canonical"]) == (False, "it was requested")
    assert open_engine(tiny_model("mistral")).settings()["arithmetic"] != engine_settings["arithmetic"]


@pytest.mark.parametrize(
    ("model_type", "dtype", "reason"),
    [
        ("llama", torch.float64, "its products are of float64 on cpu, not oneDNN's"),
        ("llama", torch.float16, "its products are of float16 on cpu, not oneDNN's"),
        ("mixtral", torch.float32, "its experts multiply as many rows as are sent to them"),
        ("qwen3_moe", torch.float32, "its experts multiply as many rows as are sent to them"),
    ],
)
def test_models_without_a_canonical_mode_are_scored_fast_unless_it_is_required(
    model_type: str, dtype: torch.dtype, reason: str
) -> None:
    loaded = tiny_model(model_type, dtype)
    engine_settings = open_engine(loaded).settings()
    assert (engine_settings["canonical"], engine_settings["not_canonical"]) == (False, reason)
    with pytest.raises(EngineError, match=f"no canonical mode here: {reason}; score it in the fast mode"):
        open_engine(loaded, canonical=True)


def test_int8_weights_have_no_canonical_mode() -> None:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    loaded = as_loaded(random_model("llama"))
    quantize_(loaded.model, Int8WeightOnlyConfig())
    with pytest.raises(EngineError, match="its weights are quantised"):
        open_engine(loaded, canonical=True)


def test_what_no_trie_can_score_has_no_canonical_mode() -> None:
    bloom = as_loaded(random_model("bloom", n_head=4, n_layer=2))
    with pytest.raises(EngineError, match="models of type 'bloom' have not been compared"):
        open_engine(bloom, canonical=True)
    with pytest.raises(EngineError, match="the engine 'batched' has no canonical mode; use the engine 'trie'"):
        open_engine(tiny_model("llama"), "batched", canonical=True)


# Machines without the property


def test_products_that_depend_on_other_rows_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_rows(inputs: torch.Tensor, weight: torch.Tensor, *others: Any) -> torch.Tensor:
        return onednn_product(inputs, weight, *others) * (1 + 1e-6 * (len(inputs) > 100))

    monkeypatch.setattr(canonical, "product", by_rows)
    assert open_engine(tiny_model("llama")).settings()["canonical"] is False
    with pytest.raises(EngineError, match=r"a row of a product of \d+ by \d+ depends on how many rows there are"):
        open_engine(tiny_model("llama"), canonical=True)


def test_products_that_depend_on_other_columns_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_columns(inputs: torch.Tensor, weight: torch.Tensor, *others: Any) -> torch.Tensor:
        return onednn_product(inputs, weight, *others) * (1 + 1e-6 * (len(weight) > 300))

    monkeypatch.setattr(canonical, "product", by_columns)
    with pytest.raises(EngineError, match="scores of attention depend on the number of keys, 32;"):
        open_engine(tiny_model("llama"), canonical=True)


def test_sums_of_several_runs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_halves(inputs: torch.Tensor, weight: torch.Tensor, *others: Any) -> torch.Tensor:
        half = inputs.shape[1] // 2
        if half < 100:
            return onednn_product(inputs, weight, *others)
        return onednn_product(inputs[:, :half], weight[:, :half]) + onednn_product(inputs[:, half:], weight[:, half:])

    monkeypatch.setattr(canonical, "product", in_halves)
    with pytest.raises(EngineError, match=r"a sum over \d+ keys is not one run"):
        open_engine(tiny_model("llama"), canonical=True)


@pytest.mark.parametrize(
    ("depends_on", "found"),
    [
        ("keys", "attention to 1 keys depends on the tiles between them"),
        ("queries", "attention to 128 keys depends on how many queries there are"),
    ],
)
def test_attention_that_depends_on_what_else_is_computed_is_found(
    depends_on: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if promises_nothing_in_bfloat16():
        return

    def alter(query: torch.Tensor, keys: torch.Tensor, *others: Any) -> tuple[torch.Tensor, torch.Tensor]:
        output, normaliser = flash(query, keys, *others)
        wrong = keys.shape[1] > 300 if depends_on == "keys" else query.shape[1] == 33
        return output, normaliser + 1e-4 * wrong

    flash = tiles._flash
    monkeypatch.setattr(tiles, "_flash", alter)
    with pytest.raises(EngineError, match=found):
        open_engine(tiny_model("llama", torch.bfloat16), canonical=True)


class CarelessEngine(TrieEngine):
    """An engine whose numbers for a prompt depend on the size of its batch."""

    def score_tokens(self, prompts: Sequence[TokenisedPrompt], **options: Any) -> ScoredPrompts:
        scored = super().score_tokens(prompts, **options)
        return replace(scored, logprobs=[[value - 1e-12 * len(prompts) for value in row] for row in scored.logprobs])


def test_an_engine_that_gives_other_bits_alone_is_found() -> None:
    engine_settings = CarelessEngine(tiny_model("llama")).settings()
    assert (engine_settings["canonical"], engine_settings["not_canonical"]) == (
        False,
        "test prompts have different bits alone than together",
    )
    with pytest.raises(EngineError, match="test prompts have different bits alone than together"):
        CarelessEngine(tiny_model("llama"), canonical=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("threads", "environment"),
    [(3, {}), (1, {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"})],
)
def test_numbers_of_two_processes_are_equal_where_their_arithmetic_is(
    threads: int, environment: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "tests.engine.bits_process", str(threads)]
    finished = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    remote = json.loads(finished.stdout)
    local = TrieEngine(tiny_model("qwen3"))
    numbers = local.score_tokens(random_prompts(11)).logprobs
    assert (remote["numbers"] == numbers) == (remote["settings"] == local.settings())
    assert (remote["numbers"] == numbers) == (not environment)

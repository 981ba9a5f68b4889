"""Batches, in which each prompt has the numbers that it has alone, for every type of model."""

from random import Random
from typing import Any

import pytest
import torch

from tests.engine.tiny import VOCABULARY, as_loaded, random_model
from tests.support.marks import long_but
from workers.engine import LoadedModel, open_engine
from workers.engine.batched import _batches, read_last
from workers.engine.batching import PADDED_TYPES, why_equal_lengths
from workers.engine.reading import SHARED_TOKENS
from workers.engine.reference import next_token_logprobs
from workers.model_types import TRIE_TYPES

TOLERANCE = 1e-4
"""Largest difference in nats."""

RECURRENT = ("bailing_hybrid", "falcon_mamba", "jamba", "mamba", "mamba2", "recurrent_gemma", "rwkv", "xlstm")
OTHERS = (
    *("aria_text", "bitnet", "bloom", "cohere2", "cohere2_moe", "cwm"),
    *("deepseek_v4", "diffllama", "doge", "flex_olmo", "fuyu", "gpt_bigcode", "gpt_neox_japanese", "gpt_oss"),
    *("granite_swa", "granitemoe", "granitemoe_swa", "granitemoeshared", "hrm_text", "hunyuan_v1_moe", "hyperclovax"),
    *("internlm3", "jais2", "jetmoe", "lfm2", "lfm3", "gemma4_unified_text", "inkling2_text", "mpt", "olmoe"),
    *("persimmon", "phimoe", "qwen2_moe", "qwen3_next"),
    *("afmoe", "axk1", "axk2", "beam", "biogpt", "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots1"),
    *("ernie4_5_moe", "exaone_moe", "flint", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "hy_v3", "hy_v4", "kolibri1"),
    *("laguna", "llama4_text", "mellum", "mimo_v2_flash", "minicpm3", "minimax", "minimax_m2", "minimax_m3_vl_text"),
    *(
        "ministral3",
        "modernbert-decoder",
        "nanochat",
        "olmo_hybrid",
        "solar_open",
        "trocr",
        "vaultgemma",
        "youtu",
        "zaya",
    ),
)
ALWAYS = {"llama", "gpt2", "falcon_mamba", "rwkv", "gpt_oss"}


class Tokenizer:
    pad_token_id = 0


def contexts() -> list[list[int]]:
    """Return contexts of several lengths, some of equal length."""
    rng = Random(0)
    return [[rng.randrange(3, VOCABULARY) for _ in range(length)] for length in (40, 39, 23, 23, 8, 8, 1, 3)]


def related() -> list[list[int]]:
    """Return contexts with a common prefix, of several lengths, some of equal length, and one of them twice."""
    rng = Random(1)
    beginning = [rng.randrange(3, VOCABULARY) for _ in range(SHARED_TOKENS + 4)]
    ends = [[rng.randrange(3, VOCABULARY) for _ in range(length)] for length in (12, 12, 3, 1, 12)]
    return [beginning + end for end in [*ends, ends[1]]]


def batched(loaded: LoadedModel, prompts: list[list[int]]) -> list[torch.Tensor]:
    logits, _ = read_last(loaded, prompts, [[range(VOCABULARY)]] * len(prompts), 4096)
    return [torch.tensor(values, dtype=torch.float64) for values in logits]


def furthest(loaded: LoadedModel, prompts: list[list[int]]) -> float:
    """Return the largest difference between batches and single prompts, with the unchanged model."""
    together = batched(loaded, prompts)
    alone = [next_token_logprobs(loaded, prompt)[-1] for prompt in prompts]
    return max((one - other).abs().max().item() for one, other in zip(together, alone, strict=True))


@pytest.mark.parametrize("model_type", long_but(ALWAYS, [*TRIE_TYPES, *RECURRENT, *OTHERS]))
def test_a_prompt_has_the_numbers_that_it_has_alone(model_type: str) -> None:
    loaded = as_loaded(random_model(model_type), Tokenizer())
    assert furthest(loaded, contexts()) < TOLERANCE
    assert furthest(loaded, related()) < TOLERANCE


def test_what_prompts_begin_with_is_computed_once_and_whole_continuations_are_read() -> None:
    loaded = as_loaded(random_model("llama"), Tokenizer())
    texts = related()
    wanted = [[[5], [7]], [[9]], [[2, 3]], [[4]], [[9]], [[9], [8]]]
    logits, computed = read_last(loaded, texts, wanted, 4096)
    assert computed == sum(map(len, {tuple(text): text for text in texts}.values())) - 4 * (SHARED_TOKENS + 4 - 1)
    for text, continuations, values in zip(texts, wanted, logits, strict=True):
        after = next_token_logprobs(loaded, text)[-len(continuations) :]
        expected = [after[place, token].item() for place, tokens in enumerate(continuations) for token in tokens]
        assert values == pytest.approx(expected, abs=TOLERANCE)


def test_a_batch_ends_where_another_one_costs_less() -> None:
    """Check that two questions with different long texts are two batches, each with its orders."""
    loaded = as_loaded(random_model("llama"), Tokenizer())
    texts = [[1] * 100 + [2 + question] * 2000 + [5, order] for question in range(2) for order in range(24)]
    assert [len(batch) for batch in _batches(loaded, texts, [1] * 48, 16384)] == [24, 24]
    short = [text[:120] + text[-2:] for text in texts]
    assert [len(batch) for batch in _batches(loaded, short, [1] * 48, 16384)] == [48]


def test_only_what_was_compared_is_padded() -> None:
    assert set(TRIE_TYPES) == PADDED_TYPES
    loaded = as_loaded(random_model("falcon_mamba"), Tokenizer())
    assert "have not been shown to be unmoved by padding" in (why_equal_lengths(loaded.model) or "")
    assert "equal_lengths" in open_engine(loaded).settings()


ORIGINAL = 16
ROPES: dict[str, dict[str, Any]] = {
    "longrope": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0] * 4,
        "long_factor": [3.0] * 4,
        "original_max_position_embeddings": ORIGINAL,
    },
    "dynamic": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
}


def stretch(kind: str) -> LoadedModel:
    """Return a model whose rotation depends on the length of the text from 16 tokens on."""
    own = {"max_position_embeddings": ORIGINAL if kind == "dynamic" else 512}
    own |= {"original_max_position_embeddings": ORIGINAL, "sliding_window": None} if kind == "longrope" else {}
    model = random_model("phi3" if kind == "longrope" else "llama", rope_parameters=ROPES[kind], **own)
    return as_loaded(model, Tokenizer())


@pytest.mark.parametrize("kind", ROPES)
def test_rotations_that_depend_on_the_length_are_those_of_each_prompt_alone(kind: str) -> None:
    prompts = contexts()
    alone = [next_token_logprobs(stretch(kind), prompt)[-1] for prompt in prompts]  # a model that has not read any text
    loaded = stretch(kind)
    for _ in range(2):  # the second time, it has already read the longest text
        for one, other in zip(batched(loaded, prompts), alone, strict=True):
            assert (one - other).abs().max().item() < TOLERANCE
    short = next_token_logprobs(loaded, prompts[2])[-1]
    assert (short - alone[2]).abs().max().item() < TOLERANCE

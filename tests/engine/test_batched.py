"""Batches give each prompt the numbers that it has alone, for every type of model that a configuration makes."""

from random import Random
from typing import Any

import pytest
import torch

from tests.engine.tiny import VOCABULARY, as_loaded, random_model
from tests.marks import long_but
from workers.engine import LoadedModel, open_engine
from workers.engine.batched import _last_logprobs
from workers.engine.batching import PADDED_TYPES, why_equal_lengths
from workers.engine.forward import TRIE_TYPES
from workers.engine.reference import next_token_logprobs

TOLERANCE = 1e-4
"""Nats."""

RECURRENT = ("bailing_hybrid", "falcon_mamba", "jamba", "mamba", "mamba2", "recurrent_gemma", "rwkv", "xlstm")
OTHERS = (
    *("aria_text", "bitnet", "bloom", "camembert", "cohere2", "cohere2_moe", "cpmant", "cwm", "data2vec-text"),
    *("deepseek_v4", "diffllama", "doge", "flex_olmo", "fuyu", "gpt_bigcode", "gpt_neox_japanese", "gpt_oss"),
    *("granite_swa", "granitemoe", "granitemoe_swa", "granitemoeshared", "hrm_text", "hunyuan_v1_moe", "hyperclovax"),
    *("internlm3", "jais2", "jetmoe", "lfm2", "lfm3", "gemma4_unified_text", "inkling2_text", "mpt", "olmoe"),
    *("persimmon", "phimoe", "qwen2_moe", "qwen3_next"),
)
ALWAYS = {"llama", "gpt2", "falcon_mamba", "rwkv", "data2vec-text", "gpt_oss"}


class Tokenizer:
    pad_token_id = 0


def contexts() -> list[list[int]]:
    """Of several lengths, and some of one length."""
    rng = Random(0)
    return [[rng.randrange(3, VOCABULARY) for _ in range(length)] for length in (40, 39, 23, 23, 8, 8, 1, 3)]


def batched(loaded: LoadedModel, prompts: list[list[int]]) -> list[torch.Tensor]:
    found = dict(_last_logprobs(loaded, prompts, [1] * len(prompts), 4096, None))
    return [found[place][-1] for place in range(len(prompts))]


def furthest(loaded: LoadedModel, prompts: list[list[int]]) -> float:
    """How far batches are from one prompt at a time, each asked of the model as it was made."""
    together = batched(loaded, prompts)
    alone = [next_token_logprobs(loaded, prompt)[-1] for prompt in prompts]
    return max((one - other).abs().max().item() for one, other in zip(together, alone, strict=True))


@pytest.mark.parametrize("model_type", long_but(ALWAYS, [*TRIE_TYPES, *RECURRENT, *OTHERS]))
def test_a_prompt_has_the_numbers_that_it_has_alone(model_type: str) -> None:
    loaded = as_loaded(random_model(model_type), Tokenizer())
    assert furthest(loaded, contexts()) < TOLERANCE


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


def stretched(kind: str) -> LoadedModel:
    """A model whose rotation depends on the length of the text from 16 tokens on."""
    own = {"max_position_embeddings": ORIGINAL if kind == "dynamic" else 512}
    own |= {"original_max_position_embeddings": ORIGINAL, "sliding_window": None} if kind == "longrope" else {}
    model = random_model("phi3" if kind == "longrope" else "llama", rope_parameters=ROPES[kind], **own)
    return as_loaded(model, Tokenizer())


@pytest.mark.parametrize("kind", ROPES)
def test_rotations_that_depend_on_the_length_are_those_of_each_prompt_alone(kind: str) -> None:
    prompts = contexts()
    alone = [next_token_logprobs(stretched(kind), prompt)[-1] for prompt in prompts]  # a model that has seen nothing
    loaded = stretched(kind)
    for _ in range(2):  # the second time it has seen the longest
        for one, other in zip(batched(loaded, prompts), alone, strict=True):
            assert (one - other).abs().max().item() < TOLERANCE
    short = next_token_logprobs(loaded, prompts[2])[-1]
    assert (short - alone[2]).abs().max().item() < TOLERANCE

"""Tiny random models of every type that the trie engine scores, and random prompts for them."""

from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from workers.engine import LoadedModel, TokenisedPrompt
from workers.engine.reference import next_token_logprobs

VOCABULARY = 97
CONTEXT = 512
WINDOW = 9
"""Length of sliding windows, far less than the length of the tests' prompts."""

COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "initializer_range": 0.3,  # large enough for every layer to affect the result
}
MIXED_LAYERS = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
FROM_LAYER_1 = {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}

EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "n_group": 1,
    "topk_group": 1,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}
LATENT = {
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "qk_head_dim": 16,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_topk": 8,
}
"""Sizes for types that compute each head's keys and values from a few numbers, and look at the likeliest ones only."""

# Features that only one type has are turned on.
OWN: dict[str, dict[str, Any]] = {
    "cohere": {"logit_scale": 0.3},
    "exaone4": {"sliding_window": WINDOW, "sliding_window_pattern": 2},
    "gemma2": MIXED_LAYERS
    | {"attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0, "query_pre_attn_scalar": 8},
    "gemma3_text": MIXED_LAYERS | {"query_pre_attn_scalar": 8},
    "gpt2": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": CONTEXT},
    "gpt_neox": {"rotary_pct": 0.5},
    "granite": {
        "logits_scaling": 3.0,
        "attention_multiplier": 0.3,
        "residual_multiplier": 0.5,
        "embedding_multiplier": 2.0,
    },
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "ministral": {"sliding_window": WINDOW},
    "mistral": {"sliding_window": WINDOW},
    "mixtral": {"sliding_window": WINDOW, "num_local_experts": 4},
    "olmo3": {"sliding_window": WINDOW},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32, "init_std": 0.3, "num_key_value_heads": 4},
    "phi3": {"sliding_window": WINDOW},
    "qwen2": FROM_LAYER_1,
    "qwen3": FROM_LAYER_1,
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "smollm3": {"use_sliding_window": True, "sliding_window": WINDOW},
    "stablelm": {"partial_rotary_factor": 0.5},
    "starcoder2": {"sliding_window": WINDOW},
    **dict.fromkeys(("glm4_moe", "hy_v3", "hy_v4", "kolibri1", "mimo_v2_flash", "solar_open", "dots1"), EXPERTS),
    **dict.fromkeys(("axk1", "axk2", "deepseek_v2", "deepseek_v3", "deepseek_v32"), EXPERTS | LATENT),
    **dict.fromkeys(("glm4_moe_lite", "glm_moe_dsa", "minicpm3", "youtu"), EXPERTS | LATENT),
}


@lru_cache(maxsize=4)
def tiny_model(model_type: str, dtype: torch.dtype = torch.float32) -> LoadedModel:
    """Return a random model of a type, the same one each time."""
    return as_loaded(random_model(model_type, dtype))


def random_model(model_type: str, dtype: torch.dtype = torch.float32, **own: Any) -> Any:
    """Return a random model of a type with changed parameters of its configuration."""
    config = AutoConfig.for_model(model_type, **(COMMON | OWN.get(model_type, {}) | own))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1:  # biases begin as 0, gains as 1
                    parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def as_loaded(model: Any, tokenizer: Any = None) -> LoadedModel:
    return LoadedModel(model, tokenizer, torch.device("cpu"), str(model.dtype), None, CONTEXT)


def random_prompts(seed: int, prompts: int = 30, *, tokens: int = 24) -> list[TokenisedPrompt]:
    """Return prompts that mostly continue a part of another; some are prefixes of another, or duplicates."""
    rng = Random(seed)
    sequences = [[rng.randrange(3, VOCABULARY) for _ in range(rng.randint(1, tokens))]]
    while len(sequences) < prompts:
        prefix = rng.choice(sequences)
        start = prefix[: rng.randint(0, len(prefix))]
        added = [rng.randrange(3, VOCABULARY) for _ in range(rng.randint(0, tokens))]
        sequences.append((start + added)[: CONTEXT - 1] or [3])
    return [TokenisedPrompt(sequence, rng.sample(range(VOCABULARY), 4)) for sequence in sequences]


def reference(loaded: LoadedModel, prompts: Sequence[TokenisedPrompt]) -> list[list[float]]:
    """Return log-probabilities from a separate forward pass for each prompt."""
    logits: dict[tuple[int, ...], torch.Tensor] = {}
    for prompt in prompts:
        context = tuple(prompt.context)
        if context not in logits:
            logits[context] = next_token_logprobs(loaded, context)[-1]
    return [[logits[tuple(prompt.context)][label].item() for label in prompt.labels] for prompt in prompts]


def unique_tokens(prompts: Sequence[TokenisedPrompt]) -> int:
    """Count the nodes of the prompts' trie as the set of all prefixes."""
    return len({tuple(prompt.context[:end]) for prompt in prompts for end in range(1, len(prompt.context) + 1)})


def largest_difference(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> float:
    return max(abs(a - b) for left, right in zip(one, other, strict=True) for a, b in zip(left, right, strict=True))

"""Facts about types of models, without torch: whether their prompts can form a token trie, and their memory."""

from typing import Any, Final

TRIE_TYPES: Final = (
    "apertus",
    "arcee",
    "cohere",
    "ernie4_5",
    "exaone4",
    "gemma",
    "gemma2",
    "gemma3_text",
    "glm",
    "glm4",
    "gpt2",
    "gpt_neox",
    "granite",
    "helium",
    "hunyuan_v1_dense",
    "llama",
    "ministral",
    "mistral",
    "mixtral",
    "nemotron",
    "olmo",
    "olmo2",
    "olmo3",
    "opt",
    "phi",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "seed_oss",
    "smollm3",
    "stablelm",
    "starcoder2",
)
"""Types of models whose tries the tests compare with the reference; all others are scored in batches."""


WEIGHTS_SHARE: Final = 0.85
"""Share of a GPU's free memory that weights may take: keys and values need the rest."""


def why_no_trie(configuration: Any) -> str | None:
    """Return why a model's prompts cannot be scored as a trie; None if they can. configuration: transformers' own."""
    config = configuration.get_text_config()
    if config is not configuration:
        return "it is more than a language model"
    if config.model_type not in TRIE_TYPES:
        return f"models of type {config.model_type!r} have not been compared with the reference"
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = {value.get("rope_type") for value in (rope, *rope.values()) if isinstance(value, dict)}
    if kinds & {"dynamic", "longrope"}:
        return "its rotary embedding depends on the length of the text"
    others = set(getattr(config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"}
    if others:
        return f"it has layers of the type {', '.join(sorted(others))}"
    if getattr(config, "use_bidirectional_attention", False):
        return "its tokens attend to later ones"
    return None

"""Adapters: scores equal PEFT's own forward pass, and adapters for which they would not are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine.tiny import as_loaded, largest_difference, random_model, random_prompts, reference
from tests.support.adapters import peft_itself, save_adapter, train_adapter
from workers.engine import Adapter, EngineError, TrieEngine, load_model, open_engine
from workers.engine.adapters import CONFIG, WEIGHTS, AdapterFiles, has_adapter
from workers.engine.products import onednn_serves

TOKENS = torch.tensor([[3, 50, 7, 90, 21, 22, 5, 8]])
PROMPTS = random_prompts(5)
CLOSE = 1e-4
ONEDNN = onednn_serves(torch.device("cpu"), torch.float32)

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("llama", {}),
    "scaled by the square root of the rank": ("llama", {"use_rslora": True}),
    "with magnitudes (DoRA)": ("llama", {"use_dora": True}),
    "of several ranks and scales": (
        "llama",
        {"rank_pattern": {"v_proj": 2}, "alpha_pattern": {"layers.1.self_attn.q_proj": 3, "down_proj": 24}},
    ),
    "of every linear layer": ("qwen2", {"target_modules": "all-linear"}),
    "of some layers": ("llama", {"layers_to_transform": [0, 2]}),
    "of layers that hold their weights the other way round": (
        "gpt2",
        {"target_modules": ["c_attn"], "fan_in_fan_out": True},
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return made(type, **options), which returns the folder of an adapter of a tiny model, the same one each time."""
    folders: dict[str, Path] = {}

    def make(model_type: str = "llama", **options: Any) -> Path:
        key = repr((model_type, options))
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp("adapter")
            save_adapter(folders[key], random_model(model_type), TOKENS, **options)
        return folders[key]

    return make


@pytest.fixture
def copied(made: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Return copied(**options), which returns the plain adapter with other options in its configuration."""

    def copy(**options: Any) -> Path:
        source = made()
        config = json.loads((source / CONFIG).read_text()) | options
        (tmp_path / CONFIG).write_text(json.dumps(config))
        (tmp_path / WEIGHTS).write_bytes((source / WEIGHTS).read_bytes())
        return tmp_path

    return copy


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_scores_by_the_trie_as_in_peft_itself(made: Callable[..., Path], kind: str, merged: bool) -> None:
    model_type, options = KINDS[kind]
    folder = made(model_type, **options)
    expected = reference(as_loaded(peft_itself(random_model(model_type), folder)), PROMPTS)
    model = AdapterFiles(folder).apply_to(random_model(model_type), merged=merged)
    assert has_adapter(model) is not merged
    for canonical in (None, False):
        engine = TrieEngine(as_loaded(model), canonical=canonical)
        assert engine.canonical is (canonical is None and ONEDNN)
        assert largest_difference(engine.score_tokens(PROMPTS).logprobs, expected) < CLOSE
    without = reference(as_loaded(random_model(model_type)), PROMPTS)
    assert largest_difference(without, expected) > 100 * CLOSE


def test_merging_rounds_in_low_precision_and_computing_beside_does_not(made: Callable[..., Path]) -> None:
    folder = made()
    differences = []
    for merged in (False, True):
        model = AdapterFiles(folder).apply_to(random_model("llama", torch.bfloat16), merged=merged)
        own = peft_itself(random_model("llama", torch.bfloat16), folder)
        own = own.merge_and_unload() if merged else own
        differences.append(reference(as_loaded(model), PROMPTS))
        assert differences[-1] == reference(as_loaded(own), PROMPTS)
    assert differences[0] != differences[1]


def test_the_weights_of_an_unmerged_adapter_are_not_quantised(made: Callable[..., Path], tiny_folder: Path) -> None:
    folder = train_adapter(made().parent / "of_tiny", tiny_folder)
    loaded = load_model(
        tiny_folder, quantisation="int8-weight-only", device="cpu", adapter=Adapter(folder, merged=False)
    )
    layer = loaded.model.model.layers[0].self_attn.q_proj
    assert type(layer.lora_A["default"].weight.detach()) is torch.Tensor
    assert type(layer.base_layer.weight.detach()) is not torch.Tensor
    assert open_engine(loaded).settings()["canonical"] is False


def with_weights(change: Callable[[dict[str, torch.Tensor]], None]) -> Callable[..., Path]:
    def make(copied: Callable[..., Path]) -> Path:
        folder = copied()
        tensors = load_file(folder / WEIGHTS)
        change(tensors)
        save_file(tensors, folder / WEIGHTS)
        return folder

    return make


def with_text(name: str, text: bytes) -> Callable[..., Path]:
    def make(copied: Callable[..., Path]) -> Path:
        folder = copied()
        (folder / name).write_bytes(text)
        return folder

    return make


def with_options(**options: Any) -> Callable[..., Path]:
    return lambda copied: copied(**options)


QUERY = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"

REFUSED: dict[str, tuple[Callable[..., Path], str]] = {
    "prompt tuning": (with_options(peft_type="PROMPT_TUNING"), "'PROMPT_TUNING'; only LORA .* virtual tokens"),
    "another kind of adapter": (with_options(peft_type="IA3"), "'IA3'; only LORA .* merge it with PEFT"),
    "no kind": (with_options(peft_type=None), "'None'; only LORA"),
    "a classifier": (with_options(task_type="SEQ_CLS"), "'SEQ_CLS'; only CAUSAL_LM"),
    "modules trained whole": (
        with_options(modules_to_save=["lm_head"]),
        "'modules_to_save': it replaces whole modules",
    ),
    "new tokens": (with_options(trainable_token_indices=[3]), "'trainable_token_indices': it changes embeddings"),
    "biases": (with_options(bias="all"), "'bias': it changes the base's biases"),
    "a base that was changed first": (
        with_options(init_lora_weights="pissa_niter_4"),
        "'pissa_niter_4', which changes",
    ),
    "an option of a later PEFT": (with_options(use_magic=True), "'use_magic': this version does not know"),
    "a pattern that is run": (with_options(alpha_pattern={"(a+)+$": 3}), "a pattern in alpha_pattern, '\\(a"),
    "a scale that is not a number": (
        with_options(lora_alpha=float("nan")),
        "lora_alpha='nan' .* not a positive number",
    ),
    "a scale beyond all numbers": (with_options(lora_alpha=10**400), "lora_alpha='1000.* not a positive number"),
    "a rank that is a text": (with_options(r="four"), "r='four' .* not a positive number"),
    "a flag that is a text": (with_options(use_dora="yes"), "use_dora='yes' .* not a bool"),
    "another rank": (with_options(r=2), "weights of rank 4 and r=2"),
    "magnitudes that are not there": (with_options(use_dora=True), "has not the matrices of"),
    "modules without weights": (
        with_options(target_modules=["q_proj", "v_proj", "up_proj"]),
        "names 'up_proj' .* no weights",
    ),
    "a configuration that is not JSON": (with_text(CONFIG, b"{"), "not valid JSON"),
    "a configuration nested without end": (with_text(CONFIG, b"[" * 100_000), "not valid JSON"),
    "a configuration without end": (with_text(CONFIG, b" " * (2 << 20)), "at most 1024 KiB"),
    "weights that are none": (with_text(WEIGHTS, b"PK"), "cannot be read as safetensors"),
    "no weights": (with_weights(dict.clear), "holds no weights"),
    "half a pair": (with_weights(lambda tensors: tensors.pop(QUERY)), "has not the matrices of model.layers.0"),
    "embeddings": (
        with_weights(lambda tensors: tensors.update({"base_model.model.model.embed_tokens.weight": torch.ones(2)})),
        "embeddings or the vocabulary",
    ),
    "a module that the base has not": (
        with_weights(
            lambda tensors: tensors.update(
                {
                    "base_model.model.model.layers.9.mlp.up_proj.lora_A.weight": torch.ones(4, 32),
                    "base_model.model.model.layers.9.mlp.up_proj.lora_B.weight": torch.ones(48, 4),
                }
            )
        ),
        "adapts model.layers.9.mlp.up_proj, which the base has not",
    ),
    "the vocabulary's head": (
        with_weights(
            lambda tensors: tensors.update(
                {
                    "base_model.model.lm_head.lora_A.weight": torch.ones(4, 32),
                    "base_model.model.lm_head.lora_B.weight": torch.ones(97, 4),
                }
            )
        ),
        "adapts lm_head, .* merge it with PEFT",
    ),
    "a norm": (
        with_weights(
            lambda tensors: tensors.update(
                {
                    "base_model.model.model.norm.lora_A.weight": torch.ones(4, 32),
                    "base_model.model.model.norm.lora_B.weight": torch.ones(32, 4),
                }
            )
        ),
        "not a linear layer but LlamaRMSNorm",
    ),
    "a base of another shape": (
        with_weights(lambda tensors: tensors.update({QUERY: torch.ones(4, 64)})),
        "A 4 × 64, B 32 × 4, and the base needs A 4 × 32",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_an_adapter_that_would_not_score_right_is_refused_with_the_reason(
    copied: Callable[..., Path], why: str
) -> None:
    make, message = REFUSED[why]
    folder = make(copied)
    model = random_model("llama")
    with pytest.raises(EngineError, match=message):
        AdapterFiles(folder).check(model)


def test_merging_what_is_not_a_number_is_refused(copied: Callable[..., Path]) -> None:
    folder = with_weights(lambda tensors: tensors.update({QUERY: torch.full((4, 32), torch.nan)}))(copied)
    with pytest.raises(EngineError, match="cannot be merged"):
        AdapterFiles(folder).apply_to(random_model("llama"), merged=True)

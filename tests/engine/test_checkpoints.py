"""Quantised checkpoints: the loaded weights are exactly those in the file, and unreadable files are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from registry.revisions.store import RevisionRequest
from registry.tables import Model, ModelRevision
from tests.engine.tiny import as_loaded, largest_difference, random_model, random_prompts, reference
from tests.engine.tokenizers import tokenizer_of_kind
from workers import checkpoints
from workers.artifacts import inspect_files
from workers.checkpoints import quantisation_of
from workers.engine import EngineError, TrieEngine, load_model
from workers.engine.products import onednn_serves

WIDE = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16}
FOUR_BITS = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
"""The numbers that four bits of MXFP4 represent."""

Tensors = dict[str, torch.Tensor]
Rewrite = Callable[[str, torch.Tensor], tuple[Tensors, torch.Tensor]]


def as_fp8(name: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Return 8-bit floats with a scale for each block of 32 by 32."""
    blocks = weight.unfold(0, 32, 32).unfold(1, 32, 32)
    scale = blocks.abs().amax((-1, -2)) / 448
    spread = scale.repeat_interleave(32, 0).repeat_interleave(32, 1)
    stored = (weight / spread).to(torch.float8_e4m3fn)
    return {name: stored, f"{name}_scale_inv": scale}, stored.float() * spread


def as_int8(name: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Return 8-bit integers with a scale for each output."""
    scale = weight.abs().amax(1, keepdim=True) / 127
    stored = (weight / scale).round().to(torch.int8)
    return {name: stored, f"{name}_scale": scale}, stored.float() * scale


def as_int4(name: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Return 4-bit integers, eight in a word of 32 bits, with a scale for each 32 inputs."""
    outputs, inputs = weight.shape
    groups = weight.reshape(outputs, inputs // 32, 32)
    scale = groups.abs().amax(-1) / 7
    places = (groups / scale[..., None]).round()
    words = (places + 8).to(torch.int64).reshape(outputs, inputs // 8, 8)
    packed = (words << (4 * torch.arange(8))).sum(-1)
    packed = torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)
    stored = {f"{name}_packed": packed, f"{name}_scale": scale, f"{name}_shape": torch.tensor(weight.shape)}
    return stored, (places * scale[..., None]).reshape(outputs, inputs)


def as_mxfp4(name: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Return experts' 4-bit floats, two in a byte, with a power of two for each 32 inputs."""
    experts, inputs, outputs = weight.shape
    groups = weight.transpose(1, 2).reshape(experts, outputs, inputs // 32, 32)
    exponent = torch.ceil(torch.log2(groups.abs().amax(-1) / 6))
    scale = (2**exponent)[..., None]
    places = ((groups / scale)[..., None] - FOUR_BITS).abs().argmin(-1).to(torch.uint8)
    stored = {
        f"{name}_blocks": (places[..., 0::2] | (places[..., 1::2] << 4)).contiguous(),
        f"{name}_scales": (exponent + 127).to(torch.uint8),
    }
    exact = (FOUR_BITS[places.long()] * scale).reshape(experts, outputs, inputs).transpose(1, 2)
    return stored, exact


SCHEME = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False}


def compress(scheme: dict[str, Any], layout: str) -> dict[str, Any]:
    """Return the options of compressed-tensors for all linear layers except the head."""
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"all": {"targets": ["Linear"], "weights": scheme, "format": layout}},
        "format": layout,
        "ignore": ["lm_head"],
        "quantization_status": "compressed",
        "sparsity_config": {},
        "transform_config": {},
    }


FORMATS: dict[str, tuple[str, dict[str, Any], str, Rewrite, dict[str, Any]]] = {
    "fp8": ("llama", {}, "_proj.weight", as_fp8, {"weight_block_size": [32, 32], "activation_scheme": "dynamic"}),
    "compressed-tensors": ("llama", {}, "_proj.weight", as_int8, compress(SCHEME, "int-quantized")),
    "compressed-tensors, 4 bits": (
        "llama",
        {},
        "_proj.weight",
        as_int4,
        compress(SCHEME | {"num_bits": 4, "strategy": "group", "group_size": 32}, "pack-quantized"),
    ),
    "mxfp4": (
        "gpt_oss",
        {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 9},
        "_proj",
        as_mxfp4,
        {"modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
    ),
}


def write_quantised_folder(folder: Path, method: str, **changes: Any) -> Tensors:
    """Write a tiny checkpoint; return the values of its quantised weights, by name."""
    model_type, own, ending, rewrite, options = FORMATS[method]
    tokenizer = tokenizer_of_kind("llama3")
    random_model(model_type, vocab_size=len(tokenizer), **WIDE, **own).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    stored, exact = {}, {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if name.endswith(ending):
            parts, exact[name] = rewrite(name, tensor)
            stored |= parts
        else:
            stored[name] = tensor
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    configure(folder, {"quant_method": method} | options | changes)
    return exact


def configure(folder: Path, quantisation: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": quantisation}))


@pytest.mark.parametrize("method", FORMATS)
def test_the_weights_are_exactly_those_that_the_file_stands_for(tmp_path: Path, method: str) -> None:
    exact = write_quantised_folder(tmp_path, method)
    loaded = load_model(tmp_path, device="cpu")
    assert loaded.quantisation == f"{method.partition(',')[0]}, dequantised"
    weights = loaded.model.state_dict()
    assert exact
    for name, weight in exact.items():
        assert torch.equal(weights[name], weight), name
    if method == "mxfp4":  # of a type that is scored in batches
        return
    engine = TrieEngine(as_loaded(loaded.model))
    prompts = random_prompts(3, 8)
    assert largest_difference(engine.score_tokens(prompts).logprobs, reference(as_loaded(loaded.model), prompts)) < 1e-4
    assert engine.canonical is onednn_serves(torch.device("cpu"), torch.float32)


REFUSED: dict[str, tuple[Any, str]] = {
    "GPTQ": ({"quant_method": "gptq", "bits": 4}, "quantised by gptq, which only kernels of gptqmodel read.*vLLM"),
    "AWQ": ({"quant_method": "awq", "bits": 4}, "quantised by awq, which only kernels of gptqmodel read.*vLLM"),
    "another method": ({"quant_method": "hqq"}, "quantised by 'hqq', which cannot be dequantised.*as bitsandbytes"),
    "no method": ({"bits": 4}, "quantised by 'None'"),
    "a method that is not a name": ({"quant_method": ["fp8"]}, "quantised by \"\\['fp8'\\]\""),
    "rotated weights": (
        {"quant_method": "compressed-tensors", "transform_config": {"config_groups": {"u": {}}}},
        "rotated besides",
    ),
    "sparse weights": (
        {"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24-bitmask"}},
        "sparse besides",
    ),
    "a package that is not installed": (
        {"load_in_4bit": True},
        "package bitsandbytes reads; .*pip install bitsandbytes",
    ),
    "options that are none": (["fp8"], "is not an object"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_read_is_refused_with_the_reason_and_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    options, message = REFUSED[why]
    monkeypatch.setattr(checkpoints, "find_spec", lambda name: None if name == "bitsandbytes" else name)
    (tmp_path / "config.json").write_text("{}")
    configure(tmp_path, options)
    with pytest.raises(EngineError, match=message):
        quantisation_of(tmp_path)


def test_weights_that_the_files_lack_are_not_drawn_at_random(tmp_path: Path) -> None:
    write_quantised_folder(tmp_path, "fp8")
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["model.layers.1.input_layernorm.weight"]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EngineError, match="not those of the model in its config"):
        load_model(tmp_path, device="cpu")


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlanguage: en\nlicense: apache-2.0\n---\n# A model\nlicense: mit\n", "apache-2.0"),
        ("---\r\nlicense: other\r\nlicense_name: 'tongyi-qianwen'\r\n---\r\n", "tongyi-qianwen"),
        ("---\nlicense: other\n---\n", None),
        ("---\nlicense:\n- mit\n- gpl\n---\n", None),
        ("license: mit\n", None),
        (None, None),
    ],
)
def test_a_folder_tells_its_models_parameters_and_its_card_the_licence(
    tmp_path: Path, tiny_folder: Path, card: str | None, licence: str | None
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    if card is not None:
        (folder / "README.md").write_text(card, newline="")
    files = inspect_files(RevisionRequest("huggingface", str(folder)).checked())
    weights = load_file(folder / "model.safetensors")
    assert (files.parameters, files.licence) == (sum(tensor.numel() for tensor in weights.values()), licence)
    model = Model(name="m", parameters=7)
    files.record(ModelRevision(model=model))
    assert (model.parameters, model.licence) == (7, licence), "what was given by hand stays"


def test_what_is_quantised_is_not_quantised_again(tmp_path: Path) -> None:
    write_quantised_folder(tmp_path, "fp8")
    with pytest.raises(EngineError, match="quantised by fp8 already"):
        load_model(tmp_path, device="cpu", quantisation="int8-weight-only")


def test_weights_in_their_files_precision_are_shared_by_a_hosts_workers(
    tiny_folder: Path,
) -> None:
    loaded = load_model(tiny_folder, device="cpu")
    mapped = [
        range(*(int(address, 16) for address in line.split(" ")[0].split("-")))
        for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        if line.endswith(f"{tiny_folder.name}/model.safetensors")
    ]
    assert all(any(weight.data_ptr() in pages for pages in mapped) for weight in loaded.model.parameters())

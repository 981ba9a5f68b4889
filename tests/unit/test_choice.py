"""The choice of a model's engine from its files, and the reason why no faster engine is possible."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from registry.tables import ModelRevision
from workers import choice
from workers.choice import Choice, Room, choices, classes_of, room, weights_bytes

LLAMA: dict[str, Any] = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}


def revision(folder: Path, config: dict[str, Any] | None = None, **columns: Any) -> Any:
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    stated = {"kind": "huggingface", "location": str(folder), "quantisation": None, "adapter_merged": None}
    return ModelRevision(**(stated | columns))


@pytest.mark.parametrize(
    ("more", "because"),
    [
        ({}, None),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, None),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "its rotary embedding depends on the length"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "its rotary embedding depends on the length"),
        ({"model_type": "mamba"}, "models of type 'mamba' have not been compared"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "it has layers of the type linear_attention"),
        ({"text_config": {"model_type": "llama"}}, "it is more than a language model"),
    ],
)
def test_on_a_cpu_the_trie_serves_what_it_was_compared_for(tmp_path: Path, more: Any, because: str | None) -> None:
    chosen = choices(revision(tmp_path, LLAMA | more), tmp_path)["cpu"]
    if because is None:
        assert chosen == Choice("token trie")
    else:
        assert chosen.engine == "batches"
        assert because in str(chosen)


@pytest.mark.parametrize(
    ("installed", "columns", "knows", "said"),
    [
        (None, {}, True, "batches, since vLLM is not installed on this host (pip install vllm)"),
        ("0.32.0", {}, True, "vLLM 0.32.0"),
        ("0.32.0", {}, False, "batches, since vLLM does not know LlamaForCausalLM"),
        ("0.32.0", {"quantisation": "int8"}, True, "batches, since it is quantised here, by int8"),
        ("0.32.0", {"adapter_merged": True}, True, "batches, since its adapter is merged into the weights here"),
    ],
)
def test_on_a_gpu_vllm_serves_what_it_knows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: str | None,
    columns: dict[str, Any],
    knows: bool,
    said: str,
) -> None:
    monkeypatch.setattr(choice, "vllm_version", lambda: installed)
    unknown = None if knows else "vLLM does not know LlamaForCausalLM"
    monkeypatch.setitem(sys.modules, "workers.engine.vllm_engine", SimpleNamespace(unknown_to_vllm=lambda _: unknown))
    assert str(choices(revision(tmp_path, LLAMA, **columns), tmp_path)["gpu"]) == said


def test_the_smallest_gpus_that_hold_the_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numpy import zeros
    from safetensors.numpy import save_file

    save_file({"a": zeros((256, 1024), "float16"), "b": zeros(1024, "float32")}, tmp_path / "model.safetensors")
    numbers = 256 * 1024 + 1024
    model = revision(tmp_path, LLAMA, dtype="bfloat16")
    assert weights_bytes(tmp_path, "float32") == 4 * numbers
    assert weights_bytes(tmp_path, "bfloat16") == 2 * numbers
    monkeypatch.setattr(choice, "weights_bytes", lambda *_: 8 * 10**9 * 2)
    assert room(model, tmp_path) == Room(14.9, "gpu-24")
    monkeypatch.setattr(choice, "weights_bytes", lambda *_: 405 * 10**9 * 2)
    assert room(model, tmp_path).smallest is None
    assert room(revision(tmp_path, location=f"{tmp_path}/gone"), tmp_path) == Room()


@pytest.mark.parametrize(
    ("gib", "served"),
    [
        (0, []),
        (14.6, ["gpu-16"]),
        (39.4, ["gpu-16", "gpu-24", "gpu-40"]),
        (79.1, ["gpu-16", "gpu-24", "gpu-40", "gpu-80"]),
    ],
)
def test_a_gpu_serves_the_classes_that_its_memory_is_enough_for(gib: float, served: list[str]) -> None:
    assert classes_of(int(gib * 2**30)) == served


def test_where_nothing_can_be_told_it_says_why(tmp_path: Path) -> None:
    models = {
        "its server": revision(tmp_path, kind="openai"),
        "unknown: its outputs were imported, and it cannot be asked": revision(tmp_path, kind="external"),
        f"unknown: {tmp_path}/gone: the model's files are not on this machine": revision(
            tmp_path, location=f"{tmp_path}/gone"
        ),
        "unknown: its file is converted when it is first scored": revision(
            tmp_path, kind="gguf", location=str(tmp_path / "model.gguf")
        ),
    }
    (tmp_path / "model.gguf").touch()
    for reason, model in models.items():
        assert {str(chosen) for chosen in choices(model, tmp_path).values()} == {reason}

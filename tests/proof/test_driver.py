"""The properties of a host that are part of a GPU engine's identity."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from workers.asking import LocalModel
from workers.fingerprint import driver_version


def test_the_driver_is_what_the_kernel_says(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("550.54.15\n")
    assert driver_version(tmp_path / "version") == "550.54.15"
    assert driver_version(tmp_path / "none") is None


def test_what_computes_nothing_on_a_gpu_makes_no_evaluation_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H100")
    loaded = SimpleNamespace(adapter=None, dtype="bfloat16", quantisation=None, device=SimpleNamespace(type="cuda"))
    settings = LocalModel(loaded, SimpleNamespace(settings=lambda: {"engine": "vllm"})).settings({})
    assert settings["device"] == "NVIDIA H100"
    assert not {"threads", "cpu_capability", "driver"} & settings.keys()
